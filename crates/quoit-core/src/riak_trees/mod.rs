//! The trees by which a Riak node compares whole clusters, over all records of buckets with one `n_val`.
//!
//! No node keeps them while no Riak asks. The first question has each partition's part made by reading all of
//! its records; what was hashed is then kept in a file, beside the digest that the storage engine's index has
//! of the record, so that the next question has only those read whose digest has changed. So a write costs
//! nothing, and a tree is never behind the records. `docs/design/riak-trees.md` has the numbers.

mod ask;
#[cfg(any(test, feature = "testing"))]
mod fuzz;
mod kept;
mod part_file;
mod pass;
mod serve;
#[cfg(test)]
mod tests;

pub use ask::TreeClock;
#[cfg(any(test, feature = "testing"))]
pub use fuzz::{fuzz_riak_tree_file, riak_tree_file_samples};

use crate::local_node::LocalNode;
use kept::KeptPart;
use parking_lot::Mutex;
use part_file::{PartReader, PartWriter};
use quoit_model::hash::Partition;
use quoit_model::segments::TreeSize;
use quoit_seam::Disk;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Memory that all parts may take for what their files do not have.
const MEMORY_BYTES_MAX: usize = 64 << 20;
/// How long a part follows the records after a question.
const FOLLOWED_SECS: u64 = 3_600;
/// How long the file of a part is kept after a question. Riak compares whole clusters at least once a day.
const KEPT_SECS: u64 = 2 * 86_400;
/// How often parts are brought up to date, so that a question finds little to do.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);

/// The size that Riak nodes keep their trees in.
const KEPT_SIZE: TreeSize = TreeSize::Large;

/// Which part of which tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct PartName {
    n_val: u32,
    partition: Partition,
}

impl PartName {
    fn file_name(self) -> String {
        format!("{}-{}.tree", self.n_val, self.partition.0)
    }

    fn of_file(name: &str) -> Option<Self> {
        let (n_val, partition) = name.strip_suffix(".tree")?.split_once('-')?;
        let name =
            Self { n_val: n_val.parse().ok()?, partition: Partition(partition.parse().ok()?) };
        Some(name)
    }
}

/// Trees over the records of a cluster, as one of its nodes has them made. Shared; every method takes
/// `&self`.
pub struct RiakTrees {
    local: Arc<LocalNode>,
    kept: KeptTrees,
}

impl RiakTrees {
    /// Keeps what was hashed in memory, within a bound; it ends with the process.
    pub(crate) fn in_memory(local: &Arc<LocalNode>) -> Arc<Self> {
        Arc::new(Self { local: Arc::clone(local), kept: KeptTrees::default() })
    }

    /// Keeps what was hashed on a disk, and takes up what is there.
    pub(crate) fn open(local: &Arc<LocalNode>, disk: Arc<dyn Disk>) -> Arc<Self> {
        let kept = KeptTrees::open(disk, local.clock.unix_secs());
        Arc::new(Self { local: Arc::clone(local), kept })
    }
}

/// The parts of trees that a node keeps.
#[derive(Default)]
struct KeptTrees {
    /// Where their files are; without it all is in memory.
    disk: Option<Arc<dyn Disk>>,
    parts: Mutex<BTreeMap<PartName, Slot>>,
    /// Grows when all files are dropped: what a pass has begun before does not count any more.
    generation: AtomicU64,
    /// Records that were read and hashed.
    read_count: AtomicU64,
}

/// A part that is kept. A pass holds its lock.
struct Slot {
    part: Arc<Mutex<KeptPart>>,
    asked_secs: Option<u64>,
    /// The file is removed then.
    kept_until_secs: u64,
    /// Memory that it had last.
    bytes: usize,
}

impl Slot {
    fn is_followed(&self, now_secs: u64) -> bool {
        self.asked_secs.is_some_and(|asked| now_secs.saturating_sub(asked) <= FOLLOWED_SECS)
    }
}

/// Figures of the trees that a node keeps for Riak.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RiakTreeFigures {
    /// Parts, each of a partition and an `n_val`.
    pub part_count: u64,
    /// Memory of all, in bytes.
    pub memory_bytes: u64,
    /// Records that were read and hashed since the node's start.
    pub read_count: u64,
}

impl KeptTrees {
    /// Keeps parts on a disk, with those that are there. A disk that refuses costs reading records again.
    fn open(disk: Arc<dyn Disk>, now_secs: u64) -> Self {
        let mut parts = BTreeMap::new();
        for file_name in disk.list().unwrap_or_default() {
            match PartName::of_file(&file_name) {
                Some(name) => {
                    let kept_until_secs = now_secs + KEPT_SECS;
                    let part = Arc::default();
                    parts.insert(name, Slot { part, asked_secs: None, kept_until_secs, bytes: 0 });
                }
                // One that a crash has left in the midst of it.
                None if file_name.ends_with(".new") => drop(disk.remove(&file_name)),
                None => {}
            }
        }
        Self { disk: Some(disk), parts: Mutex::new(parts), ..Self::default() }
    }

    /// The part of this name, for a question.
    fn part(&self, name: PartName, now_secs: u64) -> Arc<Mutex<KeptPart>> {
        let mut parts = self.parts.lock();
        let slot = parts.entry(name).or_insert_with(|| Slot {
            part: Arc::default(),
            asked_secs: None,
            kept_until_secs: 0,
            bytes: 0,
        });
        slot.asked_secs = Some(now_secs);
        slot.kept_until_secs = now_secs + KEPT_SECS;
        Arc::clone(&slot.part)
    }

    fn part_if_kept(&self, name: PartName) -> Option<Arc<Mutex<KeptPart>>> {
        self.parts.lock().get(&name).map(|slot| Arc::clone(&slot.part))
    }

    /// The file of a part, and one to be written in its place if that is `wanted`; with the generation that
    /// [`KeptTrees::put_in_place`] asks for.
    fn files(
        &self,
        name: PartName,
        is_wanted: bool,
    ) -> (Option<PartReader>, Option<PartWriter>, u64) {
        let generation = self.generation.load(Ordering::SeqCst);
        let Some(disk) = self.disk.as_deref() else { return (None, None, generation) };
        let writer = is_wanted.then(|| {
            let new_name = format!("{}.{generation}.new", name.file_name());
            // There is one only if the disk has refused it before.
            let _ = disk.remove(&new_name);
            PartWriter::create(disk, name, new_name)
        });
        let writer = writer.and_then(|created| {
            created
                .inspect_err(
                    |fault| tracing::warn!(%fault, "a tree for Riak can't be kept on disk"),
                )
                .ok()
        });
        (PartReader::open(disk, name), writer, generation)
    }

    /// Has a file that was written count, unless all were dropped since its pass began.
    fn put_in_place(&self, name: PartName, new_name: &str, generation: u64) -> bool {
        let Some(disk) = &self.disk else { return false };
        // Held, so that nobody drops the files in between.
        let _parts = self.parts.lock();
        if self.generation.load(Ordering::SeqCst) != generation {
            let _ = disk.remove(new_name);
            return false;
        }
        disk.rename(new_name, &name.file_name()).is_ok()
    }

    /// Notes how much memory a part has. False where that is too much.
    fn note_bytes(&self, name: PartName, bytes: usize) -> bool {
        let mut parts = self.parts.lock();
        let others: usize =
            parts.iter().filter(|(other, _)| **other != name).map(|(_, slot)| slot.bytes).sum();
        let has_room = others + bytes <= MEMORY_BYTES_MAX;
        if let Some(slot) = parts.get_mut(&name) {
            slot.bytes = if has_room { bytes } else { 0 };
        }
        has_room
    }

    /// The parts that follow the records, and those that do so no longer but still have something in memory.
    /// Files that were not asked for in a long time are removed.
    fn due(&self, now_secs: u64) -> Vec<(PartName, bool)> {
        let mut parts = self.parts.lock();
        parts.retain(|name, slot| {
            let is_kept = now_secs <= slot.kept_until_secs;
            if !is_kept && let Some(disk) = &self.disk {
                let _ = disk.remove(&name.file_name());
            }
            is_kept
        });
        let named =
            parts.iter().map(|(name, slot)| (*name, slot.is_followed(now_secs), slot.bytes));
        named
            .filter(|(_, is_followed, bytes)| *is_followed || *bytes > 0)
            .map(|(name, is_followed, _)| (name, is_followed))
            .collect()
    }

    /// Drops all that is kept: a tree that differs from another one though no record does was made of
    /// something else than the records.
    fn forget(&self) {
        let mut parts = self.parts.lock();
        self.generation.fetch_add(1, Ordering::SeqCst);
        for name in std::mem::take(&mut *parts).into_keys() {
            if let Some(disk) = &self.disk {
                let _ = disk.remove(&name.file_name());
            }
        }
    }

    fn figures(&self) -> RiakTreeFigures {
        let parts = self.parts.lock();
        RiakTreeFigures {
            part_count: parts.len() as u64,
            memory_bytes: parts.values().map(|slot| slot.bytes as u64).sum(),
            read_count: self.read_count.load(Ordering::Relaxed),
        }
    }
}
