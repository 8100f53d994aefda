//! The syntax of `quoit.conf`: `key = value` a line, `#` comments, `include FILE`.

use std::path::{Path, PathBuf};
use thiserror::Error;

/// Files that may include each other, counted from the first.
const INCLUDE_DEPTH_MAX: usize = 8;

/// Where a setting was made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    /// A line of a file.
    Line(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// `--set` or a flag of its own.
    CommandLine,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(file, line) => write!(out, "{}:{line}", file.display()),
            Self::Environment(name) => write!(out, "environment variable {name}"),
            Self::CommandLine => write!(out, "command line"),
        }
    }
}

/// One setting as it was written.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) value: String,
    pub(crate) origin: Origin,
}

/// Why a configuration file can't be read.
#[derive(Debug, Error)]
pub(crate) enum ParseError {
    /// A file can't be opened.
    #[error("{origin}can't read {}: {reason}", .file.display())]
    Unreadable {
        /// Where it was asked for, with a colon, or nothing.
        origin: String,
        /// The file.
        file: PathBuf,
        /// The system's words.
        reason: std::io::Error,
    },
    /// A line is not a setting.
    #[error("{origin}: `{line}` is not of the form `key = value`")]
    NotASetting {
        /// File and line.
        origin: Origin,
        /// The line.
        line: String,
    },
    /// Files include each other without end.
    #[error("{origin}: more than {INCLUDE_DEPTH_MAX} files include each other; break the circle")]
    TooDeep {
        /// File and line.
        origin: Origin,
    },
}

/// Reads a file and what it includes. Later entries win over earlier ones; the caller sees to that.
pub(crate) fn file(path: &Path) -> Result<Vec<Entry>, ParseError> {
    let mut entries = Vec::new();
    read_into(path, "", 0, &mut entries)?;
    Ok(entries)
}

fn read_into(
    path: &Path,
    asked_by: &str,
    depth: usize,
    entries: &mut Vec<Entry>,
) -> Result<(), ParseError> {
    let bytes = std::fs::read(path).map_err(|reason| ParseError::Unreadable {
        origin: asked_by.to_owned(),
        file: path.to_owned(),
        reason,
    })?;
    for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let origin = Origin::Line(path.to_owned(), number + 1);
        match setting(line, origin.clone())? {
            None => {}
            Some(Line::Setting(entry)) => entries.push(entry),
            Some(Line::Include(name)) => {
                if depth + 1 >= INCLUDE_DEPTH_MAX {
                    return Err(ParseError::TooDeep { origin });
                }
                let included = path.parent().unwrap_or(Path::new(".")).join(name);
                read_into(&included, &format!("{origin}: "), depth + 1, entries)?;
            }
        }
    }
    Ok(())
}

/// What a line that is not empty says.
pub(crate) enum Line {
    Setting(Entry),
    Include(String),
}

/// Reads one line; `None` for blank ones and comments.
pub(crate) fn setting(line: &str, origin: Origin) -> Result<Option<Line>, ParseError> {
    let text = line.trim_start_matches('\u{feff}').trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    if let Some(name) = text.strip_prefix("include ") {
        return Ok(Some(Line::Include(name.trim().to_owned())));
    }
    let Some((key, value)) = text.split_once('=') else {
        return Err(ParseError::NotASetting { origin, line: text.to_owned() });
    };
    let key = key.trim();
    // A comment may follow the value after white space.
    let value = value.split(" #").next().unwrap_or(value).trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(ParseError::NotASetting { origin, line: text.to_owned() });
    }
    Ok(Some(Line::Setting(Entry { key: key.to_owned(), value: value.to_owned(), origin })))
}
