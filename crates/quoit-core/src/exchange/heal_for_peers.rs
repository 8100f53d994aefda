//! Heals the records that are noted by their names ([`crate::healing`]): damaged ones by a read of all
//! replicas, and copies that have replaced damaged ones by what other replicas have under their tags.

use super::AntiEntropy;
use super::heal_tags::UnhealedRecords;
use crate::options::ReadOptions;
use crate::placement::{object_props, record_at};
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use quoit_store::index::Tag;
use std::sync::Arc;

impl AntiEntropy {
    /// Heals noted records one after another, until the task is dropped.
    pub(crate) async fn run_healing(self: Arc<Self>) {
        loop {
            match self.healing.first() {
                None => self.healing.changed.notified().await,
                Some(key) => {
                    self.heal_noted(&key).await;
                    self.healing.forget(&key);
                }
            }
        }
    }

    async fn heal_noted(self: &Arc<Self>, encoded: &Bytes) {
        let Ok(key) = KeyRef::decode(encoded) else { return };
        if self.healing.is_replaced(encoded) {
            let state = self.local.state();
            let Ok(props) = object_props(&state, key.bucket) else { return };
            let at = record_at(&state, props, key, encoded);
            self.heal_replaced(at.partition, vec![(encoded.clone(), Tag::of(at.identity))]).await;
            return;
        }
        let all = ReadOptions {
            r: Some(Quorum::All),
            sloppy_quorum: Some(false),
            ..ReadOptions::default()
        };
        match self.coordinator.get(key, &all).await {
            Ok(_) => tracing::debug!("a damaged record was read from all replicas"),
            // At debug level: the damage itself was logged before, and a client that repeats its request
            // must not fill the log.
            Err(fault) => tracing::debug!(%fault, "a damaged record could not be healed"),
        }
    }

    /// Gives all copies that have replaced damaged ones their votes back, as far as their other replicas
    /// answer.
    pub(super) async fn heal_all_replaced(self: &Arc<Self>) {
        for (partition, copies) in self.healing.all_replaced() {
            self.heal_replaced(partition, copies).await;
        }
    }

    /// Merges into copies that have replaced damaged ones what their other replicas have, and gives them
    /// their votes back. Returns true if no such copy of these is left without a vote.
    pub(crate) async fn heal_replaced(
        self: &Arc<Self>,
        partition: Partition,
        copies: Vec<(Bytes, Tag)>,
    ) -> bool {
        // A copy that has lost records is asked as well: it may wait to be filled from this one.
        let sources = self.walk_sources(partition);
        let tags = copies.iter().map(|(_, tag)| *tag).collect();
        let UnhealedRecords { waiting, .. } = self.heal_tags(partition, tags, &sources).await;
        // All other replicas have answered: this copy includes what they have, or they have nothing.
        let complete = copies.iter().filter(|(_, tag)| !waiting.contains(tag));
        complete.for_each(|(name, _)| self.healing.end_replacing(name));
        waiting.is_empty()
    }
}
