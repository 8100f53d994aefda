//! Recovery from a permanently lost majority.

use super::*;
use crate::tests::{typed, untyped, updates, with_active_type};
use crate::{MemberStatus, RecoverError, Recovered, StagedChange, recover};
use serde_json::json;

fn names(numbers: &[u8]) -> Vec<String> {
    numbers.iter().map(|number| name(*number)).collect()
}

async fn set(cluster: &TestCluster, number: u8, n_val: u32) {
    let change = updates(json!({"n_val": n_val}));
    cluster.control(number).set_bucket_props(untyped("b"), &change).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn node_goes_on_without_the_lost_and_the_others_that_are_left_follow() {
    let mut cluster = TestCluster::joined(5).await;
    cluster
        .until("five vote", || cluster.control(1).voters_and_starts().unwrap().0.nodes.len() == 5)
        .await;
    with_active_type(cluster.control(4), json!({"n_val": 2})).await;
    cluster.until_equal().await;
    for number in 1..=5 {
        cluster.crash(number);
    }
    let lost = names(&[1, 3, 5]);
    let recovered = recover(Arc::new(cluster.node(4).disk.clone()), &lost).unwrap();
    let shown = |numbers: &[u8]| -> Vec<Arc<str>> {
        numbers.iter().map(|number| name(*number).into()).collect()
    };
    let expected =
        Recovered { node: name(4).into(), removed: shown(&[1, 3, 5]), left: shown(&[2, 4]) };
    assert_eq!(recovered, expected);

    cluster.start(4).await;
    set(&cluster, 4, 1).await;
    cluster.start(2).await;
    cluster.until_equal().await;
    set(&cluster, 2, 4).await;
    let state = cluster.state(2);
    assert_eq!(state.members().count(), 2);
    assert_eq!(state.layouts().newest().nodes(), [id(2), id(4)]);
    assert_eq!(cluster.control(2).bucket_props(typed("t", "b")).unwrap().n_val, 2);
    cluster.move_all().await;

    // A lost node that comes back after all learns of its removal.
    cluster.start(3).await;
    let mut departure = cluster.control(3).departure();
    let told = departure.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(told, Some(crate::Departure::Removed));
}

#[tokio::test(start_paused = true)]
async fn second_of_two_goes_on_without_the_founder() {
    let mut cluster = TestCluster::joined(2).await;
    cluster.until_equal().await;
    cluster.crash(1);
    cluster.crash(2);
    recover(Arc::new(cluster.node(2).disk.clone()), &names(&[1])).unwrap();
    cluster.start(2).await;
    set(&cluster, 2, 5).await;
    assert_eq!(cluster.state(2).layouts().newest().nodes(), [id(2)]);
}

#[tokio::test(start_paused = true)]
async fn the_one_that_was_leaving_stays_when_the_others_are_lost() {
    let mut cluster = TestCluster::joined(2).await;
    cluster.until_equal().await;
    cluster.control(1).stage(&StagedChange::Leave { node: id(2) }).await.unwrap();
    cluster.commit(1).await;
    cluster.until_equal().await;
    cluster.crash(1);
    cluster.crash(2);
    recover(Arc::new(cluster.node(2).disk.clone()), &names(&[1])).unwrap();
    cluster.start(2).await;
    set(&cluster, 2, 5).await;
    let state = cluster.state(2);
    assert_eq!(state.layouts().newest().nodes(), [id(2)]);
    assert_eq!(state.members().get(id(2)).unwrap().status, MemberStatus::Valid);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_waits_for_its_commit_still_waits_when_the_majority_is_lost() {
    let mut cluster = TestCluster::joined(2).await;
    cluster.nodes.push(Node { number: 3, disk: FaultyDisk::new(3), process: None });
    cluster.start(3).await;
    cluster.join(3, 1).await.unwrap();
    let leave = StagedChange::Leave { node: id(1) };
    cluster.control(1).stage(&leave).await.unwrap();
    cluster.until_equal().await;
    cluster.crash(1);
    cluster.crash(2);
    recover(Arc::new(cluster.node(2).disk.clone()), &names(&[1])).unwrap();
    cluster.start(2).await;
    cluster.until("it is known", || cluster.state(2).members().get(id(1)).is_none()).await;
    assert_eq!(cluster.state(2).staged(), [StagedChange::Join { node: id(3) }]);
    cluster.until("it follows", || cluster.control(2).is_reachable(id(3))).await;
    cluster.commit(2).await;
    cluster.until_equal().await;
    cluster.move_all().await;
    assert_eq!(cluster.state(2).layouts().newest().nodes(), [id(2), id(3)]);
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let mut cluster = TestCluster::joined(3).await;
    cluster
        .until("three vote", || cluster.control(1).voters_and_starts().unwrap().0.nodes.len() == 3)
        .await;
    cluster.until_equal().await;
    let disk = |cluster: &TestCluster| Arc::new(cluster.node(1).disk.clone());
    let in_use = recover(disk(&cluster), &names(&[2, 3])).unwrap_err();
    assert!(matches!(in_use, RecoverError::Open(crate::OpenError::InUse { .. })), "{in_use}");
    cluster.crash(1);
    for (lost, expected) in [
        (names(&[3]), "2 of 3 voters are left, and that is a majority"),
        (names(&[1, 2]), "n1@test is the node of this data directory"),
        (names(&[7]), "n7@test is not a member"),
    ] {
        let text = recover(disk(&cluster), &lost).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    cluster.start(1).await;
    set(&cluster, 1, 2).await;
    cluster.until_equal().await;
}
