//! Voters that change while nodes die and leave.

use super::*;
use crate::control::file::ControlFile;
use crate::control::types::{Entry, LogId, Membership, RaftId};
use crate::tests::{untyped, updates};
use crate::{MemberStatus, StagedChange};
use openraft::{EntryPayload, LogIdOptionExt as _};
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};

async fn set(town: &Town, number: u8, n_val: u32) {
    let change = updates(json!({"n_val": n_val}));
    town.control(number).set_bucket_props(untyped("b"), &change).await.unwrap();
}

fn voters(town: &Town, number: u8) -> Vec<u8> {
    let (voters, _) = town.control(number).voters_and_starts().unwrap();
    voters.nodes.iter().map(|voter| voter.0[0]).collect()
}

/// Three voters, stopped when node 1 has begun to make node 2 the only voter. All have the joint entry; the
/// final one is only where it takes the vote, at nodes 1 and 3.
async fn stopped_between_two_electorates() -> Town {
    let mut town = Town::joined(3).await;
    town.until("three vote", || voters(&town, 1) == [1, 2, 3]).await;
    set(&town, 1, 2).await;
    town.until_equal().await;
    for number in 1..=3 {
        town.crash(number);
    }
    let raft_ids = |numbers: &[u8]| -> BTreeSet<RaftId> {
        numbers.iter().map(|number| RaftId(id(*number))).collect()
    };
    let nodes: BTreeMap<RaftId, ()> = raft_ids(&[1, 2, 3]).into_iter().map(|id| (id, ())).collect();
    for number in 1..=3 {
        let file = ControlFile::open_existing(Arc::new(town.node(number).disk.clone())).unwrap();
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
    town
}

#[tokio::test(start_paused = true)]
async fn new_voter_leads_though_only_nodes_without_a_vote_have_the_entry_that_says_so() {
    for helper in [1, 3] {
        let mut town = stopped_between_two_electorates().await;
        town.start(2).await;
        town.start(helper).await;
        let claimant = || town.control(2).claimant();
        town.until("the only one that may leads", || claimant() == Some(id(2))).await;
        set(&town, helper, 4).await;
        town.until_equal().await;
    }
}

#[tokio::test(start_paused = true)]
async fn leaver_keeps_its_vote_until_it_goes_when_fewer_would_vote_without_it() {
    let town = Town::joined(3).await;
    town.until("three vote", || voters(&town, 1) == [1, 2, 3]).await;
    let leader = town.control(1).claimant().unwrap();
    town.control(2).stage(&StagedChange::Leave { node: leader }).await.unwrap();
    town.commit(2).await;
    town.until_equal().await;
    sleep(Duration::from_secs(40)).await;
    let stays = leader.0[0] % 3 + 1;
    let status = town.state(stays).members().get(leader).unwrap().status;
    assert_eq!((status, voters(&town, stays)), (MemberStatus::Leaving, vec![1, 2, 3]));
    let mut departure = town.control(leader.0[0]).departure();
    town.move_all().await;
    departure.wait_for(Option::is_some).await.unwrap();
    assert_eq!(voters(&town, leader.0[0]).len(), 1, "its vote goes before it does");
    assert!(!voters(&town, leader.0[0]).contains(&leader.0[0]));
}

#[tokio::test(start_paused = true)]
async fn leaver_goes_when_those_that_stay_can_agree_without_it() {
    let mut town = Town::joined(3).await;
    town.until("three vote", || voters(&town, 1) == [1, 2, 3]).await;
    let leader = town.control(1).claimant().unwrap().0[0];
    let (leaver, lost) = (leader % 3 + 1, (leader + 1) % 3 + 1);
    town.control(leader).stage(&StagedChange::Leave { node: id(leaver) }).await.unwrap();
    town.commit(leader).await;
    town.until_equal().await;
    town.report_copies(lost).await;
    town.until_equal().await;
    town.crash(lost);
    town.until("it is taken for dead", || !town.control(leader).is_reachable(id(lost))).await;
    town.control(leader).mark_down(id(lost)).await.unwrap();
    let mut departure = town.control(leaver).departure();
    town.report_copies(leader).await;
    departure.wait_for(Option::is_some).await.unwrap();
    town.crash(leaver);
    set(&town, leader, 1).await;
    assert_eq!(voters(&town, leader), [leader]);
}
