//! Clusters that continue with copies of all members' control files.

use super::*;
use crate::tests::{untyped, updates};
use crate::{ClusterId, RecoverError, RestoreRole, inspect_copy, restore};
use quoit_model::store_opening::{LastOpening, StoreId};
use serde_json::json;

const EPOCH: ClusterId = ClusterId([7; 16]);

fn disk(cluster: &TestCluster, number: u8) -> Arc<FaultyDisk> {
    Arc::new(cluster.node(number).disk.clone())
}

async fn set(cluster: &TestCluster, number: u8, n_val: u32) {
    let change = updates(json!({"n_val": n_val}));
    cluster.control(number).set_bucket_props(untyped("b"), &change).await.unwrap();
}

fn n_vals(cluster: &TestCluster) -> Vec<u32> {
    let props = |number| cluster.control(number).bucket_props(untyped("b")).unwrap().n_val;
    (1..=3).map(props).collect()
}

async fn until_all_vote(cluster: &TestCluster) {
    let voter_count = || cluster.control(1).voters_and_starts().unwrap().0.nodes.len();
    cluster.until("all vote", || voter_count() == 3).await;
    // The votes of the former voters count as well until a second entry of the log is committed.
    sleep(Duration::from_secs(5)).await;
}

/// Copies a node's control file while the node is stopped.
async fn copied(cluster: &mut TestCluster, number: u8) -> Vec<u8> {
    cluster.crash(number);
    let copy = cluster.node(number).disk.bytes("control.redb").unwrap();
    cluster.start(number).await;
    cluster.until_equal().await;
    copy
}

/// Creates three stopped members. Their control files are copies from times at which `b` had the `n_val`
/// 1, 2 and 4, in this order. Also returns a later control file of the third member.
async fn with_copies() -> (TestCluster, Vec<u8>) {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until_equal().await;
    let mut copies = Vec::new();
    for (number, n_val) in [(1, 1), (2, 2), (3, 4)] {
        set(&cluster, number, n_val).await;
        cluster.until_equal().await;
        copies.push(copied(&mut cluster, number).await);
    }
    set(&cluster, 3, 5).await;
    cluster.until_equal().await;
    for number in 1..=3 {
        cluster.crash(number);
    }
    let later = cluster.node(3).disk.bytes("control.redb").unwrap();
    for (number, copy) in (0..).zip(copies) {
        cluster.nodes[number].disk.put("control.redb", copy);
    }
    (cluster, later)
}

#[tokio::test(start_paused = true)]
async fn members_agree_on_what_the_copy_that_begins_the_epoch_knew() {
    let (mut cluster, later) = with_copies().await;
    let revisions = (1..=3).map(|number| inspect_copy(disk(&cluster, number)).unwrap().revision);
    let revisions: Vec<u64> = revisions.collect();
    assert!(revisions.is_sorted() && revisions[0] < revisions[2], "{revisions:?}");
    let begun = restore(disk(&cluster, 3), EPOCH, RestoreRole::Begins).unwrap();
    assert_eq!((&*begun.node, begun.members.len()), (&*name(3), 3));
    for number in [1, 2] {
        restore(disk(&cluster, number), EPOCH, RestoreRole::Follows).unwrap();
    }
    for number in 1..=3 {
        cluster.start(number).await;
    }
    cluster.until_equal().await;
    assert_eq!(n_vals(&cluster), [4; 3]);
    assert!((1..=3).all(|number| cluster.state(number).cluster_id() == EPOCH));
    set(&cluster, 1, 3).await;
    cluster.until_equal().await;
    assert_eq!(n_vals(&cluster), [3; 3]);

    until_all_vote(&cluster).await;

    // A member with data of the former epoch does not belong to the cluster.
    cluster.crash(3);
    cluster.nodes[2].disk.put("control.redb", later);
    cluster.start(3).await;
    sleep(Duration::from_secs(60)).await;
    let change = updates(json!({"n_val": 6}));
    assert!(cluster.control(3).set_bucket_props(untyped("b"), &change).await.is_err());
    assert!(!cluster.control(1).is_reachable(id(3)));
    assert_eq!(n_vals(&cluster), [3, 3, 5]);
    set(&cluster, 2, 2).await;
}

#[tokio::test(start_paused = true)]
async fn an_older_copy_may_begin_the_epoch_and_newer_ones_forget_what_it_does_not_know() {
    let (mut cluster, _) = with_copies().await;
    restore(disk(&cluster, 1), EPOCH, RestoreRole::Begins).unwrap();
    for number in [2, 3] {
        restore(disk(&cluster, number), EPOCH, RestoreRole::Follows).unwrap();
    }
    for number in [3, 2, 1] {
        cluster.start(number).await;
    }
    cluster.until_equal().await;
    assert_eq!(n_vals(&cluster), [1; 3]);
    until_all_vote(&cluster).await;
    cluster.crash(1);
    set(&cluster, 2, 2).await;
}

#[tokio::test(start_paused = true)]
async fn stores_count_as_older_than_the_node_and_a_repetition_is_refused() {
    let mut cluster = TestCluster::joined(1).await;
    let opening = LastOpening { store_id: StoreId(5), mark: 8, incarnation: 2 };
    cluster.control(1).note_store_opening("bitcask", opening).unwrap();
    assert!(matches!(inspect_copy(disk(&cluster, 1)), Err(RecoverError::Open(_))), "in use");
    cluster.crash(1);
    restore(disk(&cluster, 1), EPOCH, RestoreRole::Begins).unwrap();
    let again = restore(disk(&cluster, 1), EPOCH, RestoreRole::Follows).unwrap_err();
    assert!(again.to_string().contains("start the node"), "{again}");
    cluster.start(1).await;
    let noted = cluster.control(1).store_opening("bitcask").unwrap().unwrap();
    assert_eq!(noted.store_id, StoreId(5));
    assert!(noted.mark > 1 << 31 && noted.incarnation > 1 << 31, "{noted:?}");
    set(&cluster, 1, 2).await;
}
