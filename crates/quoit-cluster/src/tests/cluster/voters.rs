//! Changes of the voters while nodes die and leave.

use super::*;
use crate::control::file::ControlFile;
use crate::control::types::{Entry, LogId, Membership, RaftId};
use crate::tests::{untyped, updates};
use crate::{MemberStatus, StagedChange};
use openraft::{EntryPayload, LogIdOptionExt as _};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

async fn set(cluster: &TestCluster, number: u8, n_val: u32) {
    let change = updates(json!({"n_val": n_val}));
    cluster.control(number).set_bucket_props(untyped("b"), &change).await.unwrap();
}

fn voters(cluster: &TestCluster, number: u8) -> Vec<u8> {
    let (voters, _) = cluster.control(number).voters_and_starts().unwrap();
    voters.nodes.iter().map(|voter| voter.0[0]).collect()
}

/// Returns three stopped voters. Node 1 had begun to make node 2 the only voter. All of them have the
/// joint entry. Only the nodes that lose their vote, 1 and 3, have the final one.
async fn stopped_between_two_electorates() -> TestCluster {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until("three vote", || voters(&cluster, 1) == [1, 2, 3]).await;
    set(&cluster, 1, 2).await;
    cluster.until_equal().await;
    for number in 1..=3 {
        cluster.crash(number);
    }
    let raft_ids = |numbers: &[u8]| -> BTreeSet<RaftId> {
        numbers.iter().map(|number| RaftId(id(*number))).collect()
    };
    let nodes: BTreeMap<RaftId, ()> = raft_ids(&[1, 2, 3]).into_iter().map(|id| (id, ())).collect();
    for number in 1..=3 {
        let file = ControlFile::open_existing(Arc::new(cluster.node(number).disk.clone())).unwrap();
        let last = file.last_log_entry().unwrap().expect("entries are kept").log_id;
        let entry = |offset, voters| {
            let log_id = LogId::new(last.leader_id, Some(last).next_index() + offset);
            let electorate = Membership::new(voters, nodes.clone());
            Entry { log_id, payload: EntryPayload::Membership(electorate) }
        };
        let (old, new) = (raft_ids(&[1, 2, 3]), raft_ids(&[2]));
        let mut entries = vec![entry(0, vec![old, new.clone()])];
        if number != 2 {
            entries.push(entry(1, vec![new]));
        }
        file.append(&entries).unwrap();
    }
    cluster
}

#[tokio::test(start_paused = true)]
async fn new_voter_leads_though_only_nodes_without_a_vote_have_the_entry_that_says_so() {
    for helper in [1, 3] {
        let mut cluster = stopped_between_two_electorates().await;
        cluster.start(2).await;
        cluster.start(helper).await;
        let claimant = || cluster.control(2).claimant();
        cluster.until("the only one that may leads", || claimant() == Some(id(2))).await;
        set(&cluster, helper, 4).await;
        cluster.until_equal().await;
    }
}

#[tokio::test(start_paused = true)]
async fn leaver_keeps_its_vote_until_it_goes_when_fewer_would_vote_without_it() {
    let cluster = TestCluster::joined(3).await;
    cluster.until("three vote", || voters(&cluster, 1) == [1, 2, 3]).await;
    let leader = cluster.control(1).claimant().unwrap();
    cluster.control(2).stage(&StagedChange::Leave { node: leader }).await.unwrap();
    cluster.commit(2).await;
    cluster.until_equal().await;
    sleep(Duration::from_secs(40)).await;
    let stays = leader.0[0] % 3 + 1;
    let status = cluster.state(stays).members().get(leader).unwrap().status;
    assert_eq!((status, voters(&cluster, stays)), (MemberStatus::Leaving, vec![1, 2, 3]));
    let mut departure = cluster.control(leader.0[0]).departure();
    cluster.move_all().await;
    departure.wait_for(Option::is_some).await.unwrap();
    assert_eq!(voters(&cluster, leader.0[0]).len(), 1, "its vote goes before it does");
    assert!(!voters(&cluster, leader.0[0]).contains(&leader.0[0]));
}

#[tokio::test(start_paused = true)]
async fn leaver_goes_when_those_that_stay_can_agree_without_it() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.until("three vote", || voters(&cluster, 1) == [1, 2, 3]).await;
    let leader = cluster.control(1).claimant().unwrap().0[0];
    let (leaver, lost) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    cluster.control(leader).stage(&StagedChange::Leave { node: id(leaver) }).await.unwrap();
    cluster.commit(leader).await;
    cluster.until_equal().await;
    cluster.report_copies(lost).await;
    cluster.until_equal().await;
    cluster.crash(lost);
    cluster.until("it is taken for dead", || !cluster.control(leader).is_reachable(id(lost))).await;
    cluster.control(leader).mark_down(id(lost)).await.unwrap();
    let mut departure = cluster.control(leaver).departure();
    cluster.report_copies(leader).await;
    departure.wait_for(Option::is_some).await.unwrap();
    cluster.crash(leaver);
    set(&cluster, leader, 1).await;
    assert_eq!(voters(&cluster, leader), [leader]);
}
