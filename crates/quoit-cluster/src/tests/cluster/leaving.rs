//! Nodes that leave, are removed, or are replaced.

use super::*;
use crate::{Departure, MemberStatus, StagedChange};

fn nodes(town: &Town, number: u8) -> Vec<u8> {
    town.state(number).layouts().newest().nodes().iter().map(|node| node.0[0]).collect()
}

fn members(town: &Town, number: u8) -> Vec<u8> {
    town.state(number).members().iter().map(|member| member.id.0[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn node_that_leaves_hands_over_and_stops() {
    let mut town = Town::joined(4).await;
    town.control(2).stage(&StagedChange::Leave { node: id(4) }).await.unwrap();
    town.commit(2).await;
    town.until_equal().await;
    assert_eq!((nodes(&town, 4), members(&town, 4)), (vec![1, 2, 3], vec![1, 2, 3, 4]));
    assert_eq!(town.state(1).members().get(id(4)).unwrap().status, MemberStatus::Leaving);
    let mut departure = town.control(4).departure();
    town.move_all().await;
    let left = departure.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(left, Some(Departure::Left));
    town.crash(4);
    town.until_equal().await;
    assert_eq!(members(&town, 1), [1, 2, 3]);
    assert!(town.state(1).members().is_removed(id(4)));
}

#[tokio::test(start_paused = true)]
async fn the_last_node_of_a_cluster_that_another_founded_lets_no_strangers_in() {
    let mut town = Town::joined(2).await;
    town.control(2).stage(&StagedChange::Leave { node: id(1) }).await.unwrap();
    town.commit(2).await;
    town.move_all().await;
    town.until("the founder is gone", || members(&town, 2) == [2]).await;
    town.crash(1);
    for _ in 0..2 {
        let host = town.network.host("n9");
        let settings = InternodeSettings::new(id(9), name(9), 99, 99);
        let stranger = Internode::new(settings, host);
        stranger.set_cluster(Some(town.state(2).cluster_id()));
        stranger.set_peers(&[(id(2), address(2).into(), name(2).into())]);
        let peer = stranger.peer(id(2)).unwrap();
        town.until("it is turned away", || peer.trouble().is_some()).await;
        let words = peer.trouble().unwrap();
        assert!(words.contains("is not a member of this cluster"), "{words}");
        drop(stranger);
        // The same after a restart.
        town.crash(2);
        town.start(2).await;
    }
}

#[tokio::test(start_paused = true)]
async fn leader_may_leave() {
    let town = Town::joined(4).await;
    town.until_equal().await;
    let leader = town.control(1).claimant().unwrap();
    let other = leader.0[0] % 4 + 1;
    town.control(other).stage(&StagedChange::Leave { node: leader }).await.unwrap();
    town.commit(other).await;
    let mut departure = town.control(leader.0[0]).departure();
    town.move_all().await;
    let left = departure.wait_for(Option::is_some).await.unwrap().clone();
    assert_eq!(left, Some(Departure::Left));
    town.until("the member is gone", || town.state(other).members().count() == 3).await;
}

#[tokio::test(start_paused = true)]
async fn dead_node_is_removed_by_force() {
    let mut town = Town::joined(4).await;
    town.until_equal().await;
    town.crash(3);
    town.control(1).stage(&StagedChange::ForceRemove { node: id(3) }).await.unwrap();
    let plan = town.control(1).plan().unwrap();
    assert_eq!(plan.lost, [id(3)]);
    assert!(plan.transfers.iter().any(|transfer| transfer.from == id(3) && !transfer.has_source));
    town.control(1).commit_staged(None).await.unwrap();
    town.until_equal().await;
    assert_eq!((nodes(&town, 2), members(&town, 2)), (vec![1, 2, 4], vec![1, 2, 4]));
    town.move_all().await;
}

#[tokio::test(start_paused = true)]
async fn node_is_replaced_one_to_one() {
    let mut town = Town::alone(4).await;
    for number in [2, 3] {
        town.join(number, 1).await.unwrap();
    }
    town.commit(1).await;
    town.move_all().await;
    let before = Arc::clone(town.state(1).layouts().newest());
    town.join(4, 1).await.unwrap();
    let replace = StagedChange::Replace { old: id(2), new: id(4) };
    town.control(3).stage(&replace).await.unwrap();
    let plan = town.control(3).plan().unwrap();
    assert_eq!(plan.transfers.len(), 1, "{:?}", plan.transfers);
    assert_eq!((plan.transfers[0].from, plan.transfers[0].to), (id(2), id(4)));
    town.commit(3).await;
    town.until_equal().await;
    let after = Arc::clone(town.state(1).layouts().newest());
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
    town.move_all().await;
    town.until("the old one is gone", || town.state(1).members().count() == 3).await;
    town.crash(2);
}

#[tokio::test(start_paused = true)]
async fn dead_node_is_replaced_by_force() {
    let mut town = Town::joined(3).await;
    town.until_equal().await;
    town.crash(2);
    town.nodes.push(Node { number: 4, disk: FaultyDisk::new(4), process: None });
    town.start(4).await;
    town.join(4, 1).await.unwrap();
    town.control(1).stage(&StagedChange::ForceReplace { old: id(2), new: id(4) }).await.unwrap();
    town.commit(1).await;
    town.until_equal().await;
    assert_eq!((nodes(&town, 1), members(&town, 1)), (vec![1, 3, 4], vec![1, 3, 4]));
    town.move_all().await;
}

#[tokio::test(start_paused = true)]
async fn node_whose_join_was_cleared_while_it_was_away_finds_out() {
    let mut town = Town::alone(3).await;
    town.join(2, 1).await.unwrap();
    town.join(3, 1).await.unwrap();
    town.until_equal().await;
    town.crash(3);
    town.control(2).clear_staged().await.unwrap();
    town.until("the other one is alone", || town.state(2).members().count() == 1).await;
    town.start(3).await;
    town.until("it is alone", || {
        let state = town.state(3);
        state.members().count() == 1 && state.cluster_id().0 == id(3).0
    })
    .await;
    town.join(3, 1).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn cleared_join_makes_the_node_alone_again() {
    let town = Town::alone(2).await;
    town.join(2, 1).await.unwrap();
    town.control(1).clear_staged().await.unwrap();
    town.until("it is alone", || {
        let state = town.state(2);
        state.members().count() == 1 && state.cluster_id().0 == id(2).0
    })
    .await;
    assert_eq!(town.state(1).members().count(), 1);
    // And it may come again.
    town.join(2, 1).await.unwrap();
    town.commit(2).await;
    town.move_all().await;
    assert_eq!(nodes(&town, 1), [1, 2]);
}
