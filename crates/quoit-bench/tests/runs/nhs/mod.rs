//! Whole runs of the mixed workload against small servers of both interfaces.

mod background;

use std::collections::HashSet;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use quoit_bench::cli::BenchOptions;
use quoit_client::wire::messages::{RpbGetReq, RpbPutReq};

use crate::pb_server::{PbServer, Seen, ServerBehavior};
use crate::support::{HttpServer, Run, errors_of, response, run, try_check, try_run};

/// A cluster with both interfaces.
struct Cluster {
    pb: PbServer,
    http: HttpServer,
}

impl Cluster {
    fn start() -> Self {
        Self::with(PbServer::start(|_| ServerBehavior::Answer))
    }

    fn with(pb: PbServer) -> Self {
        Self { pb, http: HttpServer::store() }
    }

    /// Settings with the addresses of the servers. The second cluster is the same one.
    fn addresses(&self) -> String {
        let (pb, http) = (self.pb.address.port(), self.http.address.port());
        format!(
            "{{pb_ips, [{{\"127.0.0.1\", {pb}}}]}}. {{replpb_ips, [{{\"127.0.0.1\", {pb}}}]}}.
             {{http_ips, [{{{{127,0,0,1}}, {http}}}]}}."
        )
    }

    /// One worker. It ends when `get_pb` or `update_with2i` has drawn 40 keys.
    fn config(&self, operations: &str, rest: &str) -> String {
        let addresses = self.addresses();
        format!(
            "{{mode, max}}. {{driver, basho_bench_driver_nhs}}. {{concurrent, 1}}.
             {{key_generator, {{sequential_int, 40}}}}. {{value_generator, {{fixed_bin, 100}}}}.
             {{node_name, testnode1}}. {addresses} {{operations, [{operations}]}}. {rest}"
        )
    }

    fn run(&self, operations: &str, rest: &str) -> Run {
        run(&self.config(operations, rest))
    }

    fn puts(&self) -> Vec<RpbPutReq> {
        self.pb.puts()
    }

    fn gets(&self) -> Vec<RpbGetReq> {
        let get = |seen| match seen {
            Seen::Get(get) => Some(get),
            _ => None,
        };
        self.pb.seen().into_iter().filter_map(get).collect()
    }
}

fn text(bytes: &Bytes) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

fn number_of(key: &Bytes) -> u64 {
    text(key)[..9].parse().unwrap()
}

fn fields(put: &RpbPutReq) -> HashSet<&str> {
    put.content.indexes.iter().map(|entry| text(&entry.key)).collect()
}

/// Runs a configuration of the directory `configs` for one second, with changes.
fn run_shipped(name: &str, changes: &str) -> Run {
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("configs").join(name);
    let change = |options: &mut BenchOptions| {
        options.config_paths.insert(0, shipped);
        options.duration = Some("1s".to_owned());
    };
    try_run(changes, change).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn the_published_configuration_runs_and_leaves_its_files() {
    let cluster = Cluster::start();
    let run = run_shipped("nhs.config", &cluster.addresses());
    assert_eq!(errors_of(&run), "");
    for label in ["alwaysget-updatewithout2i", "put-unique", "put-unique-checkrepl", "get-unique"] {
        assert!(run.sum(&format!("{label}_latencies.csv"), 2) > 0, "{label}");
    }
    let gets = run.sum("alwaysget-pb_latencies.csv", 2);
    assert_eq!(gets, 0, "no worker has 400 000 records after a second");
    let workers: HashSet<String> =
        cluster.puts().iter().map(|put| text(put.key.as_ref().unwrap())[9..].to_owned()).collect();
    assert_eq!(workers.len(), 100, "each worker has keys of its own");
    let mut setups: Vec<(String, String)> = cluster
        .http
        .seen()
        .into_iter()
        .map(|seen| (seen.path, String::from_utf8(seen.body).unwrap()))
        .collect();
    assert_eq!(setups.len(), 4, "one worker sets the properties");
    let (path, props) = setups.remove(3);
    assert_eq!(path, "/buckets/domainDocument/props");
    assert_eq!(props, "{\"props\":{\"sync_on_write\":\"backend\"}}");
    assert_eq!(setups[0].1, "{\"props\":{\"node_confirms\":2}}");
}

#[test]
fn a_small_one_comes_to_read_its_records() {
    let cluster = Cluster::start();
    let changes = "{concurrent, 4}. {alwaysget, {80, 20, key_order}}.
                   {value_generator, {fixed_bin, 100}}.";
    let run = run_shipped("nhs-small.config", &format!("{changes} {}", cluster.addresses()));
    assert_eq!(errors_of(&run), "", "what is read is always there");
    assert!(run.sum("alwaysget-pb_latencies.csv", 2) > 0);
}

#[test]
fn records_are_added_until_there_are_enough_and_updated_with_their_clock() {
    let cluster = Cluster::start();
    let rest = "{alwaysget, {20, 0, key_order}}. {record_bucket, \"records\"}.";
    let run = cluster.run("{alwaysget_updatewithout2i, 30}, {get_pb, 1}", rest);
    assert_eq!(errors_of(&run), "");
    let puts = cluster.puts();
    let (updates, added): (Vec<_>, Vec<_>) = puts.iter().partition(|put| put.vclock.is_some());
    let numbers: Vec<u64> = added.iter().map(|put| number_of(put.key.as_ref().unwrap())).collect();
    assert_eq!(numbers, (1..=20).collect::<Vec<_>>());
    assert!(updates.len() > 100, "{}", updates.len());
    assert!(
        puts.iter().all(|put| text(&put.bucket) == "records" && put.content.value.len() == 100)
    );
    assert!(puts.iter().all(|put| put.content.indexes.is_empty()));
    assert!(puts.iter().all(|put| (put.w, put.dw, put.pw) == (None, None, None)));
    assert!(updates.iter().all(|put| put.content.charset.is_some()), "metadata is kept");
    let keys: Vec<String> = cluster.gets().iter().map(|get| text(&get.key).to_owned()).collect();
    assert!(keys.contains(&"39".to_owned()), "integers are decimal keys of get_pb");
}

#[test]
fn updates_with_indexes_replace_them() {
    let cluster = Cluster::start();
    let operations = "{alwaysget_updatewith2i, 3}, {update_with2i, 1}";
    let run = cluster.run(operations, "{alwaysget, {20, 0, key_order}}. {postcode_indexcount, 1}.");
    assert_eq!(errors_of(&run), "");
    let all = HashSet::from(["postcode_bin", "dateofbirth_bin", "lastmodified_bin"]);
    let puts = cluster.puts();
    assert!(puts.len() > 40);
    for put in puts {
        assert_eq!((fields(&put), put.content.indexes.len()), (all.clone(), 3));
    }
}

#[test]
fn documents_are_written_read_and_deleted_in_order() {
    let cluster = Cluster::start();
    let operations = "{put_unique, 4}, {get_unique, 4}, {delete_unique, 2}, {get_pb, 1}";
    let run = cluster.run(operations, "{unique, {500, key_order}}.");
    assert_eq!(errors_of(&run), "");
    let (mut written, mut deleted) = (0, 0);
    for seen in cluster.pb.seen() {
        match seen {
            Seen::Put(put) => {
                written += 1;
                assert_eq!(number_of(put.key.as_ref().unwrap()), written);
                assert_eq!((text(&put.bucket), put.content.value.len()), ("domainDocument", 500));
                assert_eq!(fields(&put), HashSet::from(["lastmodified_bin"]));
            }
            Seen::Get(get) if text(&get.bucket) == "domainDocument" => {
                let number = number_of(&get.key);
                assert!(deleted < number && number <= written + 2, "{deleted} {number} {written}");
            }
            Seen::Get(get) => assert_eq!(text(&get.bucket), "domainRecord"),
            Seen::Delete(delete) => {
                deleted += 1;
                assert_eq!(number_of(&delete.key), deleted);
                assert!(deleted <= written);
            }
            other => panic!("nothing lists keys, queries or learns: {other:?}"),
        }
    }
    assert!(written > 40 && deleted > 10, "{written} {deleted}");
}

#[test]
fn a_document_is_awaited_in_the_second_cluster_but_not_for_ever() {
    let cluster = Cluster::start();
    let operations = "{put_unique_checkrepl, 1}, {get_pb, 1}";
    let run = cluster.run(operations, "");
    let (put_count, errors) = (cluster.puts().len(), errors_of(&run));
    assert_eq!(errors, "");
    assert_eq!(cluster.gets().len(), 40 + put_count, "one get finds each document");

    let (cluster, empty) = (Cluster::start(), PbServer::start(|_| ServerBehavior::Answer));
    let rest = format!(
        "{{replpb_ips, [{{\"127.0.0.1\", {}}}]}}. {{fold_timeout_general, 100}}.
         {{key_generator, {{sequential_int, 4}}}}.",
        empty.address.port()
    );
    let run = cluster.run(operations, &rest);
    let put_count = cluster.puts().len();
    let expected = format!(
        "\"{{{{put_unique_checkrepl,put_unique_checkrepl}},repl_timeout}}\",\"{put_count}\""
    );
    assert_eq!(errors_of(&run), expected);
    assert!(empty.seen().len() > 10 * put_count, "it asks again and again");
}

#[test]
fn reads_that_may_force_an_exchange_are_mostly_plain_ones() {
    let cluster = Cluster::start();
    let run = cluster.run("{force_aae, 1}", "");
    assert_eq!(errors_of(&run), "");
    assert_eq!(cluster.gets().len(), 40);
    assert!(!cluster.http.seen().iter().any(|seen| seen.path.contains("force_aae")));
}

#[test]
fn without_a_second_cluster_the_check_is_left_out_with_a_notice() {
    let cluster = Cluster::start();
    let rest = format!("{{replpb_ips, [{{\"127.0.0.1\", {}}}]}}.", closed_port().port());
    let run = cluster.run("{put_unique_checkrepl, 1}, {get_pb, 1}", &rest);
    assert_eq!(errors_of(&run), "");
    assert!(run.shown.contains("notice: no second cluster"), "{}", run.shown);
}

#[test]
fn properties_that_are_not_taken_are_told() {
    let cluster = Cluster::start();
    let rest = format!("{{http_ips, [{{\"127.0.0.1\", {}}}]}}.", closed_port().port());
    let run = cluster.run("{get_pb, 1}", &rest);
    assert!(run.shown.contains("does not answer (max_retries)"), "{}", run.shown);
    let http = HttpServer::start(Arc::new(|_, _| response("400 Bad Request", "", b"")));
    let rest = format!("{{http_ips, [{{\"127.0.0.1\", {}}}]}}.", http.address.port());
    let run = cluster.run("{get_pb, 1}", &rest);
    assert_eq!(run.shown.matches("status 400").count(), 4, "{}", run.shown);
    assert_eq!(run.report.total.success_count(), 40, "the run goes on");
}

#[test]
fn records_are_read_over_http_too() {
    let cluster = Cluster::start();
    let rest = "{alwaysget, {20, 5, key_order}}.";
    let operations = "{alwaysget_updatewithout2i, 2}, {alwaysget_http, 2}, {get_pb, 1}";
    let run = cluster.run(operations, rest);
    let gets = run.sum("alwaysget-http_latencies.csv", 10);
    assert!(gets > 0);
    let expected =
        format!("\"{{{{alwaysget_http,alwaysget_http}},{{http_error,\"\"404\"\"}}}}\",\"{gets}\"");
    assert_eq!(errors_of(&run), expected, "this HTTP server has none of the records");
    let seen = cluster.http.seen();
    let get = seen.iter().find(|seen| seen.method == "GET").unwrap();
    assert!(get.path.starts_with("/buckets/domainRecord/keys/0000000"), "{}", get.path);
}

#[test]
fn a_lost_connection_is_an_error_of_its_operation_and_made_anew() {
    let pb =
        PbServer::start(
            |number| if number == 5 { ServerBehavior::Close } else { ServerBehavior::Answer },
        );
    let run = Cluster::with(pb).run("{get_pb, 1}", "");
    assert_eq!(errors_of(&run), "\"{{get_pb,get_pb},disconnected}\",\"1\"");
    assert_eq!(run.report.total.success_count(), 39);
}

#[test]
fn settings_and_operations_that_cannot_be_are_refused() {
    let cluster = Cluster::start();
    for (setting, expected) in [
        ("{alwaysget, {0, 0, key_order}}.", "MaxRecordsOfAWorker"),
        ("{unique, {10, any_order}}.", "key_order or skew_order"),
        ("{record_sync, sometimes}.", "one, all or backend"),
        ("{node_name, 5}.", "an atom or a string"),
        ("{value_generator, {uniform_int, 10}}.", "stores bytes"),
        ("{operations, [{put_unique_http, 1}]}.", "use put_unique, which speaks PB"),
        ("{operations, [{something, 1}]}.", "it has alwaysget_pb"),
    ] {
        let error = try_run(&cluster.config("{get_pb, 1}", setting), |_| {}).err().expect(setting);
        assert!(error.to_string().contains(expected), "{setting}: {error}");
    }
}

/// A port without a listener.
fn closed_port() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

#[test]
fn both_clusters_at_one_address_are_told_to_measure_no_replication() {
    let cluster = Cluster::start();
    let told = "is both in pb_ips and in replpb_ips: put_unique_checkrepl measures no replication";
    let mix = "{put_unique_checkrepl, 1}, {get_pb, 5}";
    let run = cluster.run(mix, "");
    assert!(run.shown.contains(told), "{}", run.shown);
    assert!(run.file("console.log").contains(told));
    let plan = try_check(&cluster.config(mix, "")).expect("a plan");
    assert!(plan.contains(told), "{plan}");
    // No warning if no operation measures replication, or the address is another one.
    let plan = try_check(&cluster.config("{get_pb, 1}", "")).expect("a plan");
    assert!(!plan.contains(told), "{plan}");
    let other = "{replpb_ips, [{\"127.0.0.1\", 1}]}.";
    let plan = try_check(&cluster.config(mix, other)).expect("a plan");
    assert!(!plan.contains(told), "{plan}");
}

/// The servers of all three lists come from the command line; those of the configuration do not answer.
#[test]
fn the_command_line_has_a_server_for_each_list() {
    let (cluster, second) = (Cluster::start(), PbServer::start(|_| ServerBehavior::Answer));
    let config =
        "{mode, max}. {driver, nhs}. {concurrent, 1}. {key_generator, {sequential_int, 40}}.
        {value_generator, {fixed_bin, 100}}. {pb_ips, [{\"127.0.0.1\", 1}]}.
        {http_ips, [{\"127.0.0.1\", 1}]}. {replpb_ips, [{\"127.0.0.1\", 1}]}.
        {fold_timeout_general, 50}.
        {operations, [{put_unique_checkrepl, 1}, {get_pb, 5}, {postcodequery_http, 5}]}.";
    let (pb, http, repl) = (cluster.pb.address, cluster.http.address, second.address);
    let run = try_run(config, |options| {
        options.targets = vec![pb.to_string(), format!("http={http}"), format!("replpb={repl}")];
    })
    .expect("a run");
    assert!(!cluster.puts().is_empty() && !cluster.http.seen().is_empty());
    let is_asked = second.seen().iter().any(|seen| matches!(seen, Seen::Get(_)));
    assert!(is_asked, "{}", run.shown);
}
