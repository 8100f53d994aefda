//! Where this node may hold something outside the primaries.

use super::Deliveries;
use super::hand::ANSWER_TIMEOUT;
use quoit_cluster::{Lane, Peer};
use quoit_model::hash::Partition;
use quoit_wire::internode::reap::{AskUnsettled, METHOD_ASK_UNSETTLED};
use std::collections::BTreeSet;

/// The report of a node about copies that it may hold without being a primary.
pub(crate) struct ToldUnsettled {
    /// Number of the answer, from 1 on.
    pub(crate) number: u64,
    /// Version of the control plane's state that it goes by.
    pub(crate) state_version: u64,
    pub(crate) partitions: BTreeSet<Partition>,
}

/// Whether a node answers requests on its copies: one that has to make up for lost records first does not.
pub(crate) async fn is_serving(peer: &Peer) -> bool {
    let ask = AskUnsettled::default();
    peer.call(METHOD_ASK_UNSETTLED, &ask, b"", Lane::Small, ANSWER_TIMEOUT).await.is_ok()
}

impl Deliveries {
    /// Partitions in which this node may hold strays, hints or pages on their way now, or strays since an
    /// answer that it gave before (0: since never).
    pub(crate) fn unsettled_since(&self, since: u64) -> ToldUnsettled {
        // Pages first: what becomes of them is a stray, if it is anything.
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
        ToldUnsettled { number, state_version, partitions }
    }
}
