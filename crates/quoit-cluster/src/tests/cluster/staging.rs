//! Staged changes, plans and commits.

use super::*;
use crate::{ChangeError, MemberStatus, MembershipError, StagedChange};

async fn refused(town: &Town, number: u8, change: StagedChange) -> MembershipError {
    match town.control(number).stage(&change).await {
        Err(ChangeError::Membership(refusal)) => refusal,
        other => panic!("{change:?}: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_not_staged() {
    let town = Town::joined(3).await;
    let leave = StagedChange::Leave { node: id(3) };
    town.control(1).stage(&leave).await.unwrap();
    for (change, expected) in [
        (StagedChange::Leave { node: id(9) }, "is not a member of the cluster"),
        (leave, "leave of n3@test is staged already"),
        (StagedChange::ForceRemove { node: id(3) }, "staged already"),
        (StagedChange::Replace { old: id(1), new: id(2) }, "holds partitions"),
        (StagedChange::Replace { old: id(1), new: id(1) }, "can't replace itself"),
        (StagedChange::Capacity { node: id(1), capacity: 0 }, "1 to 1000000, not 0"),
        (
            StagedChange::Location { node: id(1), location: Some("x".repeat(256).into()) },
            "at most 255 bytes",
        ),
    ] {
        let text = refused(&town, 2, change).await.to_string();
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(town.state(2).staged().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_member_does_not_leave() {
    let town = Town::alone(1).await;
    for change in [StagedChange::Leave { node: id(1) }, StagedChange::ForceRemove { node: id(1) }] {
        let refusal = refused(&town, 1, change).await;
        assert!(matches!(refusal, MembershipError::OnlyMember { .. }), "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn commit_wants_the_plan_that_was_shown() {
    let town = Town::joined(3).await;
    let commit = async |shown| match town.control(1).commit_staged(shown).await {
        Err(ChangeError::Membership(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(town.control(1).plan().unwrap_err(), MembershipError::NothingStaged);
    assert_eq!(commit(None).await, MembershipError::NotPlanned);
    let location = |node: u8, location: &str| StagedChange::Location {
        node: id(node),
        location: Some(location.into()),
    };
    town.control(2).stage(&location(1, "a")).await.unwrap();
    town.until_equal().await;
    let shown = town.control(1).plan().unwrap().id;
    town.control(2).stage(&location(2, "b")).await.unwrap();
    assert_eq!(commit(None).await, MembershipError::PlanChanged);
    assert_eq!(commit(Some(shown)).await, MembershipError::PlanChanged);
    town.until_equal().await;
    let plan = town.control(3).plan().unwrap();
    assert_eq!(plan.staged.len(), 2);
    town.control(1).commit_staged(Some(plan.id)).await.unwrap();
    town.until_equal().await;
    let member = |number| Arc::clone(town.state(3).members().get(id(number)).unwrap());
    assert_eq!(
        (member(1).location.as_deref(), member(2).location.as_deref()),
        (Some("a"), Some("b"))
    );
    assert!(town.state(3).staged().is_empty());
    // The layout knows of the locations.
    let newest = Arc::clone(town.state(3).layouts().newest());
    assert_eq!(newest.members()[0].location.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn joining_nodes_must_be_up_for_the_commit() {
    let mut town = Town::alone(2).await;
    town.join(2, 1).await.unwrap();
    town.crash(2);
    town.control(1).plan().unwrap();
    town.until("it is seen to be away", || !town.control(1).is_reachable(id(2))).await;
    let refusal = town.control(1).commit_staged(None).await.unwrap_err().to_string();
    assert!(refusal.contains("n2@test is not reachable"), "{refusal}");
    town.start(2).await;
    town.until("it is back", || town.control(1).is_reachable(id(2))).await;
    town.control(1).commit_staged(None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn member_that_is_away_can_be_marked_and_is_back_when_it_is_up() {
    let mut town = Town::joined(3).await;
    town.until_equal().await;
    let refusal = town.control(1).mark_down(id(3)).await.unwrap_err().to_string();
    assert_eq!(refusal, "Failed: n3@test is up");
    town.crash(3);
    town.until("it is seen to be away", || !town.control(1).is_reachable(id(3))).await;
    town.control(1).mark_down(id(3)).await.unwrap();
    let member = Arc::clone(town.state(1).members().get(id(3)).unwrap());
    assert_eq!((member.status, member.is_down), (MemberStatus::Valid, true));
    assert_eq!(member.status_word(), "down");
    // A change of layout does not wait for it.
    let capacity = StagedChange::Capacity { node: id(2), capacity: 200 };
    town.control(1).stage(&capacity).await.unwrap();
    town.commit(1).await;
    let state = town.state(1);
    let copies: Vec<_> = state.layouts().incomplete().filter(|(_, node)| *node == id(3)).collect();
    assert!(copies.is_empty(), "everybody has everything");
    town.until("the old layout retires", || !town.state(1).layouts().is_moving()).await;
    town.start(3).await;
    let is_marked = || town.state(1).members().get(id(3)).unwrap().is_down;
    town.until("it is a full member", || !is_marked()).await;
}
