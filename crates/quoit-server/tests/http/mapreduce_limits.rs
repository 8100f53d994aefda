//! MapReduce jobs whose clients or scripts misbehave.

use crate::binary::Binary;
use crate::fixture::Node;
use bytes::{Bytes, BytesMut};
use quoit_server::{MapReduceSettings, MemorySettings, PaceSettings, ScriptLimits, ServerSettings};
use quoit_wire::frame::append_message;
use quoit_wire::messages::{RpbErrorResp, RpbMapRedReq, RpbMapRedResp};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// Number of objects of a job whose outputs exceed the socket buffers.
const LARGE_COUNT: usize = 64;

fn node_with(mapreduce: MapReduceSettings) -> Node {
    Node::with(ServerSettings { mapreduce, ..ServerSettings::default() })
}

fn request(query: &Value) -> RpbMapRedReq {
    RpbMapRedReq {
        request: json!({"inputs": "b", "query": query}).to_string().into(),
        content_type: Bytes::from_static(b"application/json"),
    }
}

/// Misbehaving scripts, each with a part of the error that ends it.
fn misbehaving() -> [(&'static str, &'static str); 9] {
    [
        ("function() { for (;;) {} }", "mapreduce.javascript.call_timeout"),
        (
            "function() { while (true) try { f(); } catch (e) {} }",
            "mapreduce.javascript.call_timeout",
        ),
        ("function() { return [/(a+)+$/.test('a'.repeat(40) + 'b')]; }", "call_timeout"),
        ("function() { var s = ['x']; for (;;) s.push(s.join()); }", "out of memory"),
        ("function() { return [new Array(1e9).fill(1).length]; }", "out of memory"),
        (
            "function() { function f() { return f() + 1; } return [f()]; }",
            "Maximum call stack size",
        ),
        ("function() { return ['x'.repeat(100000)]; }", "mapreduce.javascript.maximum_output"),
        ("function() { throw new TypeError('on purpose'); }", "TypeError: on purpose"),
        (
            "function() { Array.isArray = Object.keys = JSON.stringify = null; \
             Array.prototype.toJSON = function() { throw new Error('mine'); }; return [1]; }",
            "mine",
        ),
    ]
}

/// A node whose scripts have low limits except for time; each call may take as long as given.
struct Limited {
    node: Node,
    binary: Binary,
}

impl Limited {
    fn new(call_time_max: Duration) -> Self {
        let limits = ScriptLimits {
            call_time_max,
            job_time_max: PATIENCE,
            memory_bytes_max: 8 << 20,
            output_bytes_max: 64 << 10,
            ..ScriptLimits::default()
        };
        let mapreduce =
            MapReduceSettings { javascript: Some(limits), ..MapReduceSettings::default() };
        let node = node_with(mapreduce);
        node.put("/buckets/b/keys/a", "A");
        let binary = Binary::connect(&node);
        Self { node, binary }
    }
}

#[test]
fn scripts_that_misbehave_end_within_their_limits_in_riaks_form_over_both_protocols() {
    // Only endless scripts may reach the time limit, however busy the machine is.
    let (mut hasty, mut patient) =
        (Limited::new(Duration::from_millis(300)), Limited::new(PATIENCE));
    for (source, words) in misbehaving() {
        let is_endless = words.contains("call_timeout");
        let Limited { node, binary } = if is_endless { &mut hasty } else { &mut patient };
        let query = json!([{"map": {"language": "javascript", "source": source}}]);
        let document = json!({"inputs": "b", "query": query}).to_string();
        let http = node.send_json("POST", "/mapred", &document);
        assert_eq!(http.status, 500, "{source}");
        let told: Value = serde_json::from_str(&binary.refusal(&request(&query))).expect("JSON");
        for fault in [http.json(), told] {
            assert_eq!(fault["phase"], 0, "{source}: {fault}");
            assert_eq!(
                (&fault["type"], &fault["input"]),
                (&json!("error"), &json!("{<<\"b\">>,<<\"a\">>}"))
            );
            assert!(fault["stack"].is_string(), "{source}: {fault}");
            let error = fault["error"].as_str().expect("a text");
            assert!(error.contains(words), "{source}: {error}");
        }
    }
    let tame =
        json!([{"map": {"language": "javascript", "source": "function(o) { return [o.key]; }"}}]);
    let document = json!({"inputs": "b", "query": tame}).to_string();
    for Limited { node, .. } in [hasty, patient] {
        assert_eq!(node.send_json("POST", "/mapred", &document).json(), json!(["a"]));
    }
}

/// Waits until `fits` accepts the list of running jobs, and returns the list.
fn job_once(node: &Node, mut fits: impl FnMut(&Value) -> bool) -> Value {
    let end = Instant::now() + PATIENCE;
    loop {
        let seen = node.get("/admin/v1/jobs").json();
        if fits(&seen) {
            return seen;
        }
        assert!(Instant::now() < end, "{seen}");
    }
}

/// Waits until the running job has filled the socket buffers: until it reads nothing more in a hundred
/// checks.
fn unread(node: &Node) -> Value {
    let (mut read_count, mut look_count) = (Value::Null, 0);
    job_once(node, |seen| {
        let now = seen["jobs"][0]["read_count"].clone();
        let is_still = now == read_count && now.as_u64() > Some(0);
        look_count = if is_still { look_count + 1 } else { 0 };
        read_count = now;
        look_count >= 100
    })
}

fn values() -> Value {
    json!([{"map": {"language": "erlang", "module": "riak_kv_mapreduce",
        "function": "map_object_value"}}])
}

#[test]
fn a_job_that_is_not_read_waits_and_one_whose_client_leaves_ends() {
    let node = node_with(MapReduceSettings::default());
    let value = "v".repeat(1 << 20);
    for number in 0..LARGE_COUNT {
        node.put(&format!("/buckets/b/keys/{number}"), &value);
    }
    let mut bytes = BytesMut::new();
    append_message(&mut bytes, &request(&values())).expect("it is small");
    for leaves in [false, true] {
        let mut client = Binary::connect(&node);
        client.send(&bytes);
        let seen = unread(&node);
        let count = seen["jobs"][0]["read_count"].as_u64().expect("a count") as usize;
        assert!((1..LARGE_COUNT).contains(&count), "{count} objects were read ahead");
        if leaves {
            drop(client);
        } else {
            let mut value_count = 0;
            loop {
                let part: RpbMapRedResp = client.frame().decode().expect("results");
                let list = part.response.map(|list| serde_json::from_slice::<Vec<Value>>(&list));
                value_count += list.map_or(0, |list| list.expect("a list").len());
                if part.done == Some(true) {
                    break;
                }
            }
            assert_eq!(value_count, LARGE_COUNT);
        }
        job_once(&node, |seen| seen["active"] == 0);
    }
}

#[test]
fn a_job_that_is_not_read_gives_up_its_place_when_it_is_stopped_or_its_time_is_over() {
    // The connection itself has a long time limit.
    let pace = PaceSettings { stall_limit: 10 * PATIENCE, ..PaceSettings::default() };
    let node = Node::with(ServerSettings { pace, ..ServerSettings::default() });
    let value = "v".repeat(1 << 20);
    for number in 0..LARGE_COUNT {
        node.put(&format!("/buckets/b/keys/{number}"), &value);
    }
    let ends = [("an operator has stopped the job", None), ("timeout", Some(2_000))];
    for (place, (words, timeout_ms)) in ends.into_iter().enumerate() {
        let document = json!({"inputs": "b", "query": values(), "timeout": timeout_ms}).to_string();
        let mut bytes = BytesMut::new();
        let request = RpbMapRedReq { request: document.into(), ..request(&values()) };
        append_message(&mut bytes, &request).expect("it is small");
        let mut client = Binary::connect(&node);
        client.send(&bytes);
        if timeout_ms.is_none() {
            let path = format!("/admin/v1/jobs/{}", unread(&node)["jobs"][0]["id"]);
            assert_eq!(node.connect().request("DELETE", &path, &[], b"").status, 200);
        }
        job_once(&node, |seen| seen["failed"] == place + 1 && seen["active"] == 0);
        loop {
            let frame = client.frame();
            let Ok(RpbMapRedResp { done, .. }) = frame.clone().decode() else {
                let error: RpbErrorResp = frame.decode().expect("an error");
                assert_eq!(error.errmsg, words);
                break;
            };
            assert_eq!(done, None, "the job is not done");
        }
    }
}

#[test]
fn a_job_goes_on_with_the_stored_function_that_it_began_with() {
    let limits = ScriptLimits { call_time_max: PATIENCE, ..ScriptLimits::default() };
    let node =
        node_with(MapReduceSettings { javascript: Some(limits), ..MapReduceSettings::default() });
    let value = "v".repeat(128 << 10);
    for number in 0..8 * LARGE_COUNT {
        node.put(&format!("/buckets/b/keys/{number}"), &value);
    }
    let source =
        |word: &str| format!("function(object) {{ return ['{word}' + object.values[0].data]; }}");
    node.put("/buckets/code/keys/f", &source("old"));
    let query = json!([{"map": {"language": "javascript", "bucket": "code", "key": "f"}}]);
    let mut bytes = BytesMut::new();
    append_message(&mut bytes, &request(&query)).expect("it is small");
    let mut client = Binary::connect(&node);
    client.send(&bytes);
    let seen = unread(&node);
    assert!(seen["jobs"][0]["read_count"].as_u64() < Some(8 * LARGE_COUNT as u64), "{seen}");
    node.put("/buckets/code/keys/f", &source("new"));
    let mut words = Vec::new();
    loop {
        let part: RpbMapRedResp = client.frame().decode().expect("results");
        if let Some(list) = part.response {
            let list: Vec<String> = serde_json::from_slice(&list).expect("a list of texts");
            words.extend(list.iter().map(|text| text[..3].to_owned()));
        }
        if part.done == Some(true) {
            break;
        }
    }
    assert_eq!(words, vec!["old"; 8 * LARGE_COUNT]);
}

#[test]
fn a_compressed_job_counts_as_what_it_is_once_inflated() {
    let node = Node::with(ServerSettings {
        memory: MemorySettings::new(64 << 20, Some(8 << 20), 4 << 20),
        ..ServerSettings::default()
    });
    let mut binary = Binary::connect(&node);
    // The term consists of its head only. It is refused before it would be inflated.
    let head = [&[131, b'P'][..], &(16u32 << 20).to_be_bytes()].concat();
    let request = RpbMapRedReq {
        request: head.into(),
        content_type: Bytes::from_static(b"application/x-erlang-binary"),
    };
    let refused = binary.refusal(&request);
    assert!(refused.contains("per_connection"), "{refused}");
}

#[test]
fn a_script_ends_with_its_job_wherever_it_runs() {
    let limits =
        ScriptLimits { call_time_max: PATIENCE, job_time_max: PATIENCE, ..ScriptLimits::default() };
    let node =
        node_with(MapReduceSettings { javascript: Some(limits), ..MapReduceSettings::default() });
    node.put("/buckets/b/keys/a", "A");
    let query =
        json!([{"map": {"language": "javascript", "source": "function() { for (;;) {} }"}}]);
    let document = json!({"inputs": "b", "query": query, "timeout": 200}).to_string();
    let begun = Instant::now();
    assert_eq!(node.send_json("POST", "/mapred", &document).json(), json!({"error": "timeout"}));
    let store = &node.context.store;
    while store.listings().script_session_count() > 0 {
        assert!(begun.elapsed() < PATIENCE / 2, "the call goes on");
        std::thread::yield_now();
    }
}
