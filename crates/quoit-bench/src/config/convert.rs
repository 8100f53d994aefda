//! Conversion of a file of Erlang terms to TOML.

use std::collections::BTreeMap;
use std::path::Path;

use super::error::ConfigError;
use super::settings::for_each_pair;
use super::toml_form;
use crate::term::{LocatedTerm, Term, is_left_out, parse_with_repair, text_of};

/// The same configuration in TOML. Comments are kept if they have their own lines.
///
/// If a key is set more than once, the last value is kept, at its place. A key whose value the file only
/// hints at (`[ ... ]`) is omitted.
///
/// # Errors
///
/// When the bytes are not a sequence of Erlang terms, or a value is nested deeper than TOML allows.
pub fn to_toml(path: &Path, bytes: &[u8]) -> Result<String, ConfigError> {
    let text = text_of(bytes);
    let terms = parse_with_repair(&text)
        .map_err(|error| ConfigError::Syntax { path: path.to_owned(), error })?
        .terms;
    let mut pairs: BTreeMap<String, (Term, usize)> = BTreeMap::new();
    let mut number = 0;
    let mut items: BTreeMap<(usize, usize), Item> = comments(&text);
    for LocatedTerm { term, places } in terms {
        for_each_pair(term, places, &mut |key, term, position, _| {
            if is_left_out(&term) {
                return;
            }
            number += 1;
            let line = position.line as usize;
            items.insert((line, number), Item::Pair(key.clone(), number));
            pairs.insert(key, (term, number));
        });
    }
    let toml = write(&text, &items, &pairs);
    check(path, &toml, &pairs)?;
    Ok(toml)
}

/// An item of the output. Items are ordered by their line and by their number within the line.
enum Item {
    Comment(String),
    /// A key, and the number of the setting among all settings of the file.
    Pair(String, usize),
}

/// The lines that contain only a comment.
fn comments(text: &str) -> BTreeMap<(usize, usize), Item> {
    let of_line = |(index, line): (usize, &str)| {
        let comment = line.trim().strip_prefix('%')?.trim_start_matches('%').trim();
        // TOML forbids control characters in comments.
        let plain: String = comment.chars().filter(|c| !c.is_control()).collect();
        Some(((index + 1, 0), Item::Comment(plain)))
    };
    text.lines().enumerate().filter_map(of_line).collect()
}

fn write(
    text: &str,
    items: &BTreeMap<(usize, usize), Item>,
    pairs: &BTreeMap<String, (Term, usize)>,
) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let is_blank = |line: usize| {
        line.checked_sub(2).and_then(|index| lines.get(index)).is_some_and(|l| l.trim().is_empty())
    };
    let mut toml = String::new();
    for ((line, _), item) in items {
        let written = match item {
            Item::Comment(comment) => format!("# {comment}").trim_end().to_owned(),
            Item::Pair(key, number) => match pairs.get(key) {
                Some((term, last)) if last == number => toml_form::write_pair(key, term),
                _ => continue,
            },
        };
        if is_blank(*line) && !toml.is_empty() && !toml.ends_with("\n\n") {
            toml.push('\n');
        }
        toml.push_str(&written);
        toml.push('\n');
    }
    toml
}

/// Checks that the TOML reads back as the same terms.
fn check(
    path: &Path,
    toml: &str,
    pairs: &BTreeMap<String, (Term, usize)>,
) -> Result<(), ConfigError> {
    let entries = toml_form::read(toml.as_bytes())
        .map_err(|error| ConfigError::Unconvertible { path: path.to_owned(), error })?;
    for entry in entries {
        let is_same = pairs.get(&entry.key).is_some_and(|(term, _)| *term == entry.term);
        assert!(is_same, "{} reads back as another value", entry.key);
    }
    Ok(())
}
