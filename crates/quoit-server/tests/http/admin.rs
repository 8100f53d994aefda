//! The administration API.

use crate::fixture::Node;
use quoit_server::{AuditLog, AuditSettings, AuditedBuckets, ServerSettings};
use serde_json::{Value, json};
use std::fs;

fn word(document: &Value) -> &str {
    document["error"].as_str().expect("an error word")
}

#[test]
fn a_bucket_type_lives_from_creation_to_activation() {
    let node = Node::start();
    let path = "/admin/v1/bucket-types/t";
    let post = |command: &str, document: &str| {
        node.send_json("POST", &format!("{path}/{command}"), document)
    };
    let missing = node.get(path);
    assert_eq!((missing.status, word(&missing.json())), (404, "undefined"));
    let created = node.send_json("PUT", path, "{\"props\":{\"n_val\":2}}");
    assert_eq!(created.json(), json!({"name": "t", "state": "ready"}));
    let early = post("update", "{\"props\":{\"n_val\":1}}");
    assert_eq!((early.status, word(&early.json())), (409, "not_active"));
    for _ in 0..2 {
        assert_eq!(post("activate", "").json(), json!({"name": "t", "state": "active"}));
    }
    assert_eq!(post("update", "{\"props\":{\"n_val\":5}}").status, 200);
    assert_eq!(node.get(path).json()["props"]["n_val"], 5);
    assert_eq!(post("reset", "").status, 200);
    assert_eq!(node.get(path).json()["props"]["n_val"], 3);
    let again = node.send_json("PUT", path, "{\"props\":{}}");
    assert_eq!((again.status, word(&again.json())), (409, "already_active"));
    let list = node.get("/admin/v1/bucket-types").json();
    let active = |name: &str| json!({"name": name, "state": "active"});
    assert_eq!(list, json!({"types": [active("default"), active("t")]}));
}

#[test]
fn refusals_say_what_is_wrong() {
    let node = Node::start();
    let put = |name: &str, document: &str| {
        let answer = node.send_json("PUT", &format!("/admin/v1/bucket-types/{name}"), document);
        (answer.status, answer.json())
    };
    let (status, document) = put("t", "{\"props\":{\"n_val\":0}}");
    assert_eq!((status, word(&document)), (400, "invalid_props"));
    assert_eq!(document["details"], json!({"n_val": "not_integer"}));
    for (name, body, expected) in [
        ("t", "{", (400, "invalid_json")),
        ("t", "{}", (400, "no_props")),
        ("default", "{\"props\":{}}", (409, "default_type")),
        ("any", "{\"props\":{}}", (400, "reserved_name")),
    ] {
        let (status, document) = put(name, body);
        assert_eq!((status, word(&document)), expected, "{name} {body}");
    }
    let answer = node.connect().request("DELETE", "/admin/v1/ping", &[], b"");
    assert_eq!((answer.status, word(&answer.json())), (405, "method"));
    assert_eq!(answer.header("allow"), Some("GET, HEAD"));
    assert_eq!(word(&node.get("/admin/v2/ping").json()), "not_found");
}

#[test]
fn properties_of_buckets_are_changed_and_reset() {
    let node = Node::start();
    let path = "/admin/v1/types/default/buckets/a%2Fb/props";
    let changed = node.send_json("PUT", path, "{\"props\":{\"n_val\":2}}").json();
    assert_eq!((&changed["props"]["n_val"], &changed["props"]["name"]), (&json!(2), &json!("a/b")));
    assert_eq!(node.get("/buckets/a%2Fb/props").json()["props"]["n_val"], 2);
    let reset = node.connect().request("DELETE", path, &[], b"").json();
    assert_eq!(reset["props"]["n_val"], 3);
    let unknown = node.get("/admin/v1/types/none/buckets/b/props");
    assert_eq!((unknown.status, word(&unknown.json())), (404, "no_type"));
}

#[test]
fn status_tells_the_memory_of_a_key() {
    let node = Node::start();
    assert_eq!(node.get("/admin/v1/ping").json(), json!({"ping": "pong", "node": "quoit@test"}));
    let empty = node.get("/admin/v1/status").json();
    assert_eq!(empty["engine"]["keys_per_gib"], Value::Null);
    node.put("/buckets/b/keys/k", "v");
    let status = node.get("/admin/v1/status").json();
    assert_eq!(status["engine"]["key_count"], 1);
    assert_eq!(status["engine"]["backend"], "memory");
    assert!(status["engine"]["index_bytes_per_key"].as_f64().is_some_and(|bytes| bytes > 0.0));
    assert_eq!(status["stats"]["node_puts_total"], 1);
    let named = node.get("/admin/v1/stat?pattern=riak.*.node.puts").json();
    assert_eq!(named["stats"][0]["name"], "riak.riak_kv.node.puts");
    assert_eq!(named["stats"][0]["datapoints"]["count"], 1);
}

#[test]
fn web_pages_do_not_administrate() {
    let node = Node::with(ServerSettings { admin_remote: true, ..ServerSettings::default() });
    let mut client = node.connect();
    let path = "/admin/v1/bucket-types/t";
    let body = b"{\"props\":{}}";
    let json_type = ("Content-Type", "application/json");
    for page in [("Origin", "http://test"), ("Referer", "http://test/")] {
        assert_eq!(client.request("PUT", path, &[page, json_type], body).status, 403);
    }
    let form = ("Content-Type", "text/plain");
    assert_eq!(client.request("PUT", path, &[form], body).status, 415);
    assert_eq!(node.get(path).status, 404, "nothing was made");
}

#[test]
fn changes_that_are_refused_before_they_are_looked_at_are_audited_few_a_second() {
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
    let path = "/admin/v1/bucket-types/t";
    let (page, json_type) = (("Origin", "http://test"), ("Content-Type", "application/json"));
    assert_eq!(client.request("GET", path, &[page], b"").status, 403);
    let secret = b"{\"password\":\"sesame\"}";
    assert_eq!(client.request("PUT", path, &[page, json_type], secret).status, 403);
    let form = ("Content-Type", "text/plain");
    assert_eq!(client.request("PUT", path, &[form], b"x").status, 415);
    let text = fs::read_to_string(&file).expect("a log");
    let lines: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let [of_page, of_form] = lines.as_slice() else { panic!("reads are not recorded: {text}") };
    for line in [of_page, of_form] {
        assert_eq!(line["what"], "PUT bucket-types/t");
        assert_eq!((&line["outcome"], &line["from"]), (&json!("refused"), &json!("127.0.0.1")));
    }
    assert!(
        of_page["reason"].as_str().is_some_and(|reason| reason.contains("web pages")),
        "{text}"
    );
    assert!(!text.contains("sesame"));
    for _ in 0..100 {
        assert_eq!(client.request("PUT", path, &[page, json_type], b"{}").status, 403);
    }
    assert!(node.context.audit.passed_over_count() > 0, "strangers can't fill the log");
}

#[test]
fn a_node_alone_is_a_cluster_of_one() {
    let node = Node::start();
    let cluster = node.get("/admin/v1/cluster").json();
    let members = cluster["members"].as_array().expect("a list");
    assert_eq!(members.len(), 1);
    let own = &members[0];
    assert_eq!((&cluster["claimant"], &cluster["ring_ready"]), (&own["name"], &json!(true)));
    let shown = (&own["status"], &own["availability"], &own["ring_percent"]);
    assert_eq!(shown, (&json!("valid"), &json!("up"), &json!(100.0)));
    assert_eq!(own["pending_percent"], Value::Null);
    let name = own["name"].as_str().expect("a name");
    let ring = node.get("/admin/v1/cluster/ring").json();
    assert_eq!((&ring["pending"], &ring["unreachable"]), (&json!([]), &json!([])));
    let ready = node.get("/admin/v1/cluster/ring-ready").json();
    assert_eq!(ready, json!({"ready": true, "nodes": [name], "reason": null}));
    let services = node.get(&format!("/admin/v1/services?node={name}")).json();
    assert_eq!(services, json!({"node": name, "services": ["riak_kv", "riak_pipe"]}));
    let count = node.get(&format!("/admin/v1/cluster/partition-count?node={name}")).json();
    assert_eq!((&count["partitions"], &count["ring_size"]), (&json!(8), &json!(8)));
    let partitions = node.get("/admin/v1/cluster/partitions").json();
    assert_eq!(partitions["partitions"].as_array().expect("a list").len(), 8);
    let first = json!({"id": 0, "index": "0", "owner": name, "primaries": [name]});
    for query in ["id=0", "index=0"] {
        assert_eq!(node.get(&format!("/admin/v1/cluster/partition?{query}")).json(), first);
    }
}

#[test]
fn members_and_partitions_that_are_not_there_are_refused() {
    let node = Node::start();
    for (path, expected) in [
        ("services?node=other", (404, "no_node")),
        ("cluster/partitions?node=other", (404, "no_node")),
        ("cluster/partition?id=8", (404, "no_partition")),
        ("cluster/partition?index=1", (404, "no_partition")),
        ("cluster/partition?id=-1", (404, "no_partition")),
        ("cluster/partition", (400, "no_partition")),
        ("cluster/other", (404, "not_found")),
    ] {
        let answer = node.get(&format!("/admin/v1/{path}"));
        assert_eq!((answer.status, word(&answer.json())), expected, "{path}");
    }
}

#[test]
fn limits_of_transfers_are_shown_and_changed() {
    let node = Node::start();
    let path = "/admin/v1/transfer-limits";
    let default = json!({"node": "quoit@test", "answers": true, "limit": 2, "rate": 100 << 20,
                         "inbound": true, "outbound": true});
    assert_eq!(node.get(path).json(), json!({ "nodes": [default] }));
    let body = "{\"node\":\"quoit@test\",\"limit\":5,\"rate\":0,\"outbound\":false}";
    let changed = node.send_json("POST", path, body).json();
    let changed = &changed["nodes"][0];
    assert_eq!((&changed["limit"], &changed["rate"]), (&json!(5), &json!(0)));
    assert_eq!((&changed["inbound"], &changed["outbound"]), (&json!(true), &json!(false)));
    for (body, expected) in [
        ("{", (400, "invalid_json")),
        ("{}", (400, "invalid_limit")),
        ("{\"limit\":0}", (400, "invalid_limit")),
        ("{\"rate\":-1}", (400, "invalid_limit")),
        ("{\"inbound\":1}", (400, "invalid_limit")),
        ("{\"node\":\"none\",\"limit\":1}", (404, "no_node")),
    ] {
        let answer = node.send_json("POST", path, body);
        assert_eq!((answer.status, word(&answer.json())), expected, "{body}");
    }
    assert_eq!(node.get("/admin/v1/transfers").json()["active"], json!([]));
}

#[test]
fn a_node_alone_shares_no_copies() {
    let node = Node::start();
    let status = node.get("/admin/v1/aae").json();
    assert_eq!((&status["partitions"], &status["keys_repaired_total"]), (&json!([]), &json!(0)));
    let wanted = node.send_json("POST", "/admin/v1/aae/exchange", "{}").json();
    assert_eq!(wanted, json!({"partitions": 0}));
    let answer = node.send_json("POST", "/admin/v1/aae/exchange?id=3", "{}");
    assert_eq!((answer.status, word(&answer.json())), (404, "no_partition"));
}
