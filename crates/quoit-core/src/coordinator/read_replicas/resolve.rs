//! Computes the answer of a read from its replicas' answers, and repairs the replicas that were behind.

use super::{ReadRun, ReadStop};
use crate::error::RequestError;
use crate::replica::{Copy, Replicated};
use crate::stored::decode;
use crate::votes::{NodeIndex, ReadState};
use quoit_cluster::Replies;
use quoit_model::object::Object;
use quoit_planted::planted;
use smallvec::SmallVec;
use tokio::time::{Instant, timeout_at};

impl ReadRun<'_> {
    /// The answer of the read. The outer `None` means that a version could not be fetched, so that other
    /// replicas have to be asked.
    pub(super) async fn resolve(
        &mut self,
        deadline: Instant,
    ) -> Result<Option<Option<Object>>, ReadStop> {
        if self.tally().state(&self.voters) == ReadState::NotFound {
            return Ok(Some(None));
        }
        self.unite_large(deadline).await?;
        if !self.fetch_bodies(deadline).await? {
            return Ok(None);
        }
        let Some((digest, object)) = self.merged_answers()? else { return Ok(Some(None)) };
        // A late repair must not be sent: the record may have been deleted and its tombstone reaped in
        // the meantime.
        if self.began.elapsed() < self.coordinator.local.send_window() && !planted!(LosesRepairs) {
            self.repair(digest, &object);
        }
        Ok(Some(Some(object)))
    }

    /// Merges the versions that were fetched, and computes the digest of the merge; `None` if no replica
    /// has anything.
    pub(super) fn merged_answers(&self) -> Result<Option<(u64, Object)>, RequestError> {
        let mut merged: Option<(u64, Object)> = None;
        let mut seen: SmallVec<[u64; 4]> = SmallVec::new();
        for (_, copy) in &self.answers {
            let Copy::Found(digest, Some(body)) = copy else { continue };
            if seen.contains(digest) {
                continue;
            }
            seen.push(*digest);
            let object = decode(body)?;
            merged = Some(match merged {
                None => (*digest, object),
                Some(first) if planted!(AnswersFirstVersion) => first,
                Some((_, merged)) => {
                    let merged = self.coordinator.replica.merged(&merged, &object, self.read.rule);
                    (merged.digest(), merged)
                }
            });
        }
        Ok(merged)
    }

    /// Fetches an object for each version of which only the digest is known. False if a node that has
    /// such a version failed.
    pub(super) async fn fetch_bodies(&mut self, deadline: Instant) -> Result<bool, ReadStop> {
        let mut bodies: SmallVec<[u64; 4]> = SmallVec::new();
        let mut wanted: SmallVec<[(u64, NodeIndex); 4]> = SmallVec::new();
        for (_, copy) in &self.answers {
            if let Copy::Found(digest, Some(_)) = copy {
                bodies.push(*digest);
            }
        }
        let own = self.topology.own();
        let is_own = |answer: &&(NodeIndex, Copy)| Some(answer.0) == own;
        // A version that this node has is read here, even if another node answered first.
        let others = self.answers.iter().filter(|answer| !is_own(answer));
        for (node, copy) in self.answers.iter().filter(is_own).chain(others) {
            if let Copy::Found(digest, None) = copy
                && !bodies.contains(digest)
            {
                bodies.push(*digest);
                wanted.push((*digest, *node));
            }
        }
        let failed_before = self.failed.len();
        // Answers that are still outstanding are no longer needed.
        self.replies = Replies::new();
        self.own_read = None;
        self.waiting.clear();
        for (_, node) in wanted {
            self.ask_for(node, true);
        }
        while !self.waiting.is_empty() {
            match timeout_at(deadline, self.next_event()).await {
                Ok(Some(heard)) => self.take(heard)?,
                Ok(None) => self.waiting.clear(),
                Err(_) => return Err(RequestError::Timeout.into()),
            }
        }
        Ok(self.failed.len() == failed_before)
    }

    /// Sends the merged object to the replicas that answered with something else.
    fn repair(&self, digest: u64, object: &Object) {
        let behind = |copy: &Copy| match copy {
            Copy::Found(theirs, _) => *theirs != digest,
            // A replica that lacks a deleted record is not sent its tombstone.
            Copy::Missing => !object.is_tombstone(),
        };
        if !self.own_is_damaged && !self.answers.iter().any(|(_, copy)| behind(copy)) {
            return;
        }
        let replicated = Replicated::new(object, self.read.rule, self.read.n_val_class);
        for (node, _) in self.answers.iter().filter(|(_, copy)| behind(copy)) {
            self.coordinator.repair(&self.topology, *node, &self.read.at, &replicated);
        }
        if self.own_is_damaged && self.have_others_answered() {
            self.replace_own(&replicated);
        }
    }
}
