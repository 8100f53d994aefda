//! Standard output that may have lost its reader, as in `quoit config describe | head`.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static LOST: AtomicBool = AtomicBool::new(false);
static GONE: AtomicBool = AtomicBool::new(false);

/// Prints a line. A reader that is gone does not mind; other failures are told by [`is_lost`].
pub fn line(text: Arguments<'_>) {
    note(writeln!(io::stdout().lock(), "{text}"));
}

/// Prints bytes as they are, as [`line`] does.
pub fn bytes(bytes: &[u8]) {
    let mut out = io::stdout().lock();
    note(out.write_all(bytes).and_then(|()| out.flush()));
}

fn note(written: io::Result<()>) {
    match written {
        Err(fault) if fault.kind() == ErrorKind::BrokenPipe => GONE.store(true, Ordering::Relaxed),
        Err(_) => LOST.store(true, Ordering::Relaxed),
        Ok(()) => {}
    }
}

/// Whether the reader of the output is gone, so that nothing more needs to be said.
#[must_use]
pub fn is_gone() -> bool {
    GONE.load(Ordering::Relaxed)
}

/// Whether output was lost for which there was a reader, for example because a disk is full.
#[must_use]
pub fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Prints a line as `println!` does, and does not panic when the reader has gone.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::output::line(format_args!($($words)*))
    };
}
