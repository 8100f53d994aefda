//! Discovery of the partitions in a data directory of Riak.

use crate::bitcask::BitcaskScan;
use crate::leveldb::{LevelDbScan, has_levels};
use crate::leveled::LeveledScan;
use crate::ring::ring_size_of_files;
use crate::source::entries;
use crate::{Position, RiakFilesError, VisitFn};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Number of levels below a data directory in which directories with other names than the engines'
/// are searched.
const LEVELS_MAX: u32 = 2;

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
    /// All engines.
    pub const ALL: [Self; 3] = [Self::Bitcask, Self::LevelDb, Self::Leveled];

    /// Name of the engine's directory, which is also its word in `storage_backend`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Bitcask => "bitcask",
            Self::LevelDb => "leveldb",
            Self::Leveled => "leveled",
        }
    }

    /// The engine of a partition's directory, determined from its files.
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
    /// Index of the partition on the ring, which is the directory's name.
    pub index: String,
    /// The engine that wrote the partition.
    pub engine: Engine,
    /// Directory of the partition.
    pub directory: PathBuf,
    /// Directory of the other levels of LevelDB's tables, with tiered storage.
    pub slow_directory: Option<PathBuf>,
}

impl Partition {
    /// Shows the newest version of each record after a position, and all damage. The order stays
    /// the same as long as the files do not change.
    ///
    /// For Bitcask and leveled the files are read twice. If `index_log` is given, the first pass
    /// keeps its results in that file (28 bytes for each record), so that after an interruption it
    /// continues where it was. The caller deletes the file in the end.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses to read, or to write the log, or if the partition has
    /// too many keys.
    pub fn read(
        &self,
        from: &Position,
        index_log: Option<&Path>,
        visit: &mut VisitFn<'_>,
    ) -> Result<(), RiakFilesError> {
        match self.engine {
            Engine::Bitcask => BitcaskScan::open(&self.directory)?.read(from, index_log, visit),
            Engine::LevelDb => LevelDbScan::open(&self.directory, self.slow_directory.as_deref())?
                .read(from, visit),
            Engine::Leveled => LeveledScan::open(&self.directory)?.read(from, index_log, visit),
        }
    }

    /// Total size in bytes of the files that a walk reads.
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
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DiscoveredPartitions {
    /// The partitions, ordered by engine and index.
    pub partitions: Vec<Partition>,
    /// Number of partitions of the ring, from the ring file or else from the smallest distance
    /// between the partitions' indexes; `None` if neither is known.
    pub ring_size: Option<u32>,
    /// Directories with other names than the engines' that have partitions: those of the backends
    /// of `multi_backend`, or copies.
    pub others: Vec<PathBuf>,
    /// Directories that the system refuses to list.
    pub unread: Vec<PathBuf>,
}

impl DiscoveredPartitions {
    /// Adds the partitions in directories of any name, `levels` levels below this one. `known` has
    /// the canonical paths of the partitions found so far.
    fn add_others(&mut self, directory: &Path, levels: u32, known: &mut BTreeSet<PathBuf>) {
        for folder in entries(directory).unwrap_or_default() {
            if !may_have_partitions(&folder) {
                continue;
            }
            let Ok(partitions) = partitions_in(&folder) else {
                self.unread.push(folder);
                continue;
            };
            let count = self.partitions.len();
            let is_new = |partition: &Partition| known.insert(real_path(&partition.directory));
            self.partitions.extend(partitions.into_iter().filter(is_new));
            if self.partitions.len() > count {
                self.others.push(folder.clone());
            }
            if levels > 1 {
                self.add_others(&folder, levels - 1, known);
            }
        }
    }
}

/// Finds the partitions in a data directory of Riak (up to two levels deep), in an engine's
/// directory, or in a partition's directory. Trees of active anti-entropy, which have the same
/// form, are left out.
///
/// # Errors
///
/// Returns an error if the directory can't be read, or has no partitions.
pub fn discover(directory: &Path) -> Result<DiscoveredPartitions, RiakFilesError> {
    std::fs::read_dir(directory).map_err(RiakFilesError::io(directory))?;
    let partitions = usual_partitions(directory)?;
    let mut found = DiscoveredPartitions { partitions, ..DiscoveredPartitions::default() };
    if partition_at(directory).is_none() {
        // The backends of `multi_backend` have directories of any name.
        let places = found.partitions.iter().map(|partition| real_path(&partition.directory));
        let mut known = places.collect();
        found.add_others(directory, LEVELS_MAX, &mut known);
    }
    let order = |one: &Partition, other: &Partition| {
        (one.engine, place(&one.index)).cmp(&(other.engine, place(&other.index)))
    };
    found.partitions.sort_by(order);
    if found.partitions.is_empty() {
        return Err(RiakFilesError::NothingFound { path: directory.to_owned() });
    }
    let beside = [Some(directory), directory.parent()];
    let rings = beside.into_iter().flatten().map(|folder| ring_size_of_files(&folder.join("ring")));
    found.ring_size = rings.flatten().next().or_else(|| ring_size_by_indexes(&found.partitions));
    Ok(found)
}

/// The partitions in a directory and in the engines' directories below it; or the directory itself,
/// if it is a partition.
fn usual_partitions(directory: &Path) -> Result<Vec<Partition>, RiakFilesError> {
    if let Some(partition) = partition_at(directory) {
        return Ok(vec![partition]);
    }
    let mut partitions = partitions_in(directory)?;
    for engine in Engine::ALL {
        partitions.extend(partitions_in(&directory.join(engine.as_str()))?);
    }
    Ok(partitions)
}

/// True if a directory is the data directory of a Riak node. A new node of Quoit must not start
/// empty on it.
#[must_use]
pub fn is_riak_directory(directory: &Path) -> bool {
    let has_ring = std::fs::read_dir(directory.join("ring")).is_ok_and(|files| {
        files
            .flatten()
            .any(|file| file.file_name().to_string_lossy().starts_with("riak_core_ring."))
    });
    has_ring || usual_partitions(directory).is_ok_and(|partitions| !partitions.is_empty())
}

fn partitions_in(folder: &Path) -> Result<Vec<Partition>, RiakFilesError> {
    let found = entries(folder)?;
    Ok(found.iter().filter_map(|directory| partition_at(directory)).collect())
}

/// The partition of this directory, if it is one.
fn partition_at(directory: &Path) -> Option<Partition> {
    let (index, engine) = (index_of(directory)?, Engine::of_partition(directory)?);
    Some(Partition { index, engine, directory: directory.to_owned(), slow_directory: None })
}

/// True if a directory may belong to a backend: it is not a partition, not a tree of active
/// anti-entropy, and not a directory of the system or of a home directory.
fn may_have_partitions(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let is_tree = name.contains("anti_entropy") || name.contains("aae");
    let is_of_system = name.starts_with('.') || name == "lost+found";
    folder.is_dir() && index_of(folder).is_none() && !is_tree && !is_of_system
}

/// The path without symbolic links.
fn real_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}

/// The index that a directory is named by: a number of at most 49 digits.
fn index_of(directory: &Path) -> Option<String> {
    let name = directory.file_name()?.to_str()?;
    let is_index =
        !name.is_empty() && name.len() <= 49 && name.bytes().all(|byte| byte.is_ascii_digit());
    is_index.then(|| name.to_owned())
}

/// Sort key of an index: a number with more digits is larger.
fn place(index: &str) -> (usize, &str) {
    (index.len(), index)
}

/// The smallest ring size for which all indexes are multiples of 2^160 / size. The actual size may
/// be larger, since a node of a large ring has few of its partitions.
fn ring_size_by_indexes(partitions: &[Partition]) -> Option<u32> {
    // The indexes of rings of at most 65 536 partitions differ only in the first 16 of 160 bits.
    let tops: Option<Vec<u32>> =
        partitions.iter().map(|partition| top_bits(&partition.index)).collect();
    let all = tops?.into_iter().fold(0, |all, top| all | top);
    let size = 1u32 << (16 - all.trailing_zeros().min(16));
    // Several backends have directories with the same index.
    let mut indexes = partitions.iter().map(|partition| &partition.index);
    let first = indexes.next();
    let are_many = indexes.any(|index| Some(index) != first);
    are_many.then_some(size)
}

/// The first 16 of the 160 bits of an index; `None` if other bits are set.
fn top_bits(index: &str) -> Option<u32> {
    let mut number = [0u32; 6];
    for digit in index.bytes() {
        let mut carry = u64::from(digit - b'0');
        for part in &mut number {
            let value = u64::from(*part) * 10 + carry;
            *part = quoit_number::low_u32(value);
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
        assert_eq!(ring_size_by_indexes(&partitions(&["0", "0"])), None);
    }

    #[test]
    fn directories_of_backends_are_found_beside_those_of_the_engines() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let data = |place: &str| {
            let directory = folder.path().join(place);
            std::fs::create_dir_all(&directory).expect("a directory");
            std::fs::write(directory.join("1.bitcask.data"), b"").expect("a file");
        };
        let places = ["bitcask/0", "bitcask_expiring/0", "bitcask_expiring/17", "multi/be_two/0"];
        places.into_iter().for_each(data);
        // Trees, directories below a partition, a directory that is too deep, and a second name of
        // a known one.
        ["anti_entropy/0", "bitcask/0/old/0", "a/b/c/0", ".old/0"].into_iter().for_each(data);
        let link = folder.path().join("link");
        std::os::unix::fs::symlink(folder.path().join("bitcask"), &link).expect("a link");
        let found = discover(folder.path()).expect("a directory of Riak's");
        let mut directories: Vec<_> = found.partitions.iter().map(|one| &one.directory).collect();
        directories.sort();
        let expected = places.map(|place| folder.path().join(place));
        assert_eq!(directories, expected.iter().collect::<Vec<_>>());
        let others = ["bitcask_expiring", "multi/be_two"].map(|name| folder.path().join(name));
        assert_eq!((found.others, found.unread), (others.to_vec(), Vec::new()));
        assert!(is_riak_directory(folder.path()));
        assert!(!is_riak_directory(&folder.path().join("multi")), "a node may start beside copies");
    }

    #[test]
    fn the_words_of_the_system_are_told_once() {
        let fault = discover(Path::new("nonexist")).expect_err("there is no such directory");
        assert_eq!(fault.to_string(), "nonexist");
        let source = std::error::Error::source(&fault).expect("the words of the system");
        assert!(source.to_string().starts_with("No such file"), "{source}");
    }
}
