//! Classification of the files in a data directory.

use super::indexes::INDEXES_NAME;
use crate::file_names::META_NAME;
use crate::file_names::{number_of_keys, number_of_log};
use crate::ordered::checksum_file_name;

const LOCK_NAME: &str = "LOCK";
const TEMPORARY_SUFFIX: &str = ".tmp";

/// Name of the index snapshot.
pub(super) const SNAPSHOT_NAME: &str = "INDEX";

/// The files of a data directory by their roles.
#[derive(Default, Debug)]
pub(super) struct Directory {
    /// Names of all files.
    pub(super) names: Vec<String>,
    /// Numbers of segments, ascending.
    pub(super) segments: Vec<u32>,
    /// Numbers of segments that have a key file, ascending.
    pub(super) key_files: Vec<u32>,
    /// Names of files that Quoit did not finish writing.
    pub(super) unfinished: Vec<String>,
    /// Names of files that do not belong to the store.
    pub(super) foreign: Vec<String>,
}

impl Directory {
    pub(super) fn of(names: Vec<String>) -> Self {
        let mut directory = Self::default();
        for name in &names {
            if let Some(number) = number_of_log(name) {
                directory.segments.push(number);
            } else if let Some(number) = number_of_keys(name) {
                directory.key_files.push(number);
            } else if is_unfinished(name) {
                directory.unfinished.push(name.clone());
            } else if ![META_NAME, LOCK_NAME, SNAPSHOT_NAME, INDEXES_NAME].contains(&name.as_str())
                && *name != checksum_file_name(INDEXES_NAME)
            {
                directory.foreign.push(name.clone());
            }
        }
        directory.segments.sort_unstable();
        directory.key_files.sort_unstable();
        directory.names = names;
        directory
    }
}

/// True if this is the temporary name of one of the store's files.
fn is_unfinished(name: &str) -> bool {
    name.strip_suffix(TEMPORARY_SUFFIX)
        .is_some_and(|name| name == SNAPSHOT_NAME || number_of_keys(name).is_some())
}
