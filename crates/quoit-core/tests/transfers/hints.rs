//! Delivery of hints: a primary gets the writes that it missed when it is back, without any read.

use crate::fixture::{Town, id};
use quoit_cluster::StagedChange;
use quoit_core::{
    Counter, ExchangeSettings, HintCountMax, StoreSettings, TransferLimits, WriteOptions,
};
use std::time::Duration;

const COUNT: usize = 100;

/// Nodes that do not compare their copies: what heals here heals by hints and strays alone.
async fn town(count: u8, hint_count_max: HintCountMax) -> Town {
    let exchanges = ExchangeSettings { active: false, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, hint_count_max, ..StoreSettings::default() };
    Town::joined_with(count, settings).await
}

async fn until_no_hints(town: &Town) {
    town.until("hints are delivered", || {
        town.running().iter().all(|number| town.hint_counts(*number) == (0, 0))
    })
    .await;
}

/// With as many nodes as replicas nobody can stand in.
#[tokio::test(start_paused = true)]
async fn what_a_dead_primary_has_missed_is_delivered_when_it_is_back() {
    let mut town = town(3, HintCountMax::default()).await;
    town.kill(3);
    town.put_many(1, COUNT).await;
    for index in 0..COUNT {
        town.update(1, &format!("key {index}"), &format!("value {index}")).await;
    }
    assert_eq!(town.hint_counts(1), (COUNT as u64, 0), "one for each record");
    town.start(3).await;
    town.until_moved(3, COUNT).await;
    until_no_hints(&town).await;
}

#[tokio::test(start_paused = true)]
async fn strict_writes_have_no_stand_ins_and_leave_hints() {
    let mut town = town(5, HintCountMax::default()).await;
    town.kill(5);
    let strict = WriteOptions { sloppy_quorum: Some(false), ..WriteOptions::default() };
    for index in 0..COUNT {
        town.put_as(1, &format!("key {index}"), &format!("value {index}"), strict).await;
    }
    town.start(5).await;
    town.until_moved(5, COUNT).await;
    until_no_hints(&town).await;
}

/// Its hints go with it, but not before what they stand for is where it should be.
#[tokio::test(start_paused = true)]
async fn a_node_leaves_when_what_others_have_missed_of_its_writes_is_on_their_disks() {
    let mut town = town(4, HintCountMax::default()).await;
    town.kill(3);
    let strict = WriteOptions { sloppy_quorum: Some(false), ..WriteOptions::default() };
    for index in 0..COUNT {
        town.put_as(4, &format!("key {index}"), &format!("value {index}"), strict).await;
    }
    assert!(town.hint_counts(4).0 > 0);
    town.stage(StagedChange::Leave { node: id(4) }).await;
    town.commit(1).await;
    town.pass(Duration::from_secs(60)).await;
    assert!(town.control(1).read().members().get(id(4)).is_some(), "it waits for node 3");
    town.start(3).await;
    town.until("it has left", || town.control(1).read().members().get(id(4)).is_none()).await;
    for index in 0..COUNT {
        let holders = town.holders(&format!("key {index}"));
        assert!((1..=3).all(|number| holders.contains(&id(number))), "key {index}: {holders:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn stand_ins_make_hints_needless() {
    let mut town = town(5, HintCountMax::default()).await;
    town.kill(5);
    town.put_many(1, COUNT).await;
    town.pass(Duration::from_secs(2)).await;
    // Only what was under way when the others did not know yet.
    let hints: u64 = (1..=4).map(|number| town.hint_counts(number).0).sum();
    assert!(hints < 20, "{hints} hints");
    town.start(5).await;
    town.until_moved(5, COUNT).await;
    until_no_hints(&town).await;
}

/// Every node writes all the time, also in the moments in which not all know that one is gone or back.
#[tokio::test(start_paused = true)]
async fn a_node_that_was_away_under_load_heals_by_hints_and_strays_alone() {
    let mut town = town(5, HintCountMax::default()).await;
    town.put_many(1, COUNT).await;
    for round in 0..40 {
        if round == 10 {
            town.kill(5);
        }
        if round == 30 {
            town.start(5).await;
        }
        for number in 1..=4 {
            for index in (round % 5..COUNT).step_by(5) {
                town.update(number, &format!("key {index}"), &format!("value {index}")).await;
            }
        }
        town.pass(Duration::from_secs(3)).await;
    }
    town.until_moved(5, COUNT).await;
    until_no_hints(&town).await;
}

/// The write is acknowledged long before the third copy is known to have failed.
#[tokio::test(start_paused = true)]
async fn a_primary_that_fails_after_the_answer_gets_what_it_missed() {
    let town = town(3, HintCountMax::default()).await;
    for other in ["n1", "n2"] {
        town.network.silence(other, "n3");
        town.network.silence("n3", other);
    }
    let early = WriteOptions { timeout_ms: Some(500), ..WriteOptions::default() };
    for index in 0..COUNT {
        town.put_as(1, &format!("key {index}"), &format!("value {index}"), early).await;
    }
    town.network.reset("n1", "n3");
    town.network.reset("n2", "n3");
    town.until("the failure is noticed", || {
        (1..=2).map(|number| town.hint_counts(number).0).sum::<u64>() >= COUNT as u64
    })
    .await;
    for other in ["n1", "n2"] {
        town.network.heal(other, "n3");
        town.network.heal("n3", other);
    }
    town.until_moved(3, COUNT).await;
    until_no_hints(&town).await;
}

#[tokio::test(start_paused = true)]
async fn hints_outlast_a_restart_of_their_holder() {
    let mut town = town(3, HintCountMax::default()).await;
    town.kill(3);
    town.put_many(1, COUNT).await;
    town.pass(Duration::from_secs(1)).await;
    town.kill(1);
    town.kill(2);
    for number in 1..=3 {
        town.start(number).await;
    }
    town.until_moved(3, COUNT).await;
    until_no_hints(&town).await;
}

#[tokio::test(start_paused = true)]
async fn more_hints_than_are_kept_become_whole_partitions() {
    let mut town = town(3, HintCountMax(10)).await;
    town.kill(3);
    town.put_many(1, COUNT).await;
    let (record_count, partition_count) = town.hint_counts(1);
    assert!(record_count <= 10 && partition_count > 0);
    town.start(3).await;
    town.until_moved(3, COUNT).await;
    until_no_hints(&town).await;
}

/// Where nodes compare their copies, that finds what was missed in all partitions with a few messages.
#[tokio::test(start_paused = true)]
async fn whole_partitions_are_healed_by_one_exchange_where_nodes_compare() {
    let hint_count_max = HintCountMax(10);
    // In turn they do it after the test only.
    let interval = Duration::from_secs(100_000);
    let exchanges = ExchangeSettings { interval, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, hint_count_max, ..StoreSettings::default() };
    let mut town = Town::joined_with(3, settings).await;
    let exchange_count = |town: &Town| {
        let of = |number| town.store(number).stats().snapshot().total(Counter::Exchanges);
        [1, 2].map(of).iter().sum::<u64>()
    };
    town.kill(3);
    town.put_many(1, COUNT).await;
    assert!(town.hint_counts(1).1 > 1, "of several partitions");
    let before = exchange_count(&town);
    town.start(3).await;
    until_no_hints(&town).await;
    assert_eq!(exchange_count(&town), before + 1);
    town.until_moved(3, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn delivery_goes_on_where_it_was_interrupted() {
    let mut town = town(3, HintCountMax::default()).await;
    town.kill(3);
    town.put_many(1, COUNT).await;
    town.set_limits(TransferLimits { bytes_per_sec_max: 2_000, ..TransferLimits::default() });
    town.start(3).await;
    town.until("some are delivered", || town.hint_counts(1).0 < COUNT as u64).await;
    town.kill(3);
    let left = town.hint_counts(1).0;
    assert!(left > 0, "not all were delivered");
    town.start(3).await;
    town.until_moved(3, COUNT).await;
    until_no_hints(&town).await;
}
