//! Content of a directory of Riak's.

use crate::bitcask::BitcaskScan;
use crate::leveldb::{LevelDbScan, has_levels};
use crate::leveled::LeveledScan;
use crate::ring::ring_size_of_files;
use crate::source::entries;
use crate::{Position, RiakFilesError, Visit};
use std::path::{Path, PathBuf};

/// The storage engine that wrote a partition.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Engine {
    /// Bitcask.
    Bitcask,
    /// LevelDB (eleveldb).
    LevelDb,
    /// Leveled.
    Leveled,
}

impl Engine {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Bitcask, Self::LevelDb, Self::Leveled];

    /// The name of its directory, which is also the word of `storage_backend`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bitcask => "bitcask",
            Self::LevelDb => "leveldb",
            Self::Leveled => "leveled",
        }
    }

    /// The engine of a partition's directory, by the files in it.
    fn of_partition(directory: &Path) -> Option<Self> {
        if directory.join("CURRENT").is_file() || has_levels(directory) {
            return Some(Self::LevelDb);
        }
        if directory.join("journal").join("journal_files").is_dir() {
            return Some(Self::Leveled);
        }
        let is_bitcask = |path: PathBuf| {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| name.ends_with(".bitcask.data") || name.starts_with("bitcask."))
        };
        let files = std::fs::read_dir(directory).ok()?;
        files.flatten().any(|file| is_bitcask(file.path())).then_some(Self::Bitcask)
    }
}

/// The directory of one partition.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Partition {
    /// Its index on the ring: the directory's name.
    pub index: String,
    /// Engine that wrote it.
    pub engine: Engine,
    /// Where it is.
    pub directory: PathBuf,
    /// Where the other levels of LevelDB's tables are, when they lie in two trees.
    pub slow_directory: Option<PathBuf>,
}

impl Partition {
    /// Shows each record in its newest version behind a position, and all damage. The order is the same as
    /// long as the files are.
    ///
    /// Bitcask and leveled are gone through twice. With `index_log`, a file that the caller deletes in the
    /// end, the first pass keeps there what it finds, so that a walk after the end of the process does not
    /// begin it anew: it takes 28 bytes for each record.
    ///
    /// # Errors
    ///
    /// When the system refuses to read or to write the log, or there are more keys than memory for them.
    pub fn read(
        &self,
        from: &Position,
        index_log: Option<&Path>,
        visit: &mut Visit<'_>,
    ) -> Result<(), RiakFilesError> {
        match self.engine {
            Engine::Bitcask => BitcaskScan::open(&self.directory)?.read(from, index_log, visit),
            Engine::LevelDb => LevelDbScan::open(&self.directory, self.slow_directory.as_deref())?
                .read(from, visit),
            Engine::Leveled => LeveledScan::open(&self.directory)?.read(from, index_log, visit),
        }
    }

    /// Bytes of the files that are read.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        let size = match self.engine {
            Engine::Bitcask => BitcaskScan::open(&self.directory).map(|scan| scan.size_bytes()),
            Engine::LevelDb => LevelDbScan::open(&self.directory, self.slow_directory.as_deref())
                .map(|scan| scan.size_bytes()),
            Engine::Leveled => LeveledScan::open(&self.directory).map(|scan| scan.size_bytes()),
        };
        size.unwrap_or(0)
    }
}

/// The partitions below one directory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Discovered {
    /// The partitions, by engine and index.
    pub partitions: Vec<Partition>,
    /// The number of partitions of the ring, by the ring file or else by the smallest distance between the
    /// partitions' indexes; `None` when neither tells.
    pub ring_size: Option<u32>,
}

/// Finds the partitions in a data directory of Riak's, in the directory of an engine, or in that of a
/// partition.
///
/// # Errors
///
/// When the directory can't be read, or has none.
pub fn discover(directory: &Path) -> Result<Discovered, RiakFilesError> {
    std::fs::read_dir(directory).map_err(RiakFilesError::io(directory))?;
    let mut partitions = Vec::new();
    if let Some(engine) = Engine::of_partition(directory).filter(|_| index_of(directory).is_some())
    {
        let index = index_of(directory).unwrap_or_default();
        let directory = directory.to_owned();
        partitions.push(Partition { index, engine, directory, slow_directory: None });
    } else {
        let folders = Engine::ALL.map(|engine| directory.join(engine.as_str()));
        // The backends of `multi_backend` have directories of any name.
        for folder in std::iter::once(directory.to_owned()).chain(folders) {
            partitions.extend(partitions_in(&folder)?);
        }
    }
    let order = |one: &Partition, other: &Partition| {
        (one.engine, place(&one.index)).cmp(&(other.engine, place(&other.index)))
    };
    partitions.sort_by(order);
    if partitions.is_empty() {
        return Err(RiakFilesError::NothingFound { path: directory.to_owned() });
    }
    let beside = [Some(directory), directory.parent()];
    let rings = beside.into_iter().flatten().map(|folder| ring_size_of_files(&folder.join("ring")));
    let ring_size = rings.flatten().next().or_else(|| ring_size_by_indexes(&partitions));
    Ok(Discovered { partitions, ring_size })
}

/// Whether a directory is the data directory of a Riak node: a new node must not start empty on it.
#[must_use]
pub fn is_riak_directory(directory: &Path) -> bool {
    let has_ring = std::fs::read_dir(directory.join("ring")).is_ok_and(|files| {
        files
            .flatten()
            .any(|file| file.file_name().to_string_lossy().starts_with("riak_core_ring."))
    });
    has_ring || discover(directory).is_ok()
}

fn partitions_in(folder: &Path) -> Result<Vec<Partition>, RiakFilesError> {
    let mut partitions = Vec::new();
    for directory in entries(folder)? {
        if !directory.is_dir() {
            continue;
        }
        if let (Some(index), Some(engine)) =
            (index_of(&directory), Engine::of_partition(&directory))
        {
            partitions.push(Partition { index, engine, directory, slow_directory: None });
        }
    }
    Ok(partitions)
}

/// The index that a directory is named by: a number of at most 49 digits.
fn index_of(directory: &Path) -> Option<String> {
    let name = directory.file_name()?.to_str()?;
    let is_index =
        !name.is_empty() && name.len() <= 49 && name.bytes().all(|byte| byte.is_ascii_digit());
    is_index.then(|| name.to_owned())
}

/// The key by which indexes are sorted: numbers of more digits are larger.
fn place(index: &str) -> (usize, &str) {
    (index.len(), index)
}

/// The ring size of which all indexes are multiples of 2^160 divided by it. A node of a large ring has few of
/// its partitions, so this is the least that it can be.
fn ring_size_by_indexes(partitions: &[Partition]) -> Option<u32> {
    // The first 16 of 160 bits tell all that rings of at most 65536 partitions differ by.
    let tops: Option<Vec<u32>> =
        partitions.iter().map(|partition| top_bits(&partition.index)).collect();
    let all = tops?.into_iter().fold(0, |all, top| all | top);
    let size = 1u32 << (16 - all.trailing_zeros().min(16));
    (partitions.len() > 1).then_some(size)
}

/// The first 16 of the 160 bits of an index; `None` when others are set.
fn top_bits(index: &str) -> Option<u32> {
    let mut number = [0u32; 6];
    for digit in index.bytes() {
        let mut carry = u64::from(digit - b'0');
        for part in &mut number {
            let value = u64::from(*part) * 10 + carry;
            *part = value as u32;
            carry = value >> 32;
        }
    }
    let is_multiple =
        number[..4].iter().all(|part| *part == 0) && number[4] & 0xffff == 0 && number[5] == 0;
    is_multiple.then_some(number[4] >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_size_follows_from_the_indexes() {
        let partitions = |indexes: &[&str]| -> Vec<Partition> {
            let partition = |index: &&str| Partition {
                index: (*index).to_owned(),
                engine: Engine::Bitcask,
                directory: PathBuf::new(),
                slow_directory: None,
            };
            indexes.iter().map(partition).collect()
        };
        let eighth = "182687704666362864775460604089535377456991567872";
        let sixty_fourth = "22835963083295358096932575511191922182123945984";
        assert_eq!(ring_size_by_indexes(&partitions(&["0", eighth])), Some(8));
        assert_eq!(ring_size_by_indexes(&partitions(&[eighth, sixty_fourth])), Some(64));
        assert_eq!(ring_size_by_indexes(&partitions(&["0", "17"])), None);
        assert_eq!(ring_size_by_indexes(&partitions(&["0"])), None);
    }
}
