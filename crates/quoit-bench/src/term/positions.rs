//! Positions of terms.

use super::lexer::Position;

/// The position of a term, and those of the terms directly inside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Positions {
    /// Position of the first character.
    pub position: Position,
    /// Positions of the elements of a tuple or list, in order; meaningless for other terms.
    pub inner: Vec<Positions>,
}

impl Positions {
    /// The position of a term with nothing inside.
    pub fn leaf(position: Position) -> Self {
        Self { position, inner: Vec::new() }
    }

    /// Follows indices from element to element, as far as positions are known.
    pub fn at(&self, path: &[usize]) -> Position {
        match path {
            [first, rest @ ..] => {
                self.inner.get(*first).map_or(self.position, |inner| inner.at(rest))
            }
            [] => self.position,
        }
    }
}
