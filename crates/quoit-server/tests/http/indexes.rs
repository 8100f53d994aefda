//! Index queries, and keys in order.

use crate::binary::Binary;
use crate::fixture::Node;
use quoit_server::{JobClasses, ServerSettings};
use quoit_wire::messages::{
    IndexQueryType, RpbIndexReq, RpbIndexResp, RpbListBucketsReq, RpbListBucketsResp,
};
use serde_json::{Value, json};

/// Objects `k00` to `k09` with the numbers 0 to 9.
fn filled() -> Node {
    filled_with(ServerSettings::default())
}

fn filled_with(settings: ServerSettings) -> Node {
    let node = Node::with(settings);
    let mut client = node.connect();
    for number in 0..10 {
        let number = number.to_string();
        let headers = [("Content-Type", "a/b"), ("X-Riak-Index-N_int", number.as_str())];
        let path = format!("/buckets/b/keys/k0{number}");
        client.request("PUT", &path, &headers, b"v");
    }
    node
}

/// The documents of the parts of a body.
fn parts(body: &str, boundary: &str) -> Vec<Value> {
    let delimiter = format!("--{boundary}");
    let parts = body.split(&delimiter).filter_map(|part| part.split_once("\r\n\r\n"));
    parts.map(|(_, document)| serde_json::from_str(document.trim()).expect("JSON")).collect()
}

#[test]
fn pages_lead_from_one_to_the_next() {
    let node = filled();
    let path = "/buckets/b/index/n_int/2/8?return_terms=true&max_results=4";
    let first = node.get(path).json();
    assert_eq!(first["results"], json!([{"2": "k02"}, {"3": "k03"}, {"4": "k04"}, {"5": "k05"}]));
    let continuation = first["continuation"].as_str().expect("the page is full");
    let second = node.get(&format!("{path}&continuation={continuation}")).json();
    assert_eq!(second, json!({"results": [{"6": "k06"}, {"7": "k07"}, {"8": "k08"}]}));
    let other = path.replace("2/8", "2/7");
    let answer = node.get(&format!("{other}&continuation={continuation}"));
    assert_eq!(answer.status, 400);
    assert!(answer.text().starts_with("Invalid query: {invalid_continuation,"));
}

#[test]
fn streams_have_a_part_for_each_chunk_and_one_for_the_continuation() {
    let node = filled();
    let answer = node.get("/buckets/b/index/n_int/0/9?stream=true&max_results=3");
    let media_type = answer.header("content-type").expect("a type").to_owned();
    let boundary = media_type.strip_prefix("multipart/mixed;boundary=").expect("no space");
    let documents = parts(answer.text(), boundary);
    assert_eq!(documents.len(), 2);
    assert_eq!(documents[0], json!({"keys": ["k00", "k01", "k02"]}));
    assert!(documents[1]["continuation"].is_string());
    assert!(answer.text().ends_with(&format!("\r\n--{boundary}--\r\n")));
    let nothing = node.get("/buckets/b/index/n_int/20/30?stream=true");
    assert_eq!(nothing.status, 200);
    assert!(!nothing.text().contains("Content-Type"), "no part");
}

#[test]
fn streams_go_to_clients_that_take_their_parts_or_the_whole() {
    let node = filled();
    let mut client = node.connect();
    let mut status =
        |path: &str, accept: &str| client.request("GET", path, &[("Accept", accept)], b"").status;
    for accept in ["application/json", "multipart/mixed", "*/*"] {
        assert_eq!(status("/buckets/b/index/n_int/0/9?stream=true", accept), 200, "{accept}");
    }
    assert_eq!(status("/buckets/b/index/n_int/0/9?stream=true", "text/plain"), 406);
    assert_eq!(status("/buckets/b/index/n_int/0/9", "multipart/mixed"), 406);
}

#[test]
fn head_requests_and_invalid_paths_are_answered_without_a_query() {
    let node = filled();
    let mut client = node.connect();
    let head = client.request("HEAD", "/buckets/b/index/n_int/0/9", &[], b"");
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(client.request("GET", "/ping", &[], b"").text(), "OK", "nothing follows a HEAD");
    assert_eq!(node.get("/types/none/buckets/b/index/n_int/1").status, 404);
    assert_eq!(node.get("/buckets/b/index/n_int").status, 400);
    assert_eq!(node.get("/buckets/b/index/n_int/1/2/3").status, 400);
    assert_eq!(node.put("/mapred", "x").status, 405);
}

#[test]
fn queries_that_are_switched_off_are_refused() {
    let jobs = JobClasses { secondary_index: false, ..JobClasses::default() };
    let node = Node::with(ServerSettings { jobs, ..ServerSettings::default() });
    let answer = node.get("/buckets/b/index/f_bin/x");
    let words = "Operation '{riak_kv,secondary_index}' is not enabled";
    assert_eq!((answer.status, answer.text()), (403, words));
    assert_eq!(node.get("/buckets/b/index/f_bin/x?stream=true").status, 200);
}

#[test]
fn keys_are_listed_by_prefix_and_range_in_order() {
    let node = filled();
    node.put("/buckets/b/keys/a", "v");
    let listed = |parameters: &str| {
        node.get(&format!("/buckets/b/keys?keys=true{parameters}")).json()["keys"].clone()
    };
    assert_eq!(listed("&start=k08"), json!(["k08", "k09"]));
    assert_eq!(listed("&end=k00"), json!(["a", "k00"]));
    assert_eq!(listed("&prefix=k0&start=k03&end=k05"), json!(["k03", "k04", "k05"]));
    assert_eq!(listed("&prefix=z"), json!([]));
    let page = node.get("/buckets/b/keys?keys=true&prefix=k&max_results=6").json();
    let continuation = page["continuation"].as_str().expect("the page is full");
    let rest = listed(&format!("&prefix=k&max_results=6&continuation={continuation}"));
    assert_eq!(rest, json!(["k06", "k07", "k08", "k09"]));
    assert_eq!(node.get("/buckets/b/keys?keys=true&max_results=0").status, 400);
}

#[test]
fn lists_in_one_piece_have_a_bound_and_name_what_has_none() {
    let settings = ServerSettings { whole_answer_bytes_max: 1_000, ..ServerSettings::default() };
    let node = filled_with(settings);
    for number in 0..10 {
        assert_eq!(node.put(&format!("/buckets/bucket-{number}/keys/k"), "v").status, 204);
    }
    let mut client = Binary::connect(&node);
    let refused = client.refusal(&RpbListBucketsReq::default());
    assert_eq!(refused, "the answer has more than 1000 bytes; ask for a stream");
    let stream = RpbListBucketsReq { stream: Some(true), ..RpbListBucketsReq::default() };
    assert_eq!(client.ask::<RpbListBucketsResp>(&stream).buckets.len(), 11);
    assert_eq!(client.ask::<RpbListBucketsResp>(&stream).done, Some(true), "the end of the stream");

    let mut client = Binary::connect(&node);
    let query = RpbIndexReq {
        bucket: "b".into(),
        index: "n_int".into(),
        qtype: IndexQueryType::Range as i32,
        range_min: Some("0".into()),
        range_max: Some("9".into()),
        ..RpbIndexReq::default()
    };
    let words =
        "the answer has more than 1000 bytes; ask for a stream, or in pages with max_results";
    assert_eq!(client.refusal(&query), words);
    let page = RpbIndexReq { max_results: Some(4), ..query.clone() };
    assert_eq!(client.ask::<RpbIndexResp>(&page).keys.len(), 4);

    // The value of each object is one byte.
    let mut client = Binary::connect(&node);
    let of_objects = RpbIndexReq { index: "$bucket".into(), return_body: Some(true), ..query };
    assert_eq!(client.refusal(&of_objects), words);
}
