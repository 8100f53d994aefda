//! Clients that disconnect while the server works for them.

use crate::binary::Binary;
use crate::fixture::Node;
use quoit_core::LongRequest;
use quoit_server::ConnectionCounts;
use quoit_wire::messages::{
    IndexQueryType, RpbAaeFoldListBucketsReq, RpbIndexReq, RpbListBucketsReq,
};
use std::sync::mpsc;
use std::time::Duration;
use tokio::time::{Instant, interval};

/// A node whose disk operations wait until the sender is dropped. Index queries and lists of buckets wait
/// for them; keys are listed by threads of their own.
fn held() -> (Node, mpsc::Sender<()>) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.worker_threads(1).max_blocking_threads(1).enable_all().build().unwrap();
    let node = Node::inside(runtime);
    let (holder, held) = mpsc::channel::<()>();
    node.run(async { drop(tokio::task::spawn_blocking(move || held.recv())) });
    (node, holder)
}

/// Waits until this many connections have been opened and all of them have ended.
fn await_ends(node: &Node, connections: &ConnectionCounts, count: u64) {
    node.run(async {
        let end = Instant::now() + Duration::from_secs(20);
        let mut looks = interval(Duration::from_millis(5));
        while (connections.total(), connections.active()) != (count, 0) {
            assert!(Instant::now() < end, "{} of {count} are open", connections.active());
            looks.tick().await;
        }
    });
    for kind in [LongRequest::IndexQuery, LongRequest::Listing, LongRequest::Fold] {
        assert_eq!(node.context.store.stats().active(kind), 0, "{kind:?}");
    }
}

#[test]
fn queries_and_lists_of_buckets_over_http_end_when_their_client_is_gone() {
    let (node, holder) = held();
    let paths = [
        "/buckets/b/index/f_bin/x",
        "/buckets/b/index/f_bin/x/y?stream=true",
        "/buckets?buckets=true",
        "/buckets?buckets=stream",
    ];
    for path in paths {
        let mut client = node.connect();
        client.send(format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes());
    }
    await_ends(&node, &node.context.http_connections, paths.len() as u64);
    drop(holder);
}

#[test]
fn queries_and_lists_of_buckets_over_protocol_buffers_end_when_their_client_is_gone() {
    let (node, holder) = held();
    let query = RpbIndexReq {
        bucket: "b".into(),
        index: "f_bin".into(),
        qtype: IndexQueryType::Eq as i32,
        key: Some("x".into()),
        ..RpbIndexReq::default()
    };
    for stream in [None, Some(true)] {
        Binary::connect(&node).leave(&RpbIndexReq { stream, ..query.clone() });
        Binary::connect(&node).leave(&RpbListBucketsReq { stream, ..RpbListBucketsReq::default() });
    }
    Binary::connect(&node).leave(&RpbAaeFoldListBucketsReq::default());
    await_ends(&node, &node.context.pb_connections, 5);
    drop(holder);
}
