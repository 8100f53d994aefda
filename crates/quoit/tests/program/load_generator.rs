//! The load generator against a node process.
use crate::node::Node;
use quoit_client::{Bucket, BucketProps, Client, DataTypeValue};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Result directory of a run.
struct Results(tempfile::TempDir);

impl Results {
    fn file(&self, name: &str) -> String {
        let path = self.0.path().join("run").join(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// Number of successful operations in a table of latencies.
    fn count(&self, label: &str) -> u64 {
        let table = self.file(&format!("{label}_latencies.csv"));
        let rows = table.lines().skip(1);
        rows.map(|row| row.split(", ").nth(2).unwrap().parse::<u64>().unwrap()).sum()
    }
}

/// Runs the load generator with a shipped configuration, if there is one, and with changes to it that limit
/// the run. All operations must succeed.
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
    // The count of each range is compared with a query over HTTP.
    let integers = "{mode, max}. {concurrent, 1}. {key_generator, {sequential_int, 300}}.";
    let indexed = |operations: &str| {
        bench(
            None,
            &format!(
                "{integers} {{driver, '2i'}}. {{pb_port, {pb}}}. {{http_port, {http}}}.
                 {{enforce_keyrange, 299}}. {{operations, [{operations}]}}."
            ),
        )
    };
    assert_eq!(indexed("{{put_pb, 3}, 1}").count("put-pb-3"), 300);
    let results =
        indexed("{get_pb, 1}, {{query_pb, 1}, 1}, {{query_pb, 20}, 1}, {{query_http, 20}, 2}");
    assert!(results.count("query-pb-20") > 0 && results.count("query-http-20") > 0);
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

/// Value of a key as a client reads it.
async fn fetch(client: &Client, bucket_type: &str, key: &str) -> Option<DataTypeValue> {
    let location = Bucket::new("test").typed(bucket_type).key(key);
    Some(client.fetch(&location).await.unwrap()?.value)
}

#[tokio::test]
async fn counters_teams_and_games_are_counted_and_kept() {
    let node = Node::start();
    let client = Client::connect_to(&node.pb).unwrap();
    node.create_type("counters", r#"{"datatype":"counter"}"#);
    node.create_type("maps", r#"{"datatype":"map"}"#);
    node.create_type("siblings", r#"{"allow_mult":true}"#);
    let counts = |operations: &str, bucket: &str| {
        format!(
            "{{mode, max}}. {{driver, riakc_pb}}. {{riakc_pb_port, {}}}. {{riakc_pb_bucket, {bucket}}}.
             {{key_generator, {{int_to_str, {{partitioned_sequential_int, 60}}}}}}.
             {{value_generator, {{uniform_int, 1}}}}. {{operations, {operations}}}.",
            port(&node.pb)
        )
    };
    for _ in 0..3 {
        let results =
            bench(None, &counts("[{{counter, increment}, 1}]", "{<<\"counters\">>, <<\"test\">>}"));
        assert_eq!(results.count("counter-increment"), 60);
    }
    bench(None, &counts("[{{counter, value}, 1}]", "{<<\"counters\">>, <<\"test\">>}"));
    assert_eq!(fetch(&client, "counters", "59").await.unwrap().as_counter(), Some(3));
    let old = Bucket::new("old");
    let props = BucketProps { allow_mult: Some(true), ..BucketProps::default() };
    client.set_bucket_props(&old, props).await.unwrap();
    for operations in ["[{counter_incr, 1}]", "[{counter_incr, 1}]", "[{counter_val, 1}]"] {
        bench(None, &counts(operations, "<<\"old\">>"));
    }
    assert_eq!(client.legacy_counter(&old.key("7")).await.unwrap(), Some(2));

    let teams = |operations: &str| {
        let maps = counts(operations, "{<<\"maps\">>, <<\"test\">>}");
        maps.replace(
            "{int_to_str, {partitioned_sequential_int, 60}}",
            "{partitioned_sequential_int, 60}",
        )
    };
    // A read or a removal creates a team that does not exist.
    for operation in ["{team, read}", "{team, player, removal}", "{team, write}"] {
        bench(None, &teams(&format!("[{{{operation}, 1}}]")));
    }
    for operation in ["{team, player, addition}", "{game, completed}", "{game, completed}"] {
        bench(None, &teams(&format!("[{{{operation}, 1}}]")));
    }
    let team = fetch(&client, "maps", "17").await.unwrap();
    let team = team.as_map().unwrap();
    assert_eq!(&team.registers[&b"name"[..]][..], b"Team 17");
    assert_eq!(team.sets[&b"members"[..]].iter().collect::<Vec<_>>(), ["Team member 1"]);
    assert_eq!(team.counters[&b"score"[..]], 2);
    bench(None, &teams("[{{team, player, removal}, 1}]"));
    let team = fetch(&client, "maps", "17").await.unwrap();
    assert!(team.as_map().unwrap().sets.values().all(|members| members.is_empty()));
}

#[tokio::test]
async fn large_sets_and_maps_are_filled_read_and_emptied() {
    let node = Node::start();
    let client = Client::connect_to(&node.pb).unwrap();
    node.create_type("sets", r#"{"datatype":"set"}"#);
    node.create_type("maps", r#"{"datatype":"map"}"#);
    let port = port(&node.pb);
    let short = format!("{{riakc_dt_pb_port, {port}}}. {{duration, 0.01}}.");
    let results = bench(Some("crdt-one-set.config"), &short);
    let set = fetch(&client, "sets", "bench_set").await.unwrap();
    assert_eq!(set.as_set().unwrap().len() as u64, results.count("set-insert"));
    let results = bench(Some("crdt-one-map.config"), &short);
    let map = fetch(&client, "maps", "bench_map").await.unwrap();
    let size = map.as_map().unwrap().sets[&b"set"[..]].len() as u64;
    assert_eq!(size, results.count("map-set-insert"));

    let run_for = |length: &str, bucket_type: &str, rest: &str| {
        bench(
            None,
            &format!(
                "{{mode, max}}. {{driver, riakc_dt_pb}}. {length} {{concurrent, 1}}.
                 {{riakc_dt_pb_bucket, {{<<\"{bucket_type}\">>, <<\"test\">>}}}}.
                 {{key_generator, {{int_to_str, {{partitioned_sequential_int, 60}}}}}}.
                 {{value_generator, {{function, basho_bench_driver_riakc_pb, mapred_ordered_valgen, []}}}}.
                 {rest}"
            ),
        )
    };
    // The runs are long enough for each key to have its turn on a slow machine.
    let long = format!("{{riakc_dt_pb_port, {port}}}. {{duration, 5}}.");
    let run = |bucket_type: &str, rest: &str| run_for(&long, bucket_type, rest);
    run_for(
        &short,
        "sets",
        "{riakc_dt_preload_sets, true}. {riakc_dt_preload_sets_num, 3}.
         {riakc_dt_max_vals_for_preload, 5}.
         {operations, [{{set, insert}, 5}, {{set, read}, 1}, {{set, is_element}, 1}]}.",
    );
    for key in ["1set", "2set", "3set"] {
        let set = fetch(&client, "sets", key).await.unwrap();
        assert_eq!(set.as_set().unwrap().len(), 5, "{key} is full and takes no more");
    }
    run("sets", "{operations, [{{set, insert}, 1}]}.");
    assert_eq!(fetch(&client, "sets", "8").await.unwrap().as_set().unwrap().len(), 1);
    run("sets", "{operations, [{{set, modify}, 1}]}.");
    run("sets", "{operations, [{{set, remove}, 1}]}.");
    // The modification had added the same element, so that the set is empty.
    assert!(fetch(&client, "sets", "8").await.unwrap().as_set().unwrap().is_empty());
    let batches = "{riakc_dt_pb_sets_batchsize, 7}. {operations, [{{set, batch_insert}, 1}]}.";
    let results = run_for(&short, "sets", batches);
    let set = fetch(&client, "sets", "0").await.unwrap();
    assert_eq!(set.as_set().unwrap().len() as u64, 7 * results.count("set-batch-insert"));

    run("maps", "{operations, [{{map, register, insert}, 1}]}.");
    run(
        "maps",
        "{riakc_dt_map_multi_ops, [map_counter, map_register, map_flag, map_set, map_map]}.
         {operations, [{{map, multi_ops, modify}, 1}]}.",
    );
    run("maps", "{operations, [{{map, counter, insert}, 1}]}.");
    run("maps", "{operations, [{{map, set, remove}, 1}]}.");
    let map = fetch(&client, "maps", "8").await.unwrap();
    let map = map.as_map().unwrap();
    assert_eq!(map.counters[&b"counter"[..]], 2);
    assert!(map.flags[&b"flag"[..]]);
    assert!(!map.registers[&b"register"[..]].is_empty());
    assert_eq!(map.maps[&b"map"[..]].registers.len(), 1);
    assert!(map.sets.values().all(|set| set.is_empty()), "{map:?}");
}

/// Runs `quoit bench crdt-growth`; returns its standard output, its standard error, and true if it
/// succeeded.
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
