//! Tests of pre-commit hooks that can't be run, on several nodes: most writes are coordinated by another node
//! than the one that a client asks.

use crate::cluster::data_types::{fetch_all, one_copy};
use crate::cluster::fixture::{Cluster, Node, key, put_of};
use bytes::Bytes;
use quoit_core::{Counter, DeleteRequest, RequestError};
use quoit_model::data_type::{FieldOperation, FieldUpdate, MapOperation, Operation, SetChange};
use quoit_model::props::PropUpdates;
use serde_json::{Value, json};
use std::fmt::Debug;

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn hooks() -> Value {
    json!([{"mod": "my_module", "fun": "my_function"}])
}

fn check_refused<T: Debug>(result: &Result<T, RequestError>) {
    assert!(matches!(result, Err(RequestError::HookNotRun(_))), "{result:?}");
}

/// Sets the hook of the bucket of all keys, and waits until all nodes know it.
async fn set_hook(cluster: &Cluster) {
    let mut updates = PropUpdates::default();
    updates.set("precommit", hooks());
    let first = cluster.nodes[0].store.control();
    first.set_bucket_props(key("default", "a").bucket, &updates).await.unwrap();
    let version = first.read().version();
    let knows = |node: &Node| node.store.control().read().version() >= version;
    cluster.until(|| cluster.nodes.iter().all(knows)).await;
}

#[tokio::test(start_paused = true)]
async fn puts_and_deletes_are_refused_whichever_node_coordinates_them() {
    let cluster = Cluster::of(5).await;
    for name in KEYS {
        cluster.nodes[0].put(key("default", name), "before").await;
    }
    set_hook(&cluster).await;
    for name in KEYS {
        let at = key("default", name);
        for node in &cluster.nodes {
            check_refused(&node.store.put(put_of(at, "after")).await);
            check_refused(&node.store.delete(DeleteRequest::of(at)).await);
            assert_eq!(node.values(at).await, ["before"]);
        }
    }
    let refused: u64 = cluster
        .nodes
        .iter()
        .map(|node| node.store.stats().snapshot().total(Counter::PrecommitFailures))
        .sum();
    let write_count = 2 * KEYS.len() * cluster.nodes.len();
    assert_eq!(refused, write_count as u64, "each counts once");
}

#[tokio::test(start_paused = true)]
async fn updates_of_data_types_are_refused_whichever_node_coordinates_them() {
    let cluster = Cluster::of(5).await;
    let element = || Bytes::from_static(b"element");
    let count = FieldUpdate::new("visits", FieldOperation::Counter(1));
    let map = MapOperation { updates: vec![count], ..MapOperation::default() };
    for (datatype, operation) in [
        ("counter", Operation::Counter(1)),
        ("set", Operation::Set(vec![SetChange::Add(element())])),
        ("gset", Operation::Gset(vec![element()])),
        ("hll", Operation::Hll(vec![element()])),
        ("map", Operation::Map(map)),
    ] {
        let props = json!({"datatype": datatype, "allow_mult": true, "precommit": hooks()});
        cluster.create_type(datatype, props).await;
        for name in KEYS {
            let at = key(datatype, name);
            for node in &cluster.nodes {
                let update = one_copy(at, operation.clone());
                check_refused(&node.store.update_data_type(update).await);
            }
            assert_eq!(fetch_all(&cluster.nodes[0], at).await, None, "{datatype}");
        }
    }
}
