//! Tests of copies on nodes whose disks lost durable records.

use crate::fixture::{TestCluster, id, key};
use quoit_cluster::StagedChange;
use quoit_core::{QuorumKind, ReadOptions, RequestError, TransferLimits, WriteOptions};
use quoit_model::props::Quorum;
use serde_json::json;
use std::time::Duration;

const COUNT: usize = 60;

fn name(index: usize) -> String {
    format!("key {index}")
}

/// Number of names under which some node stores something.
fn left(cluster: &TestCluster) -> usize {
    (0..COUNT).filter(|index| !cluster.holders(&name(*index)).is_empty()).count()
}

fn lost_count(cluster: &TestCluster, number: u8) -> usize {
    cluster.control(number).read().layouts().lost_copies().count()
}

async fn until_whole(cluster: &TestCluster) {
    cluster
        .until("all copies are whole again", || {
            cluster.running().iter().all(|number| lost_count(cluster, *number) == 0)
        })
        .await;
}

/// Stops transfers, or lets them continue.
fn set_transfers(cluster: &TestCluster, outbound: bool) {
    cluster.set_limits(TransferLimits { outbound, ..TransferLimits::default() });
}

/// A cluster in which the third node's disk is restored to a time before the tombstones of all keys were
/// written. All nodes have reaped them since.
async fn deleted_before_the_disk_went_back() -> TestCluster {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    let before = cluster.records(3);
    for index in 0..COUNT {
        cluster.delete(1, &name(index)).await;
    }
    cluster.pass(Duration::from_secs(30)).await;
    assert_eq!(left(&cluster), 0, "all tombstones are reaped");
    let remembered = |number: &u8| cluster.store(*number).reap_record_stats().count > 0;
    let is_forgotten = || !cluster.running().iter().any(remembered);
    cluster.until_within(Duration::from_secs(900), "the reaps are forgotten", is_forgotten).await;
    cluster.kill(3);
    cluster.set_records(3, &before);
    assert_eq!(left(&cluster), COUNT);
    cluster
}

#[tokio::test(start_paused = true)]
async fn values_whose_tombstones_were_lost_and_reaped_elsewhere_do_not_return() {
    let mut cluster = deleted_before_the_disk_went_back().await;
    cluster.start_after_loss(3).await;
    until_whole(&cluster).await;
    cluster.pass(Duration::from_secs(60)).await;
    for index in 0..COUNT {
        assert!(!cluster.shows(1, &name(index)).await, "{index} is back");
    }
    assert_eq!(left(&cluster), 0);
}

#[tokio::test(start_paused = true)]
async fn values_return_from_a_node_that_does_not_tell_what_it_lost() {
    let mut cluster = deleted_before_the_disk_went_back().await;
    cluster.start(3).await;
    cluster.pass(Duration::from_secs(60)).await;
    let mut shown = 0;
    for index in 0..COUNT {
        shown += usize::from(cluster.shows(1, &name(index)).await);
    }
    assert!(shown > 0, "the test above would find it");
}

/// A cluster in which the third node has lost everything, and gets nothing back while transfers are
/// stopped.
async fn third_lost_all() -> TestCluster {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    set_transfers(&cluster, false);
    cluster.kill(3);
    cluster.set_records(3, &[]);
    cluster.start_after_loss(3).await;
    set_transfers(&cluster, false);
    cluster
}

#[tokio::test(start_paused = true)]
async fn damage_in_a_copy_that_is_not_whole_yet_is_healed_by_whole_ones() {
    let mut cluster = TestCluster::joined_on_disks(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    set_transfers(&cluster, false);
    cluster.stop(3);
    cluster.start_after_loss(3).await;
    set_transfers(&cluster, false);
    cluster.rot(3);
    let unreadable = |cluster: &TestCluster| {
        (0..COUNT).filter(|index| !cluster.is_readable(3, &name(*index))).count()
    };
    assert!(unreadable(&cluster) > COUNT / 2, "{} are damaged", unreadable(&cluster));
    cluster.until("all that was met is healed", || unreadable(&cluster) == 0).await;
    assert_eq!(lost_count(&cluster, 1), 16, "nothing else was copied");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_lost_records_votes_like_a_stand_in_until_it_is_whole_again() {
    let cluster = third_lost_all().await;
    assert_eq!(lost_count(&cluster, 1), 16);
    let all = ReadOptions { pr: Some(Quorum::Count(3)), ..ReadOptions::default() };
    for index in 0..COUNT {
        let name = name(index);
        for reader in 1..=3 {
            let one = ReadOptions { r: Some(Quorum::One), ..ReadOptions::default() };
            let found = cluster.store(reader).get(key(&name), &one).await.unwrap();
            assert!(found.is_some(), "an empty copy answered for {name} on node {reader}");
        }
        let refused = cluster.store(1).get(key(&name), &all).await;
        let refused_for_pr = matches!(
            refused,
            Err(RequestError::Unsatisfied { kind: QuorumKind::Pr, wanted: 3, got: 2 })
        );
        // The read has repaired missing records, which does not make a copy complete.
        assert!(refused_for_pr, "{refused:?}");
    }
    set_transfers(&cluster, true);
    until_whole(&cluster).await;
    for index in 0..COUNT {
        assert!(cluster.store(1).get(key(&name(index)), &all).await.unwrap().is_some());
        assert_eq!(cluster.holders(&name(index)), [id(1), id(2), id(3)].into());
    }
    assert!(cluster.control(1).read().layouts().unsure().is_empty(), "others had all");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_lost_records_stays_incomplete_across_a_restart_in_the_middle() {
    let mut cluster = third_lost_all().await;
    cluster.kill(3);
    cluster.start(3).await;
    set_transfers(&cluster, false);
    cluster.pass(Duration::from_secs(20)).await;
    assert_eq!(lost_count(&cluster, 3), 16);
    set_transfers(&cluster, true);
    until_whole(&cluster).await;
    assert_eq!((0..COUNT).filter(|index| cluster.holders(&name(*index)).len() < 3).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_second_loss_under_one_layout_is_made_up_for_as_the_first() {
    let mut cluster = third_lost_all().await;
    set_transfers(&cluster, true);
    until_whole(&cluster).await;
    cluster.kill(3);
    cluster.set_records(3, &[]);
    cluster.start_after_loss(3).await;
    until_whole(&cluster).await;
    assert_eq!((0..COUNT).filter(|index| cluster.holders(&name(*index)).len() < 3).count(), 0);
}

/// The new node takes the positions of the node that has lost its records.
#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_records_is_no_source_while_others_have_them() {
    let mut cluster = third_lost_all().await;
    cluster.add().await;
    cluster.join(4).await;
    cluster.stage(StagedChange::Replace { old: id(3), new: id(4) }).await;
    cluster.commit(1).await;
    for number in 3..=4 {
        cluster.store(number).transfers().set_limits(TransferLimits::default());
    }
    cluster.pass(Duration::from_secs(60)).await;
    let is_member =
        |cluster: &TestCluster| cluster.control(1).read().members().get(id(3)).is_some();
    assert!(is_member(&cluster), "the nodes that have the records may not send them");
    set_transfers(&cluster, true);
    cluster.until("the node is replaced", || !is_member(&cluster)).await;
    for index in 0..COUNT {
        assert_eq!(cluster.holders(&name(index)), [id(1), id(2), id(4)].into());
    }
}

/// The layout that names the removed node is live until all copies are complete.
#[tokio::test(start_paused = true)]
async fn a_node_that_lost_its_records_does_not_wait_for_a_node_that_was_removed() {
    let mut cluster = third_lost_all().await;
    cluster.add().await;
    cluster.join(4).await;
    cluster.kill(2);
    cluster.stage(StagedChange::ForceReplace { old: id(2), new: id(4) }).await;
    cluster.commit(1).await;
    set_transfers(&cluster, true);
    until_whole(&cluster).await;
    for index in 0..COUNT {
        assert!(cluster.holders(&name(index)).contains(&id(3)), "{index}");
    }
}

#[tokio::test(start_paused = true)]
async fn writes_that_an_incomplete_copy_takes_are_accepted_and_stay() {
    let cluster = third_lost_all().await;
    let all = WriteOptions { w: Some(Quorum::Count(3)), ..WriteOptions::default() };
    for index in 0..COUNT {
        let writer = 1 + (index % 3) as u8;
        cluster.put_as(writer, &format!("new {index}"), "value", all).await;
    }
    set_transfers(&cluster, true);
    until_whole(&cluster).await;
    for index in 0..COUNT {
        assert_eq!(cluster.holders(&format!("new {index}")).len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn where_all_copies_lost_records_their_union_is_used_and_an_operator_is_told() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    for number in 1..=3 {
        cluster.kill(number);
    }
    // Leaves each record on one node.
    for number in 1..=3_u8 {
        let records = cluster.records(number).into_iter().zip(0_usize..);
        let name_of = |encoded: &[u8]| String::from_utf8_lossy(encoded).into_owned();
        let kept = records.filter(|((_, encoded, _), _)| {
            (0..COUNT).any(|index| {
                index % 3 == usize::from(number - 1) && name_of(encoded).ends_with(&name(index))
            })
        });
        let kept: Vec<_> = kept.map(|(record, _)| record).collect();
        cluster.set_records(number, &kept);
    }
    cluster.start_all_after_loss(&[1, 2, 3]).await;
    until_whole(&cluster).await;
    for index in 0..COUNT {
        assert!(cluster.shows(1, &name(index)).await, "{index} was on one of them");
    }
    assert_eq!(cluster.control(2).read().layouts().unsure().len(), 16);
    cluster.control(3).accept_losses().await.unwrap();
    cluster
        .until("it is known to all", || {
            cluster
                .running()
                .iter()
                .all(|each| cluster.control(*each).read().layouts().unsure().is_empty())
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn what_only_the_node_with_losses_is_to_have_stays_there() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.create_type("single", json!({ "n_val": 1 })).await;
    for index in 0..COUNT {
        cluster.put_in(1, "single", &name(index), "value").await;
    }
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    let of_single = |cluster: &TestCluster| {
        let records = cluster.records(3).into_iter();
        records.filter(|(_, encoded, _)| encoded.windows(6).any(|part| part == b"single")).count()
    };
    let before = of_single(&cluster);
    assert!(before > 0);
    cluster.kill(3);
    cluster.start_after_loss(3).await;
    until_whole(&cluster).await;
    assert_eq!(of_single(&cluster), before);
    assert!(!cluster.control(1).read().layouts().unsure().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_lost_records_waits_for_those_that_have_them() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    (1..=3).for_each(|number| cluster.kill(number));
    let before = cluster.records(3).len();
    // The first node is down, and may have a complete copy.
    let limit = Duration::from_secs(60);
    let waited = tokio::time::timeout(limit, cluster.start_all_after_loss(&[2, 3])).await;
    assert!(waited.is_err(), "they did not wait");
    assert!(before > 0);
    assert_eq!(cluster.records(3).len(), before, "nothing is dropped before");
}
