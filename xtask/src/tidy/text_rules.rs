//! Rules of text files: banned words, long lines, broken links in the documentation.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use super::Problem;

const COLUMNS_MAX: usize = 110;

/// The kind of a text file, which decides the rules that apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Markdown,
    /// Program code, whose lines are limited in length.
    Code,
    /// Settings and scripts, which may need long lines.
    Other,
}

impl Kind {
    /// The kind by file name; `None` for data files, which no rule applies to.
    pub(super) fn of(path: &Path) -> Option<Kind> {
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("md") => Some(Kind::Markdown),
            Some("rs" | "py" | "js") => Some(Kind::Code),
            Some("toml" | "sh" | "yml" | "conf") => Some(Kind::Other),
            None if path.ends_with("Makefile") || path.ends_with(".ci/run") => Some(Kind::Other),
            _ => None,
        }
    }
}

/// Words and paths that stand for unfinished work or for somebody's own machine. They are composed here, so
/// that this file does not contain them.
const BANNED_WORDS: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
const BANNED_TEXTS: [&str; 4] =
    [concat!("/wo", "rk/"), concat!("/ro", "ot/"), concat!("/ho", "me/"), concat!("issue", " #")];

/// Checks one file. Links are checked against `known`, all files of the repository.
pub(super) fn check(
    path: &Path,
    kind: Kind,
    text: &str,
    known: &BTreeSet<&Path>,
    problems: &mut Vec<Problem>,
) {
    let mut fenced = false;
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let mut say = |text: String| problems.push(Problem::new(path, number, text));
        if let Some(word) = banned(line) {
            say(format!("{word:?} must not stand here"));
        }
        if kind == Kind::Markdown && line.trim_start().starts_with("```") {
            fenced = !fenced;
            continue;
        }
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !may_be_long(kind, line, fenced) {
            say(format!("{columns} columns; at most {COLUMNS_MAX}"));
        }
        if kind == Kind::Markdown && !fenced {
            for target in links(line) {
                if let Some(said) = broken(path, target, known) {
                    say(said);
                }
            }
        }
    }
}

fn banned(line: &str) -> Option<&'static str> {
    let word = BANNED_WORDS.into_iter().find(|word| {
        line.split(|character: char| !character.is_alphanumeric()).any(|part| part == *word)
    });
    word.or_else(|| BANNED_TEXTS.into_iter().find(|text| line.contains(text)))
}

/// True for tables, examples and addresses, which can't be wrapped.
fn may_be_long(kind: Kind, line: &str, fenced: bool) -> bool {
    match kind {
        Kind::Markdown => {
            let example = fenced || line.starts_with("    ");
            example || line.trim_start().starts_with('|') || line.contains("://")
        }
        Kind::Code => line.contains("://"),
        Kind::Other => true,
    }
}

/// The targets of links `[text](target)` in a line, except those in code spans.
fn links(line: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for plain in line.split('`').step_by(2) {
        for piece in plain.split("](").skip(1) {
            if let Some((target, _)) = piece.split_once(')') {
                found.push(target.split_whitespace().next().unwrap_or(""));
            }
        }
    }
    found
}

/// Describes the fault of a link in the file `path`; `None` if the link is good.
fn broken(path: &Path, target: &str, known: &BTreeSet<&Path>) -> Option<String> {
    if target.contains("://") || target.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = target.split_once('#').unwrap_or((target, ""));
    let resolved = match file {
        "" => path.to_path_buf(),
        file => normal(&path.parent().unwrap_or(Path::new("")).join(file)),
    };
    let is_folder = known.iter().any(|known| known.starts_with(&resolved) && *known != resolved);
    if !known.contains(resolved.as_path()) && !is_folder {
        return Some(format!("the link to {target:?} leads nowhere"));
    }
    if anchor.is_empty() {
        return None;
    }
    let text = fs::read_to_string(&resolved).unwrap_or_default();
    let has_heading = text
        .lines()
        .filter(|line| line.starts_with('#'))
        .any(|line| anchor_of(line.trim_start_matches('#')) == anchor);
    (!has_heading).then(|| format!("the link to {target:?} names no heading of that file"))
}

/// The anchor that common Markdown renderers give to a heading.
fn anchor_of(heading: &str) -> String {
    heading
        .trim()
        .to_lowercase()
        .chars()
        .filter(|character| character.is_alphanumeric() || matches!(character, ' ' | '-' | '_'))
        .map(|character| if character == ' ' { '-' } else { character })
        .collect()
}

/// Resolves `.` and `..` without using the file system.
fn normal(path: &Path) -> PathBuf {
    let mut out = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}
