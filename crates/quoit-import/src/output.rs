//! Output: results go to standard output, notes to standard error.

use std::fmt::Arguments;
use std::io::Write;

/// Prints a line. A closed pipe is not an error.
pub(crate) fn line(text: Arguments<'_>) {
    let _ = writeln!(std::io::stdout().lock(), "{text}");
}

/// Prints a note for the operator.
pub(crate) fn note(text: Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

/// Prints a line as `println!` does, but does not panic on a closed pipe.
macro_rules! say {
    ($($words:tt)*) => {
        $crate::output::line(format_args!($($words)*))
    };
}
pub(crate) use say;

/// Formats a name as text. A name that is not printable text is escaped.
pub(crate) fn shown(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => name.escape_ascii().to_string(),
    }
}
