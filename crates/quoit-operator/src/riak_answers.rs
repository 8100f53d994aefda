//! Answers to riak-admin commands that do not correspond to a single quoit command: the status of vnodes, a
//! diagnosis, current activity, and a dump of everything.

use crate::diagnosis;
use anyhow::{Context, Result, bail};
use quoit_cli::doctor::{Check, Verdict};
use quoit_cli::target::TargetArgs;
use quoit_cli::{Answer, Api, value_at};
use quoit_import::facade::NodeQuery;
use serde_json::Value;
use std::fmt::Write as _;

/// Levels of a diagnosis, the least severe first.
const LEVELS: [&str; 8] =
    ["debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"];
const LEVEL_DEFAULT: &str = "notice";
/// Checks of a diagnosis by Riak's names, with descriptions.
const CHECKS: [(&str, &str); 10] = [
    ("disk", "data directory, its file system and the room on it"),
    ("dumps", "whether a crash has left a dump: a node of quoit leaves its last words in the log"),
    ("memory_use", "memory and swap of the machine"),
    ("nodes_connected", "members that this node can't reach"),
    ("ring_membership", "whether the node is a valid member"),
    ("ring_preflists", "whether there are members for all replicas"),
    ("ring_size", "partitions for each member"),
    ("search", "Solr, which is not there"),
    ("strong_consistency", "ensembles, which are not there"),
    ("sysctl", "limits and settings of the system"),
];
/// Usual numbers of partitions for each node. Outside of them, `diag` reports a notice.
const PARTITIONS_A_NODE: std::ops::RangeInclusive<u64> = 8..=128;
/// Default number of replicas of a bucket.
const REPLICAS: usize = 3;
/// Documents of a dump: titles and paths.
const DUMPED: [(&str, &str); 9] = [
    ("Members", "cluster"),
    ("Ring", "cluster/ring"),
    ("Overview", "overview"),
    ("Status and statistics", "status"),
    ("Transfers", "transfers"),
    ("Anti-entropy", "aae"),
    ("Bucket types", "bucket-types"),
    ("Replication", "repl"),
    ("Slow requests", "slow-log"),
];

/// A riak-admin command line: its words without `--url`, and the node to ask.
struct Line {
    words: Vec<String>,
    api: Api,
}

impl Line {
    fn new(words: &[String]) -> Result<Self> {
        let (mut rest, mut target) = (Vec::new(), TargetArgs::default());
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match word.as_str() {
                "--url" => target.url.push(words.next().context("--url needs an address")?.clone()),
                _ => rest.push(word.clone()),
            }
        }
        Ok(Self { words: rest, api: Api::new(&target) })
    }

    fn get(&self, path: &str) -> Result<Value> {
        match self.api.get(path)? {
            Answer::Done(document) => Ok(document),
            Answer::Refused { message, .. } => bail!("{message}"),
        }
    }

    /// The value of an option with two spellings.
    fn option(&self, names: [&str; 2]) -> Option<&str> {
        let at = self.words.iter().position(|word| names.contains(&word.as_str()))?;
        self.words.get(at + 1).map(String::as_str)
    }

    fn has(&self, names: [&str; 2]) -> bool {
        self.words.iter().any(|word| names.contains(&word.as_str()))
    }
}

/// Help for a command that is answered here.
const fn usage(question: NodeQuery) -> &'static str {
    match question {
        NodeQuery::VnodeStatus => {
            "Usage: vnode-status\n\nPrints the partitions of the node and their engines."
        }
        NodeQuery::Diag => {
            "Usage: diag\n\nChecks the machine and the cluster, and prints the findings."
        }
        NodeQuery::Top => "Usage: top\n\nPrints the current load of the node.",
        NodeQuery::ClusterInfo => {
            "Usage: cluster-info FILE\n\nWrites all information about the node and its cluster to FILE, as \
             HTML if its name ends in .html or .htm."
        }
    }
}

/// The answer to a question, as text.
///
/// # Errors
///
/// If no node answers, or the words of the command are wrong.
pub fn answer(question: NodeQuery, words: &[String]) -> Result<String> {
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return Ok(usage(question).to_owned());
    }
    let line = Line::new(words)?;
    match question {
        NodeQuery::VnodeStatus => vnode_status(&line),
        NodeQuery::Diag => diag(&line),
        NodeQuery::Top => top(&line),
        NodeQuery::ClusterInfo => cluster_info(&line),
    }
}

fn text_of(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

fn listed(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

/// A section for each partition, as Riak prints its vnodes. All partitions share one store, so each shows
/// the figures of the node.
fn vnode_status(line: &Line) -> Result<String> {
    let (partitions, status) = (line.get("cluster/partitions")?, line.get("status")?);
    let backend = text_of(value_at(&status, "/stats/storage_backend"));
    let mut terms = Vec::new();
    for (name, figure) in value_at(&status, "/engine").as_object().into_iter().flatten() {
        if figure.is_number() || figure.is_boolean() {
            terms.push(format!("{{{name},{figure}}}"));
        }
    }
    if line.has(["--format=json", "--json"]) {
        return Ok(serde_json::json!({"partitions": value_at(&partitions, "/partitions"), "backend": backend,
            "store": value_at(&status, "/engine")})
        .to_string());
    }
    let mut page =
        "Vnode status information\n-------------------------------------------\n".to_owned();
    for partition in listed(value_at(&partitions, "/partitions")) {
        let (index, kind) = (text_of(&partition["index"]), text_of(&partition["type"]));
        let _ = write!(
            page,
            "\nVNode: {index}\nBackend: {backend}\nStatus:\n[{{type,{kind}}},{{node,[{}]}}]\n",
            terms.join(",")
        );
    }
    Ok(page)
}

/// One finding of a diagnosis.
struct Finding {
    check: &'static str,
    level: &'static str,
    message: String,
}

/// Checks the machine and the cluster. Returns lines of the form `[level] message`.
fn diag(line: &Line) -> Result<String> {
    if line.has(["-l", "--list"]) {
        let names = CHECKS.iter().map(|(name, about)| format!("  {name:20} {about}\n"));
        return Ok(format!("Available diagnostic checks:\n\n{}", names.collect::<String>()));
    }
    let least = line.option(["-d", "--level"]).unwrap_or(LEVEL_DEFAULT);
    let Some(least) = LEVELS.iter().position(|level| *level == least) else {
        bail!("{least} is not a level; levels are {}", LEVELS.join(", "));
    };
    let level_words = ["-d", "--level", "--export"];
    let mut wanted = Vec::new();
    let mut words = line.words.iter();
    while let Some(word) = words.next() {
        match word {
            word if level_words.contains(&word.as_str()) => drop(words.next()),
            word if word.starts_with('-') => {}
            word if CHECKS.iter().any(|(name, _)| name == word) => wanted.push(word.as_str()),
            word => bail!("{word} is not a check; diag --list names them"),
        }
    }
    // The running node itself uses the addresses, so that check would fail; the node's own figures cover its
    // disk.
    let of_node = ["address", "data directory", "room on the disk", "file system"];
    let machine = diagnosis::checks_here()?.into_iter();
    let machine = machine.filter(|check| !of_node.contains(&check.subject));
    let mut findings: Vec<Finding> = machine.map(|check| of_machine(&check)).collect();
    let ring_size = line.get("cluster/partition-count")?;
    let ring_size = value_at(&ring_size, "/ring_size").as_u64().unwrap_or(0);
    findings.extend(of_cluster(&line.get("overview")?, ring_size));
    let shown = findings.iter().filter(|finding| {
        let level = LEVELS.iter().position(|level| *level == finding.level).unwrap_or(0);
        level >= least && (wanted.is_empty() || wanted.contains(&finding.check))
    });
    let page: String =
        shown.map(|finding| format!("[{}] {}\n", finding.level, finding.message)).collect();
    let page = match page.is_empty() {
        true => "No diagnostic messages to report.\n".to_owned(),
        false => page,
    };
    if let Some(file) = line.option(["--export", "--export"]) {
        std::fs::write(file, &page).with_context(|| file.to_owned())?;
        return Ok(format!("written to {file}"));
    }
    Ok(page)
}

fn of_machine(check: &Check) -> Finding {
    let name = match check.subject {
        "memory" | "swap" => "memory_use",
        _ => "sysctl",
    };
    let level = match check.verdict {
        Verdict::Good => "info",
        Verdict::Unknown => "notice",
        Verdict::Warning => "warning",
        Verdict::Bad => "error",
    };
    let remedy =
        if check.remedy.is_empty() { String::new() } else { format!(": {}", check.remedy) };
    Finding { check: name, level, message: format!("{}: {}{remedy}", check.subject, check.found) }
}

fn of_cluster(overview: &Value, ring_size: u64) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut say = |check, level, message| findings.push(Finding { check, level, message });
    let nodes = listed(&overview["nodes"]);
    for node in nodes {
        let name = text_of(&node["name"]);
        if node["availability"] != "up" {
            say(
                "nodes_connected",
                "warning",
                format!(
                    "Cluster member {name} is not connected to this node. Please check whether it is down."
                ),
            );
        }
        if node["membership"] != "valid" {
            let membership = text_of(&node["membership"]);
            say("ring_membership", "notice", format!("Cluster member {name} is {membership}."));
        }
        let figures = &node["figures"];
        let room = |part: &str| figures[part].as_u64().unwrap_or(0);
        let (free, total) = (room("disk_free_bytes"), room("disk_total_bytes").max(1));
        if figures["disk_full"] == true {
            say("disk", "critical", format!("The disk of {name} is full: it takes no writes."));
        }
        let level = if free * 10 < total { "warning" } else { "info" };
        say("disk", level, format!("{} % of the disk of {name} are free.", free * 100 / total));
    }
    if nodes.len() < REPLICAS {
        say(
            "ring_preflists",
            "warning",
            format!(
                "There are {} members: preference lists of n_val {REPLICAS} are not on distinct nodes.",
                nodes.len()
            ),
        );
    }
    let each = ring_size / (nodes.len() as u64).max(1);
    let level = if PARTITIONS_A_NODE.contains(&each) { "info" } else { "notice" };
    say(
        "ring_size",
        level,
        format!("The ring has {ring_size} partitions: {each} for each member."),
    );
    let losses = value_at(overview, "/losses/possibly_incomplete_partitions");
    if !listed(losses).is_empty() {
        say(
            "disk",
            "error",
            format!("Records may be lost in partitions {losses}: quoit status shows the details."),
        );
    }
    say("dumps", "info", "A node leaves no dumps; its last words are in the log.".to_owned());
    say("search", "info", "Riak Search is not there.".to_owned());
    say("strong_consistency", "info", "Strong consistency is not there.".to_owned());
    findings
}

/// Current activity of the node. Tasks take the place of Erlang's processes.
fn top(line: &Line) -> Result<String> {
    let (status, hot) = (line.get("status")?, line.get("hot-keys")?);
    let stats = value_at(&status, "/stats");
    let figure = |name: &str| stats[name].as_u64().unwrap_or(0);
    let mut page = format!(
        "{}  up {} s  Load: cpu {:.2} {:.2} {:.2}\nMemory: total {} bytes, requests {} of {} bytes\n",
        text_of(value_at(&status, "/node")),
        value_at(&status, "/uptime_secs"),
        figure("cpu_avg1") as f64 / 256.0,
        figure("cpu_avg5") as f64 / 256.0,
        figure("cpu_avg15") as f64 / 256.0,
        figure("memory_total"),
        value_at(&status, "/request_memory/used_bytes"),
        value_at(&status, "/request_memory/budget_bytes"),
    );
    let _ = writeln!(page, "\n{:<28} {:>10} {:>12}", "Task", "active", "last minute");
    let rows = [
        ("gets", "node_get_fsm_active", "node_gets"),
        ("puts", "node_put_fsm_active", "node_puts"),
        ("listings", "list_fsm_active", "list_fsm_create"),
        ("index queries", "index_fsm_active", "index_fsm_create"),
        ("folds", "clusteraae_fsm_active", "clusteraae_fsm_create"),
        ("MapReduce jobs", "pipeline_active", "pipeline_create_one"),
        ("connections (PB)", "pbc_active", "pbc_connects"),
    ];
    for (name, active, made) in rows {
        let _ = writeln!(page, "{name:<28} {:>10} {:>12}", figure(active), figure(made));
    }
    for transfer in listed(value_at(&line.get("transfers")?, "/active")) {
        let _ = writeln!(page, "transfer: {transfer}");
    }
    let lines =
        line.option(["-lines", "--lines"]).and_then(|count| count.parse().ok()).unwrap_or(10);
    for key in listed(value_at(&hot, "/hot")).iter().take(lines) {
        let _ = writeln!(page, "hot key: {key}");
    }
    Ok(page)
}

/// Writes all documents about the node and its cluster to a file, as HTML if its name says so, else as
/// text.
fn cluster_info(line: &Line) -> Result<String> {
    let Some(file) = line.words.first() else {
        bail!("cluster-info needs the name of the file to write");
    };
    let is_html = file.ends_with(".html") || file.ends_with(".htm");
    let mut page = String::new();
    for (title, path) in DUMPED {
        let document = match line.get(path) {
            Ok(document) => serde_json::to_string_pretty(&document)?,
            Err(fault) => format!("{fault:#}"),
        };
        let _ = match is_html {
            true => {
                let document = document.replace('&', "&amp;").replace('<', "&lt;");
                write!(page, "<h2>{title}</h2>\n<pre>{document}</pre>\n")
            }
            false => write!(page, "== {title}\n\n{document}\n\n"),
        };
    }
    if is_html {
        page = format!("<!doctype html><meta charset=\"utf-8\"><title>Cluster</title>\n{page}");
    }
    std::fs::write(file, page).with_context(|| file.clone())?;
    Ok(format!("written to {file}"))
}
