//! Tests of the trees by which Riak nodes compare clusters, on a single node.

use crate::one_node::fixture::{Fixture, fixture, fixture_on, key};
use quoit_core::StoreSettings;
use quoit_model::segments::{Segments, TreeSize};
use quoit_store::memory::{MemoryEngine, MemorySettings};
use std::sync::Arc;

/// A store on an engine without digests.
fn without_digests() -> Fixture {
    fixture_on(StoreSettings::default(), |ring_size, clock| {
        let settings = MemorySettings { ttl_secs: Some(3_600), ..MemorySettings::default() };
        Arc::new(MemoryEngine::new(settings, ring_size, clock))
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn trees_and_their_clocks_are_the_same_with_and_without_digests_in_the_engine() {
    let all = Segments::of_count(1, vec![0]);
    let mut told = Vec::new();
    for fixture in [fixture(), without_digests()] {
        for name in ["a", "b", "c"] {
            fixture.put(key("default", name), "value").await;
        }
        let root = fixture.store.riak_trees().root(3).await.unwrap();
        assert_eq!(root.len(), TreeSize::Large.branch_count() as usize * 4);
        assert!(root.iter().any(|byte| *byte != 0));
        let clocks = fixture.store.riak_trees().clocks(3, &all, None).await.unwrap();
        let mut keys: Vec<_> = clocks.into_iter().map(|clock| clock.key).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["a", "b", "c"]);
        told.push(root);
    }
    assert_eq!(told[0], told[1]);
}
