//! The resources that are about the node.

use crate::fixture::Node;
use serde_json::json;

#[test]
fn the_root_lists_resources_in_the_form_that_is_asked_for() {
    let node = Node::start();
    assert_eq!(node.get("/").header("content-type"), Some("text/html"));
    let accept = [("Accept", "application/json")];
    let answer = node.connect().request("GET", "/", &accept, b"");
    assert_eq!(answer.json()["riak_kv_wm_object"], "/buckets");
    let links = answer.header("link").expect("links");
    assert!(links.contains("</stats>; rel=\"riak_kv_wm_stats\""), "{links}");
}

#[test]
fn statistics_count_what_was_done() {
    let node = Node::start();
    node.put("/buckets/b/keys/k", "v");
    node.get("/buckets/b/keys/k");
    let stats = node.get("/stats").json();
    assert_eq!((&stats["node_puts_total"], &stats["node_gets_total"]), (&json!(1), &json!(1)));
    assert_eq!((&stats["quoit_keys"], &stats["ring_num_partitions"]), (&json!(1), &json!(8)));
    assert_eq!(stats["riak_kv_version"].as_str().map(|text| text.split('.').count()), Some(3));
    let accept = [("Accept", "text/plain")];
    let text = node.connect().request("GET", "/stats", &accept, b"");
    assert!(text.text().contains("\n  \"nodename\": \"quoit@test\""));
}

#[test]
fn metrics_are_open_metrics() {
    let node = Node::start();
    node.put("/buckets/b/keys/k", "v");
    let answer = node.get("/metrics");
    let lines: Vec<_> = answer.text().lines().collect();
    assert!(lines.contains(&"quoit_puts_total 1"));
    assert!(lines.contains(&"quoit_put_duration_seconds_bucket{le=\"+Inf\"} 1"));
    assert_eq!(lines.last(), Some(&"# EOF"));
}

#[test]
fn preference_lists_name_the_nodes_of_a_record() {
    let node = Node::start();
    let answer = node.get("/buckets/b/keys/k/preflist").json();
    let places = answer["preflist"].as_array().expect("a list");
    assert_eq!(places.len(), 3);
    assert_eq!((&places[0]["node"], &places[0]["primary"]), (&json!("quoit@test"), &json!(true)));
}

#[test]
fn a_job_follows_links_and_fetches_values() {
    let node = Node::start();
    let headers =
        [("Content-Type", "text/plain"), ("Link", "</buckets/b/keys/c>; riaktag=\"friend\"")];
    node.connect().request("PUT", "/buckets/b/keys/a", &headers, b"A");
    node.put("/buckets/b/keys/c", "C");
    let run = |job: &str| node.send_json("POST", "/mapred", job);
    let map = "{\"map\":{\"language\":\"erlang\",\"module\":\"riak_kv_mapreduce\",\
               \"function\":\"map_object_value\"}}";
    let job = |query: &str| format!("{{\"inputs\":[[\"b\",\"a\"]],\"query\":[{query}]}}");
    let links = run(&job("{\"link\":{\"tag\":\"friend\"}}"));
    assert_eq!((links.status, links.json()), (200, json!([["b", "c", "friend"]])));
    assert_eq!(run(&job(&format!("{{\"link\":{{}}}},{map}"))).json(), json!(["C"]));
    let both = run(&job(&format!("{{\"link\":{{\"keep\":true}}}},{map}")));
    assert_eq!(both.json(), json!([[["b", "c", "friend"]], ["C"]]));
    assert_eq!(run(&job("")).json(), json!([["b", "a"]]));
    let missing = run(&job(map).replace("\"a\"]", "\"none\"]"));
    assert_eq!((missing.status, &missing.json()["phase"]), (500, &json!(0)));
    assert_eq!(node.connect().request("POST", "/mapred", &[], job("").as_bytes()).status, 415);
    assert!(node.get("/mapred").text().starts_with("This resource accepts POSTs"));
    assert_eq!(run(&job("{\"reduce\":{}}")).status, 501);
}
