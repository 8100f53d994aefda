//! Heals the damaged records that a walk through a partition finds.
//!
//! A walk can't hand over a record that it can't read. So before a node reports that another node has all
//! of a partition, it has the damaged records healed by other replicas. While one of those can't be
//! asked, the node does not report.

use super::Transfers;
use crate::exchange::{HealingSources, UnhealedRecords};
use crate::placement::n_vals;
use crate::placement::primaries;
use quoit_model::hash::Partition;
use quoit_store::index::Tag;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Outcome of healing the damaged records of a stretch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HealOutcome {
    /// There were none, or all are healed.
    Healed,
    /// All other replicas answered, and some of the records are on no other replica.
    NoOtherCopy,
    /// Some of the records are not healed, and not all other replicas could be asked.
    Unfinished,
}

impl Transfers {
    /// Replaces damaged records by the copies of other primaries.
    pub(super) async fn heal_walked(
        self: &Arc<Self>,
        partition: Partition,
        damaged: Vec<Tag>,
    ) -> HealOutcome {
        let state = self.local.state();
        let (_, n_val_max) = n_vals(&state);
        let mut others = primaries(&state, partition, n_val_max);
        others.remove(&state.node_id());
        let sources =
            HealingSources { asked: others.into_iter().collect(), lossy: BTreeSet::new() };
        let damaged_count = damaged.len();
        let unhealed =
            self.anti_entropy.heal_tags(partition, damaged.into_iter().collect(), &sources).await;
        let UnhealedRecords { tags, all_answered } = unhealed;
        tracing::warn!(
            partition = partition.0,
            damaged_count,
            unhealed_count = tags.len(),
            "a walk through a partition came upon damaged records"
        );
        match (tags.is_empty(), all_answered) {
            (true, _) => HealOutcome::Healed,
            (false, true) => HealOutcome::NoOtherCopy,
            (false, false) => HealOutcome::Unfinished,
        }
    }
}
