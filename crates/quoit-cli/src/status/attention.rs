//! Problems that need an operator's attention, each with the command that helps.

use crate::document::value_at;
use crate::figures::{duration, size};
use crate::remedy::Remedy;
use serde_json::Value;

/// Free share of a disk below which space is short, in percent.
const ROOM_PERCENT_MIN: f64 = 10.0;
/// Limit of the 99th percentile of request latency, in microseconds. A node above it is reported as slow.
const SLOW_US: u64 = 100_000;
/// Number of siblings at which an object is reported.
const SIBLINGS_MAX: u64 = 25;
/// Size above which an object slows down other requests, in bytes.
const OBJECT_BYTES_MAX: u64 = 5 << 20;

/// A problem that needs attention.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Finding {
    /// The problem and where it is.
    pub(super) problem: String,
    /// The remedy.
    pub(super) remedy: String,
}

fn finding(problem: impl Into<String>, remedy: Remedy) -> Finding {
    Finding { problem: problem.into(), remedy: remedy.0 }
}

/// All problems that need attention, the worst first.
pub(super) fn of(overview: &Value) -> Vec<Finding> {
    let mut found = Vec::new();
    let nodes = list(&overview["nodes"]);
    if let Some(reason) = overview["waits"].as_str() {
        let name = text(&overview["node"]);
        found.push(finding(
            format!("{name} does not serve clients: {reason}"),
            Remedy::of("its log says more; `quoit doctor` checks its machine"),
        ));
    }
    nodes.iter().for_each(|node| of_node(node, &mut found));
    versions(nodes, &mut found);
    losses(&overview["losses"], &mut found);
    transfers(&overview["transfers"], nodes, &mut found);
    if overview["staged_changes"].as_u64() > Some(0) {
        found.push(finding(
            format!("{} changes of the cluster are staged but not committed", overview["staged_changes"]),
            Remedy::of(
                "`quoit admin cluster plan` shows them, then `quoit admin cluster commit`, or `quoit admin \
                 cluster clear`",
            ),
        ));
    }
    let is_away_known = nodes.iter().any(|node| node["availability"] == "down!");
    if let Some(reason) = overview["disagreement"].as_str().filter(|_| !is_away_known) {
        found.push(finding(
            format!("the members do not agree: {reason}"),
            Remedy::of(
                "this usually ends within a minute; `quoit admin ring-status` shows what is missing",
            ),
        ));
    }
    links(&overview["replication"], &mut found);
    for fault in list(value_at(overview, "/security/faults")) {
        found.push(finding(
            format!("{}: {}", text(&overview["node"]), text(fault)),
            Remedy::of(
                "`quoit admin security status` on each node shows the details; see docs/secure-a-cluster.md",
            ),
        ));
    }
    found
}

fn of_node(node: &Value, found: &mut Vec<Finding>) {
    let name = text(&node["name"]);
    match text(&node["availability"]) {
        "down!" => found.push(finding(
            format!("{name} can't be reached, and is not marked as down"),
            Remedy::of(format!(
                "start it; `quoit admin down {name}` if it stays away for long, `quoit admin cluster \
                 force-replace {name} NEW` if it is gone for good"
            )),
        )),
        "up!" => found.push(finding(
            format!("{name} answers although it is marked as down"),
            Remedy::of("it takes part again without a command; if it does not, its log says why"),
        )),
        "up" if node["answers"] == false => found.push(finding(
            format!("{name} is up and does not tell its figures"),
            Remedy::of("it may be overloaded: look at its log, and again in a moment"),
        )),
        _ => {}
    }
    let figures = &node["figures"];
    if let Some(reason) = figures["writes_refused"].as_str() {
        found.push(finding(
            format!("{name} takes no writes: {reason}"),
            Remedy::of("its log names the command that helps"),
        ));
    }
    disk(name, figures, found);
    let p99 = figures["get_p99_us"].as_u64().max(figures["put_p99_us"].as_u64());
    if let Some(slow) = p99.filter(|p99| *p99 > SLOW_US) {
        found.push(finding(
            format!(
                "one request in a hundred takes {} or more at {name}",
                duration(&(slow as f64 / 1e6).into())
            ),
            Remedy::of("`quoit slow-log` there shows which, and where the time went"),
        ));
    }
    if figures["errors_per_sec"].as_f64() > Some(0.0) {
        found.push(finding(
            format!("{} requests a second fail at {name}", figures["errors_per_sec"]),
            Remedy::of("`quoit slow-log` there and its log show which, and why"),
        ));
    }
    let siblings = figures["siblings_max"].as_u64().filter(|count| *count >= SIBLINGS_MAX);
    if let Some(count) = siblings {
        found.push(finding(
            format!("an object that was read at {name} has {count} siblings"),
            Remedy::of(format!(
                "`quoit admin fold find-keys TYPE/BUCKET --siblings {}` finds such; writes have to send \
                 the context of a read",
                SIBLINGS_MAX - 1
            )),
        ));
    }
    if let Some(bytes) =
        figures["object_bytes_max"].as_u64().filter(|bytes| *bytes > OBJECT_BYTES_MAX)
    {
        found.push(finding(
            format!("an object of {} was read at {name}", size(&bytes.into())),
            Remedy::of("`quoit hot-keys` there names the largest; split them into several objects"),
        ));
    }
}

fn disk(name: &str, figures: &Value, found: &mut Vec<Finding>) {
    let (free, total) = (figures["disk_free_bytes"].as_f64(), figures["disk_total_bytes"].as_f64());
    let percent = free.zip(total).map(|(free, total)| free / total.max(1.0) * 100.0);
    let remedy =
        "make room, or let more nodes share the data: `quoit admin cluster join` at a new node";
    if figures["disk_full"] == true {
        found.push(finding(format!("the disk of {name} is full"), Remedy::of(remedy)));
    } else if let Some(percent) = percent.filter(|percent| *percent < ROOM_PERCENT_MIN) {
        let free = size(&figures["disk_free_bytes"]);
        found.push(finding(
            format!("the disk of {name} has {free} left, {percent:.0} % of it"),
            Remedy::of(remedy),
        ));
    }
}

fn versions(nodes: &[Value], found: &mut Vec<Finding>) {
    let mut versions: Vec<&str> =
        nodes.iter().filter_map(|node| value_at(node, "/figures/version").as_str()).collect();
    if nodes.iter().any(|node| node["answers"] == true && node["figures"].is_null()) {
        versions.push("an earlier one");
    }
    versions.sort_unstable();
    versions.dedup();
    if versions.len() > 1 {
        found.push(finding(
            format!("the nodes run several versions: {}", versions.join(", ")),
            Remedy::of("upgrade the older ones, one after the other"),
        ));
    }
}

fn losses(losses: &Value, found: &mut Vec<Finding>) {
    for copy in list(&losses["incomplete_copies"]) {
        let away: Vec<&str> = list(&copy["waits_for"]).iter().map(text).collect();
        let remedy = match away.as_slice() {
            [] => {
                "other nodes restore them; `quoit admin transfers` shows how far it is".to_owned()
            }
            away => format!(
                "they need the copies of {}: start it, or `quoit admin cluster force-remove` it if it is \
                 gone for good",
                away.join(", ")
            ),
        };
        found.push(finding(
            format!("{} copies of {} lost records", copy["partition_count"], text(&copy["node"])),
            Remedy::of(remedy),
        ));
    }
    let unsure = list(&losses["possibly_incomplete_partitions"]);
    if !unsure.is_empty() {
        found.push(finding(
            format!(
                "all copies of {} partitions lost records, so that some may be gone",
                unsure.len()
            ),
            Remedy::of("restore a backup; `quoit admin accept-losses` takes note of it"),
        ));
    }
}

fn transfers(transfers: &Value, nodes: &[Value], found: &mut Vec<Finding>) {
    for off in list(&transfers["switched_off"]) {
        let node = text(&off["node"]);
        let way = match (&off["inbound"], &off["outbound"]) {
            (Value::Bool(false), Value::Bool(false)) => "both",
            (Value::Bool(false), _) => "inbound",
            _ => "outbound",
        };
        found.push(finding(
            format!("handoff is switched off at {node} ({way})"),
            Remedy::of(format!("`quoit admin handoff enable {way} --node {node}`")),
        ));
    }
    let is_up =
        |name: &str| nodes.iter().any(|node| node["name"] == name && node["availability"] == "up");
    let old: Vec<&Value> = list(&transfers["hints"])
        .iter()
        .filter(|hint| hint["partitions"].as_u64() > Some(0) && is_up(text(&hint["to"])))
        .collect();
    if let Some(hint) = old.first() {
        found.push(finding(
            format!("{} missed more than hints could keep", text(&hint["to"])),
            Remedy::of(
                "anti-entropy brings it up to date by itself; `quoit admin aae-exchange` there begins at \
                 once",
            ),
        ));
    }
}

/// Problems of the replication with other clusters.
fn links(replication: &Value, found: &mut Vec<Finding>) {
    for told in list(&replication["alerts"]) {
        let nodes: Vec<&str> = list(&told["nodes"]).iter().map(text).collect();
        found.push(finding(
            format!("replication at {}: {}", nodes.join(", "), text(&told["alert"])),
            Remedy::of("`quoit repl status --all` shows queues, peers and full-sync of each node"),
        ));
    }
}

pub(super) fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn healthy() -> Value {
        json!({
            "security": {"faults": []},
            "node": "a@h", "waits": null, "staged_changes": 0, "disagreement": null,
            "nodes": [{"name": "a@h", "availability": "up", "answers": true, "figures": {
                "version": "0.1.0", "disk_free_bytes": 80, "disk_total_bytes": 100, "disk_full": false,
                "get_p99_us": 900, "put_p99_us": 2_000, "errors_per_sec": 0.0, "siblings_max": 2,
                "object_bytes_max": 1_000,
            }}],
        })
    }

    #[test]
    fn nothing_of_a_healthy_cluster_needs_attention() {
        assert_eq!(of(&healthy()), []);
        assert_eq!(of(&Value::Null), [], "a node of another version may tell less");
    }

    #[test]
    fn each_trouble_is_told_with_the_command_that_helps() {
        let cases = [
            ("/waits", json!("no majority"), "does not serve clients: no majority", "quoit doctor"),
            (
                "/nodes/0/availability",
                json!("down!"),
                "a@h can't be reached",
                "quoit admin down a@h",
            ),
            ("/nodes/0/answers", json!(false), "does not tell its figures", "log"),
            ("/nodes/0/figures/disk_full", json!(true), "the disk of a@h is full", "cluster join"),
            ("/nodes/0/figures/disk_free_bytes", json!(5), "5 % of it", "cluster join"),
            (
                "/nodes/0/figures/writes_refused",
                json!("damage"),
                "takes no writes: damage",
                "log names",
            ),
            (
                "/nodes/0/figures/get_p99_us",
                json!(2_000_000),
                "takes 2.0 s or more",
                "quoit slow-log",
            ),
            (
                "/nodes/0/figures/errors_per_sec",
                json!(1.5),
                "1.5 requests a second fail",
                "slow-log",
            ),
            ("/nodes/0/figures/siblings_max", json!(60), "60 siblings", "--siblings"),
            ("/nodes/0/figures/object_bytes_max", json!(9 << 20), "9.0 MB", "quoit hot-keys"),
            ("/staged_changes", json!(2), "2 changes of the cluster are staged", "cluster commit"),
            ("/disagreement", json!("no claimant"), "no claimant", "ring-status"),
            (
                "/security/faults",
                json!(["cert.pem expires in 9 days"]),
                "a@h: cert.pem expires in 9 days",
                "security status",
            ),
        ];
        for (place, value, problem, remedy) in cases {
            let mut overview = healthy();
            match overview.pointer_mut(place) {
                Some(member) => *member = value,
                None => overview["nodes"][0]["figures"]["writes_refused"] = value,
            }
            let found = of(&overview);
            let first = found.first().unwrap_or_else(|| panic!("{place} is told"));
            assert!(first.problem.contains(problem), "{first:?}");
            assert!(first.remedy.contains(remedy), "{first:?}");
        }
    }

    #[test]
    fn alerts_of_replication_are_told_with_their_nodes() {
        let mut overview = healthy();
        overview["replication"] = json!({
            "links": [{"name": "queue q", "state": "nothing waits"}],
            "alerts": [{"alert": "queue q is suspended", "nodes": ["a@h", "b@h"]}],
        });
        let found = of(&overview);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].problem, "replication at a@h, b@h: queue q is suspended");
        assert!(found[0].remedy.contains("quoit repl status --all"), "{found:?}");
    }

    #[test]
    fn losses_and_what_is_switched_off_are_told() {
        let mut overview = healthy();
        overview["losses"] = json!({
            "incomplete_copies": [
                {"node": "a@h", "partition_count": 8, "waits_for": ["c@h", "d@h"]},
                {"node": "b@h", "partition_count": 8, "waits_for": []},
            ],
            "possibly_incomplete_partitions": [1, 2],
        });
        overview["transfers"] = json!({
            "switched_off": [{"node": "a@h", "inbound": true, "outbound": false}],
            "hints": [{"from": "b@h", "to": "a@h", "records": 3, "partitions": 1}],
        });
        let remedies: Vec<String> = of(&overview).into_iter().map(|found| found.remedy).collect();
        assert_eq!(remedies.len(), 5, "{remedies:?}");
        assert!(remedies.iter().any(|remedy| remedy.contains("c@h, d@h")), "{remedies:?}");
        assert!(
            remedies.iter().any(|remedy| remedy.contains("handoff enable outbound --node a@h")),
            "{remedies:?}"
        );
    }
}
