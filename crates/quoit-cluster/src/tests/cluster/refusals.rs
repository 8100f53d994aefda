//! Refused joins: each has a reason and leaves no trace.

use super::*;
use crate::tests::{typed, untyped, updates, with_active_type};
use quoit_model::hash::RingSize;
use serde_json::json;

/// Tries to join, and returns the reason of the refusal.
async fn refused(cluster: &TestCluster, number: u8, to: &str) -> String {
    let before = cluster.state(number).members().clone();
    let error = cluster.control(number).join(to).await.unwrap_err().to_string();
    assert_eq!(*cluster.state(number).members(), before, "{error}");
    let bucket = untyped("b");
    let change = updates(json!({"n_val": 1}));
    cluster.control(number).set_bucket_props(bucket, &change).await.unwrap();
    error
}

fn says(text: &str, words: &[&str]) {
    assert!(words.iter().all(|word| text.contains(word)), "{text}");
}

#[tokio::test(start_paused = true)]
async fn addresses_where_nobody_is_and_the_own_one() {
    let cluster = TestCluster::alone(1).await;
    says(&refused(&cluster, 1, "n9:1").await, &["n9:1 is not reachable"]);
    says(&refused(&cluster, 1, "n1:1").await, &["this node itself"]);
}

#[tokio::test(start_paused = true)]
async fn ring_of_another_size() {
    let cluster = TestCluster::with(2, |number| {
        let ring_size = RingSize::new(if number == 1 { 64 } else { 128 });
        Settings { ring_size, ..settings() }
    })
    .await;
    let text = refused(&cluster, 2, "n1:1").await;
    says(&text, &["this node has ring_size 128 and the cluster 64", "empty data directory"]);
    assert_eq!(cluster.state(1).members().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn member_of_another_cluster() {
    let cluster = TestCluster::alone(3).await;
    cluster.join(2, 1).await.unwrap();
    says(&refused(&cluster, 2, "n3:1").await, &["n2@test is already a member of a cluster of 2"]);
    says(&refused(&cluster, 1, "n3:1").await, &["n1@test is already a member"]);
}

#[tokio::test(start_paused = true)]
async fn bucket_types_and_buckets_that_contradict() {
    let cluster = TestCluster::alone(2).await;
    with_active_type(cluster.control(1), json!({"n_val": 2})).await;
    with_active_type(cluster.control(2), json!({"n_val": 3, "allow_mult": false})).await;
    let text = refused(&cluster, 2, "n1:1").await;
    says(&text, &["bucket type t differs", "allow_mult, n_val", "bucket-type update"]);
    cluster
        .control(2)
        .update_type(b"t", &updates(json!({"n_val": 2, "allow_mult": true})))
        .await
        .unwrap();
    let own = updates(json!({"n_val": 4}));
    cluster.control(2).set_bucket_props(typed("t", "b"), &own).await.unwrap();
    let other = updates(json!({"n_val": 5}));
    cluster.control(1).set_bucket_props(typed("t", "b"), &other).await.unwrap();
    says(&refused(&cluster, 2, "n1:1").await, &["bucket b (type t)", "n_val"]);
    cluster.control(2).reset_bucket_props(typed("t", "b")).await.unwrap();
    cluster.control(1).set_bucket_props(untyped("b"), &updates(json!({"n_val": 1}))).await.unwrap();
    cluster.join(2, 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn node_that_lost_its_disk_and_comes_under_its_old_name() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.crash(3);
    cluster.nodes[2].disk = FaultyDisk::new(33);
    let host = cluster.network.host("n3");
    let listener = host.bind("n3:1").await.unwrap();
    let settings = Settings::new(&name(3), id(9));
    let settings = Settings {
        addresses: Addresses { node: "n3:1".into(), ..Addresses::default() },
        ..settings
    };
    let disk = Arc::new(cluster.node(3).disk.clone());
    let control = Arc::new(ControlPlane::open(disk, settings).unwrap());
    let internode =
        Internode::new(InternodeSettings::new(id(9), name(3), 99, JitterSeed(99)), host);
    internode.serve(listener).unwrap();
    control.connect(&internode);
    cluster.nodes[2].process = Some(Process { control, _internode: internode });
    let text = refused(&cluster, 3, "n1:1").await;
    says(
        &text,
        &[
            "already has a member with the name n3@test",
            "lost its disk",
            "cluster force-replace n3@test",
        ],
    );
}
