//! Tests of hints: a primary that comes back gets the writes that it missed, without any read.

use crate::fixture::{TestCluster, id};
use quoit_cluster::StagedChange;
use quoit_core::{
    Counter, ExchangeSettings, HintCountMax, StoreSettings, TransferLimits, WriteOptions,
};
use std::collections::BTreeSet;
use std::time::Duration;

const COUNT: usize = 100;

/// Nodes without anti-entropy, so that only hints and strays repair copies.
async fn cluster(count: u8, hint_count_max: HintCountMax) -> TestCluster {
    let exchanges = ExchangeSettings { active: false, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, hint_count_max, ..StoreSettings::default() };
    TestCluster::joined_with(count, settings).await
}

async fn until_no_hints(cluster: &TestCluster) {
    cluster
        .until("hints are delivered", || {
            cluster.running().iter().all(|number| cluster.hint_counts(*number) == (0, 0))
        })
        .await;
}

/// With as many nodes as replicas there is no fallback.
#[tokio::test(start_paused = true)]
async fn what_a_dead_primary_has_missed_is_delivered_when_it_is_back() {
    let mut cluster = cluster(3, HintCountMax::default()).await;
    cluster.kill(3);
    cluster.put_many(1, COUNT).await;
    for index in 0..COUNT {
        cluster.update(1, &format!("key {index}"), &format!("value {index}")).await;
    }
    assert_eq!(cluster.hint_counts(1), (COUNT as u64, 0), "one for each record");
    cluster.start(3).await;
    cluster.until_moved(3, COUNT).await;
    until_no_hints(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn strict_writes_have_no_stand_ins_and_leave_hints() {
    let mut cluster = cluster(5, HintCountMax::default()).await;
    cluster.kill(5);
    let strict = WriteOptions { sloppy_quorum: Some(false), ..WriteOptions::default() };
    for index in 0..COUNT {
        cluster.put_as(1, &format!("key {index}"), &format!("value {index}"), strict).await;
    }
    cluster.start(5).await;
    cluster.until_moved(5, COUNT).await;
    until_no_hints(&cluster).await;
}

/// A node that leaves takes its hints with it, so it must first deliver the records that they name.
#[tokio::test(start_paused = true)]
async fn a_node_leaves_when_what_others_have_missed_of_its_writes_is_on_their_disks() {
    let mut cluster = cluster(4, HintCountMax::default()).await;
    cluster.kill(3);
    let strict = WriteOptions { sloppy_quorum: Some(false), ..WriteOptions::default() };
    for index in 0..COUNT {
        cluster.put_as(4, &format!("key {index}"), &format!("value {index}"), strict).await;
    }
    assert!(cluster.hint_counts(4).0 > 0);
    cluster.stage(StagedChange::Leave { node: id(4) }).await;
    cluster.commit(1).await;
    cluster.pass(Duration::from_secs(60)).await;
    assert!(cluster.control(1).read().members().get(id(4)).is_some(), "it waits for node 3");
    cluster.start(3).await;
    cluster.until("it has left", || cluster.control(1).read().members().get(id(4)).is_none()).await;
    for index in 0..COUNT {
        let holders = cluster.holders(&format!("key {index}"));
        assert!((1..=3).all(|number| holders.contains(&id(number))), "key {index}: {holders:?}");
    }
}

/// The node takes nothing, and dies while the delivery waits for it.
#[tokio::test(start_paused = true)]
async fn a_whole_partition_whose_delivery_fails_waits_for_another_one() {
    let mut cluster = cluster(3, HintCountMax(0)).await;
    cluster.kill(3);
    cluster.put_many(1, COUNT).await;
    cluster.pass(Duration::from_secs(1)).await;
    let (record_count, whole_count) = cluster.hint_counts(1);
    assert_eq!(record_count, 0, "there is no room for hints of single records");
    assert!(whole_count > 0);
    cluster.start(3).await;
    let takes_nothing = TransferLimits { inbound: false, ..TransferLimits::default() };
    cluster.store(3).transfers().set_limits(takes_nothing);
    cluster.until("it is back", || cluster.control(1).is_reachable(id(3))).await;
    cluster.pass(Duration::from_secs(5)).await;
    cluster.kill(3);
    cluster.pass(Duration::from_secs(5)).await;
    assert_eq!(cluster.hint_counts(1), (0, whole_count));
    cluster.start(3).await;
    cluster.until_moved(3, COUNT).await;
    until_no_hints(&cluster).await;
}

/// The dead node is a primary of some records by only one of the two layouts.
#[tokio::test(start_paused = true)]
async fn a_primary_by_one_of_two_live_layouts_is_noted_what_it_misses() {
    let mut cluster = cluster(4, HintCountMax::default()).await;
    let of_fourth = |cluster: &TestCluster| -> BTreeSet<usize> {
        let primaries = |index: &usize| cluster.primaries(1, &format!("key {index}"));
        (0..COUNT).filter(|index| primaries(index).contains(&id(4))).collect()
    };
    let before = of_fourth(&cluster);
    cluster.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    cluster.add().await;
    cluster.join(5).await;
    cluster.commit(1).await;
    let live_count = |number| cluster.control(number).read().layouts().live().len();
    cluster.until("two layouts are live", || (1..=5).all(|number| live_count(number) == 2)).await;
    let after = of_fourth(&cluster);
    assert_ne!(before, after, "the node is a primary of other records");
    cluster.kill(4);
    let strict = WriteOptions { sloppy_quorum: Some(false), ..WriteOptions::default() };
    for index in 0..COUNT {
        cluster.put_as(1, &format!("key {index}"), &format!("value {index}"), strict).await;
    }
    cluster.pass(Duration::from_secs(1)).await;
    let hints = cluster.running().into_iter().map(|number| cluster.hint_counts(number).0);
    assert_eq!(hints.sum::<u64>(), before.union(&after).count() as u64);
}

/// Three nodes. The first one has hints for the third and has not delivered them, because it may send
/// nothing.
async fn with_waiting_hints() -> TestCluster {
    let mut cluster = cluster(3, HintCountMax::default()).await;
    cluster.kill(3);
    let strict = WriteOptions { sloppy_quorum: Some(false), ..WriteOptions::default() };
    for index in 0..COUNT {
        cluster.put_as(1, &format!("key {index}"), &format!("value {index}"), strict).await;
    }
    assert_eq!(cluster.hint_counts(1), (COUNT as u64, 0));
    let limits = TransferLimits { outbound: false, ..TransferLimits::default() };
    cluster.store(1).transfers().set_limits(limits);
    cluster.start(3).await;
    cluster.until("it is back", || cluster.control(1).is_reachable(id(3))).await;
    cluster
}

/// The node that is replaced hands its copy over.
#[tokio::test(start_paused = true)]
async fn a_replacement_gets_the_hinted_writes_of_the_replaced_node() {
    let mut cluster = with_waiting_hints().await;
    cluster.add().await;
    cluster.join(4).await;
    cluster.stage(StagedChange::Replace { old: id(3), new: id(4) }).await;
    cluster.commit(1).await;
    cluster.until("it has left", || cluster.control(1).read().members().get(id(3)).is_none()).await;
    let lacks = |index: &usize| !cluster.holders(&format!("key {index}")).contains(&id(4));
    assert_eq!((0..COUNT).filter(lacks).count(), COUNT, "the copy came without what it missed");
    cluster.set_limits(TransferLimits::default());
    cluster.until("the new one has all", || !(0..COUNT).any(|index| lacks(&index))).await;
    until_no_hints(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn stand_ins_make_hints_needless() {
    let mut cluster = cluster(5, HintCountMax::default()).await;
    cluster.kill(5);
    cluster.put_many(1, COUNT).await;
    cluster.pass(Duration::from_secs(2)).await;
    // Hints exist only for writes that were under way before the others noticed.
    let hints: u64 = (1..=4).map(|number| cluster.hint_counts(number).0).sum();
    assert!(hints < 20, "{hints} hints");
    cluster.start(5).await;
    cluster.until_moved(5, COUNT).await;
    until_no_hints(&cluster).await;
}

/// Every node writes all the time, also while only some nodes know that another one has gone or come
/// back.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_away_under_load_heals_by_hints_and_strays_alone() {
    let mut cluster = cluster(5, HintCountMax::default()).await;
    cluster.put_many(1, COUNT).await;
    for round in 0..40 {
        if round == 10 {
            cluster.kill(5);
        }
        if round == 30 {
            cluster.start(5).await;
        }
        for number in 1..=4 {
            for index in (round % 5..COUNT).step_by(5) {
                cluster.update(number, &format!("key {index}"), &format!("value {index}")).await;
            }
        }
        cluster.pass(Duration::from_secs(3)).await;
    }
    cluster.until_moved(5, COUNT).await;
    until_no_hints(&cluster).await;
}

/// When the coordinator stops, the other nodes have not yet noticed that the third copy is missing.
#[tokio::test(start_paused = true)]
async fn a_node_that_stops_leaves_hints_for_primaries_that_have_not_answered() {
    let mut cluster = cluster(3, HintCountMax::default()).await;
    for other in ["n1", "n2"] {
        cluster.network.silence(other, "n3");
        cluster.network.silence("n3", other);
    }
    cluster.put_many(1, COUNT).await;
    assert_eq!(cluster.hint_counts(1), (0, 0), "the third primary may have it yet");
    cluster.internode(1).give_up_calls();
    cluster.store(1).flush_hints().unwrap();
    cluster.kill(1);
    for other in ["n1", "n2"] {
        cluster.network.heal(other, "n3");
        cluster.network.heal("n3", other);
    }
    cluster.start(1).await;
    cluster.until_moved(3, COUNT).await;
    until_no_hints(&cluster).await;
}

/// The write is acknowledged long before the coordinator learns that the third copy has failed.
#[tokio::test(start_paused = true)]
async fn a_primary_that_fails_after_the_answer_gets_what_it_missed() {
    let cluster = cluster(3, HintCountMax::default()).await;
    for other in ["n1", "n2"] {
        cluster.network.silence(other, "n3");
        cluster.network.silence("n3", other);
    }
    let early = WriteOptions { timeout_ms: Some(500), ..WriteOptions::default() };
    for index in 0..COUNT {
        cluster.put_as(1, &format!("key {index}"), &format!("value {index}"), early).await;
    }
    cluster.network.reset("n1", "n3");
    cluster.network.reset("n2", "n3");
    cluster
        .until("the failure is noticed", || {
            (1..=2).map(|number| cluster.hint_counts(number).0).sum::<u64>() >= COUNT as u64
        })
        .await;
    for other in ["n1", "n2"] {
        cluster.network.heal(other, "n3");
        cluster.network.heal("n3", other);
    }
    cluster.until_moved(3, COUNT).await;
    until_no_hints(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn hints_outlast_a_restart_of_their_holder() {
    let mut cluster = cluster(3, HintCountMax::default()).await;
    cluster.kill(3);
    cluster.put_many(1, COUNT).await;
    cluster.pass(Duration::from_secs(1)).await;
    cluster.kill(1);
    cluster.kill(2);
    for number in 1..=3 {
        cluster.start(number).await;
    }
    cluster.until_moved(3, COUNT).await;
    until_no_hints(&cluster).await;
}

#[tokio::test(start_paused = true)]
async fn more_hints_than_are_kept_become_whole_partitions() {
    let mut cluster = cluster(3, HintCountMax(10)).await;
    cluster.kill(3);
    cluster.put_many(1, COUNT).await;
    let (record_count, partition_count) = cluster.hint_counts(1);
    assert!(record_count <= 10 && partition_count > 0);
    cluster.start(3).await;
    cluster.until_moved(3, COUNT).await;
    until_no_hints(&cluster).await;
}

/// With anti-entropy, an exchange finds the missed records of all partitions with a few messages.
#[tokio::test(start_paused = true)]
async fn whole_partitions_are_healed_by_one_exchange_where_nodes_compare() {
    let hint_count_max = HintCountMax(10);
    // Scheduled exchanges would come only after the test.
    let interval = Duration::from_secs(100_000);
    let exchanges = ExchangeSettings { interval, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, hint_count_max, ..StoreSettings::default() };
    let mut cluster = TestCluster::joined_with(3, settings).await;
    let exchange_count = |cluster: &TestCluster| {
        let of = |number| cluster.store(number).stats().snapshot().total(Counter::Exchanges);
        [1, 2].map(of).iter().sum::<u64>()
    };
    cluster.kill(3);
    cluster.put_many(1, COUNT).await;
    assert!(cluster.hint_counts(1).1 > 1, "of several partitions");
    let before = exchange_count(&cluster);
    cluster.start(3).await;
    until_no_hints(&cluster).await;
    assert_eq!(exchange_count(&cluster), before + 1);
    cluster.until_moved(3, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn whole_partitions_are_delivered_to_a_node_that_does_not_compare_them() {
    let settings = StoreSettings { hint_count_max: HintCountMax(10), ..StoreSettings::default() };
    let mut cluster = TestCluster::joined_with(3, settings).await;
    cluster.kill(3);
    cluster.bound_memory(3);
    cluster.put_many(1, COUNT).await;
    assert!(cluster.hint_counts(1).1 > 0, "whole partitions");
    cluster.start(3).await;
    until_no_hints(&cluster).await;
    cluster.until_moved(3, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn delivery_goes_on_where_it_was_interrupted() {
    let mut cluster = cluster(3, HintCountMax::default()).await;
    cluster.kill(3);
    cluster.put_many(1, COUNT).await;
    cluster.set_limits(TransferLimits { bytes_per_sec_max: 2_000, ..TransferLimits::default() });
    cluster.start(3).await;
    cluster.until("some are delivered", || cluster.hint_counts(1).0 < COUNT as u64).await;
    cluster.kill(3);
    let left = cluster.hint_counts(1).0;
    assert!(left > 0, "not all were delivered");
    cluster.start(3).await;
    cluster.until_moved(3, COUNT).await;
    until_no_hints(&cluster).await;
}
