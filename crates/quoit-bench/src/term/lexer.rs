//! Conversion of characters to tokens, each with its position in the file.

use std::fmt::{self, Display, Formatter};

use super::syntax_error::{Problem, SyntaxError};

/// A position in a file: line and column, both from 1, counted in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// One token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    Integer(u128),
    Float(f64),
    Atom(String),
    /// A reserved word of the language, without quotes.
    Word(String),
    String(String),
    Mark(&'static str),
    /// The full stop that ends a term.
    Stop,
    EndOfFile,
}

impl Display for Token {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Integer(value) => write!(f, "the integer {value}"),
            Self::Float(value) => write!(f, "the float {}", super::print::float_text(*value)),
            Self::Atom(name) => write!(f, "the atom `{name}`"),
            Self::Word(word) => write!(f, "the reserved word `{word}`"),
            Self::String(_) => f.write_str("a string"),
            Self::Mark(mark) => write!(f, "`{mark}`"),
            Self::Stop => f.write_str("the full stop that ends a term"),
            Self::EndOfFile => f.write_str("the end of the file"),
        }
    }
}

/// Punctuation marks; a longer mark precedes the marks that it begins with.
const MARKS: [&str; 14] = ["<<", ">>", "=>", "{", "}", "[", "]", "(", ")", ",", "|", "#", "/", ":"];

/// Splits a text into tokens, one at a time.
pub(super) struct Lexer {
    chars: Vec<char>,
    at: usize,
    position: Position,
}

impl Lexer {
    pub(super) fn new(text: &str) -> Self {
        Self { chars: text.chars().collect(), at: 0, position: Position { line: 1, column: 1 } }
    }

    /// The next token and its position.
    pub(super) fn next_token(&mut self) -> Result<(Token, Position), SyntaxError> {
        self.skip_blanks();
        let start = self.position;
        let token = match self.peek() {
            None => Token::EndOfFile,
            Some('.') => self.full_stop(start)?,
            Some('"') => Token::String(self.quoted('"', start)?),
            Some('\'') => Token::Atom(self.quoted('\'', start)?),
            Some('$') => self.character(start)?,
            Some(c) if c.is_ascii_digit() => self.number(start)?,
            Some(c) if is_lowercase_letter(c) => self.word(),
            Some(c) if c.is_alphabetic() || c == '_' => {
                let name = self.take_while(is_name_char);
                return Err(SyntaxError::at(start, Problem::Variable(name)));
            }
            Some('+') => self.mark("+"),
            Some('-') => self.mark("-"),
            Some(c) => match MARKS.into_iter().find(|mark| self.starts_with(mark)) {
                Some(mark) => self.mark(mark),
                None => return Err(SyntaxError::at(start, Problem::Character(c))),
            },
        };
        Ok((token, start))
    }

    fn peek(&self) -> Option<char> {
        self.chars.get(self.at).copied()
    }

    fn peek_at(&self, offset: usize) -> Option<char> {
        self.chars.get(self.at + offset).copied()
    }

    fn starts_with(&self, mark: &str) -> bool {
        mark.chars().enumerate().all(|(offset, c)| self.peek_at(offset) == Some(c))
    }

    fn bump(&mut self) -> Option<char> {
        let c = self.peek()?;
        self.at += 1;
        if c == '\n' {
            self.position.line += 1;
            self.position.column = 1;
        } else {
            self.position.column += 1;
        }
        Some(c)
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let mut taken = String::new();
        while let Some(c) = self.peek().filter(|c| belongs(*c)) {
            taken.push(c);
            self.bump();
        }
        taken
    }

    fn mark(&mut self, mark: &'static str) -> Token {
        for _ in mark.chars() {
            self.bump();
        }
        Token::Mark(mark)
    }

    fn skip_blanks(&mut self) {
        while let Some(c) = self.peek() {
            if c == '%' {
                self.take_while(|c| c != '\n');
            } else if is_blank(c) {
                self.bump();
            } else {
                return;
            }
        }
    }

    /// Reads a full stop. It ends a term only before white space, a comment or the end of the file.
    fn full_stop(&mut self, start: Position) -> Result<Token, SyntaxError> {
        self.bump();
        match self.peek() {
            None | Some('%') => Ok(Token::Stop),
            Some(c) if is_blank(c) => Ok(Token::Stop),
            Some(c) if c.is_ascii_digit() => {
                let digits = self.take_while(|c| c.is_ascii_digit());
                Err(SyntaxError::at(start, Problem::FloatForm(format!(".{digits}"))))
            }
            Some(_) => Err(SyntaxError::at(start, Problem::StrayFullStop)),
        }
    }

    fn word(&mut self) -> Token {
        let name = self.take_while(is_name_char);
        if super::print::RESERVED_WORDS.contains(&name.as_str()) {
            Token::Word(name)
        } else {
            Token::Atom(name)
        }
    }

    fn quoted(&mut self, quote: char, start: Position) -> Result<String, SyntaxError> {
        self.bump();
        let mut text = String::new();
        loop {
            let place = self.position;
            match self.bump() {
                None => return Err(SyntaxError::at(start, Problem::OpenQuote(quote))),
                Some(c) if c == quote => return Ok(text),
                Some('\\') => text.push(self.escape(place)?),
                Some(c) => text.push(c),
            }
        }
    }

    /// Reads `$c`: the code point of a character or of an escape sequence.
    fn character(&mut self, start: Position) -> Result<Token, SyntaxError> {
        self.bump();
        let place = self.position;
        let c = match self.bump() {
            None => return Err(SyntaxError::at(start, Problem::EmptyCharacter)),
            Some('\\') => self.escape(place)?,
            Some(c) => c,
        };
        Ok(Token::Integer(u128::from(u32::from(c))))
    }

    /// The character that an escape sequence stands for. The backslash is already consumed.
    fn escape(&mut self, place: Position) -> Result<char, SyntaxError> {
        let bad = |text: String| SyntaxError::at(place, Problem::Escape(text));
        let Some(c) = self.bump() else { return Err(bad(String::new())) };
        Ok(match c {
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            'b' => '\u{8}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            'e' => '\u{1b}',
            's' => ' ',
            'd' => '\u{7f}',
            '0'..='7' => {
                let mut code = c.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = self.peek().and_then(|c| c.to_digit(8)) else { break };
                    code = code * 8 + digit;
                    self.bump();
                }
                char::from_u32(code).ok_or_else(|| bad(c.to_string()))?
            }
            'x' => self.hex_escape().map_err(bad)?,
            '^' => match self.bump() {
                Some(letter) if ('@'..='_').contains(&letter.to_ascii_uppercase()) => {
                    char::from(quoit_number::low_u8(u64::from(letter.to_ascii_uppercase())) & 31)
                }
                other => return Err(bad(format!("^{}", other.unwrap_or(' ')))),
            },
            other => other,
        })
    }

    /// Reads `\xHH` or `\x{H...}`. The error is the text that was read.
    fn hex_escape(&mut self) -> Result<char, String> {
        let digits = if self.peek() == Some('{') {
            self.bump();
            let digits = self.take_while(|c| c.is_ascii_hexdigit());
            if self.peek() != Some('}') {
                return Err(format!("x{{{digits}"));
            }
            self.bump();
            digits
        } else {
            let mut digits = String::new();
            for _ in 0..2 {
                if let Some(c) = self.peek().filter(char::is_ascii_hexdigit) {
                    digits.push(c);
                    self.bump();
                }
            }
            if digits.len() < 2 {
                return Err(format!("x{digits}"));
            }
            digits
        };
        let code = u32::from_str_radix(&digits, 16).ok();
        code.and_then(char::from_u32).ok_or_else(|| format!("x{{{digits}}}"))
    }

    fn number(&mut self, start: Position) -> Result<Token, SyntaxError> {
        let digits = self.take_digits(10);
        let next = self.peek_at(1);
        match self.peek() {
            Some('#') => {
                let base = digits_value(&digits, 10).and_then(|base| u32::try_from(base).ok());
                let base = base.filter(|base| (2..=36).contains(base));
                let base = base.ok_or_else(|| SyntaxError::at(start, Problem::Base(digits)))?;
                self.bump();
                let digits = self.take_digits(base);
                let rest = self.take_while(|c| c.is_ascii_alphanumeric());
                if digits.is_empty() || !rest.is_empty() {
                    let text = format!("{base}#{digits}{rest}");
                    return Err(SyntaxError::at(start, Problem::Digits { text, base }));
                }
                self.integer(&digits, base, start)
            }
            Some('.') if next.is_some_and(|c| c.is_ascii_digit()) => {
                self.bump();
                let fraction = self.take_digits(10);
                let mut text = format!("{digits}.{fraction}");
                if matches!(self.peek(), Some('e' | 'E')) {
                    text.push('e');
                    self.bump();
                    if let Some(sign @ ('+' | '-')) = self.peek() {
                        text.push(sign);
                        self.bump();
                    }
                    let exponent = self.take_digits(10);
                    if exponent.is_empty() {
                        return Err(SyntaxError::at(start, Problem::FloatForm(text)));
                    }
                    text.push_str(&exponent);
                }
                let value = parse_float(&text);
                value
                    .map(Token::Float)
                    .ok_or_else(|| SyntaxError::at(start, Problem::NumberRange(text)))
            }
            Some('e' | 'E') if next.is_some_and(|c| c.is_ascii_digit() || c == '-') => {
                let rest = self.take_while(|c| c.is_ascii_alphanumeric() || c == '-');
                Err(SyntaxError::at(start, Problem::FloatForm(format!("{digits}{rest}"))))
            }
            _ => self.integer(&digits, 10, start),
        }
    }

    fn integer(&self, digits: &str, base: u32, start: Position) -> Result<Token, SyntaxError> {
        let value = digits_value(digits, base);
        value
            .map(Token::Integer)
            .ok_or_else(|| SyntaxError::at(start, Problem::NumberRange(digits.to_owned())))
    }

    /// Reads digits of `base`. A single underscore may stand between two of them.
    fn take_digits(&mut self, base: u32) -> String {
        let mut digits = String::new();
        while let Some(c) = self.peek() {
            if c.is_digit(base) {
                digits.push(c);
            } else if c != '_'
                || digits.is_empty()
                || !self.peek_at(1).is_some_and(|c| c.is_digit(base))
            {
                break;
            }
            self.bump();
        }
        digits
    }
}

fn is_blank(c: char) -> bool {
    c <= ' ' || ('\u{80}'..='\u{a0}').contains(&c)
}

fn is_lowercase_letter(c: char) -> bool {
    c.is_ascii_lowercase() || (('\u{df}'..='\u{ff}').contains(&c) && c != '\u{f7}')
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric()
        || c == '_'
        || c == '@'
        || (('\u{c0}'..='\u{ff}').contains(&c) && c != '\u{d7}' && c != '\u{f7}')
}

/// The value of digits without underscores; `None` without digits or if the value is too large.
fn digits_value(digits: &str, base: u32) -> Option<u128> {
    u128::from_str_radix(digits, base).ok()
}

/// The value of a float in Erlang's notation; `None` if it is not finite.
fn parse_float(text: &str) -> Option<f64> {
    text.parse().ok().filter(|value: &f64| value.is_finite())
}
