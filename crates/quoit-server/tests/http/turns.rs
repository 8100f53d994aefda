//! Connections with many pipelined requests take turns with others.

use crate::binary::Binary;
use crate::fixture::Node;
use quoit_wire::frame::append_message;
use quoit_wire::messages::{RpbContent, RpbGetReq, RpbPutReq};
use std::thread;

/// Number of requests that a well-behaved client makes one after the other, beside clients with many
/// pipelined requests.
const GOOD_COUNT: usize = 20;

/// The key that a greedy client writes last.
fn last_of(place: usize) -> String {
    format!("last-{place}")
}

/// Number of greedy clients that have received all answers.
fn served_count(node: &Node, greedy_count: usize) -> usize {
    let mut client = node.connect();
    let status = |place: usize| {
        let path = format!("/buckets/b/keys/{}", last_of(place));
        client.request("GET", &path, &[], b"").status
    };
    (0..greedy_count).map(status).filter(|status| *status == 200).count()
}

#[test]
fn statistics_asked_for_many_times_at_once_do_not_keep_others_waiting() {
    const GREEDY_COUNT: usize = 20;
    let node = Node::start();
    node.put("/buckets/b/keys/k", "v");
    let mut good = node.connect();
    let start_greedy = |place: usize| {
        let mut requests = "GET /stats HTTP/1.1\r\n\r\n".repeat(200);
        requests.push_str(&format!(
            "PUT /buckets/b/keys/{} HTTP/1.1\r\nContent-Type: a/b\r\nContent-Length: 1\r\n\r\nx",
            last_of(place)
        ));
        let mut client = node.connect();
        client.send(requests.as_bytes());
        thread::spawn(move || client.drain())
    };
    let greedy: Vec<_> = (0..GREEDY_COUNT).map(start_greedy).collect();
    for _ in 0..GOOD_COUNT {
        assert_eq!(good.request("GET", "/buckets/b/keys/k", &[], b"").text(), "v");
    }
    assert_eq!(served_count(&node, GREEDY_COUNT), 0, "some were served before the good client");
    drop(node);
    greedy.into_iter().for_each(|client| client.join().expect("a client that reads"));
}

#[test]
fn statistics_are_made_one_at_a_time_and_other_requests_do_not_wait_for_them() {
    let node = Node::start();
    let alone = node.run(node.context.heavy.acquire()).expect("it is never closed");
    let mut waiting: Vec<_> = ["/stats", "/metrics", "/admin/v1/status", "/admin/v1/stat"]
        .into_iter()
        .map(|path| {
            let mut client = node.connect();
            client
                .send(format!("GET /ping HTTP/1.1\r\n\r\nGET {path} HTTP/1.1\r\n\r\n").as_bytes());
            // The ping is answered although the statistics behind it have to wait.
            assert_eq!(client.read("GET").text(), "OK");
            client
        })
        .collect();
    for _ in 0..GOOD_COUNT {
        assert_eq!(node.get("/ping").text(), "OK");
    }
    assert!(waiting.iter().all(|client| !client.has_answer()));
    drop(alone);
    for client in &mut waiting {
        assert_eq!(client.read("GET").status, 200);
    }
}

#[test]
fn a_connection_with_many_small_requests_at_hand_does_not_keep_others_waiting() {
    let node = Node::start();
    node.put("/buckets/b/keys/k", "v");
    let mut good = node.connect();
    let get = RpbGetReq { bucket: "b".into(), key: "k".into(), ..RpbGetReq::default() };
    let put = RpbPutReq {
        bucket: "b".into(),
        key: Some(last_of(0).into()),
        content: RpbContent { value: "x".into(), ..RpbContent::default() },
        ..RpbPutReq::default()
    };
    let mut requests = Vec::new();
    for _ in 0..60_000 {
        append_message(&mut requests, &get).unwrap();
    }
    append_message(&mut requests, &put).unwrap();
    let mut greedy = Binary::connect(&node);
    let reader = greedy.reader();
    let sender = thread::spawn(move || greedy.send(&requests));
    let drain = thread::spawn(move || reader.drain());
    for _ in 0..GOOD_COUNT {
        assert_eq!(good.request("GET", "/buckets/b/keys/k", &[], b"").text(), "v");
    }
    assert_eq!(served_count(&node, 1), 0, "all was served before the good client");
    drop(node);
    let _ = (sender.join(), drain.join());
}

#[test]
fn many_requests_at_hand_that_are_refused_do_not_keep_others_waiting() {
    const REFUSED_COUNT: usize = 100_000;
    let node = Node::start();
    node.context.readiness.close("the node is starting".into());
    let mut good = node.connect();
    let get = RpbGetReq { bucket: "b".into(), key: "k".into(), ..RpbGetReq::default() };
    let mut request = Vec::new();
    append_message(&mut request, &get).unwrap();
    let mut greedy = Binary::connect(&node);
    let mut reader = greedy.reader();
    let sender = thread::spawn(move || greedy.send(&request.repeat(REFUSED_COUNT)));
    let refused = thread::spawn(move || {
        for _ in 0..REFUSED_COUNT {
            assert_eq!(reader.error(), "the node is starting");
        }
    });
    for _ in 0..GOOD_COUNT {
        assert_eq!(good.request("GET", "/livez", &[], b"").status, 200);
    }
    assert!(!refused.is_finished(), "all was refused before the good client");
    refused.join().expect("each request is refused");
    assert!(sender.join().expect("a client that sends"), "the connection goes on");
}
