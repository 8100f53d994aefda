//! Reasons why a text is not a sequence of Erlang terms.

use thiserror::Error;

use super::NESTING_DEPTH_MAX;
use super::lexer::Position;

/// The reason why a text is not a sequence of Erlang terms, with the position.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{line}:{column}: {problem}{hint}", line = .position.line, column = .position.column)]
pub struct SyntaxError {
    /// Position where the fault was found.
    pub position: Position,
    /// Description of the fault.
    pub problem: Problem,
    /// A remedy that was found in the whole text, or an empty text.
    pub hint: &'static str,
}

impl SyntaxError {
    pub(super) fn at(position: Position, problem: Problem) -> Self {
        Self { position, problem, hint: "" }
    }
}

/// The fault of a text that should be Erlang terms.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    /// A token that is not allowed here.
    #[error("found {found} where {expected} was expected")]
    Unexpected {
        /// The token.
        found: String,
        /// The tokens that would be allowed.
        expected: &'static str,
    },
    /// A character that begins no token.
    #[error("the character {0:?} begins no term")]
    Character(char),
    /// A variable of Erlang.
    #[error("`{0}` is a variable, which a configuration cannot have: for an atom write '{0}'")]
    Variable(String),
    /// A full stop inside a term.
    #[error("a full stop ends a term only before white space, a comment or the end of the file")]
    StrayFullStop,
    /// A quote that is never closed.
    #[error("this {0} is never closed")]
    OpenQuote(char),
    /// A `$` at the end of the file.
    #[error("`$` wants a character after it")]
    EmptyCharacter,
    /// An unknown escape sequence.
    #[error("`\\{0}` is not an escape sequence: write \\n, \\x{{HH}} or another known one")]
    Escape(String),
    /// A base outside 2..=36.
    #[error("the base `{0}` of a number must be from 2 to 36")]
    Base(String),
    /// Digits that do not belong to their base.
    #[error("`{text}` is not a number of base {base}")]
    Digits {
        /// The number as written.
        text: String,
        /// Its base.
        base: u32,
    },
    /// A float that is not in Erlang's notation.
    #[error("`{0}` is not a number: a float has digits on both sides of its point, as in 1.0e5")]
    FloatForm(String),
    /// A number out of range.
    #[error("the number `{0}` does not fit (128 bits for integers, 64 for floats)")]
    NumberRange(String),
    /// Nesting beyond the limit.
    #[error("terms are nested deeper than {NESTING_DEPTH_MAX} levels")]
    Depth,
    /// A segment of a binary that cannot be built.
    #[error("in a binary: {0}")]
    Binary(String),
}
