//! Text of the screen.

use super::attention::{Finding, list, text};
use crate::columns::columns;
use crate::figures::{count, duration, size};
use serde_json::Value;

const HEADING: [&str; 10] = [
    "node",
    "state",
    "version",
    "up for",
    "keys",
    "data",
    "disk free",
    "get/s",
    "put/s",
    "p99 get / put",
];

/// Number of characters shown of the inputs of a job.
const INPUTS_CHARS_MAX: usize = 40;

/// Formats the screen.
pub(super) fn of(overview: &Value, found: &[Finding]) -> String {
    let nodes = list(&overview["nodes"]);
    let up = nodes.iter().filter(|node| node["availability"] == "up").count();
    let mut text = format!(
        "{} of {} nodes up, {} partitions, layout {}; asked {}\n\n",
        up,
        nodes.len(),
        overview["ring_size"],
        overview["layout_version"],
        node(overview),
    );
    let rows = nodes.iter().map(row);
    text.push_str(&columns(std::iter::once(HEADING.map(str::to_owned)).chain(rows)));
    text.push_str("\n\n");
    text.push_str(&columns([
        ["objects read".to_owned(), sizes(nodes)],
        ["transfers".to_owned(), transfers(&overview["transfers"])],
        ["hints".to_owned(), hints(&overview["transfers"])],
        ["replication".to_owned(), links(&overview["replication"])],
        ["jobs".to_owned(), jobs(&overview["mapreduce"], node(overview))],
        ["security".to_owned(), security(&overview["security"])],
    ]));
    text.push_str("\n\n");
    if found.is_empty() {
        text.push_str("nothing needs attention");
        return text;
    }
    text.push_str("needs attention");
    for Finding { problem, remedy } in found {
        text.push_str(&format!("\n  ! {problem}\n      {remedy}"));
    }
    text
}

/// Describes whether clients of the asked node must log in, and which listeners are open to everybody.
fn security(security: &Value) -> String {
    let internode = security["open_internode"].as_str().map(|at| format!("{at} (nodes)"));
    let open = list(&security["open_listeners"]).iter().map(|at| text(at).to_owned());
    let open: Vec<String> = open.chain(internode).collect();
    let clients =
        if security["enabled"] == true { "clients log in" } else { "clients need no login" };
    match open.as_slice() {
        [] => clients.to_owned(),
        open => format!("{clients}; open to whoever reaches {}", open.join(", ")),
    }
}

fn node(overview: &Value) -> &str {
    text(&overview["node"])
}

fn row(node: &Value) -> [String; 10] {
    let figures = &node["figures"];
    let shown = |value: &Value, words: fn(&Value) -> String| match value.is_null() {
        true => "-".to_owned(),
        false => words(value),
    };
    let state = match (text(&node["status"]), text(&node["availability"])) {
        ("valid", availability) => availability.to_owned(),
        (status, "up") => status.to_owned(),
        (status, availability) if status == availability => status.to_owned(),
        (status, availability) => format!("{status}, {availability}"),
    };
    let room = match figures["disk_free_bytes"].is_null() {
        true => "-".to_owned(),
        false => format!(
            "{} of {}",
            size(&figures["disk_free_bytes"]),
            size(&figures["disk_total_bytes"])
        ),
    };
    let times = match figures.is_null() {
        true => "-".to_owned(),
        false => format!("{} / {}", time(&figures["get_p99_us"]), time(&figures["put_p99_us"])),
    };
    [
        text(&node["name"]).to_owned(),
        state,
        shown(&figures["version"], |value| text(value).to_owned()),
        shown(&figures["uptime_secs"], duration),
        shown(&figures["key_count"], count),
        shown(&figures["disk_bytes"], size),
        room,
        shown(&figures["gets_per_sec"], Value::to_string),
        shown(&figures["puts_per_sec"], Value::to_string),
        times,
    ]
}

/// Formats microseconds for people.
fn time(us: &Value) -> String {
    match us.as_u64() {
        None | Some(0) => "-".to_owned(),
        Some(us) if us < 100 => format!("{us} us"),
        Some(us) if us < 10_000 => format!("{:.1} ms", us as f64 / 1e3),
        Some(us) => format!("{} ms", us / 1_000),
    }
}

fn most(nodes: &[Value], name: &str) -> u64 {
    let figure = |node: &Value| node.get("figures")?.get(name)?.as_u64();
    nodes.iter().filter_map(figure).max().unwrap_or(0)
}

fn sizes(nodes: &[Value]) -> String {
    let of = |name| most(nodes, name);
    if of("object_bytes_max") == 0 {
        return "none in the last minute".to_owned();
    }
    format!(
        "99 % up to {}, at most {}; siblings: 99 % up to {}, at most {}",
        size(&of("object_bytes_p99").into()),
        size(&of("object_bytes_max").into()),
        of("siblings_p99"),
        of("siblings_max"),
    )
}

fn transfers(transfers: &Value) -> String {
    let active = list(&transfers["active"]);
    let waiting: u64 =
        list(&transfers["waiting"]).iter().filter_map(|each| each["partitions"].as_u64()).sum();
    if active.is_empty() && waiting == 0 {
        return "nothing moves".to_owned();
    }
    let per_sec: u64 = active.iter().filter_map(|each| each["bytes_per_sec"].as_u64()).sum();
    let left = active.iter().filter_map(|each| each["remaining_secs"].as_f64()).reduce(f64::max);
    let mut told =
        format!("{waiting} partitions wait, {} move at {}/s", active.len(), size(&per_sec.into()));
    if let Some(left) = left {
        told.push_str(&format!(", {} left for those that move", duration(&left.into())));
    }
    told
}

fn hints(transfers: &Value) -> String {
    let mut told: Vec<String> = Vec::new();
    for hint in list(&transfers["hints"]) {
        let records = hint["records"].as_u64().unwrap_or(0);
        told.push(format!(
            "{} records for {} at {}",
            records,
            text(&hint["to"]),
            text(&hint["from"])
        ));
    }
    match told.is_empty() {
        true => "none".to_owned(),
        false => told.join("; "),
    }
}

fn links(replication: &Value) -> String {
    let links = list(&replication["links"])
        .iter()
        .map(|link| format!("{}: {}", text(&link["name"]), text(&link["state"])));
    let told = links.collect::<Vec<_>>().join("; ");
    if told.is_empty() { "no links".to_owned() } else { told }
}

/// Describes the MapReduce jobs of the asked node, and the progress of the oldest one.
fn jobs(jobs: &Value, node: &str) -> String {
    let running = list(&jobs["jobs"]);
    let Some(oldest) = running.first() else { return "none".to_owned() };
    let inputs: String = text(&oldest["inputs"]).chars().take(INPUTS_CHARS_MAX).collect();
    format!(
        "{} MapReduce at {node}; the oldest, {}: {inputs}, {} objects read in {} s",
        running.len(),
        oldest["id"],
        count(&oldest["read_count"]),
        oldest["elapsed_secs"],
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_screen_has_dead_nodes_and_what_helps() {
        let figures = json!({
            "version": "0.1.0", "uptime_secs": 7_530, "key_count": 1_234_567, "disk_bytes": 1 << 30,
            "disk_free_bytes": 40_u64 << 30, "disk_total_bytes": 80_u64 << 30, "gets_per_sec": 12.5,
            "puts_per_sec": 3.0, "get_p99_us": 48, "put_p99_us": 23_000, "siblings_p99": 1,
            "siblings_max": 3, "object_bytes_p99": 2_048, "object_bytes_max": 1 << 20,
        });
        let overview = json!({
            "node": "a@h", "ring_size": 64, "layout_version": 2,
            "nodes": [
                {"name": "a@h", "status": "valid", "availability": "up", "figures": figures},
                {"name": "b@h", "status": "valid", "availability": "down!", "figures": null},
            ],
            "replication": {"links": [{"name": "queue q", "state": "nothing waits"}]},
            "mapreduce": {"jobs": [
                {"id": 7, "inputs": "bucket t/b", "read_count": 12_000, "elapsed_secs": 1.5},
            ]},
            "security": {"enabled": false, "open_listeners": ["10.0.0.1:8098"], "open_internode": null},
            "transfers": {"hints": [{"from": "a@h", "to": "b@h", "records": 12, "partitions": 0}]},
        });
        let found = [Finding { problem: "b@h can't be reached".into(), remedy: "start it".into() }];
        let shown = of(&overview, &found);
        for expected in [
            "1 of 2 nodes up, 64 partitions, layout 2; asked a@h",
            "a@h   up     0.1.0    2 h 5 min  1 234 567  1.0 GB  40.0 GB of 80.0 GB  12.5   3.0    48 us \
             / 23 ms",
            "b@h   down!  -",
            "99 % up to 2.0 KB, at most 1.0 MB; siblings: 99 % up to 1, at most 3",
            "nothing moves",
            "replication   queue q: nothing waits",
            "12 records for b@h at a@h",
            "jobs          1 MapReduce at a@h; the oldest, 7: bucket t/b, 12 000 objects read in 1.5 s",
            "security      clients need no login; open to whoever reaches 10.0.0.1:8098",
            "  ! b@h can't be reached\n      start it",
        ] {
            assert!(shown.contains(expected), "{expected}\nin\n{shown}");
        }
        assert!(shown.lines().all(|line| line.chars().count() <= 120), "{shown}");
        assert!(of(&overview, &[]).ends_with("nothing needs attention"));
    }
}
