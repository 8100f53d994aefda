//! Texts about the state of replication.

use quoit_cli::{figures, value_at};
use serde_json::Value;
use std::fmt::Write as _;

/// Objects of the other cluster that are not stored here yet.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct PendingObjects {
    /// Number of entries that wait at the peers, by their last reports.
    pub(super) count: u64,
    /// Number of objects stored here.
    pub(super) stored: u64,
    /// Peers that did not answer, and objects that could not be stored.
    pub(super) faults: Vec<String>,
}

/// The whole state of a node's replication.
pub(super) fn status(result: &Value) -> String {
    let mut page = queues(result, None) + &sinks(result) + &full_sync(result);
    if value_at(result, "/bootstrap/began_us").as_u64().unwrap_or(0) > 0 {
        page.push_str(&super::bootstrap::line(&result["bootstrap"]));
    }
    for alert in list(&result["alerts"]) {
        let _ = writeln!(page, "  ATTENTION: {}", text(alert));
    }
    page
}

/// The queues that other clusters consume.
pub(super) fn queues(result: &Value, only: Option<&str>) -> String {
    let source = &result["source"];
    let is_on = source["enabled"].as_bool() == Some(true);
    let state = if is_on { "on" } else { "off (replrtq_enablesrc)" };
    let mut page = format!("  source queues: {state}\n");
    let is_wanted = |queue: &&Value| only.is_none_or(|name| queue["name"] == name);
    for queue in list(&source["queues"]).filter(is_wanted) {
        let suspended = if queue["suspended"] == true { ", suspended" } else { "" };
        let stale = if queue["stale"] == true { ", stale" } else { "" };
        let _ = writeln!(
            page,
            "    {}:{}{suspended}{stale}: real-time {}, full-sync {}, folds {}, unconfirmed {}, \
             oldest {} ms, discarded {}",
            text(&queue["name"]),
            text(&queue["filter"]),
            queue["real_time"],
            queue["full_sync"],
            queue["fold"],
            queue["unconfirmed"],
            queue["oldest_age_ms"],
            queue["discarded_total"],
        );
    }
    page
}

/// The queues of other clusters that this cluster consumes.
pub(super) fn sinks(result: &Value) -> String {
    let mut page = String::from("  sinks:\n");
    for sink in list(&result["sinks"]) {
        let suspended = if sink["is_suspended"] == true { ", suspended" } else { "" };
        let _ = writeln!(
            page,
            "    {}{suspended}: {} workers, {} for each peer",
            text(&sink["queue"]),
            sink["worker_count"],
            sink["peer_limit"]
        );
        for peer in list(&sink["peers"]) {
            let _ = writeln!(
                page,
                "      {}: {} connections, stored {}, waiting there {}, errors {}{}",
                text(&peer["peer"]),
                peer["connections"],
                peer["stored"],
                peer["waiting"],
                peer["errors"],
                peer["fault"].as_str().map(|fault| format!(": {fault}")).unwrap_or_default(),
            );
        }
    }
    page
}

/// The state of full-sync.
pub(super) fn full_sync(result: &Value) -> String {
    let full_sync = &result["full_sync"];
    let peer = full_sync["peer"].as_str().unwrap_or("none");
    let mut page = format!(
        "  full-sync: scope {}, peer {peer}, {}{}\n",
        text(&full_sync["scope"]),
        text(&full_sync["state"]),
        if full_sync["is_paused"] == true { ", paused" } else { "" },
    );
    let last = &full_sync["last"];
    if last.is_object() {
        let _ = writeln!(
            page,
            "    last: {}, {} ms, {} newer here, {} newer there, {} exchanged{}",
            text(&last["kind"]),
            last["duration_us"].as_u64().unwrap_or(0) / 1_000,
            last["source_ahead"],
            last["sink_ahead"],
            figures::size(&last["exchanged_bytes"]),
            last["fault"].as_str().map(|fault| format!(": {fault}")).unwrap_or_default(),
        );
    }
    let range = &full_sync["range"];
    if range.is_object() {
        let secs = |name: &str| range[name].as_u64().unwrap_or(0) / 1_000_000;
        let _ = writeln!(
            page,
            "    range of the next range check: {}, modified from {} to {} (seconds since 1970)",
            range["bucket"].as_str().unwrap_or("all buckets"),
            secs("modified_from_us"),
            secs("modified_until_us"),
        );
    }
    if let Some(at_secs) = full_sync["next_at_secs"].as_u64() {
        let _ = writeln!(
            page,
            "    next: {} at {at_secs} (seconds since 1970)",
            text(&full_sync["next_kind"])
        );
    }
    page
}

/// The outcome of a command on a node.
pub(super) fn outcome(done: &Value) -> String {
    if let Some(fault) = done["error"].as_str() {
        return fault.to_owned();
    }
    let result = &done["result"];
    match (&result["report"], result["state"].as_str()) {
        (report, Some(state)) if report.is_object() => match report["fault"].as_str() {
            Some(fault) => format!("failed: {fault}"),
            None => format!(
                "{state}: {} records newer here, {} newer there",
                report["source_ahead"], report["sink_ahead"]
            ),
        },
        (_, Some(state)) => state.to_owned(),
        (_, None) if result["new"] == true => "added".to_owned(),
        (_, None) if result["cleared"].is_number() => {
            format!("{} entries forgotten", result["cleared"])
        }
        (_, None) => "done".to_owned(),
    }
}

/// The outcome of a rebase.
pub(super) fn rebase(done: &Value) -> String {
    let report = &done["rebase"];
    let word = if done["state"] == "dry_run" { "would be deleted" } else { "deleted" };
    let mut page = format!(
        "{word}: {} records here, {} there; sent: {} records from here, {} from there\n",
        report["deleted_here"],
        report["deleted_there"],
        report["source_ahead"],
        report["sink_ahead"],
    );
    for fault in list(&done["faults"]) {
        let _ = writeln!(page, "{}", text(fault));
    }
    if done["state"] == "rebased" {
        page.push_str(
            "the queue is consumed again; a further full-sync shows whether all is equal\n",
        );
    }
    page.trim_end().to_owned()
}

/// The sum of the entries that wait at the peers of all nodes.
pub(super) fn pending_at_peers(nodes: &[(String, Value)]) -> PendingObjects {
    let mut left = PendingObjects::default();
    // Several nodes may consume the queue of the same peer; its waiting entries are counted once.
    let mut waiting = std::collections::BTreeMap::new();
    for (name, done) in nodes {
        if let Some(fault) = done["error"].as_str() {
            left.faults.push(format!("{name}: {fault}"));
        }
        for sink in list(value_at(done, "/result/sinks")) {
            for peer in list(&sink["peers"]) {
                left.stored += peer["stored"].as_u64().unwrap_or(0);
                let place = (text(&sink["queue"]), text(&peer["peer"]));
                let count: &mut u64 = waiting.entry(place).or_default();
                *count = (*count).max(peer["waiting"].as_u64().unwrap_or(0));
                let is_silent = peer["kind"].is_null() && peer["fault"].is_null();
                if is_silent {
                    left.faults
                        .push(format!("{name}: {} has not answered yet", text(&peer["peer"])));
                }
                if let Some(fault) = peer["fault"].as_str() {
                    left.faults.push(format!("{name}: {fault}"));
                }
            }
        }
    }
    left.count = waiting.values().sum();
    left
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_waits_at_a_peer_is_counted_once_however_many_nodes_consume_it() {
        let node = |waiting: u64, fault: Value| {
            let peer = json!({
                "peer": "a:1:pb", "kind": "quoit", "stored": 5, "waiting": waiting, "fault": fault,
            });
            json!({"result": {"sinks": [{"queue": "q", "peers": [peer]}]}})
        };
        let nodes = [
            ("n1".to_owned(), node(7, Value::Null)),
            ("n2".to_owned(), node(9, json!("a:1:pb does not answer"))),
        ];
        let left = pending_at_peers(&nodes);
        assert_eq!((left.count, left.stored), (9, 10));
        assert_eq!(left.faults, ["n2: a:1:pb does not answer"]);
    }
}
