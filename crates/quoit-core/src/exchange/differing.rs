//! The records in which two copies differ, complete or not: for a node that has lost records.

use super::AntiEntropy;
use super::ExchangeError;
use super::roots::bits;
use super::walk::{RangeStep, Walk};
use quoit_cluster::Peer;
use quoit_model::hash::Partition;
use quoit_store::compare::Scope;
use quoit_store::index::Tag;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Classes of a partition that are compared with another node's copy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ComparedClasses {
    pub(crate) partition: Partition,
    /// The n_val classes, as bits.
    pub(crate) classes: u32,
}

impl AntiEntropy {
    /// The tags in which this node's copy of a partition differs from that of another node, whether the two
    /// are complete or not; `None` when there are more than `count_max`. Expired records count as present.
    ///
    /// As in exchanges, a tombstone that the other side knows nothing of is no difference. Two calls have
    /// different salts: what is equal by chance in one of them differs in the other.
    ///
    /// # Errors
    ///
    /// When the other node does not answer, goes by another layout, or the own disk can't be read.
    pub(crate) async fn differing_tags(
        self: &Arc<Self>,
        peer: &Peer,
        ComparedClasses { partition, classes }: ComparedClasses,
        count_max: usize,
    ) -> Result<Option<BTreeSet<Tag>>, ExchangeError> {
        // Of records that have not expired by the slowest clock all are compared: a copy that lacks one of
        // them is not complete.
        let with =
            self.begin_exchange(peer, super::expiry::earliest_hour(self.local.clock.unix_secs()));
        let step = |class: usize| {
            let scope = Scope { n_val_class: class as u8, hour_min: with.hour_min };
            RangeStep::all(partition, scope)
        };
        let mut walk = Walk::new(with.salt, bits(classes).map(step));
        let mut tags = BTreeSet::new();
        loop {
            let is_done = !self.descend(&with, &mut walk).await?;
            tags.extend(walk.take_found().into_iter().map(|found| found.difference.tag));
            if tags.len() > count_max {
                return Ok(None);
            }
            if is_done {
                return Ok(Some(tags));
            }
        }
    }
}
