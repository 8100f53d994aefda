//! MapReduce jobs over both protocols, and checks of values before they are stored.

use crate::binary::Binary;
use crate::fixture::Node;
use bytes::{Bytes, BytesMut};
use quoit_model::etf::{Limits, Term};
use quoit_server::{MapReduceSettings, ScriptLimits, ServerSettings};
use quoit_wire::frame::append_message;
use quoit_wire::messages::{
    RpbBucketProps, RpbCommitHook, RpbMapRedReq, RpbMapRedResp, RpbModFun, RpbSetBucketReq,
    RpbSetBucketResp, RpbSetBucketTypeReq,
};
use serde_json::{Value, json};
use std::time::Duration;

fn erlang(function: &str) -> Value {
    json!({"language": "erlang", "module": "riak_kv_mapreduce", "function": function})
}

fn script(source: &str) -> Value {
    json!({"language": "javascript", "source": source})
}

fn job(inputs: Value, query: Value) -> String {
    json!({"inputs": inputs, "query": query}).to_string()
}

fn with(mapreduce: MapReduceSettings) -> Node {
    Node::with(ServerSettings { mapreduce, ..ServerSettings::default() })
}

fn with_scripts() -> Node {
    let limits =
        ScriptLimits { call_time_max: Duration::from_millis(300), ..ScriptLimits::default() };
    with(MapReduceSettings { javascript: Some(limits), ..MapReduceSettings::default() })
}

fn run(node: &Node, inputs: Value, query: Value) -> (u16, Value) {
    let answer = node.send_json("POST", "/mapred", &job(inputs, query));
    (answer.status, answer.json())
}

#[test]
fn a_job_follows_links_and_fetches_values() {
    let node = Node::start();
    let headers =
        [("Content-Type", "text/plain"), ("Link", "</buckets/b/keys/c>; riaktag=\"friend\"")];
    node.connect().request("PUT", "/buckets/b/keys/a", &headers, b"A");
    node.put("/buckets/b/keys/c", "C");
    let (from, values) = (json!([["b", "a"]]), json!({"map": erlang("map_object_value")}));
    let links = run(&node, from.clone(), json!([{"link": {"tag": "friend"}}]));
    assert_eq!(links, (200, json!([["b", "c", "friend"]])));
    let followed = run(&node, from.clone(), json!([{"link": {}}, values]));
    assert_eq!(followed, (200, json!(["C"])));
    let both = run(&node, from.clone(), json!([{"link": {"keep": true}}, values]));
    assert_eq!(both, (200, json!([[["b", "c", "friend"]], ["C"]])));
    assert_eq!(run(&node, from.clone(), json!([])), (200, json!([["b", "a"]])));
    let (status, missing) = run(&node, json!([["b", "none"]]), json!([values]));
    assert_eq!(
        (status, &missing["phase"], &missing["error"]),
        (500, &json!(0), &json!("notfound"))
    );
    assert_eq!(missing["input"], "{<<\"b\">>,<<\"none\">>}");
    let text = job(from, json!([]));
    assert_eq!(node.connect().request("POST", "/mapred", &[], text.as_bytes()).status, 415);
    assert!(node.get("/mapred").text().starts_with("This resource accepts POSTs"));
}

#[test]
fn a_bucket_an_index_and_a_filter_give_inputs() {
    let node = Node::start();
    for number in 0..30 {
        let index = number.to_string();
        let headers = [("Content-Type", "text/plain"), ("X-Riak-Index-n_int", index.as_str())];
        let path = format!("/buckets/b/keys/key-{number}");
        node.connect().request("PUT", &path, &headers, index.as_bytes());
    }
    let numbers = json!([{"map": erlang("map_object_value")},
        {"reduce": erlang("reduce_string_to_integer")}, {"reduce": erlang("reduce_sum")}]);
    assert_eq!(run(&node, json!("b"), numbers.clone()), (200, json!([435])));
    let range = json!({"bucket": "b", "index": "n_int", "start": 3, "end": 5});
    assert_eq!(run(&node, range, numbers.clone()), (200, json!([12])));
    let filter = json!([["tokenize", "-", 2], ["string_to_int"], ["greater_than", 27]]);
    let filtered = json!({"bucket": "b", "key_filters": filter});
    assert_eq!(run(&node, filtered, numbers.clone()), (200, json!([57])));
    let prefix = json!({"module": "quoit", "function": "keys_with_prefix",
        "arg": {"bucket": "b", "prefix": "key-2"}});
    let count = json!([{"reduce": erlang("reduce_count_inputs")}]);
    assert_eq!(run(&node, prefix, count.clone()), (200, json!([11])));
    let (status, fault) =
        run(&node, json!({"bucket": "b", "key_filters": [["resembles", "x"]]}), count.clone());
    assert_eq!((status, fault), (500, json!({"error": "{bad_filter,<<\"resembles\">>}"})));
    let (status, fault) =
        run(&node, json!({"bucket": "b", "key_filters": [["string_to_int"], ["eq", 1]]}), count);
    assert_eq!(status, 500);
    assert!(fault["error"].as_str().is_some_and(|text| text.contains("string_to_int")), "{fault}");
}

#[test]
fn results_stream_as_parts_and_a_failure_is_the_last_thing_said() {
    let node = Node::start();
    node.put("/buckets/b/keys/a", "A");
    let query = json!([{"map": {"language": "erlang", "module": "riak_kv_mapreduce",
        "function": "map_object_value", "keep": true}}, {"reduce": erlang("reduce_count_inputs")}]);
    let chunked =
        |inputs: Value| node.send_json("POST", "/mapred?chunked=true", &job(inputs, query.clone()));
    let answer = chunked(json!("b"));
    let media_type = answer.header("content-type").expect("a type").to_owned();
    let boundary = media_type.strip_prefix("multipart/mixed;boundary=").expect("a boundary");
    let part = |document: &str| {
        format!("\r\n--{boundary}\r\nContent-Type: application/json\r\n\r\n{document}")
    };
    let first = part("{\"phase\":0,\"data\":[\"A\"]}");
    let expected = format!("{first}{}\r\n--{boundary}--\r\n", part("{\"phase\":1,\"data\":[1]}"));
    assert_eq!(answer.text(), expected);
    let failed = chunked(json!([["b", "none"]]));
    assert_eq!(failed.status, 200);
    let document: Value = serde_json::from_str(failed.text()).expect("a bare document");
    assert_eq!(document["error"], "notfound");
}

#[test]
fn values_that_are_no_text_need_terms() {
    let node = Node::start();
    node.connect().request("PUT", "/buckets/b/keys/a", &[("Content-Type", "x/y")], b"\xff");
    let (status, fault) = run(&node, json!("b"), json!([{"map": erlang("map_object_value")}]));
    assert_eq!(status, 500);
    assert!(
        fault["error"].as_str().is_some_and(|text| text.contains("x-erlang-binary")),
        "{fault}"
    );
    let atom = |name: &'static str| Term::Atom(Bytes::from_static(name.as_bytes()));
    let function =
        Term::Tuple(vec![atom("modfun"), atom("riak_kv_mapreduce"), atom("map_object_value")]);
    let map = Term::Tuple(vec![atom("map"), function, atom("none"), atom("true")]);
    let inputs = Term::Tuple(vec![atom("inputs"), Term::Binary("b".into())]);
    let query = Term::Tuple(vec![atom("query"), Term::List(vec![map])]);
    let mut request = Vec::new();
    Term::List(vec![inputs, query]).encode_into(&mut request);
    let content_type = Bytes::from_static(b"application/x-erlang-binary");
    let mut binary = Binary::connect(&node);
    let answer: RpbMapRedResp = binary.ask(&RpbMapRedReq { request: request.into(), content_type });
    let list = Term::decode(&answer.response.expect("results"), &Limits::STORED).expect("a term");
    assert_eq!(list, Term::List(vec![Term::Binary(Bytes::from_static(b"\xff"))]));
    let last: RpbMapRedResp = binary.frame().decode().expect("the end");
    assert_eq!((last.phase, last.response, last.done), (None, None, Some(true)));
}

#[test]
fn jobs_that_are_none_are_refused_in_the_words_of_each_protocol() {
    let node = Node::start();
    let mut binary = Binary::connect(&node);
    let mut refusal = |request: &str, content_type: &str| {
        let request = Bytes::copy_from_slice(request.as_bytes());
        let content_type = Bytes::copy_from_slice(content_type.as_bytes());
        binary.refusal(&RpbMapRedReq { request, content_type })
    };
    assert_eq!(refusal("{}", "application/json"), "missing_field");
    assert_eq!(refusal("[]", "application/json"), "not_json");
    assert!(refusal("nonsense", "application/json").starts_with("{invalid_json,"));
    assert_eq!(refusal("{}", "text/plain"), "{unknown_content_type,<<\"text/plain\">>}");
    let source = job(json!("b"), json!([{"map": {"language": "erlang", "source": "f"}}]));
    assert!(refusal(&source, "application/json").contains("Erlang"));
    let answer = node.send_json("POST", "/mapred", &source);
    assert_eq!((answer.status, &answer.json()["phase"]), (400, &json!(0)));
    let script = job(json!("b"), json!([{"map": script("function(v) { return []; }")}]));
    assert!(refusal(&script, "application/json").contains("mapreduce.javascript"));
    let answer = node.send_json("POST", "/mapred", &script);
    assert_eq!((answer.status, &answer.json()["phase"]), (400, &json!(0)));
    let (status, unknown) = run(&node, json!(["none", "b"]), json!([]));
    assert_eq!((status, unknown), (500, json!({"error": "no_type"})));
}

#[test]
fn functions_in_javascript_map_and_reduce() {
    let node = with_scripts();
    for number in 0..50 {
        node.put(&format!("/buckets/b/keys/{number}"), &number.to_string());
    }
    let query = json!([{"map": script("function(v, d, add) { return [Number(v.values[0].data) + add]; }")},
        {"reduce": {"language": "javascript", "name": "Riak.reduceSum"}}]);
    let mut query = query;
    query[0]["map"]["arg"] = json!(1);
    assert_eq!(run(&node, json!("b"), query), (200, json!([1275])));
    node.put("/buckets/code/keys/largest", "function(v) { return [Math.max.apply(null, v)]; }");
    let stored = json!({"language": "javascript", "bucket": "code", "key": "largest"});
    let values = json!({"language": "javascript", "name": "Riak.mapValuesJson"});
    let query = json!([{"map": values}, {"reduce": stored}]);
    assert_eq!(run(&node, json!("b"), query), (200, json!([49])));
    let (status, fault) =
        run(&node, json!([["b", "1"]]), json!([{"map": script("function() { for (;;) {} }")}]));
    assert_eq!(
        (status, &fault["phase"], &fault["input"]),
        (500, &json!(0), &json!("{<<\"b\">>,<<\"1\">>}"))
    );
    let (status, fault) = run(&node, json!("b"), json!([{"map": script("no function")}]));
    assert_eq!((status, &fault["phase"]), (400, &json!(0)));
    assert_eq!(
        run(&node, json!("b"), json!([{"reduce": erlang("reduce_count_inputs")}])),
        (200, json!([50]))
    );
}

#[test]
fn a_job_waits_for_its_turn_in_vain_and_operators_see_and_stop_those_that_run() {
    let node = with(MapReduceSettings { job_count_max: 1, ..MapReduceSettings::default() });
    let value = "v".repeat(1 << 20);
    for number in 0..40 {
        node.put(&format!("/buckets/b/keys/{number}"), &value);
    }
    let mut slow = Binary::connect(&node);
    let request = RpbMapRedReq {
        request: job(json!("b"), json!([{"map": erlang("map_object_value")}])).into(),
        content_type: Bytes::from_static(b"application/json"),
    };
    let mut bytes = BytesMut::new();
    append_message(&mut bytes, &request).expect("it is small");
    slow.send(&bytes);
    let first: RpbMapRedResp = slow.frame().decode().expect("results");
    assert_eq!(first.phase, Some(0));
    let hasty = json!({"inputs": "b", "query": [], "timeout": 100}).to_string();
    let refused = node.send_json("POST", "/mapred", &hasty);
    assert_eq!(refused.status, 503);
    let refused = refused.json();
    assert!(refused["error"].as_str().is_some_and(|text| text.contains("mapreduce.jobs.maximum")));
    let seen = node.get("/admin/v1/jobs").json();
    assert_eq!((&seen["active"], &seen["refused"]), (&json!(1), &json!(1)));
    let entry = &seen["jobs"][0];
    assert_eq!(
        (&entry["inputs"], &entry["phases"]),
        (&json!("bucket default/b"), &json!(["map_object_value"]))
    );
    assert!(entry["read_count"].as_u64().is_some_and(|count| (1..40).contains(&count)), "{entry}");
    let path = format!("/admin/v1/jobs/{}", entry["id"]);
    assert_eq!(node.connect().request("DELETE", &path, &[], b"").status, 200);
    loop {
        let frame = slow.frame();
        if let Ok(RpbMapRedResp { done, .. }) = frame.clone().decode() {
            assert_eq!(done, None, "the job is not done");
            continue;
        }
        let error: quoit_wire::messages::RpbErrorResp = frame.decode().expect("an error");
        assert_eq!(error.errmsg, "an operator has stopped the job");
        break;
    }
    assert_eq!(node.get("/admin/v1/jobs").json()["active"], 0);
    let metrics = node.get("/metrics");
    assert!(metrics.text().contains("quoit_mapreduce_jobs_active 0"), "{}", metrics.text());
    assert!(metrics.text().contains("quoit_mapreduce_jobs_refused"), "{}", metrics.text());
    assert_eq!(node.connect().request("DELETE", &path, &[], b"").status, 404);
    assert_eq!(run(&node, json!([["b", "x"]]), json!([])), (200, json!([["b", "x"]])));
}

#[test]
fn a_job_has_as_long_as_it_says() {
    let node = with_scripts();
    node.put("/buckets/b/keys/a", "A");
    let query = json!([{"map": script("function() { for (;;) {} }")}]);
    let document = json!({"inputs": "b", "query": query, "timeout": 1}).to_string();
    let answer = node.send_json("POST", "/mapred", &document);
    assert_eq!((answer.status, answer.json()), (500, json!({"error": "timeout"})));
}

#[test]
fn values_are_checked_before_they_are_stored() {
    let node = Node::start();
    let set = |props: Value| {
        node.send_json("PUT", "/buckets/b/props", &json!({"props": props}).to_string())
    };
    let hooks =
        json!([{"mod": "quoit", "fun": "valid_json"}, {"mod": "quoit", "fun": "max_bytes_20"}]);
    assert_eq!(set(json!({"precommit": hooks})).status, 204);
    assert_eq!(node.put("/buckets/b/keys/k", "{\"a\": 1}").status, 204);
    let refused = node.put("/buckets/b/keys/k", "no JSON");
    assert_eq!(refused.status, 403);
    assert!(refused.text().contains("quoit:valid_json"), "{}", refused.text());
    let refused = node.put("/buckets/b/keys/k", "\"more than twenty bytes\"");
    assert_eq!(refused.status, 403);
    let put = quoit_wire::messages::RpbPutReq {
        bucket: "b".into(),
        key: Some("k".into()),
        content: quoit_wire::messages::RpbContent { value: "no".into(), ..Default::default() },
        ..Default::default()
    };
    let refused = Binary::connect(&node).refusal(&put);
    assert!(refused.starts_with("{precommit_fail,<<\"quoit:valid_json"), "{refused}");
    assert_eq!(node.get("/buckets/b/keys/k").text(), "{\"a\": 1}");
    assert_eq!(node.connect().request("DELETE", "/buckets/b/keys/k", &[], b"").status, 204);
}

#[test]
fn a_bucket_with_a_hook_that_is_not_run_keeps_it_and_refuses_writes_until_it_is_taken_out() {
    let node = Node::start();
    let props = "/buckets/b/props";
    let set = |props_json: Value| node.send_json("PUT", props, &props_json.to_string()).status;
    assert_eq!(node.put("/buckets/b/keys/k", "before").status, 204);
    let script = json!({"name": "Js.hook"});
    let script_fault =
        "{precommit_fail,{invalid_hook_def,{struct,[{<<\"name\">>,<<\"Js.hook\">>}]}}}";
    let function = json!({"mod": "m", "fun": "Checks it"});
    let function_fault = "{precommit_fail,{hook_crashed,{m,'Checks it',error,undef}}}";
    for (hook, fault) in [(script, script_fault), (function, function_fault)] {
        let with_hook = json!({"props": {"precommit": [hook], "allow_mult": true}});
        assert_eq!(set(with_hook), 204, "{hook}");
        assert_eq!(node.get(props).json()["props"]["precommit"], json!([hook]));
        let put = quoit_wire::messages::RpbPutReq {
            bucket: "b".into(),
            key: Some("k".into()),
            content: quoit_wire::messages::RpbContent { value: "v".into(), ..Default::default() },
            ..Default::default()
        };
        let del = quoit_wire::messages::RpbDelReq {
            bucket: "b".into(),
            key: "k".into(),
            ..Default::default()
        };
        let mut binary = Binary::connect(&node);
        assert_eq!(binary.refusal(&put), fault);
        assert_eq!(binary.refusal(&del), fault);
        let counter = node.connect().request("POST", "/buckets/b/counters/c", &[], b"1");
        assert_eq!(counter.status, 500, "{}", counter.text());
        let missing = node.connect().request("DELETE", "/buckets/b/keys/missing", &[], b"");
        assert_eq!(missing.status, 404, "{}", missing.text());
        let refused = node.put("/buckets/b/keys/k", "v");
        assert_eq!(refused.status, 500);
        assert!(refused.text().contains("property precommit"), "{}", refused.text());
        assert_eq!(node.get("/buckets/b/keys/k").text(), "before");
    }
    assert_eq!(node.get("/stats").json()["precommit_fail"], 8);
    let hooks = json!([{"mod": "m", "fun": "f"}]);
    assert_eq!(set(json!({"props": {"precommit": [], "postcommit": hooks}})), 204);
    assert_eq!(node.get(props).json()["props"]["postcommit"], hooks);
    assert_eq!(node.put("/buckets/b/keys/k", "after").status, 204);
}

#[test]
fn hooks_that_cannot_be_run_are_kept_wherever_they_are_set() {
    let node = Node::start();
    node.make_type("t", "{}");
    let modfun = RpbModFun { module: "m".into(), function: "f".into() };
    let hook = RpbCommitHook { modfun: Some(modfun), name: None };
    let shown = json!([{"mod": "m", "fun": "f"}]);
    let props = RpbBucketProps {
        precommit: vec![hook.clone()],
        has_precommit: Some(true),
        postcommit: vec![hook],
        has_postcommit: Some(true),
        ..RpbBucketProps::default()
    };
    let mut binary = Binary::connect(&node);
    let of_bucket = RpbSetBucketReq { bucket: "b".into(), props: props.clone(), bucket_type: None };
    let _: RpbSetBucketResp = binary.ask(&of_bucket);
    let of_type = RpbSetBucketTypeReq { bucket_type: "t".into(), props };
    let _: RpbSetBucketResp = binary.ask(&of_type);
    let document = json!({"props": {"precommit": shown, "postcommit": shown}}).to_string();
    for (method, path) in [
        ("PUT", "/buckets/c/props"),
        ("PUT", "/admin/v1/bucket-types/other"),
        ("POST", "/admin/v1/bucket-types/t/update"),
    ] {
        let answer = node.send_json(method, path, &document);
        assert!(answer.status < 300, "{path}: {} {}", answer.status, answer.text());
    }
    for path in ["/buckets/b/props", "/buckets/c/props", "/types/t/buckets/b/props"] {
        let props = node.get(path).json()["props"].clone();
        assert_eq!([&props["precommit"], &props["postcommit"]], [&shown, &shown], "{path}");
    }
}

#[test]
fn search_says_that_it_is_gone() {
    let node = Node::start();
    for path in ["/search/query/i?q=x", "/solr/i/select", "/search/index"] {
        let answer = node.get(path);
        assert_eq!(answer.status, 404);
        assert!(answer.text().contains("Search was removed"), "{}", answer.text());
    }
}
