//! Status of a node in the administration API.

use super::cluster::shown_links;
use super::losses::losses;
use super::names::{self, NamePattern};
use crate::context::{RIAK_KV_VERSION, ServerContext};
use crate::http::{query_value, statistics};
use crate::memory::MemoryFigures;
use quoit_core::{DeleteMode, ReapingBlockers, ReplicatedStore};
use quoit_number::whole;
use quoit_store::engine::EngineStats;
use quoit_tls::Instant;
use serde_json::{Value, json};
use std::sync::Arc;

const GIB: f64 = (1u64 << 30) as f64;
const US_PER_SEC: u64 = 1_000_000;

/// The whole status.
pub(super) fn status(context: &ServerContext) -> Value {
    let figures = statistics(context);
    json!({
        "node": context.node_name,
        "version": env!("CARGO_PKG_VERSION"),
        "riak_kv_version": RIAK_KV_VERSION,
        "uptime_secs": context.store.clock().monotonic_us() / US_PER_SEC,
        "waits": context.readiness.refusal().as_deref(),
        "request_memory": request_memory(&context.memory.figures()),
        "engine": engine(context.storage_backend, &context.store.engine().stats()),
        "reap_records": reap_records(&context.store),
        "tombstones": tombstones(&context.store.reaper().tombstones_held_up()),
        "deletes": deletes(&context.store),
        "mapreduce": super::jobs::figures(&context.jobs),
        "change_feeds": change_feeds(&context.store),
        "security": security(context),
        "node_links": node_links(context),
        "losses": losses(&context.store, &context.store.control().read()),
        "stats": figures,
    })
}

/// The log of change feeds; null if the node has none, because its records end with the process.
fn change_feeds(store: &ReplicatedStore) -> Value {
    let Some(status) = store.change_feeds().log().map(|log| log.status()) else {
        return Value::Null;
    };
    json!({
        "bytes": status.bytes,
        "oldest_us": status.oldest_us,
        "changes": status.appended_count,
        "lost": status.lost_count,
        "told": status.sent_change_count,
    })
}

/// Security state and warnings.
fn security(context: &ServerContext) -> Value {
    let is_enabled = context.store.control().read().security().is_enabled();
    json!({
        "enabled": is_enabled,
        "tls": context.security.has_tls(),
        "warnings": context.security_warnings(),
    })
}

/// The security of connections to other nodes.
fn node_links(context: &ServerContext) -> Value {
    let view = context.store.control().link_view();
    view.map_or(Value::Null, |view| shown_links(&view, Instant::now()))
}

/// Memory of requests and answers.
fn request_memory(figures: &MemoryFigures) -> Value {
    json!({
        "budget_bytes": figures.budget_bytes,
        "per_connection_bytes": figures.share_bytes,
        "used_bytes": figures.used_bytes,
        "used_bytes_maximum": figures.used_bytes_max,
        "refused": figures.refused_count,
        "too_large": figures.too_large_count,
        "slow_requests": figures.slow_request_count,
        "slow_answers": figures.slow_answer_count,
    })
}

/// The number of reap records that a node keeps, and the members that keep it from deleting them.
pub(super) fn reap_records(store: &ReplicatedStore) -> Value {
    let (stats, held_up) = (store.reap_record_stats(), store.reaper().reap_record_blockers());
    let (away, unsettled) = (texts(&held_up.unanswered_members), texts(&held_up.unsettled));
    json!({"records": stats.count, "maximum": stats.count_max, "away": away, "unsettled": unsettled})
}

/// The members that keep tombstones from being reaped.
pub(super) fn tombstones(held_up: &ReapingBlockers) -> Value {
    json!({
        "away": texts(&held_up.unreachable_members),
        "incomplete": texts(&held_up.incomplete),
        "partitions_move": held_up.partitions_move,
    })
}

/// Settings of deletion and expiry: `delete_mode` as a word or in milliseconds, the default number of seconds
/// after which records expire, and whether reaps are sent to other clusters.
fn deletes(store: &ReplicatedStore) -> Value {
    let settings = store.settings();
    let delete_mode = match settings.delete_mode {
        DeleteMode::Keep => json!("keep"),
        DeleteMode::Immediate => json!("immediate"),
        DeleteMode::AfterMs(delay_ms) => json!(delay_ms),
    };
    json!({
        "delete_mode": delete_mode,
        "expires_after_secs": settings.ttl_secs_default,
        "sends_reaps": store.source_queues().settings().queues_reaps,
    })
}

fn texts(names: &[Arc<str>]) -> Vec<String> {
    names.iter().map(|name| (**name).to_owned()).collect()
}

#[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
fn engine(backend: &str, stats: &EngineStats) -> Value {
    let bytes_per_key =
        (stats.key_count > 0).then(|| stats.index_bytes as f64 / stats.key_count as f64);
    let keys_per_gib = bytes_per_key.filter(|bytes| *bytes > 0.0).map(|bytes| whole(GIB / bytes));
    let mut document = json!({
        "backend": backend,
        "key_count": stats.key_count,
        "tombstone_count": stats.tombstone_count,
        "index_bytes": stats.index_bytes,
        "index_bytes_per_key": bytes_per_key.map(|bytes| (bytes * 100.0).round() / 100.0),
        "keys_per_gib": keys_per_gib,
        "disk_bytes": stats.disk_bytes,
        "dead_bytes": stats.dead_bytes,
        "segment_count": stats.segment_count,
        "sync_count": stats.sync_count,
        "synced_write_count": stats.synced_write_count,
        "merge_count": stats.merge_count,
        "merged_bytes": stats.merged_bytes,
        "corrupt_record_count": stats.corrupt_record_count,
        "disk_full": stats.disk_full,
    });
    if let Some(failure) = &stats.write_failure {
        let remedy = match failure.is_damage {
            true => "; the log of the node names the command that helps",
            false => "",
        };
        document["writes_refused"] = format!("{}{remedy}", failure.reason).into();
    }
    document
}

/// Statistics whose hierarchical names match the query's pattern.
pub(super) fn named(context: &ServerContext, query: &[u8]) -> Value {
    let pattern = query_value(query, "pattern").unwrap_or_default();
    let pattern = String::from_utf8_lossy(&pattern);
    let pattern = NamePattern(if pattern.is_empty() { "**" } else { &pattern });
    let stats: Vec<_> = names::hierarchy(&statistics(context))
        .into_iter()
        .filter(|(name, _)| pattern.fits(name))
        .map(|(name, datapoints)| json!({"name": name, "datapoints": datapoints}))
        .collect();
    json!({"stats": stats})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_keep_tombstones_are_named() {
        let held_up = ReapingBlockers {
            unreachable_members: vec!["b@h".into()],
            partitions_move: true,
            ..ReapingBlockers::default()
        };
        let empty = Vec::<String>::new();
        let shown = json!({
            "away": ["b@h"], "incomplete": empty, "partitions_move": true
        });
        assert_eq!(tombstones(&held_up), shown);
    }

    #[test]
    fn the_memory_of_a_key_is_told_once_there_are_keys() {
        let empty = engine("bitcask", &EngineStats::default());
        assert_eq!(
            (&empty["index_bytes_per_key"], &empty["keys_per_gib"]),
            (&Value::Null, &Value::Null)
        );
        let stats = EngineStats { key_count: 10, index_bytes: 240, ..EngineStats::default() };
        let shown = engine("bitcask", &stats);
        assert_eq!(shown["index_bytes_per_key"], 24.0);
        assert_eq!(shown["keys_per_gib"], (1u64 << 30) / 24);
    }
}
