//! Whole runs of the driver of index queries against small servers of both interfaces.

use std::sync::Arc;

use quoit_client::wire::messages::{IndexQueryType, RpbIndexReq, RpbPutReq};

use crate::pb_server::{PbServer, Seen, ServerBehavior};
use crate::support::{HttpServer, Run, errors_of, response, run, try_run};

/// A node whose HTTP interface answers every query with `key_count` keys.
struct Node {
    pb: PbServer,
    http: HttpServer,
}

impl Node {
    fn start(key_count: usize) -> Self {
        let document = format!("{{\"keys\":[{}]}}", vec!["\"k\""; key_count].join(","));
        let answer = move |_: &_, _| response("200 OK", "", document.as_bytes());
        Self {
            pb: PbServer::start(|_| ServerBehavior::Answer),
            http: HttpServer::start(Arc::new(answer)),
        }
    }

    /// One worker. It puts the keys 0 to 39 first, and then begins again with 1 to 30.
    fn config(&self, operations: &str, rest: &str) -> String {
        let (pb, http) = (self.pb.address.port(), self.http.address.port());
        format!(
            "{{mode, max}}. {{driver, basho_bench_driver_2i}}. {{concurrent, 1}}.
             {{key_generator, {{sequential_int, 40}}}}. {{value_generator, {{fixed_bin, 10}}}}.
             {{pb_port, {pb}}}. {{http_port, {http}}}. {{operations, [{operations}]}}. {rest}"
        )
    }

    fn run(&self, operations: &str, rest: &str) -> Run {
        run(&self.config(operations, rest))
    }

    fn puts(&self) -> Vec<RpbPutReq> {
        self.pb.puts()
    }

    fn queries(&self) -> Vec<RpbIndexReq> {
        let query = |seen| match seen {
            Seen::Index(query) => Some(query),
            _ => None,
        };
        self.pb.seen().into_iter().filter_map(query).collect()
    }
}

#[test]
fn puts_have_as_many_indexes_as_they_say_each_equal_to_the_key() {
    let node = Node::start(0);
    let run = node.run("{{put_pb, 3}, 1}", "{riakc_pb_bucket, {<<\"t\">>, <<\"b\">>}}.");
    assert_eq!(errors_of(&run), "");
    assert_eq!(run.sum("put-pb-3_latencies.csv", 2), 40);
    let puts = node.puts();
    let last = puts.last().unwrap();
    assert_eq!((puts.len(), &last.key.as_ref().unwrap()[..]), (40, &b"39"[..]));
    assert_eq!((last.bucket_type.as_deref(), &last.bucket[..]), (Some(&b"t"[..]), &b"b"[..]));
    assert_eq!(last.content.value.len(), 10);
    let entries: Vec<(&[u8], &[u8])> = last
        .content
        .indexes
        .iter()
        .map(|entry| (&entry.key[..], &entry.value.as_ref().unwrap()[..]))
        .collect();
    let expected: [(&[u8], &[u8]); 3] =
        [(b"field1_int", b"39"), (b"field2_int", b"39"), (b"field3_int", b"39")];
    assert_eq!(entries, expected);
}

#[test]
fn a_query_of_one_is_an_equality_and_of_more_a_range() {
    let node = Node::start(0);
    node.run("{{put_pb, 1}, 1}", "");
    let run = node.run("{{query_pb, 1}, 1}, {get_pb, 1}", "");
    assert_eq!(errors_of(&run), "");
    let one = node.queries().remove(0);
    assert_eq!((one.qtype, &one.index[..]), (IndexQueryType::Eq as i32, &b"field1_int"[..]));
    assert_eq!(&one.bucket[..], b"mybucket");
    let count = node.queries().len();
    let run = node.run("{{query_pb, 5}, 1}", "{key_generator, {sequential_int, 36}}.");
    assert_eq!(errors_of(&run), "");
    assert_eq!(run.sum("query-pb-5_latencies.csv", 2), 36);
    let ranges = node.queries().split_off(count);
    let last = ranges.last().unwrap();
    assert_eq!(last.qtype, IndexQueryType::Range as i32);
    let ends = (&last.range_min.as_ref().unwrap()[..], &last.range_max.as_ref().unwrap()[..]);
    assert_eq!(ends, (&b"35"[..], &b"39"[..]));
}

#[test]
fn ranges_are_asked_for_over_http_too() {
    let node = Node::start(4);
    let run = node.run("{{query_http, 4}, 1}", "{riakc_pb_bucket, <<\"a b\">>}.");
    assert_eq!(errors_of(&run), "");
    let paths: Vec<String> = node.http.seen().into_iter().map(|seen| seen.path).collect();
    assert_eq!(paths.len(), 40);
    assert_eq!(paths[39], "/buckets/a%20b/index/field1_int/39/42");
    let typed = "{riakc_pb_bucket, {<<\"t\">>, <<\"b\">>}}.";
    node.run("{{query_http, 4}, 1}", typed);
    let path = node.http.seen().pop().unwrap().path;
    assert_eq!(path, "/types/t/buckets/b/index/field1_int/39/42");
}

#[test]
fn ranges_are_inputs_of_jobs_too() {
    let document = b"[[\"b\",\"1\"],[\"b\",\"2\"]]";
    let answer = move |_: &_, _| response("200 OK", "", document);
    let node = Node {
        pb: PbServer::start(|_| ServerBehavior::Answer),
        http: HttpServer::start(Arc::new(answer)),
    };
    for (operation, query_len) in [("query_mr", 1), ("query_mr2", 0)] {
        let run = node.run(&format!("{{{{{operation}, 2}}, 1}}"), "{enforce_keyrange, 100}.");
        assert_eq!(errors_of(&run), "");
        let seen = node.http.seen().pop().unwrap();
        assert_eq!(seen.path, "/mapred");
        let job: serde_json::Value = serde_json::from_slice(&seen.body).unwrap();
        assert_eq!(job["inputs"]["start"], "39");
        assert_eq!(
            (&job["inputs"]["end"], &job["inputs"]["bucket"]),
            (&"40".into(), &"mybucket".into())
        );
        assert_eq!(job["query"].as_array().unwrap().len(), query_len);
    }
}

#[test]
fn a_wrong_count_is_an_error_only_where_the_greatest_key_is_told() {
    let node = Node::start(3);
    let run = node.run("{{query_http, 4}, 1}", "");
    assert_eq!(errors_of(&run), "", "it is only printed");
    // Among the ranges that reach beyond 39, only the one that begins at 37 contains three stored keys.
    let run = node.run("{{query_http, 4}, 1}", "{enforce_keyrange, 39}.");
    let label = "{query_http,4},{query_http,4}";
    let error = |expected: u64, count: u64| {
        format!("\"{{{{{label}}},{{wrong_count,{expected},3}}}}\",\"{count}\"")
    };
    assert_eq!(errors_of(&run), [error(1, 1), error(2, 1), error(4, 37)].join("\n"));
    let run = node.run("{{query_pb, 4}, 1}", "{enforce_keyrange, 39}.");
    assert_eq!(errors_of(&run), "", "over Protocol Buffers it never is");
}

#[test]
fn answers_that_list_no_keys_and_lost_connections_are_errors() {
    let node = Node {
        pb: PbServer::start(|number| {
            if number == 2 { ServerBehavior::Close } else { ServerBehavior::Answer }
        }),
        http: HttpServer::start(Arc::new(|_, _| response("200 OK", "", b"{\"results\":[]}"))),
    };
    let run = node.run("{{query_http, 1}, 1}", "");
    assert!(
        errors_of(&run).contains("bad_response,\"\"missing field `keys`"),
        "{}",
        errors_of(&run)
    );
    let run = node.run("{get_pb, 1}", "");
    assert_eq!(errors_of(&run), "\"{{get_pb,get_pb},disconnected}\",\"1\"");
    assert_eq!(run.report.total.success_count(), 39, "the connection is made anew");
}

#[test]
fn settings_and_operations_that_cannot_be_are_refused() {
    let node = Node::start(0);
    for (setting, expected) in [
        ("{key_generator, {int_to_str, {uniform_int, 10}}}.", "takes integers"),
        ("{value_generator, {uniform_int, 10}}.", "stores bytes"),
        ("{enforce_keyrange, many}.", "write an integer"),
        ("{operations, [{{put_pb, 1001}, 1}]}.", "from 0 to 1000 indexes"),
        ("{operations, [{{query_pb, 0}, 1}]}.", "from 1 to 10000000"),
        ("{operations, [{{query_http, x}, 1}]}.", "from 1 to 10000000"),
        ("{operations, [{{query_mr, 0}, 1}]}.", "write N from 1 to"),
        ("{operations, [{something, 1}]}.", "it has get_pb"),
    ] {
        let error = try_run(&node.config("{get_pb, 1}", setting), |_| {}).err().expect(setting);
        assert!(error.to_string().contains(expected), "{setting}: {error}");
    }
}
