//! What becomes of tombstones where several nodes hold them.

use crate::fixture::Town;
use quoit_wire::internode::reap::METHOD_REAP;
use quoit_wire::internode::transfer::METHOD_STRAYS;
use std::time::Duration;

const COUNT: usize = 300;

fn name(index: usize) -> String {
    format!("key {index}")
}

/// Names of which some node still stores something.
fn left(town: &Town, count: usize) -> usize {
    (0..count).filter(|index| !town.holders(&name(*index)).is_empty()).count()
}

async fn delete_many(town: &Town, number: u8, count: usize) {
    for index in 0..count {
        town.delete(number, &name(index)).await;
    }
}

/// Requests of a method that all nodes have served.
fn served(town: &Town, method: u16) -> u64 {
    let requests = |number: &u8| town.internode(*number).statistics().requests.of(method);
    town.running().iter().map(requests).sum()
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_tombstones_are_reaped_with_a_few_messages() {
    let town = Town::joined(5).await;
    town.put_many(1, COUNT).await;
    delete_many(&town, 1, COUNT).await;
    let strays_before = served(&town, METHOD_STRAYS);
    town.pass(Duration::from_secs(10)).await;
    assert_eq!(left(&town, COUNT), 0);
    let reap_count = served(&town, METHOD_REAP);
    assert!((1..60).contains(&reap_count), "{reap_count} messages for {COUNT} tombstones");
    let strays_count = served(&town, METHOD_STRAYS) - strays_before;
    assert!(strays_count <= 5 * 4 * 6, "{strays_count} questions for strays in ten seconds");
}

#[tokio::test(start_paused = true)]
async fn tombstones_whose_first_primary_changes_are_reaped_nevertheless() {
    let mut town = Town::joined(3).await;
    town.put_many(1, 100).await;
    delete_many(&town, 1, 100).await;
    assert_eq!(left(&town, 100), 100);
    town.add().await;
    town.add().await;
    town.join(4).await;
    town.join(5).await;
    town.commit(1).await;
    town.until_moved(1, 0).await;
    town.pass(Duration::from_secs(30)).await;
    assert_eq!(left(&town, 100), 0);
}
