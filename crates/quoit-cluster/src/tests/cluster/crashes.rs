//! Nodes that crash, are cut off, and come back.

use super::*;
use crate::StagedChange;
use crate::tests::{untyped, updates};
use serde_json::json;

async fn set(cluster: &TestCluster, number: u8, n_val: u32) {
    let change = updates(json!({"n_val": n_val}));
    cluster.control(number).set_bucket_props(untyped("b"), &change).await.unwrap();
}

fn n_val(cluster: &TestCluster, number: u8) -> u32 {
    cluster.control(number).bucket_props(untyped("b")).unwrap().n_val
}

fn voters(cluster: &TestCluster, number: u8) -> Vec<u8> {
    let (voters, _) = cluster.control(number).voters_and_starts().unwrap();
    voters.nodes.iter().map(|voter| voter.0[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn another_node_leads_when_the_leader_dies_and_it_follows_when_it_is_back() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until("three vote", || voters(&cluster, 1).len() == 3).await;
    cluster.until_equal().await;
    let leader = cluster.control(2).claimant().unwrap().0[0];
    let other = if leader == 2 { 3 } else { 2 };
    cluster.crash(leader);
    let died = Instant::now();
    set(&cluster, other, 1).await;
    assert!(died.elapsed() < Duration::from_secs(8), "{:?}", died.elapsed());
    assert_ne!(cluster.control(other).claimant().unwrap().0[0], leader);
    cluster.start(leader).await;
    cluster.until("it has caught up", || n_val(&cluster, leader) == 1).await;
    set(&cluster, leader, 2).await;
    cluster.until_equal().await;
}

#[tokio::test(start_paused = true)]
async fn nobody_agrees_without_a_majority_and_reading_goes_on() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until("three vote", || voters(&cluster, 1).len() == 3).await;
    set(&cluster, 1, 2).await;
    cluster.until_equal().await;
    cluster.crash(2);
    cluster.crash(3);
    let change = updates(json!({"n_val": 1}));
    let error = cluster.control(1).set_bucket_props(untyped("b"), &change).await.unwrap_err();
    assert!(error.to_string().contains("no leader"), "{error}");
    assert_eq!(n_val(&cluster, 1), 2);
    // A change that found no majority may still take effect when the majority is back.
    cluster.start(2).await;
    set(&cluster, 1, 5).await;
    cluster.start(3).await;
    cluster.until_equal().await;
    assert_eq!(n_val(&cluster, 3), 5);
}

#[tokio::test(start_paused = true)]
async fn all_nodes_lose_their_power_at_once() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.until("five vote", || voters(&cluster, 1).len() == 5).await;
    set(&cluster, 4, 2).await;
    for number in 1..=5 {
        cluster.crash(number);
    }
    for number in 1..=5 {
        cluster.start(number).await;
    }
    // Committed changes survive.
    set(&cluster, 3, 4).await;
    cluster.until_equal().await;
    assert_eq!(n_val(&cluster, 5), 4);
    assert_eq!(cluster.state(5).layouts().newest().nodes().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn voter_that_stays_away_is_replaced() {
    let mut cluster = TestCluster::joined(4).await;
    cluster.until("three vote", || voters(&cluster, 1).len() == 3).await;
    cluster.until_equal().await;
    let gone = *voters(&cluster, 1).iter().find(|voter| **voter != 1).unwrap();
    cluster.crash(gone);
    cluster
        .until("another votes", || {
            let now = voters(&cluster, 1);
            now.len() == 3 && !now.contains(&gone)
        })
        .await;
    // Two of the three former voters are down now.
    let second = *voters(&cluster, 1).iter().find(|voter| **voter != 1).unwrap();
    cluster.crash(second);
    set(&cluster, 1, 1).await;
}

/// Cuts a node off from all others, or ends that.
fn cut_off(cluster: &TestCluster, number: u8, is_cut: bool) {
    for other in cluster.running().filter(|other| *other != number) {
        for (from, to) in [(number, other), (other, number)] {
            let (from, to) = (format!("n{from}"), format!("n{to}"));
            if is_cut {
                cluster.network.silence(&from, &to);
            } else {
                cluster.network.heal(&from, &to);
            }
        }
    }
}

fn leader(cluster: &TestCluster, number: u8) -> Option<u8> {
    cluster.control(number).claimant().map(|leader| leader.0[0])
}

#[tokio::test(start_paused = true)]
async fn voter_that_is_away_for_a_moment_stays_whatever_a_leader_remembers_of_its_last_time() {
    let mut cluster = TestCluster::joined(4).await;
    cluster.until("three vote", || voters(&cluster, 1).len() == 3).await;
    cluster.until_equal().await;
    let first = leader(&cluster, 1).unwrap();
    let voting = voters(&cluster, first);
    let other = *voting.iter().find(|voter| **voter != first).unwrap();
    // The leader that is cut off sees all others as unreachable.
    cut_off(&cluster, first, true);
    cluster
        .until("another leads", || leader(&cluster, other).is_some_and(|now| now != first))
        .await;
    let second = leader(&cluster, other).unwrap();
    cut_off(&cluster, first, false);
    cluster.until("the first follows", || leader(&cluster, first) == Some(second)).await;
    // Longer than a voter may be unreachable.
    sleep(Duration::from_secs(40)).await;
    assert_eq!((leader(&cluster, first), voters(&cluster, first)), (Some(second), voting.clone()));
    cluster.crash(second);
    let crashed = Instant::now();
    let raft = cluster.control(first).group().raft().await.unwrap();
    while leader(&cluster, first) != Some(first) {
        raft.trigger().elect().await.unwrap();
        sleep(Duration::from_millis(100)).await;
    }
    sleep(Duration::from_secs(5)).await;
    assert!(crashed.elapsed() < Duration::from_secs(20), "away for {:?}", crashed.elapsed());
    assert_eq!(voters(&cluster, first), voting);
    cluster.start(second).await;
    cluster.until_equal().await;
    assert_eq!(voters(&cluster, second), voting);
}

#[tokio::test(start_paused = true)]
async fn node_without_a_majority_knows_that_it_is_cut_off_even_if_it_was_the_leader() {
    let cluster = TestCluster::joined(3).await;
    cluster.until("three vote", || voters(&cluster, 1).len() == 3).await;
    let is_cut_off = |number: u8| cluster.control(number).is_cut_off();
    cluster.until("all reach a majority", || ![1, 2, 3].into_iter().any(is_cut_off)).await;
    let leader = leader(&cluster, 1).unwrap();
    let follower = if leader == 3 { 2 } else { 3 };
    for number in [leader, follower] {
        cut_off(&cluster, number, true);
        cluster.until("the node knows that it is alone", || is_cut_off(number)).await;
        let others = || [1, 2, 3].into_iter().filter(|other| *other != number);
        cluster.until("the others do not think so", || !others().any(is_cut_off)).await;
        cut_off(&cluster, number, false);
        cluster.until("the node is back", || !is_cut_off(number)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn follower_of_a_leader_that_has_lost_its_majority_knows_that_it_is_cut_off() {
    let cluster = TestCluster::joined(4).await;
    cluster.until("three vote", || voters(&cluster, 1).len() == 3).await;
    let is_cut_off = |number: u8| cluster.control(number).is_cut_off();
    cluster.until("all reach a majority", || !(1..=4).any(is_cut_off)).await;
    let leader = leader(&cluster, 1).unwrap();
    let learner = (1..=4).find(|number| !voters(&cluster, 1).contains(number)).unwrap();
    let alone = [leader, learner];
    for from in alone {
        for to in (1..=4).filter(|number| !alone.contains(number)) {
            cluster.network.silence(&format!("n{from}"), &format!("n{to}"));
            cluster.network.silence(&format!("n{to}"), &format!("n{from}"));
        }
    }
    cluster.until("both know it", || alone.into_iter().all(is_cut_off)).await;
    // The old leader keeps sending heartbeats, and its follower hears them.
    for _ in 0..20 {
        sleep(Duration::from_millis(500)).await;
        assert!(alone.into_iter().all(is_cut_off), "a majority is out of reach");
    }
    let others = || (1..=4).filter(|number| !alone.contains(number));
    cluster.until("the others do not think so", || !others().any(is_cut_off)).await;
}

#[tokio::test(start_paused = true)]
async fn node_that_was_away_for_long_gets_a_snapshot() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until("three vote", || voters(&cluster, 1).len() == 3).await;
    cluster.crash(3);
    for number in 0..800 {
        set(&cluster, 1, number % 7 + 1).await;
    }
    cluster
        .until("the log is cut", || {
            let purged =
                |number: u8| cluster.control(number).file().purged().unwrap().unwrap().index;
            [1, 2].into_iter().all(|number| purged(number) > 300)
        })
        .await;
    cluster.start(3).await;
    cluster.until_equal().await;
    assert_eq!(n_val(&cluster, 3), 799 % 7 + 1);
}

#[tokio::test(start_paused = true)]
async fn node_that_was_away_learns_of_a_leader_that_has_joined_meanwhile() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until_equal().await;
    cluster.crash(3);
    cluster.nodes.push(Node { number: 4, disk: FaultyDisk::new(4), process: None });
    cluster.start(4).await;
    cluster.join(4, 1).await.unwrap();
    cluster.commit(1).await;
    cluster.until("the new one votes", || voters(&cluster, 1) == [1, 2, 4]).await;
    // Make the new node the leader.
    let led_by =
        |cluster: &TestCluster, number: u8| cluster.control(number).claimant() == Some(id(4));
    for _ in 0..20 {
        if led_by(&cluster, 4) {
            break;
        }
        let leader = cluster.control(4).claimant().map_or(1, |leader| leader.0[0]);
        cluster.crash(leader);
        cluster
            .until("another one leads", || {
                cluster.control(4).claimant().is_some_and(|now| now != id(leader))
            })
            .await;
        cluster.start(leader).await;
        cluster.until_equal().await;
    }
    assert!(led_by(&cluster, 4));
    assert!(cluster.state(1).members().get(id(4)).is_some());
    cluster.start(3).await;
    cluster.until("it has caught up", || cluster.state(3).members().get(id(4)).is_some()).await;
    cluster.until_equal().await;
}

#[tokio::test(start_paused = true)]
async fn node_that_was_away_is_told_the_way_to_the_only_voter_which_has_joined_meanwhile() {
    let mut cluster = TestCluster::joined(2).await;
    cluster.until_equal().await;
    cluster.crash(2);
    cluster.nodes.push(Node { number: 3, disk: FaultyDisk::new(3), process: None });
    cluster.start(3).await;
    cluster.join(3, 1).await.unwrap();
    cluster.control(1).stage(&StagedChange::Replace { old: id(1), new: id(3) }).await.unwrap();
    cluster.control(1).stage(&StagedChange::Leave { node: id(2) }).await.unwrap();
    cluster.commit(1).await;
    cluster.until("only the new one votes", || voters(&cluster, 3) == [3]).await;
    cluster.start(2).await;
    assert!(cluster.state(2).members().get(id(3)).is_none());
    cluster.until("it has caught up", || cluster.state(2).members().get(id(3)).is_some()).await;
    cluster.until_equal().await;
}

#[tokio::test(start_paused = true)]
async fn leader_whose_disk_fails_gives_way_and_comes_back() {
    let cluster = TestCluster::joined(3).await;
    cluster.until("three vote", || voters(&cluster, 1).len() == 3).await;
    cluster.until_equal().await;
    let leader = cluster.control(1).claimant().unwrap().0[0];
    let other = leader % 3 + 1;
    cluster.node(leader).disk.set_faults(|faults| faults.failing_writes = u64::MAX);
    set(&cluster, other, 1).await;
    cluster
        .until("another leads", || {
            cluster.control(other).claimant().is_some_and(|claimant| claimant.0[0] != leader)
        })
        .await;
    assert_eq!(n_val(&cluster, leader), 3, "it can't write down what changed");
    cluster.node(leader).disk.set_faults(|faults| faults.failing_writes = 0);
    cluster.until("it has caught up", || n_val(&cluster, leader) == 1).await;
    set(&cluster, leader, 2).await;
}

#[tokio::test(start_paused = true)]
async fn a_layout_stays_while_a_member_may_still_read_by_it() {
    let mut cluster = TestCluster::joined(4).await;
    cluster.nodes.push(Node { number: 5, disk: FaultyDisk::new(5), process: None });
    cluster.start(5).await;
    cluster.join(5, 1).await.unwrap();
    cluster.commit(1).await;
    let newest = cluster.state(1).layouts().newest().version();
    let all_write = || {
        let state = cluster.state(5);
        (1..=5).all(|number| state.layouts().acknowledged(id(number)) == Some(newest))
    };
    cluster.until("all write by both layouts", all_write).await;
    let missing: Vec<_> = cluster.state(5).layouts().incomplete().collect();
    assert!(missing.iter().all(|(_, node)| *node == id(5)), "nobody else gets copies");
    let late = (1..=4).find(|number| leader(&cluster, 5) != Some(*number)).unwrap();
    cut_off(&cluster, late, true);
    let partitions: Vec<_> = missing.into_iter().map(|(partition, _)| partition).collect();
    cluster.control(5).report_moved(&partitions).await.unwrap();
    let others_read = || {
        let state = cluster.state(5);
        let mut others = (1..=5).filter(|number| *number != late);
        others.all(|number| state.layouts().served(id(number)).unwrap().reads == newest)
    };
    cluster.until("the others read by the new one", others_read).await;
    sleep(Duration::from_secs(5)).await;
    assert!(cluster.state(late).layouts().oldest_read() < newest, "it has not heard of it");
    let state = cluster.state(5);
    assert!(state.layouts().is_moving(), "writes go by both as long");
    let behind: Vec<_> = (1..=5).filter(|number| state.is_behind(id(*number))).collect();
    assert_eq!(behind, [late], "who asks is told whose reads are waited for");
    cut_off(&cluster, late, false);
    let is_over = || cluster.running().all(|number| !cluster.state(number).layouts().is_moving());
    cluster.until("the old layout retires", is_over).await;
}
