//! Bookkeeping after a record was written on this node: possible strays, and tombstones to reap.

use super::Replica;
use crate::placement::primaries;
use quoit_cluster::NoSuchType;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_store::engine::RecordAt;
use std::collections::BTreeSet;

impl Replica {
    /// Notes that a record was written here. If this node is not a primary of the record, the record is a
    /// stray, and its partition is noted as one to hand over. Costs a look-up of the bucket's properties
    /// unless this node is the first primary of the partition.
    pub(crate) fn note_written(&self, partition: Partition, encoded: &[u8]) {
        let topology = self.local.topology_now();
        if topology.is_own(partition, 1) {
            return;
        }
        let Ok(key) = KeyRef::decode(encoded) else { return };
        let state = self.local.control.read();
        // Uses this node's n_val and not the sender's, because the sender may not know yet that the
        // bucket's n_val was lowered.
        let missing = match state.bucket_props(key.bucket) {
            Ok(props) if topology.is_own(partition, props.n_val) => return,
            Ok(props) => self.local.unreachable(&primaries(&state, partition, props.n_val)),
            Err(NoSuchType) => BTreeSet::new(),
        };
        self.suspects.lock().suspect(partition, missing);
    }

    /// Notes a tombstone that is being written, for removal later. Only the first primary of a partition
    /// notes tombstones.
    pub(crate) fn note_tombstone(&self, at: &RecordAt<'_>, digest: u64) {
        if self.local.topology_now().is_first_primary(at.partition) {
            self.tombstones.note(
                self.local.clock.unix_us(),
                self.local.settings.delete_mode,
                at,
                digest,
            );
        }
    }
}
