//! `transfers`, `transfer-limit`, `transfer-rate` and `handoff`.

use super::member_table::{bar, rule};
use super::{Api, document_of, of_node, plain, print};
use crate::admin::status::reap_record_lines;
use quoit_cli::columns::columns;
use quoit_cli::figures::{duration, size};

use anyhow::{Result, bail};
use clap::{Args, Subcommand, ValueEnum};
use quoit_cli::{Format, value_at};
use quoit_config::size_bytes;
use quoit_number::{index, whole};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::iter::once;

/// Width of the progress bar of a transfer in characters.
const BAR_WIDTH: usize = 40;

#[derive(Subcommand, Debug)]
pub(crate) enum HandoffCommand {
    /// Let nodes send partitions, receive them, or both.
    Enable(SwitchArgs),
    /// Stop nodes from sending or receiving partitions, including active transfers.
    Disable(SwitchArgs),
    /// Print for each node the number of partitions that it hands over now, and in total.
    Summary,
    /// Print the active transfers.
    Details(HandoffArgs),
    /// Print the limits of transfers.
    Config(HandoffArgs),
}

#[derive(Args, Debug)]
pub(crate) struct SwitchArgs {
    /// Direction of the transfers.
    direction: Direction,
    #[command(flatten)]
    nodes: HandoffArgs,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Direction {
    /// Partitions that other nodes hand over to the node.
    Inbound,
    /// Partitions that the node hands over.
    Outbound,
    /// Both directions.
    Both,
}

#[derive(Args, Debug)]
pub(crate) struct HandoffArgs {
    /// Name of the node [default: the node asked].
    #[arg(long, short)]
    node: Option<String>,
    /// All nodes.
    #[arg(long, short, conflicts_with = "node")]
    all: bool,
}

impl HandoffArgs {
    /// The name of the selected node; `None` = all nodes.
    fn name(&self, api: &Api, format: Format) -> Result<Option<String>> {
        match (&self.node, self.all) {
            (_, true) => Ok(None),
            (Some(node), _) => Ok(Some(node.clone())),
            (None, false) => {
                Ok(Some(plain(value_at(&document_of(api.get("ping")?, format)?, "/node"))))
            }
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct LimitArgs {
    /// The name of the node [default: all nodes], and the new value.
    #[arg(num_args = 0..=2, value_names = ["NODE", "VALUE"])]
    given: Vec<String>,
}

impl LimitArgs {
    /// The node and the value, if they are given.
    fn parts(&self) -> (Option<&str>, Option<&str>) {
        match &self.given[..] {
            [] => (None, None),
            [value] => (None, Some(value)),
            [node, value, ..] => (Some(node), Some(value)),
        }
    }
}

/// Prints or changes the number of partitions that nodes hand over at the same time.
pub(crate) fn transfer_limit(api: &Api, args: &LimitArgs, format: Format) -> Result<()> {
    let (node, limit) = args.parts();
    let Some(limit) = limit else {
        let document = document_of(api.get("transfer-limits")?, format)?;
        print(&document, format, |document| {
            limit_page(document, "Limit", |each| plain(&each["limit"]))
        });
        return Ok(());
    };
    let Ok(number) = limit.parse::<u32>() else {
        bail!("{limit} is not a number of partitions: write a whole number from 1 to 1000");
    };
    set_limit(api, "limit", &json!(number), (node, "transfer limit", limit), format)
}

/// Prints or changes the rate at which nodes hand over data, in bytes per second.
pub(crate) fn transfer_rate(api: &Api, args: &LimitArgs, format: Format) -> Result<()> {
    let (node, rate) = args.parts();
    let Some(rate) = rate else {
        let document = document_of(api.get("transfer-limits")?, format)?;
        print(&document, format, |document| {
            limit_page(document, "Rate", |each| rate_text(&each["rate"]))
        });
        return Ok(());
    };
    let Some(bytes) = size_bytes(rate) else {
        bail!("{rate} is not a size: write 50MB for instance, or 0 for no limit");
    };
    set_limit(api, "rate", &json!(bytes), (node, "transfer rate", rate), format)
}

/// Changes a limit of one node or of all; `words` are the node, the name of the limit, and the value as
/// given.
fn set_limit(
    api: &Api,
    name: &str,
    value: &Value,
    words: (Option<&str>, &str, &str),
    format: Format,
) -> Result<()> {
    let (node, what, shown) = words;
    let body = json!({ name: value, "node": node });
    let document = document_of(api.post("transfer-limits", Some(&body))?, format)?;
    print(&document, format, |document| match node {
        Some(node) => format!("Set {what} for {node} to {shown}"),
        None => {
            let done = format!("Setting {what} to {shown} across the cluster");
            once(done).chain(silent_lines(document)).collect::<Vec<_>>().join("\n")
        }
    });
    Ok(())
}

fn silent_lines(document: &Value) -> impl Iterator<Item = String> {
    let nodes = document["nodes"].as_array().into_iter().flatten();
    let silent = nodes.filter(|each| each["answers"] == false);
    silent.map(|each| format!("{} does not answer and keeps its own", plain(&each["node"])))
}

fn limit_page(document: &Value, heading: &str, value: impl Fn(&Value) -> String) -> String {
    let mut lines =
        vec![bar(&format!("Transfer {heading}")), format!("{heading:<12} Node"), rule()];
    for each in document["nodes"].as_array().into_iter().flatten() {
        let shown = if each["answers"] == true { value(each) } else { "offline".to_owned() };
        lines.push(format!("{shown:<12} {}", plain(&each["node"])));
    }
    lines.push(rule());
    lines.join("\n")
}

fn rate_text(rate: &Value) -> String {
    if *rate == 0 { "unlimited".to_owned() } else { format!("{}/s", size(rate)) }
}

/// Executes a command of `quoit admin handoff`.
pub(crate) fn handoff(api: &Api, command: &HandoffCommand, format: Format) -> Result<()> {
    match command {
        HandoffCommand::Enable(args) => switch(api, args, true, format),
        HandoffCommand::Disable(args) => switch(api, args, false, format),
        HandoffCommand::Summary => {
            let document = document_of(api.get("transfers")?, format)?;
            print(&document, format, summary_page);
            Ok(())
        }
        HandoffCommand::Details(args) => {
            let node = args.name(api, format)?;
            let mut document = document_of(api.get("transfers")?, format)?;
            let of_node = |each: &Value| node.as_ref().is_none_or(|node| each["from"] == **node);
            if let Some(active) = document.get_mut("active").and_then(Value::as_array_mut) {
                active.retain(of_node);
            }
            print(&json!({"active": value_at(&document, "/active")}), format, details_page);
            Ok(())
        }
        HandoffCommand::Config(args) => {
            let node = args.name(api, format)?;
            let path = of_node("transfer-limits", node.as_deref());
            let document = document_of(api.get(&path)?, format)?;
            print(&document, format, config_page);
            Ok(())
        }
    }
}

#[expect(clippy::indexing_slicing, reason = "the body is an object of this function")]
fn switch(api: &Api, args: &SwitchArgs, on: bool, format: Format) -> Result<()> {
    let node = args.nodes.name(api, format)?;
    let mut body = json!({ "node": node });
    if args.direction != Direction::Outbound {
        body["inbound"] = on.into();
    }
    if args.direction != Direction::Inbound {
        body["outbound"] = on.into();
    }
    let document = document_of(api.post("transfer-limits", Some(&body))?, format)?;
    print(&document, format, config_page);
    Ok(())
}

fn config_page(document: &Value) -> String {
    let heading =
        ["node", "transfer_limit", "transfer_rate", "handoff.inbound", "handoff.outbound"];
    let rows = document["nodes"].as_array().into_iter().flatten().map(|each| {
        let node = plain(&each["node"]);
        if each["answers"] == false {
            let none = || "offline".to_owned();
            return [node, none(), none(), none(), none()];
        }
        let flag = |name: &str| (if each[name] == true { "on" } else { "off" }).to_owned();
        let rate = rate_text(&each["rate"]);
        [node, plain(&each["limit"]), rate, flag("inbound"), flag("outbound")]
    });
    columns(once(heading.map(str::to_owned)).chain(rows))
}

fn summary_page(document: &Value) -> String {
    let waiting = || document["waiting"].as_array().into_iter().flatten();
    let active = || document["active"].as_array().into_iter().flatten();
    let silent = document["silent"].as_array().into_iter().flatten();
    let mut nodes: Vec<String> = waiting().map(|each| plain(&each["node"])).collect();
    nodes.extend(active().map(|each| plain(&each["from"])));
    nodes.extend(silent.clone().map(plain));
    nodes.sort();
    nodes.dedup();
    if nodes.is_empty() {
        return "No handoff is known".to_owned();
    }
    let heading = ["node", "total", "ownership", "resize", "hinted", "repair"];
    let silent: Vec<String> = silent.map(plain).collect();
    let rows = nodes.into_iter().map(|node| {
        if silent.contains(&node) {
            let none = || "--".to_owned();
            return [format!("(unreachable) {node}"), none(), none(), none(), none(), none()];
        }
        let known = |kind: &str| -> u64 {
            waiting()
                .filter(|each| each["node"] == *node)
                .filter_map(|each| each[kind].as_u64())
                .sum()
        };
        let moving = |kind: &str| {
            active().filter(|each| each["from"] == *node && each["type"] == kind).count() as u64
        };
        let of = |moving: u64, known: u64| format!("{moving} / {}", known.max(moving));
        let (ownership, hinted) = (moving("ownership"), moving("hinted"));
        let total = of(ownership + hinted, known("partitions"));
        let ownership = of(ownership, known("ownership"));
        let hinted = of(hinted, known("hinted"));
        [node, total, ownership, "0 / 0".to_owned(), hinted, "0 / 0".to_owned()]
    });
    let table = columns(once(heading.map(str::to_owned)).chain(rows));
    format!("Each cell is what is active of what is known.\n\n{table}")
}

fn details_page(document: &Value) -> String {
    let active = document["active"].as_array().map(Vec::as_slice).unwrap_or_default();
    if active.is_empty() {
        return "No ongoing transfers".to_owned();
    }
    let heading = ["type", "index", "source", "target", "size", "rate", "%", "elapsed", "left"];
    let rows = active.iter().map(|each| {
        [
            plain(&each["type"]),
            plain(&each["index"]),
            plain(&each["from"]),
            target(each).to_owned(),
            size(&each["bytes"]),
            format!("{}/s", size(&each["bytes_per_sec"])),
            plain(&each["percent"]),
            duration(&each["elapsed_secs"]),
            left(each),
        ]
    });
    columns(once(heading.map(str::to_owned)).chain(rows))
}

fn target(each: &Value) -> &str {
    each["to"].as_str().unwrap_or("the nodes that should have them")
}

fn left(each: &Value) -> String {
    match &each["remaining_secs"] {
        Value::Null => "not known yet".to_owned(),
        secs => duration(secs),
    }
}

/// Prints the waiting and the active transfers.
pub(crate) fn transfers(api: &Api, format: Format) -> Result<()> {
    let document = document_of(api.get("transfers")?, format)?;
    print(&document, format, transfers_page);
    Ok(())
}

fn transfers_page(document: &Value) -> String {
    let list = |name: &str| document[name].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut lines = Vec::new();
    for each in list("waiting") {
        let (node, partitions) = (plain(&each["node"]), &each["partitions"]);
        // Scripts wait until these words disappear, so they are also printed for a node that is gone.
        let source = match each["is_removed"] == true {
            true => ": their copies are made anew from other replicas",
            false => "",
        };
        lines.push(format!("{node} waiting to handoff {partitions} partitions{source}"));
    }
    for each in list("away") {
        let (node, partitions) = (plain(&each["node"]), &each["partitions"]);
        lines.push(format!("{node} does not have {partitions} primary partitions running"));
    }
    lines.extend(hint_lines(list("hints")));
    lines.extend(list("switched_off").iter().map(switched_off_line));
    lines.extend(reap_record_lines(&document["reap_records"]));
    if list("active").is_empty() {
        // Scripts treat this line as the end of all transfers.
        if ["waiting", "away", "hints"].into_iter().all(|name| list(name).is_empty()) {
            lines.push("No transfers active".to_owned());
        }
        return lines.join("\n");
    }
    for each in list("yielding") {
        let (node, share) = (plain(&each["node"]), plain(&each["share_percent"]));
        lines.push(format!(
            "{node} hands over in {share} % of the time: requests take longer than usual"
        ));
    }
    lines.push("\nActive Transfers:".to_owned());
    lines.extend(list("active").iter().map(active_lines));
    lines.join("\n").trim_start().to_owned()
}

/// Hints for writes that other nodes have missed: the total for each node, in the words that scripts
/// expect, and then for each target.
fn hint_lines(hints: &[Value]) -> Vec<String> {
    let mut counts: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for each in hints {
        let count = |name: &str| each[name].as_u64().unwrap_or_default();
        let (records, partitions) = counts.entry(plain(&each["from"])).or_default();
        *records += count("records");
        *partitions += count("partitions");
    }
    let waiting = counts.into_iter().map(|(node, (records, partitions))| match partitions {
        0 => format!("{node} waiting to handoff hints of {records} records"),
        // A hint for a whole partition stands for more missed records than the node records one by one.
        _ => {
            format!("{node} waiting to handoff hints of {records} records, {partitions} partitions")
        }
    });
    let mut lines: Vec<String> = waiting.collect();
    lines.extend(hints.iter().map(|each| {
        let (from, to) = (plain(&each["from"]), plain(&each["to"]));
        let (records, partitions) = (&each["records"], &each["partitions"]);
        format!("{from} has hints for {to}: {records} records and {partitions} whole partitions")
    }));
    lines
}

/// The reason why a node sends or accepts no partitions, and the remedy.
fn switched_off_line(each: &Value) -> String {
    let (does_not, direction) = match (each["inbound"] == false, each["outbound"] == false) {
        (true, true) => ("neither hands over nor takes", "both"),
        (true, false) => ("does not take", "inbound"),
        _ => ("does not hand over", "outbound"),
    };
    let node = plain(&each["node"]);
    format!("{node} {does_not}: handoff is switched off (handoff enable {direction} --node {node})")
}

fn active_lines(each: &Value) -> String {
    let percent = each["percent"].as_f64().unwrap_or_default();
    let done = index(whole(percent / 100.0 * BAR_WIDTH as f64)).min(BAR_WIDTH);
    let picture = format!("|{}{}|", "#".repeat(done), " ".repeat(BAR_WIDTH - done));
    format!(
        "\ntransfer type: {}\npartition: {}\nstarted: {} ago\ntransferred: {} in {} objects\n\
         rate: {}/s, left: {}\n{} ===> {}\n{picture} {percent}%",
        plain(&each["type"]),
        plain(&each["index"]),
        duration(&each["elapsed_secs"]),
        size(&each["bytes"]),
        each["records"],
        size(&each["bytes_per_sec"]),
        left(each),
        plain(&each["from"]),
        target(each),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moving() -> Value {
        json!({
            "waiting": [
                {"node": "a@h", "is_removed": false, "partitions": 5, "ownership": 3, "hinted": 2},
                {"node": "d@h (removed)", "is_removed": true, "partitions": 4, "ownership": 4,
                 "hinted": 0},
            ],
            "away": [{"node": "c@h", "partitions": 8}],
            "silent": ["c@h"],
            "reap_records": {"records": 7, "maximum": 9, "away": ["c@h"], "unsettled": []},
            "active": [{"id": 3, "index": "99", "type": "ownership", "from": "a@h", "to": "b@h",
                        "records": 10, "bytes": 2048, "bytes_per_sec": 1024, "percent": 25.0,
                        "elapsed_secs": 2.0, "remaining_secs": 6.0}],
        })
    }

    #[test]
    fn transfers_tell_who_waits_who_is_away_and_how_far_each_is() {
        let expected = "\
a@h waiting to handoff 5 partitions
d@h (removed) waiting to handoff 4 partitions: their copies are made anew from other replicas
c@h does not have 8 primary partitions running
7 reap records (at most 9) wait for members that are away: c@h

Active Transfers:

transfer type: ownership
partition: 99
started: 2.0 s ago
transferred: 2.0 KB in 10 objects
rate: 1.0 KB/s, left: 6.0 s
a@h ===> b@h
|##########                              | 25%";
        assert_eq!(transfers_page(&moving()), expected);
        let quiet = json!({"waiting": [], "away": [], "active": []});
        assert_eq!(transfers_page(&quiet), "No transfers active");
    }

    #[test]
    fn nothing_is_called_quiet_while_something_waits() {
        let mixed = json!({
            "waiting": [{"node": "b@h", "is_removed": false, "partitions": 2}],
            "away": [{"node": "c@h", "partitions": 8}],
            "hints": [{"from": "a@h", "to": "c@h", "records": 7, "partitions": 0},
                      {"from": "a@h", "to": "d@h", "records": 5, "partitions": 0}],
            "active": [],
        });
        let expected = "\
b@h waiting to handoff 2 partitions
c@h does not have 8 primary partitions running
a@h waiting to handoff hints of 12 records
a@h has hints for c@h: 7 records and 0 whole partitions
a@h has hints for d@h: 5 records and 0 whole partitions";
        assert_eq!(transfers_page(&mixed), expected);
        for name in ["waiting", "away", "hints"] {
            let page = transfers_page(&json!({name: mixed[name]}));
            assert!(!page.contains("No transfers active"), "{page}");
        }
        let hint = json!({"from": "a@h", "to": "c@h", "records": 7, "partitions": 3});
        let page = transfers_page(&json!({"hints": [hint]}));
        assert!(
            page.starts_with("a@h waiting to handoff hints of 7 records, 3 partitions\n"),
            "{page}"
        );
    }

    #[test]
    fn a_summary_tells_what_is_active_of_what_is_known() {
        let expected = "\
Each cell is what is active of what is known.

node               total  ownership  resize  hinted  repair
a@h                1 / 5  1 / 3      0 / 0   0 / 2   0 / 0
(unreachable) c@h  --     --         --      --      --
d@h (removed)      0 / 4  0 / 4      0 / 0   0 / 0   0 / 0";
        assert_eq!(summary_page(&moving()), expected);
        assert_eq!(summary_page(&json!({})), "No handoff is known");
    }

    #[test]
    fn transfers_tell_where_handoff_is_switched_off() {
        let page = |inbound: bool, outbound: bool| {
            let off = json!({"node": "a@h", "inbound": inbound, "outbound": outbound});
            transfers_page(&json!({"switched_off": [off]}))
        };
        assert!(page(false, false).starts_with(
            "a@h neither hands over nor takes: handoff is switched off (handoff enable both --node a@h)"
        ));
        assert!(page(false, true).starts_with("a@h does not take: "));
        assert!(page(true, false).starts_with("a@h does not hand over: "));
    }

    #[test]
    fn details_have_a_row_for_each_transfer() {
        let page = details_page(&moving());
        let row = page.lines().nth(1).unwrap();
        let cells: Vec<&str> =
            row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
        let expected =
            ["ownership", "99", "a@h", "b@h", "2.0 KB", "1.0 KB/s", "25.0", "2.0 s", "6.0 s"];
        assert_eq!(cells, expected);
        assert_eq!(details_page(&json!({"active": []})), "No ongoing transfers");
    }

    #[test]
    fn limits_are_shown_by_node_and_silence_is_said() {
        let document = json!({"nodes": [
            {"node": "a@h", "answers": true, "limit": 4, "rate": 0, "inbound": true, "outbound": false},
            {"node": "b@h", "answers": false},
        ]});
        let page = limit_page(&document, "Limit", |each| plain(&each["limit"]));
        let lines: Vec<&str> = page.lines().collect();
        assert_eq!((lines[1], lines[3]), ("Limit        Node", "4            a@h"));
        assert_eq!(lines[4], "offline      b@h");
        let page = config_page(&document);
        let row = page.lines().nth(1).unwrap();
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(cells, ["a@h", "4", "unlimited", "on", "off"]);
        assert_eq!(silent_lines(&document).collect::<Vec<_>>().len(), 1);
    }
}
