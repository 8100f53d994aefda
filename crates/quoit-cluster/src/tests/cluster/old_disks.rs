//! Data directories that are outdated, or used by two processes.

use super::*;
use crate::Departure;
use crate::tests::{untyped, updates};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn node_with_a_restored_copy_of_its_disk_does_not_take_part() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until_equal().await;
    cluster.crash(2);
    let copy = cluster.node(2).disk.bytes("control.redb").unwrap();
    cluster.start(2).await;
    cluster.control(2).set_bucket_props(untyped("b"), &updates(json!({"n_val": 1}))).await.unwrap();
    cluster.crash(2);
    cluster.nodes[1].disk.put("control.redb", copy);
    cluster.start(2).await;
    let mut departure = cluster.control(2).departure();
    let found = departure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(matches!(found, Departure::Stale { .. }));
    let text = found.to_string();
    assert!(text.contains("an old copy") && text.contains("force-replace"), "{text}");
    let error = cluster
        .control(2)
        .set_bucket_props(untyped("b"), &updates(json!({"n_val": 5})))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("an old copy"), "{error}");
    // The other nodes continue.
    cluster.control(1).set_bucket_props(untyped("b"), &updates(json!({"n_val": 2}))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn only_voter_with_a_restored_copy_agrees_on_nothing_while_another_member_knows_better() {
    let mut cluster = TestCluster::joined(2).await;
    cluster.until_equal().await;
    let voter = cluster.control(1).claimant().unwrap().0[0];
    cluster.crash(voter);
    let copy = cluster.node(voter).disk.bytes("control.redb").unwrap();
    cluster.start(voter).await;
    let before = updates(json!({"n_val": 1}));
    cluster.control(voter).set_bucket_props(untyped("b"), &before).await.unwrap();
    cluster.until_equal().await;
    let known = cluster.state(3 - voter).version();
    cluster.crash(voter);
    cluster.nodes[usize::from(voter) - 1].disk.put("control.redb", copy);
    // The other member cannot be asked at once.
    for (from, to) in [("n1", "n2"), ("n2", "n1")] {
        cluster.network.silence(from, to);
    }
    cluster.start(voter).await;
    sleep(Duration::from_secs(3)).await;
    for (from, to) in [("n1", "n2"), ("n2", "n1")] {
        cluster.network.heal(from, to);
    }
    let change = updates(json!({"n_val": 5}));
    let changed = cluster.control(voter).set_bucket_props(untyped("b"), &change).await;
    assert!(changed.is_err());
    let mut departure = cluster.control(voter).departure();
    let found = departure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(matches!(found, Departure::Stale { .. }));
    assert!(cluster.state(voter).version() < known, "it has agreed on nothing by itself");
}

#[tokio::test(start_paused = true)]
async fn only_voter_goes_on_without_the_other_member() {
    let mut cluster = TestCluster::joined(2).await;
    cluster.until_equal().await;
    let voter = cluster.control(1).claimant().unwrap().0[0];
    cluster.crash(1);
    cluster.crash(2);
    cluster.start(voter).await;
    cluster.until("it leads", || cluster.control(voter).claimant() == Some(id(voter))).await;
    let change = updates(json!({"n_val": 1}));
    cluster.control(voter).set_bucket_props(untyped("b"), &change).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn removed_node_that_comes_back_is_told_and_stops() {
    let mut cluster = TestCluster::joined(4).await;
    cluster.until_equal().await;
    cluster.crash(4);
    let node = cluster.control(1).member_named(&name(4)).unwrap();
    cluster.control(1).stage(&crate::StagedChange::ForceRemove { node }).await.unwrap();
    cluster.commit(1).await;
    cluster.start(4).await;
    let mut departure = cluster.control(4).departure();
    let found = departure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert_eq!(found, Departure::Removed);
    assert!(found.to_string().contains("empty data directory"));
    // Nor can it join again.
    cluster.crash(4);
    let mut settings = settings();
    settings.ring_size = None;
    cluster.nodes[3].disk = FaultyDisk::new(44);
    cluster.start_with(4, settings).await;
    let error = cluster.control(4).join("n1:1").await.unwrap_err().to_string();
    assert!(error.contains("was removed from this cluster and can't come back"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn second_process_on_a_copy_of_a_disk_is_told_and_stops_and_the_first_goes_on() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until_equal().await;
    cluster.crash(2);
    let copy = cluster.node(2).disk.bytes("control.redb").unwrap();
    cluster.start(2).await;
    cluster.until_equal().await;
    let disk = FaultyDisk::new(44);
    disk.put("control.redb", copy);
    cluster.nodes.push(Node { number: 4, disk, process: None });
    cluster.start(4).await;
    let mut departure = cluster.control(4).departure();
    let found = departure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(matches!(found, Departure::DuplicateIdentity { .. }), "{found:?}");
    let text = found.to_string();
    assert!(text.contains("is in use by a live node at n2:1"), "{text}");
    assert!(cluster.control(2).departure().borrow().is_none());
    cluster.control(2).set_bucket_props(untyped("b"), &updates(json!({"n_val": 2}))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn node_that_comes_back_at_another_address_right_after_its_death_is_no_double() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until_equal().await;
    // It dies without closing its connections, so the others consider it alive for a while.
    for other in ["n1", "n3"] {
        cluster.network.silence("n2", other);
        cluster.network.silence(other, "n2");
    }
    let disk = cluster.node(2).disk.kill();
    cluster.nodes[1].process = None;
    cluster.nodes.push(Node { number: 4, disk, process: None });
    cluster.start(4).await;
    cluster
        .until("it takes part at its new address", || {
            let state = cluster.state(1);
            state.members().get(id(2)).is_some_and(|member| &*member.addresses.node == "n4:1")
        })
        .await;
    assert!(cluster.control(4).departure().borrow().is_none());
}
