//! Index queries, as streams and in pages.

use crate::fake::Fake;
use bytes::Bytes;
use quoit_client::wire::messages::*;
use quoit_client::{Bucket, IndexQuery};
use std::time::Duration;
use tokio::join;

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn keys(keys: &[&'static str]) -> RpbIndexResp {
    RpbIndexResp { keys: keys.iter().map(|key| bytes(key)).collect(), ..RpbIndexResp::default() }
}

#[tokio::test]
async fn a_page_has_terms_and_says_how_to_go_on() {
    let (mut fake, client) = Fake::with_client().await;
    let query = IndexQuery::range(&Bucket::new("b").typed("t"), "age_int", -5, 30)
        .with_terms()
        .max_results(2)
        .continue_after(bytes("before"))
        .timeout(Duration::from_secs(9));
    let (page, asked) = join!(client.query_page(&query), async {
        let request = fake.next().await;
        let results = vec![RpbPair { key: bytes("-3"), value: Some(bytes("k")) }];
        let continuation = Some(bytes("after"));
        let answer = RpbIndexResp { results, continuation, ..RpbIndexResp::default() };
        request.answer(&answer).await;
        request.message::<RpbIndexReq>()
    });
    let expected = RpbIndexReq {
        bucket: bytes("b"),
        bucket_type: Some(bytes("t")),
        index: bytes("age_int"),
        qtype: IndexQueryType::Range as i32,
        range_min: Some(bytes("-5")),
        range_max: Some(bytes("30")),
        return_terms: Some(true),
        max_results: Some(2),
        continuation: Some(bytes("before")),
        timeout: Some(9000),
        ..RpbIndexReq::default()
    };
    assert_eq!(asked, expected);
    let page = page.unwrap();
    assert_eq!(page.continuation, Some(bytes("after")));
    assert_eq!(page.matches[0].term, Some(bytes("-3")));
    assert_eq!(page.matches[0].key, "k");
}

#[tokio::test]
async fn matches_stream_in_until_the_end_which_has_the_continuation() {
    let (mut fake, client) = Fake::with_client().await;
    let query = IndexQuery::equal(&Bucket::new("b"), "c_bin", "red").max_results(3);
    let (results, request) = join!(client.query(&query), fake.next());
    let asked: RpbIndexReq = request.message();
    assert_eq!((asked.stream, asked.key), (Some(true), Some(bytes("red"))));
    let mut results = results.unwrap();
    request.answer(&keys(&["x", "y"])).await;
    let first: Vec<Bytes> =
        results.next().await.unwrap().unwrap().into_iter().map(|each| each.key).collect();
    assert_eq!(first, ["x", "y"]);
    request.answer(&keys(&["z"])).await;
    let continuation = Some(bytes("after"));
    let done = Some(true);
    request.answer(&RpbIndexResp { continuation, done, ..RpbIndexResp::default() }).await;
    assert_eq!(results.next().await.unwrap().unwrap()[0].key, "z");
    assert!(results.next().await.is_none() && results.next().await.is_none());
    assert_eq!(results.continuation(), Some(&bytes("after")));
}

#[tokio::test]
async fn an_error_in_the_middle_ends_the_answer() {
    let (mut fake, client) = Fake::with_client().await;
    let query = IndexQuery::keys(&Bucket::new("b"));
    let (results, request) = join!(client.query(&query), fake.next());
    request.answer(&keys(&["x"])).await;
    request.refuse("{error,timeout}").await;
    let error = results.unwrap().collect().await.unwrap_err();
    assert!(error.server().is_some(), "{error}");
}

#[tokio::test]
async fn a_prefix_is_a_range_without_its_end() {
    let (mut fake, client) = Fake::with_client().await;
    for (prefix, end) in [(&b"ab"[..], &b"ac"[..]), (b"a\xff\xff", b"b"), (b"\x00", b"\x01")] {
        let query = IndexQuery::keys_with_prefix(&Bucket::new("b"), Bytes::from_static(prefix));
        let (page, asked) = join!(client.query_page(&query), async {
            let request = fake.next().await;
            request.answer(&keys(&[])).await;
            request.message::<RpbIndexReq>()
        });
        assert_eq!(page.unwrap().matches, []);
        assert_eq!(
            (asked.range_min.as_deref(), asked.range_max.as_deref()),
            (Some(prefix), Some(end))
        );
        assert_eq!(asked.range_max_excluded, Some(true));
    }
}
