//! Tests of requests by a node that learns later than others that a layout has retired.

use crate::fixture::{TestCluster, id, key_in};
use quoit_cluster::StagedChange;
use quoit_core::{DataTypeRequest, ReadOptions, WriteOptions};
use quoit_model::data_type::{Answer, Operation, Query, SetChange};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The node that learns late, and the node that it learns from.
const LATE: u8 = 4;
const LEADER: u8 = 1;
const DELAY: Duration = Duration::from_millis(400);

/// Timeout of a request that must not wait until the late node learns of the change.
const AT_ONCE: Duration = Duration::from_millis(50);

fn adds(count: usize) -> Operation {
    let element = |number| SetChange::Add(format!("{number:0100}").into());
    Operation::Set((0..count).map(element).collect())
}

fn add(at: KeyRef<'static>, operation: Operation) -> DataTypeRequest<'static> {
    let options = WriteOptions { w: Some(Quorum::Count(2)), ..WriteOptions::default() };
    DataTypeRequest { key: at, operation, context: None, return_value: false, options }
}

/// A cluster whose node [`LATE`] believes that two layouts are live, while the others have retired one
/// of them. Records with these names are large sets.
async fn with_late_node(names: &[&'static str]) -> TestCluster {
    let cluster = TestCluster::joined(6).await;
    cluster.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    let version = cluster.control(1).read().version();
    let know_it = |number: &u8| cluster.control(*number).read().version() >= version;
    cluster.until("all know the type", || cluster.running().iter().all(know_it)).await;
    for name in names {
        let first = add(key_in("sets", name), adds(1_000));
        cluster.store(1).update_data_type(first).await.unwrap();
    }
    cluster.network.set_delay(&format!("n{LEADER}"), &format!("n{LATE}"), DELAY);
    cluster.stage(StagedChange::Leave { node: id(6) }).await;
    cluster.commit(LEADER).await;
    let is_moving = |number: u8| cluster.control(number).read().layouts().is_moving();
    let end = Instant::now() + Duration::from_secs(300);
    while is_moving(LEADER) || !is_moving(LATE) {
        assert!(Instant::now() < end, "in vain: the old layout retires");
        sleep(Duration::from_millis(5)).await;
    }
    let others = cluster.running().into_iter().filter(|number| *number != LATE);
    let others: Vec<u8> = others.collect();
    while others.iter().any(|number| is_moving(*number)) {
        sleep(Duration::from_millis(5)).await;
    }
    assert!(is_moving(LATE), "it has not heard yet");
    cluster
}

/// True if a node is a primary of a record and the leader is not.
fn is_primary_without_leader(cluster: &TestCluster, at: KeyRef<'_>, node: u8) -> bool {
    let primaries = cluster.primaries_of(LATE, at, 3);
    primaries.contains(&id(node)) && !primaries.contains(&id(LEADER))
}

const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

#[tokio::test(start_paused = true)]
async fn operations_on_large_data_types_do_not_wait_for_the_end_of_a_retired_layout() {
    let cluster = with_late_node(&NAMES).await;
    let held =
        |name: &&&'static str| is_primary_without_leader(&cluster, key_in("sets", name), LATE);
    let name = NAMES.iter().find(held).expect("it is a primary of something");
    let began = Instant::now();
    let more = Operation::Set(vec![SetChange::Add("more".into())]);
    cluster.store(LATE).update_data_type(add(key_in("sets", name), more)).await.unwrap();
    assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn questions_about_parts_are_answered_by_replicas_that_have_retired_a_layout() {
    let cluster = with_late_node(&NAMES).await;
    let elsewhere = |name: &&&'static str| {
        !cluster.primaries_of(LATE, key_in("sets", name), 3).contains(&id(LATE))
    };
    let name = NAMES.iter().find(elsewhere).expect("others hold something");
    let received_bytes = || -> u64 {
        let peers = cluster.internode(LATE).peers();
        peers.into_iter().map(|peer| peer.statistics().traffic.received_bytes).sum()
    };
    let before = received_bytes();
    let store = cluster.store(LATE);
    let query = Query::Contains(format!("{:0100}", 7).into()).into();
    let answer = store.query_data_type(key_in("sets", name), &query, &ReadOptions::default()).await;
    assert_eq!(answer.unwrap(), Some(Answer::Contains(true)));
    let bytes = received_bytes() - before;
    assert!(bytes < 30_000, "{bytes} bytes: all of the record was read");
}

/// Waits until the second node has all changes that the leader has, and the third one does not.
async fn until_only_the_third_lags(cluster: &TestCluster) {
    let version = cluster.control(LEADER).read().version();
    let end = Instant::now() + Duration::from_secs(60);
    while cluster.control(2).read().version() < version {
        assert!(Instant::now() < end, "in vain: the second node hears of the change");
        sleep(Duration::from_millis(5)).await;
    }
    assert!(cluster.control(3).read().version() < version, "it has not heard yet");
}

/// Names of records that the third node coordinates, in a bucket type with one replica.
fn names_of_third(cluster: &TestCluster, bucket_type: &str) -> Vec<&'static str> {
    let is_of_third = |name: &&'static str| {
        cluster.primaries_of(2, key_in(bucket_type, name), 1).contains(&id(3))
    };
    let names: Vec<_> = NAMES.into_iter().filter(is_of_third).collect();
    assert!(!names.is_empty(), "it coordinates some of them");
    names
}

/// A client may write as soon as any node has told it that the type is active.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_forwarded_to_a_node_which_has_not_heard_of_its_type_waits_for_that() {
    let cluster = TestCluster::joined(3).await;
    cluster.network.set_delay(&format!("n{LEADER}"), "n3", DELAY);
    cluster.create_type("single", json!({"n_val": 1})).await;
    until_only_the_third_lags(&cluster).await;
    for name in names_of_third(&cluster, "single") {
        cluster.put_in(2, "single", name, "value").await;
    }
}

/// A client may rely on siblings as soon as any node has told it that they are kept.
#[tokio::test(start_paused = true)]
async fn a_write_that_is_forwarded_goes_by_the_properties_that_its_sender_knows() {
    let cluster = TestCluster::joined(3).await;
    cluster.create_type("single", json!({"n_val": 1, "allow_mult": false})).await;
    let version = cluster.control(LEADER).read().version();
    let knows = || cluster.control(3).read().version() >= version;
    cluster.until("the third node knows the type", knows).await;
    cluster.network.set_delay(&format!("n{LEADER}"), "n3", DELAY);
    cluster.update_type("single", json!({"allow_mult": true})).await;
    until_only_the_third_lags(&cluster).await;
    let name = names_of_third(&cluster, "single")[0];
    cluster.put_in(2, "single", name, "one").await;
    cluster.put_in(2, "single", name, "two").await;
    let read = cluster.store(2).get(key_in("single", name), &ReadOptions::default()).await;
    assert_eq!(read.unwrap().expect("it is there").siblings.len(), 2);
}
