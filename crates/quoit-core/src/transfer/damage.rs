//! Damaged records that a walk through a partition comes upon.
//!
//! A walk can't hand over what it can't read. So whoever says by a walk that another node has everything has
//! such records healed by other replicas first, and says nothing while one of those could not be asked.

use super::Transfers;
use crate::exchange::Unhealed;
use crate::placement::n_vals;
use crate::placement::primaries;
use quoit_model::hash::Partition;
use quoit_store::index::Tag;
use std::sync::Arc;

/// The outcome of healing the damaged records of a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Damage {
    /// There are none, or they are healed.
    Healed,
    /// No other replica has anything of some.
    Nowhere,
    /// Not all other replicas could be asked for some.
    Open,
}

impl Transfers {
    /// Has records that could not be read replaced by what other primaries have.
    pub(super) async fn heal_walked(
        self: &Arc<Self>,
        partition: Partition,
        damaged: Vec<Tag>,
    ) -> Damage {
        let state = self.local.state();
        let (_, n_val_max) = n_vals(&state);
        let mut others = primaries(&state, partition, n_val_max);
        others.remove(&state.node_id());
        let others: Vec<_> = others.into_iter().collect();
        let damaged_count = damaged.len();
        let unhealed =
            self.anti_entropy.heal_tags(partition, damaged.into_iter().collect(), &others).await;
        let Unhealed { tags, all_answered } = unhealed;
        tracing::warn!(
            partition = partition.0,
            damaged_count,
            unhealed_count = tags.len(),
            "a walk through a partition came upon damaged records"
        );
        match (tags.is_empty(), all_answered) {
            (true, _) => Damage::Healed,
            (false, true) => Damage::Nowhere,
            (false, false) => Damage::Open,
        }
    }
}
