//! A majority that is lost for good.

use super::*;
use crate::tests::{typed, untyped, updates, with_active_type};
use crate::{MemberStatus, RecoverError, Recovered, StagedChange, recover};
use serde_json::json;

fn names(numbers: &[u8]) -> Vec<String> {
    numbers.iter().map(|number| name(*number)).collect()
}

async fn set(town: &Town, number: u8, n_val: u32) {
    let change = updates(json!({"n_val": n_val}));
    town.control(number).set_bucket_props(untyped("b"), &change).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn node_goes_on_without_the_lost_and_the_others_that_are_left_follow() {
    let mut town = Town::joined(5).await;
    town.until("five vote", || town.control(1).voters_and_starts().unwrap().0.nodes.len() == 5)
        .await;
    with_active_type(town.control(4), json!({"n_val": 2})).await;
    town.until_equal().await;
    for number in 1..=5 {
        town.crash(number);
    }
    let lost = names(&[1, 3, 5]);
    let recovered = recover(Arc::new(town.node(4).disk.clone()), &lost).unwrap();
    let shown = |numbers: &[u8]| -> Vec<Arc<str>> {
        numbers.iter().map(|number| name(*number).into()).collect()
    };
    let expected =
        Recovered { node: name(4).into(), removed: shown(&[1, 3, 5]), left: shown(&[2, 4]) };
    assert_eq!(recovered, expected);

    town.start(4).await;
    set(&town, 4, 1).await;
    town.start(2).await;
    town.until_equal().await;
    set(&town, 2, 4).await;
    let state = town.state(2);
    assert_eq!(state.members().count(), 2);
    assert_eq!(state.layouts().newest().nodes(), [id(2), id(4)]);
    assert_eq!(town.control(2).bucket_props(typed("t", "b")).unwrap().n_val, 2);
    town.move_all().await;

    // A lost one that turns up after all is told.
    town.start(3).await;
    let mut departure = town.control(3).departure();
    let told = departure.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(told, Some(crate::Departure::Removed));
}

#[tokio::test(start_paused = true)]
async fn second_of_two_goes_on_without_the_founder() {
    let mut town = Town::joined(2).await;
    town.until_equal().await;
    town.crash(1);
    town.crash(2);
    recover(Arc::new(town.node(2).disk.clone()), &names(&[1])).unwrap();
    town.start(2).await;
    set(&town, 2, 5).await;
    assert_eq!(town.state(2).layouts().newest().nodes(), [id(2)]);
}

#[tokio::test(start_paused = true)]
async fn the_one_that_was_leaving_stays_when_the_others_are_lost() {
    let mut town = Town::joined(2).await;
    town.until_equal().await;
    town.control(1).stage(&StagedChange::Leave { node: id(2) }).await.unwrap();
    town.commit(1).await;
    town.until_equal().await;
    town.crash(1);
    town.crash(2);
    recover(Arc::new(town.node(2).disk.clone()), &names(&[1])).unwrap();
    town.start(2).await;
    set(&town, 2, 5).await;
    let state = town.state(2);
    assert_eq!(state.layouts().newest().nodes(), [id(2)]);
    assert_eq!(state.members().get(id(2)).unwrap().status, MemberStatus::Valid);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_waits_for_its_commit_still_waits_when_the_majority_is_lost() {
    let mut town = Town::joined(2).await;
    town.nodes.push(Node { number: 3, disk: FaultyDisk::new(3), process: None });
    town.start(3).await;
    town.join(3, 1).await.unwrap();
    let leave = StagedChange::Leave { node: id(1) };
    town.control(1).stage(&leave).await.unwrap();
    town.until_equal().await;
    town.crash(1);
    town.crash(2);
    recover(Arc::new(town.node(2).disk.clone()), &names(&[1])).unwrap();
    town.start(2).await;
    town.until("it is known", || town.state(2).members().get(id(1)).is_none()).await;
    assert_eq!(town.state(2).staged(), [StagedChange::Join { node: id(3) }]);
    town.until("it follows", || town.control(2).is_reachable(id(3))).await;
    town.commit(2).await;
    town.until_equal().await;
    town.move_all().await;
    assert_eq!(town.state(2).layouts().newest().nodes(), [id(2), id(3)]);
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_refused_and_changes_nothing() {
    let mut town = Town::joined(3).await;
    town.until("three vote", || town.control(1).voters_and_starts().unwrap().0.nodes.len() == 3)
        .await;
    town.until_equal().await;
    let disk = |town: &Town| Arc::new(town.node(1).disk.clone());
    let in_use = recover(disk(&town), &names(&[2, 3])).unwrap_err();
    assert!(matches!(in_use, RecoverError::Open(crate::OpenError::InUse { .. })), "{in_use}");
    town.crash(1);
    for (lost, expected) in [
        (names(&[3]), "2 of 3 voters are left, and that is a majority"),
        (names(&[1, 2]), "n1@test is the node of this data directory"),
        (names(&[7]), "n7@test is not a member"),
    ] {
        let text = recover(disk(&town), &lost).unwrap_err().to_string();
        assert!(text.contains(expected), "{text}");
    }
    town.start(1).await;
    set(&town, 1, 2).await;
    town.until_equal().await;
}
