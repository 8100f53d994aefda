//! The links of this cluster to other clusters. Each queue or sink is shown once, with the sum of all
//! nodes' figures.

use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Answers of nodes by node name.
type AnswersByNode = BTreeMap<String, Result<Value, String>>;

/// The links, and the conditions that need attention.
pub(super) fn replication(told: &AnswersByNode) -> Value {
    let mut links = BTreeMap::new();
    let mut alerts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (node, told) in told {
        // The list of nodes already shows which nodes do not answer.
        let Ok(told) = told else { continue };
        let source = &told["source"];
        for queue in list(&source["queues"]) {
            let waiting: u64 =
                ["real_time", "full_sync", "fold"].iter().map(|kind| number(&queue[kind])).sum();
            // The settings define a queue for full-sync. It is not shown while it is off and empty.
            let is_off = source["enabled"] != true;
            if is_off && waiting == 0 && queue["filter"] == "block_rtq" {
                continue;
            }
            let name = (LinkSide::Queue, text(&queue["name"]));
            let link: &mut ReplicationLink = links.entry(name).or_default();
            link.is_off |= is_off;
            link.waiting += waiting;
            link.is_suspended |= queue["suspended"] == true;
            link.oldest_ms = link.oldest_ms.max(number(&queue["oldest_age_ms"]));
        }
        for sink in list(&told["sinks"]) {
            let link = links.entry((LinkSide::Sink, text(&sink["queue"]))).or_default();
            link.is_suspended |= sink["is_suspended"] == true;
            for peer in list(&sink["peers"]) {
                // Several nodes may consume the queue of the same peer; its waiting entries are counted
                // once.
                let waiting = link.peers.entry(text(&peer["peer"])).or_default();
                *waiting = number(&peer["waiting"]).max(*waiting);
                link.stored += number(&peer["stored"]);
            }
        }
        for alert in list(&told["alerts"]).iter().filter_map(Value::as_str) {
            alerts.entry(alert).or_default().push(node);
        }
    }
    let links = links.iter().map(|((side, name), link)| link.shown(*side, name));
    let alerts = alerts.iter().map(|(alert, nodes)| json!({"alert": alert, "nodes": nodes}));
    json!({"links": links.collect::<Vec<_>>(), "alerts": alerts.collect::<Vec<_>>()})
}

/// The role of this cluster in a link.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum LinkSide {
    Queue,
    Sink,
}

/// Figures of a link, summed over all nodes.
#[derive(Default)]
struct ReplicationLink<'a> {
    is_suspended: bool,
    /// True if a node adds nothing to the queue because source queues are switched off.
    is_off: bool,
    waiting: u64,
    oldest_ms: u64,
    stored: u64,
    /// Number of entries that wait at each peer.
    peers: BTreeMap<&'a str, u64>,
}

impl ReplicationLink<'_> {
    fn shown(&self, side: LinkSide, name: &str) -> Value {
        let waiting = self.waiting + self.peers.values().sum::<u64>();
        let (side, state) = match side {
            LinkSide::Queue if waiting == 0 => ("queue", "nothing waits".to_owned()),
            LinkSide::Queue => {
                let oldest_secs = self.oldest_ms as f64 / 1e3;
                ("queue", format!("{waiting} objects wait, the oldest for {oldest_secs:.1} s"))
            }
            LinkSide::Sink => {
                let (stored, peers) = (self.stored, self.peers.len());
                (
                    "sink",
                    format!("{stored} objects stored from {peers} peers, {waiting} wait there"),
                )
            }
        };
        let state = if self.is_off { format!("off (replrtq_enablesrc), {state}") } else { state };
        let state = if self.is_suspended { format!("suspended, {state}") } else { state };
        json!({
            "name": format!("{side} {name}"), "state": state, "is_suspended": self.is_suspended,
            "waiting": waiting,
        })
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_are_added_up_and_an_alert_of_several_is_told_once() {
        let node = |waiting: u64, suspended: bool| {
            Ok(json!({
                "source": {"enabled": true, "queues": [{
                    "name": "q", "filter": "any", "suspended": suspended, "real_time": waiting,
                    "full_sync": 1, "fold": 0,
                    "oldest_age_ms": waiting * 1_000,
                }]},
                "sinks": [{"queue": "r", "is_suspended": false, "peers": [
                    {"peer": "x:8087", "stored": 5, "waiting": 7},
                ]}],
                "alerts": ["queue q is behind"],
            }))
        };
        let away = Err("the node has not answered".to_owned());
        let told = BTreeMap::from([
            ("a@h".to_owned(), node(2, false)),
            ("b@h".to_owned(), node(3, true)),
            ("c@h".to_owned(), away),
        ]);
        let shown = replication(&told);
        let state = |link: usize| text(&shown["links"][link]["state"]).to_owned();
        assert_eq!(shown["links"][0]["name"], "queue q");
        assert_eq!(state(0), "suspended, 7 objects wait, the oldest for 3.0 s");
        assert_eq!(shown["links"][1]["name"], "sink r");
        assert_eq!(state(1), "10 objects stored from 1 peers, 7 wait there");
        assert_eq!(
            shown["alerts"],
            json!([{"alert": "queue q is behind", "nodes": ["a@h", "b@h"]}])
        );
    }

    #[test]
    fn a_cluster_without_links_has_none() {
        let told = BTreeMap::from([(
            "a@h".to_owned(),
            Ok(json!({
                "source": {
                    "enabled": false, "queues": [{"name": "q1_ttaaefs", "filter": "block_rtq"}],
                },
                "sinks": [],
            })),
        )]);
        assert_eq!(replication(&told), json!({"links": [], "alerts": []}));
    }
}
