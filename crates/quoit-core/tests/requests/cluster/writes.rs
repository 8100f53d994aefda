//! Tests of writes on any node.

use crate::cluster::fixture::{Cluster, key, put_of, r, values};
use quoit_core::{
    DeleteOutcome, DeleteRequest, Precondition, PutRequest, RequestError, UnmetCondition,
    WriteOptions,
};
use quoit_model::props::Quorum;
use serde_json::json;

const KEYS: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

#[tokio::test(start_paused = true)]
async fn what_any_node_writes_any_node_reads() {
    for count in [2, 3, 5] {
        let cluster = Cluster::of(count).await;
        for (name, writer) in KEYS.iter().zip(cluster.nodes.iter().cycle()) {
            let at = key("default", name);
            writer.put(at, name).await;
            for reader in &cluster.nodes {
                assert_eq!(reader.values(at).await, [*name], "of {count} nodes");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn all_three_copies_are_written_where_there_are_more_nodes() {
    let cluster = Cluster::of(5).await;
    for name in KEYS {
        let options = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
        let put = PutRequest { options, ..put_of(key("default", name), "v") };
        cluster.nodes[0].store.put(put).await.unwrap();
    }
    let held: u64 = cluster.nodes.iter().map(|node| node.store.engine().stats().key_count).sum();
    assert_eq!(held, 3 * KEYS.len() as u64);
}

#[tokio::test(start_paused = true)]
async fn a_put_answers_with_the_object_wherever_it_is_coordinated() {
    let cluster = Cluster::of(5).await;
    cluster.create_type("sibs", json!({"allow_mult": true})).await;
    for name in KEYS {
        let at = key("sibs", name);
        cluster.nodes[0].put(at, "one").await;
        let put = PutRequest { return_object: true, ..put_of(at, "two") };
        for node in [&cluster.nodes[1], &cluster.nodes[4]] {
            let found = node.store.put(put.clone()).await.unwrap();
            assert!(values(found).contains(&"two".to_owned()));
        }
        assert_eq!(cluster.nodes[2].values(at).await, ["one", "two", "two"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_with_the_context_of_a_read_replaces_what_the_read_showed() {
    let cluster = Cluster::of(4).await;
    cluster.create_type("sibs", json!({"allow_mult": true})).await;
    for name in KEYS {
        let at = key("sibs", name);
        cluster.nodes[0].put(at, "one").await;
        cluster.nodes[1].put(at, "two").await;
        let found = cluster.nodes[2].read(at, r(2)).await.unwrap().unwrap();
        let put = PutRequest { context: found.clock, ..put_of(at, "both") };
        cluster.nodes[3].store.put(put).await.unwrap();
        for node in &cluster.nodes {
            assert_eq!(node.values(at).await, ["both"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn conditions_are_about_what_a_read_would_show() {
    let cluster = Cluster::of(5).await;
    for name in KEYS {
        let at = key("default", name);
        cluster.nodes[0].put(at, "one").await;
        for node in &cluster.nodes {
            let precondition = Precondition { not_exists: true, ..Precondition::default() };
            let put = PutRequest { precondition, ..put_of(at, "two") };
            let refused = node.store.put(put).await;
            assert!(
                matches!(refused, Err(RequestError::Unmet(UnmetCondition::Exists))),
                "{refused:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_on_any_node_deletes_everywhere() {
    let cluster = Cluster::of(5).await;
    for (name, deleter) in KEYS.iter().zip(cluster.nodes.iter().cycle()) {
        let at = key("default", name);
        assert_eq!(
            deleter.store.delete(DeleteRequest::of(at)).await.unwrap(),
            DeleteOutcome::Missing
        );
        cluster.nodes[0].put(at, "one").await;
        assert_eq!(deleter.store.delete(DeleteRequest::of(at)).await.unwrap(), DeleteOutcome::Done);
        for node in &cluster.nodes {
            assert!(node.values(at).await.is_empty());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn faults_of_a_forwarded_write_are_those_of_a_local_one() {
    let cluster = Cluster::of(5).await;
    for name in KEYS {
        for node in &cluster.nodes {
            let unknown = node.store.put(put_of(key("nope", name), "v")).await;
            assert!(matches!(unknown, Err(RequestError::NoSuchType(_))), "{unknown:?}");
            let options = WriteOptions { w: Some(Quorum::Count(4)), ..WriteOptions::default() };
            let put = PutRequest { options, ..put_of(key("default", name), "v") };
            let above = node.store.put(put).await;
            assert!(matches!(above, Err(RequestError::NVal(_))), "{above:?}");
            let vetoed = Some("not this one".to_owned());
            let put = PutRequest { vetoed, ..put_of(key("default", name), "v") };
            let vetoed = node.store.put(put).await;
            assert!(
                matches!(&vetoed, Err(RequestError::Vetoed(why)) if why == "not this one"),
                "{vetoed:?}"
            );
        }
    }
}

#[tokio::test(start_paused = true)]
async fn last_write_wins_keeps_the_later_of_two_blind_writes() {
    let cluster = Cluster::of(3).await;
    cluster
        .create_type(
            "lww",
            json!({"last_write_wins": true, "allow_mult": false, "dvv_enabled": false}),
        )
        .await;
    for name in KEYS {
        let at = key("lww", name);
        cluster.nodes[0].put(at, "early").await;
        cluster.clock.advance_us(1_000);
        cluster.nodes[1].put(at, "late").await;
        for node in &cluster.nodes {
            assert_eq!(values(node.read(at, r(3)).await.unwrap()), ["late"]);
        }
    }
}
