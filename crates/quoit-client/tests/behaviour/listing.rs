//! Listings as streams.

use crate::fake::Fake;
use bytes::Bytes;
use quoit_client::wire::append_message;
use quoit_client::wire::messages::*;
use quoit_client::{Bucket, Client, Error};
use std::time::Duration;
use tokio::join;

fn keys(keys: &[&'static str]) -> RpbListKeysResp {
    let keys = keys.iter().map(|key| Bytes::from_static(key.as_bytes())).collect();
    RpbListKeysResp { keys, done: None }
}

const DONE: RpbListKeysResp = RpbListKeysResp { keys: Vec::new(), done: Some(true) };

#[tokio::test]
async fn keys_come_some_at_a_time_until_the_end() {
    let (mut fake, client) = Fake::with_client().await;
    let bucket = Bucket::new("b").typed("t");
    let timeout = Some(Duration::from_secs(9));
    let (listing, request) = join!(client.list_keys(&bucket, timeout), fake.next());
    let expected = RpbListKeysReq {
        bucket: Bytes::from_static(b"b"),
        timeout: Some(9000),
        bucket_type: Some(Bytes::from_static(b"t")),
    };
    assert_eq!(request.message::<RpbListKeysReq>(), expected);
    let mut listing = listing.unwrap();
    request.answer(&keys(&["x", "y"])).await;
    assert_eq!(listing.next().await.unwrap().unwrap(), ["x", "y"]);
    request.answer(&keys(&[])).await;
    request.answer(&keys(&["z"])).await;
    assert_eq!(listing.next().await.unwrap().unwrap(), ["z"]);
    request.answer(&DONE).await;
    assert!(listing.next().await.is_none());
    assert!(listing.next().await.is_none());
    assert_eq!(fake.closed().await, 0);
}

#[tokio::test]
async fn names_in_the_last_frame_are_not_lost() {
    let (mut fake, client) = Fake::with_client().await;
    let (listing, request) = join!(client.list_buckets(Some(b"t"), None), fake.next());
    let asked: RpbListBucketsReq = request.message();
    assert_eq!((asked.stream, asked.bucket_type.unwrap()), (Some(true), Bytes::from_static(b"t")));
    let last = vec![Bytes::from_static(b"b")];
    request.answer(&RpbListBucketsResp { buckets: last, done: Some(true) }).await;
    assert_eq!(listing.unwrap().collect().await.unwrap(), ["b"]);
}

#[tokio::test]
async fn an_error_in_the_middle_ends_the_list() {
    let (mut fake, client) = Fake::with_client().await;
    let bucket = Bucket::new("b");
    let (listing, request) = join!(client.list_keys(&bucket, None), fake.next());
    request.answer(&keys(&["x"])).await;
    request.refuse("timeout").await;
    let mut listing = listing.unwrap();
    assert!(listing.next().await.unwrap().is_ok());
    let error = listing.next().await.unwrap().unwrap_err();
    assert!(error.server().unwrap().is_timeout());
    assert!(listing.next().await.is_none());
}

#[tokio::test]
async fn names_are_not_lost_when_a_wait_for_them_is_given_up() {
    let (mut fake, client) = Fake::with_client().await;
    let bucket = Bucket::new("b");
    let (listing, request) = join!(client.list_keys(&bucket, None), fake.next());
    let mut listing = listing.unwrap();
    let mut frame = Vec::new();
    append_message(&mut frame, &keys(&["x", "y"])).unwrap();
    let (begin, rest) = frame.split_at(frame.len() / 2);
    request.answer_bytes(begin).await;
    let wait = tokio::time::timeout(Duration::from_millis(100), listing.next()).await;
    assert!(wait.is_err(), "half a frame has no names");
    request.answer_bytes(rest).await;
    assert_eq!(listing.next().await.unwrap().unwrap(), ["x", "y"]);
}

#[tokio::test]
async fn a_stream_that_stops_times_out() {
    let mut fake = Fake::start().await;
    let client = Client::builder()
        .node(fake.address.clone())
        .request_timeout(Duration::from_millis(400))
        .build()
        .unwrap();
    let bucket = Bucket::new("b");
    let (listing, request) = join!(client.list_keys(&bucket, None), fake.next());
    request.answer(&keys(&["x"])).await;
    let error = listing.unwrap().collect().await.unwrap_err();
    assert!(matches!(error, Error::Timeout { operation: "ListKeysReq", .. }), "{error}");
}

#[tokio::test]
async fn a_node_that_takes_no_bytes_does_not_hold_a_list_for_ever() {
    let node = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::builder()
        .node(node.local_addr().unwrap().to_string())
        .request_timeout(Duration::from_millis(400))
        .build()
        .unwrap();
    // More than the buffers of both sockets hold.
    let bucket = Bucket::new(vec![b'b'; 64 << 20]);
    let listing = tokio::time::timeout(Duration::from_secs(30), client.list_keys(&bucket, None));
    let error = listing.await.expect("the listing should end").unwrap_err();
    assert!(matches!(error, Error::Timeout { operation: "ListKeysReq", .. }), "{error}");
}

#[tokio::test]
async fn a_list_has_a_connection_to_itself_which_dropping_it_closes() {
    let (mut fake, client) = Fake::with_client().await;
    let bucket = Bucket::new("b");
    let (listing, request) = join!(client.list_keys(&bucket, None), fake.next());
    let serve = async {
        let ping = fake.next().await;
        assert_ne!(ping.connection, request.connection);
        ping.answer(&RpbPingResp {}).await;
    };
    join!(client.ping(), serve).0.unwrap();
    drop(listing);
    assert_eq!(fake.closed().await, request.connection);
}

#[tokio::test]
async fn lists_at_a_time_keep_to_their_bound() {
    let mut fake = Fake::start().await;
    let client = Client::builder()
        .node(fake.address.clone())
        .streams_max(1)
        .request_timeout(Duration::from_millis(400))
        .build()
        .unwrap();
    let bucket = Bucket::new("b");
    let (first, _request) = join!(client.list_keys(&bucket, None), fake.next());
    let error = client.list_keys(&bucket, None).await.unwrap_err();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    drop(first);
    assert_eq!(fake.closed().await, 0);
    let (second, request) = join!(client.list_keys(&bucket, None), fake.next());
    request.answer(&DONE).await;
    assert_eq!(second.unwrap().collect().await.unwrap(), Vec::<Bytes>::new());
}
