//! Nodes that join.

use super::*;
use crate::tests::{typed, untyped, updates, with_active_type};
use crate::{MemberStatus, StagedChange};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn nodes_join_wait_for_the_commit_and_hold_data_afterwards() {
    let cluster = TestCluster::alone(3).await;
    let started = Instant::now();
    cluster.join(2, 1).await.unwrap();
    // Any member can be asked.
    cluster.join(3, 2).await.unwrap();
    cluster.until_equal().await;
    for number in 1..=3 {
        let state = cluster.state(number);
        assert_eq!(state.cluster_id(), cluster.state(1).cluster_id());
        assert_eq!(state.members().count(), 3);
        assert_eq!(state.members().get(id(3)).unwrap().status, MemberStatus::Joining);
        assert_eq!(state.layouts().newest().nodes(), [id(1)]);
        let joins = [2, 3].map(|number| StagedChange::Join { node: id(number) });
        assert_eq!(state.staged(), joins);
    }

    // Planned and committed on any node.
    let plan = cluster.control(3).plan().unwrap();
    assert_eq!(plan.members.len(), 3);
    cluster.control(3).commit_staged(Some(plan.id)).await.unwrap();
    cluster.until_equal().await;
    let state = cluster.state(2);
    assert_eq!(state.layouts().newest().nodes(), [id(1), id(2), id(3)]);
    assert!(state.layouts().is_moving());
    assert_eq!(state.layouts().for_reads(Partition(0)).nodes(), [id(1)]);
    assert!(state.members().iter().all(|member| member.status == MemberStatus::Valid));

    cluster.move_all().await;
    assert_eq!(cluster.state(2).layouts().live().len(), 1);
    assert!(started.elapsed() < Duration::from_secs(20), "{:?}", started.elapsed());
}

#[tokio::test(start_paused = true)]
async fn bucket_types_come_along() {
    let cluster = TestCluster::alone(2).await;
    with_active_type(cluster.control(1), json!({"n_val": 2})).await;
    let control = cluster.control(2);
    control.create_type(b"mine", &updates(json!({"n_val": 4}))).await.unwrap();
    control.activate_type(b"mine").await.unwrap();
    control.set_bucket_props(untyped("b"), &updates(json!({"n_val": 5}))).await.unwrap();
    cluster.join(2, 1).await.unwrap();
    cluster.until_equal().await;
    for number in [1, 2] {
        let n_val = |bucket| cluster.control(number).bucket_props(bucket).unwrap().n_val;
        assert_eq!((n_val(typed("t", "b")), n_val(typed("mine", "b"))), (2, 4), "{number}");
        assert_eq!((n_val(untyped("b")), n_val(untyped("c"))), (5, 3), "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn changes_are_made_on_any_node_and_seen_there_at_once() {
    let cluster = TestCluster::joined(3).await;
    for number in [3, 1, 2] {
        let bucket = format!("b{number}");
        let change = updates(json!({"n_val": number}));
        cluster.control(number).set_bucket_props(untyped(&bucket), &change).await.unwrap();
        let props = cluster.control(number).bucket_props(untyped(&bucket)).unwrap();
        assert_eq!(props.n_val, u32::from(number));
    }
    // The change of each node depends on a change that another node has just made.
    cluster.control(2).create_type(b"u", &updates(json!({}))).await.unwrap();
    cluster.control(3).activate_type(b"u").await.unwrap();
    cluster.control(1).update_type(b"u", &updates(json!({"n_val": 1}))).await.unwrap();
    assert_eq!(cluster.control(1).bucket_props(typed("u", "b")).unwrap().n_val, 1);
}
