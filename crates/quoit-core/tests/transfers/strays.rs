use crate::fixture::{Town, id};
use quoit_cluster::StagedChange;
use quoit_core::TransferLimits;
use std::time::Duration;

const COUNT: usize = 100;

#[tokio::test(start_paused = true)]
async fn what_stand_ins_took_goes_to_the_primary_that_is_back() {
    let mut town = Town::joined(5).await;
    town.kill(5);
    town.put_many(1, COUNT).await;
    let has_stand_in = |town: &Town, index: usize| {
        let name = format!("key {index}");
        !town.holders(&name).is_subset(&town.primaries(1, &name))
    };
    assert!((0..COUNT).any(|index| has_stand_in(&town, index)), "fallbacks took something");
    town.start(5).await;
    town.until_moved(5, COUNT).await;
    let handed: u64 = (1..=4).map(|number| town.store(number).transfers().record_count).sum();
    assert!(handed > 0);
    assert_eq!(town.store(1).transfers().waiting.get(&id(5)), None);
}

#[tokio::test(start_paused = true)]
async fn stand_ins_keep_what_they_took_as_long_as_a_primary_is_away() {
    let mut town = Town::joined(5).await;
    town.kill(5);
    town.put_many(1, COUNT).await;
    let before: Vec<_> = (0..COUNT).map(|index| town.holders(&format!("key {index}"))).collect();
    // Several rounds in which they look for something to hand over.
    town.pass(Duration::from_secs(60)).await;
    let after: Vec<_> = (0..COUNT).map(|index| town.holders(&format!("key {index}"))).collect();
    assert_eq!(before, after);
    let suspects: u64 =
        (1..=4).map(|number| town.store(number).transfers().stray_partition_count).sum();
    assert!(suspects > 0);
}

#[tokio::test(start_paused = true)]
async fn a_newer_write_on_the_primary_wins_over_what_a_stand_in_kept() {
    let mut town = Town::joined(5).await;
    let name = (0..)
        .map(|index| format!("key {index}"))
        .find(|name| town.primaries(1, name).contains(&id(5)))
        .expect("some key is there");
    town.kill(5);
    town.put(1, &name, "old").await;
    town.start(5).await;
    town.until("the node is back", || town.control(1).is_reachable(id(5))).await;
    town.update(1, &name, "new").await;
    town.until("the stray is gone", || town.holders(&name) == town.primaries(1, &name)).await;
    for number in 1..=5 {
        assert_eq!(town.get(number, &name).await.unwrap(), "new");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_replaced_meanwhile_is_not_delivered() {
    let mut town = Town::joined(5).await;
    let names = || (0..COUNT).map(|index| format!("key {index}"));
    town.kill(5);
    town.put_many(1, COUNT).await;
    let is_kept =
        |town: &Town, name: &String| !town.holders(name).is_subset(&town.primaries(1, name));
    let strays: Vec<_> = names().filter(|name| is_kept(&town, name)).collect();
    assert!(!strays.is_empty(), "fallbacks took something");
    town.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    town.start(5).await;
    town.until("the node is back", || town.control(1).is_reachable(id(5))).await;
    for name in &strays {
        town.update(1, name, "new").await;
    }
    let has_new = |name: &String| town.holders(name).is_superset(&town.primaries(1, name));
    town.until("all primaries have it", || strays.iter().all(has_new)).await;
    let handed = |town: &Town| {
        let counts = (1..=5).map(|number| town.store(number).transfers().record_count);
        counts.sum::<u64>()
    };
    let before = handed(&town);
    town.set_limits(TransferLimits::default());
    town.until("the strays are gone", || !strays.iter().any(|name| is_kept(&town, name))).await;
    assert_eq!(handed(&town), before, "offers are enough");
    for name in &strays {
        assert_eq!(town.get(5, name).await.unwrap(), "new");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_while_a_record_is_handed_over_is_not_removed_with_it() {
    let mut town = Town::joined(5).await;
    let name = (0..)
        .map(|index| format!("key {index}"))
        .find(|name| town.primaries(1, name).contains(&id(5)))
        .expect("some key is there");
    town.kill(5);
    town.put(1, &name, "old").await;
    let stand_in = town.holders(&name).difference(&town.primaries(1, &name)).copied().next();
    let stand_in = stand_in.expect("somebody stands in");
    town.start(5).await;
    town.set_limits(TransferLimits { bytes_per_sec_max: 1, ..TransferLimits::default() });
    town.until("the old value is delivered", || town.holders(&name).contains(&id(5))).await;
    town.kill(5);
    town.update(1, &name, "new").await;
    town.pass(Duration::from_secs(300)).await;
    assert!(town.holders(&name).contains(&stand_in), "the new value waits for the primary");
    town.start(5).await;
    town.until("the stray is gone", || town.holders(&name) == town.primaries(1, &name)).await;
    assert_eq!(town.get(5, &name).await.unwrap(), "new");
}

/// A fallback that still has the value when the tombstone is reaped could bring it back.
#[tokio::test(start_paused = true)]
async fn what_a_stand_in_keeps_does_not_come_back_when_its_tombstone_is_reaped() {
    let mut town = Town::joined(5).await;
    let name = (0..)
        .map(|index| format!("key {index}"))
        .find(|name| town.primaries(1, name).contains(&id(5)))
        .expect("some key is there");
    town.kill(5);
    town.put(1, &name, &"x".repeat(200)).await;
    town.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    town.start(5).await;
    town.until("all reach the node", || {
        (1..=4).all(|number| town.control(number).is_reachable(id(5)))
    })
    .await;
    town.delete(1, &name).await;
    town.pass(Duration::from_secs(60)).await;
    let (holders, primaries) = (town.holders(&name), town.primaries(1, &name));
    assert!(holders.len() == 1 && holders.is_disjoint(&primaries), "{holders:?}");
    town.set_limits(TransferLimits::default());
    town.until("the stray is gone", || town.holders(&name).is_empty()).await;
    for number in 1..=5 {
        assert!(!town.shows(number, &name).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_just_started_has_nobody_stand_in_for_nodes_it_has_not_reached_yet() {
    let mut town = Town::joined(5).await;
    town.kill(1);
    town.start(1).await;
    for index in 0..20 {
        let name = format!("key {index}");
        town.put(1, &name, "value").await;
        let primaries = town.primaries(1, &name);
        assert!(town.holders(&name).is_subset(&primaries), "{name}");
        assert_eq!(town.get(2, &name).await.expect("it was written"), "value");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_stays_until_it_has_handed_over_its_strays() {
    let mut town = Town::joined(5).await;
    town.kill(4);
    town.put_many(1, COUNT).await;
    let has = |town: &Town, index: usize| town.holders(&format!("key {index}")).contains(&id(5));
    let is_stray = |town: &Town, index: usize| {
        has(town, index) && !town.primaries(1, &format!("key {index}")).contains(&id(5))
    };
    assert!((0..COUNT).any(|index| is_stray(&town, index)), "it took something for another node");
    town.start(4).await;
    let slow = TransferLimits {
        partition_count_max: 1,
        bytes_per_sec_max: 300,
        ..TransferLimits::default()
    };
    town.store(5).set_transfer_limits(slow);
    town.stage(StagedChange::Leave { node: id(5) }).await;
    town.commit(1).await;
    let departure = town.control(5).departure();
    town.until("the node goes", || departure.borrow().is_some()).await;
    assert_eq!((0..COUNT).filter(|index| has(&town, *index)).count(), 0);
}
