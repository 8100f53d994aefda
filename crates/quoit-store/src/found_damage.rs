//! Damaged records that an engine has met and that the node can repair from other replicas.

use crate::index::Tag;
use parking_lot::Mutex;
use quoit_model::hash::Partition;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};

/// Maximum number of noted records. Further records are noted when the engine finds them again later.
const NOTED_COUNT_MAX: usize = 4_096;

/// Damaged records that were met since the last call of [`FoundDamage::take`].
#[derive(Default)]
pub(crate) struct FoundDamage {
    noted: Mutex<BTreeSet<(Partition, Tag)>>,
    is_any: AtomicBool,
}

impl FoundDamage {
    /// Notes a damaged record.
    pub(crate) fn note(&self, partition: Partition, tag: Tag) {
        let mut noted = self.noted.lock();
        if noted.len() < NOTED_COUNT_MAX {
            noted.insert((partition, tag));
            self.is_any.store(true, Ordering::Release);
        }
    }

    /// Takes the noted records. Takes no lock if there are none.
    pub(crate) fn take(&self) -> Vec<(Partition, Tag)> {
        if !self.is_any.swap(false, Ordering::AcqRel) {
            return Vec::new();
        }
        std::mem::take(&mut *self.noted.lock()).into_iter().collect()
    }
}
