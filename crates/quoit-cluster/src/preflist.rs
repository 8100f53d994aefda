//! Preference lists with the names of nodes.

use crate::state::State;
use quoit_model::hash::{Partition, Placement};
use std::sync::Arc;

/// One position of a preference list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PreflistEntry {
    /// The partition as clients number it.
    pub partition: Partition,
    /// Name of the node that holds it.
    pub node_name: Arc<str>,
    /// Whether the node is a primary and not a stand-in.
    pub is_primary: bool,
}

impl State {
    /// The preference list of a record as clients are shown it: its partition and the following
    /// ones, wrapping around, `n_val` in all but never more than there are partitions.
    pub fn preflist(
        &self,
        placement: Placement,
        n_val: u32,
    ) -> impl Iterator<Item = PreflistEntry> + '_ {
        let newest = self.layouts().newest();
        newest.preflist(placement, n_val).map(|(partition, node)| PreflistEntry {
            partition,
            node_name: self.members().name_of(node),
            is_primary: true,
        })
    }
}
