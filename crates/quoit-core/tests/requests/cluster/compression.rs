//! Tests with nodes of which only some compress values.

use crate::cluster::fixture::{Cluster, Node, r};
use bytes::Bytes;
use quoit_core::{Counter, IndexQuery, IndexSelection, PutRequest, WriteOptions};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::{IndexEntry, IndexTerm};
use quoit_model::props::Quorum;
use serde_json::json;

const COUNT: usize = 30;

/// True for nodes that compress by default.
const COMPRESSES: [bool; 3] = [true, false, true];

fn text(number: usize) -> String {
    format!("{number} says what all the others say. ").repeat(400)
}

fn key(name: &str) -> KeyRef<'_> {
    BucketRef::untyped(b"bucket").key(name.as_bytes())
}

async fn put(node: &Node, name: &str, number: usize) {
    let before = node.store.get(key(name), &r(3)).await.unwrap();
    let mut request = PutRequest::of(key(name), text(number).into());
    request.context = before.map(|object| object.clock).unwrap_or_default();
    let term = IndexTerm::integer(number as i128 % 3);
    request.meta.indexes = vec![IndexEntry { field: "n_int".into(), term }];
    request.options = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
    node.store.put(request).await.unwrap();
}

/// Checks that each node finds the same objects on all replicas, and that nothing is repaired.
async fn check(cluster: &Cluster, offset: usize) {
    for node in &cluster.nodes {
        for number in 0..COUNT {
            let name = format!("k{number}");
            let found = node.store.get(key(&name), &r(3)).await.unwrap().unwrap();
            let values: Vec<&[u8]> = found.siblings.iter().map(|each| &each.value[..]).collect();
            assert_eq!(values, [text(number + offset).as_bytes()], "{name}");
        }
        let (field, term) = (Bytes::from_static(b"n_int"), IndexTerm::integer(1));
        let selection = IndexSelection::Terms { field, min: term.clone(), max: term };
        let query = IndexQuery::new(BucketRef::untyped(b"bucket"), selection);
        let mut results = node.store.listings().query_index(query).await.unwrap();
        let mut found = 0;
        while let Some(chunk) = results.next().await.unwrap() {
            found += chunk.len();
        }
        assert_eq!(found, COUNT / 3);
        assert_eq!(node.store.stats().snapshot().total(Counter::ReadRepairs), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn copies_that_are_stored_differently_are_equal_and_each_node_keeps_its_own_way() {
    let defaults = COMPRESSES.map(|compresses| match compresses {
        true => json!({"compression": "lz4"}),
        false => json!({}),
    });
    let cluster = Cluster::with_untyped_defaults(&defaults).await;
    for number in 0..COUNT {
        let node = &cluster.nodes[number % COMPRESSES.len()];
        put(node, &format!("k{number}"), number).await;
    }
    let given: u64 = (0..COUNT).map(|number| text(number).len() as u64).sum();
    for (node, compresses) in cluster.nodes.iter().zip(COMPRESSES) {
        let stats = node.store.engine().stats();
        assert_eq!(stats.key_count, COUNT as u64, "every node has every record");
        // The bytes that records take in the memory engine.
        let stored = stats.index_bytes;
        let is_as_wanted = if compresses { stored < given / 5 } else { stored >= given };
        assert!(is_as_wanted, "{stored} bytes of {given}, compresses: {compresses}");
    }
    check(&cluster, 0).await;
    // Writes each record again, by a node that may store it in another form than the previous one.
    for number in 0..COUNT {
        let node = &cluster.nodes[(number + 1) % COMPRESSES.len()];
        put(node, &format!("k{number}"), number + 3).await;
    }
    check(&cluster, 3).await;
}
