//! Repair of this node's copy if it is damaged: the copy is replaced by what the other replicas have.

use super::{ReadRun, ReadStop};
use crate::replica::{Copy, Replicated};
use crate::stats::Counter;
use quoit_planted::planted;
use tokio::time::Instant;

impl ReadRun<'_> {
    /// Replaces this node's damaged copy, so that its vote counts again. A read that needs all replicas
    /// has no other vote to take instead, and would fail as long as the copy is damaged. Returns true if
    /// the read should continue.
    pub(super) async fn heal_own(&mut self, deadline: Instant) -> Result<bool, ReadStop> {
        let has_found = self.answers.iter().any(|(_, copy)| matches!(copy, Copy::Found(..)));
        if !self.own_is_damaged || self.own_is_healed || !has_found || planted!(LosesRepairs) {
            return Ok(false);
        }
        if !self.fetch_bodies(deadline).await? {
            return Ok(true);
        }
        let Some((_, object)) = self.merged_answers()? else { return Ok(false) };
        if self.began.elapsed() >= self.coordinator.local.send_window() {
            return Ok(false);
        }
        let replicated = Replicated::new(&object, self.read.rule, self.read.n_val_class);
        if !self.replace_own(&replicated) {
            return Ok(false);
        }
        (self.own_is_damaged, self.own_is_healed) = (false, true);
        let own = self.topology.own();
        self.failed.retain(|node| Some(*node) != own);
        self.choose_voters();
        Ok(true)
    }

    /// Replaces this node's copy. Returns true if that succeeded.
    pub(super) fn replace_own(&self, replicated: &Replicated) -> bool {
        let replaced = self.coordinator.replica.heal_own(&self.read.at, replicated);
        self.coordinator.local.stats.count(match replaced {
            Ok(_) => Counter::ReadRepairs,
            Err(_) => Counter::ReadRepairsSkipped,
        });
        if let Err(fault) = &replaced {
            tracing::warn!(%fault, "a damaged copy could not be replaced");
        }
        replaced.is_ok()
    }
}
