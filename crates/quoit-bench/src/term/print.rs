//! Printing of terms in Erlang syntax, so that parsing the text gives the same term.

use std::fmt::{self, Display, Formatter, Write};

use super::Term;

/// Reserved words of the language. An atom with such a name needs quotes.
pub(super) const RESERVED_WORDS: [&str; 29] = [
    "after", "and", "andalso", "band", "begin", "bnot", "bor", "bsl", "bsr", "bxor", "case",
    "catch", "cond", "div", "else", "end", "fun", "if", "let", "maybe", "not", "of", "or",
    "orelse", "receive", "rem", "try", "when", "xor",
];

impl Display for Term {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "{value}"),
            Self::Float(value) => f.write_str(&float_text(*value)),
            Self::Atom(name) if is_plain_atom(name) => f.write_str(name),
            Self::Atom(name) => write_quoted(f, name, '\''),
            Self::String(text) => write_quoted(f, text, '"'),
            Self::Binary(bytes) => write_binary(f, bytes),
            Self::Tuple(elements) => write_sequence(f, "{", elements, "}"),
            Self::List(elements) => write_sequence(f, "[", elements, "]"),
            Self::ImproperList(elements, tail) => {
                write_sequence(f, "[", elements, "|")?;
                write!(f, "{tail}]")
            }
            Self::Map(pairs) => {
                f.write_str("#{")?;
                for (index, (key, value)) in pairs.iter().enumerate() {
                    let separator = if index == 0 { "" } else { "," };
                    write!(f, "{separator}{key} => {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

/// The shortest text that reads back as `value`. It has digits on both sides of the point, as Erlang
/// requires.
pub fn float_text(value: f64) -> String {
    let text = format!("{value:?}");
    match text.split_once('e') {
        Some((digits, exponent)) if !digits.contains('.') => format!("{digits}.0e{exponent}"),
        _ => text,
    }
}

fn is_plain_atom(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '@')
        && !RESERVED_WORDS.contains(&name)
}

fn write_quoted(f: &mut Formatter<'_>, text: &str, quote: char) -> fmt::Result {
    f.write_char(quote)?;
    for c in text.chars() {
        match c {
            '\\' => f.write_str("\\\\")?,
            '\n' => f.write_str("\\n")?,
            '\r' => f.write_str("\\r")?,
            '\t' => f.write_str("\\t")?,
            c if c == quote => write!(f, "\\{c}")?,
            ' '..='~' => f.write_char(c)?,
            c if c.is_control() => write!(f, "\\x{{{:x}}}", u32::from(c))?,
            c => f.write_char(c)?,
        }
    }
    f.write_char(quote)
}

fn write_binary(f: &mut Formatter<'_>, bytes: &[u8]) -> fmt::Result {
    f.write_str("<<")?;
    if !bytes.is_empty() && bytes.iter().all(|byte| (b' '..=b'~').contains(byte)) {
        let text: String = bytes.iter().copied().map(char::from).collect();
        write_quoted(f, &text, '"')?;
    } else {
        for (index, byte) in bytes.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{byte}")?;
        }
    }
    f.write_str(">>")
}

fn write_sequence(
    f: &mut Formatter<'_>,
    open: &str,
    elements: &[Term],
    close: &str,
) -> fmt::Result {
    f.write_str(open)?;
    for (index, element) in elements.iter().enumerate() {
        if index > 0 {
            f.write_str(",")?;
        }
        Display::fmt(element, f)?;
    }
    f.write_str(close)
}
