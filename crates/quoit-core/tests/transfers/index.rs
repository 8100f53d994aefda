//! Tests of index queries while partitions move.

use crate::fixture::{TestCluster, id, key};
use bytes::Bytes;
use quoit_core::{IndexMatch, IndexQuery, IndexSelection, PutRequest};
use quoit_model::key::BucketRef;
use quoit_model::object::{IndexEntry, IndexTerm};

/// Number of entries, more than two chunks of an answer.
const COUNT: usize = 2_500;

async fn put_all(cluster: &TestCluster) {
    for index in 0..COUNT {
        let name = format!("key {index}");
        let mut request = PutRequest::of(key(&name), Bytes::from_static(b"v"));
        let term = IndexTerm::integer(index as i128);
        request.meta.indexes = vec![IndexEntry { field: "n_int".into(), term }];
        cluster.store(1).put(request).await.unwrap();
    }
}

fn all(sorted: bool) -> IndexQuery {
    let (min, max) = (IndexTerm::integer(0), IndexTerm::integer(i128::MAX));
    let terms = IndexSelection::Terms { field: Bytes::from_static(b"n_int"), min, max };
    let mut query = IndexQuery::new(BucketRef::untyped(b"bucket"), terms);
    query.sorted = sorted;
    query
}

fn expected() -> Vec<IndexMatch> {
    let matched = |index: usize| IndexMatch {
        term: Some(IndexTerm::integer(index as i128)),
        key: format!("key {index}").into(),
    };
    (0..COUNT).map(matched).collect()
}

#[tokio::test(start_paused = true)]
async fn a_query_goes_on_with_other_nodes_when_what_it_reads_here_moves_to_them() {
    for sorted in [false, true] {
        let mut cluster = TestCluster::alone(1).await;
        put_all(&cluster).await;
        let mut results = cluster.store(1).listings().query_index(all(sorted)).await.unwrap();
        let mut matches = results.next().await.unwrap().expect("there are more than a chunk has");
        assert!(matches.len() < COUNT, "the query is in the middle");
        for number in 2..=5 {
            cluster.add().await;
            cluster.join(number).await;
        }
        cluster.commit(1).await;
        cluster.until_moved(1, 0).await;
        let is_moved = |index: usize| !cluster.holders(&format!("key {index}")).contains(&id(1));
        let moved_count = || (0..COUNT).filter(|index| is_moved(*index)).count();
        let strays = || cluster.store(1).transfers().stats().stray_partition_count;
        cluster.until("strays are removed", || moved_count() > 0 && strays() == 0).await;
        while let Some(chunk) = results.next().await.unwrap() {
            matches.extend(chunk);
        }
        if !sorted {
            matches.sort();
        }
        assert_eq!(matches, expected(), "each entry once");
        for number in 1..=5 {
            let mut results =
                cluster.store(number).listings().query_index(all(true)).await.unwrap();
            let mut matches = Vec::new();
            while let Some(chunk) = results.next().await.unwrap() {
                matches.extend(chunk);
            }
            assert_eq!(matches, expected(), "what has moved is indexed where it came");
        }
    }
}
