//! The load generator against the real program.
#![allow(clippy::unwrap_used, reason = "a fixture that fails is a test that fails")]

mod node;

use node::Node;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The results of a run.
struct Results(tempfile::TempDir);

impl Results {
    fn file(&self, name: &str) -> String {
        let path = self.0.path().join("run").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Successful operations that a table of latencies counts.
    fn count(&self, label: &str) -> u64 {
        let table = self.file(&format!("{label}_latencies.csv"));
        let rows = table.lines().skip(1);
        rows.map(|row| row.split(", ").nth(2).unwrap().parse::<u64>().unwrap()).sum()
    }
}

/// Runs a configuration of the load generator with changes, which end it or say when it ends.
fn bench(shipped: Option<&str>, changes: &str) -> Results {
    let results = Results(tempfile::tempdir().unwrap());
    let configuration = results.0.path().join("changes.config");
    fs::write(&configuration, format!("{changes} {{value_generator_source_size, 100000}}."))
        .unwrap();
    let configs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../quoit-bench/configs");
    let run = Command::new(env!("CARGO_BIN_EXE_quoit"))
        .arg("bench")
        .args(shipped.map(|name| configs.join(name)))
        .arg(&configuration)
        .args(["-n", "run", "-d"])
        .arg(results.0.path())
        .output()
        .unwrap();
    let told = [run.stdout, run.stderr].concat();
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&told));
    assert_eq!(results.file("errors.csv"), "\"error\",\"count\"\n", "no operation fails");
    results
}

fn port(address: &str) -> &str {
    address.rsplit_once(':').unwrap().1
}

#[test]
fn the_mixed_workload_runs_on_a_node() {
    let node = Node::start();
    let (pb, http) = (port(&node.pb), port(&node.http));
    let results = bench(
        Some("nhs-small.config"),
        &format!(
            "{{pb_port, {pb}}}. {{http_port, {http}}}. {{duration, 0.05}}. {{concurrent, 8}}.
             {{alwaysget, {{40, 10, key_order}}}}."
        ),
    );
    for label in [
        "alwaysget-pb",
        "alwaysget-updatewithout2i",
        "put-unique",
        "put-unique-checkrepl",
        "get-unique",
    ] {
        assert!(results.count(label) > 0, "{label}");
    }
}

#[test]
fn both_interfaces_take_every_operation_that_is_offered() {
    let node = Node::start();
    let (pb, http) = (port(&node.pb), port(&node.http));
    let finite = "{mode, max}. {key_generator, {int_to_str, {partitioned_sequential_int, 300}}}.";
    let results = bench(
        None,
        &format!(
            "{finite} {{driver, riakc_pb}}. {{riakc_pb_port, {pb}}}.
             {{operations, [{{get, 3}}, {{put, 3}}, {{update, 3}}, {{update_with2i, 3}},
                            {{delete, 1}}, {{listkeys, 1}}]}}."
        ),
    );
    assert!(results.count("listkeys") > 0 && results.count("update-with2i") > 0);
    let results = bench(
        None,
        &format!(
            "{finite} {{driver, riakclient}}. {{riakclient_nodes, ['riak@127.0.0.1']}}.
             {{riakclient_pb_port, {pb}}}. {{operations, [{{get, 1}}, {{update, 1}}]}}."
        ),
    );
    assert_eq!(results.count("get") + results.count("update"), 300);
    let results = bench(
        None,
        &format!(
            "{finite} {{driver, http_raw}}. {{http_raw_port, {http}}}.
             {{operations, [{{get, 1}}, {{put, 1}}, {{update, 1}}, {{insert, 1}}, {{delete, 1}},
                            {{stat, 1}}]}}."
        ),
    );
    assert!(results.count("stat") > 0);
    let results = bench(
        None,
        &format!(
            "{finite} {{driver, http}}.
             {{generators, [{{id, {{key_generator, {{partitioned_sequential_int, 300}}}}}}]}}.
             {{values, [{{value, value_generator}}]}}.
             {{headers, [{{plain, [{{'Content-Type', \"text/plain\"}}]}}]}}.
             {{targets, [{{item, {{\"127.0.0.1\", {http}, {{\"/buckets/b/keys/~w\", [id]}}}}}}]}}.
             {{operations, [{{{{put, item, value, plain}}, 1}}, {{{{get, item}}, 1}}]}}."
        ),
    );
    assert_eq!(results.count("put-item-value-plain") + results.count("get-item"), 300);
}

/// Runs `quoit bench crdt-growth`: its standard output, its standard error, and whether it succeeded.
fn crdt_growth(node: &Node, results: &Path, arguments: &[&str]) -> (String, String, bool) {
    let run = Command::new(env!("CARGO_BIN_EXE_quoit"))
        .args(["bench", "crdt-growth", "--target", &node.pb, "-d"])
        .arg(results)
        .args(arguments)
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (text(run.stdout), text(run.stderr), run.status.success())
}

#[test]
fn a_growing_set_and_a_growing_map_are_measured_and_drawn() {
    let node = Node::start();
    let results = tempfile::tempdir().unwrap();
    let (rows, told, ok) = crdt_growth(&node, results.path(), &["--type", "sets"]);
    assert!(!ok && rows.is_empty(), "{rows}");
    assert!(told.contains("quoit admin bucket-type create sets"), "{told}");
    assert_eq!(fs::read_dir(results.path()).unwrap().count(), 0, "nothing is left behind");
    node.create_type("sets", r#"{"datatype":"set"}"#);
    node.create_type("maps", r#"{"datatype":"map"}"#);
    for kind in ["sets", "maps"] {
        let arguments = ["--type", kind, "--items", "30", "--containers", "2", "-n", kind];
        let (rows, told, ok) = crdt_growth(&node, results.path(), &arguments);
        assert!(ok, "{told}");
        let directory = results.path().join(kind);
        assert_eq!(fs::read_to_string(directory.join("crdt-growth.csv")).unwrap(), rows);
        let mut lines = rows.lines();
        assert_eq!(
            lines.next().unwrap(),
            "items, id, size, kv_read_elapsed, read_prewrite_elapsed, write_elapsed, \
             read_postwrite_elapsed, read_postwrite_elapsed2"
        );
        let rows: Vec<Vec<f64>> = lines
            .map(|line| line.split(", ").map(|cell| cell.parse().unwrap()).collect())
            .collect();
        let places: Vec<(f64, f64)> = rows.iter().map(|row| (row[0], row[1])).collect();
        let expected: Vec<_> =
            (1..=30).flat_map(|n| [(f64::from(n), 1.0), (f64::from(n), 2.0)]).collect();
        assert_eq!(places, expected);
        assert_eq!(rows[1][2..4], [0.0, 0.0], "the first plain read finds nothing");
        assert!(rows[59][2] > rows[3][2], "the record grows");
        assert!(rows[2..].iter().all(|row| row.len() == 8 && row[2..].iter().all(|t| *t > 0.0)));
        let page = fs::read_to_string(directory.join("report.html")).unwrap();
        assert!(page.contains("Times over items") && page.contains("read again"), "{page}");
        let chart = fs::read_to_string(directory.join("summary.svg")).unwrap();
        assert!(chart.contains("Size of the record") && chart.contains("read after"));
        fs::remove_file(directory.join("report.html")).unwrap();
        let report = Command::new(env!("CARGO_BIN_EXE_quoit"))
            .args(["bench", "report"])
            .arg(&directory)
            .output()
            .unwrap();
        assert!(report.status.success());
        assert_eq!(fs::read_to_string(directory.join("report.html")).unwrap(), page);
        let (_, told, ok) = crdt_growth(&node, results.path(), &arguments);
        assert!(!ok && told.contains("already holds the results"), "{told}");
    }
}
