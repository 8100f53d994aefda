//! Tests of damaged records whose other replicas do not all have the last write: a majority of replicas must
//! not miss it once the damage is healed.

use crate::fixture::{TestCluster, id, key};
use quoit_cluster::StagedChange;
use quoit_core::{ExchangeSettings, ReadOptions, RequestError, StoreSettings};
use quoit_model::props::{PropUpdates, Quorum};
use serde_json::{Value, json};
use std::time::Duration;

const COUNT: usize = 100;

fn name(index: usize) -> String {
    format!("key {index}")
}

async fn until_seen_dead(cluster: &TestCluster, reader: u8, number: u8) {
    let is_down = || cluster.internode(reader).peer(id(number)).is_none_or(|peer| !peer.is_up());
    cluster.until("its death is seen", is_down).await;
}

/// Three nodes of which the third has missed the last write of every record, the first one's disk is
/// damaged, and the second, the only one with all writes, is down. Returns the name of a record that is
/// damaged.
async fn with_damage_beside_an_old_copy() -> (TestCluster, String) {
    let exchanges = ExchangeSettings { active: false, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, ..StoreSettings::default() };
    let mut cluster = TestCluster::joined_on_disks_with(3, settings).await;
    let Value::Object(siblings) = json!({"allow_mult": true}) else { unreachable!("an object") };
    let updates = PropUpdates::from(siblings);
    cluster.control(1).set_bucket_props(key("any").bucket, &updates).await.unwrap();
    cluster.put_many(1, COUNT).await;
    cluster.kill(3);
    until_seen_dead(&cluster, 1, 3).await;
    for index in 0..COUNT {
        cluster.put(1, &name(index), "last").await;
    }
    cluster.kill(2);
    cluster.rot(1);
    cluster.start(3).await;
    until_seen_dead(&cluster, 3, 2).await;
    // A read with n_val 1 asks the first primary only.
    let is_first = |name: &str| cluster.primaries_of(1, key(name), 1).contains(&id(1));
    let is_damaged = |name: &String| is_first(name) && !cluster.is_readable(1, name);
    let damaged = (0..COUNT).map(name).find(is_damaged).expect("one is damaged");
    (cluster, damaged)
}

/// True if a node's copy has the last write.
fn has_last(cluster: &TestCluster, number: u8, name: &str) -> bool {
    cluster
        .stored(number, key(name))
        .is_some_and(|object| object.siblings.iter().any(|sibling| sibling.value == "last"))
}

/// A read of two primaries.
async fn read_majority(
    cluster: &TestCluster,
    number: u8,
    name: &str,
) -> Result<bool, RequestError> {
    let majority = ReadOptions {
        r: Some(Quorum::Count(2)),
        pr: Some(Quorum::Count(2)),
        ..ReadOptions::default()
    };
    let found = cluster.store(number).get(key(name), &majority).await?;
    Ok(found.is_some_and(|object| object.siblings.iter().any(|sibling| sibling.value == "last")))
}

#[tokio::test(start_paused = true)]
async fn a_damaged_record_is_not_replaced_by_the_copy_of_a_replica_that_missed_a_write() {
    let (mut cluster, damaged) = with_damage_beside_an_old_copy().await;
    cluster.pass(Duration::from_secs(60)).await;
    assert!(!cluster.is_readable(1, &damaged), "the second node may have more");
    let fault = read_majority(&cluster, 1, &damaged).await.unwrap_err();
    assert!(matches!(fault, RequestError::Unsatisfied { .. }), "{fault:?}");
    cluster.start(2).await;
    cluster.until("it is healed", || cluster.is_readable(1, &damaged)).await;
    assert!(has_last(&cluster, 1, &damaged));
}

#[tokio::test(start_paused = true)]
async fn a_read_does_not_replace_a_damaged_copy_by_one_other_replica() {
    let (cluster, damaged) = with_damage_beside_an_old_copy().await;
    let one = ReadOptions { r: Some(Quorum::One), ..ReadOptions::default() };
    let found = cluster.store(1).get(key(&damaged), &one).await.unwrap();
    assert!(found.is_some(), "the third node has an earlier value");
    assert!(!cluster.is_readable(1, &damaged));
}

#[tokio::test(start_paused = true)]
async fn a_read_with_a_lower_n_val_does_not_replace_a_damaged_copy() {
    let (cluster, damaged) = with_damage_beside_an_old_copy().await;
    let one = ReadOptions { n_val: Some(1), ..ReadOptions::default() };
    // The damaged copy may be the only one that this read asks.
    cluster.store(1).get(key(&damaged), &one).await.ok();
    assert!(!cluster.is_readable(1, &damaged));
}

/// The layout before the removal still names the node.
#[tokio::test(start_paused = true)]
async fn damage_does_not_wait_for_a_node_that_was_removed_by_force() {
    let exchanges = ExchangeSettings { active: false, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, ..StoreSettings::default() };
    let mut cluster = TestCluster::joined_on_disks_with(4, settings).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    cluster.rot(1);
    cluster.kill(4);
    until_seen_dead(&cluster, 1, 4).await;
    cluster.stage(StagedChange::ForceRemove { node: id(4) }).await;
    cluster.commit(1).await;
    let is_moving = || cluster.control(1).read().layouts().is_moving();
    cluster.until("the former layout retires", || !is_moving()).await;
    for index in 0..COUNT {
        assert_eq!(cluster.get(1, &name(index)).await.unwrap(), format!("value {index}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_over_a_damaged_copy_does_not_give_it_a_vote() {
    let (mut cluster, damaged) = with_damage_beside_an_old_copy().await;
    cluster.put(3, &damaged, "newer").await;
    cluster.until("the damaged copy is replaced", || cluster.is_readable(1, &damaged)).await;
    for number in [1, 3] {
        let fault = read_majority(&cluster, number, &damaged).await.unwrap_err();
        assert!(matches!(fault, RequestError::Unsatisfied { .. }), "node {number}: {fault:?}");
    }
    cluster.start(2).await;
    cluster.until("it is healed", || has_last(&cluster, 1, &damaged)).await;
    cluster.kill(2);
    until_seen_dead(&cluster, 1, 2).await;
    assert!(read_majority(&cluster, 1, &damaged).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_replaced_a_damaged_one_votes_if_no_other_replica_has_the_record() {
    let exchanges = ExchangeSettings { active: false, ..ExchangeSettings::default() };
    let settings = StoreSettings { exchanges, ..StoreSettings::default() };
    let cluster = TestCluster::joined_on_disks_with(3, settings).await;
    cluster.put_many(1, COUNT).await;
    cluster.rot(1);
    let damaged = (0..COUNT).map(name).find(|name| !cluster.is_readable(1, name)).unwrap();
    cluster.put(2, &damaged, "newer").await;
    [2, 3].into_iter().for_each(|number| cluster.lose(number, &damaged));
    let one = ReadOptions { r: Some(Quorum::One), ..ReadOptions::default() };
    cluster.pass(Duration::from_secs(5)).await;
    let found = cluster.store(1).get(key(&damaged), &one).await.unwrap().unwrap();
    assert_eq!(found.siblings[0].value, "newer");
}
