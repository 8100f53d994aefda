//! Sources whose disks rot: what they can't read, they don't call handed over.

use crate::fixture::{Town, id, key};
use quoit_core::{ExchangeSettings, StoreSettings};
use std::time::Duration;

const COUNT: usize = 100;

fn name(index: usize) -> String {
    format!("key {index}")
}

/// Three nodes on disks, which do not compare their copies.
async fn without_exchanges() -> Town {
    let exchanges = ExchangeSettings { active: false, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, ..StoreSettings::default() };
    Town::joined_on_disks_with(3, settings).await
}

/// Records that a node is a primary of, and can't read.
fn lacking(town: &Town, number: u8) -> usize {
    let is_primary = |name: &str| town.primaries(1, name).contains(&id(number));
    let has =
        |name: &str| town.is_readable(number, name) && town.record(number, key(name)).is_some();
    (0..COUNT).map(name).filter(|name| is_primary(name) && !has(name)).count()
}

fn unreadable(town: &Town, number: u8) -> usize {
    (0..COUNT).filter(|index| !town.is_readable(number, &name(*index))).count()
}

#[tokio::test(start_paused = true)]
async fn a_new_primary_gets_what_its_source_can_not_read_from_other_replicas() {
    let mut town = without_exchanges().await;
    town.put_many(1, COUNT).await;
    town.until_moved(1, 0).await;
    town.rot(1);
    town.rot(2);
    assert!(unreadable(&town, 1) > COUNT / 2, "{} are damaged", unreadable(&town, 1));
    town.add().await;
    town.join(4).await;
    town.commit(1).await;
    town.until_moved(3, 0).await;
    assert_eq!(lacking(&town, 4), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hint_whose_record_is_damaged_stays_until_another_replica_heals_it() {
    let mut town = without_exchanges().await;
    town.kill(3);
    town.until("its death is seen", || {
        let peer = town.internode(1).peer(id(3));
        peer.is_none_or(|peer| !peer.is_up())
    })
    .await;
    town.put_many(1, COUNT).await;
    town.until("all is noted", || town.hint_counts(1).0 == COUNT as u64).await;
    town.kill(2);
    town.rot(1);
    let damaged = unreadable(&town, 1);
    assert!(damaged > 0);
    town.start(3).await;
    town.pass(Duration::from_secs(30)).await;
    let left = town.hint_counts(1).0 as usize;
    assert!((damaged..COUNT).contains(&left), "{left} hints are left of {damaged} damaged records");
    town.start(2).await;
    town.until("the rest is delivered", || town.hint_counts(1).0 == 0).await;
    assert_eq!(lacking(&town, 3), 0);
}
