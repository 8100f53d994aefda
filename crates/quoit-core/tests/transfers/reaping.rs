//! Tests of reaped tombstones, and of everything that could bring deleted records back.

use crate::fixture::{TestCluster, id, key, key_in};
use bytes::Bytes;
use quoit_cluster::{Lane, NodeId};
use quoit_model::hash::Partition;
use quoit_store::engine::Record;
use quoit_wire::internode::reap::{METHOD_TAKE_REAPED, TakeReaped, Tombstone};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const COUNT: usize = 30;

fn name(index: usize) -> String {
    format!("key {index}")
}

/// Number of the records of which some node stores something.
fn left(cluster: &TestCluster, bucket_type: &str) -> usize {
    (0..COUNT)
        .filter(|index| !cluster.holders_of(key_in(bucket_type, &name(*index))).is_empty())
        .count()
}

/// Number of the records of which some node shows a value.
async fn shown(cluster: &TestCluster, bucket_type: &str) -> usize {
    let mut count = 0;
    for index in 0..COUNT {
        for number in cluster.running() {
            count += usize::from(cluster.shows_at(number, key_in(bucket_type, &name(index))).await);
        }
    }
    count
}

/// A replica has agreed, and loses power before the answer to its sync has come back: the tombstone is
/// on its disk nevertheless. A run without a power cut is the control.
#[tokio::test(start_paused = true)]
async fn what_a_primary_agrees_on_is_on_its_disk() {
    for loses_power in [false, true] {
        let mut cluster = TestCluster::joined_on_disks(3).await;
        cluster.put_many(1, COUNT).await;
        (1..=3).for_each(|number| cluster.sync(number));
        for index in 0..COUNT {
            cluster.delete(1, &name(index)).await;
        }
        cluster.pass(Duration::from_secs(10)).await;
        assert_eq!(left(&cluster, "default"), 0, "all are reaped");
        match loses_power {
            true => cluster.lose_power(3),
            false => cluster.kill(3),
        }
        cluster.start(3).await;
        cluster.pass(Duration::from_secs(60)).await;
        assert_eq!(shown(&cluster, "default").await, 0);
        assert_eq!(left(&cluster, "default"), 0);
    }
}

/// A primary that falls silent at any moment has not agreed: no tombstone is removed from the others
/// while the silent one still has it.
#[tokio::test(start_paused = true)]
async fn nothing_is_reaped_that_a_silent_primary_still_has() {
    for silent_after_ms in (2_000..5_000).step_by(200) {
        let cluster = TestCluster::joined(3).await;
        cluster.put_many(1, COUNT).await;
        for index in 0..COUNT {
            cluster.delete(1, &name(index)).await;
        }
        cluster.pass(Duration::from_millis(silent_after_ms)).await;
        for other in ["n1", "n2"] {
            cluster.network.silence(other, "n3");
            cluster.network.silence("n3", other);
        }
        cluster.pass(Duration::from_secs(30)).await;
        for holders in (0..COUNT).map(|index| cluster.holders(&name(index))) {
            assert!(
                !holders.contains(&id(3)) || holders.len() == 3,
                "{silent_after_ms} ms: {holders:?}"
            );
        }
        for other in ["n1", "n2"] {
            cluster.network.heal(other, "n3");
            cluster.network.heal("n3", other);
        }
        cluster.pass(Duration::from_secs(60)).await;
        assert_eq!(left(&cluster, "default"), 0, "all are reaped");
        assert_eq!(shown(&cluster, "default").await, 0);
    }
}

#[tokio::test(start_paused = true)]
async fn former_primaries_of_a_bucket_with_fewer_replicas_do_not_bring_back_what_is_deleted() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.create_type("t", json!({"n_val": 5})).await;
    for index in 0..COUNT {
        let name = name(index);
        cluster.put_in(1, "t", &name, "value").await;
        cluster.until("all have it", || cluster.holders_of(key_in("t", &name)).len() == 5).await;
    }
    cluster.update_type("t", json!({"n_val": 3})).await;
    for index in 0..COUNT {
        cluster.delete_at(1, key_in("t", &name(index))).await;
    }
    cluster.pass(Duration::from_secs(30)).await;
    assert_eq!(left(&cluster, "t"), 0, "all are reaped");
    (1..=5).for_each(|number| cluster.stop(number));
    for number in 1..=5 {
        cluster.start(number).await;
    }
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(shown(&cluster, "t").await, 0);
    assert_eq!(left(&cluster, "t"), 0);
}

/// The other bucket has a primary that is away, and this one does not.
#[tokio::test(start_paused = true)]
async fn a_bucket_with_more_replicas_does_not_hold_up_the_strays_of_others() {
    let mut cluster = TestCluster::joined(6).await;
    cluster.create_type("wide", json!({"n_val": 6})).await;
    let name = name(0);
    let primaries = cluster.primaries(1, &name);
    let number_of = |node: &NodeId| node.0[0];
    let away = number_of(primaries.last().expect("there are three"));
    let asks = number_of(primaries.first().expect("there are three"));
    cluster.kill(away);
    cluster.until("the death is seen", || !cluster.control(asks).is_reachable(id(away))).await;
    cluster.put(asks, &name, "value").await;
    let holders = cluster.holders(&name);
    let fallback = *holders.difference(&primaries).next().expect("somebody stands in");
    let other = (1..=6).find(|number| !primaries.contains(&id(*number)) && id(*number) != fallback);
    cluster.kill(other.expect("there are six nodes"));
    cluster.start(away).await;
    cluster.until("the stray is handed over", || cluster.holders(&name) == primaries).await;
    let there: BTreeSet<NodeId> = cluster.running().into_iter().map(id).collect();
    assert_eq!(there.len(), 5);
    assert!(cluster.stored(away, key(&name)).is_some());
}

fn reap_record_count(cluster: &TestCluster) -> usize {
    let counts = cluster.running().into_iter();
    counts.map(|number| cluster.store(number).reap_record_stats().count).sum()
}

/// Leaves values of many records on a fallback, which then goes away, and deletes the records on the
/// primaries. Returns the fallback.
async fn leave_strays_on_a_node_that_goes_away(cluster: &mut TestCluster) -> u8 {
    let count = cluster.running().len() as u8;
    let names: Vec<String> = (0..COUNT).map(name).collect();
    let away = count;
    let stands_in =
        |cluster: &TestCluster, name: &String| !cluster.primaries(1, name).contains(&id(away));
    // As if the primaries had been down during the write, so that only the fallback has it.
    for name in names.iter().filter(|name| stands_in(cluster, name)) {
        cluster.put(1, name, "value").await;
        let holder = cluster.primaries(1, name).first().expect("there are three").0[0];
        let record = cluster.record(holder, key(name)).expect("a primary has it");
        cluster.restore_removed(away, name, &record);
    }
    cluster.kill(away);
    cluster.until("the death is seen", || !cluster.control(1).is_reachable(id(away))).await;
    for name in names.iter().filter(|name| stands_in(cluster, name)) {
        cluster.delete(1, name).await;
    }
    cluster.pass(Duration::from_secs(20)).await;
    for name in names.iter().filter(|name| stands_in(cluster, name)) {
        assert_eq!(cluster.holders(name), BTreeSet::from([id(away)]), "reaped on the primaries");
    }
    away
}

/// Includes records that were written since without knowledge of the old value, and primaries that were
/// restarted in the meantime.
#[tokio::test(start_paused = true)]
async fn what_a_member_brings_back_that_was_away_when_it_was_reaped_stays_deleted() {
    let mut cluster = TestCluster::joined(5).await;
    let away = leave_strays_on_a_node_that_goes_away(&mut cluster).await;
    for number in 1..away {
        cluster.stop(number);
    }
    for number in 1..away {
        cluster.start(number).await;
    }
    cluster
        .until("all reach each other", || {
            (1..away).all(|number| {
                (1..away)
                    .all(|other| number == other || cluster.control(number).is_reachable(id(other)))
            })
        })
        .await;
    let is_old =
        |cluster: &TestCluster, index: &usize| cluster.holders(&name(*index)).contains(&id(away));
    let old: Vec<usize> = (0..COUNT).filter(|index| is_old(&cluster, index)).collect();
    assert!(old.len() > 3);
    let (again, gone) = old.split_at(old.len() / 2);
    for index in again {
        cluster.put(1, &name(*index), "new").await;
    }
    // A record that only the absent member has.
    let only = (0..).map(|index| format!("only {index}"));
    let only = only.filter(|name| !cluster.primaries(1, name).contains(&id(away)));
    let only = only.take(1).next().expect("some name has other primaries");
    let lent = cluster.record(away, key(&name(old[0]))).expect("the member has it");
    cluster.restore_removed(away, &only, &lent);
    cluster.start(away).await;
    let is_settled = |cluster: &TestCluster| old.iter().all(|index| !is_old(cluster, index));
    cluster.until("the strays are handed over", || is_settled(&cluster)).await;
    cluster.pass(Duration::from_secs(20)).await;
    for number in cluster.running() {
        for index in gone {
            assert!(!cluster.shows(number, &name(*index)).await, "key {index} came back");
        }
        for index in again {
            let object = cluster.stored(number, key(&name(*index)));
            assert!(
                object.is_none_or(|object| object.siblings.len() == 1),
                "the old value came in"
            );
        }
        assert!(cluster.shows(number, &only).await, "what only the member had");
    }
}

#[tokio::test(start_paused = true)]
async fn reap_records_are_kept_until_all_members_have_reported() {
    let mut cluster = TestCluster::joined(5).await;
    let away = leave_strays_on_a_node_that_goes_away(&mut cluster).await;
    let count = reap_record_count(&cluster);
    assert!(count >= 9);
    cluster.pass(Duration::from_secs(600)).await;
    assert_eq!(reap_record_count(&cluster), count);
    let held_up = cluster.store(1).reaper().reap_record_blockers();
    assert_eq!(held_up.unanswered_members.len(), 1);
    assert!(held_up.unanswered_members[0].starts_with(&format!("n{away}@")), "{held_up:?}");
    cluster.start(away).await;
    cluster.pass(Duration::from_secs(600)).await;
    assert_eq!(reap_record_count(&cluster), 0);
    assert!(cluster.store(1).reaper().reap_record_blockers().unanswered_members.is_empty());
    assert_eq!(shown(&cluster, "default").await, 0);
    assert_eq!(left(&cluster, "default"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_reap_records_are_damaged_gets_them_from_other_primaries() {
    let mut cluster = TestCluster::joined(5).await;
    let away = leave_strays_on_a_node_that_goes_away(&mut cluster).await;
    let harmed = cluster.running()[0];
    let count = cluster.store(harmed).reap_record_stats().count;
    assert!(count > 0);
    cluster.stop(harmed);
    cluster.rot_reap_records(harmed);
    cluster.start_after_loss(harmed).await;
    assert!(!cluster.store(harmed).has_lost_reap_records());
    cluster.pass(Duration::from_secs(60)).await;
    let again = cluster.store(harmed).reap_record_stats().count;
    assert!(again > count / 2, "{again} of {count}");
    cluster.stop(harmed);
    cluster.start(harmed).await;
    assert!(!cluster.store(harmed).has_lost_reap_records(), "it was made up for once and for all");
    // The member comes back with copies of reaped records.
    cluster.start(away).await;
    cluster
        .until("the copies are whole again", || {
            cluster.control(harmed).read().layouts().lost_copies().next().is_none()
        })
        .await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(shown(&cluster, "default").await, 0);
}

#[tokio::test(start_paused = true)]
async fn new_primaries_know_what_was_reaped() {
    let mut cluster = TestCluster::joined(5).await;
    let away = leave_strays_on_a_node_that_goes_away(&mut cluster).await;
    cluster.add().await;
    cluster.join(6).await;
    // The absent member can't acknowledge the layout, so it is marked as down.
    cluster.control(1).mark_down(id(away)).await.unwrap();
    cluster.commit(1).await;
    cluster
        .until("the layout is changed", || !cluster.control(1).read().layouts().is_moving())
        .await;
    let reaped = cluster.store(6).reap_record_stats().count;
    assert!(reaped > 0, "the new primary has no reap records");
    cluster.start(away).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(shown(&cluster, "default").await, 0);
}

/// A tombstone of the only key, which a single node has written and deleted, before it is reaped.
async fn tombstone_of(cluster: &TestCluster, number: u8) -> (Partition, Bytes, Record) {
    cluster.put(number, "k", "value").await;
    cluster.delete(number, "k").await;
    cluster.records(number).pop().expect("the tombstone is there")
}

/// A reap record covers only a part of a tombstone that two deletes have made. The rest is a tombstone
/// of its own. Its first primary has it reaped when it is due, and not only in the search for
/// leftovers.
#[tokio::test(start_paused = true)]
async fn a_tombstone_that_is_left_beside_a_reap_record_is_reaped_when_it_is_due() {
    let apart = TestCluster::alone(2).await;
    let (partition, name, reaped) = tombstone_of(&apart, 1).await;
    let (_, _, stored) = tombstone_of(&apart, 2).await;
    let cluster = TestCluster::joined(3).await;
    let layout_version = cluster.control(1).read().layouts().newest().version();
    for number in 1..=3 {
        cluster.restore_removed(number, "k", &stored);
    }
    for (from, to) in [(1, 2), (2, 3), (3, 1)] {
        let (partition, digest) = (u32::from(partition.0), reaped.meta.digest);
        let (key, object) = (name.clone(), reaped.value.clone());
        let records = vec![Tombstone { key, partition, digest, object }];
        let peer = cluster.internode(from).peer(id(to)).expect("they know each other");
        let take = TakeReaped { layout_version, records };
        let second = Duration::from_secs(1);
        peer.call(METHOD_TAKE_REAPED, &take, b"", Lane::Large, second).await.unwrap();
    }
    assert_eq!(cluster.holders("k").len(), 3);
    cluster.pass(Duration::from_secs(20)).await;
    assert_eq!(cluster.holders("k").len(), 0);
}

/// The node that hands the reap records over relies on the answer, and forgets what it has handed over.
#[tokio::test(start_paused = true)]
async fn what_taken_reap_records_cover_does_not_come_back_after_a_power_cut() {
    let mut cluster = TestCluster::joined_on_disks(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    let value = |index| cluster.record(2, key(&name(index))).expect("it is stored");
    let values: Vec<Record> = (0..COUNT).map(value).collect();
    for index in 0..COUNT {
        cluster.delete(1, &name(index)).await;
    }
    let tombstones = cluster.records(1).into_iter().map(|(partition, key, record)| Tombstone {
        key,
        partition: u32::from(partition.0),
        digest: record.meta.digest,
        object: record.value,
    });
    let records: Vec<Tombstone> = tombstones.collect();
    assert_eq!(records.len(), COUNT, "none is reaped yet");
    for (index, value) in values.iter().enumerate() {
        cluster.restore_removed(2, &name(index), value);
    }
    cluster.sync(2);
    let layout_version = cluster.control(1).read().layouts().newest().version();
    let peer = cluster.internode(1).peer(id(2)).expect("they know each other");
    let take = TakeReaped { layout_version, records };
    let second = Duration::from_secs(1);
    peer.call(METHOD_TAKE_REAPED, &take, b"", Lane::Large, second).await.unwrap();
    cluster.lose_power(2);
    for index in 0..COUNT {
        assert!(!cluster.holders(&name(index)).contains(&id(2)), "{index} is back");
    }
}

/// One node lacks the records, and would reject values of which it had reap records.
#[tokio::test(start_paused = true)]
async fn no_reap_record_is_made_of_a_value_that_has_replaced_its_tombstone() {
    let cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    for index in 0..COUNT {
        cluster.delete(1, &name(index)).await;
    }
    cluster.put_many(1, COUNT).await;
    let is_live = |number, index| {
        let stored = cluster.stored(number, key(&name(index)));
        stored.is_some_and(|object| !object.is_tombstone())
    };
    let are_live = || (0..COUNT).all(|index| (1..=3).all(|number| is_live(number, index)));
    cluster.until("all have the new values", are_live).await;
    (0..COUNT).for_each(|index| cluster.lose(2, &name(index)));
    cluster.pass(Duration::from_secs(8)).await;
    assert_eq!(cluster.store(2).reap_record_stats().count, 0);
}

/// With one of many members away, the primaries of most records are still up.
#[tokio::test(start_paused = true)]
async fn with_one_of_twenty_nodes_away_the_others_reap() {
    let mut cluster = TestCluster::joined(20).await;
    let away = leave_strays_on_a_node_that_goes_away(&mut cluster).await;
    cluster.start(away).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert_eq!(shown(&cluster, "default").await, 0);
    assert_eq!(left(&cluster, "default"), 0);
}
