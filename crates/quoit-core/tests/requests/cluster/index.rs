//! Index queries over all nodes.

use crate::cluster::fixture::{Cluster, host};
use bytes::Bytes;
use quoit_core::{
    Counter, DeleteRequest, Distribution, IndexMatch, IndexQuery, IndexSelection, LongRequest,
    Pattern, Precondition, PutRequest, ReadOptions, RequestError, WriteOptions,
};
use quoit_model::key::BucketRef;
use quoit_model::key_bounds::KeyBounds;
use quoit_model::object::{IndexEntry, IndexTerm};
use quoit_model::props::Quorum;
use serde_json::json;

const COUNT: i128 = 300;

fn number(term: i128) -> IndexTerm {
    IndexTerm::integer(term)
}

fn name(index: i128) -> String {
    format!("key-{index:04}")
}

/// Objects 0 and following, each with two terms of `n_int`, `index % 10` and `-index`, on all replicas.
async fn put_all(cluster: &Cluster) {
    for index in 0..COUNT {
        let entry = |term| IndexEntry { field: "n_int".into(), term: number(term) };
        put(cluster, &name(index), vec![entry(-index - 1), entry(index % 10)]).await;
    }
}

async fn put(cluster: &Cluster, name: &str, indexes: Vec<IndexEntry>) {
    let key = BucketRef::untyped(b"bucket").key(name.as_bytes());
    let mut request = PutRequest::of(key, Bytes::from_static(b"v"));
    request.meta.indexes = indexes;
    request.options = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
    cluster.nodes[0].store.put(request).await.unwrap();
}

fn query(selection: IndexSelection) -> IndexQuery {
    IndexQuery::new(BucketRef::untyped(b"bucket"), selection)
}

fn numbers(min: i128, max: i128) -> IndexQuery {
    let field = Bytes::from_static(b"n_int");
    query(IndexSelection::Terms { field, min: number(min), max: number(max) })
}

fn in_order(mut query: IndexQuery) -> IndexQuery {
    query.sorted = true;
    query
}

/// Matches of a query on a node in the order of arrival, and its continuation.
async fn answer(
    cluster: &Cluster,
    node: usize,
    query: IndexQuery,
) -> Result<(Vec<IndexMatch>, Option<Bytes>), RequestError> {
    let mut results = cluster.nodes[node].store.listings().query_index(query).await?;
    let mut matches = Vec::new();
    while let Some(chunk) = results.next().await? {
        assert!(!chunk.is_empty(), "chunks are never empty");
        matches.extend(chunk);
    }
    Ok((matches, results.continuation()))
}

async fn found(cluster: &Cluster, node: usize, query: IndexQuery) -> Vec<IndexMatch> {
    answer(cluster, node, query).await.unwrap().0
}

/// The matches between two terms, in order.
fn expected(min: i128, max: i128) -> Vec<IndexMatch> {
    let all = (0..COUNT).flat_map(|index| [(-index - 1, index), (index % 10, index)]);
    let within = all.filter(|(term, _)| (min..=max).contains(term));
    let matched = |(term, index)| IndexMatch { term: Some(number(term)), key: name(index).into() };
    let mut matches: Vec<_> = within.map(matched).collect();
    matches.sort();
    matches
}

#[tokio::test(start_paused = true)]
async fn every_node_finds_every_entry_once() {
    let mut cluster = Cluster::of(5).await;
    put_all(&cluster).await;
    for node in 0..5 {
        let mut unsorted = found(&cluster, node, numbers(-20, 4)).await;
        unsorted.sort();
        assert_eq!(unsorted, expected(-20, 4));
        let sorted = in_order(numbers(-20, 4));
        assert_eq!(found(&cluster, node, sorted).await, expected(-20, 4));
        assert_eq!(found(&cluster, node, numbers(-1, -1)).await, expected(-1, -1));
        assert_eq!(found(&cluster, node, numbers(4, -20)).await, []);
    }
    cluster.kill(2).await;
    let sorted = in_order(numbers(-1000, 1000));
    assert_eq!(found(&cluster, 1, sorted).await, expected(-1000, 1000));
}

#[tokio::test(start_paused = true)]
async fn pages_put_together_are_the_whole_in_order() {
    let cluster = Cluster::of(5).await;
    put_all(&cluster).await;
    for size in [1, 7, 100] {
        let (mut matches, mut page_count) = (Vec::new(), 0);
        let mut continuation: Option<Bytes> = None;
        loop {
            let mut page = numbers(0, 3);
            page.max_results = Some(size);
            if let Some(continuation) = &continuation {
                page.continue_after(continuation).unwrap();
            }
            // Any node can continue after a page of another one.
            let answered = answer(&cluster, page_count % 5, page).await.unwrap();
            assert_eq!(answered.1.is_some(), answered.0.len() == size as usize);
            matches.extend(answered.0);
            page_count += 1;
            match answered.1 {
                Some(next) => continuation = Some(next),
                None => break,
            }
        }
        assert_eq!(matches, expected(0, 3), "pages of {size}");
        assert_eq!(page_count, 120 / size as usize + 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_continuation_sorts_what_follows_though_there_is_no_page_size() {
    let cluster = Cluster::of(5).await;
    put_all(&cluster).await;
    let mut first = numbers(0, 3);
    first.max_results = Some(10);
    let (matches, continuation) = answer(&cluster, 0, first).await.unwrap();
    assert_eq!(matches, expected(0, 3)[..10]);
    let mut rest = numbers(0, 3);
    rest.continue_after(&continuation.unwrap()).unwrap();
    assert_eq!(found(&cluster, 3, rest).await, expected(0, 3)[10..]);
}

#[tokio::test(start_paused = true)]
async fn patterns_leave_out_what_they_do_not_match_and_it_does_not_count() {
    let cluster = Cluster::of(5).await;
    for index in 0..100 {
        let term = IndexTerm::Binary(format!("term {index}").into());
        put(&cluster, &name(index), vec![IndexEntry { field: "t_bin".into(), term }]).await;
    }
    let field = Bytes::from_static(b"t_bin");
    let (min, max) = (IndexTerm::Binary("a".into()), IndexTerm::Binary("z".into()));
    let mut page = query(IndexSelection::Terms { field, min, max });
    page.pattern = Pattern::new(b"[37]$").ok();
    page.max_results = Some(12);
    let matches = found(&cluster, 4, page).await;
    let wanted = [13, 17, 23, 27, 3, 33, 37, 43, 47, 53, 57, 63];
    let keys: Vec<_> = matches.into_iter().map(|each| each.key).collect();
    assert_eq!(keys, wanted.map(|index| Bytes::from(name(index))));
    let mut of_keys = query(IndexSelection::Keys(KeyBounds::ALL));
    of_keys.pattern = Pattern::new(b"^key-000").ok();
    assert_eq!(found(&cluster, 1, of_keys).await.len(), 10);
}

#[tokio::test(start_paused = true)]
async fn keys_come_in_order_within_their_bounds_and_without_tombstones() {
    let cluster = Cluster::of(5).await;
    put_all(&cluster).await;
    let deleted = name(12);
    let request = DeleteRequest {
        key: BucketRef::untyped(b"bucket").key(deleted.as_bytes()),
        context: None,
        precondition: Precondition::default(),
        rw: None,
        read: ReadOptions::default(),
        write: WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() },
    };
    cluster.nodes[0].store.delete(request).await.unwrap();
    let keys = |range: &[std::ops::RangeInclusive<i128>]| -> Vec<IndexMatch> {
        let indexes = range.iter().cloned().flatten();
        indexes.map(|index| IndexMatch { term: None, key: name(index).into() }).collect()
    };
    let sorted = |bounds| in_order(query(IndexSelection::Keys(bounds)));
    let between = KeyBounds::between(name(5).into(), name(15).as_bytes());
    assert_eq!(found(&cluster, 2, sorted(between)).await, keys(&[5..=11, 13..=15]));
    let prefix = KeyBounds::of_prefix("key-001".into());
    assert_eq!(found(&cluster, 3, sorted(prefix)).await, keys(&[10..=11, 13..=19]));
    let all = found(&cluster, 4, sorted(KeyBounds::ALL)).await;
    assert_eq!(all, keys(&[0..=11, 13..=COUNT - 1]));
    let only = KeyBounds::between(name(7).into(), name(7).as_bytes());
    assert_eq!(found(&cluster, 0, sorted(only)).await, keys(&[7..=7]));
    let none = KeyBounds::between(name(7).into(), name(6).as_bytes());
    assert_eq!(found(&cluster, 0, sorted(none)).await, []);
}

#[tokio::test(start_paused = true)]
async fn another_replica_goes_on_where_a_node_dies_in_the_middle() {
    for sorted in [false, true] {
        let cluster = Cluster::of(5).await;
        for index in 0..2_500 {
            let entry = IndexEntry { field: "n_int".into(), term: number(index % 50) };
            put(&cluster, &name(index), vec![entry]).await;
        }
        let mut asked = numbers(0, 100);
        asked.sorted = sorted;
        let mut results = cluster.nodes[0].store.listings().query_index(asked).await.unwrap();
        let mut matches = results.next().await.unwrap().unwrap();
        assert!(matches.len() < 2_500, "the query is in the middle");
        cluster.network.kill(&host(4));
        cluster.network.kill(&host(3));
        while let Some(chunk) = results.next().await.unwrap() {
            matches.extend(chunk);
        }
        if sorted {
            assert!(matches.is_sorted());
        }
        matches.sort();
        assert_eq!(matches.len(), 2_500, "each entry once");
        matches.dedup();
        assert_eq!(matches.len(), 2_500, "each entry");
    }
}

#[tokio::test(start_paused = true)]
async fn a_query_is_complete_or_an_error() {
    let mut cluster = Cluster::of(3).await;
    cluster.create_type("single", json!({"n_val": 1})).await;
    cluster.kill(1).await;
    let mut asked = numbers(0, 9);
    asked.bucket_type = Bytes::from_static(b"single");
    let answered = answer(&cluster, 0, asked).await;
    assert!(
        matches!(answered, Err(RequestError::InsufficientCoverage)),
        "answered without a third of the entries: {answered:?}"
    );
    let mut asked = numbers(0, 9);
    asked.bucket_type = Bytes::from_static(b"none");
    assert!(matches!(answer(&cluster, 0, asked).await, Err(RequestError::NoSuchType(_))));
}

#[tokio::test(start_paused = true)]
async fn queries_are_counted_when_they_begin_and_when_they_end() {
    let cluster = Cluster::of(3).await;
    put_all(&cluster).await;
    let store = &cluster.nodes[0].store;
    let total = |counter| store.stats().snapshot().total(counter);
    let mut results = store.listings().query_index(numbers(0, 3)).await.unwrap();
    assert_eq!(store.stats().active(LongRequest::IndexQuery), 1);
    let mut count = 0;
    while let Some(chunk) = results.next().await.unwrap() {
        count += chunk.len() as u64;
    }
    drop(results);
    assert_eq!(store.stats().active(LongRequest::IndexQuery), 0);
    let summary = store.stats().snapshot().summary(Distribution::IndexResults);
    assert_eq!((summary.count, summary.mean), (1, count));
    // A query that is not read to its end, and one that can't begin.
    drop(store.listings().query_index(numbers(0, 3)).await.unwrap());
    let mut unknown = numbers(0, 3);
    unknown.bucket_type = Bytes::from_static(b"unknown");
    assert!(store.listings().query_index(unknown).await.is_err());
    assert_eq!(total(Counter::IndexQueries), 3);
    assert_eq!(total(Counter::IndexQueriesComplete), 1);
    assert_eq!(total(Counter::IndexQueryErrors), 1);
    assert_eq!(store.stats().active(LongRequest::IndexQuery), 0);
}

#[tokio::test(start_paused = true)]
async fn what_happens_to_entries_is_counted_on_each_node_that_has_them() {
    let cluster = Cluster::of(3).await;
    let entry = |term| IndexEntry { field: "n_int".into(), term: number(term) };
    put(&cluster, "one", vec![entry(1), entry(2)]).await;
    put(&cluster, "none", Vec::new()).await;
    let key = BucketRef::untyped(b"bucket").key(b"one");
    let mut request = DeleteRequest::of(key);
    request.write.w = Some(Quorum::All);
    cluster.nodes[0].store.delete(request).await.unwrap();
    for node in &cluster.nodes {
        let figures = node.store.figures();
        for (counter, expected) in [
            (Counter::IndexWrites, 1),
            (Counter::IndexEntriesWritten, 2),
            (Counter::IndexDeletes, 1),
            (Counter::IndexEntriesDeleted, 2),
            (Counter::IndexReads, 0),
        ] {
            assert_eq!(figures.total(counter), expected, "{counter:?}");
            assert_eq!(figures.last_minute(counter), expected, "{counter:?} of the last minute");
        }
    }
    found(&cluster, 0, numbers(0, 9)).await;
    let reads =
        |node: &crate::cluster::fixture::Node| node.store.figures().total(Counter::IndexReads);
    let read_count: u64 = cluster.nodes.iter().map(reads).sum();
    assert!((1..=3).contains(&read_count), "{read_count} nodes were asked");
}
