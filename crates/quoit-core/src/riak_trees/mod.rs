//! The trees by which a Riak node compares whole clusters, over all records of buckets with one `n_val`.
//!
//! Nobody keeps them while nobody asks. Who asks first has each partition's part made by reading all of its
//! records; what was hashed is then kept beside the digest that the storage engine's index has of the record,
//! so that the next one has only those read whose digest has changed. So a write costs nothing, and a tree is
//! never behind the records. `docs/design/riak-trees.md` has the numbers.

mod ask;
mod kept;
mod serve;

pub use ask::TreeClock;

use kept::KeptPart;
use parking_lot::Mutex;
use quoit_model::hash::Partition;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Memory of all kept parts together; the parts that would go beyond it are made anew for each question.
pub const KEPT_BYTES_MAX: usize = 64 << 20;
/// How long a part is kept that nobody asks for.
const IDLE_SECS_MAX: u64 = 3_600;
/// How often kept parts are brought up to date, so that a question finds little to do.
const REFRESH_INTERVAL: Duration = Duration::from_secs(60);

/// Which part of which tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct PartName {
    n_val: u32,
    partition: Partition,
}

/// The parts of trees that a node keeps.
#[derive(Default)]
pub(crate) struct RiakTrees {
    parts: Mutex<BTreeMap<PartName, Slot>>,
}

/// A part that is kept. Who works on it holds its lock.
struct Slot {
    part: Arc<Mutex<KeptPart>>,
    asked_secs: u64,
    /// Memory that it had last.
    bytes: usize,
}

impl RiakTrees {
    /// The part of this name, an empty one if none is kept.
    fn part(&self, name: PartName, now_secs: u64) -> Arc<Mutex<KeptPart>> {
        let mut parts = self.parts.lock();
        let slot = parts.entry(name).or_insert_with(|| Slot {
            part: Arc::default(),
            asked_secs: now_secs,
            bytes: 0,
        });
        slot.asked_secs = now_secs;
        Arc::clone(&slot.part)
    }

    fn part_if_kept(&self, name: PartName) -> Option<Arc<Mutex<KeptPart>>> {
        self.parts.lock().get(&name).map(|slot| Arc::clone(&slot.part))
    }

    /// Notes how much memory a part has; it is let go where that is too much.
    fn note_bytes(&self, name: PartName, bytes: usize) {
        let mut parts = self.parts.lock();
        let others: usize =
            parts.iter().filter(|(other, _)| **other != name).map(|(_, slot)| slot.bytes).sum();
        if others + bytes > KEPT_BYTES_MAX {
            parts.remove(&name);
        } else if let Some(slot) = parts.get_mut(&name) {
            slot.bytes = bytes;
        }
    }

    /// Names of the parts that are still asked for; the others are let go.
    fn retain_asked(&self, now_secs: u64) -> Vec<PartName> {
        let mut parts = self.parts.lock();
        parts.retain(|_, slot| now_secs.saturating_sub(slot.asked_secs) <= IDLE_SECS_MAX);
        parts.keys().copied().collect()
    }

    /// Lets all go that is kept: a tree that differs from another one though no record does was made of
    /// something else than the records.
    pub(crate) fn forget(&self) {
        self.parts.lock().clear();
    }

    /// Memory of all parts, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.parts.lock().values().map(|slot| slot.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn name(partition: u16) -> PartName {
        PartName { n_val: 3, partition: Partition(partition) }
    }

    #[test]
    fn parts_are_kept_within_their_bound_while_somebody_asks() {
        let trees = RiakTrees::default();
        for (partition, asked_secs) in [(0, 10), (1, 20)] {
            drop(trees.part(name(partition), asked_secs));
            trees.note_bytes(name(partition), KEPT_BYTES_MAX / 2);
        }
        drop(trees.part(name(2), 20));
        trees.note_bytes(name(2), 1);
        assert_eq!(trees.bytes(), KEPT_BYTES_MAX, "the third did not fit");
        let kept = trees.retain_asked(10 + IDLE_SECS_MAX + 1);
        assert_eq!(kept, [name(1)]);
        trees.forget();
        assert_eq!(trees.bytes(), 0);
    }
}
