//! Repair of this node's copy if it is damaged: the copy is replaced by the merge of what all other replicas
//! have.
//!
//! The answers of a quorum are not enough. The damaged copy may have been one of the few that a write was
//! acknowledged for. If one of the others is not asked, the copy that replaces the damaged one may lack that
//! write, and a later quorum that counts it may miss the write. Such a copy stays damaged, and has no vote,
//! until all other replicas have answered the background healing.

use super::{ReadRun, ReadStop};
use crate::placement::n_val_of;
use crate::replica::Replicated;
use crate::stats::Counter;
use quoit_planted::planted;
use tokio::time::Instant;

impl ReadRun<'_> {
    /// Replaces this node's damaged copy, so that its vote counts again. A read that needs all replicas
    /// has no other vote to take instead, and would fail as long as the copy is damaged. Returns true if
    /// the read should continue.
    pub(super) async fn heal_own(&mut self, deadline: Instant) -> Result<bool, ReadStop> {
        let may_heal = self.own_is_damaged && !self.own_is_healed && self.have_others_answered();
        if !may_heal || planted!(LosesRepairs) {
            return Ok(false);
        }
        if !self.fetch_bodies(deadline).await? {
            return Ok(true);
        }
        let healed = match self.merged_answers()? {
            Some(_) if self.began.elapsed() >= self.coordinator.local.send_window() => false,
            Some((_, object)) => {
                self.replace_own(&Replicated::new(&object, self.read.rule, self.read.n_val_class))
            }
            None => self.keep_replaced(),
        };
        if !healed {
            return Ok(false);
        }
        (self.own_is_damaged, self.own_is_healed) = (false, true);
        let own = self.topology.own();
        self.failed.retain(|node| Some(*node) != own);
        self.choose_voters();
        Ok(true)
    }

    /// True if all other replicas have answered, so that a damaged copy may be replaced by the merge of
    /// their answers.
    pub(super) fn have_others_answered(&self) -> bool {
        let (at, own) = (&self.read.at, self.topology.own());
        // The request may have a lower n_val than the bucket, and then asks only some of its replicas.
        let n_val = n_val_of(&self.coordinator.local.control.read(), at.encoded);
        let n_val = n_val.map_or(self.read.need.n_val, |n_val| n_val.max(self.read.need.n_val));
        let has_answered = |node| self.answers.iter().any(|(answered, _)| *answered == node);
        let mut replicas = self.topology.read_primaries(at.partition, n_val);
        planted!(HealsFromQuorums) || replicas.all(|node| Some(node) == own || has_answered(node))
    }

    /// Gives a copy that has replaced a damaged one its vote back, since no other replica has anything.
    /// Returns false if the copy is still damaged.
    fn keep_replaced(&self) -> bool {
        let healing = &self.coordinator.replica.healing;
        let is_replaced = healing.is_replaced(self.read.at.encoded);
        if is_replaced {
            healing.end_replacing(self.read.at.encoded);
        }
        is_replaced
    }

    /// Replaces this node's copy. Returns true if that succeeded.
    pub(super) fn replace_own(&self, replicated: &Replicated) -> bool {
        let replaced = self.coordinator.replica.heal_own(&self.read.at, replicated);
        self.coordinator.local.stats.count(match replaced {
            Ok(()) => Counter::ReadRepairs,
            Err(_) => Counter::ReadRepairsSkipped,
        });
        if let Err(fault) = &replaced {
            tracing::warn!(%fault, "a damaged copy could not be replaced");
        }
        replaced.is_ok()
    }
}
