//! Tests of buckets that get more replicas, or fewer.

use crate::fixture::{TestCluster, id, key_in};
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

/// True if no node knows of a bucket with copies that are still being filled.
fn is_filled(cluster: &TestCluster) -> bool {
    cluster.running().into_iter().all(|number| cluster.control(number).read().raises().is_empty())
}

fn are_on_primaries(cluster: &TestCluster, n_val: u32) -> bool {
    (0..COUNT).all(|index| {
        let name = name(index);
        let key = key_in("t", &name);
        cluster.holders_of(key) == cluster.primaries_of(1, key, n_val)
    })
}

async fn with_records(count: u8, n_val: u32) -> TestCluster {
    let cluster = TestCluster::joined(count).await;
    cluster.create_type("t", json!({ "n_val": n_val })).await;
    for index in 0..COUNT {
        let name = name(index);
        cluster.put_in(1, "t", &name, "value").await;
        let key = key_in("t", &name);
        cluster.until("all have it", || cluster.holders_of(key).len() == n_val as usize).await;
    }
    cluster
}

/// True if every node shows every record, also in reads that take the first answer.
async fn all_are_shown(cluster: &TestCluster) -> bool {
    for index in 0..COUNT {
        let name = name(index);
        let key = key_in("t", &name);
        for number in cluster.running() {
            for r in [Some(Quorum::Count(1)), None] {
                let options = ReadOptions { r, ..ReadOptions::default() };
                if cluster.store(number).get(key, &options).await.unwrap().is_none() {
                    return false;
                }
            }
        }
    }
    true
}

/// The new primaries have nothing at first, and say so.
#[tokio::test(start_paused = true)]
async fn a_raised_n_val_is_filled_and_nothing_is_missed_meanwhile() {
    let cluster = with_records(5, 2).await;
    cluster.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    cluster.update_type("t", json!({ "n_val": 5 })).await;
    cluster.pass(Duration::from_secs(1)).await;
    assert!(
        cluster.running().iter().all(|number| cluster.control(*number).read().raises().len() == 1)
    );
    assert!(are_on_primaries(&cluster, 2), "nothing is handed over yet");
    assert!(all_are_shown(&cluster).await, "copies that are not filled outvote those that are");
    cluster.set_limits(TransferLimits::default());
    // Long before anti-entropy repairs anything.
    cluster
        .until_within(Duration::from_secs(8), "all are filled", || {
            is_filled(&cluster) && are_on_primaries(&cluster, 5)
        })
        .await;
    assert!(all_are_shown(&cluster).await);
}

/// Replicas compare the records of a class, so all of them have to file a record under the same one.
#[tokio::test(start_paused = true)]
async fn former_and_added_primaries_file_records_under_the_raised_n_val() {
    let cluster = with_records(5, 2).await;
    cluster.update_type("t", json!({ "n_val": 5 })).await;
    // Long before anti-entropy repairs anything.
    cluster.until_within(Duration::from_secs(8), "all are filled", || is_filled(&cluster)).await;
    for index in 0..COUNT {
        let name = name(index);
        for number in 1..=5 {
            let record = cluster.record(number, key_in("t", &name)).expect("it is filled");
            assert_eq!(record.meta.n_val_class, 5, "{name} on node {number}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_raise_is_not_over_before_a_primary_that_is_away_has_its_copies() {
    let mut cluster = with_records(5, 2).await;
    cluster.kill(5);
    cluster.until("the death is seen", || !cluster.control(1).is_reachable(id(5))).await;
    cluster.update_type("t", json!({ "n_val": 5 })).await;
    cluster.pass(Duration::from_secs(20)).await;
    assert!((1..=4).all(|number| !cluster.control(number).read().raises().is_empty()));
    assert!(all_are_shown(&cluster).await);
    cluster.start(5).await;
    cluster.until("all are filled", || is_filled(&cluster) && are_on_primaries(&cluster, 5)).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_marked_as_down_is_waited_for_where_it_gets_copies_and_nowhere_else() {
    let mut cluster = with_records(5, 2).await;
    cluster.kill(5);
    cluster.until("the death is seen", || !cluster.control(1).is_reachable(id(5))).await;
    cluster.control(1).mark_down(id(5)).await.unwrap();
    cluster.create_type("empty", json!({ "n_val": 2 })).await;
    cluster.update_type("empty", json!({ "n_val": 5 })).await;
    cluster.until("there is nothing to hand over", || is_filled(&cluster)).await;
    cluster.update_type("t", json!({ "n_val": 5 })).await;
    cluster.pass(Duration::from_secs(20)).await;
    assert!(!is_filled(&cluster));
    cluster.start(5).await;
    cluster.until("all are filled", || is_filled(&cluster) && are_on_primaries(&cluster, 5)).await;
}

/// A former primary gets its copies back. Before that, an event of its store would claim to have seen
/// values that it has made events for as a primary and removed since.
#[tokio::test(start_paused = true)]
async fn a_primary_that_comes_back_claims_nothing_that_was_removed_with_its_copy() {
    let cluster = with_records(3, 3).await;
    let last_of = |key: KeyRef<'_>| {
        let fewer = cluster.primaries_of(1, key, 1);
        (1..=3).find(|number| !fewer.contains(&id(*number))).expect("there are three")
    };
    for index in 0..COUNT {
        let name = name(index);
        let key = key_in("t", &name);
        cluster.put_in(last_of(key), "t", &name, "first").await;
    }
    cluster.update_type("t", json!({ "n_val": 1 })).await;
    cluster.until("former primaries keep nothing", || are_on_primaries(&cluster, 1)).await;
    cluster.update_type("t", json!({ "n_val": 3 })).await;
    for index in 0..COUNT {
        let name = name(index);
        let key = key_in("t", &name);
        cluster.put_in(last_of(key), "t", &name, "second").await;
        let read = cluster.store(1).get(key, &ReadOptions::default()).await.unwrap().unwrap();
        let mut values: Vec<_> = read.siblings.iter().map(|each| &each.value[..]).collect();
        values.sort_unstable();
        assert_eq!(values, [&b"first"[..], b"second", b"value"], "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_raise_outlives_the_processes_that_knew_of_it() {
    let mut cluster = with_records(5, 2).await;
    cluster.kill(5);
    cluster.until("the death is seen", || !cluster.control(1).is_reachable(id(5))).await;
    cluster.update_type("t", json!({ "n_val": 5 })).await;
    cluster.pass(Duration::from_secs(5)).await;
    (1..=4).for_each(|number| cluster.kill(number));
    for number in 1..=4 {
        cluster.start(number).await;
    }
    assert!((1..=4).all(|number| !cluster.control(number).read().raises().is_empty()));
    cluster.start(5).await;
    cluster.until("all are filled", || is_filled(&cluster) && are_on_primaries(&cluster, 5)).await;
}

/// A former replica has been away since before the delete, and becomes a primary again.
#[tokio::test(start_paused = true)]
async fn new_primaries_get_the_reap_records_of_what_they_kept() {
    let mut cluster = with_records(5, 5).await;
    let name = name(0);
    let key = key_in("t", &name);
    let fewer = cluster.primaries_of(1, key, 3);
    let all: BTreeSet<NodeId> = (1..=5).map(id).collect();
    let away = (&all - &fewer).first().expect("there are five").0[0];
    cluster.kill(away);
    let there = cluster.running()[0];
    cluster.until("the death is seen", || !cluster.control(there).is_reachable(id(away))).await;
    let props = json!({ "n_val": 3 });
    let updates = |props: serde_json::Value| {
        quoit_model::props::PropUpdates::from(props.as_object().unwrap().clone())
    };
    cluster.control(there).update_type(b"t", &updates(props)).await.unwrap();
    cluster
        .until("the others have removed what is not theirs", || {
            let holders = cluster.holders_of(key);
            holders.len() == 4 && holders.is_superset(&fewer)
        })
        .await;
    cluster.delete_at(there, key).await;
    cluster.pass(Duration::from_secs(20)).await;
    assert_eq!(cluster.holders_of(key), BTreeSet::from([id(away)]), "the delete is reaped");
    cluster.control(there).update_type(b"t", &updates(json!({ "n_val": 5 }))).await.unwrap();
    cluster.start(away).await;
    cluster.until("all are filled", || is_filled(&cluster)).await;
    assert_eq!(cluster.holders_of(key), BTreeSet::new());
    for number in cluster.running() {
        assert!(!cluster.shows_at(number, key).await);
    }
}

/// A member that is cut off takes a write for the only primary that it knows of, and hands it to that
/// primary before it learns of the raise. The copies count as filled only once no member writes by the
/// old n_val any more, because the primary passes the write on.
#[tokio::test(start_paused = true)]
async fn a_write_by_the_former_n_val_is_on_all_primaries_when_the_raise_is_over() {
    let mut cluster = with_records(4, 1).await;
    let primaries = |cluster: &TestCluster, name: &str, n_val| {
        cluster.primaries_of(1, key_in("t", name), n_val)
    };
    let late = (COUNT..COUNT + 1_000)
        .map(name)
        .find(|name| !primaries(&cluster, name, 3).contains(&id(1)))
        .expect("some key is there");
    let key = key_in("t", &late);
    let [first, added, unaware] = [1, 2, 3].map(|n_val| {
        let (fewer, more) =
            (primaries(&cluster, &late, n_val - 1), primaries(&cluster, &late, n_val));
        (&more - &fewer).first().expect("one is added").0[0]
    });
    let silence = |cluster: &TestCluster, from: u8| {
        cluster.network.silence(&format!("n{from}"), &format!("n{unaware}"));
    };
    let heal = |cluster: &TestCluster, from: u8| {
        cluster.network.heal(&format!("n{from}"), &format!("n{unaware}"));
    };
    silence(&cluster, 1);
    silence(&cluster, added);
    cluster.update_type("t", json!({ "n_val": 2 })).await;
    let knows = |cluster: &TestCluster, number| !cluster.control(number).read().raises().is_empty();
    cluster
        .until("the others know", || [1, first, added].iter().all(|each| knows(&cluster, *each)))
        .await;
    cluster.kill(first);
    cluster
        .until("it is alone", || {
            let control = cluster.control(unaware);
            [1, first, added].iter().all(|each| !control.is_reachable(id(*each)))
        })
        .await;
    cluster.put_in(unaware, "t", &late, "late").await;
    silence(&cluster, first);
    cluster.start(first).await;
    cluster.pass(Duration::from_secs(5)).await;
    heal(&cluster, first);
    cluster
        .until("the primary has it alone", || {
            cluster.holders_of(key) == BTreeSet::from([id(first)])
        })
        .await;
    assert!(!knows(&cluster, unaware), "it has heard of the raise");
    heal(&cluster, 1);
    heal(&cluster, added);
    cluster.until("all are filled", || is_filled(&cluster)).await;
    assert_eq!(cluster.holders_of(key), cluster.primaries_of(1, key, 2));
}

/// Records that were written under the old n_val are filed in its class. Replicas that compared by that
/// class would hand each other the same records for ever.
#[tokio::test(start_paused = true)]
async fn exchanges_come_to_an_end_after_an_n_val_was_changed() {
    let cluster = with_records(5, 5).await;
    cluster.update_type("t", json!({ "n_val": 3 })).await;
    cluster.until("former primaries keep nothing", || are_on_primaries(&cluster, 3)).await;
    // Records that are given back are filed under the present n_val.
    for index in 0..COUNT {
        let name = name(index);
        let key = key_in("t", &name);
        let others = &cluster.primaries_of(1, key, 3) - &cluster.primaries_of(1, key, 2);
        cluster.lose_at(others.first().expect("there are three").0[0], key);
    }
    cluster.pass(Duration::from_secs(300)).await;
    let repaired = |cluster: &TestCluster| -> u64 {
        let each = cluster.running().into_iter();
        let of =
            |number| cluster.store(number).stats().snapshot().total(Counter::ExchangeKeysRepaired);
        each.map(of).sum()
    };
    let before = repaired(&cluster);
    cluster.pass(Duration::from_secs(300)).await;
    assert_eq!(repaired(&cluster), before);
    assert!(are_on_primaries(&cluster, 3));
    let strays = |number| cluster.store(number).transfers().stats().stray_partition_count;
    assert!(cluster.running().into_iter().all(|number| strays(number) == 0));
}

/// The only holder of a bucket is away. Other primaries of the type do not have the bucket.
#[tokio::test(start_paused = true)]
async fn a_listing_of_buckets_without_the_only_replica_of_one_is_an_error() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.create_type("t", json!({ "n_val": 3 })).await;
    let name = name(0);
    let key = key_in("t", &name);
    let updates = json!({ "n_val": 1 });
    let updates = quoit_model::props::PropUpdates::from(updates.as_object().unwrap().clone());
    cluster.control(1).set_bucket_props(key.bucket, &updates).await.unwrap();
    cluster.put_in(1, "t", &name, "value").await;
    let holder = cluster.holders_of(key).first().expect("it is stored").0[0];
    cluster.kill(holder);
    let there = cluster.running()[0];
    cluster.until("the death is seen", || !cluster.control(there).is_reachable(id(holder))).await;
    let listing = cluster.store(there).listings().list_buckets(b"t").await;
    let listed = match listing {
        Err(_) => return,
        Ok(mut listing) => Deadline::after_ms(60_000).limit(listing.next()).await,
    };
    assert!(listed.is_err(), "{listed:?}");
}
