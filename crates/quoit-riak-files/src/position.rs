//! Positions in the walk through a partition, from which a later walk continues.

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use thiserror::Error;

/// A position in the walk through a partition. A walk from there shows what follows, as long as the
/// files are the same. If the position's file no longer exists, the walk begins anew.
///
/// Cloning a position copies only reference counts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(into = "SerializedPosition", try_from = "SerializedPosition")]
pub struct Position {
    pub(crate) place: ResumePoint,
    bytes: u64,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) enum ResumePoint {
    #[default]
    Start,
    /// An offset in a file, in formats whose files are in the order of writing.
    Byte { file: Arc<Path>, offset: u64 },
    /// After a key, in sorted formats.
    After(Bytes),
}

impl Position {
    pub(crate) fn at_byte(offset: u64, file: &Arc<Path>, bytes: u64) -> Self {
        Self { place: ResumePoint::Byte { file: Arc::clone(file), offset }, bytes }
    }

    pub(crate) const fn behind(key: Bytes, bytes: u64) -> Self {
        Self { place: ResumePoint::After(key), bytes }
    }

    /// Number of bytes before the position, for showing progress. In sorted formats this is the
    /// size of the entries, which exceeds that of the compressed blocks of the files.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// True for the start of a walk.
    #[must_use]
    pub fn is_start(&self) -> bool {
        self.place == ResumePoint::Start
    }

    /// Index of the file in which a walk continues, and the offset in it. The start of the first
    /// file if the position's file no longer exists.
    pub(crate) fn in_files(&self, files: &[PathBuf]) -> (usize, u64) {
        let ResumePoint::Byte { file, offset } = &self.place else { return (0, 0) };
        let is_it = |path: &PathBuf| path.file_name() == file.file_name();
        files.iter().position(is_it).map_or((0, 0), |number| (number, *offset))
    }

    pub(crate) fn after_key(&self) -> Option<&Bytes> {
        match &self.place {
            ResumePoint::After(key) => Some(key),
            ResumePoint::Start | ResumePoint::Byte { .. } => None,
        }
    }
}

/// Serialized form of a position.
#[derive(Serialize, Deserialize)]
struct SerializedPosition {
    /// Name of the file, without its directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    file: Option<String>,
    #[serde(default, skip_serializing_if = "is_zero")]
    offset: u64,
    /// The key in hexadecimal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    behind: Option<String>,
    #[serde(default)]
    bytes: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl From<Position> for SerializedPosition {
    fn from(position: Position) -> Self {
        let written = Self { file: None, offset: 0, behind: None, bytes: position.bytes };
        match position.place {
            ResumePoint::Start => written,
            ResumePoint::Byte { file, offset } => {
                let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
                Self { file: Some(name), offset, ..written }
            }
            ResumePoint::After(key) => {
                let digits = key.iter().map(|byte| format!("{byte:02x}")).collect();
                Self { behind: Some(digits), ..written }
            }
        }
    }
}

/// Error of a position whose key is not hexadecimal.
#[derive(Debug, Error)]
#[error("`behind` must be hexadecimal digits, and is {0:?}")]
pub struct PositionError(String);

impl TryFrom<SerializedPosition> for Position {
    type Error = PositionError;

    fn try_from(written: SerializedPosition) -> Result<Self, PositionError> {
        let place = match (written.file, written.behind) {
            (Some(file), _) => {
                ResumePoint::Byte { file: Path::new(&file).into(), offset: written.offset }
            }
            (None, Some(digits)) => match bytes_of(&digits) {
                Some(key) => ResumePoint::After(key.into()),
                None => return Err(PositionError(digits)),
            },
            (None, None) => ResumePoint::Start,
        };
        Ok(Self { place, bytes: written.bytes })
    }
}

fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pairs = digits.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    let is_whole =
        |pair: &&[u8]| pair.iter().filter(|digit| digit.is_ascii_hexdigit()).count() == 2;
    pairs.map(|pair| Some(pair).filter(is_whole).and_then(byte)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_is_the_same_after_it_was_written() {
        let file: Arc<Path> = Path::new("1.bitcask.data").into();
        let positions = [
            Position::default(),
            Position::at_byte(17, &file, 99),
            Position::behind(Bytes::from_static(b"\0\xffk"), 7),
        ];
        for position in positions {
            let text = serde_json::to_string(&position).expect("JSON");
            let read: Position = serde_json::from_str(&text).expect("a position");
            assert_eq!(read, position, "{text}");
        }
        for text in [r#"{"behind":"f"}"#, r#"{"behind":"+f"}"#, r#"{"behind":"xx"}"#] {
            assert!(serde_json::from_str::<Position>(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_walk_begins_anew_when_the_file_of_its_position_is_gone() {
        let files = ["p/1.bitcask.data".into(), "p/2.bitcask.data".into()];
        let at = |name: &str| Position::at_byte(17, &Path::new(name).into(), 17);
        assert_eq!(at("2.bitcask.data").in_files(&files), (1, 17));
        assert_eq!(at("3.bitcask.data").in_files(&files), (0, 0));
    }
}
