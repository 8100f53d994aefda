//! Partitions in which this node may hold records outside the primaries.
//!
//! Reap records retire by these reports ([`crate::reaper`]), so a report may name too many partitions but
//! never too few: a partition that it wrongly leaves out could let a deleted record come back.

use super::RecordDelivery;
use super::hand::ANSWER_TIMEOUT;
use quoit_cluster::{Lane, Peer};
use quoit_model::hash::Partition;
use quoit_wire::internode::reap::{AskUnsettled, METHOD_ASK_UNSETTLED};
use std::collections::BTreeSet;

/// A node's report on the records that it may hold without being a primary.
pub(crate) struct UnsettledReport {
    /// Number of the report, counted from 1.
    pub(crate) number: u64,
    /// Version of the control plane's state by which the node decided which records are strays.
    pub(crate) state_version: u64,
    /// The partitions that are not settled.
    pub(crate) partitions: BTreeSet<Partition>,
}

/// True if a node answers requests on its copies. A node that still has to recover from lost records does
/// not.
pub(crate) async fn is_serving(peer: &Peer) -> bool {
    let ask = AskUnsettled::default();
    peer.call(METHOD_ASK_UNSETTLED, &ask, b"", Lane::Small, ANSWER_TIMEOUT).await.is_ok()
}

impl RecordDelivery {
    /// Returns the partitions in which this node holds hints or staged pages, or may hold strays now or
    /// may have held some at any time since its answer number `since` (0 for now only). While layouts
    /// change, returns all partitions.
    pub(crate) fn unsettled_since(&self, since: u64) -> UnsettledReport {
        // Staged pages are listed before suspected strays. If a staging ends in between, its record may be a
        // stray, and the later list has its partition.
        let mut partitions = self.stagings.partitions();
        let state = self.local.state();
        let (number, suspected, state_version) = {
            let mut suspects = self.suspects.lock();
            let suspected = suspects.since(since);
            (suspects.next_answer(), suspected, suspects.reviewed(&state))
        };
        partitions.extend(suspected);
        partitions.extend(self.hints.partitions());
        if state.layouts().is_moving() {
            partitions.extend(state.layouts().newest().partitions());
        }
        UnsettledReport { number, state_version, partitions }
    }
}
