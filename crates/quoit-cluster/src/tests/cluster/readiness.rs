//! Nodes that should be part of a cluster, and are alone.

use super::*;
use crate::{Readiness, StagedChange};
use tokio::sync::watch;

type Watched = watch::Receiver<Readiness>;

fn watched(town: &Town, number: u8, seeds: &[u8]) -> Watched {
    let seeds = seeds.iter().map(|number| address(*number).into());
    town.control(number).readiness(seeds.collect())
}

/// Why a node does not serve; empty when it does.
fn reason(watched: &Watched) -> String {
    match &*watched.borrow() {
        Readiness::Serves => String::new(),
        Readiness::Undecided(reason) | Readiness::Waits(reason) => reason.to_string(),
    }
}

async fn until_says(town: &Town, watched: &Watched, words: &str) {
    town.until(words, || reason(watched).contains(words)).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_with_seeds_serves_when_it_has_joined_and_one_without_at_once() {
    let town = Town::alone(3).await;
    let without = watched(&town, 1, &[]);
    // The same seeds on all nodes: the node's own address is among them.
    let (one, two) = (watched(&town, 2, &[2, 3, 9]), watched(&town, 3, &[2, 3, 9]));
    assert_eq!(reason(&without), "");
    assert!(!reason(&one).is_empty(), "before anybody is asked");
    until_says(&town, &one, "n3:1 is up: let this node join").await;
    sleep(PATIENCE).await;
    assert!(!reason(&one).is_empty() && !reason(&two).is_empty());
    town.join(3, 2).await.unwrap();
    for node in [&one, &two] {
        town.until("it serves", || reason(node).is_empty()).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_member_that_lost_its_disk_waits_and_says_how_to_replace_its_old_self() {
    let mut town = Town::joined(3).await;
    let healthy = watched(&town, 3, &[1, 2]);
    town.until("it serves", || reason(&healthy).is_empty()).await;
    town.crash(3);
    town.start(3).await;
    let restarted = watched(&town, 3, &[1, 2]);
    town.until("it serves, for its disk is there", || reason(&restarted).is_empty()).await;
    town.crash(3);
    town.nodes[2].disk = FaultyDisk::new(33);
    town.start_as(3, Settings { new_node_id: id(33), ..settings() }).await;
    let wiped = watched(&town, 3, &[1, 2]);
    until_says(&town, &wiped, "`cluster force-replace n3@test NEW-NAME`").await;
    assert!(reason(&wiped).contains("has a member n3@test with another identity (0303"));
    // The others are told so, too.
    let internode = town.control(1).link().internode().unwrap();
    let peer = internode.peer(id(3)).unwrap();
    let told = || peer.trouble().is_some_and(|words| words.contains("lost its data directory"));
    town.until("the others say so", told).await;
    assert!(!town.control(1).is_reachable(id(3)));
    let refused = town.join(3, 1).await.unwrap_err().to_string();
    assert!(refused.contains("start this one with another --name"), "{refused}");
    assert!(!reason(&wiped).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_member_with_a_directory_from_before_it_joined_waits() {
    let mut town = Town::alone(2).await;
    town.crash(2);
    let before = town.node(2).disk.bytes("control.redb").unwrap();
    town.start(2).await;
    town.join(2, 1).await.unwrap();
    town.commit(1).await;
    town.move_all().await;
    town.crash(2);
    town.nodes[1].disk.put("control.redb", before);
    town.start(2).await;
    let restored = watched(&town, 2, &[1]);
    until_says(&town, &restored, "a copy from before it joined").await;
    assert_eq!(town.state(2).members().count(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_last_member_of_a_cluster_serves_on() {
    let mut town = Town::joined(2).await;
    let two = watched(&town, 2, &[1]);
    town.control(2).stage(&StagedChange::Leave { node: id(1) }).await.unwrap();
    town.commit(2).await;
    town.move_all().await;
    town.until("the founder is gone", || town.state(2).members().count() == 1).await;
    sleep(PATIENCE).await;
    assert_eq!(reason(&two), "");
    town.crash(1);
    town.crash(2);
    town.start(2).await;
    assert_eq!(reason(&watched(&town, 2, &[1])), "");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_seeds_are_silent_names_them() {
    let town = Town::alone(1).await;
    let one = watched(&town, 1, &[7, 8]);
    until_says(&town, &one, "no seed answers: n7:1").await;
    assert!(reason(&one).contains("n8:1") && reason(&one).contains("cluster.seeds"));
}

#[tokio::test(start_paused = true)]
async fn a_member_waits_for_another_ones_time_and_not_for_ever() {
    let mut town = Town::joined(3).await;
    town.until_equal().await;
    for number in 1..=3 {
        town.crash(number);
    }
    town.start(1).await;
    let start = Instant::now();
    let one = watched(&town, 1, &[]);
    assert!(reason(&one).contains("waits a moment for the time"));
    town.until("it serves alone", || reason(&one).is_empty()).await;
    assert!(start.elapsed() >= Duration::from_secs(5));
    town.crash(1);
    town.start(2).await;
    town.start(3).await;
    let start = Instant::now();
    let two = watched(&town, 2, &[]);
    town.until("it serves", || reason(&two).is_empty()).await;
    assert!(start.elapsed() < Duration::from_secs(5));
}

#[tokio::test(start_paused = true)]
async fn the_time_of_a_node_outlives_it() {
    let mut town = Town::alone(1).await;
    let file = |town: &Town| town.control(1).file().time_us().unwrap();
    assert_eq!(file(&town), None);
    town.control(1).file().note_time(77).unwrap();
    town.crash(1);
    town.start(1).await;
    assert_eq!(file(&town), Some(77));
}
