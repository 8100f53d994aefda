//! Figures of replication between clusters in `/stats` and `/metrics`.

use super::metrics::{FamilyKind, MetricsText, US_PER_SEC};
use super::stats::{Figures, put};
use crate::context::ServerContext;
use quoit_core::{BucketConflicts, Counter, StatsSnapshot};
use quoit_replication::{LAG_BOUNDS_MS, SinkStatus};

/// Counters: name in `/stats` (also with `_total`), name and help text in `/metrics`, and the counter.
const COUNTERS: [(&str, &str, &str, Counter); 8] = [
    (
        "ngrfetch_prefetch",
        "quoit_queue_fetches_held",
        "Entries sent to sinks with the object that they had.",
        Counter::QueueFetchesHeld,
    ),
    (
        "ngrfetch_tofetch",
        "quoit_queue_fetches_read",
        "Entries sent to sinks whose object was read.",
        Counter::QueueFetchesRead,
    ),
    (
        "ngrfetch_nofetch",
        "quoit_queue_fetches_empty",
        "Questions of sinks to an empty queue.",
        Counter::QueueFetchesEmpty,
    ),
    (
        "ngrrepl_srcdiscard",
        "quoit_queue_discards",
        "Entries that full source queues have discarded.",
        Counter::QueueDiscards,
    ),
    (
        "ngrrepl_object",
        "quoit_sink_objects",
        "Objects of other clusters stored here.",
        Counter::SinkObjects,
    ),
    (
        "ngrrepl_empty",
        "quoit_sink_empty",
        "Questions to empty queues of other clusters.",
        Counter::SinkEmpty,
    ),
    (
        "ngrrepl_error",
        "quoit_sink_errors",
        "Questions to other clusters, and objects of theirs, that failed.",
        Counter::SinkErrors,
    ),
    (
        "ngrrepl_conflict",
        "quoit_sink_conflicts",
        "Objects of other clusters that were concurrent to objects here.",
        Counter::SinkConflicts,
    ),
];

/// Adds figures with the names that collectors for Riak read.
pub(super) fn replication(
    figures: &mut Figures,
    context: &ServerContext,
    snapshot: &StatsSnapshot,
) {
    for (name, _, _, counter) in COUNTERS {
        put(figures, name, snapshot.last_minute(counter));
        put(figures, &format!("{name}_total"), snapshot.total(counter));
    }
    let totals = context.replication.get().map(|each| each.full_sync().totals).unwrap_or_default();
    for (name, value) in [
        ("allcheck_total", totals.all),
        ("daycheck_total", totals.day),
        ("hourcheck_total", totals.hour),
        ("rangecheck_total", totals.range),
        ("sync_total", totals.sync),
        ("nosync_total", totals.nosync),
        ("fail_total", totals.fail),
        ("sync_time_100", totals.sync_us_max),
        ("nosync_time_100", totals.nosync_us_max),
        ("fail_time_100", totals.fail_us_max),
        ("src_ahead_total", totals.source_ahead),
        ("snk_ahead_total", totals.sink_ahead),
    ] {
        put(figures, &format!("ttaaefs_{name}"), value);
    }
}

/// Adds the same figures as metrics, and the replication lag as a histogram.
pub(super) fn replication_metrics(
    text: &mut MetricsText,
    context: &ServerContext,
    snapshot: &StatsSnapshot,
) {
    for (_, name, help, counter) in COUNTERS {
        text.counter(name, help, snapshot.total(counter));
    }
    let trees = context.store.riak_trees().figures();
    text.gauge("quoit_riak_tree_parts", "Parts of Riak's trees that are kept.", trees.part_count);
    text.gauge("quoit_riak_tree_memory_bytes", "Memory of these parts.", trees.memory_bytes);
    text.counter(
        "quoit_riak_tree_records_read",
        "Records that were read and hashed for them.",
        trees.read_count,
    );
    let queues = context.store.source_queues().status();
    if !queues.is_empty() {
        let now_us = context.store.clock().unix_us();
        text.family(
            "quoit_queue_entries",
            "Entries that wait in source queues.",
            FamilyKind::Gauge,
        );
        for queue in &queues {
            for (priority, count) in [
                ("real_time", queue.lengths.real_time),
                ("full_sync", queue.lengths.full_sync),
                ("fold", queue.lengths.fold),
            ] {
                let name = &queue.name;
                text.line(format_args!(
                    "quoit_queue_entries{{queue=\"{name}\",priority=\"{priority}\"}} {count}"
                ));
            }
        }
        let help = "Age of the oldest entry that no sink has confirmed.";
        text.family("quoit_queue_oldest_seconds", help, FamilyKind::Gauge);
        for queue in &queues {
            let age_us = queue.oldest_us.map_or(0, |since_us| now_us.saturating_sub(since_us));
            let (name, age_secs) = (&queue.name, age_us as f64 / US_PER_SEC);
            text.line(format_args!("quoit_queue_oldest_seconds{{queue=\"{name}\"}} {age_secs}"));
        }
    }
    conflicts(text, &context.store.replication().conflicts_by_bucket());
    let Some(replication) = context.replication.get() else { return };
    lags(text, &replication.sinks());
    let full_sync = replication.full_sync().totals;
    text.counter(
        "quoit_full_syncs_in_sync",
        "Full-syncs that found no difference.",
        full_sync.sync,
    );
    text.counter("quoit_full_syncs_differing", "Full-syncs that found some.", full_sync.nosync);
    text.counter("quoit_full_syncs_failed", "Full-syncs that did not end well.", full_sync.fail);
}

/// Adds the number of concurrent writes in both clusters, by bucket.
fn conflicts(text: &mut MetricsText, conflicts: &[BucketConflicts]) {
    if conflicts.is_empty() {
        return;
    }
    let help = "Objects of other clusters that were concurrent to objects here, by bucket.";
    text.family("quoit_sink_bucket_conflicts", help, FamilyKind::Counter);
    for BucketConflicts { bucket, count } in conflicts {
        let (bucket_type, bucket) = match bucket {
            Some((bucket_type, bucket)) => (label(bucket_type), label(bucket)),
            // Not a valid name of a bucket type, so it can't collide with one.
            None => ("/others".to_owned(), "/others".to_owned()),
        };
        text.line(format_args!(
            "quoit_sink_bucket_conflicts_total{{type=\"{bucket_type}\",bucket=\"{bucket}\"}} {count}"
        ));
    }
}

/// Escapes a name as the value of a label.
fn label(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(name);
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Adds the figures of change feeds.
pub(super) fn change_feed_metrics(text: &mut MetricsText, context: &ServerContext) {
    let Some(log) = context.store.change_feeds().log() else { return };
    let status = log.status();
    let now_us = context.store.clock().unix_us();
    text.gauge("quoit_change_feed_bytes", "Bytes of changes that are kept.", status.bytes);
    let age_us = status.oldest_us.map_or(0, |oldest_us| now_us.saturating_sub(oldest_us));
    text.family(
        "quoit_change_feed_oldest_seconds",
        "Age of the oldest change that is kept.",
        FamilyKind::Gauge,
    );
    text.line(format_args!("quoit_change_feed_oldest_seconds {}", age_us as f64 / US_PER_SEC));
    let help = "Writes of buckets with a change feed.";
    text.counter("quoit_change_feed_changes", help, status.appended_count);
    let help = "Changes that the disk did not accept; readers get the error of a gap.";
    text.counter("quoit_change_feed_lost", help, status.lost_count);
    text.counter(
        "quoit_change_feed_told",
        "Changes reported to readers by this node.",
        status.sent_change_count,
    );
}

/// Adds the delay with which objects of other clusters were stored here, by queue.
fn lags(text: &mut MetricsText, sinks: &[SinkStatus]) {
    if sinks.is_empty() {
        return;
    }
    let name = "quoit_sink_lag_seconds";
    let help =
        "Time from the last modification of an object in another cluster until it was stored here.";
    text.family(name, help, FamilyKind::Histogram);
    for SinkStatus { queue, peers, .. } in sinks {
        let (mut bars, mut sum_us) = (vec![0; LAG_BOUNDS_MS.len() + 1], 0);
        for peer in peers {
            bars.iter_mut().zip(&peer.lag.bars).for_each(|(sum, bar)| *sum += bar);
            sum_us += peer.lag.sum_us;
        }
        let mut count: u64 = 0;
        for (place, bar) in bars.iter().enumerate() {
            count += bar;
            let bound = LAG_BOUNDS_MS.get(place);
            let bound =
                bound.map_or_else(|| "+Inf".to_owned(), |ms| (*ms as f64 / 1e3).to_string());
            text.line(format_args!("{name}_bucket{{queue=\"{queue}\",le=\"{bound}\"}} {count}"));
        }
        text.line(format_args!("{name}_sum{{queue=\"{queue}\"}} {}", sum_us as f64 / US_PER_SEC));
        text.line(format_args!("{name}_count{{queue=\"{queue}\"}} {count}"));
    }
}
