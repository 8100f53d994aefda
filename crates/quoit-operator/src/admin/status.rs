//! `ping`, `status` and `stat`.

use super::{Api, document_of, plain, print};
use anyhow::Result;
use clap::Subcommand;
use quoit_cli::{Format, value_at};
use serde_json::Value;
use std::fmt::Write;

#[derive(Subcommand, Debug)]
pub(crate) enum StatCommand {
    /// Print the statistics whose names match, with their values.
    Show {
        /// Names such as riak.riak_kv.node.gets; * matches text within a level, ** any number of levels.
        #[arg(default_value = "**")]
        patterns: Vec<String>,
    },
    /// Print the names of the statistics that match, with their datapoints.
    Info {
        /// Names as for show.
        #[arg(default_value = "**")]
        patterns: Vec<String>,
    },
}

/// Prints all statistics as `name : value` lines.
pub(crate) fn status(api: &Api, format: Format) -> Result<()> {
    let answer = document_of(api.get("status")?, format)?;
    print(&answer, format, |document| {
        let mut lines = String::new();
        let mut line = |name: &str, value: &Value| {
            let _ = writeln!(lines, "{name} : {}", term(name, value));
        };
        for name in ["node", "version", "riak_kv_version", "uptime_secs"] {
            line(name, &document[name]);
        }
        let groups = [
            ("engine_", "engine"),
            ("request_memory_", "request_memory"),
            ("mapreduce_", "mapreduce"),
            ("", "stats"),
        ];
        for (prefix, group) in groups {
            for (name, value) in document[group].as_object().into_iter().flatten() {
                line(&format!("{prefix}{name}"), value);
            }
        }
        let reaped = reap_record_lines(&document["reap_records"]);
        let waiting = reaped.into_iter().chain(tombstone_lines(&document["tombstones"]));
        let losses = loss_lines(&document["losses"]);
        for told in waiting.chain(losses).chain(security_lines(&document["security"])) {
            lines.push_str(&told);
            lines.push('\n');
        }
        lines.trim_end().to_owned()
    });
    Ok(())
}

/// Formats the value of a statistic. Names of nodes, versions and disks are in Erlang's notation, as Riak
/// prints them.
fn term(name: &str, value: &Value) -> String {
    let list = |items: Vec<String>| format!("[{}]", items.join(","));
    match (name, value) {
        ("nodename", Value::String(node)) => format!("'{node}'"),
        ("ring_members" | "connected_nodes", Value::Array(nodes)) => {
            list(nodes.iter().map(|node| format!("'{}'", plain(node))).collect())
        }
        ("disk", Value::Array(disks)) => {
            let each = disks.iter().map(|disk| {
                format!("{{{:?},{},{}}}", plain(&disk["id"]), disk["size"], disk["used"])
            });
            list(each.collect())
        }
        (name, Value::String(version)) if name.ends_with("_version") => {
            format!("<<\"{version}\">>")
        }
        _ => plain(value),
    }
}

/// Lines about members that keep reap records from being deleted.
pub(crate) fn reap_record_lines(reaped: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, why) in [("away", "are away"), ("unsettled", "may hold something older")] {
        let members = names(&reaped[name]);
        if !members.is_empty() {
            let (records, maximum) = (&reaped["records"], &reaped["maximum"]);
            lines.push(format!(
                "{records} reap records (at most {maximum}) wait for members that {why}: {members}"
            ));
        }
    }
    lines
}

/// Lines about members that keep tombstones from being reaped.
fn tombstone_lines(held_up: &Value) -> Vec<String> {
    let mut lines = Vec::new();
    for (name, why) in [("away", "are away"), ("incomplete", "have lost records")] {
        let members = names(&held_up[name]);
        if !members.is_empty() {
            lines.push(format!("tombstones wait for members that {why}: {members}"));
        }
    }
    if held_up["partitions_move"] == true {
        lines.push("tombstones wait while partitions move".to_owned());
    }
    lines
}

/// Lines about security: its state, and warnings.
fn security_lines(security: &Value) -> Vec<String> {
    if security.is_null() {
        return Vec::new();
    }
    let warnings = security["warnings"].as_array().into_iter().flatten();
    let is_on = if security["enabled"] == true { "on" } else { "off" };
    let warnings = warnings.map(|warning| format!("security warning : {}", plain(warning)));
    std::iter::once(format!("security : {is_on}")).chain(warnings).collect()
}

fn names(names: &Value) -> String {
    let names = names.as_array().map(Vec::as_slice).unwrap_or_default();
    names.iter().map(plain).collect::<Vec<_>>().join(", ")
}

/// Lines about copies that have lost records.
fn loss_lines(losses: &Value) -> Vec<String> {
    let copies = losses["incomplete_copies"].as_array().into_iter().flatten();
    let mut lines: Vec<String> = copies
        .map(|copy| {
            let (node, count) = (plain(&copy["node"]), &copy["partition_count"]);
            let waits = match names(&copy["waits_for"]) {
                away if away.is_empty() => String::new(),
                away => format!(
                    "; waits for {away} to start (quoit admin cluster force-remove if gone for good)"
                ),
            };
            format!(
                "incomplete_copies : {count} of {node}, which lost records and gets them back{waits}"
            )
        })
        .collect();
    let unsure = losses["possibly_incomplete_partitions"].as_array();
    if let Some(unsure) = unsure.filter(|unsure| !unsure.is_empty()) {
        let numbers: Vec<String> = unsure.iter().map(plain).collect();
        lines.push(format!(
            "possibly incomplete : {} partitions, all copies of which lost records: {} \
             (quoit admin accept-losses takes note of that)",
            unsure.len(),
            numbers.join(" ")
        ));
    }
    lines
}

/// Acknowledges partitions that may have lost records for good.
pub(crate) fn accept_losses(api: &Api, format: Format) -> Result<()> {
    let answer = document_of(api.post("losses/accept", None)?, format)?;
    print(&answer, format, |document| {
        let count = document["possibly_incomplete_partitions"].as_array().map_or(0, Vec::len);
        format!("{count} partitions are no longer reported as possibly incomplete")
    });
    Ok(())
}

/// Prints statistics by name.
pub(crate) fn stat(api: &Api, command: &StatCommand, format: Format) -> Result<()> {
    let (patterns, values) = match command {
        StatCommand::Show { patterns } => (patterns, true),
        StatCommand::Info { patterns } => (patterns, false),
    };
    let mut found: Vec<Value> = Vec::new();
    for pattern in patterns {
        let path = format!("stat?pattern={}", super::segment(pattern));
        let answer = document_of(api.get(&path)?, format)?;
        found.extend(value_at(&answer, "/stats").as_array().cloned().unwrap_or_default());
    }
    let document = serde_json::json!({ "stats": found });
    print(&document, format, |_| {
        let lines = found.iter().map(|stat| stat_line(stat, values));
        lines.collect::<Vec<_>>().join("\n")
    });
    Ok(())
}

fn stat_line(stat: &Value, values: bool) -> String {
    let points = stat["datapoints"].as_object();
    let points = points.into_iter().flatten().map(|(name, value)| {
        if values { format!("{name}={}", plain(value)) } else { name.clone() }
    });
    format!("{}: {}", plain(&stat["name"]), points.collect::<Vec<_>>().join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn statistics_have_the_notation_that_scripts_know() {
        let disks = json!([{"id": "/", "size": 264_212_084, "used": 83}, {"id": "/d", "size": 5, "used": 1}]);
        let cases = [
            ("ring_members", json!(["n@h", "m@h"]), "['n@h','m@h']"),
            ("connected_nodes", json!([]), "[]"),
            ("nodename", json!("n@h"), "'n@h'"),
            ("riak_kv_version", json!("3.2.2"), "<<\"3.2.2\">>"),
            ("disk", disks, "[{\"/\",264212084,83},{\"/d\",5,1}]"),
            ("storage_backend", json!("riak_kv_bitcask_backend"), "riak_kv_bitcask_backend"),
            ("node_gets", json!(3), "3"),
        ];
        for (name, value, expected) in cases {
            assert_eq!(term(name, &value), expected, "{name}");
        }
    }

    #[test]
    fn members_that_tombstones_and_reap_records_wait_for_are_named() {
        let held_up = json!({
            "away": ["b@h", "c@h"], "incomplete": ["d@h"], "partitions_move": true
        });
        assert_eq!(
            tombstone_lines(&held_up),
            [
                "tombstones wait for members that are away: b@h, c@h",
                "tombstones wait for members that have lost records: d@h",
                "tombstones wait while partitions move",
            ]
        );
        let reaped = json!({"records": 7, "maximum": 9, "away": [], "unsettled": ["b@h"]});
        let told = "7 reap records (at most 9) wait for members that may hold something older: b@h";
        assert_eq!(reap_record_lines(&reaped), [told]);
    }
}
