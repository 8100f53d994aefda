//! Erlang's format strings, for arguments that are integers, strings or binaries.

use std::io::Write as _;

use thiserror::Error;

use super::{Key, KeyKind};
use crate::term::Term;

/// Maximum width and precision, which bound the length of a key.
const WIDTH_MAX: i64 = 65_536;

/// Reasons why a text is not a format string for its arguments.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// A directive is unknown or does not fit its argument.
    #[error("the directive `{directive}` cannot print {argument}: {remedy}")]
    Directive {
        /// The directive, beginning with `~`.
        directive: String,
        /// Kind of the argument.
        argument: &'static str,
        /// The alternative.
        remedy: &'static str,
    },
    /// The number of directives that take an argument differs from the number of arguments.
    #[error(
        "the format takes {taken} values and is given {given}: write a directive such as ~w or ~s \
         for each"
    )]
    ArgumentCount {
        /// Number of directives that take an argument.
        taken: usize,
        /// Number of arguments.
        given: usize,
    },
    /// A width, precision or base is out of range.
    #[error("`{0}` is too wide: widths and precisions go up to 65536, a base from 2 to 36")]
    Width(String),
}

/// A format string and the kinds of its arguments.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Format {
    pieces: Vec<Piece>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(Vec<u8>),
    Value(Directive, KeyKind),
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Directive {
    /// Width of the field.
    width: Option<usize>,
    is_left: bool,
    precision: Option<usize>,
    pad: u8,
    code: char,
}

impl Format {
    /// Parses a format string for arguments of these kinds.
    ///
    /// # Errors
    ///
    /// When a directive is unknown or does not fit its argument, or the numbers of directives and arguments
    /// differ.
    pub fn parse(text: &str, kinds: &[KeyKind]) -> Result<Self, FormatError> {
        let mut taken = 0;
        let mut pieces = Vec::new();
        let mut literal = Vec::new();
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            if c != '~' {
                push_char(&mut literal, c);
                continue;
            }
            let mut shown = String::from("~");
            let directive = read_directive(&mut chars, &mut shown)?;
            match directive.code {
                'n' => literal.push(b'\n'),
                '~' => literal.push(b'~'),
                _ => {
                    if let Some(kind) = kinds.get(taken) {
                        directive.check(*kind, &shown)?;
                        pieces.push(Piece::Text(std::mem::take(&mut literal)));
                        pieces.push(Piece::Value(directive, *kind));
                    }
                    taken += 1;
                }
            }
        }
        pieces.push(Piece::Text(literal));
        match kinds.len() {
            given if given == taken => Ok(Self { pieces }),
            given => Err(FormatError::ArgumentCount { taken, given }),
        }
    }

    /// Appends the formatted text. `keys` must be of the kinds that the format was parsed for.
    pub(crate) fn write(&self, keys: &[Key], out: &mut Vec<u8>) {
        let mut keys = keys.iter();
        for piece in &self.pieces {
            match piece {
                Piece::Text(text) => out.extend_from_slice(text),
                Piece::Value(directive, kind) => {
                    let key = keys.next().expect("there is a key for each directive");
                    directive.write(*kind, key, out);
                }
            }
        }
    }
}

fn push_char(bytes: &mut Vec<u8>, c: char) {
    match u8::try_from(u32::from(c)) {
        Ok(byte) => bytes.push(byte),
        Err(_) => bytes.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
    }
}

/// Parses a directive `~F.P.PadC` after its `~`. `shown` collects its text for error messages.
fn read_directive(
    chars: &mut std::iter::Peekable<std::str::Chars<'_>>,
    shown: &mut String,
) -> Result<Directive, FormatError> {
    let mut number = |chars: &mut std::iter::Peekable<std::str::Chars<'_>>| {
        let mut digits = String::new();
        while let Some(c) = chars.next_if(|c| c.is_ascii_digit() || *c == '-') {
            digits.push(c);
        }
        shown.push_str(&digits);
        let has_point = chars.next_if_eq(&'.').is_some();
        if has_point {
            shown.push('.');
        }
        let value = if digits.is_empty() {
            None
        } else {
            let value = digits.parse().ok().filter(|value: &i64| value.abs() <= WIDTH_MAX);
            Some(value.ok_or_else(|| FormatError::Width(shown.clone()))?)
        };
        Ok((value, has_point))
    };
    let (width, has_point) = number(chars)?;
    let (precision, has_point) = if has_point { number(chars)? } else { (None, false) };
    let pad = if has_point { chars.next() } else { None };
    shown.extend(pad);
    let mut code = chars.next();
    if code == Some('t') {
        shown.push('t');
        code = chars.next();
    }
    shown.extend(code);
    let to_size = |value: i64| usize::try_from(value.unsigned_abs()).unwrap_or(0);
    Ok(Directive {
        width: width.map(to_size),
        is_left: width.is_some_and(|width| width < 0),
        precision: precision.map(to_size),
        pad: pad.and_then(|c| u8::try_from(u32::from(c)).ok()).unwrap_or(b' '),
        code: code.unwrap_or(' '),
    })
}

impl Directive {
    fn check(&self, kind: KeyKind, shown: &str) -> Result<(), FormatError> {
        let argument = match kind {
            KeyKind::Integer => "an integer",
            KeyKind::String => "a string",
            KeyKind::Binary => "a binary",
        };
        let remedy = match (self.code, kind) {
            ('w' | 'p', _) | ('b' | 'B' | 'c', KeyKind::Integer) => {
                let base = self.precision.unwrap_or(10);
                return match self.code {
                    'b' | 'B' if !(2..=36).contains(&base) => {
                        Err(FormatError::Width(shown.to_owned()))
                    }
                    _ => Ok(()),
                };
            }
            ('s', KeyKind::String | KeyKind::Binary) => return Ok(()),
            ('s', KeyKind::Integer) => "write ~w, or ~B for a base and padding",
            ('b' | 'B' | 'c', _) => "write ~s",
            ('e' | 'f' | 'g', _) => "it prints floats, which no key generator gives",
            _ => "known ones are ~w ~p ~B ~b ~s ~c ~n ~~",
        };
        Err(FormatError::Directive { directive: shown.to_owned(), argument, remedy })
    }

    fn write(&self, kind: KeyKind, key: &Key, out: &mut Vec<u8>) {
        match self.code {
            'b' | 'B' => {
                let text = in_base(key.integer(), self.precision.unwrap_or(10), self.code == 'B');
                self.write_field(&text, out);
            }
            'c' => {
                let count = self.precision.or(self.width).unwrap_or(1);
                let mut text = Vec::new();
                let code = u32::try_from(key.integer()).ok().and_then(char::from_u32);
                (0..count).for_each(|_| push_char(&mut text, code.unwrap_or('?')));
                self.write_field(&text, out);
            }
            's' => self.write_string(key.bytes(), out),
            _ if kind == KeyKind::Integer => {
                let mut text = Vec::new();
                super::text::write_decimal(&mut text, key.integer());
                self.write_field(&text, out);
            }
            code => self.write_field(&as_term(kind, key.bytes(), code == 'p'), out),
        }
    }

    /// Writes a string, cut to its precision and its width. A number that is too long becomes asterisks
    /// instead.
    fn write_string(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let precision = self.precision.or(self.width).unwrap_or(bytes.len());
        let cut = bytes.get(..precision).unwrap_or(bytes);
        let width = self.width.unwrap_or(precision);
        let cut = cut.get(..width).unwrap_or(cut);
        self.pad_to(cut, width, out);
    }

    fn write_field(&self, text: &[u8], out: &mut Vec<u8>) {
        match self.width {
            None => out.extend_from_slice(text),
            Some(width) if text.len() > width => out.extend(std::iter::repeat_n(b'*', width)),
            Some(width) => self.pad_to(text, width, out),
        }
    }

    fn pad_to(&self, text: &[u8], width: usize, out: &mut Vec<u8>) {
        let padding = std::iter::repeat_n(self.pad, width.saturating_sub(text.len()));
        if self.is_left {
            out.extend_from_slice(text);
            out.extend(padding);
        } else {
            out.extend(padding);
            out.extend_from_slice(text);
        }
    }
}

/// A string or binary as an Erlang term; `~w` shows a string as a list of its character codes.
fn as_term(kind: KeyKind, bytes: &[u8], is_pretty: bool) -> Vec<u8> {
    let mut text = Vec::new();
    let codes = || bytes.iter().map(|byte| Term::Integer(i128::from(*byte)));
    let written = match kind {
        KeyKind::Binary if is_pretty => write!(text, "{}", Term::Binary(bytes.to_vec())),
        KeyKind::Binary => {
            let list = Term::List(codes().collect()).to_string();
            write!(text, "<<{}>>", list.trim_start_matches('[').trim_end_matches(']'))
        }
        KeyKind::String | KeyKind::Integer if is_pretty => {
            write!(text, "{}", Term::String(bytes.iter().copied().map(char::from).collect()))
        }
        KeyKind::String | KeyKind::Integer => write!(text, "{}", Term::List(codes().collect())),
    };
    written.expect("writing to a vector does not fail");
    text
}

fn in_base(integer: i64, base: usize, is_upper: bool) -> Vec<u8> {
    let mut digits = Vec::new();
    let mut rest = integer.unsigned_abs();
    let base = base as u64;
    loop {
        let digit =
            char::from_digit(quoit_number::low_u32(rest % base), quoit_number::low_u32(base))
                .unwrap_or('0');
        let digit = quoit_number::low_u8(u64::from(digit));
        digits.push(if is_upper { digit.to_ascii_uppercase() } else { digit });
        rest /= base;
        if rest == 0 {
            break;
        }
    }
    if integer < 0 {
        digits.push(b'-');
    }
    digits.reverse();
    digits
}
