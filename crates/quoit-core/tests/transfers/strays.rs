use crate::fixture::{TestCluster, id, key, key_in};
use quoit_cluster::StagedChange;
use quoit_core::{DeleteMode, StoreSettings, TransferLimits};
use quoit_testkit::values;
use serde_json::json;
use std::time::Duration;

const COUNT: usize = 100;

#[tokio::test(start_paused = true)]
async fn what_stand_ins_took_goes_to_the_primary_that_is_back() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.kill(5);
    cluster.put_many(1, COUNT).await;
    let has_stand_in = |cluster: &TestCluster, index: usize| {
        let name = format!("key {index}");
        !cluster.holders(&name).is_subset(&cluster.primaries(1, &name))
    };
    assert!((0..COUNT).any(|index| has_stand_in(&cluster, index)), "fallbacks took something");
    cluster.start(5).await;
    cluster.until_moved(5, COUNT).await;
    let handed: u64 =
        (1..=4).map(|number| cluster.store(number).transfers().stats().record_count).sum();
    assert!(handed > 0);
    assert_eq!(cluster.store(1).transfers().stats().waiting.get(&id(5)), None);
}

#[tokio::test(start_paused = true)]
async fn stand_ins_keep_what_they_took_as_long_as_a_primary_is_away() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.kill(5);
    cluster.put_many(1, COUNT).await;
    let before: Vec<_> = (0..COUNT).map(|index| cluster.holders(&format!("key {index}"))).collect();
    // Long enough for several passes over strays.
    cluster.pass(Duration::from_secs(60)).await;
    let after: Vec<_> = (0..COUNT).map(|index| cluster.holders(&format!("key {index}"))).collect();
    assert_eq!(before, after);
    let suspects: u64 =
        (1..=4).map(|number| cluster.store(number).transfers().stats().stray_partition_count).sum();
    assert!(suspects > 0);
}

#[tokio::test(start_paused = true)]
async fn a_newer_write_on_the_primary_wins_over_what_a_stand_in_kept() {
    let mut cluster = TestCluster::joined(5).await;
    let name = (0..)
        .map(|index| format!("key {index}"))
        .find(|name| cluster.primaries(1, name).contains(&id(5)))
        .expect("some key is there");
    cluster.kill(5);
    cluster.put(1, &name, "old").await;
    cluster.start(5).await;
    cluster.until("the node is back", || cluster.control(1).is_reachable(id(5))).await;
    cluster.update(1, &name, "new").await;
    cluster
        .until("the stray is gone", || cluster.holders(&name) == cluster.primaries(1, &name))
        .await;
    for number in 1..=5 {
        assert_eq!(cluster.get(number, &name).await.unwrap(), "new");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_replaced_meanwhile_is_not_delivered() {
    let mut cluster = TestCluster::joined(5).await;
    let names = || (0..COUNT).map(|index| format!("key {index}"));
    cluster.kill(5);
    cluster.put_many(1, COUNT).await;
    let is_kept = |cluster: &TestCluster, name: &String| {
        !cluster.holders(name).is_subset(&cluster.primaries(1, name))
    };
    let strays: Vec<_> = names().filter(|name| is_kept(&cluster, name)).collect();
    assert!(!strays.is_empty(), "fallbacks took something");
    cluster.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    cluster.start(5).await;
    cluster.until("the node is back", || cluster.control(1).is_reachable(id(5))).await;
    for name in &strays {
        cluster.update(1, name, "new").await;
    }
    let has_new = |name: &String| cluster.holders(name).is_superset(&cluster.primaries(1, name));
    cluster.until("all primaries have it", || strays.iter().all(has_new)).await;
    let handed = |cluster: &TestCluster| {
        let counts = (1..=5).map(|number| cluster.store(number).transfers().stats().record_count);
        counts.sum::<u64>()
    };
    let before = handed(&cluster);
    cluster.set_limits(TransferLimits::default());
    cluster
        .until("the strays are gone", || !strays.iter().any(|name| is_kept(&cluster, name)))
        .await;
    assert_eq!(handed(&cluster), before, "offers are enough");
    for name in &strays {
        assert_eq!(cluster.get(5, name).await.unwrap(), "new");
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_written_while_a_record_is_handed_over_is_not_removed_with_it() {
    let mut cluster = TestCluster::joined(5).await;
    let name = (0..)
        .map(|index| format!("key {index}"))
        .find(|name| cluster.primaries(1, name).contains(&id(5)))
        .expect("some key is there");
    cluster.kill(5);
    cluster.put(1, &name, "old").await;
    let fallback = cluster.holders(&name).difference(&cluster.primaries(1, &name)).copied().next();
    let fallback = fallback.expect("somebody stands in");
    cluster.start(5).await;
    cluster.set_limits(TransferLimits { bytes_per_sec_max: 1, ..TransferLimits::default() });
    cluster.until("the old value is delivered", || cluster.holders(&name).contains(&id(5))).await;
    cluster.kill(5);
    cluster.update(1, &name, "new").await;
    cluster.pass(Duration::from_secs(300)).await;
    assert!(cluster.holders(&name).contains(&fallback), "the new value waits for the primary");
    cluster.start(5).await;
    cluster
        .until("the stray is gone", || cluster.holders(&name) == cluster.primaries(1, &name))
        .await;
    assert_eq!(cluster.get(5, &name).await.unwrap(), "new");
}

/// A fallback that still has the value when the tombstone is reaped could bring it back.
#[tokio::test(start_paused = true)]
async fn what_a_stand_in_keeps_does_not_come_back_when_its_tombstone_is_reaped() {
    let mut cluster = TestCluster::joined(5).await;
    let name = (0..)
        .map(|index| format!("key {index}"))
        .find(|name| cluster.primaries(1, name).contains(&id(5)))
        .expect("some key is there");
    cluster.kill(5);
    cluster.put(1, &name, &"x".repeat(200)).await;
    cluster.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    cluster.start(5).await;
    cluster
        .until("all reach the node", || {
            (1..=4).all(|number| cluster.control(number).is_reachable(id(5)))
        })
        .await;
    cluster.delete(1, &name).await;
    cluster.pass(Duration::from_secs(60)).await;
    let (holders, primaries) = (cluster.holders(&name), cluster.primaries(1, &name));
    assert!(holders.len() == 1 && holders.is_disjoint(&primaries), "{holders:?}");
    cluster.set_limits(TransferLimits::default());
    cluster.until("the stray is gone", || cluster.holders(&name).is_empty()).await;
    for number in 1..=5 {
        assert!(!cluster.shows(number, &name).await);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_just_started_has_nobody_stand_in_for_nodes_it_has_not_reached_yet() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.kill(1);
    cluster.start(1).await;
    for index in 0..20 {
        let name = format!("key {index}");
        cluster.put(1, &name, "value").await;
        let primaries = cluster.primaries(1, &name);
        assert!(cluster.holders(&name).is_subset(&primaries), "{name}");
        assert_eq!(cluster.get(2, &name).await.expect("it was written"), "value");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_stays_until_it_has_handed_over_its_strays() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.kill(4);
    cluster.put_many(1, COUNT).await;
    let has = |cluster: &TestCluster, index: usize| {
        cluster.holders(&format!("key {index}")).contains(&id(5))
    };
    let is_stray = |cluster: &TestCluster, index: usize| {
        has(cluster, index) && !cluster.primaries(1, &format!("key {index}")).contains(&id(5))
    };
    assert!(
        (0..COUNT).any(|index| is_stray(&cluster, index)),
        "it took something for another node"
    );
    cluster.start(4).await;
    let slow = TransferLimits {
        partition_count_max: 1,
        bytes_per_sec_max: 300,
        ..TransferLimits::default()
    };
    cluster.store(5).transfers().set_limits(slow);
    cluster.stage(StagedChange::Leave { node: id(5) }).await;
    cluster.commit(1).await;
    let departure = cluster.control(5).departure();
    cluster.until("the node goes", || departure.borrow().is_some()).await;
    assert_eq!((0..COUNT).filter(|index| has(&cluster, *index)).count(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_a_leaver_still_has_does_not_bring_back_what_the_last_node_has_reaped() {
    for delete_mode in [DeleteMode::AfterMs(100), DeleteMode::Immediate] {
        let settings = StoreSettings { delete_mode, ..StoreSettings::default() };
        let mut cluster = TestCluster::joined_with(2, settings).await;
        cluster.put_many(1, COUNT).await;
        cluster.stage(StagedChange::Leave { node: id(2) }).await;
        cluster.commit(1).await;
        let has_moved = || !cluster.control(1).read().layouts().is_moving();
        cluster.until("the leaver is in no layout any more", has_moved).await;
        let all = TransferLimits::default();
        cluster.store(2).transfers().set_limits(TransferLimits { outbound: false, ..all });
        let names = || (0..COUNT).map(|index| format!("key {index}"));
        for name in names() {
            cluster.delete(1, &name).await;
        }
        cluster.pass(Duration::from_secs(1)).await;
        let is_reaped = || names().all(|name| cluster.record(1, key(&name)).is_none());
        cluster.until("all tombstones are reaped", is_reaped).await;
        let is_left = |name: &String| cluster.record(2, key(name)).is_some();
        assert!(names().any(|name| is_left(&name)), "the leaver has copies yet");
        let departure = cluster.control(2).departure();
        cluster.store(2).transfers().set_limits(all);
        cluster.until("the leaver goes", || departure.borrow().is_some()).await;
        for name in names() {
            assert_eq!(cluster.get(1, &name).await, None, "{name} {delete_mode:?}");
        }
        cluster.stop(2);
    }
}

/// The primary has an older copy, and gets the newer one only from the stray.
#[tokio::test(start_paused = true)]
async fn a_stray_replaces_an_older_copy_of_a_primary() {
    const STRAY: u8 = 4;
    let mut cluster = TestCluster::joined(4).await;
    let name = (0..)
        .map(|index| format!("key {index}"))
        .find(|name| !cluster.primaries(1, name).contains(&id(STRAY)))
        .expect("some key is not there");
    cluster.put(1, &name, "old").await;
    cluster.until("all primaries have it", || cluster.holders(&name).len() == 3).await;
    cluster.kill(3);
    cluster.update(1, &name, "new").await;
    cluster.until("a fallback has it", || cluster.holders(&name).contains(&id(STRAY))).await;
    cluster.network.silence("n1", "n3");
    cluster.network.silence("n2", "n3");
    cluster.start(3).await;
    cluster
        .until("the stray is gone", || cluster.holders(&name) == cluster.primaries(1, &name))
        .await;
    let values = cluster.stored(3, key(&name)).map(|object| values(&object));
    assert_eq!(values, Some(vec!["new".to_owned()]));
}

/// The node becomes a primary of its stray while it waits for the answer of the primary that it has
/// sent the stray to.
#[tokio::test(start_paused = true)]
async fn a_stray_stays_where_its_node_has_become_a_primary() {
    const STRAY: u8 = 4;
    let mut cluster = TestCluster::joined(4).await;
    cluster.create_type("t", json!({ "n_val": 3 })).await;
    let name = (0..)
        .map(|index| format!("key {index}"))
        .find(|name| !cluster.primaries_of(1, key_in("t", name), 3).contains(&id(STRAY)))
        .expect("some key is not there");
    let key = key_in("t", &name);
    cluster.kill(3);
    cluster.put_in(1, "t", &name, "value").await;
    cluster.until("a fallback has it", || cluster.holders_of(key).contains(&id(STRAY))).await;
    // The coordinator's hint must not arrive before the stray.
    cluster.network.silence("n1", "n3");
    cluster.start(3).await;
    cluster.until("it is back", || cluster.control(STRAY).is_reachable(id(3))).await;
    cluster.network.set_delay("n3", "n4", Duration::from_secs(2));
    cluster.until("it has the stray", || cluster.holders_of(key).contains(&id(3))).await;
    cluster.update_type("t", json!({ "n_val": 4 })).await;
    let is_primary = || cluster.primaries_of(STRAY, key, 4).contains(&id(STRAY));
    cluster.until_within(Duration::from_secs(1), "the node is a primary", is_primary).await;
    let strays = || cluster.store(STRAY).transfers().stats().stray_partition_count;
    cluster
        .until("there are no strays", || {
            assert!(cluster.holders_of(key).contains(&id(STRAY)), "a primary's copy was removed");
            strays() == 0
        })
        .await;
}
