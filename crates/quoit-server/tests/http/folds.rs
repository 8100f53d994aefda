//! Folds over HTTP and Protocol Buffers.

use crate::binary::Binary;
use crate::fixture::Node;
use bytes::Bytes;
use quoit_wire::messages::{
    ChangeMethod, RpbAaeFoldEraseKeysReq, RpbAaeFoldFetchClocksRangeReq, RpbAaeFoldFindTombsReq,
    RpbAaeFoldKeyCountResp, RpbAaeFoldKeyValueResp, RpbAaeFoldListBucketsReq,
    RpbAaeFoldListBucketsResp, RpbAaeFoldObjectStatsReq, RpbPutReq, RpbPutResp,
};
use serde_json::{Value, json};

fn fill(node: &Node, count: usize) {
    for number in 0..count {
        let path = format!("/buckets/b/keys/key%20{number:02}");
        node.connect().request("PUT", &path, &[("Content-Type", "text/plain")], b"value");
    }
}

/// Runs a fold to its end. Returns the records that it found and its final status.
fn run(node: &Node, wanted: Value) -> (Vec<Value>, Value) {
    let begun = node.send_json("POST", "/admin/v1/folds", &wanted.to_string()).json();
    let id = begun["id"].as_u64().unwrap_or_else(|| panic!("{begun}"));
    let mut found = Vec::new();
    loop {
        let seen = node.get(&format!("/admin/v1/folds/{id}?wait_ms=5000")).json();
        found.extend(seen["found"].as_array().unwrap().clone());
        if seen["state"] != "running" && seen["waiting"] == 0 {
            return (found, seen);
        }
    }
}

#[test]
fn folds_run_in_the_background_and_say_how_far_they_are() {
    let node = Node::start();
    fill(&node, 30);
    let (found, end) =
        run(&node, json!({"fold": "object_stats", "type": "default", "bucket": "b"}));
    assert_eq!((found.len(), &end["state"], &end["looked_at"]), (0, &json!("done"), &json!(30)));
    assert_eq!(end["siblings"], json!({"1": 30}));
    let (found, _) = run(
        &node,
        json!({
            "fold": "fetch_clocks", "type": "default", "bucket": "b",
            "from_key": "key%2010", "to_key": "key%2012",
        }),
    );
    let mut keys: Vec<_> = found.iter().map(|found| found["key"].as_str().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, ["key%2010", "key%2011", "key%2012"]);
    let erase = json!({
        "fold": "erase_keys", "type": "default", "bucket": "b", "method": "local",
        "to_key": "key%2009",
    });
    let (_, end) = run(&node, erase);
    assert_eq!((&end["matches"], &end["failed"]), (&json!(10), &json!(0)));
    assert_eq!(node.get("/buckets/b/keys/key%2009").status, 404);
    assert_eq!(node.get("/buckets/b/keys/key%2010").status, 200);
    let all = node.get("/admin/v1/folds").json();
    assert_eq!(all["folds"].as_array().map(Vec::len), Some(3));
}

#[test]
fn folds_that_make_no_sense_are_refused() {
    let node = Node::start();
    let begin = |wanted: &str| {
        let answer = node.send_json("POST", "/admin/v1/folds", wanted);
        (answer.status, answer.json()["error"].as_str().unwrap_or_default().to_owned())
    };
    let bad = (400, "invalid_fold".to_owned());
    for wanted in [
        "{}",
        r#"{"fold":"find_keys","type":"default","bucket":"b"}"#,
        r#"{"fold":"melt_keys","type":"default","bucket":"b"}"#,
        r#"{"fold":"erase_keys","type":"default","bucket":"b","method":"maybe"}"#,
        r#"{"fold":"object_stats","type":"default","bucket":"b","tobytes":1}"#,
        r#"{"fold":"object_stats","type":"default","bucket":"b","segments":[1],"tree_size":"huge"}"#,
    ] {
        assert_eq!(begin(wanted), bad, "{wanted}");
    }
    let unknown = r#"{"fold":"object_stats","type":"nothing","bucket":"b"}"#;
    assert_eq!(begin(unknown), (404, "no_type".to_owned()));
    assert_eq!(node.get("/admin/v1/folds/7").status, 404);
    assert_eq!(node.get("/admin/v1/folds/x").status, 404);
}

#[test]
fn the_messages_of_folds_are_answered() {
    let node = Node::start();
    fill(&node, 30);
    let mut pb = Binary::connect(&node);
    let stats: RpbAaeFoldKeyCountResp =
        pb.ask(&RpbAaeFoldObjectStatsReq { bucket: "b".into(), ..Default::default() });
    let count = |tag: &str| {
        let entry = stats.keys_count.iter().find(|entry| entry.tag == tag.as_bytes());
        entry.map(|entry| (entry.order, entry.count))
    };
    assert_eq!(stats.response_type, "stats");
    assert_eq!(count("total_count"), Some((None, 30)));
    assert_eq!(count("siblings"), Some((Some(1), 30)));
    let erase = |method: ChangeMethod| RpbAaeFoldEraseKeysReq {
        bucket: "b".into(),
        key_range: true,
        start_key: Some("key 20".into()),
        end_key: Some("key 24".into()),
        change_method: method.into(),
        ..Default::default()
    };
    for method in [ChangeMethod::Count, ChangeMethod::Local] {
        let erased: RpbAaeFoldKeyCountResp = pb.ask(&erase(method));
        assert_eq!(erased.response_type, "erase_keys");
        let entries: Vec<_> =
            erased.keys_count.iter().map(|entry| (&entry.tag[..], entry.count)).collect();
        assert_eq!(entries, [(&b"dispatched_count"[..], 5)]);
    }
    assert_eq!(node.get("/buckets/b/keys/key%2024").status, 404);
    let tombs: RpbAaeFoldKeyValueResp =
        pb.ask(&RpbAaeFoldFindTombsReq { bucket: "b".into(), ..Default::default() });
    assert_eq!((&tombs.response_type[..], tombs.keys_value.len()), (&b"clock"[..], 5));
    let buckets: RpbAaeFoldListBucketsResp = pb.ask(&RpbAaeFoldListBucketsReq::default());
    let named: Vec<_> = buckets
        .bucket_list
        .iter()
        .map(|each| (each.bucket_type.clone(), &each.bucket[..]))
        .collect();
    assert_eq!(named, [(None, &b"b"[..])]);
}

/// Segments in which Riak has these keys; computed independently of this code.
const SEGMENT_OF_KEY_07: u32 = 111_907;
const SEGMENT_OF_KEY_21: u32 = 522_612;
const SEGMENT_OF_KEY_03_IN_XXSMALL: u32 = 3_930;

#[test]
fn folds_are_narrowed_to_segments_of_riaks_trees() {
    let node = Node::start();
    fill(&node, 30);
    let mut pb = Binary::connect(&node);
    let clocks = |segments: &[u32], size: Option<u32>| RpbAaeFoldFetchClocksRangeReq {
        bucket: "b".into(),
        segment_filter: true,
        id_filter: segments.to_vec(),
        filter_tree_size: size,
        ..Default::default()
    };
    let two = [SEGMENT_OF_KEY_21, SEGMENT_OF_KEY_07];
    for (segments, size, expected) in [
        (&two[..], None, &["key 07", "key 21"][..]),
        (&two[..], Some(4), &["key 07", "key 21"]),
        (&[SEGMENT_OF_KEY_03_IN_XXSMALL], Some(0), &["key 03"]),
        (&[], Some(4), &[]),
    ] {
        let found: RpbAaeFoldKeyValueResp = pb.ask(&clocks(segments, size));
        let mut keys: Vec<_> = found.keys_value.iter().map(|found| &found.key[..]).collect();
        keys.sort_unstable();
        assert_eq!(keys, expected.iter().map(|key| key.as_bytes()).collect::<Vec<_>>());
    }
    let text = pb.refusal(&clocks(&two, Some(6)));
    assert!(text.starts_with("6 is not a size of trees"), "{text}");
    let wanted = json!({
        "fold": "fetch_clocks", "type": "default", "bucket": "b",
        "segments": [SEGMENT_OF_KEY_03_IN_XXSMALL], "tree_size": "xxsmall",
    });
    let (found, _) = run(&node, wanted);
    assert_eq!(found.iter().map(|found| &found["key"]).collect::<Vec<_>>(), ["key%2003"]);
}

#[test]
fn a_list_of_more_buckets_than_fit_one_answer_is_refused_and_the_connection_stays() {
    let node = Node::start();
    let mut pb = Binary::connect(&node);
    let long_name = |number: usize| Bytes::from(format!("{number:060000}"));
    let put = |bucket: Bytes| RpbPutReq { bucket, key: Some("k".into()), ..Default::default() };
    for number in 0..280 {
        let RpbPutResp { .. } = pb.ask(&put(long_name(number)));
    }
    let text = pb.refusal(&RpbAaeFoldListBucketsReq::default());
    assert!(text.starts_with("the answer has more than 16777216 bytes"), "{text}");
    let RpbPutResp { .. } = pb.ask(&put("b".into()));
}
