//! Buckets that get more replicas, or fewer.

use crate::fixture::{Town, id, key_in};
use quoit_cluster::NodeId;
use quoit_core::{Counter, Deadline, ReadOptions, TransferLimits};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

const COUNT: usize = 30;

fn name(index: usize) -> String {
    format!("key {index}")
}

/// Whether each node knows of no bucket with copies that are not filled.
fn is_filled(town: &Town) -> bool {
    town.running().into_iter().all(|number| town.control(number).read().raises().is_empty())
}

fn are_on_primaries(town: &Town, n_val: u32) -> bool {
    (0..COUNT).all(|index| {
        let name = name(index);
        let key = key_in("t", &name);
        town.holders_of(key) == town.primaries_of(1, key, n_val)
    })
}

async fn with_records(count: u8, n_val: u32) -> Town {
    let town = Town::joined(count).await;
    town.create_type("t", json!({ "n_val": n_val })).await;
    for index in 0..COUNT {
        let name = name(index);
        town.put_in(1, "t", &name, "value").await;
        let key = key_in("t", &name);
        town.until("all have it", || town.holders_of(key).len() == n_val as usize).await;
    }
    town
}

/// Whether every node shows every record, also where the first answer is enough.
async fn all_are_shown(town: &Town) -> bool {
    for index in 0..COUNT {
        let name = name(index);
        let key = key_in("t", &name);
        for number in town.running() {
            for r in [Some(Quorum::Count(1)), None] {
                let options = ReadOptions { r, ..ReadOptions::default() };
                if town.store(number).get(key, &options).await.unwrap().is_none() {
                    return false;
                }
            }
        }
    }
    true
}

/// The new ones have nothing at first, and say so.
#[tokio::test(start_paused = true)]
async fn a_raised_n_val_is_filled_and_nothing_is_missed_meanwhile() {
    let town = with_records(5, 2).await;
    town.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    town.update_type("t", json!({ "n_val": 5 })).await;
    town.pass(Duration::from_secs(1)).await;
    assert!(town.running().iter().all(|number| town.control(*number).read().raises().len() == 1));
    assert!(are_on_primaries(&town, 2), "nothing is handed over yet");
    assert!(all_are_shown(&town).await, "copies that are not filled outvote those that are");
    town.set_limits(TransferLimits::default());
    // Long before anti-entropy has its turn.
    town.until_within(Duration::from_secs(8), "all are filled", || {
        is_filled(&town) && are_on_primaries(&town, 5)
    })
    .await;
    assert!(all_are_shown(&town).await);
}

#[tokio::test(start_paused = true)]
async fn a_raise_is_not_over_before_a_primary_that_is_away_has_its_copies() {
    let mut town = with_records(5, 2).await;
    town.kill(5);
    town.until("the death is seen", || !town.control(1).is_reachable(id(5))).await;
    town.update_type("t", json!({ "n_val": 5 })).await;
    town.pass(Duration::from_secs(20)).await;
    assert!((1..=4).all(|number| !town.control(number).read().raises().is_empty()));
    assert!(all_are_shown(&town).await);
    town.start(5).await;
    town.until("all are filled", || is_filled(&town) && are_on_primaries(&town, 5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_marked_as_down_is_waited_for_where_it_gets_copies_and_nowhere_else() {
    let mut town = with_records(5, 2).await;
    town.kill(5);
    town.until("the death is seen", || !town.control(1).is_reachable(id(5))).await;
    town.control(1).mark_down(id(5)).await.unwrap();
    town.create_type("empty", json!({ "n_val": 2 })).await;
    town.update_type("empty", json!({ "n_val": 5 })).await;
    town.until("there is nothing to hand over", || is_filled(&town)).await;
    town.update_type("t", json!({ "n_val": 5 })).await;
    town.pass(Duration::from_secs(20)).await;
    assert!(!is_filled(&town));
    town.start(5).await;
    town.until("all are filled", || is_filled(&town) && are_on_primaries(&town, 5)).await;
}

/// A former primary gets its copies back. An event of its store's, made before that, would claim to have seen
/// the values that it made events for when it was a primary.
#[tokio::test(start_paused = true)]
async fn a_primary_that_comes_back_claims_nothing_that_was_removed_with_its_copy() {
    let town = with_records(3, 3).await;
    let last_of = |key: KeyRef<'_>| {
        let fewer = town.primaries_of(1, key, 1);
        (1..=3).find(|number| !fewer.contains(&id(*number))).expect("there are three")
    };
    for index in 0..COUNT {
        let name = name(index);
        let key = key_in("t", &name);
        town.put_in(last_of(key), "t", &name, "first").await;
    }
    town.update_type("t", json!({ "n_val": 1 })).await;
    town.until("former primaries keep nothing", || are_on_primaries(&town, 1)).await;
    town.update_type("t", json!({ "n_val": 3 })).await;
    for index in 0..COUNT {
        let name = name(index);
        let key = key_in("t", &name);
        town.put_in(last_of(key), "t", &name, "second").await;
        let read = town.store(1).get(key, &ReadOptions::default()).await.unwrap().unwrap();
        let mut values: Vec<_> = read.siblings.iter().map(|each| &each.value[..]).collect();
        values.sort_unstable();
        assert_eq!(values, [&b"first"[..], b"second", b"value"], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_raise_outlives_the_processes_that_knew_of_it() {
    let mut town = with_records(5, 2).await;
    town.kill(5);
    town.until("the death is seen", || !town.control(1).is_reachable(id(5))).await;
    town.update_type("t", json!({ "n_val": 5 })).await;
    town.pass(Duration::from_secs(5)).await;
    (1..=4).for_each(|number| town.kill(number));
    for number in 1..=4 {
        town.start(number).await;
    }
    assert!((1..=4).all(|number| !town.control(number).read().raises().is_empty()));
    town.start(5).await;
    town.until("all are filled", || is_filled(&town) && are_on_primaries(&town, 5)).await;
}

/// A former replica has been away since before the delete, and becomes a primary again.
#[tokio::test(start_paused = true)]
async fn new_primaries_get_the_reap_records_of_what_they_kept() {
    let mut town = with_records(5, 5).await;
    let name = name(0);
    let key = key_in("t", &name);
    let fewer = town.primaries_of(1, key, 3);
    let all: BTreeSet<NodeId> = (1..=5).map(id).collect();
    let away = (&all - &fewer).first().expect("there are five").0[0];
    town.kill(away);
    let there = town.running()[0];
    town.until("the death is seen", || !town.control(there).is_reachable(id(away))).await;
    let props = json!({ "n_val": 3 });
    let updates = |props: serde_json::Value| {
        quoit_model::props::PropUpdates::from(props.as_object().unwrap().clone())
    };
    town.control(there).update_type(b"t", &updates(props)).await.unwrap();
    town.until("the others have removed what is not theirs", || {
        let holders = town.holders_of(key);
        holders.len() == 4 && holders.is_superset(&fewer)
    })
    .await;
    town.delete_at(there, key).await;
    town.pass(Duration::from_secs(20)).await;
    assert_eq!(town.holders_of(key), BTreeSet::from([id(away)]), "the delete is reaped");
    town.control(there).update_type(b"t", &updates(json!({ "n_val": 5 }))).await.unwrap();
    town.start(away).await;
    town.until("all are filled", || is_filled(&town)).await;
    assert_eq!(town.holders_of(key), BTreeSet::new());
    for number in town.running() {
        assert!(!town.shows_at(number, key).await);
    }
}

/// Records that were written by the former n_val are filed under it. Replicas that compared by that number
/// handed each other the same records for ever.
#[tokio::test(start_paused = true)]
async fn exchanges_come_to_an_end_after_an_n_val_was_changed() {
    let town = with_records(5, 5).await;
    town.update_type("t", json!({ "n_val": 3 })).await;
    town.until("former primaries keep nothing", || are_on_primaries(&town, 3)).await;
    // What is given back is filed under the number that holds now.
    for index in 0..COUNT {
        let name = name(index);
        let key = key_in("t", &name);
        let others = &town.primaries_of(1, key, 3) - &town.primaries_of(1, key, 2);
        town.lose_at(others.first().expect("there are three").0[0], key);
    }
    town.pass(Duration::from_secs(300)).await;
    let repaired = |town: &Town| -> u64 {
        let each = town.running().into_iter();
        let of =
            |number| town.store(number).stats().snapshot().total(Counter::ExchangeKeysRepaired);
        each.map(of).sum()
    };
    let before = repaired(&town);
    town.pass(Duration::from_secs(300)).await;
    assert_eq!(repaired(&town), before);
    assert!(are_on_primaries(&town, 3));
    let strays = |number| town.store(number).transfers().stray_partition_count;
    assert!(town.running().into_iter().all(|number| strays(number) == 0));
}

/// The only holder of a bucket is away: the type's other primaries do not have it.
#[tokio::test(start_paused = true)]
async fn a_listing_of_buckets_without_the_only_replica_of_one_is_an_error() {
    let mut town = Town::joined(5).await;
    town.create_type("t", json!({ "n_val": 3 })).await;
    let name = name(0);
    let key = key_in("t", &name);
    let updates = json!({ "n_val": 1 });
    let updates = quoit_model::props::PropUpdates::from(updates.as_object().unwrap().clone());
    town.control(1).set_bucket_props(key.bucket, &updates).await.unwrap();
    town.put_in(1, "t", &name, "value").await;
    let holder = town.holders_of(key).first().expect("it is stored").0[0];
    town.kill(holder);
    let there = town.running()[0];
    town.until("the death is seen", || !town.control(there).is_reachable(id(holder))).await;
    let listing = town.store(there).list_buckets(b"t").await;
    let listed = match listing {
        Err(_) => return,
        Ok(mut listing) => Deadline::after_ms(60_000).limit(listing.next()).await,
    };
    assert!(listed.is_err(), "{listed:?}");
}
