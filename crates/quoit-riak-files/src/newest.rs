//! Index of the newest version of each key in a partition, by hashes of the keys.

use crate::RiakFilesError;
use crate::index_log::{Change, IndexLog};
use foldhash::fast::RandomState;
use quoit_number::length_u32;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// Maximum number of keys of a partition, which take some 4 GiB of memory.
const KEYS_MAX: usize = 80_000_000;

/// The file and offset of the newest version of each key of a partition. Takes about 50 bytes for a
/// key of any length.
///
/// With a log, the index is kept on disk while it is built, so that building it continues after the
/// end of the process.
pub(crate) struct NewestVersions {
    /// Directory of the partition, for error messages.
    directory: PathBuf,
    keys_max: usize,
    places: HashMap<u128, (u32, u64), RandomState>,
    log: Option<IndexLog>,
}

impl NewestVersions {
    /// Opens the index with the content of the log of these files. Returns the index, and the file
    /// and offset at which building continues. Without a log, or with a log of other files, the
    /// index is empty.
    pub(crate) fn open(
        directory: &Path,
        log: Option<&Path>,
        files: &[PathBuf],
    ) -> Result<(Self, (u32, u64)), RiakFilesError> {
        let mut newest = Self {
            directory: directory.to_owned(),
            keys_max: KEYS_MAX,
            places: HashMap::default(),
            log: None,
        };
        let Some(path) = log else { return Ok((newest, (0, 0))) };
        let (log, reached) = IndexLog::open(path, files, &mut |change| newest.apply(change))?;
        newest.log = Some(log);
        Ok((newest, reached))
    }

    /// Records a version of a key, or its deletion, that is later than all versions so far. Fails if the
    /// partition has too many keys.
    pub(crate) fn take(
        &mut self,
        key: &[u8],
        file: u32,
        place: u64,
        is_deletion: bool,
    ) -> Result<(), RiakFilesError> {
        let hash = xxh3_128(key);
        self.change(match is_deletion {
            true => Change::Remove { hash },
            false => Change::Put { hash, file, place },
        })
    }

    /// Records a version, unless one with a higher place is known in any file. Fails if the partition has
    /// too many keys.
    pub(crate) fn raise(
        &mut self,
        key: &[u8],
        file: u32,
        place: u64,
    ) -> Result<(), RiakFilesError> {
        let hash = xxh3_128(key);
        match self.places.get(&hash) {
            Some(known) if known.1 > place => Ok(()),
            _ => self.change(Change::Put { hash, file, place }),
        }
    }

    /// Notes that all bytes before `offset` of `file` were indexed.
    pub(crate) fn reached(&mut self, file: u32, offset: u64) -> Result<(), RiakFilesError> {
        match &mut self.log {
            Some(log) => log.reached(file, offset),
            None => Ok(()),
        }
    }

    /// Completes the index.
    pub(crate) fn done(&mut self, file_count: usize) -> Result<(), RiakFilesError> {
        match self.log.take() {
            Some(log) => log.finish(length_u32(file_count)),
            None => Ok(()),
        }
    }

    pub(crate) fn is_newest(&self, key: &[u8], file: u32, place: u64) -> bool {
        self.places.get(&xxh3_128(key)) == Some(&(file, place))
    }

    fn change(&mut self, change: Change) -> Result<(), RiakFilesError> {
        if let Some(log) = &mut self.log {
            log.note(&change);
        }
        self.apply(change);
        if self.places.len() > self.keys_max {
            let (path, keys_max) = (self.directory.clone(), self.keys_max);
            return Err(RiakFilesError::TooManyKeys { path, keys_max });
        }
        Ok(())
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Put { hash, file, place } => self.places.insert(hash, (file, place)),
            Change::Remove { hash } => self.places.remove(&hash),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_too_many_is_an_error() {
        let opened = NewestVersions::open(Path::new("partition"), None, &[]);
        let (mut newest, _) = opened.expect("an empty index");
        newest.keys_max = 2;
        newest.take(b"one", 0, 10, false).expect("room");
        newest.raise(b"two", 0, 20).expect("room");
        newest.take(b"one", 0, 30, false).expect("a known key");
        let faults = [newest.raise(b"three", 0, 40), newest.take(b"four", 0, 50, false)];
        for fault in faults {
            assert!(matches!(fault, Err(RiakFilesError::TooManyKeys { keys_max: 2, .. })));
        }
    }
}
