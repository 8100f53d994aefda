//! Data directories that are older than they should be, or in use twice.

use super::*;
use crate::Departure;
use crate::tests::{untyped, updates};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn node_with_a_restored_copy_of_its_disk_does_not_take_part() {
    let mut town = Town::joined(3).await;
    town.until_equal().await;
    town.crash(2);
    let copy = town.node(2).disk.bytes("control.redb").unwrap();
    town.start(2).await;
    town.control(2).set_bucket_props(untyped("b"), &updates(json!({"n_val": 1}))).await.unwrap();
    town.crash(2);
    town.nodes[1].disk.put("control.redb", copy);
    town.start(2).await;
    let mut departure = town.control(2).departure();
    let found = departure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(matches!(found, Departure::Stale { .. }));
    let text = found.to_string();
    assert!(text.contains("an old copy") && text.contains("force-replace"), "{text}");
    let error = town
        .control(2)
        .set_bucket_props(untyped("b"), &updates(json!({"n_val": 5})))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("an old copy"), "{error}");
    // The others go on.
    town.control(1).set_bucket_props(untyped("b"), &updates(json!({"n_val": 2}))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_voter_with_a_restored_copy_agrees_on_nothing_while_another_member_knows_better() {
    let mut town = Town::joined(2).await;
    town.until_equal().await;
    let voter = town.control(1).claimant().unwrap().0[0];
    town.crash(voter);
    let copy = town.node(voter).disk.bytes("control.redb").unwrap();
    town.start(voter).await;
    let before = updates(json!({"n_val": 1}));
    town.control(voter).set_bucket_props(untyped("b"), &before).await.unwrap();
    town.until_equal().await;
    let known = town.state(3 - voter).version();
    town.crash(voter);
    town.nodes[usize::from(voter) - 1].disk.put("control.redb", copy);
    // The other one can't be asked at once.
    for (from, to) in [("n1", "n2"), ("n2", "n1")] {
        town.network.silence(from, to);
    }
    town.start(voter).await;
    sleep(Duration::from_secs(3)).await;
    for (from, to) in [("n1", "n2"), ("n2", "n1")] {
        town.network.heal(from, to);
    }
    let change = updates(json!({"n_val": 5}));
    let changed = town.control(voter).set_bucket_props(untyped("b"), &change).await;
    assert!(changed.is_err());
    let mut departure = town.control(voter).departure();
    let found = departure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(matches!(found, Departure::Stale { .. }));
    assert!(town.state(voter).version() < known, "it has agreed on nothing by itself");
}

#[tokio::test(start_paused = true)]
async fn only_voter_goes_on_without_the_other_member() {
    let mut town = Town::joined(2).await;
    town.until_equal().await;
    let voter = town.control(1).claimant().unwrap().0[0];
    town.crash(1);
    town.crash(2);
    town.start(voter).await;
    town.until("it leads", || town.control(voter).claimant() == Some(id(voter))).await;
    let change = updates(json!({"n_val": 1}));
    town.control(voter).set_bucket_props(untyped("b"), &change).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn removed_node_that_comes_back_is_told_and_stops() {
    let mut town = Town::joined(4).await;
    town.until_equal().await;
    town.crash(4);
    let node = town.control(1).member_named(&name(4)).unwrap();
    town.control(1).stage(&crate::StagedChange::ForceRemove { node }).await.unwrap();
    town.commit(1).await;
    town.start(4).await;
    let mut departure = town.control(4).departure();
    let found = departure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert_eq!(found, Departure::Removed);
    assert!(found.to_string().contains("empty data directory"));
    // Nor does it get in by joining.
    town.crash(4);
    let mut settings = settings();
    settings.ring_size = None;
    town.nodes[3].disk = FaultyDisk::new(44);
    town.start_with(4, settings).await;
    let error = town.control(4).join("n1:1").await.unwrap_err().to_string();
    assert!(error.contains("was removed from this cluster and can't come back"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn second_process_on_a_copy_of_a_disk_is_told_and_stops_and_the_first_goes_on() {
    let mut town = Town::joined(3).await;
    town.until_equal().await;
    town.crash(2);
    let copy = town.node(2).disk.bytes("control.redb").unwrap();
    town.start(2).await;
    town.until_equal().await;
    let disk = FaultyDisk::new(44);
    disk.put("control.redb", copy);
    town.nodes.push(Node { number: 4, disk, process: None });
    town.start(4).await;
    let mut departure = town.control(4).departure();
    let found = departure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(matches!(found, Departure::Double { .. }), "{found:?}");
    let text = found.to_string();
    assert!(text.contains("is in use by a live node at n2:1"), "{text}");
    assert!(town.control(2).departure().borrow().is_none());
    town.control(2).set_bucket_props(untyped("b"), &updates(json!({"n_val": 2}))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn node_that_comes_back_at_another_address_right_after_its_death_is_no_double() {
    let mut town = Town::joined(3).await;
    town.until_equal().await;
    // It dies without a word: the others take it for alive for a while.
    for other in ["n1", "n3"] {
        town.network.silence("n2", other);
        town.network.silence(other, "n2");
    }
    let disk = town.node(2).disk.kill();
    town.nodes[1].process = None;
    town.nodes.push(Node { number: 4, disk, process: None });
    town.start(4).await;
    town.until("it takes part at its new address", || {
        let state = town.state(1);
        state.members().get(id(2)).is_some_and(|member| &*member.addresses.node == "n4:1")
    })
    .await;
    assert!(town.control(4).departure().borrow().is_none());
}
