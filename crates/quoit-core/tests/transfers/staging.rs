//! Tests of large sets and maps that are sent to a node without a copy of them.

use crate::data_types::{add, add_in_map, size_at};
use crate::fixture::*;
use bytes::Bytes;
use quoit_core::TransferLimits;
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Maximum bytes of a message. A record that were sent whole would exceed it.
const FRAME_BYTES_MAX: u32 = 300_000;

/// A cluster of three nodes of which the third is down, and has nothing of the records that are written
/// from now on.
async fn cluster_with_one_down() -> TestCluster {
    let mut cluster = TestCluster::alone(0).await;
    cluster.frame_bytes_max = FRAME_BYTES_MAX;
    begin(cluster).await
}

async fn begin(mut cluster: TestCluster) -> TestCluster {
    for _ in 0..3 {
        cluster.add().await;
    }
    let mut cluster = cluster.together().await;
    cluster.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    cluster.create_type("maps", json!({"datatype": "map", "allow_mult": true})).await;
    cluster.kill(3);
    cluster
}

fn numbered(numbers: std::ops::Range<u32>) -> Vec<Bytes> {
    numbers.map(|number| format!("element {number}").into()).collect()
}

/// Adds elements to a set, in steps that each fit into a message.
async fn fill(cluster: &TestCluster, key: KeyRef<'_>, element_count: u32) {
    for from in (0..element_count).step_by(5_000) {
        let some = numbered(from..element_count.min(from + 5_000));
        add(cluster, 1, key, some, Quorum::Count(2)).await;
    }
}

async fn until_handed(cluster: &TestCluster) {
    cluster
        .until("nothing is kept any more", || {
            [1, 2].iter().all(|number| cluster.hint_counts(*number).0 == 0)
        })
        .await;
}

/// Checks that the last node has the same record as the first one, in pages of one generation, and no
/// other pages.
fn check_copy(cluster: &TestCluster, key: KeyRef<'_>) {
    let (own, copy) = (cluster.record(1, key).unwrap(), cluster.record(3, key).unwrap());
    assert_eq!(own.meta, copy.meta);
    let name = key.encoded();
    let pages = cluster.pages(3, &name);
    assert_eq!(pages.len(), 1, "{pages:?}");
    assert!(cluster.pages(3, NOTES).is_empty());
    assert_eq!(cluster.pages(1, &name).len(), 1);
}

/// Owner of the notes of staged pages.
const NOTES: &[u8] = b"staged";

#[tokio::test(start_paused = true)]
async fn a_large_set_comes_in_pages_to_a_node_that_has_nothing_of_it() {
    let mut cluster = cluster_with_one_down().await;
    let key = key_in("sets", "large");
    fill(&cluster, key, 100_000).await;
    cluster.start(3).await;
    until_handed(&cluster).await;
    check_copy(&cluster, key);
    assert_eq!(size_at(&cluster, 3, key).await, 100_000);
    add(&cluster, 3, key, vec!["after".into()], Quorum::All).await;
    assert_eq!(size_at(&cluster, 3, key).await, 100_001);
}

#[tokio::test(start_paused = true)]
async fn a_map_with_large_fields_comes_in_pages() {
    let mut cluster = cluster_with_one_down().await;
    let key = key_in("maps", "large");
    for from in (0..40_000).step_by(4_000) {
        add_in_map(&cluster, 1, key, numbered(from..from + 4_000), Quorum::Count(2)).await;
    }
    cluster.start(3).await;
    until_handed(&cluster).await;
    check_copy(&cluster, key);
    assert_eq!(size_at(&cluster, 3, key).await, 40_000);
}

/// A copy that is lost completely, without hints for it, is found by exchanges of the node itself and
/// of others.
#[tokio::test(start_paused = true)]
async fn a_large_set_that_a_node_has_lost_comes_in_pages() {
    let mut cluster = TestCluster::alone(0).await;
    cluster.frame_bytes_max = FRAME_BYTES_MAX;
    for _ in 0..3 {
        cluster.add().await;
    }
    let cluster = cluster.together().await;
    cluster.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    let names: Vec<String> = (0..3).map(|number| format!("large {number}")).collect();
    for name in &names {
        for from in (0..40_000).step_by(5_000) {
            add(&cluster, 1, key_in("sets", name), numbered(from..from + 5_000), Quorum::All).await;
        }
    }
    for (number, name) in (1..).zip(&names) {
        cluster.lose_at(number, key_in("sets", name));
    }
    let is_back = |cluster: &TestCluster, number: u8, name: &str| {
        let copy = |number| cluster.record(number, key_in("sets", name)).map(|record| record.meta);
        copy(number).is_some() && (1..=3).all(|other| copy(other) == copy(number))
    };
    cluster
        .until("all have all", || {
            (1..).zip(&names).all(|(number, name)| is_back(&cluster, number, name))
        })
        .await;
    for (number, name) in (1..).zip(&names) {
        assert_eq!(size_at(&cluster, number, key_in("sets", name)).await, 40_000);
        assert!(cluster.pages(number, NOTES).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn large_sets_move_to_the_nodes_that_a_layout_names() {
    let mut cluster = TestCluster::alone(0).await;
    cluster.frame_bytes_max = FRAME_BYTES_MAX;
    for _ in 0..3 {
        cluster.add().await;
    }
    let mut cluster = cluster.together().await;
    cluster.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    let names: Vec<String> = (0..6).map(|number| format!("large {number}")).collect();
    for name in &names {
        fill(&cluster, key_in("sets", name), 30_000).await;
    }
    cluster.add().await;
    cluster.join(4).await;
    cluster.commit(1).await;
    cluster.until_moved(1, 0).await;
    let mut moved_count = 0;
    for name in &names {
        let key = key_in("sets", name);
        let primaries = cluster.primaries_of(1, key, 3);
        cluster
            .until("they are on their primaries only", || {
                cluster.holders_of_record(key) == primaries
            })
            .await;
        for number in 1..=4 {
            let is_primary = primaries.contains(&id(number));
            assert_eq!(cluster.pages(number, &key.encoded()).len(), usize::from(is_primary));
            assert!(cluster.pages(number, NOTES).is_empty());
        }
        moved_count += usize::from(primaries.contains(&id(4)));
        // A primary reads its own copy: the set is too long for a message between nodes.
        let number = primaries.last().expect("three").0[0];
        assert_eq!(size_at(&cluster, number, key).await, 30_000);
    }
    assert!(moved_count > 0, "some have moved to the new node");
}

#[tokio::test(start_paused = true)]
async fn a_large_set_that_is_written_all_the_time_comes_to_an_end() {
    let mut cluster = cluster_with_one_down().await;
    let key = key_in("sets", "large");
    fill(&cluster, key, 50_000).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let store = Arc::clone(cluster.store(1));
    let until = Arc::clone(&is_done);
    let writer = tokio::spawn(async move {
        let mut count = 0;
        while !until.load(Ordering::Relaxed) {
            crate::data_types::add_at(&store, key_in("sets", "large"), format!("more {count}"))
                .await;
            count += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        count
    });
    let slow = TransferLimits { bytes_per_sec_max: 1_000_000, ..TransferLimits::default() };
    cluster.set_limits(slow);
    cluster.start(3).await;
    until_handed(&cluster).await;
    is_done.store(true, Ordering::Relaxed);
    let more_count: usize = writer.await.unwrap();
    assert!(more_count > 40, "{more_count} writes beside it");
    cluster
        .until("the copies are equal", || {
            let of = |number| cluster.record(number, key).map(|record| record.meta.digest);
            of(1) == of(2) && of(1) == of(3)
        })
        .await;
    check_copy(&cluster, key);
    assert_eq!(size_at(&cluster, 3, key).await, 50_000 + more_count);
}

/// A cluster that is in the middle of sending a large set, so that its state can be observed.
async fn cluster_mid_transfer(key: KeyRef<'_>) -> TestCluster {
    let mut cluster = cluster_with_one_down().await;
    fill(&cluster, key, 50_000).await;
    cluster.set_limits(TransferLimits { bytes_per_sec_max: 50_000, ..TransferLimits::default() });
    cluster.start(3).await;
    cluster.until("it has come in part", || !cluster.pages(3, &key.encoded()).is_empty()).await;
    assert!(cluster.record(3, key).is_none(), "nothing is shown of it");
    assert_eq!(cluster.pages(3, NOTES).len(), 1);
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_in_the_middle_begins_anew_and_has_nothing_left_over() {
    let key = key_in("sets", "large");
    let mut cluster = cluster_mid_transfer(key).await;
    cluster.kill(3);
    cluster.pass(Duration::from_secs(5)).await;
    for number in [1, 2] {
        let limits = TransferLimits { outbound: false, ..TransferLimits::default() };
        cluster.store(number).transfers().set_limits(limits);
    }
    assert!(!cluster.pages(3, &key.encoded()).is_empty());
    cluster.start(3).await;
    cluster
        .until("nothing is left over", || {
            cluster.pages(3, &key.encoded()).is_empty() && cluster.pages(3, NOTES).is_empty()
        })
        .await;
    cluster.set_limits(TransferLimits::default());
    until_handed(&cluster).await;
    check_copy(&cluster, key);
    assert_eq!(size_at(&cluster, 3, key).await, 50_000);
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_sender_that_dies_in_the_middle_are_removed() {
    let key = key_in("sets", "large");
    let mut cluster = cluster_mid_transfer(key).await;
    [1, 2].into_iter().for_each(|number| cluster.kill(number));
    cluster
        .until("nothing is left over", || {
            cluster.pages(3, &key.encoded()).is_empty() && cluster.pages(3, NOTES).is_empty()
        })
        .await;
    assert!(cluster.record(3, key).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_is_told_to_stop_has_its_pages_removed() {
    let key = key_in("sets", "large");
    let cluster = cluster_mid_transfer(key).await;
    cluster.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    cluster
        .until_within(Duration::from_secs(50), "nothing is left over", || {
            cluster.pages(3, &key.encoded()).is_empty() && cluster.pages(3, NOTES).is_empty()
        })
        .await;
    cluster.set_limits(TransferLimits::default());
    until_handed(&cluster).await;
    check_copy(&cluster, key);
}
