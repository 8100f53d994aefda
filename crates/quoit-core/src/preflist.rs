//! Preference lists in the form that clients see.

use crate::error::RequestError;
use crate::local_node::LocalNode;
use crate::placement::{bucket_props, record_at};
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;

/// One position of a preference list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreflistEntry {
    /// Partition that clients are shown for the position: the record's partition for the first position,
    /// the next partitions for the others, as in Riak.
    pub partition: Partition,
    /// Name of the node that answers for the position now.
    pub node: String,
    /// True if the node is the position's own node, false if it is a fallback.
    pub primary: bool,
}

impl LocalNode {
    /// As [`ReplicatedStore::preflist`](crate::ReplicatedStore::preflist).
    pub(crate) fn preflist(&self, key: KeyRef<'_>) -> Result<Vec<PreflistEntry>, RequestError> {
        key.check()?;
        let state = self.control.read();
        let props = bucket_props(&state, key.bucket)?;
        let encoded = key.encoded();
        let first = record_at(&state, props, key, &encoded).partition;
        let partition_count = state.ring_size().get();
        let n_val = props.n_val.min(u32::from(partition_count));
        let topology = self.topology_of(&state);
        let positions = topology.positions(first, n_val).into_iter().zip(0..);
        let places = positions.map(|((node, primary), position)| PreflistEntry {
            // Riak's clients expect another partition for each position.
            partition: Partition((first.0 + position) % partition_count),
            node: (*topology.node(node).name).to_owned(),
            primary,
        });
        Ok(places.collect())
    }
}
