//! Output to a standard output whose reader may be gone, as in `quoit config describe | head`.

use std::fmt::Arguments;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, Ordering};

static LOST: AtomicBool = AtomicBool::new(false);
static GONE: AtomicBool = AtomicBool::new(false);

/// Prints a line. Ignores that the reader is gone ([`is_gone`]); [`is_lost`] reports other failures.
pub fn line(text: Arguments<'_>) {
    note(writeln!(io::stdout().lock(), "{text}"));
}

/// Prints bytes unchanged; failures are handled as in [`line`].
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

/// True if the reader of the output is gone, so that further output is pointless.
#[must_use]
pub fn is_gone() -> bool {
    GONE.load(Ordering::Relaxed)
}

/// True if output was lost although it has a reader, for example because the disk is full.
#[must_use]
pub fn is_lost() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Prints a line like `println!`, but does not panic if the reader is gone.
#[macro_export]
macro_rules! say {
    ($($words:tt)*) => {
        $crate::output::line(format_args!($($words)*))
    };
}
