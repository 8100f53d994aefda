//! Data types whose copies are given away and come back.

use crate::fixture::*;
use quoit_cluster::StagedChange;
use quoit_core::{DataTypeRequest, WriteOptions};
use quoit_model::data_type::Operation;
use quoit_model::key::KeyRef;
use quoit_store::engine::Record;
use serde_json::json;
use std::time::Duration;

const COUNT: usize = 20;

async fn count_up(town: &Town, number: u8, key: KeyRef<'_>) {
    let operation = Operation::Counter(1);
    let (context, return_value, options) = (None, false, WriteOptions::default());
    let request = DataTypeRequest { key, operation, context, return_value, options };
    town.store(number).update_data_type(request).await.unwrap();
}

/// The events of a record, of each actor that has made any.
fn events(town: &Town, number: u8, key: KeyRef<'_>) -> Vec<(Vec<u8>, u64)> {
    let object = town.stored(number, key).unwrap();
    let entries = object.clock.entries().iter();
    entries.map(|entry| (entry.actor.0.to_vec(), entry.counter)).collect()
}

#[tokio::test(start_paused = true)]
async fn no_event_is_made_twice_when_a_copy_was_given_away_and_comes_back_older_after_a_restart() {
    let mut town = Town::joined(3).await;
    town.create_type("counters", json!({"datatype": "counter", "allow_mult": true})).await;
    let names: Vec<String> = (0..COUNT).map(|index| format!("key {index}")).collect();
    let mut older: Vec<Record> = Vec::new();
    for name in &names {
        let key = key_in("counters", name);
        count_up(&town, 1, key).await;
        older.push(town.record(1, key).unwrap());
        count_up(&town, 1, key).await;
    }
    town.add().await;
    town.join(4).await;
    town.commit(1).await;
    town.until_moved(1, 0).await;
    let is_given_away = |index: &usize| {
        !town.primaries_of(1, key_in("counters", &names[*index]), 3).contains(&id(1))
    };
    let given_away = (0..COUNT).find(is_given_away).expect("some move away from the first");
    let key = key_in("counters", &names[given_away]);
    town.until("the copy is removed", || town.stored(1, key).is_none()).await;
    let before = events(&town, 2, key);
    assert_eq!(before.iter().map(|(_, counter)| *counter).collect::<Vec<_>>(), [2]);
    town.stop(1);
    town.start(1).await;
    town.until("the node is back", || town.control(2).is_reachable(id(1))).await;
    town.stage(StagedChange::Leave { node: id(4) }).await;
    town.commit(1).await;
    town.until_moved(1, 0).await;
    // As from a replica that lacks the last event.
    town.find_again_at(1, key, &older[given_away]);
    count_up(&town, 1, key).await;
    let after = events(&town, 1, key);
    let of_before = after.iter().find(|(actor, _)| *actor == before[0].0).expect("it is known");
    assert_eq!((of_before.1, after.len()), (1, 2), "a new incarnation goes on: {after:?}");
}

#[tokio::test(start_paused = true)]
async fn copies_stay_as_long_as_it_can_not_be_noted_that_they_go() {
    let mut town = Town::joined(3).await;
    town.put_many(2, COUNT).await;
    (1..=3).for_each(|number| town.counters(number).set_full(true));
    town.add().await;
    town.join(4).await;
    town.commit(1).await;
    town.until("the new copies are complete", || !town.control(1).read().layouts().is_moving())
        .await;
    let holders = |town: &Town| -> usize {
        (0..COUNT).map(|index| town.holders(&format!("key {index}")).len()).sum()
    };
    town.until("the fourth has its copies", || holders(&town) > 3 * COUNT).await;
    town.pass(Duration::from_secs(10)).await;
    let suspects = |number| town.store(number).transfers().stray_partition_count;
    assert!((1..=3).map(suspects).sum::<u64>() > 0);
    assert!(holders(&town) > 3 * COUNT, "nothing was removed");
    (1..=3).for_each(|number| town.counters(number).set_full(false));
    town.until_moved(4, COUNT).await;
}
