//! Finds the records in which the copy of a node that has lost records differs from this node's copy,
//! although that copy is not complete.
//!
//! It is the walk of an exchange ([`super::walk`]) without its repair: transfers hand over what differs, so
//! that they need not offer the whole partition. Differences are not compared a second time. Those of writes
//! under way are handed over as well, and the receiver merges or already has them.

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

/// The classes of a partition in which two copies are compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ComparedClasses {
    pub(crate) partition: Partition,
    /// The n_val classes, as bits.
    pub(crate) classes: u32,
}

impl AntiEntropy {
    /// Returns the tags in which this node's copy of a partition differs from another node's, whether the
    /// two are complete or not; `None` if there are more than `count_max`. Records that have expired
    /// count as present, except those that have expired by the clocks of all nodes.
    ///
    /// As in exchanges, a tombstone on one side and nothing on the other are not a difference. Each call
    /// has another salt, so a difference that one call overlooks by a collision is found by the next.
    ///
    /// # Errors
    ///
    /// If the other node does not answer, has another newest layout, or this node's disk fails.
    pub(crate) async fn differing_tags(
        self: &Arc<Self>,
        peer: &Peer,
        ComparedClasses { partition, classes }: ComparedClasses,
        count_max: usize,
    ) -> Result<Option<BTreeSet<Tag>>, ExchangeError> {
        // All records are compared that have not expired by the slowest clock: a copy that lacks one of
        // them is not complete.
        let with =
            self.begin_exchange(peer, super::expiry::earliest_hour(self.local.clock.unix_secs()));
        let step = |n_val_class: u8| {
            let scope = Scope { n_val_class, hour_min: with.hour_min };
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
