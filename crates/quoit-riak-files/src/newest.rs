//! Index of the newest version of each key in a partition, by hashes of the keys.

use crate::RiakFilesError;
use crate::index_log::{Change, IndexLog};
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_128;

/// Maximum number of keys of a partition, which take some 4 GiB of memory.
pub(crate) const KEYS_MAX: usize = 80_000_000;

/// The file and place of the newest version of each key of a partition. Takes about 50 bytes for a
/// key of any length.
///
/// With a log, the index is kept on disk while it is built, so that building it continues after the
/// end of the process.
#[derive(Default)]
pub(crate) struct Newest {
    places: HashMap<u128, (u32, u64), RandomState>,
    log: Option<IndexLog>,
}

impl Newest {
    /// Opens the index with the content of the log of these files. Returns the index, and the file
    /// and offset at which building continues. Without a log, or with a log of other files, the
    /// index is empty.
    pub(crate) fn open(
        log: Option<&Path>,
        files: &[PathBuf],
    ) -> Result<(Self, (u32, u64)), RiakFilesError> {
        let mut newest = Self::default();
        let Some(path) = log else { return Ok((newest, (0, 0))) };
        let (log, reached) = IndexLog::open(path, files, &mut |change| newest.apply(change))?;
        newest.log = Some(log);
        Ok((newest, reached))
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len()
    }

    /// Records a version of a key, or its deletion, that is later than all versions so far.
    pub(crate) fn take(&mut self, key: &[u8], file: u32, place: u64, is_deletion: bool) {
        let hash = xxh3_128(key);
        self.change(match is_deletion {
            true => Change::Remove { hash },
            false => Change::Put { hash, file, place },
        });
    }

    /// Records a version, unless one with a higher place is known in any file.
    pub(crate) fn raise(&mut self, key: &[u8], file: u32, place: u64) {
        let hash = xxh3_128(key);
        if self.places.get(&hash).is_none_or(|known| known.1 <= place) {
            self.change(Change::Put { hash, file, place });
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
    pub(crate) fn done(&mut self, file_count: u32) -> Result<(), RiakFilesError> {
        match self.log.take() {
            Some(log) => log.finish(file_count),
            None => Ok(()),
        }
    }

    pub(crate) fn is_newest(&self, key: &[u8], file: u32, place: u64) -> bool {
        self.places.get(&xxh3_128(key)) == Some(&(file, place))
    }

    fn change(&mut self, change: Change) {
        if let Some(log) = &mut self.log {
            log.note(&change);
        }
        self.apply(change);
    }

    fn apply(&mut self, change: Change) {
        match change {
            Change::Put { hash, file, place } => self.places.insert(hash, (file, place)),
            Change::Remove { hash } => self.places.remove(&hash),
        };
    }
}
