//! Conversion of tokens to terms.

use super::binary::BinaryBuilder;
use super::lexer::{Lexer, Position, Token};
use super::positions::Positions;
use super::syntax_error::{Problem, SyntaxError};
use super::{NESTING_DEPTH_MAX, Term};

/// A term of a file, with its position.
#[derive(Debug, Clone)]
pub struct LocatedTerm {
    /// The term.
    pub term: Term,
    /// Positions of the term and of the terms inside it.
    pub places: Positions,
}

const MAIL_HINT: &str = ". The file contains `\\_`, which mail programs write for `_`: \
                         replace every `\\_` by `_`";

const ELLIPSIS_HINT: &str = ". The file contains `...`, which stands for something that was left \
                             out: write for instance the addresses of your nodes there";

/// Reads every term of a file. The encoding is UTF-8, or Latin-1 if the file declares that in its first two
/// lines (`%% coding: latin-1`) or is not valid UTF-8.
///
/// # Errors
///
/// The first syntax error, with its position.
pub fn parse_bytes(bytes: &[u8]) -> Result<Vec<LocatedTerm>, SyntaxError> {
    parse_terms(&text_of(bytes))
}

/// The text of a file in its encoding, without a byte order mark.
pub(crate) fn text_of(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !declares_latin1(text) => {
            text.strip_prefix('\u{feff}').unwrap_or(text).to_owned()
        }
        _ => bytes.iter().copied().map(char::from).collect(),
    }
}

fn declares_latin1(text: &str) -> bool {
    text.lines().take(2).any(|line| {
        let line = line.to_ascii_lowercase();
        line.trim_start().starts_with('%')
            && line.split_once("coding").is_some_and(|(_, rest)| {
                rest.trim_start_matches([':', '=', ' ']).starts_with("latin-1")
            })
    })
}

/// Reads every term of `text`. Each ends with a full stop.
///
/// # Errors
///
/// The first syntax error, with its position.
pub fn parse_terms(text: &str) -> Result<Vec<LocatedTerm>, SyntaxError> {
    let parse = || {
        let mut parser = Parser::new(text)?;
        let mut terms = Vec::new();
        while parser.token != Token::EndOfFile {
            let term = parser.term(0)?;
            let places = parser.places.inner.pop().expect("a term has just been read");
            match parser.token {
                Token::Stop => parser.advance()?,
                _ => return Err(parser.unexpected("`,` or the full stop that ends a term")),
            }
            terms.push(LocatedTerm { term, places });
        }
        Ok(terms)
    };
    parse().map_err(|error: SyntaxError| {
        let hint = match text {
            text if text.contains("\\_") => MAIL_HINT,
            text if text.contains("...") => ELLIPSIS_HINT,
            _ => "",
        };
        SyntaxError { hint, ..error }
    })
}

struct Parser {
    lexer: Lexer,
    token: Token,
    position: Position,
    /// Positions of the term that is being read, and of the terms inside it that have been read.
    places: Positions,
}

impl Parser {
    fn new(text: &str) -> Result<Self, SyntaxError> {
        let mut lexer = Lexer::new(text);
        let (token, position) = lexer.next_token()?;
        Ok(Self { lexer, token, position, places: Positions::leaf(position) })
    }

    fn advance(&mut self) -> Result<(), SyntaxError> {
        (self.token, self.position) = self.lexer.next_token()?;
        Ok(())
    }

    fn unexpected(&self, expected: &'static str) -> SyntaxError {
        let found = self.token.to_string();
        SyntaxError::at(self.position, Problem::Unexpected { found, expected })
    }

    fn is_mark(&self, mark: &str) -> bool {
        matches!(self.token, Token::Mark(found) if found == mark)
    }

    /// Consumes `mark` if it is next. Returns true if it was.
    fn accept(&mut self, mark: &str) -> Result<bool, SyntaxError> {
        let found = self.is_mark(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn expect(&mut self, token: &Token, expected: &'static str) -> Result<(), SyntaxError> {
        if self.token == *token { self.advance() } else { Err(self.unexpected(expected)) }
    }

    /// Reads a term, and records its positions in those of the surrounding term.
    fn term(&mut self, depth: usize) -> Result<Term, SyntaxError> {
        let around = std::mem::replace(&mut self.places, Positions::leaf(self.position));
        let term = self.unplaced_term(depth);
        let places = std::mem::replace(&mut self.places, around);
        self.places.inner.push(places);
        term
    }

    fn unplaced_term(&mut self, depth: usize) -> Result<Term, SyntaxError> {
        if depth > NESTING_DEPTH_MAX {
            return Err(SyntaxError::at(self.position, Problem::Depth));
        }
        let token = std::mem::replace(&mut self.token, Token::EndOfFile);
        let term = match token {
            Token::Integer(value) => self.signed(value, false)?,
            Token::Float(value) => Term::Float(value),
            Token::Atom(name) => Term::Atom(name),
            Token::String(text) => return self.adjacent_strings(text),
            Token::Mark("-" | "+") => return self.sign(token == Token::Mark("-")),
            Token::Mark("{") => {
                self.advance()?;
                let elements = self.elements("}", depth)?;
                self.expect(&Token::Mark("}"), "`,` or `}`")?;
                return Ok(Term::Tuple(elements));
            }
            Token::Mark("[") => return self.list(depth),
            Token::Mark("<<") => return self.binary(),
            Token::Mark("#") => return self.map(depth),
            Token::Mark("(") => {
                self.advance()?;
                let term = self.term(depth + 1)?;
                self.expect(&Token::Mark(")"), "`)`")?;
                return Ok(term);
            }
            other => {
                self.token = other;
                let expected = match self.token {
                    Token::Word(_) => "a term (an atom of that name needs quotes)",
                    _ => "a term",
                };
                return Err(self.unexpected(expected));
            }
        };
        self.advance()?;
        Ok(term)
    }

    fn signed(&self, magnitude: u128, is_negative: bool) -> Result<Term, SyntaxError> {
        let value = if is_negative {
            0_i128.checked_sub_unsigned(magnitude)
        } else {
            i128::try_from(magnitude).ok()
        };
        value.map(Term::Integer).ok_or_else(|| {
            let sign = if is_negative { "-" } else { "" };
            SyntaxError::at(self.position, Problem::NumberRange(format!("{sign}{magnitude}")))
        })
    }

    /// Reads a number after its sign, which is the current token.
    fn sign(&mut self, is_negative: bool) -> Result<Term, SyntaxError> {
        self.advance()?;
        let term = match self.token {
            Token::Integer(magnitude) => self.signed(magnitude, is_negative)?,
            Token::Float(value) => Term::Float(if is_negative { -value } else { value }),
            _ => return Err(self.unexpected("a number after its sign")),
        };
        self.advance()?;
        Ok(term)
    }

    fn adjacent_strings(&mut self, mut text: String) -> Result<Term, SyntaxError> {
        self.advance()?;
        while let Token::String(more) = &self.token {
            text.push_str(more);
            self.advance()?;
        }
        Ok(Term::String(text))
    }

    /// Reads terms between commas, up to `close`, which is not consumed.
    fn elements(&mut self, close: &str, depth: usize) -> Result<Vec<Term>, SyntaxError> {
        let mut elements = Vec::new();
        if self.is_mark(close) {
            return Ok(elements);
        }
        loop {
            elements.push(self.term(depth + 1)?);
            if !self.accept(",")? {
                return Ok(elements);
            }
        }
    }

    fn list(&mut self, depth: usize) -> Result<Term, SyntaxError> {
        self.advance()?;
        let mut elements = self.elements("]", depth)?;
        let tail = if !elements.is_empty() && self.accept("|")? {
            self.term(depth + 1)?
        } else {
            Term::List(Vec::new())
        };
        self.expect(&Token::Mark("]"), "`,`, `|` or `]`")?;
        Ok(match tail {
            Term::ImproperList(more, tail) => {
                elements.extend(more);
                Term::ImproperList(elements, tail)
            }
            tail => match tail.as_list() {
                Some(more) => {
                    elements.extend(more);
                    Term::List(elements)
                }
                None => Term::ImproperList(elements, Box::new(tail)),
            },
        })
    }

    fn map(&mut self, depth: usize) -> Result<Term, SyntaxError> {
        self.advance()?;
        self.expect(&Token::Mark("{"), "`{` of a map")?;
        let mut pairs: Vec<(Term, Term)> = Vec::new();
        while !self.is_mark("}") {
            let key = self.term(depth + 1)?;
            self.expect(&Token::Mark("=>"), "`=>` between a key and its value")?;
            let value = self.term(depth + 1)?;
            match pairs.binary_search_by(|(known, _)| known.cmp(&key)) {
                Ok(index) => {
                    if let Some((_, earlier)) = pairs.get_mut(index) {
                        *earlier = value;
                    }
                }
                Err(index) => pairs.insert(index, (key, value)),
            }
            if !self.accept(",")? {
                break;
            }
            if self.is_mark("}") {
                return Err(self.unexpected("a key of the map"));
            }
        }
        self.expect(&Token::Mark("}"), "`,` or `}`")?;
        Ok(Term::Map(pairs))
    }

    fn binary(&mut self) -> Result<Term, SyntaxError> {
        self.advance()?;
        let mut builder = BinaryBuilder::default();
        if !self.is_mark(">>") {
            loop {
                let place = self.position;
                let value = self.segment_value()?;
                let size = if self.accept(":")? { Some(self.segment_size()?) } else { None };
                let types = if self.accept("/")? { self.segment_types()? } else { Vec::new() };
                builder
                    .push(&value, size, &types)
                    .map_err(|text| SyntaxError::at(place, Problem::Binary(text)))?;
                if !self.accept(",")? {
                    break;
                }
            }
        }
        let place = self.position;
        self.expect(&Token::Mark(">>"), "`,` or `>>`")?;
        let bytes = builder.finish();
        bytes.map(Term::Binary).map_err(|text| SyntaxError::at(place, Problem::Binary(text)))
    }

    fn segment_value(&mut self) -> Result<Term, SyntaxError> {
        match self.token {
            Token::Integer(_)
            | Token::Float(_)
            | Token::String(_)
            | Token::Mark("+" | "-" | "<<") => {
                // Terms are not nested here, so a binary in a binary is refused instead of read
                // recursively.
                if self.is_mark("<<") {
                    return Err(SyntaxError::at(
                        self.position,
                        Problem::Binary("a binary within a binary is not read; join them".into()),
                    ));
                }
                self.term(0)
            }
            _ => Err(self.unexpected("a number or a string of a binary")),
        }
    }

    fn segment_size(&mut self) -> Result<u128, SyntaxError> {
        let Token::Integer(size) = self.token else {
            return Err(self.unexpected("the size of a segment"));
        };
        self.advance()?;
        Ok(size)
    }

    /// Reads the types of a segment. `unit:8` becomes two words.
    fn segment_types(&mut self) -> Result<Vec<String>, SyntaxError> {
        let mut types = Vec::new();
        loop {
            let Token::Atom(name) = &self.token else {
                return Err(self.unexpected("the type of a segment"));
            };
            types.push(name.clone());
            self.advance()?;
            if self.accept(":")? {
                types.push(self.segment_size()?.to_string());
            }
            if !self.accept("-")? {
                return Ok(types);
            }
        }
    }
}
