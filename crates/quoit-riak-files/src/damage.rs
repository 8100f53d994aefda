//! Pieces of files that can't be read.

use std::fmt;
use std::path::{Path, PathBuf};

/// A piece of a file that can't be read, and whose content is lost.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Damage {
    /// The file.
    pub file: PathBuf,
    /// Offset of the piece in bytes.
    pub offset: u64,
    /// Length of the piece in bytes; 0 if unknown.
    pub len: u64,
    /// Description of the damage.
    pub description: String,
}

impl Damage {
    /// Damage from an offset on, of unknown length.
    pub(crate) fn new(file: &Path, offset: u64, description: impl Into<String>) -> Self {
        Self { file: file.to_owned(), offset, len: 0, description: description.into() }
    }

    /// The damage with the length of its piece.
    pub(crate) fn with_len(self, len: u64) -> Self {
        Self { len, ..self }
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: at byte {}: {}", self.file.display(), self.offset, self.description)?;
        if self.len > 0 { write!(f, " ({} bytes skipped)", self.len) } else { Ok(()) }
    }
}
