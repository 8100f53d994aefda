//! Large values in a cluster: sent between nodes from shared buffers.

use crate::cluster::fixture::{Cluster, key, r};
use bytes::Bytes;
use quoit_core::{PutRequest, SHARED_BYTES_MIN, WriteOptions};
use quoit_model::props::Quorum;

const KEYS: [&str; 4] = ["a", "b", "c", "d"];

fn value_of(size: usize) -> Bytes {
    (0..size).map(|place| (place * place / 7 + size) as u8).collect()
}

#[tokio::test(start_paused = true)]
async fn a_large_value_is_the_same_on_all_replicas_whichever_node_takes_it() {
    let cluster = Cluster::of(5).await;
    for size in [SHARED_BYTES_MIN - 1, SHARED_BYTES_MIN, SHARED_BYTES_MIN + 1, 1_500_000] {
        for (name, writer) in KEYS.iter().zip(cluster.nodes.iter().cycle().skip(size % 5)) {
            let (at, value) = (key("default", name), value_of(size));
            let options = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
            let put =
                PutRequest { options, return_object: true, ..PutRequest::of(at, value.clone()) };
            let stored = writer.store.put(put).await.unwrap().unwrap();
            assert!(stored.siblings[0].value == value, "{size} bytes are returned");
            for reader in &cluster.nodes {
                for count in 1..=3 {
                    let object = reader.read(at, r(count)).await.unwrap().unwrap();
                    assert_eq!(object.siblings.len(), 1);
                    assert!(object.siblings[0].value == value, "{size} bytes of {count} replicas");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_large_value_of_a_source_queue_is_the_one_that_was_written() {
    let cluster = Cluster::of_sources(3, quoit_core::StoreSettings::default()).await;
    for size in [SHARED_BYTES_MIN, 300_000] {
        let (at, value) = (key("default", "k"), value_of(size));
        cluster.nodes[0].store.put(PutRequest::of(at, value.clone())).await.unwrap();
        for reader in &cluster.nodes {
            let object = reader.read(at, r(3)).await.unwrap().unwrap();
            assert!(object.siblings[0].value == value, "{size} bytes");
        }
    }
}
