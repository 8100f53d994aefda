//! Nodes that leave, are removed, or are replaced.

use super::*;
use crate::{Departure, MemberStatus, StagedChange};

fn nodes(cluster: &TestCluster, number: u8) -> Vec<u8> {
    cluster.state(number).layouts().newest().nodes().iter().map(|node| node.0[0]).collect()
}

fn members(cluster: &TestCluster, number: u8) -> Vec<u8> {
    cluster.state(number).members().iter().map(|member| member.id.0[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn node_that_leaves_hands_over_and_stops() {
    let mut cluster = TestCluster::joined(4).await;
    cluster.control(2).stage(&StagedChange::Leave { node: id(4) }).await.unwrap();
    cluster.commit(2).await;
    cluster.until_equal().await;
    assert_eq!((nodes(&cluster, 4), members(&cluster, 4)), (vec![1, 2, 3], vec![1, 2, 3, 4]));
    assert_eq!(cluster.state(1).members().get(id(4)).unwrap().status, MemberStatus::Leaving);
    let mut departure = cluster.control(4).departure();
    cluster.move_all().await;
    let left = departure.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(left, Some(Departure::Left));
    cluster.crash(4);
    cluster.until_equal().await;
    assert_eq!(members(&cluster, 1), [1, 2, 3]);
    assert!(cluster.state(1).members().is_removed(id(4)));
}

#[tokio::test(start_paused = true)]
async fn the_last_node_of_a_cluster_that_another_founded_lets_no_strangers_in() {
    let mut cluster = TestCluster::joined(2).await;
    cluster.control(2).stage(&StagedChange::Leave { node: id(1) }).await.unwrap();
    cluster.commit(2).await;
    cluster.move_all().await;
    cluster.until("the founder is gone", || members(&cluster, 2) == [2]).await;
    cluster.crash(1);
    for _ in 0..2 {
        let host = cluster.network.host("n9");
        let settings = InternodeSettings::new(id(9), name(9), 99, JitterSeed(99));
        let stranger = Internode::new(settings, host);
        stranger.set_cluster(Some(cluster.state(2).cluster_id()));
        stranger.set_peers(&[(id(2), address(2).into(), name(2).into())]);
        let peer = stranger.peer(id(2)).unwrap();
        cluster.until("it is turned away", || peer.connection_problem().is_some()).await;
        let words = peer.connection_problem().unwrap();
        assert!(words.contains("is not a member of this cluster"), "{words}");
        drop(stranger);
        // The same after a restart.
        cluster.crash(2);
        cluster.start(2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn leader_may_leave() {
    let cluster = TestCluster::joined(4).await;
    cluster.until_equal().await;
    let leader = cluster.control(1).claimant().unwrap();
    let other = leader.0[0] % 4 + 1;
    cluster.control(other).stage(&StagedChange::Leave { node: leader }).await.unwrap();
    cluster.commit(other).await;
    let mut departure = cluster.control(leader.0[0]).departure();
    cluster.move_all().await;
    let left = departure.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(left, Some(Departure::Left));
    cluster.until("the member is gone", || cluster.state(other).members().count() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn dead_node_is_removed_by_force() {
    let mut cluster = TestCluster::joined(4).await;
    cluster.until_equal().await;
    cluster.crash(3);
    cluster.control(1).stage(&StagedChange::ForceRemove { node: id(3) }).await.unwrap();
    let plan = cluster.control(1).plan().unwrap();
    assert_eq!(plan.lost, [id(3)]);
    assert!(plan.transfers.iter().any(|transfer| transfer.from == id(3) && !transfer.has_source));
    cluster.control(1).commit_staged(None).await.unwrap();
    cluster.until_equal().await;
    assert_eq!((nodes(&cluster, 2), members(&cluster, 2)), (vec![1, 2, 4], vec![1, 2, 4]));
    cluster.move_all().await;
    // Its name stays known, also on the disk of a node that restarts.
    cluster.crash(2);
    cluster.start(2).await;
    assert!(cluster.state(2).members().is_removed(id(3)));
    assert_eq!(*cluster.state(2).members().name_of(id(3)), *name(3));
}

#[tokio::test(start_paused = true)]
async fn node_is_replaced_one_to_one() {
    let mut cluster = TestCluster::alone(4).await;
    for number in [2, 3] {
        cluster.join(number, 1).await.unwrap();
    }
    cluster.commit(1).await;
    cluster.move_all().await;
    let before = Arc::clone(cluster.state(1).layouts().newest());
    cluster.join(4, 1).await.unwrap();
    let replace = StagedChange::Replace { old: id(2), new: id(4) };
    cluster.control(3).stage(&replace).await.unwrap();
    let plan = cluster.control(3).plan().unwrap();
    assert_eq!(plan.transfers.len(), 1, "{:?}", plan.transfers);
    assert_eq!((plan.transfers[0].from, plan.transfers[0].to), (id(2), id(4)));
    cluster.commit(3).await;
    cluster.until_equal().await;
    let after = Arc::clone(cluster.state(1).layouts().newest());
    for partition in before.partitions() {
        let holders = |layout: &quoit_model::layout::Layout| {
            let primaries = layout.primaries(partition, 3).iter();
            let mut ids: Vec<u8> =
                primaries.map(|node| layout.nodes()[usize::from(*node)].0[0]).collect();
            ids.sort_unstable();
            ids
        };
        let expected: Vec<u8> =
            holders(&before).iter().map(|id| if *id == 2 { 4 } else { *id }).collect();
        let mut expected = expected;
        expected.sort_unstable();
        assert_eq!(holders(&after), expected);
    }
    cluster.move_all().await;
    cluster.until("the old one is gone", || cluster.state(1).members().count() == 3).await;
    cluster.crash(2);
}

#[tokio::test(start_paused = true)]
async fn dead_node_is_replaced_by_force() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until_equal().await;
    cluster.crash(2);
    cluster.nodes.push(Node { number: 4, disk: FaultyDisk::new(4), process: None });
    cluster.start(4).await;
    cluster.join(4, 1).await.unwrap();
    cluster.control(1).stage(&StagedChange::ForceReplace { old: id(2), new: id(4) }).await.unwrap();
    cluster.commit(1).await;
    cluster.until_equal().await;
    assert_eq!((nodes(&cluster, 1), members(&cluster, 1)), (vec![1, 3, 4], vec![1, 3, 4]));
    cluster.move_all().await;
}

#[tokio::test(start_paused = true)]
async fn node_whose_join_was_cleared_while_it_was_away_finds_out() {
    let mut cluster = TestCluster::alone(3).await;
    cluster.join(2, 1).await.unwrap();
    cluster.join(3, 1).await.unwrap();
    cluster.until_equal().await;
    cluster.crash(3);
    cluster.control(2).clear_staged().await.unwrap();
    cluster.until("the other one is alone", || cluster.state(2).members().count() == 1).await;
    cluster.start(3).await;
    cluster
        .until("it is alone", || {
            let state = cluster.state(3);
            state.members().count() == 1 && state.cluster_id().0 == id(3).0
        })
        .await;
    cluster.join(3, 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cleared_join_makes_the_node_alone_again() {
    let cluster = TestCluster::alone(2).await;
    cluster.join(2, 1).await.unwrap();
    cluster.control(1).clear_staged().await.unwrap();
    cluster
        .until("it is alone", || {
            let state = cluster.state(2);
            state.members().count() == 1 && state.cluster_id().0 == id(2).0
        })
        .await;
    assert_eq!(cluster.state(1).members().count(), 1);
    // The node can join again.
    cluster.join(2, 1).await.unwrap();
    cluster.commit(2).await;
    cluster.move_all().await;
    assert_eq!(nodes(&cluster, 1), [1, 2]);
}
