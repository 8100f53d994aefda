//! Detection of byte-identical copies of records that were sent recently.

use anyhow::{Context, Result};
use foldhash::fast::RandomState;
use quoit_model::bitcask_key::BitcaskKey;
use quoit_riak_files::StoredRecord;
use serde::{Deserialize, Serialize};
use std::collections::{HashSet, VecDeque};
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3, xxh3_128};

/// Number of partitions whose copies are remembered. The copies of a record lie in n_val consecutive
/// partitions.
const PARTITIONS_MAX: usize = 4;
/// Most copies that are remembered, which take some 400 MiB of memory. Beyond this number a copy may be
/// sent again, and the cluster merges it.
const COPIES_MAX: usize = 12_000_000;

/// Longest object that is copied behind its name, to hash both in one call.
const HASHED_TOGETHER_BYTES: usize = 4 << 10;

/// Size of a hash in bytes.
const HASH_BYTES: usize = 16;

/// Hashes a record's name.
pub(super) fn name_hash(key: &BitcaskKey) -> u64 {
    let mut hasher = Xxh3::new();
    update_with_name(&mut hasher, key);
    hasher.digest()
}

fn update_with_name(hasher: &mut Xxh3, key: &BitcaskKey) {
    for part in [&key.bucket_type, &key.bucket, &key.key] {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
}

/// The file of one partition's hashes, and its valid length.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct KeptCopies {
    /// Index of the partition, in the order in which the import reads them.
    number: usize,
    bytes: u64,
}

/// The remembered copies of one partition.
struct Copies {
    number: usize,
    known: HashSet<u128, RandomState>,
    /// The file with the copies that the cluster has acknowledged; `None` until there are any.
    file: Option<File>,
    kept_bytes: u64,
}

/// The remembered copies of the last partitions, by a hash of name and object.
///
/// Acknowledged copies are also kept in one file for each partition, in the journal's directory. Without
/// the files, an import that continues after a kill would send most records of three partitions again.
pub(super) struct RecentCopies {
    /// Path of the files, without the partition's index.
    base: PathBuf,
    partitions: VecDeque<Copies>,
    /// Scratch space for the name and object of a record to hash.
    hashed: Vec<u8>,
}

impl RecentCopies {
    /// Reads the kept copies. A file that is missing or too short is skipped: its copies are sent again.
    pub(super) fn open(base: PathBuf, kept: &[KeptCopies]) -> Result<Self> {
        let mut recent = Self { base, partitions: VecDeque::new(), hashed: Vec::new() };
        for kept in kept {
            let path = recent.path(kept.number);
            let copies = read(&path, kept).with_context(|| path.display().to_string())?;
            recent.partitions.extend(copies);
        }
        Ok(recent)
    }

    fn path(&self, number: usize) -> PathBuf {
        let mut path = self.base.clone().into_os_string();
        path.push(format!("-{number}"));
        path.into()
    }

    /// Begins a partition, and forgets the oldest one if there are too many.
    pub(super) fn begin(&mut self, number: usize) -> Result<()> {
        if self.partitions.back().is_some_and(|copies| copies.number == number) {
            return Ok(());
        }
        while self.partitions.len() >= PARTITIONS_MAX {
            self.forget_oldest()?;
        }
        self.partitions.push_back(Copies::new(number));
        Ok(())
    }

    fn forget_oldest(&mut self) -> Result<()> {
        let Some(copies) = self.partitions.pop_front() else { return Ok(()) };
        remove(&self.path(copies.number))
    }

    /// Remembers a record and returns its hash. `None` if an identical copy is remembered already.
    pub(super) fn take_new(&mut self, record: &StoredRecord) -> Result<Option<u128>> {
        let hash = self.hash(record);
        if self.partitions.iter().any(|copies| copies.known.contains(&hash)) {
            return Ok(None);
        }
        let count: usize = self.partitions.iter().map(|copies| copies.known.len()).sum();
        if count >= COPIES_MAX {
            let number = self.partitions.back().map_or(0, |copies| copies.number);
            self.forget_oldest()?;
            self.begin(number)?;
        }
        if let Some(copies) = self.partitions.back_mut() {
            copies.known.insert(hash);
        }
        Ok(Some(hash))
    }

    /// Hashes name and object.
    fn hash(&mut self, record: &StoredRecord) -> u128 {
        if record.object.len() > HASHED_TOGETHER_BYTES {
            let mut hasher = Xxh3::new();
            update_with_name(&mut hasher, &record.key);
            hasher.update(&record.object);
            return hasher.digest128();
        }
        // Gives the same hash as the streaming hasher, which has a large state to initialise.
        self.hashed.clear();
        for part in [&record.key.bucket_type, &record.key.bucket, &record.key.key] {
            self.hashed.extend_from_slice(&(part.len() as u64).to_le_bytes());
            self.hashed.extend_from_slice(part);
        }
        self.hashed.extend_from_slice(&record.object);
        xxh3_128(&self.hashed)
    }

    /// Appends the hashes of acknowledged copies of the current partition to its file, and syncs the file.
    pub(super) fn keep(&mut self, hashes: &[u128]) -> Result<()> {
        let Some(path) = self.partitions.back().map(|copies| self.path(copies.number)) else {
            return Ok(());
        };
        if let Some(copies) = self.partitions.back_mut().filter(|_| !hashes.is_empty()) {
            copies.keep(&path, hashes).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// The files and their valid lengths.
    pub(super) fn kept(&self) -> Vec<KeptCopies> {
        let kept = |copies: &Copies| KeptCopies { number: copies.number, bytes: copies.kept_bytes };
        self.partitions.iter().map(kept).collect()
    }

    /// Deletes the files.
    pub(super) fn remove(mut self) -> Result<()> {
        while !self.partitions.is_empty() {
            self.forget_oldest()?;
        }
        Ok(())
    }
}

impl Copies {
    fn new(number: usize) -> Self {
        Self { number, known: HashSet::default(), file: None, kept_bytes: 0 }
    }

    fn keep(&mut self, path: &Path, hashes: &[u128]) -> std::io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            // A file that exists here belongs to another import.
            None => self.file.insert(File::create(path)?),
        };
        let bytes: Vec<u8> = hashes.iter().flat_map(|hash| hash.to_le_bytes()).collect();
        file.write_all(&bytes)?;
        file.sync_data()?;
        self.kept_bytes += bytes.len() as u64;
        Ok(())
    }
}

/// Reads the valid part of a file and truncates the file after it. `None` if the file is shorter.
fn read(path: &Path, kept: &KeptCopies) -> std::io::Result<Option<Copies>> {
    let mut copies = Copies::new(kept.number);
    if kept.bytes == 0 {
        return Ok(Some(copies));
    }
    let mut file = match OpenOptions::new().read(true).append(true).open(path) {
        Err(fault) if fault.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened?,
    };
    if file.metadata()?.len() < kept.bytes {
        return Ok(None);
    }
    file.set_len(kept.bytes)?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let (hashes, _) = bytes.as_chunks::<HASH_BYTES>();
    copies.known = hashes.iter().map(|hash| u128::from_le_bytes(*hash)).collect();
    (copies.file, copies.kept_bytes) = (Some(file), kept.bytes);
    Ok(Some(copies))
}

fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(fault) if fault.kind() == ErrorKind::NotFound => Ok(()),
        removed => removed.with_context(|| path.display().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn record(key: &'static str) -> StoredRecord {
        let part = Bytes::from_static;
        let key = BitcaskKey { bucket_type: part(b"t"), bucket: part(b"b"), key: key.into() };
        let (object, file) = (part(b"object"), Path::new("file").into());
        StoredRecord { key, object, written_secs: None, expires_at_us: None, file, offset: 0 }
    }

    #[test]
    fn only_copies_that_are_dealt_with_are_known_after_a_kill() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let base = folder.path().join("copies");
        let mut recent = RecentCopies::open(base.clone(), &[]).expect("none yet");
        recent.begin(3).expect("begun");
        let acknowledged = recent.take_new(&record("a")).expect("taken").expect("new");
        recent.keep(&[acknowledged]).expect("kept");
        let kept = recent.kept();
        let behind = recent.take_new(&record("b")).expect("taken").expect("new");
        // The file has this copy, but the journal was not written after it.
        recent.keep(&[behind]).expect("kept");
        drop(recent);
        let mut recent = RecentCopies::open(base, &kept).expect("those of before");
        recent.begin(3).expect("gone on with");
        assert_eq!(recent.take_new(&record("a")).expect("taken"), None);
        assert_eq!(recent.take_new(&record("b")).expect("taken"), Some(behind));
        for number in 4..8 {
            recent.begin(number).expect("begun");
        }
        assert!(recent.take_new(&record("a")).expect("taken").is_some(), "it is too long ago");
        let mut in_pieces = Xxh3::new();
        update_with_name(&mut in_pieces, &record("a").key);
        in_pieces.update(&record("a").object);
        assert_eq!(recent.hash(&record("a")), in_pieces.digest128());
        recent.remove().expect("removed");
        assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 0);
    }
}
