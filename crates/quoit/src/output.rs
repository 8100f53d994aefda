//! Standard output that may have lost its reader, as in `quoit config describe | head`.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static LOST: AtomicBool = AtomicBool::new(false);

/// Prints a line. A reader that is gone does not mind; other failures are told by [`is_lost`].
pub(crate) fn line(text: Arguments<'_>) {
    if let Err(fault) = writeln!(io::stdout().lock(), "{text}")
        && fault.kind() != ErrorKind::BrokenPipe
    {
        LOST.store(true, Ordering::Relaxed);
    }
}

/// Whether output was lost for which there was a reader, for example because a disk is full.
pub(crate) fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Prints a line as `println!` does, and does not panic when nobody reads it.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::output::line(format_args!($($words)*))
    };
}
pub(crate) use say;
