//! Reaped tombstones, and what could bring back what they deleted.

use crate::fixture::{Town, id, key, key_in};
use quoit_cluster::NodeId;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const COUNT: usize = 30;

fn name(index: usize) -> String {
    format!("key {index}")
}

/// How many of the records some node stores something of.
fn left(town: &Town, bucket_type: &str) -> usize {
    (0..COUNT)
        .filter(|index| !town.holders_of(key_in(bucket_type, &name(*index))).is_empty())
        .count()
}

/// How many of the records some node shows a value of.
async fn shown(town: &Town, bucket_type: &str) -> usize {
    let mut count = 0;
    for index in 0..COUNT {
        for number in town.running() {
            count += usize::from(town.shows_at(number, key_in(bucket_type, &name(index))).await);
        }
    }
    count
}

/// A replica that agreed and whose sync had not come back yet loses power: the tombstone is on its disk
/// nevertheless. Without power failure, as a control, everything goes in the same way.
#[tokio::test(start_paused = true)]
async fn what_a_primary_agrees_on_is_on_its_disk() {
    for loses_power in [false, true] {
        let mut town = Town::joined_on_disks(3).await;
        town.put_many(1, COUNT).await;
        (1..=3).for_each(|number| town.sync(number));
        for index in 0..COUNT {
            town.delete(1, &name(index)).await;
        }
        town.pass(Duration::from_secs(10)).await;
        assert_eq!(left(&town, "default"), 0, "all are reaped");
        match loses_power {
            true => town.lose_power(3),
            false => town.kill(3),
        }
        town.start(3).await;
        town.pass(Duration::from_secs(60)).await;
        assert_eq!(shown(&town, "default").await, 0);
        assert_eq!(left(&town, "default"), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn former_primaries_of_a_bucket_with_fewer_replicas_do_not_bring_back_what_is_deleted() {
    let mut town = Town::joined(5).await;
    town.create_type("t", json!({"n_val": 5})).await;
    for index in 0..COUNT {
        let name = name(index);
        town.put_in(1, "t", &name, "value").await;
        town.until("all have it", || town.holders_of(key_in("t", &name)).len() == 5).await;
    }
    town.update_type("t", json!({"n_val": 3})).await;
    for index in 0..COUNT {
        town.delete_at(1, key_in("t", &name(index))).await;
    }
    town.pass(Duration::from_secs(30)).await;
    assert_eq!(left(&town, "t"), 0, "all are reaped");
    (1..=5).for_each(|number| town.stop(number));
    for number in 1..=5 {
        town.start(number).await;
    }
    town.pass(Duration::from_secs(60)).await;
    assert_eq!(shown(&town, "t").await, 0);
    assert_eq!(left(&town, "t"), 0);
}

#[tokio::test(start_paused = true)]
async fn records_of_a_bucket_with_more_replicas_than_classes_are_no_strays() {
    let town = Town::joined(16).await;
    town.create_type("t", json!({"n_val": 16})).await;
    let is_settled =
        || (1..=16).all(|number| town.store(number).transfers().stray_partition_count == 0);
    town.until("no partition is suspected after the start", is_settled).await;
    for index in 0..5 {
        let name = name(index);
        town.put_in(1, "t", &name, "value").await;
        assert_eq!(town.holders_of(key_in("t", &name)).len(), 16);
        assert!(is_settled(), "a primary of the record counts as a fallback");
    }
}

/// The other bucket has a node as primary that is away; this one does not.
#[tokio::test(start_paused = true)]
async fn a_bucket_with_more_replicas_does_not_hold_up_the_strays_of_others() {
    let mut town = Town::joined(6).await;
    town.create_type("wide", json!({"n_val": 6})).await;
    let name = name(0);
    let primaries = town.primaries(1, &name);
    let number_of = |node: &NodeId| node.0[0];
    let away = number_of(primaries.last().expect("there are three"));
    let asks = number_of(primaries.first().expect("there are three"));
    town.kill(away);
    town.until("the death is seen", || !town.control(asks).is_reachable(id(away))).await;
    town.put(asks, &name, "value").await;
    let holders = town.holders(&name);
    let stand_in = *holders.difference(&primaries).next().expect("somebody stands in");
    let other = (1..=6).find(|number| !primaries.contains(&id(*number)) && id(*number) != stand_in);
    town.kill(other.expect("there are six nodes"));
    town.start(away).await;
    town.until("the stray is handed over", || town.holders(&name) == primaries).await;
    let there: BTreeSet<NodeId> = town.running().into_iter().map(id).collect();
    assert_eq!(there.len(), 5);
    assert!(town.stored(away, key(&name)).is_some());
}

fn reap_record_count(town: &Town) -> usize {
    let counts = town.running().into_iter();
    counts.map(|number| town.store(number).reap_record_stats().count).sum()
}

/// A fallback keeps values of many records, and goes away. The primaries delete these; the answer has the
/// fallback.
async fn leave_strays_on_a_node_that_goes_away(town: &mut Town) -> u8 {
    let count = town.running().len() as u8;
    let names: Vec<String> = (0..COUNT).map(name).collect();
    let away = count;
    let stands_in = |town: &Town, name: &String| !town.primaries(1, name).contains(&id(away));
    // As if the primaries had been down when the value was written: only the fallback keeps it.
    for name in names.iter().filter(|name| stands_in(town, name)) {
        town.put(1, name, "value").await;
        let holder = town.primaries(1, name).first().expect("there are three").0[0];
        let record = town.record(holder, key(name)).expect("a primary has it");
        town.find_again(away, name, &record);
    }
    town.kill(away);
    town.until("the death is seen", || !town.control(1).is_reachable(id(away))).await;
    for name in names.iter().filter(|name| stands_in(town, name)) {
        town.delete(1, name).await;
    }
    town.pass(Duration::from_secs(20)).await;
    for name in names.iter().filter(|name| stands_in(town, name)) {
        assert_eq!(town.holders(name), BTreeSet::from([id(away)]), "reaped on the primaries");
    }
    away
}

/// Also where something has been written since that knows nothing of the old value, and where the primaries
/// were started again meanwhile.
#[tokio::test(start_paused = true)]
async fn what_a_member_brings_back_that_was_away_when_it_was_reaped_stays_deleted() {
    let mut town = Town::joined(5).await;
    let away = leave_strays_on_a_node_that_goes_away(&mut town).await;
    for number in 1..away {
        town.stop(number);
    }
    for number in 1..away {
        town.start(number).await;
    }
    town.until("all reach each other", || {
        (1..away).all(|number| {
            (1..away).all(|other| number == other || town.control(number).is_reachable(id(other)))
        })
    })
    .await;
    let is_old = |town: &Town, index: &usize| town.holders(&name(*index)).contains(&id(away));
    let old: Vec<usize> = (0..COUNT).filter(|index| is_old(&town, index)).collect();
    assert!(old.len() > 3);
    let (again, gone) = old.split_at(old.len() / 2);
    for index in again {
        town.put(1, &name(*index), "new").await;
    }
    // Nothing but the member that was away has this one.
    let only = (0..).map(|index| format!("only {index}"));
    let only = only.filter(|name| !town.primaries(1, name).contains(&id(away)));
    let only = only.take(1).next().expect("some name has other primaries");
    let lent = town.record(away, key(&name(old[0]))).expect("the member has it");
    town.find_again(away, &only, &lent);
    town.start(away).await;
    let is_settled = |town: &Town| old.iter().all(|index| !is_old(town, index));
    town.until("the strays are handed over", || is_settled(&town)).await;
    town.pass(Duration::from_secs(20)).await;
    for number in town.running() {
        for index in gone {
            assert!(!town.shows(number, &name(*index)).await, "key {index} came back");
        }
        for index in again {
            let object = town.stored(number, key(&name(*index)));
            assert!(
                object.is_none_or(|object| object.siblings.len() == 1),
                "the old value came in"
            );
        }
        assert!(town.shows(number, &only).await, "what only the member had");
    }
}

#[tokio::test(start_paused = true)]
async fn reap_records_are_kept_until_all_members_have_reported() {
    let mut town = Town::joined(5).await;
    let away = leave_strays_on_a_node_that_goes_away(&mut town).await;
    let count = reap_record_count(&town);
    assert!(count >= 9);
    town.pass(Duration::from_secs(600)).await;
    assert_eq!(reap_record_count(&town), count);
    let held_up = town.store(1).reap_records_held_up();
    assert_eq!(held_up.away.len(), 1);
    assert!(held_up.away[0].starts_with(&format!("n{away}@")), "{held_up:?}");
    town.start(away).await;
    town.pass(Duration::from_secs(600)).await;
    assert_eq!(reap_record_count(&town), 0);
    assert!(town.store(1).reap_records_held_up().away.is_empty());
    assert_eq!(shown(&town, "default").await, 0);
    assert_eq!(left(&town, "default"), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_reap_records_are_damaged_gets_them_from_other_primaries() {
    let mut town = Town::joined(5).await;
    let away = leave_strays_on_a_node_that_goes_away(&mut town).await;
    let harmed = town.running()[0];
    let count = town.store(harmed).reap_record_stats().count;
    assert!(count > 0);
    town.stop(harmed);
    town.rot_reap_records(harmed);
    town.start_after_loss(harmed).await;
    assert!(!town.store(harmed).has_lost_reap_records());
    town.pass(Duration::from_secs(60)).await;
    let again = town.store(harmed).reap_record_stats().count;
    assert!(again > count / 2, "{again} of {count}");
    town.stop(harmed);
    town.start(harmed).await;
    assert!(!town.store(harmed).has_lost_reap_records(), "it was made up for once and for all");
    // It comes with copies of what was reaped.
    town.start(away).await;
    town.until("the copies are whole again", || {
        town.control(harmed).read().layouts().lost_copies().next().is_none()
    })
    .await;
    town.pass(Duration::from_secs(60)).await;
    assert_eq!(shown(&town, "default").await, 0);
}

#[tokio::test(start_paused = true)]
async fn new_primaries_know_what_was_reaped() {
    let mut town = Town::joined(5).await;
    let away = leave_strays_on_a_node_that_goes_away(&mut town).await;
    town.add().await;
    town.join(6).await;
    // The member that is away can't acknowledge the layout; it is waited for no longer.
    town.control(1).mark_down(id(away)).await.unwrap();
    town.commit(1).await;
    town.until("the layout is changed", || !town.control(1).read().layouts().is_moving()).await;
    let reaped = town.store(6).reap_record_stats().count;
    assert!(reaped > 0, "the new primary has no reap records");
    town.start(away).await;
    town.pass(Duration::from_secs(60)).await;
    assert_eq!(shown(&town, "default").await, 0);
}

/// The primaries of most records are there when one of many members is away.
#[tokio::test(start_paused = true)]
async fn with_one_of_twenty_nodes_away_the_others_reap() {
    let mut town = Town::joined(20).await;
    let away = leave_strays_on_a_node_that_goes_away(&mut town).await;
    town.start(away).await;
    town.pass(Duration::from_secs(60)).await;
    assert_eq!(shown(&town, "default").await, 0);
    assert_eq!(left(&town, "default"), 0);
}
