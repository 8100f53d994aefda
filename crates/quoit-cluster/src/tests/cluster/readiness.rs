//! Nodes that should be part of a cluster but are alone.

use super::*;
use crate::{Readiness, StagedChange};
use tokio::sync::watch;

type Watched = watch::Receiver<Readiness>;

fn watched(cluster: &TestCluster, number: u8, seeds: &[u8]) -> Watched {
    let seeds = seeds.iter().map(|number| address(*number).into());
    cluster.control(number).readiness(seeds.collect())
}

/// Returns the reason why a node does not serve; empty if it serves.
fn reason(watched: &Watched) -> String {
    match &*watched.borrow() {
        Readiness::Serves => String::new(),
        Readiness::Undecided(reason) | Readiness::Waits(reason) => reason.to_string(),
    }
}

async fn until_says(cluster: &TestCluster, watched: &Watched, words: &str) {
    cluster.until(words, || reason(watched).contains(words)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_seeds_serves_when_it_has_joined_and_one_without_at_once() {
    let cluster = TestCluster::alone(3).await;
    let without = watched(&cluster, 1, &[]);
    // All nodes have the same seeds, so a node's own address is among them.
    let (one, two) = (watched(&cluster, 2, &[2, 3, 9]), watched(&cluster, 3, &[2, 3, 9]));
    assert_eq!(reason(&without), "");
    assert!(!reason(&one).is_empty(), "before anybody is asked");
    until_says(&cluster, &one, "n3:1 is up: let this node join").await;
    sleep(PATIENCE).await;
    assert!(!reason(&one).is_empty() && !reason(&two).is_empty());
    cluster.join(3, 2).await.unwrap();
    for node in [&one, &two] {
        cluster.until("it serves", || reason(node).is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_lost_its_disk_waits_and_says_how_to_replace_its_old_self() {
    let mut cluster = TestCluster::joined(3).await;
    let healthy = watched(&cluster, 3, &[1, 2]);
    cluster.until("it serves", || reason(&healthy).is_empty()).await;
    cluster.crash(3);
    cluster.start(3).await;
    let restarted = watched(&cluster, 3, &[1, 2]);
    cluster.until("it serves, for its disk is there", || reason(&restarted).is_empty()).await;
    cluster.crash(3);
    cluster.nodes[2].disk = FaultyDisk::new(33);
    cluster.start_as(3, Settings { new_node_id: id(33), ..settings() }).await;
    let wiped = watched(&cluster, 3, &[1, 2]);
    until_says(&cluster, &wiped, "`cluster force-replace n3@test NEW-NAME`").await;
    assert!(reason(&wiped).contains("has a member n3@test with another identity (0303"));
    // The other nodes report the same reason.
    let internode = cluster.control(1).link().internode().unwrap();
    let peer = internode.peer(id(3)).unwrap();
    let told =
        || peer.connection_problem().is_some_and(|words| words.contains("lost its data directory"));
    cluster.until("the others say so", told).await;
    assert!(!cluster.control(1).is_reachable(id(3)));
    let refused = cluster.join(3, 1).await.unwrap_err().to_string();
    assert!(refused.contains("start this one with another --name"), "{refused}");
    assert!(!reason(&wiped).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_member_with_a_directory_from_before_it_joined_waits() {
    let mut cluster = TestCluster::alone(2).await;
    cluster.crash(2);
    let before = cluster.node(2).disk.bytes("control.redb").unwrap();
    cluster.start(2).await;
    cluster.join(2, 1).await.unwrap();
    cluster.commit(1).await;
    cluster.move_all().await;
    cluster.crash(2);
    cluster.nodes[1].disk.put("control.redb", before);
    cluster.start(2).await;
    let restored = watched(&cluster, 2, &[1]);
    until_says(&cluster, &restored, "a copy from before it joined").await;
    assert_eq!(cluster.state(2).members().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_member_of_a_cluster_serves_on() {
    let mut cluster = TestCluster::joined(2).await;
    let two = watched(&cluster, 2, &[1]);
    cluster.control(2).stage(&StagedChange::Leave { node: id(1) }).await.unwrap();
    cluster.commit(2).await;
    cluster.move_all().await;
    cluster.until("the founder is gone", || cluster.state(2).members().count() == 1).await;
    sleep(PATIENCE).await;
    assert_eq!(reason(&two), "");
    cluster.crash(1);
    cluster.crash(2);
    cluster.start(2).await;
    assert_eq!(reason(&watched(&cluster, 2, &[1])), "");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_seeds_are_silent_names_them() {
    let cluster = TestCluster::alone(1).await;
    let one = watched(&cluster, 1, &[7, 8]);
    until_says(&cluster, &one, "no seed answers: n7:1").await;
    assert!(reason(&one).contains("n8:1") && reason(&one).contains("cluster.seeds"));
}

#[tokio::test(start_paused = true)]
async fn a_member_waits_for_another_ones_time_and_not_for_ever() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until_equal().await;
    for number in 1..=3 {
        cluster.crash(number);
    }
    cluster.start(1).await;
    let start = Instant::now();
    let one = watched(&cluster, 1, &[]);
    assert!(reason(&one).contains("waits a moment for the time"));
    cluster.until("it serves alone", || reason(&one).is_empty()).await;
    assert!(start.elapsed() >= Duration::from_secs(5));
    cluster.crash(1);
    cluster.start(2).await;
    cluster.start(3).await;
    let start = Instant::now();
    let two = watched(&cluster, 2, &[]);
    cluster.until("it serves", || reason(&two).is_empty()).await;
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_node_outlives_it() {
    let mut cluster = TestCluster::alone(1).await;
    let file = |cluster: &TestCluster| cluster.control(1).file().time_us().unwrap();
    assert_eq!(file(&cluster), None);
    cluster.control(1).file().note_time(77).unwrap();
    cluster.crash(1);
    cluster.start(1).await;
    assert_eq!(file(&cluster), Some(77));
}
