//! `cargo xtask tidy`: the rules of the code that no other tool checks.
//!
//! Each rule is a function from text to problems, so that it can be tested without a repository. This
//! module runs the rules on the files of the tree and prints the problems. `docs/development.md` explains
//! the rules.

mod crate_lints;
mod floors;
mod import_circles;
pub(crate) mod planted;
mod rust_rules;
mod source_tree;
mod text_rules;
mod type_names;

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use crate::workspace::{Package, packages};

/// A violation of a rule, or a warning.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Problem {
    path: PathBuf,
    /// Line, counted from 1; 0 for the whole file.
    line: usize,
    text: String,
    /// True for a warning, which is printed and does not fail the check.
    warning: bool,
}

impl Problem {
    fn new(path: &Path, line: usize, text: impl Into<String>) -> Self {
        Problem { path: path.to_path_buf(), line, text: text.into(), warning: false }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = if self.warning { "warning" } else { "error" };
        match self.line {
            0 => write!(f, "{kind}: {}: {}", self.path.display(), self.text),
            line => write!(f, "{kind}: {}:{line}: {}", self.path.display(), self.text),
        }
    }
}

/// Checks the repository at `root`, and prints each problem on a line of its own.
pub fn run(root: &Path) -> ExitCode {
    let mut problems = match packages(root) {
        Ok(packages) => check(root, &packages),
        Err(error) => {
            eprintln!("tidy: {error}");
            return ExitCode::FAILURE;
        }
    };
    problems.sort();
    for problem in &problems {
        println!("{problem}");
    }
    let errors = problems.iter().filter(|problem| !problem.warning).count();
    let warnings = problems.len() - errors;
    println!("tidy: {errors} errors, {warnings} warnings");
    if errors == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn check(root: &Path, packages: &[Package]) -> Vec<Problem> {
    let mut problems = floors::check(packages);
    let files = files_below(root);
    let tree = source_tree::walk(packages, &mut problems);
    for path in &files {
        if path.extension().is_some_and(|extension| extension == "rs") && !tree.contains_key(path) {
            problems.push(Problem::new(path, 0, "no module declares this file; it is dead"));
        }
    }
    for (path, source) in &tree {
        rust_rules::check(path, source, &mut problems);
        crate_lints::check(path, &source.syntax, &mut problems);
    }
    problems.extend(tree.keys().filter_map(|path| beside_its_folder(path)));
    planted::check(root, &tree, &mut problems);
    type_names::check(root, &tree, &mut problems);
    import_circles::check(root, &tree, &mut problems);
    let known: BTreeSet<&Path> = files.iter().map(PathBuf::as_path).collect();
    for path in &files {
        let Some(kind) = text_rules::Kind::of(path) else { continue };
        match fs::read_to_string(path) {
            Ok(text) => text_rules::check(path, kind, &text, &known, &mut problems),
            Err(error) => problems.push(Problem::new(path, 0, format!("cannot be read: {error}"))),
        }
    }
    for problem in &mut problems {
        if let Ok(relative) = problem.path.strip_prefix(root) {
            problem.path = relative.to_path_buf();
        }
    }
    problems
}

/// The file of a module with parts that stands beside the folder of the parts, instead of in it.
fn beside_its_folder(path: &Path) -> Option<Problem> {
    let parts = path.with_extension("");
    let text = || format!("move it to {}/mod.rs, to its parts", parts.display());
    parts.is_dir().then(|| Problem::new(path, 0, text()))
}

/// Folders without sources of the repository: build results, installed libraries, a node's data.
const FOREIGN_FOLDERS: [&str; 6] =
    [".git", ".test-env", ".venv", "node_modules", "target", "__pycache__"];

/// All files of the repository, in a stable order.
fn files_below(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = fs::read_dir(&folder) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            let name = entry.file_name();
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_file() {
                found.push(path);
            } else if kind.is_dir() && !is_foreign(root, &path, &name.to_string_lossy()) {
                folders.push(path);
            }
        }
    }
    found.sort();
    found
}

fn is_foreign(root: &Path, path: &Path, name: &str) -> bool {
    let data_of_a_node = path.parent() == Some(root) && name == "data";
    data_of_a_node || FOREIGN_FOLDERS.contains(&name)
}
