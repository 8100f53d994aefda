//! Consequences of a record that was written here.

use super::Replica;
use crate::placement::primaries;
use quoit_cluster::NoSuchType;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_store::engine::RecordAt;
use std::collections::BTreeSet;

impl Replica {
    /// Notes that a record was written here. If this node is no primary of it, it is to be handed over.
    /// Where the node is not the first primary of the partition this costs a look at the bucket's properties.
    pub(crate) fn note_written(&self, partition: Partition, encoded: &[u8]) {
        let topology = self.local.topology_now();
        if topology.is_own(partition, 1) {
            return;
        }
        let Ok(key) = KeyRef::decode(encoded) else { return };
        let state = self.local.control.read();
        // Not as the sender has it: it may not have heard yet that the bucket has fewer replicas.
        let missing = match state.bucket_props(key.bucket) {
            Ok(props) if topology.is_own(partition, props.n_val) => return,
            Ok(props) => self.local.unreachable(&primaries(&state, partition, props.n_val)),
            Err(NoSuchType) => BTreeSet::new(),
        };
        self.suspects.lock().suspect(partition, missing);
    }

    /// Remembers a tombstone that is being written here now, if it is this node's business to reap it.
    pub(crate) fn note_tombstone(&self, at: &RecordAt<'_>, digest: u64) {
        if self.local.topology_now().is_first_primary(at.partition) {
            self.tombstones.note(
                self.local.settings.delete_mode,
                at,
                digest,
                self.local.clock.unix_us(),
            );
        }
    }
}
