//! Output: results on the standard output, notes on the standard error.

use std::fmt::Arguments;
use std::io::Write;

/// Prints a line. A reader that has gone is no fault of the import.
pub(crate) fn line(text: Arguments<'_>) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints a line for the operator beside the result.
pub(crate) fn note(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a line as `println!` does, and does not panic when the reader has gone.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::output::line(format_args!($($words)*))
    };
}
pub(crate) use say;

/// Bytes of a name as text; what is no text is escaped.
pub(crate) fn shown(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => name.escape_ascii().to_string(),
    }
}
