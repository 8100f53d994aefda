//! Heals the damaged records that a walk through a partition finds.
//!
//! A walk can't hand over a record that it can't read. So before a node reports that another node has all
//! of a partition, it has the damaged records healed by other replicas, and also the copies that have
//! replaced damaged ones ([`crate::healing`]). While one of those replicas can't be asked, the node does not
//! report.

use super::Transfers;
use crate::exchange::UnhealedRecords;
use quoit_model::hash::Partition;
use quoit_store::index::Tag;
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
        let sources = self.anti_entropy.walk_sources(partition);
        let damaged_count = damaged.len();
        let damaged = damaged.into_iter().collect();
        let UnhealedRecords { tags, waiting } =
            self.anti_entropy.heal_tags(partition, damaged, &sources).await;
        tracing::warn!(
            partition = partition.0,
            damaged_count,
            unhealed_count = tags.len(),
            "a walk through a partition came upon damaged records"
        );
        match (tags.is_empty(), waiting.is_empty()) {
            (true, _) => HealOutcome::Healed,
            (false, true) => HealOutcome::NoOtherCopy,
            (false, false) => HealOutcome::Unfinished,
        }
    }

    /// Completes the copies of a partition that have replaced damaged ones. The receiver would count them as
    /// whole. Returns false if a replica could not be asked.
    pub(super) async fn heal_replaced(self: &Arc<Self>, partition: Partition) -> bool {
        let replaced = self.replica.healing.replaced_in(partition);
        replaced.is_empty() || self.anti_entropy.heal_replaced(partition, replaced).await
    }
}
