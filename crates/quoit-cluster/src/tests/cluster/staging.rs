//! Staged changes, plans and commits.

use super::*;
use crate::{ChangeError, MemberStatus, MembershipError, StagedChange};

async fn refused(cluster: &TestCluster, number: u8, change: StagedChange) -> MembershipError {
    match cluster.control(number).stage(&change).await {
        Err(ChangeError::Membership(refusal)) => refusal,
        other => panic!("{change:?}: {other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_makes_no_sense_is_not_staged() {
    let cluster = TestCluster::joined(3).await;
    let leave = StagedChange::Leave { node: id(3) };
    cluster.control(1).stage(&leave).await.unwrap();
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
        let text = refused(&cluster, 2, change).await.to_string();
        assert!(text.contains(expected), "{text}");
    }
    assert_eq!(cluster.state(2).staged().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_member_does_not_leave() {
    let cluster = TestCluster::alone(1).await;
    for change in [StagedChange::Leave { node: id(1) }, StagedChange::ForceRemove { node: id(1) }] {
        let refusal = refused(&cluster, 1, change).await;
        assert!(matches!(refusal, MembershipError::OnlyMember { .. }), "{refusal}");
    }
}

#[tokio::test(start_paused = true)]
async fn commit_wants_the_plan_that_was_shown() {
    let cluster = TestCluster::joined(3).await;
    let commit = async |shown| match cluster.control(1).commit_staged(shown).await {
        Err(ChangeError::Membership(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    assert_eq!(cluster.control(1).plan().unwrap_err(), MembershipError::NothingStaged);
    assert_eq!(commit(None).await, MembershipError::NotPlanned);
    let location = |node: u8, location: &str| StagedChange::Location {
        node: id(node),
        location: Some(location.into()),
    };
    cluster.control(2).stage(&location(1, "a")).await.unwrap();
    cluster.until_equal().await;
    let shown = cluster.control(1).plan().unwrap().id;
    cluster.control(2).stage(&location(2, "b")).await.unwrap();
    assert_eq!(commit(None).await, MembershipError::PlanChanged);
    assert_eq!(commit(Some(shown)).await, MembershipError::PlanChanged);
    cluster.until_equal().await;
    let plan = cluster.control(3).plan().unwrap();
    assert_eq!(plan.staged.len(), 2);
    cluster.control(1).commit_staged(Some(plan.id)).await.unwrap();
    cluster.until_equal().await;
    let member = |number| Arc::clone(cluster.state(3).members().get(id(number)).unwrap());
    assert_eq!(
        (member(1).location.as_deref(), member(2).location.as_deref()),
        (Some("a"), Some("b"))
    );
    assert!(cluster.state(3).staged().is_empty());
    // The layout has the locations.
    let newest = Arc::clone(cluster.state(3).layouts().newest());
    assert_eq!(newest.members()[0].location.as_deref(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn joining_nodes_must_be_up_for_the_commit() {
    let mut cluster = TestCluster::alone(2).await;
    cluster.join(2, 1).await.unwrap();
    cluster.crash(2);
    cluster.control(1).plan().unwrap();
    cluster.until("it is seen to be away", || !cluster.control(1).is_reachable(id(2))).await;
    let refusal = cluster.control(1).commit_staged(None).await.unwrap_err().to_string();
    assert!(refusal.contains("n2@test is not reachable"), "{refusal}");
    cluster.start(2).await;
    cluster.until("it is back", || cluster.control(1).is_reachable(id(2))).await;
    cluster.control(1).commit_staged(None).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn member_that_is_away_can_be_marked_and_is_back_when_it_is_up() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until_equal().await;
    let refusal = cluster.control(1).mark_down(id(3)).await.unwrap_err().to_string();
    assert_eq!(refusal, "Failed: n3@test is up");
    cluster.crash(3);
    cluster.until("it is seen to be away", || !cluster.control(1).is_reachable(id(3))).await;
    cluster.control(1).mark_down(id(3)).await.unwrap();
    let member = Arc::clone(cluster.state(1).members().get(id(3)).unwrap());
    assert_eq!((member.status, member.is_down), (MemberStatus::Valid, true));
    assert_eq!(member.status_word(), "down");
    // A change of layout does not wait for it.
    let capacity = StagedChange::Capacity { node: id(2), capacity: 200 };
    cluster.control(1).stage(&capacity).await.unwrap();
    cluster.commit(1).await;
    let state = cluster.state(1);
    let copies: Vec<_> = state.layouts().incomplete().filter(|(_, node)| *node == id(3)).collect();
    assert!(copies.is_empty(), "everybody has everything");
    cluster.until("the old layout retires", || !cluster.state(1).layouts().is_moving()).await;
    cluster.start(3).await;
    let is_marked = || cluster.state(1).members().get(id(3)).unwrap().is_down;
    cluster.until("it is a full member", || !is_marked()).await;
}
