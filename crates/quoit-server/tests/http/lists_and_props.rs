//! Lists and properties.

use crate::fixture::Node;
use quoit_server::{AuditLog, AuditSettings, AuditedBuckets, JobClasses, ServerSettings};
use serde_json::{Deserializer, Value, json};
use std::fs;

fn documents(body: &[u8]) -> Vec<Value> {
    Deserializer::from_slice(body).into_iter().map(|each| each.expect("JSON")).collect()
}

fn keys(document: &Value) -> usize {
    document["keys"].as_array().expect("a list").len()
}

#[test]
fn lists_are_one_document_or_a_stream_that_ends_with_an_empty_one() {
    let node = Node::start();
    let mut client = node.connect();
    for key in 0..1500 {
        let path = format!("/buckets/b/keys/key-{key}");
        client.request("PUT", &path, &[("Content-Type", "a/b")], b"v");
    }
    let whole = node.get("/buckets/b/keys?keys=true");
    assert_eq!(whole.header("content-type"), Some("application/json"));
    assert_eq!(keys(&whole.json()), 1500);
    let stream = documents(&node.get("/buckets/b/keys?keys=stream").body);
    assert!(stream.len() > 2, "pieces as they are found");
    assert_eq!(stream.iter().map(keys).sum::<usize>(), 1500);
    assert_eq!(stream.last(), Some(&json!({"keys": []})));
    assert_eq!(node.get("/buckets?buckets=true").json(), json!({"buckets": ["b"]}));
    assert_eq!(node.get("/buckets?buckets=maybe").json(), json!({"buckets": []}));
    assert_eq!(node.get("/buckets/b/keys").json(), json!({}));
    let head = client.request("HEAD", "/buckets/b/keys?keys=true", &[], b"");
    assert_eq!(head.status, 200);
    assert_eq!(client.request("GET", "/ping", &[], b"").text(), "OK", "nothing follows a HEAD");
}

#[test]
fn a_stream_to_an_old_client_ends_with_the_connection() {
    let node = Node::start();
    node.put("/buckets/b/keys/k", "v");
    let mut client = node.connect();
    client.send(b"GET /buckets/b/keys?keys=stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.read("GET");
    assert_eq!(answer.header("transfer-encoding"), None);
    assert_eq!(documents(&answer.body), [json!({"keys": ["k"]}), json!({"keys": []})]);
}

#[test]
fn old_urls_join_properties_and_keys() {
    let node = Node::start();
    node.put("/riak/b/k", "v");
    let both = node.get("/riak/b?keys=true").json();
    assert_eq!((&both["props"]["n_val"], &both["keys"]), (&json!(3), &json!(["k"])));
    assert_eq!(node.get("/riak/b?keys=true&props=false").json(), json!({"keys": ["k"]}));
    assert_eq!(node.get("/riak/b").json()["props"]["name"], "b");
    assert_eq!(node.get("/riak/b?props=false").status, 404);
    let stream = documents(&node.get("/riak/b?keys=stream&props=false").body);
    assert_eq!(stream, [json!({}), json!({"keys": ["k"]}), json!({"keys": []})]);
}

#[test]
fn lists_may_be_switched_off() {
    let jobs = JobClasses { list_keys: false, ..JobClasses::default() };
    let node = Node::with(ServerSettings { jobs, ..ServerSettings::default() });
    let answer = node.get("/buckets/b/keys?keys=true");
    let text = "Operation '{riak_kv,list_keys}' is not enabled";
    assert_eq!((answer.status, answer.text()), (403, text));
    assert_eq!(node.get("/buckets/b/keys?keys=stream").status, 200);
}

#[test]
fn lists_of_unknown_types_and_bad_timeouts_are_refused() {
    let node = Node::start();
    assert_eq!(node.get("/types/none/buckets?buckets=true").status, 404);
    assert_eq!(node.get("/types/none/buckets/b/keys?keys=true").status, 404);
    let answer = node.get("/buckets?buckets=true&timeout=x");
    assert_eq!((answer.status, answer.text()), (400, "Bad timeout value \"x\"\n"));
}

#[test]
fn properties_are_set_shown_and_reset() {
    let node = Node::start();
    let path = "/buckets/b/props";
    let n_val = || node.get(path).json()["props"]["n_val"].clone();
    let set = |document: &str| node.send_json("PUT", path, document);
    assert_eq!(set("{\"props\":{\"n_val\":2}}").status, 204);
    assert_eq!(n_val(), 2);
    assert_eq!(node.connect().request("DELETE", path, &[], b"").status, 204);
    assert_eq!(n_val(), 3);
    let refused = set("{\"props\":{\"n_val\":\"x\",\"w\":\"y\"}}");
    let reasons = json!({"n_val": "not_integer", "w": "not_valid_quorum"});
    assert_eq!((refused.status, refused.json()), (400, reasons));
    let refused = set("[]");
    assert!(refused.status == 400 && refused.text().starts_with("bucket PUT must be a JSON"));
    let plain = node.put(path, "{\"props\":{\"n_val\":2}}");
    assert_eq!(plain.status, 415);
    assert_eq!(n_val(), 3);
    assert_eq!(node.connect().request("DELETE", "/riak/b", &[], b"").status, 405);
}

#[test]
fn properties_of_types_are_for_active_ones() {
    let node = Node::start();
    node.make_type("t", "{}");
    let set = |name: &str, document: &str| {
        node.send_json("PUT", &format!("/types/{name}/props"), document)
    };
    let document = "{\"props\":{\"basic_quorum\":true}}";
    assert_eq!(set("t", document).status, 204);
    assert_eq!(node.get("/types/t/buckets/b/props").json()["props"]["basic_quorum"], true);
    let refused = set("none", document);
    assert_eq!((refused.status, refused.json()), (400, json!("not_active")));
    let refused = set("default", document);
    assert_eq!((refused.status, refused.json()), (400, json!("no_default_update")));
    assert_eq!(node.get("/types/none/props").status, 404);
    let refused = node.send_json("PUT", "/types/none/buckets/b/props", document);
    assert_eq!((refused.status, refused.json()), (400, json!("no_type")));
}

#[test]
fn changes_of_properties_that_are_refused_before_they_are_looked_at_are_audited_without_values() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("audit.log");
    let audit = AuditLog::open(AuditSettings {
        file: file.clone(),
        file_bytes_max: 1 << 20,
        kept_count: 1,
        buckets: AuditedBuckets::default(),
    });
    let node = Node::audited(audit.expect("a log"));
    let mut client = node.connect();
    let page = ("Origin", "http://elsewhere");
    let (json_type, text_type) =
        (("Content-Type", "application/json"), ("Content-Type", "text/plain"));
    let (path, types) = ("/buckets/b/props", "/types/t/props");
    let body = b"{\"props\":{\"backend\":\"sesame\"}}";
    for (method, path, headers, status) in [
        // Not a change, so the audit log has no line for it.
        ("GET", path, vec![page], 200),
        ("PUT", path, vec![page, json_type], 403),
        ("PUT", path, vec![text_type], 415),
        ("DELETE", path, vec![page], 403),
        ("DELETE", "/types/missing/buckets/b/props", vec![], 404),
        ("PUT", types, vec![page, json_type], 403),
    ] {
        assert_eq!(client.request(method, path, &headers, body).status, status, "{method} {path}");
    }
    assert_eq!(client.request("PUT", path, &[json_type], b"{}").status, 400);
    let text = fs::read_to_string(&file).expect("a log");
    let lines = documents(text.as_bytes());
    let told = |line: &Value| {
        assert_eq!((&line["outcome"], &line["via"]), (&json!("refused"), &json!("http")), "{line}");
        let reason = line["reason"].as_str().expect("a reason");
        let reason = reason.split_whitespace().next().expect("words").to_owned();
        (line["what"].as_str().expect("a name").to_owned(), line["details"].clone(), reason)
    };
    let expected = |what: &str, details: Value, reason: &str| {
        (format!("riak_core.{what}"), details, reason.to_owned())
    };
    let bucket = json!({"type": "default", "bucket": "b"});
    assert_eq!(
        lines.iter().map(told).collect::<Vec<_>>(),
        [
            expected("set_bucket", bucket.clone(), "Forbidden:"),
            expected("set_bucket", bucket.clone(), "the"),
            expected("set_bucket", bucket.clone(), "Forbidden:"),
            expected("set_bucket", json!({"type": "missing", "bucket": "b"}), "there"),
            expected("set_bucket_type", json!({"type": "t"}), "Forbidden:"),
            expected("set_bucket", bucket, "bucket"),
        ]
    );
    assert!(!text.contains("sesame"));
    for _ in 0..100 {
        assert_eq!(client.request("DELETE", path, &[page], b"").status, 403);
    }
    assert!(node.context.audit.passed_over_count() > 0, "strangers can't fill the log");
}
