//! Riak's hash trees over all records of the buckets with one `n_val`, by which a Riak node compares
//! whole clusters.
//!
//! Nodes keep no trees until a Riak node asks. For the first question, a node reads all its records of
//! each partition and hashes them. It stores each hash in a file, beside the record's digest in the
//! index of the storage engine. For later questions it reads only the records whose digest has changed.
//! Writes therefore cost nothing, and a tree never lags behind the records. `docs/design/riak-trees.md`
//! has the numbers.
//!
//! The tree of a cluster is the XOR of the trees of all its partitions (*parts*), each computed by one
//! node with a complete copy.

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

/// Maximum memory of all parts together, for hashes that are not in their files.
const MEMORY_BYTES_MAX: usize = 64 << 20;
/// Time after a question during which a part is kept up to date.
const FOLLOWED_SECS: u64 = 3_600;
/// Time after a question for which the file of a part is kept. Riak compares whole clusters at least
/// once a day.
const KEPT_SECS: u64 = 2 * 86_400;
/// Interval at which parts are brought up to date, so that a question finds little to do.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);

/// Size of the trees that Riak nodes keep.
const KEPT_SIZE: TreeSize = TreeSize::Large;

/// Name of a part: a partition and an `n_val`.
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

/// Riak's trees over the records of the cluster, as this node computes them and asks other nodes for
/// theirs. Shared; every method takes `&self`.
pub struct RiakTrees {
    local: Arc<LocalNode>,
    kept: KeptTrees,
}

impl RiakTrees {
    /// Keeps hashes in memory, within a bound. They end with the process.
    pub(crate) fn in_memory(local: &Arc<LocalNode>) -> Arc<Self> {
        Arc::new(Self { local: Arc::clone(local), kept: KeptTrees::default() })
    }

    /// Keeps hashes on a disk, and reuses the ones that are there.
    pub(crate) fn open(local: &Arc<LocalNode>, disk: Arc<dyn Disk>) -> Arc<Self> {
        let kept = KeptTrees::open(disk, local.clock.unix_secs());
        Arc::new(Self { local: Arc::clone(local), kept })
    }
}

/// Parts of trees that a node keeps.
#[derive(Default)]
struct KeptTrees {
    /// Directory of their files; without one everything is in memory.
    disk: Option<Arc<dyn Disk>>,
    parts: Mutex<BTreeMap<PartName, Slot>>,
    /// Incremented when all files are dropped. The result of a pass that began before is discarded.
    generation: AtomicU64,
    /// Number of records that were read and hashed.
    read_count: AtomicU64,
}

/// A part that is kept. A pass holds the lock of its `part`.
struct Slot {
    part: Arc<Mutex<KeptPart>>,
    asked_secs: Option<u64>,
    /// Time at which the file is removed.
    kept_until_secs: u64,
    /// Memory of the part after its last pass.
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
    /// Number of parts.
    pub part_count: u64,
    /// Memory of all parts, in bytes.
    pub memory_bytes: u64,
    /// Number of records that were read and hashed since the start of the node.
    pub read_count: u64,
}

impl KeptTrees {
    /// Keeps parts on a disk, beginning with the ones that are there. If the disk fails, records are
    /// read again.
    fn open(disk: Arc<dyn Disk>, now_secs: u64) -> Self {
        let mut parts = BTreeMap::new();
        for file_name in disk.list().unwrap_or_default() {
            match PartName::of_file(&file_name) {
                Some(name) => {
                    let kept_until_secs = now_secs + KEPT_SECS;
                    let part = Arc::default();
                    parts.insert(name, Slot { part, asked_secs: None, kept_until_secs, bytes: 0 });
                }
                // A file that a crash left half-written.
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

    /// Opens the file of a part, and creates a new one to replace it if `is_wanted`. Also returns the
    /// generation for [`KeptTrees::put_in_place`].
    fn files(
        &self,
        name: PartName,
        is_wanted: bool,
    ) -> (Option<PartReader>, Option<PartWriter>, u64) {
        let generation = self.generation.load(Ordering::SeqCst);
        let Some(disk) = self.disk.as_deref() else { return (None, None, generation) };
        let writer = is_wanted.then(|| {
            let new_name = format!("{}.{generation}.new", name.file_name());
            // It exists only if the disk refused to remove it earlier.
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

    /// Replaces the file of a part by a new one, unless all files were dropped since the pass began.
    /// True if it was replaced.
    fn put_in_place(&self, name: PartName, new_name: &str, generation: u64) -> bool {
        let Some(disk) = &self.disk else { return false };
        // Held so that no other thread drops the files in between.
        let _parts = self.parts.lock();
        if self.generation.load(Ordering::SeqCst) != generation {
            let _ = disk.remove(new_name);
            return false;
        }
        disk.rename(new_name, &name.file_name()).is_ok()
    }

    /// Notes the memory of a part. False if all parts together would exceed the limit.
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

    /// The parts that need work: parts that are kept up to date (true), and parts that no longer are
    /// but still hold memory (false). Removes files for which no question came in a long time.
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

    /// Drops everything that is kept. Called when a tree differs from another cluster's although no
    /// record does, which shows that the hashes do not match the records.
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
