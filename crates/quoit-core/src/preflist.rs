//! Preference lists as clients are shown them.

use crate::error::RequestError;
use crate::local_node::LocalNode;
use crate::placement::{bucket_props, record_at};
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;

/// One position of a preference list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreflistPlace {
    /// The partition.
    pub partition: Partition,
    /// Name of the node that holds it.
    pub node: String,
    /// Whether the node is a primary and no fallback.
    pub primary: bool,
}

impl LocalNode {
    /// As [`ReplicatedStore::preflist`](crate::ReplicatedStore::preflist).
    pub(crate) fn preflist(&self, key: KeyRef<'_>) -> Result<Vec<PreflistPlace>, RequestError> {
        key.check()?;
        let state = self.control.read();
        let props = bucket_props(&state, key.bucket)?;
        let encoded = key.encoded();
        let first = record_at(&state, props, key, &encoded).partition;
        let partition_count = state.ring_size().get();
        let n_val = props.n_val.min(u32::from(partition_count));
        let topology = self.topology_of(&state);
        let positions = topology.positions(first, n_val).into_iter().zip(0..);
        let places = positions.map(|((node, primary), position)| PreflistPlace {
            // Each position has a partition of its own as clients are shown it.
            partition: Partition((first.0 + position) % partition_count),
            node: (*topology.node(node).name).to_owned(),
            primary,
        });
        Ok(places.collect())
    }
}
