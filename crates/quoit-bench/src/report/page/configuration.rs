//! The configuration files of which a run keeps copies.

use std::fs;
use std::io::Read as _;
use std::path::Path;

use crate::output::environment::Environment;

/// Maximum number of bytes of a file that are shown.
const SHOWN_BYTES_MAX: u64 = 64 << 10;

/// Maximum number of files that are shown.
const FILE_COUNT_MAX: usize = 16;

/// Names and texts of the configurations. They are those that the run's environment lists, or else all
/// files with the extension `.config`.
pub(super) fn read(directory: &Path, environment: Option<&Environment>) -> Vec<(String, String)> {
    let mut names = match environment {
        Some(environment) => environment.configurations.clone(),
        None => config_files(directory),
    };
    names.truncate(FILE_COUNT_MAX);
    let read = |name: String| {
        // A name with a path could lead out of the directory.
        let is_plain = Path::new(&name).file_name().is_some_and(|plain| *plain == *name);
        let text = is_plain.then(|| beginning(&directory.join(&name))).flatten()?;
        Some((name, text))
    };
    names.into_iter().filter_map(read).collect()
}

fn config_files(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".config"))
        .collect();
    names.sort_unstable();
    names
}

fn beginning(path: &Path) -> Option<String> {
    let mut bytes = Vec::new();
    fs::File::open(path).ok()?.take(SHOWN_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if bytes.len() as u64 == SHOWN_BYTES_MAX {
        text.push_str("\n[the rest is in the file]");
    }
    Some(text)
}
