//! Whole runs of the Protocol Buffers driver against a small server.

use std::io::Read as _;
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use quoit_bench::cli::BenchOptions;
use quoit_bench::run::RunError;
use quoit_client::wire::messages::RpbMapRedResp;

use crate::pb_server::{PbServer, Reply, Seen, ServerBehavior, append};
use crate::support::{Run, errors_of, run, try_run};

fn config(server: &PbServer, operation: &str, rest: &str) -> String {
    let port = server.address.port();
    format!(
        "{{mode, max}}. {{driver, basho_bench_driver_riakc_pb}}. {{concurrent, 1}}.
         {{key_generator, {{int_to_bin_bigendian, {{sequential_int, 10}}}}}}.
         {{value_generator, {{fixed_bin, 1000}}}}. {{operations, [{{{operation}, 1}}]}}.
         {{riakc_pb_ips, [{{127,0,0,1}}]}}. {{riakc_pb_port, {port}}}. {rest}"
    )
}

fn run_operation(server: &PbServer, operation: &str) -> Run {
    run(&config(server, operation, ""))
}

fn counts(run: &Run) -> (u64, u64) {
    (run.report.total.success_count(), run.report.total.error_count())
}

#[test]
fn get_takes_a_missing_object_and_get_existing_does_not() {
    let server = PbServer::start(|_| ServerBehavior::Answer);
    assert_eq!(counts(&run_operation(&server, "get")), (10, 0));
    let Seen::Get(request) = &server.seen()[1] else { panic!("a get") };
    assert_eq!((&request.bucket[..], &request.key[..]), (&b"test"[..], &[0, 0, 0, 1][..]));
    assert_eq!((request.r, request.bucket_type.clone()), (Some(4_294_967_293), None));
    let run = run_operation(&server, "get_existing");
    assert_eq!(counts(&run), (0, 10));
    let errors = errors_of(&run);
    assert!(errors.contains("{not_found,<<0,0,0,9>>}"), "{errors}");
}

#[test]
fn put_sends_value_content_type_and_quorums() {
    let server = PbServer::start(|_| ServerBehavior::Answer);
    let rest = "{riakc_pb_bucket, {<<\"type\">>, <<\"bucket\">>}}. {riakc_pb_replies, 1}.
                {riakc_pb_dw, 0}. {riakc_pb_content_type, \"text/plain\"}.";
    assert_eq!(counts(&run(&config(&server, "put", rest))), (10, 0));
    let Seen::Put(request) = &server.seen()[0] else { panic!("a put") };
    assert_eq!(request.bucket_type, Some(Bytes::from_static(b"type")));
    assert_eq!(&request.bucket[..], b"bucket");
    assert_eq!((request.w, request.dw, request.vclock.clone()), (Some(1), Some(0), None));
    assert_eq!(request.content.value.len(), 1000);
    assert_eq!(request.content.content_type, Some(Bytes::from_static(b"text/plain")));
}

#[test]
fn update_sends_back_the_clock_and_keeps_the_metadata() {
    let server = PbServer::start(|_| ServerBehavior::Answer);
    assert_eq!(counts(&run_operation(&server, "update_existing")), (0, 10));
    assert_eq!(counts(&run_operation(&server, "update")), (10, 0));
    assert_eq!(counts(&run_operation(&server, "update")), (10, 0));
    let puts = server.puts();
    assert_eq!(puts.len(), 20);
    assert_eq!((&puts[0].vclock, &puts[0].content.charset), (&None, &None));
    assert_eq!(puts[10].vclock, Some(Bytes::from_static(b"clock-0")));
    assert_eq!(puts[10].content.charset, Some(Bytes::from_static(b"kept")));
    assert_ne!(puts[0].content.value, puts[10].content.value);
    assert_eq!(counts(&run_operation(&server, "update_existing")), (10, 0));
}

#[test]
fn an_update_with_indexes_replaces_them_and_keeps_the_rest() {
    let server = PbServer::start(|_| ServerBehavior::Answer);
    for _ in 0..2 {
        assert_eq!(counts(&run_operation(&server, "update_with2i")), (10, 0));
    }
    let Some(Seen::Put(put)) = server.seen().pop() else { panic!("a put is the last request") };
    assert_eq!(put.content.charset, Some(Bytes::from_static(b"kept")));
    let term_of = |field: &str| {
        let mut of_field = put.content.indexes.iter().filter(|entry| entry.key == field);
        let entry = of_field.next().unwrap();
        assert!(field == "postcode_bin" || of_field.next().is_none(), "one entry of {field}");
        String::from_utf8(entry.value.as_ref().unwrap().to_vec()).unwrap()
    };
    let birth = term_of("dateofbirth_bin");
    assert_eq!((&birth[4..5], &birth[7..8], &birth[10..11]), ("-", "-", "|"), "{birth}");
    assert!(term_of("postcode_bin").contains('|') && term_of("lastmodified_bin").contains('T'));
}

#[test]
fn a_listing_reads_all_parts_and_draws_no_key() {
    let server = PbServer::start(|_| ServerBehavior::Answer);
    run_operation(&server, "put");
    // Ten gets end the run. A listing that left parts unread would spoil the next get.
    let rest = "{operations, [{listkeys, 1}, {get_existing, 1}]}. {pb_timeout_listkeys, 5000}.";
    let run = run(&config(&server, "get", rest));
    assert_eq!(errors_of(&run), "");
    let listings = run.sum("listkeys_latencies.csv", 2);
    let seen = server.seen();
    let requests = seen.iter().filter_map(|seen| match seen {
        Seen::ListKeys(request) => Some(request),
        _ => None,
    });
    let timeouts: Vec<Option<u32>> = requests.map(|request| request.timeout).collect();
    assert_eq!(timeouts, vec![Some(5000); listings as usize]);
    assert!(listings > 0);
}

#[test]
fn nodes_of_erlang_are_reached_over_protocol_buffers() {
    let server = PbServer::start(|_| ServerBehavior::Answer);
    let rest = format!(
        "{{driver, riakclient}}. {{riakclient_nodes, ['riak@127.0.0.1']}}.
         {{riakclient_pb_port, {}}}. {{riakclient_bucket, <<\"old\">>}}.
         {{operations, [{{put, 1}}, {{get, 1}}, {{update, 1}}, {{delete, 1}}]}}.",
        server.address.port()
    );
    let run = run(&config(&server, "get", &rest));
    assert_eq!(counts(&run), (10, 0));
    assert!(run.shown.contains("riakclient speaks Protocol Buffers here"), "{}", run.shown);
    for seen in server.seen() {
        let (bucket, replies) = match seen {
            Seen::Get(get) => (get.bucket, get.r),
            Seen::Put(put) => (put.bucket, put.w),
            Seen::Delete(delete) => (delete.bucket, Some(2)),
            other => panic!("nothing lists keys, queries or learns: {other:?}"),
        };
        assert_eq!((&bucket[..], replies), (&b"old"[..], Some(2)));
    }
    for (setting, expected) in [
        ("{operations, [{get_existing, 1}]}.", "it has get, put, update, delete"),
        ("{riakclient_nodes, [nohost]}.", "['riak@127.0.0.1']"),
        ("{riakclient_nodes, []}.", "['riak@127.0.0.1']"),
    ] {
        let config = config(&server, "get", &format!("{rest} {setting}"));
        let error = try_run(&config, |_| {}).err().expect(setting).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn objects_have_the_indexes_of_the_configuration_which_are_asked_for_ranges() {
    let server = PbServer::start(|_| ServerBehavior::Answer);
    let rest = "{secondary_indexes, [{\"Age\", integer_index, 1, 90}]}.
                {operations, [{put, 1}, {update, 1}, {{get_index, \"age\", 5}, 1}]}.";
    let run = run(&config(&server, "put", rest));
    assert_eq!(errors_of(&run), "");
    let number = |bytes: &Option<Bytes>| {
        std::str::from_utf8(bytes.as_ref().unwrap()).unwrap().parse::<i64>().unwrap()
    };
    for put in server.puts() {
        let [entry] = &put.content.indexes[..] else { panic!("one entry: {put:?}") };
        assert_eq!(&entry.key[..], b"age_int");
        assert!((1..=90).contains(&number(&entry.value)));
    }
    let seen = server.seen();
    let queries = seen.iter().filter_map(|seen| match seen {
        Seen::Index(query) => Some(query),
        _ => None,
    });
    let mut query_count = 0;
    for query in queries {
        assert_eq!((&query.index[..], query.return_terms), (&b"age_int"[..], None));
        assert_eq!(number(&query.range_max) - number(&query.range_min), 4);
        query_count += 1;
    }
    assert_eq!(query_count, run.sum("get-index-age-5_latencies.csv", 2));
    assert!(query_count > 0);
}

/// A server that answers each job with one number, in two parts.
fn job_server(result: i64) -> PbServer {
    PbServer::answering(move |seen, _| {
        let Seen::MapRed(_) = seen else { panic!("{seen:?} is no job") };
        let response = Some(Bytes::from(format!("[{result}]")));
        let mut answer = Vec::new();
        append(&mut answer, &RpbMapRedResp { phase: Some(1), response, done: None });
        append(&mut answer, &RpbMapRedResp { done: Some(true), ..RpbMapRedResp::default() });
        Reply::Bytes(answer)
    })
}

fn job_of(server: &PbServer) -> serde_json::Value {
    let Some(Seen::MapRed(job)) = server.seen().pop() else { panic!("a job") };
    assert_eq!(&job.content_type[..], b"application/json");
    serde_json::from_slice(&job.request).unwrap()
}

/// The run ends after ten keys, of which a job takes two and a get one.
const JOBS: &str =
    "{key_generator, {int_to_str, {sequential_int, 10}}}. {riakc_pb_keylist_length, 2}.";

#[test]
fn a_job_over_generated_keys_is_held_against_their_number_or_sum() {
    let server = job_server(2);
    let run_job = |operation: &str| run(&config(&server, operation, JOBS));
    assert_eq!(counts(&run_job("mr_keylist_erlang")), (5, 0));
    let job = job_of(&server);
    assert_eq!(job["inputs"], serde_json::json!([["test", "8"], ["test", "9"]]));
    assert_eq!(job["query"][0]["map"]["function"], "map_object_value");
    assert_eq!(job["query"][1]["reduce"]["function"], "reduce_count_inputs");
    assert_eq!(job["query"][1]["reduce"]["keep"], true);
    // None of the sums 1, 5, 9, 13 and 17 is 2.
    let run = run_job("mr_keylist_js");
    assert_eq!(counts(&run), (0, 5));
    let errors = errors_of(&run);
    assert!(errors.contains("{{mr_keylist_js,mr_keylist_js},{[{1,[17]}],[{1,[2]}]}}"), "{errors}");
    assert_eq!(job_of(&server)["query"][0]["map"]["name"], "Riak.mapValuesJson");
}

#[test]
fn a_job_over_the_bucket_is_held_against_the_number_of_its_objects_if_that_is_known() {
    for (operation, rest, is_right) in [
        ("mr_bucket_erlang", "", true),
        ("mr_bucket_erlang", "{riakc_pb_preloaded_keys, 10}.", false),
        ("mr_bucket_erlang", "{riakc_pb_preloaded_keys, 45}.", true),
        ("mr_bucket_js", "{riakc_pb_preloaded_keys, 45}.", false),
        ("mr_bucket_js", "{riakc_pb_preloaded_keys, 10}.", true),
    ] {
        let server = job_server(45);
        let bucket = "{riakc_pb_bucket, {<<\"t\">>, <<\"b\">>}}. {shutdown_on_error, true}.";
        let config = config(&server, operation, &format!("{JOBS} {bucket} {rest}"));
        let change = |options: &mut BenchOptions| options.duration = Some("100ms".to_owned());
        let run = try_run(&config, change).unwrap();
        assert_eq!(run.report.total.error_count() == 0, is_right, "{operation} {rest}");
        assert_eq!(job_of(&server)["inputs"], serde_json::json!(["t", "b"]));
    }
}

#[test]
fn delete_sends_no_clock() {
    let server = PbServer::start(|_| ServerBehavior::Answer);
    assert_eq!(counts(&run_operation(&server, "delete")), (10, 0));
    let Seen::Delete(request) = &server.seen()[0] else { panic!("a delete") };
    assert_eq!((request.vclock.clone(), request.rw), (None, Some(4_294_967_293)));
}

#[test]
fn an_error_of_the_server_is_counted_with_its_text() {
    let server = PbServer::start(|_| ServerBehavior::Refuse);
    let errors = errors_of(&run_operation(&server, "put"));
    assert_eq!(errors, "\"{{put,put},<<\"\"overload\"\">>}\",\"10\"");
}

#[test]
fn puts_that_are_refused_as_an_overload_are_made_again_if_so_told() {
    let refused_twice =
        |number| if number < 2 { ServerBehavior::Refuse } else { ServerBehavior::Answer };
    let server = PbServer::start(refused_twice);
    let run =
        try_run(&config(&server, "put", "{riakc_pb_repeat_overload, true}."), |_| {}).unwrap();
    assert_eq!(run.report.total.error_count(), 0);
    let puts = server.puts();
    assert_eq!(puts[0], puts[1]);
    assert_eq!(puts[1], puts[2]);

    // The put is not repeated for ever.
    let server = PbServer::start(|_| ServerBehavior::Refuse);
    let rest = "{riakc_pb_repeat_overload, true}. {pb_timeout_write, 35}.";
    let run = try_run(&config(&server, "put", rest), |_| {}).unwrap();
    assert_eq!(counts(&run), (0, 10));
    assert!(server.puts().len() > 10, "none was made again");
}

#[test]
fn a_timeout_is_an_error_and_the_worker_goes_on_with_a_new_connection() {
    let server =
        PbServer::start(
            |number| if number == 0 { ServerBehavior::Hang } else { ServerBehavior::Answer },
        );
    let run = run(&config(&server, "get", "{pb_timeout_read, 100}."));
    assert_eq!(counts(&run), (9, 1));
    assert_eq!(errors_of(&run), "\"{{get,get},timeout}\",\"1\"");
    assert_eq!(server.seen().len(), 10);
}

#[test]
fn a_lost_connection_starts_the_operation_over_with_a_new_key() {
    let server =
        PbServer::start(
            |number| if number == 3 { ServerBehavior::Close } else { ServerBehavior::Answer },
        );
    let run = run_operation(&server, "get");
    assert_eq!(counts(&run), (9, 0));
    let keys: Vec<u8> = server
        .seen()
        .iter()
        .map(|seen| match seen {
            Seen::Get(get) => get.key[3],
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(keys, (0..10).collect::<Vec<_>>());
}

#[test]
fn each_worker_keeps_one_target() {
    let servers =
        [PbServer::start(|_| ServerBehavior::Answer), PbServer::start(|_| ServerBehavior::Answer)];
    let ports = servers.each_ref().map(|server| server.address.port());
    let rest = format!(
        "{{concurrent, 3}}. {{riakc_pb_ips, [{{\"127.0.0.1\", {}}}, {{\"127.0.0.1\", {}}}]}}.",
        ports[0], ports[1]
    );
    run(&config(&servers[0], "get", &rest));
    // The list is reversed: worker 2 has index 0, which is the last element; workers 1 and 3 have the
    // first. Each worker also asks its target for the layout once, which these servers do not know.
    assert_eq!(servers.map(|server| server.seen().len()), [22, 11]);
}

#[test]
fn settings_that_the_driver_cannot_have_are_refused() {
    for (setting, expected) in [
        ("{key_generator, {uniform_int, 5}}.", "wrap the generator"),
        ("{riakc_pb_replies, most}.", "one, quorum, all or default"),
        ("{riakc_pb_bucket, 5}.", "<<\"bucket\">>"),
        ("{pb_connect_options, [{credentials, \"u\", \"p\"}]}.", "QUOIT_PASSWORD_FILE"),
        ("{pb_timeout_general, soon}.", "write an integer from 1"),
        ("{operations, [{something, 1}]}.", "get, get_existing, put, update"),
        ("{operations, [{search, 1}]}.", "Quoit has no search"),
        ("{operations, [{{mr_multiget, 5}, 1}]}.", "use mr_keylist_erlang"),
        ("{operations, [{{get_index, \"a\", 5}, 1}]}.", "an index of secondary_indexes"),
        ("{operations, [{{get_term_index, \"a\", 5}, 1}]}.", "no release of basho_bench has it"),
        ("{secondary_indexes, [{\"a\", integer_index, 2, 1}]}.", "First < Last"),
        ("{riakc_pb_keylist_length, 0}.", "write an integer from 1"),
        ("{operations, [{counter_incr, 1}]}.", "write for instance {uniform_int, 10}"),
        ("{operations, [{counter_incr, 1}, {put, 1}]}.", "a run of each kind"),
        ("{operations, [{{team, read}, 1}]}.", "write for instance {uniform_int, 1000}"),
        ("{operations, [{{team, read}, 1}, {get, 1}]}.", "a run of each kind"),
        ("{operations, [{{team, player}, 1}]}.", "{team, player, addition}"),
        ("{operations, [{{counter, value}, 1}]}. {verify, true}.", "are not verified"),
    ] {
        let keys = "{key_generator, {int_to_str, {uniform_int, 5}}}.";
        let config = format!("{{driver, riakc_pb}}. {keys} {setting}");
        let error = try_run(&config, |_| {}).err().expect(setting).to_string();
        assert!(error.contains(expected), "{setting}: {error}");
    }
}

/// Starts a server that closes each connection at its first bytes. Returns its port and the number of
/// connections so far.
fn dropping_server() -> (u16, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let connection_count = Arc::new(AtomicUsize::new(0));
    let counted = connection_count.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            counted.fetch_add(1, Ordering::SeqCst);
            let mut stream = stream.unwrap();
            std::thread::spawn(move || stream.read(&mut [0; 4096]));
        }
    });
    (port, connection_count)
}

#[test]
fn an_operation_fails_when_the_server_drops_every_connection() {
    for (driver, operation) in [("riakc_pb", "get"), ("riakc_dt_pb", "{set, read}")] {
        let (port, connection_count) = dropping_server();
        let config = format!(
            "{{mode, max}}. {{concurrent, 1}}. {{driver, {driver}}}. {{{driver}_port, {port}}}.
             {{key_generator, {{int_to_str, {{uniform_int, 5}}}}}}. {{shutdown_on_error, true}}.
             {{operations, [{{{operation}, 1}}]}}. {{pb_timeout_general, 100}}."
        );
        let change = |options: &mut BenchOptions| options.duration = Some("10s".to_owned());
        let run = try_run(&config, change).expect(driver);
        assert!(errors_of(&run).contains("disconnected"), "{driver}: {}", errors_of(&run));
        let connection_count = connection_count.load(Ordering::SeqCst);
        assert!(connection_count < 200, "{driver}: {connection_count} connections");
    }
}

#[test]
fn a_server_that_is_not_there_fails_the_start() {
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let keys = "{key_generator, {int_to_str, {uniform_int, 5}}}.";
    let config = format!("{{driver, riakc_pb}}. {keys} {{riakc_pb_port, {}}}.", closed.port());
    match try_run(&config, |_| {}) {
        Err(error @ RunError::Start { .. }) => {
            assert!(error.to_string().contains(&closed.to_string()), "{error}");
        }
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("nothing is there"),
    }
}
