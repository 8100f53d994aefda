//! Repair of large sets and maps during a read. Their copies are made equal by exchanging only the ranges
//! of items that differ; afterwards only this node's copy is read whole.

use super::{ReadRun, ReadStop};
use crate::error::RequestError;
use crate::replica::Copy;
use crate::stats::Counter;
use crate::stored::wait_if_blocked;
use crate::votes::NodeIndex;
use bytes::Bytes;
use quoit_store::engine::RecordAt;
use quoit_wire::internode::data::MergeRule;
use smallvec::SmallVec;
use tokio::time::{Instant, timeout_at};

/// Number of passes over the replicas. The second pass brings to the first replica what the later ones
/// had.
const ROUND_COUNT: usize = 2;

impl ReadRun<'_> {
    /// Makes the copies of the replicas that have answered equal to this node's copy, as far as both have
    /// ranges of items. All other copies are left to the general path.
    pub(super) async fn unite_large(&mut self, deadline: Instant) -> Result<(), ReadStop> {
        let Some(own) = self.topology.own() else { return Ok(()) };
        let at = self.read.at;
        if self.read.rule != MergeRule::Causal || self.behind(own).is_empty() {
            return Ok(());
        }
        let has_ranges = wait_if_blocked(self.coordinator.local.settings.blocking, |access| {
            Ok(self.coordinator.local.records.has_ranges(&at, access)?)
        })?;
        if !has_ranges {
            return Ok(());
        }
        let mut repaired: SmallVec<[NodeIndex; 4]> = SmallVec::new();
        for _ in 0..ROUND_COUNT {
            for node in self.behind(own) {
                let Some(digest) = self.unite_with(node, &at, deadline).await? else { continue };
                self.keep(own, Copy::Found(digest, None));
                self.keep(node, Copy::Found(digest, None));
                if !repaired.contains(&node) {
                    repaired.push(node);
                }
            }
        }
        self.coordinator.local.stats.add(Counter::ReadRepairs, repaired.len() as u64);
        Ok(())
    }

    /// The nodes whose copy differs from this node's.
    fn behind(&self, own: NodeIndex) -> SmallVec<[NodeIndex; 4]> {
        let digest_of = |copy: &Copy| match copy {
            Copy::Found(digest, _) => Some(*digest),
            Copy::Missing => None,
        };
        let ours = self.answers.iter().find(|(node, _)| *node == own);
        let Some(ours) = ours.and_then(|(_, copy)| digest_of(copy)) else {
            return SmallVec::new();
        };
        let others = self.answers.iter().filter(|(node, _)| *node != own);
        others
            .filter(|(_, copy)| digest_of(copy).is_some_and(|digest| digest != ours))
            .map(|(node, _)| *node)
            .collect()
    }

    /// Makes this node's copy and another node's copy equal. Returns the digest of this node's copy
    /// afterwards; `None` if the other copy has to be fetched whole.
    async fn unite_with(
        &mut self,
        node: NodeIndex,
        at: &RecordAt<'_>,
        deadline: Instant,
    ) -> Result<Option<u64>, ReadStop> {
        let Some(peer) = self.topology.peer(node) else { return Ok(None) };
        let key = Bytes::copy_from_slice(at.encoded);
        let united = self.coordinator.replica.merge_by_ranges(peer, at.partition, &key);
        match timeout_at(deadline, united).await {
            Ok(Ok(Some(_))) => {
                let meta = self.coordinator.local.records.head(at).map_err(RequestError::from)?;
                Ok(meta.map(|meta| meta.digest))
            }
            Ok(Ok(None)) => Ok(None),
            Ok(Err(fault)) => {
                tracing::debug!(%fault, "copies are read whole to repair them");
                Ok(None)
            }
            Err(_) => Err(RequestError::Timeout.into()),
        }
    }
}
