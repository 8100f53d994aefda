//! Where terms are written.

use super::lexer::Position;

/// Where a term begins, and where each term directly inside it does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// The first character.
    pub position: Position,
    /// The elements of a tuple or a list, in order; for others of no meaning.
    pub inner: Vec<Places>,
}

impl Places {
    /// A term with nothing inside.
    pub fn leaf(position: Position) -> Self {
        Self { position, inner: Vec::new() }
    }

    /// Follows indices from element to element, as far as there are places.
    pub fn at(&self, path: &[usize]) -> Position {
        match path {
            [first, rest @ ..] => {
                self.inner.get(*first).map_or(self.position, |inner| inner.at(rest))
            }
            [] => self.position,
        }
    }
}
