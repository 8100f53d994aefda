//! Tests of tombstones that several nodes hold.

use crate::fixture::{TestCluster, id, key};
use quoit_cluster::StagedChange;
use quoit_store::engine::Record;
use quoit_wire::internode::reap::{METHOD_ASK_UNSETTLED, METHOD_HOLD, METHOD_REAP};
use std::time::Duration;

const COUNT: usize = 300;

fn name(index: usize) -> String {
    format!("key {index}")
}

/// Number of names under which some node still stores something.
fn left(cluster: &TestCluster, count: usize) -> usize {
    (0..count).filter(|index| !cluster.holders(&name(*index)).is_empty()).count()
}

async fn delete_many(cluster: &TestCluster, number: u8, count: usize) {
    for index in 0..count {
        cluster.delete(number, &name(index)).await;
    }
}

/// Number of requests of a method that all nodes have served.
fn served(cluster: &TestCluster, method: u16) -> u64 {
    let requests = |number: &u8| cluster.internode(*number).statistics().requests.of(method);
    cluster.running().iter().map(requests).sum()
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_tombstones_are_reaped_with_a_few_messages() {
    let cluster = TestCluster::joined(5).await;
    cluster.put_many(1, COUNT).await;
    delete_many(&cluster, 1, COUNT).await;
    cluster.pass(Duration::from_secs(10)).await;
    assert_eq!(left(&cluster, COUNT), 0);
    for method in [METHOD_HOLD, METHOD_REAP] {
        let count = served(&cluster, method);
        assert!((1..60).contains(&count), "{count} messages for {COUNT} tombstones");
    }
    let asked_count = served(&cluster, METHOD_ASK_UNSETTLED);
    assert!(asked_count <= 5 * 4 * 2, "{asked_count} questions for strays in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn tombstones_whose_first_primary_changes_are_reaped_nevertheless() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, 100).await;
    delete_many(&cluster, 1, 100).await;
    assert_eq!(left(&cluster, 100), 100);
    cluster.add().await;
    cluster.add().await;
    cluster.join(4).await;
    cluster.join(5).await;
    cluster.commit(1).await;
    cluster.until_moved(1, 0).await;
    cluster.pass(Duration::from_secs(30)).await;
    assert_eq!(left(&cluster, 100), 0);
}

/// The other node leaves at several times between two passes of the reaper, which runs every two
/// seconds.
#[tokio::test(start_paused = true)]
async fn the_last_node_of_a_cluster_reaps_what_others_were_to_reap() {
    for quarter in 0..8 {
        let cluster = TestCluster::joined(2).await;
        cluster.pass(Duration::from_millis(quarter * 250)).await;
        cluster.put_many(1, 20).await;
        delete_many(&cluster, 1, 20).await;
        cluster.stage(StagedChange::Leave { node: id(2) }).await;
        cluster.commit(1).await;
        let is_last = || cluster.control(1).read().members().iter().count() == 1;
        cluster.until("the other node is gone", is_last).await;
        let tombstones = || (0..20).filter(|index| cluster.stored(1, key(&name(*index))).is_some());
        assert_eq!(tombstones().count(), 20);
        cluster.pass(Duration::from_secs(10)).await;
        assert_eq!(tombstones().count(), 0);
    }
}

fn records_of_third(cluster: &TestCluster) -> Vec<Record> {
    let records = (0..COUNT).map(|index| cluster.record(3, key(&name(index))));
    records.map(|record| record.expect("a primary has it")).collect()
}

/// Checks that the third node, started again with these records after everything was reaped, loses them
/// as well.
async fn check_third_forgets(cluster: &mut TestCluster, records: &[Record]) {
    cluster.pass(Duration::from_secs(10)).await;
    assert_eq!(left(cluster, COUNT), 0);
    cluster.kill(3);
    for (index, record) in records.iter().enumerate() {
        cluster.restore_removed(3, &name(index), record);
    }
    cluster.start(3).await;
    assert_eq!(left(cluster, COUNT), COUNT);
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(left(cluster, COUNT), 0);
}

#[tokio::test(start_paused = true)]
async fn a_tombstone_whose_removal_a_node_has_lost_is_reaped_after_its_start() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    delete_many(&cluster, 1, COUNT).await;
    let records = records_of_third(&cluster);
    check_third_forgets(&mut cluster, &records).await;
}

/// The node's data directory was restored from an older copy. The other primaries have the reap records of
/// all later reaps.
#[tokio::test(start_paused = true)]
async fn a_reaped_value_that_a_primary_has_again_is_removed_there() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    let records = records_of_third(&cluster);
    delete_many(&cluster, 1, COUNT).await;
    check_third_forgets(&mut cluster, &records).await;
    // Nothing is left that could come back when the other nodes forget the reaps.
    cluster.pass(Duration::from_secs(600)).await;
    check_gone(&cluster, COUNT).await;
}

/// Checks that no node shows a deleted record, and that nothing is left of them in the end.
#[tokio::test(start_paused = true)]
async fn a_tombstone_of_which_a_primary_has_an_older_one_is_reaped() {
    let cluster = TestCluster::joined(3).await;
    let name = name(0);
    cluster.put_many(1, 1).await;
    delete_many(&cluster, 1, 1).await;
    let older = cluster.record(3, key(&name)).expect("a primary has it");
    cluster.put_many(1, 1).await;
    delete_many(&cluster, 1, 1).await;
    for number in 1..=3 {
        assert_ne!(cluster.record(number, key(&name)).expect("deleted again").meta, older.meta);
    }
    cluster.restore_removed(3, &name, &older);
    assert_eq!(left(&cluster, 1), 1);
    cluster.pass(Duration::from_secs(40)).await;
    assert_eq!(left(&cluster, 1), 0);
}

async fn check_gone(cluster: &TestCluster, count: usize) {
    for number in cluster.running() {
        for index in 0..count {
            assert!(!cluster.shows(number, &name(index)).await, "{} is back", name(index));
        }
    }
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(left(cluster, count), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_deleted_while_a_primary_was_away_does_not_come_back_with_it() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.kill(3);
    delete_many(&cluster, 1, COUNT).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(left(&cluster, COUNT), COUNT, "tombstones wait for the node");
    cluster.start(3).await;
    cluster.until("the node is back", || cluster.control(1).is_reachable(id(3))).await;
    check_gone(&cluster, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn deleted_records_stay_deleted_under_load_and_while_partitions_move() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.put_many(1, COUNT).await;
    cluster.kill(5);
    cluster.add().await;
    cluster.join(6).await;
    for index in 0..COUNT {
        cluster.delete(1 + (index % 4) as u8, &name(index)).await;
        cluster.put(1 + (index % 3) as u8, &format!("other {index}"), "value").await;
        if index == COUNT / 3 {
            cluster.commit(1).await;
        }
        if index == COUNT / 2 {
            cluster.start(5).await;
        }
        cluster.pass(Duration::from_millis(100)).await;
    }
    cluster.until_moved(1, 0).await;
    check_gone(&cluster, COUNT).await;
}

/// The link from the coordinator to one replica stalls before the write, and recovers after the
/// tombstone was reaped.
#[tokio::test(start_paused = true)]
async fn a_write_that_arrives_after_its_tombstone_was_reaped_is_not_taken() {
    let cluster = TestCluster::joined(3).await;
    cluster.network.silence("n1", "n3");
    cluster.put_many(1, COUNT).await;
    delete_many(&cluster, 2, COUNT).await;
    cluster.pass(Duration::from_secs(10)).await;
    let reaped: Vec<usize> =
        (0..COUNT).filter(|index| cluster.holders(&name(*index)).is_empty()).collect();
    assert!(!reaped.is_empty(), "the second node reaps what it is first primary of");
    cluster.network.heal("n1", "n3");
    cluster.pass(Duration::from_secs(1)).await;
    for index in reaped {
        assert!(cluster.holders(&name(index)).is_empty(), "{} is back", name(index));
    }
    check_gone(&cluster, COUNT).await;
}
