//! Tells all nodes of the cluster when a full-sync of all records begins, and when it has found that the
//! other cluster lacks none of them. Missed deletes in their queues wait for that.

use super::FullSync;
use super::report::FullSyncReport;
use super::settings::{CheckKind, FullSyncSettings};
use quoit_core::{FullSyncNumber, VisitedCluster};
use serde_json::{Value, json};
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

/// Time in which other nodes have to note a full-sync. A node that misses the message may keep its reap
/// records until the next full-sync.
const TELL_LIMIT: Duration = Duration::from_secs(10);

impl FullSync {
    /// Tells all nodes that a full-sync begins, if it is one of all records. Returns its number.
    pub(super) async fn announce(
        &self,
        kind: CheckKind,
        settings: &FullSyncSettings,
    ) -> Option<FullSyncNumber> {
        if !settings.compares_all(kind) || settings.peer.is_none() {
            return None;
        }
        // The hash keys of the standard library are random.
        let check = FullSyncNumber(RandomState::new().hash_one(self.store.clock().unix_us()));
        self.note_begun(check);
        self.tell_others(json!({"command": "full_sync_begun", "check": check.0})).await;
        Some(check)
    }

    /// Tells all nodes if a full-sync has found that the other cluster lacks no record of any bucket.
    pub(super) async fn conclude(
        &self,
        check: FullSyncNumber,
        settings: &FullSyncSettings,
        report: &FullSyncReport,
    ) {
        if report.settles() {
            let (queue, cluster) = (settings.queue.clone(), report.cluster);
            self.note_ended(check, &queue, cluster);
            let told = json!({
                "command": "full_sync_ended", "check": check.0, "queue": queue, "cluster": cluster,
            });
            self.tell_others(told).await;
        }
    }

    /// Sends a command to the other nodes. This node knows already.
    async fn tell_others(&self, command: Value) {
        self.store.replication().command_others(command.to_string().into(), TELL_LIMIT).await;
    }

    /// Notes that a full-sync begins, on this node or another node of the cluster.
    pub(crate) fn note_begun(&self, check: FullSyncNumber) {
        self.store.source_queues().begin_full_sync(check, self.store.clock().unix_us());
    }

    /// Notes that a full-sync, of this node or another node of the cluster, has found that the other
    /// cluster lacks nothing.
    pub(crate) fn note_ended(
        &self,
        check: FullSyncNumber,
        queue: &str,
        cluster: Option<VisitedCluster>,
    ) {
        self.store.source_queues().end_full_sync(check, queue, cluster);
    }
}
