//! Figures and alerts of a node's replication.

use crate::figures::PeerStatus;
use crate::full_sync::FullSyncScope;
use crate::replication::Replication;
use quoit_core::QueueStatus;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::time::Duration;

/// Difference between the clocks of two clusters from which on there is an alert, in milliseconds.
const CLOCK_ALERT_MS: u64 = 10_000;
/// Age of the oldest entry of a queue from which on there is an alert.
const LAG_ALERT: Duration = Duration::from_secs(10);

impl Replication {
    /// All figures of the node's replication.
    #[must_use]
    pub fn status(&self) -> Value {
        let store = self.store();
        let queues = store.source_queues();
        let now_us = store.clock().unix_us();
        let mut cluster = String::new();
        for byte in store.replication().cluster() {
            // Writing to a string can't fail.
            let _ = write!(cluster, "{byte:02x}");
        }
        let all: Vec<QueueStatus> = queues.status();
        json!({
            "cluster": cluster,
            "source": {
                "enabled": queues.is_enabled(),
                "disk_bytes": queues.disk_bytes(),
                "queues": all.iter().map(|queue| queue_json(queue, now_us)).collect::<Value>(),
            },
            "sinks": self.sinks(),
            "full_sync": self.full_sync(),
            "bootstrap": self.bootstrap().status(),
            "bucket_types": self.settings().bucket_types,
            "alerts": self.alerts(&all, now_us),
        })
    }

    /// Alerts for an operator, as texts.
    fn alerts(&self, queues: &[QueueStatus], now_us: u64) -> Vec<String> {
        let mut alerts = Vec::new();
        let is_enabled = self.store().source_queues().is_enabled();
        let retention = self.store().source_queues().settings().retention;
        for queue in queues {
            let QueueStatus { name, lengths, counts, oldest_us, is_suspended, is_stale, .. } =
                queue;
            alerts.extend(missed_alert(queue, now_us, retention));
            if *is_stale {
                alerts.push(format!(
                    "queue {name} is stale: its sinks have not learnt of all deletes for longer than \
                     repl.retention, and records deleted here may be live there; use quoit repl rebase {name}"
                ));
            }
            let age_secs = age_us(*oldest_us, now_us) / 1_000_000;
            if age_secs >= LAG_ALERT.as_secs() {
                alerts.push(format!(
                    "queue {name} is {age_secs} s behind with {} objects: look at its sinks",
                    lengths.real_time
                ));
            }
            if counts.discarded > 0 && !is_suspended {
                alerts.push(format!(
                    "queue {name} was full and has discarded {} objects: full-sync has to find them",
                    counts.discarded
                ));
            }
            if *is_suspended {
                alerts.push(format!("queue {name} is suspended: new writes are not queued in it"));
            }
            if !is_enabled && lengths.real_time > 0 {
                alerts.push(format!("queue {name} takes nothing: replrtq_enablesrc is disabled"));
            }
        }
        for sink in self.sinks() {
            for peer in sink.peers {
                alerts.extend(clock_alert(&sink.queue, &peer));
                if let Some(fault) = peer.fault {
                    alerts.push(format!("sink {}: {fault}", sink.queue));
                }
            }
            if sink.is_suspended {
                alerts.push(format!("sink {} is suspended", sink.queue));
            }
        }
        if let Some(fault) = self.bootstrap().status().fault {
            alerts.push(format!("bootstrap: {fault}"));
        }
        if let Some(fault) = self.types_fault() {
            alerts.push(format!("bucket types: {fault}"));
        }
        let full_sync = self.full_sync();
        if full_sync.is_wanted && full_sync.scope == FullSyncScope::Disabled {
            alerts.push(
                "entries of source queues may have been lost: have quoit repl fullsync run"
                    .to_owned(),
            );
        }
        if let Some(fault) = full_sync.last.and_then(|last| last.fault) {
            alerts.push(format!("full-sync: {fault}"));
        }
        alerts
    }
}

/// Alert about clocks of two clusters that differ.
fn clock_alert(queue: &str, peer: &PeerStatus) -> Option<String> {
    let (address, ahead_secs) = (&peer.peer, peer.ahead_ms / 1_000);
    (peer.ahead_ms >= CLOCK_ALERT_MS).then(|| {
        format!(
            "sink {queue}: {address} sends objects that are {ahead_secs} s ahead of this node's clock: set \
             the clocks of both clusters"
        )
    })
}

/// Alert about deletes that only full-sync can bring to a queue's sinks, once half of the time has
/// passed after which the queue becomes stale.
fn missed_alert(queue: &QueueStatus, now_us: u64, retention: Duration) -> Option<String> {
    let age = Duration::from_micros(age_us(queue.missed_since_us, now_us));
    (!queue.is_stale && age >= retention / 2 && !age.is_zero()).then(|| {
        format!(
            "queue {} has not brought its sinks all deletes of the last {} s, and no full-sync has found \
             since then that they lack nothing: have one of all records run before repl.retention has passed",
            queue.name,
            age.as_secs()
        )
    })
}

fn age_us(since_us: Option<u64>, now_us: u64) -> u64 {
    since_us.map_or(0, |since_us| now_us.saturating_sub(since_us))
}

fn queue_json(queue: &QueueStatus, now_us: u64) -> Value {
    let QueueStatus { name, filter, lengths, counts, .. } = queue;
    json!({
        "name": name,
        "filter": filter.to_string(),
        "suspended": queue.is_suspended,
        "stale": queue.is_stale,
        "missed_deletes_age_ms": queue.missed_since_us.map(|since_us| age_us(Some(since_us), now_us) / 1_000),
        "fold": lengths.fold,
        "full_sync": lengths.full_sync,
        "real_time": lengths.real_time,
        "unconfirmed": queue.unconfirmed_count,
        "oldest_age_ms": age_us(queue.oldest_us, now_us) / 1_000,
        "queued_total": counts.queued,
        "discarded_total": counts.discarded,
        "consumed_total": counts.consumed,
        "consumed_bytes_total": counts.consumed_bytes,
    })
}
