//! Resources of the node itself.

use crate::binary::Binary;
use crate::fixture::Node;
use quoit_wire::messages::{
    RpbAaeFoldKeyCountResp, RpbAaeFoldListBucketsReq, RpbAaeFoldListBucketsResp,
    RpbAaeFoldObjectStatsReq,
};
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
fn a_node_that_waits_refuses_clients_with_the_reason_and_answers_operators() {
    let node = Node::start();
    node.put("/buckets/b/keys/k", "v");
    let mut binary = Binary::connect(&node);
    let ask = RpbAaeFoldListBucketsReq { n_val: Some(3) };
    let gate = &node.context.readiness;
    gate.close("it has lost its disk".into());
    for (method, path) in
        [("GET", "/ping"), ("GET", "/buckets/b/keys/k"), ("GET", "/"), ("GET", "/x")]
    {
        let answer = node.connect().request(method, path, &[], b"");
        assert_ne!(answer.status, 200, "{path}");
    }
    let put = node.put("/buckets/b/keys/k", "w");
    assert_eq!((put.status, put.text()), (503, "it has lost its disk\n"));
    assert_eq!(node.get("/ping").status, 503);
    let status = node.get("/admin/v1/status").json();
    assert_eq!(status["waits"], "it has lost its disk");
    assert_eq!(node.get("/admin/v1/services").json()["services"], json!([]));
    assert_eq!(node.get("/stats").status, 200);
    for _ in 0..2 {
        assert_eq!(binary.refusal(&ask), "it has lost its disk");
    }
    gate.open();
    assert_eq!(node.get("/buckets/b/keys/k").text(), "v");
    assert_eq!(node.get("/admin/v1/status").json()["waits"], json!(null));
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
fn metrics_are_open_metrics_for_those_who_ask() {
    let node = Node::start();
    node.put("/buckets/b/keys/k", "v");
    let accept = [("Accept", "application/openmetrics-text")];
    let answer = node.connect().request("GET", "/metrics", &accept, b"");
    let lines: Vec<_> = answer.text().lines().collect();
    assert!(lines.contains(&"quoit_puts_total 1"));
    assert!(lines.contains(&"quoit_put_duration_seconds_bucket{le=\"+Inf\"} 1"));
    assert_eq!(lines.last(), Some(&"# EOF"));
}

#[test]
fn metrics_of_a_node_that_is_alone_count_no_messages_to_other_nodes() {
    let node = Node::start();
    node.put("/buckets/b/keys/k", "v");
    node.get("/buckets/b/keys/k");
    let answer = node.get("/metrics");
    let lines: Vec<_> = answer.text().lines().collect();
    for line in [
        "quoit_internode_sent_messages_total 0",
        "quoit_internode_sent_bytes_total 0",
        "quoit_internode_writes_total 0",
        "quoit_internode_received_messages_total 0",
        "quoit_internode_received_bytes_total 0",
        "quoit_internode_reads_total 0",
        "quoit_internode_requests_total{kind=\"fetch\"} 0",
        "quoit_internode_requests_total{kind=\"store\"} 0",
        "quoit_internode_requests_total{kind=\"join\"} 0",
        "quoit_internode_requests_total{kind=\"forward\"} 0",
        "quoit_internode_requests_total{kind=\"other\"} 0",
    ] {
        assert!(lines.contains(&line), "{line}: {}", answer.text());
    }
}

#[test]
fn metrics_and_statistics_count_queries_listings_and_folds_for_what_they_are() {
    let node = Node::start();
    let headers = [("Content-Type", "text/plain"), ("x-riak-index-age_int", "7, 8")];
    node.connect().request("PUT", "/buckets/b/keys/k", &headers, b"v");
    node.connect().request("PUT", "/buckets/b/keys/k", &headers[..1], b"v");
    for path in [
        "/buckets/b/index/age_int/7",
        "/types/none/buckets/b/index/age_int/7",
        "/buckets/b/index/$key/a/z",
        "/buckets/b/keys?keys=true",
        "/buckets/b/keys?keys=stream&prefix=k",
        "/buckets?buckets=true",
    ] {
        node.get(path);
    }
    let mut pb = Binary::connect(&node);
    let buckets: RpbAaeFoldListBucketsResp = pb.ask(&RpbAaeFoldListBucketsReq::default());
    assert_eq!(buckets.bucket_list.len(), 1);
    let request = RpbAaeFoldObjectStatsReq { bucket: "b".into(), ..Default::default() };
    let RpbAaeFoldKeyCountResp { .. } = pb.ask(&request);
    let answer = node.get("/metrics");
    let lines: Vec<_> = answer.text().lines().collect();
    for line in [
        "quoit_index_queries_total 3",
        "quoit_index_queries_complete_total 2",
        "quoit_index_query_errors_total 1",
        "quoit_index_queries_active 0",
        "quoit_index_query_duration_seconds_count 2",
        "quoit_index_query_results_sum 1",
        "quoit_listings_total 3",
        "quoit_listing_errors_total 0",
        "quoit_listings_active 0",
        "quoit_folds_total 2",
        "quoit_fold_errors_total 0",
        "quoit_folds_active 0",
        "quoit_index_reads_total 1",
        "quoit_index_writes_total 1",
        "quoit_index_entries_written_total 2",
        "quoit_index_deletes_total 1",
        "quoit_index_entries_deleted_total 2",
    ] {
        assert!(lines.contains(&line), "{line}: {}", answer.text());
    }
    let stats = node.get("/stats").json();
    for (name, expected) in [
        ("index_fsm_create", 3),
        ("list_fsm_create_total", 3),
        ("clusteraae_fsm_create", 2),
        ("vnode_index_writes_postings_total", 2),
    ] {
        assert_eq!(stats[name], expected, "{name}");
    }
}

#[test]
fn preference_lists_name_the_nodes_of_a_record() {
    let node = Node::start();
    let answer = node.get("/buckets/b/keys/k/preflist").json();
    let places = answer["preflist"].as_array().expect("a list");
    assert_eq!(places.len(), 3);
    assert_eq!((&places[0]["node"], &places[0]["primary"]), (&json!("quoit@test"), &json!(true)));
}
