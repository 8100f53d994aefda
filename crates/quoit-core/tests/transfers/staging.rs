//! Large sets and maps that come to a node which has nothing of them.

use crate::data_types::{add, add_in_map, size_at};
use crate::fixture::*;
use bytes::Bytes;
use quoit_core::TransferLimits;
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use quoit_wire::internode::{VERSION_STAGING, VersionRange};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// No message is longer: of a record that is sent whole there would be one.
const FRAME_BYTES_MAX: u32 = 300_000;

/// Two of three nodes; the third is down, and has nothing of what is written from now on.
async fn town_with_one_down() -> Town {
    let mut town = Town::alone(0).await;
    town.frame_bytes_max = FRAME_BYTES_MAX;
    begin(town).await
}

async fn begin(mut town: Town) -> Town {
    for _ in 0..3 {
        town.add().await;
    }
    let mut town = town.together().await;
    town.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    town.create_type("maps", json!({"datatype": "map", "allow_mult": true})).await;
    town.kill(3);
    town
}

fn numbered(numbers: std::ops::Range<u32>) -> Vec<Bytes> {
    numbers.map(|number| format!("element {number}").into()).collect()
}

/// Adds elements to a set in steps that each fit into a message.
async fn fill(town: &Town, key: KeyRef<'_>, element_count: u32) {
    for from in (0..element_count).step_by(5_000) {
        let some = numbered(from..element_count.min(from + 5_000));
        add(town, 1, key, some, Quorum::Count(2)).await;
    }
}

async fn until_handed(town: &Town) {
    town.until("nothing is kept any more", || {
        [1, 2].iter().all(|number| town.hint_counts(*number).0 == 0)
    })
    .await;
}

/// The last node has what the first has, in pages of one generation, and nothing else.
fn check_copy(town: &Town, key: KeyRef<'_>) {
    let (own, copy) = (town.record(1, key).unwrap(), town.record(3, key).unwrap());
    assert_eq!(own.meta, copy.meta);
    let name = key.encoded();
    let pages = town.pages(3, &name);
    assert_eq!(pages.len(), 1, "{pages:?}");
    assert!(town.pages(3, NOTES).is_empty());
    assert_eq!(town.pages(1, &name).len(), 1);
}

/// Whose pieces are the notes of pages that have come in part.
const NOTES: &[u8] = b"staged";

#[tokio::test(start_paused = true)]
async fn a_large_set_comes_in_pages_to_a_node_that_has_nothing_of_it() {
    let mut town = town_with_one_down().await;
    let key = key_in("sets", "large");
    fill(&town, key, 100_000).await;
    town.start(3).await;
    until_handed(&town).await;
    check_copy(&town, key);
    assert_eq!(size_at(&town, 3, key).await, 100_000);
    add(&town, 3, key, vec!["after".into()], Quorum::All).await;
    assert_eq!(size_at(&town, 3, key).await, 100_001);
}

#[tokio::test(start_paused = true)]
async fn a_map_with_large_fields_comes_in_pages() {
    let mut town = town_with_one_down().await;
    let key = key_in("maps", "large");
    for from in (0..40_000).step_by(4_000) {
        add_in_map(&town, 1, key, numbered(from..from + 4_000), Quorum::Count(2)).await;
    }
    town.start(3).await;
    until_handed(&town).await;
    check_copy(&town, key);
    assert_eq!(size_at(&town, 3, key).await, 40_000);
}

/// A copy that is gone altogether, of which nobody has kept anything, is found by exchanges: by those that
/// the node itself begins, and by those of others.
#[tokio::test(start_paused = true)]
async fn a_large_set_that_a_node_has_lost_comes_in_pages() {
    let mut town = Town::alone(0).await;
    town.frame_bytes_max = FRAME_BYTES_MAX;
    for _ in 0..3 {
        town.add().await;
    }
    let town = town.together().await;
    town.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    let names: Vec<String> = (0..3).map(|number| format!("large {number}")).collect();
    for name in &names {
        for from in (0..40_000).step_by(5_000) {
            add(&town, 1, key_in("sets", name), numbered(from..from + 5_000), Quorum::All).await;
        }
    }
    for (number, name) in (1..).zip(&names) {
        town.lose_at(number, key_in("sets", name));
    }
    let is_back = |town: &Town, number: u8, name: &str| {
        let copy = |number| town.record(number, key_in("sets", name)).map(|record| record.meta);
        copy(number).is_some() && (1..=3).all(|other| copy(other) == copy(number))
    };
    town.until("all have all", || {
        (1..).zip(&names).all(|(number, name)| is_back(&town, number, name))
    })
    .await;
    for (number, name) in (1..).zip(&names) {
        assert_eq!(size_at(&town, number, key_in("sets", name)).await, 40_000);
        assert!(town.pages(number, NOTES).is_empty());
    }
}

#[tokio::test(start_paused = true)]
async fn large_sets_move_to_the_nodes_that_a_layout_names() {
    let mut town = Town::alone(0).await;
    town.frame_bytes_max = FRAME_BYTES_MAX;
    for _ in 0..3 {
        town.add().await;
    }
    let mut town = town.together().await;
    town.create_type("sets", json!({"datatype": "set", "allow_mult": true})).await;
    let names: Vec<String> = (0..6).map(|number| format!("large {number}")).collect();
    for name in &names {
        fill(&town, key_in("sets", name), 30_000).await;
    }
    town.add().await;
    town.join(4).await;
    town.commit(1).await;
    town.until_moved(1, 0).await;
    let mut moved_count = 0;
    for name in &names {
        let key = key_in("sets", name);
        let primaries = town.primaries_of(1, key, 3);
        town.until("they are on their primaries only", || town.holders_of_record(key) == primaries)
            .await;
        for number in 1..=4 {
            let is_primary = primaries.contains(&id(number));
            assert_eq!(town.pages(number, &key.encoded()).len(), usize::from(is_primary));
            assert!(town.pages(number, NOTES).is_empty());
        }
        moved_count += usize::from(primaries.contains(&id(4)));
        // One that has it: between nodes it would be too long for a message.
        let number = primaries.last().expect("three").0[0];
        assert_eq!(size_at(&town, number, key).await, 30_000);
    }
    assert!(moved_count > 0, "some have moved to the new node");
}

#[tokio::test(start_paused = true)]
async fn a_large_set_that_is_written_all_the_time_comes_to_an_end() {
    let mut town = town_with_one_down().await;
    let key = key_in("sets", "large");
    fill(&town, key, 50_000).await;
    let is_done = Arc::new(AtomicBool::new(false));
    let store = Arc::clone(town.store(1));
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
    town.set_limits(slow);
    town.start(3).await;
    until_handed(&town).await;
    is_done.store(true, Ordering::Relaxed);
    let more_count: usize = writer.await.unwrap();
    assert!(more_count > 40, "{more_count} writes beside it");
    town.until("the copies are equal", || {
        let of = |number| town.record(number, key).map(|record| record.meta.digest);
        of(1) == of(2) && of(1) == of(3)
    })
    .await;
    check_copy(&town, key);
    assert_eq!(size_at(&town, 3, key).await, 50_000 + more_count);
}

/// So that what comes can be seen in the middle.
async fn town_half_way(key: KeyRef<'_>) -> Town {
    let mut town = town_with_one_down().await;
    fill(&town, key, 50_000).await;
    town.set_limits(TransferLimits { bytes_per_sec_max: 50_000, ..TransferLimits::default() });
    town.start(3).await;
    town.until("it has come in part", || !town.pages(3, &key.encoded()).is_empty()).await;
    assert!(town.record(3, key).is_none(), "nothing is shown of it");
    assert_eq!(town.pages(3, NOTES).len(), 1);
    town
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_in_the_middle_begins_anew_and_has_nothing_left_over() {
    let key = key_in("sets", "large");
    let mut town = town_half_way(key).await;
    town.kill(3);
    town.pass(Duration::from_secs(5)).await;
    for number in [1, 2] {
        let limits = TransferLimits { outbound: false, ..TransferLimits::default() };
        town.store(number).set_transfer_limits(limits);
    }
    assert!(!town.pages(3, &key.encoded()).is_empty());
    town.start(3).await;
    town.until("nothing is left over", || {
        town.pages(3, &key.encoded()).is_empty() && town.pages(3, NOTES).is_empty()
    })
    .await;
    town.set_limits(TransferLimits::default());
    until_handed(&town).await;
    check_copy(&town, key);
    assert_eq!(size_at(&town, 3, key).await, 50_000);
}

#[tokio::test(start_paused = true)]
async fn pages_of_a_sender_that_dies_in_the_middle_are_removed() {
    let key = key_in("sets", "large");
    let mut town = town_half_way(key).await;
    [1, 2].into_iter().for_each(|number| town.kill(number));
    town.until("nothing is left over", || {
        town.pages(3, &key.encoded()).is_empty() && town.pages(3, NOTES).is_empty()
    })
    .await;
    assert!(town.record(3, key).is_none());
}

#[tokio::test(start_paused = true)]
async fn a_sender_that_is_told_to_stop_has_its_pages_removed() {
    let key = key_in("sets", "large");
    let town = town_half_way(key).await;
    town.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    town.until_within(Duration::from_secs(50), "nothing is left over", || {
        town.pages(3, &key.encoded()).is_empty() && town.pages(3, NOTES).is_empty()
    })
    .await;
    town.set_limits(TransferLimits::default());
    until_handed(&town).await;
    check_copy(&town, key);
}

#[tokio::test(start_paused = true)]
async fn a_node_of_an_older_version_is_sent_the_whole() {
    for (of_sender, of_receiver) in [(0, 1), (1, 0)] {
        let versions = |older| VersionRange::up_to(VERSION_STAGING - older);
        let mut town = Town::alone(0).await;
        town.versions = versions(of_sender);
        let mut town = begin(town).await;
        let key = key_in("sets", "large");
        fill(&town, key, 20_000).await;
        town.versions = versions(of_receiver);
        town.start(3).await;
        until_handed(&town).await;
        check_copy(&town, key);
        assert_eq!(size_at(&town, 3, key).await, 20_000);
    }
}
