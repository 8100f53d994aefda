//! An overview of the whole cluster, for one screen.

use super::super::jobs;
use super::super::losses::losses;
use super::super::status::{reap_records, tombstones};
use super::{replication_links, view};
use crate::http::HttpConnection;
use quoit_core::NodeTransfers;
use quoit_replication::ReplicationCommand;
use quoit_wire::internode::operators::NodeFigures;
use serde_json::{Value, json};
use std::pin::Pin;

/// Length in seconds of the period that the figures cover.
const WINDOW_SECS: u64 = 60;

impl HttpConnection {
    /// The members with their figures, the transfers, and the conditions that need attention. Asks all
    /// members.
    #[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
    pub(in crate::admin) async fn overview(&self) -> Value {
        let context = &self.context;
        // Boxing as a trait object keeps the compiler from checking the auto traits of all of replication
        // here.
        let links: Pin<Box<dyn Future<Output = Option<Value>> + Send + '_>> = Box::pin(async {
            let replication = context.replication.get()?;
            let told = replication.execute_on_all(ReplicationCommand::Status).await;
            Some(replication_links::replication(&told))
        });
        let (told, links) = tokio::join!(context.store.transfers().reports(), links);
        let view = view(context);
        let mut overview = view.members();
        let mut members = overview["members"].take();
        for (shown, member) in members.as_array_mut().into_iter().flatten().zip(&view.members) {
            let told = told.get(&member.id);
            shown["answers"] = told.is_some().into();
            shown["figures"] = told.map_or(Value::Null, figures);
        }
        let state = context.store.control().read();
        overview["nodes"] = members;
        overview["mapreduce"] = jobs::document(&context.jobs);
        overview["node"] = context.node_name.as_str().into();
        overview["waits"] = context.readiness.refusal().as_deref().into();
        overview["staged_changes"] = state.staged().len().into();
        overview["disagreement"] = view.ring_ready()["reason"].take();
        overview["transfers"] = view.transfers(&told);
        overview["reap_records"] = reap_records(&context.store);
        overview["tombstones"] = tombstones(&context.store.reaper().tombstones_held_up());
        overview["replication"] = links.unwrap_or_default();
        overview["losses"] = losses(&context.store, &state);
        overview["security"] = json!({
            "enabled": context.is_secured(),
            "open_listeners": context.open_listeners(),
            "open_internode": context.open_internode(),
            "faults": context.security_faults(),
        });
        if let Some(overview) = overview.as_object_mut() {
            overview.remove("members");
        }
        overview
    }
}

/// The figures of a node.
fn figures(told: &NodeTransfers) -> Value {
    let figures: &NodeFigures = &told.figures;
    let secs = figures.uptime_secs.clamp(1, WINDOW_SECS);
    let per_sec = |count: u64| (count as f64 / secs as f64 * 10.0).round() / 10.0;
    let room = (figures.disk_total_bytes > 0).then_some(figures.disk_free_bytes);
    json!({
        "version": figures.version,
        "uptime_secs": figures.uptime_secs,
        "key_count": figures.key_count,
        "tombstone_count": figures.tombstone_count,
        "disk_bytes": figures.disk_bytes,
        "disk_free_bytes": room,
        "disk_total_bytes": room.map(|_| figures.disk_total_bytes),
        "disk_full": figures.is_disk_full,
        "writes_refused": (!figures.writes_refused.is_empty()).then_some(&figures.writes_refused),
        "gets_per_sec": per_sec(figures.get_count),
        "puts_per_sec": per_sec(figures.put_count),
        "errors_per_sec": per_sec(figures.error_count),
        "get_p99_us": figures.get_p99_us,
        "put_p99_us": figures.put_p99_us,
        "siblings_p99": figures.siblings_p99,
        "siblings_max": figures.siblings_max,
        "object_bytes_p99": figures.object_bytes_p99,
        "object_bytes_max": figures.object_bytes_max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_core::{TransferLimits, TransferStats};

    #[test]
    fn rates_are_those_of_the_time_that_a_young_node_has_run() {
        let figures_of = |uptime_secs| {
            let told = NodeFigures { uptime_secs, get_count: 600, ..NodeFigures::default() };
            let (limits, stats) = (TransferLimits::default(), TransferStats::default());
            figures(&NodeTransfers { live_bytes: 0, limits, stats, figures: told })
        };
        assert_eq!(figures_of(10)["gets_per_sec"], 60.0);
        assert_eq!(figures_of(1_000)["gets_per_sec"], 10.0);
        assert_eq!(figures_of(1_000)["disk_free_bytes"], Value::Null, "nobody has told");
    }
}
