//! The syntax of `quoit.conf`: `key = value` on each line, `#` comments, `include FILE`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Largest number of files that a configuration may consist of.
const FILE_COUNT_MAX: usize = 64;

/// Largest configuration file in bytes: ten times the size of a file with all keys and their comments.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Source of a setting.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// A line of a file.
    Line(PathBuf, usize),
    /// An environment variable.
    Environment(String),
    /// `--set` or another flag.
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
pub struct Entry {
    /// Name of the key.
    pub key: String,
    /// Its value, without surrounding white space.
    pub value: String,
    /// Source of the setting.
    pub origin: Origin,
}

/// Reasons for which a configuration file can't be parsed.
#[derive(Debug, Error)]
pub enum ParseError {
    /// A file can't be read.
    #[error("{origin}can't read {}: {reason}", .file.display())]
    Unreadable {
        /// Source of the include with a colon, or empty.
        origin: String,
        /// The file.
        file: PathBuf,
        /// The system's error.
        reason: io::Error,
    },
    /// A line is not a setting.
    #[error("{origin}: `{line}` is not of the form `key = value`")]
    NotASetting {
        /// File and line.
        origin: Origin,
        /// The line.
        line: String,
    },
    /// The files include each other without end, or are too many.
    #[error(
        "{origin}: more than {FILE_COUNT_MAX} files are included; perhaps they include each other"
    )]
    TooManyFiles {
        /// File and line.
        origin: Origin,
    },
}

/// Function that returns the bytes of a file.
pub type ReadFile<'r> = &'r mut dyn FnMut(&Path) -> io::Result<Vec<u8>>;

/// Reads a file and the files that it includes. If a key occurs twice, the caller lets the later entry win.
pub(crate) fn file(path: &Path) -> Result<Vec<Entry>, ParseError> {
    let bytes = read_bounded(path).map_err(|reason| ParseError::Unreadable {
        origin: String::new(),
        file: path.to_owned(),
        reason,
    })?;
    parse_text(path, &bytes, &mut read_bounded)
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let words = format!("it has more than {FILE_BYTES_MAX} bytes; is it a configuration file?");
        return Err(io::Error::new(io::ErrorKind::InvalidData, words));
    }
    Ok(bytes)
}

/// Parses the text of a file at `path`; `read` returns the files that it includes.
///
/// # Errors
///
/// With the line that is not a setting, or the file that can't be read.
pub fn parse_text(path: &Path, text: &[u8], read: ReadFile<'_>) -> Result<Vec<Entry>, ParseError> {
    let mut parsing = Parsing { entries: Vec::new(), file_count: 1, read };
    parsing.text(path, text)?;
    Ok(parsing.entries)
}

struct Parsing<'r> {
    entries: Vec<Entry>,
    file_count: usize,
    read: ReadFile<'r>,
}

impl Parsing<'_> {
    fn text(&mut self, path: &Path, text: &[u8]) -> Result<(), ParseError> {
        for (index, line) in String::from_utf8_lossy(text).lines().enumerate() {
            let origin = Origin::Line(path.to_owned(), index + 1);
            match setting(line, origin.clone())? {
                None => {}
                Some(ConfigLine::Setting(entry)) => self.entries.push(entry),
                Some(ConfigLine::Include(name)) => self.include(path, &name, origin)?,
            }
        }
        Ok(())
    }

    fn include(&mut self, from: &Path, name: &str, origin: Origin) -> Result<(), ParseError> {
        if self.file_count >= FILE_COUNT_MAX {
            return Err(ParseError::TooManyFiles { origin });
        }
        self.file_count += 1;
        let file = from.parent().unwrap_or(Path::new(".")).join(name);
        let bytes = (self.read)(&file).map_err(|reason| ParseError::Unreadable {
            origin: format!("{origin}: "),
            file: file.clone(),
            reason,
        })?;
        self.text(&file, &bytes)
    }
}

/// Content of a non-empty line.
pub(crate) enum ConfigLine {
    Setting(Entry),
    Include(String),
}

/// Parses one line; `None` for blank lines and comments.
pub(crate) fn setting(line: &str, origin: Origin) -> Result<Option<ConfigLine>, ParseError> {
    let text = line.trim_start_matches('\u{feff}').trim();
    if text.is_empty() || text.starts_with('#') {
        return Ok(None);
    }
    if let Some(name) = text.strip_prefix("include").filter(|rest| rest.starts_with([' ', '\t']))
        && !name.trim_start().starts_with('=')
    {
        return Ok(Some(ConfigLine::Include(name.trim().to_owned())));
    }
    let Some((key, value)) = text.split_once('=') else {
        return Err(ParseError::NotASetting { origin, line: text.to_owned() });
    };
    let key = key.trim();
    // A comment after the value must follow white space.
    let before = value.split_once(" #").or_else(|| value.split_once("\t#"));
    let value = before.map_or(value, |(before, _)| before).trim();
    if key.is_empty() || key.contains(char::is_whitespace) {
        return Err(ParseError::NotASetting { origin, line: text.to_owned() });
    }
    Ok(Some(ConfigLine::Setting(Entry { key: key.to_owned(), value: value.to_owned(), origin })))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values of a text whose includes are looked up in `files`.
    fn values(text: &str, files: &[(&str, &str)]) -> Result<Vec<String>, ParseError> {
        let mut read = |path: &Path| {
            let found = files.iter().find(|(name, _)| path == Path::new("/etc").join(name));
            let missing = || io::Error::from(io::ErrorKind::NotFound);
            found.map(|(_, text)| text.as_bytes().to_vec()).ok_or_else(missing)
        };
        let entries = parse_text(Path::new("/etc/quoit.conf"), text.as_bytes(), &mut read)?;
        Ok(entries.into_iter().map(|entry| entry.value).collect())
    }

    #[test]
    fn an_include_takes_its_place_among_the_lines() {
        let files = [("more/b.conf", "k = 2\ninclude c.conf\n"), ("more/c.conf", "k = 3")];
        let text = "k = 1\ninclude more/b.conf\nk=4 # comment\n";
        assert_eq!(values(text, &files).unwrap(), ["1", "2", "3", "4"]);
    }

    #[test]
    fn files_that_include_each_other_are_refused_at_once() {
        let many = "include a.conf\n".repeat(1_000);
        let files = [("a.conf", many.as_str())];
        let fault = values(&many, &files).unwrap_err();
        assert!(fault.to_string().contains("/etc/a.conf:1: more than 64 files"), "{fault}");
    }

    #[test]
    fn a_missing_include_is_named_with_its_line() {
        let fault = values("\ninclude none.conf", &[]).unwrap_err().to_string();
        assert!(fault.starts_with("/etc/quoit.conf:2: can't read /etc/none.conf: "), "{fault}");
    }

    #[test]
    fn a_file_of_any_length_is_not_read_whole() {
        let fault = file(Path::new("/dev/zero")).unwrap_err().to_string();
        assert!(fault.contains("/dev/zero") && fault.contains("more than"), "{fault}");
    }
}
