use super::*;
use crate::error::{QuorumKind, RequestError};
use crate::votes::read::ReadState;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn voters(
    order: &[NodeIndex],
    n_val: u32,
    sloppy: bool,
    down: &[NodeIndex],
) -> Vec<(u16, u32, u32)> {
    Voters::assign(order.iter().copied(), n_val, sloppy, |node| !down.contains(&node))
        .iter()
        .map(|voter| (voter.node, voter.primary, voter.fallback_votes))
        .collect()
}

#[test]
fn a_lone_node_has_all_votes() {
    assert_eq!(voters(&[7], 3, true, &[]), [(7, 3, 0)]);
    assert_eq!(voters(&[7, 4], 3, true, &[]), [(7, 2, 0), (4, 1, 0)]);
}

#[test]
fn fallbacks_take_one_vote_each_and_the_rest_is_shared() {
    assert_eq!(voters(&[1, 2, 3, 4, 5], 3, true, &[2]), [(1, 1, 0), (3, 1, 0), (4, 0, 1)]);
    assert_eq!(voters(&[1, 2, 3], 3, true, &[1, 2]), [(3, 1, 2)]);
    assert_eq!(voters(&[1, 2, 3, 4], 3, true, &[1, 2, 3]), [(4, 0, 3)]);
    assert_eq!(voters(&[1, 2, 3], 3, true, &[1, 2, 3]), []);
    assert_eq!(voters(&[], 3, true, &[]), []);
}

#[test]
fn strict_quorums_have_primaries_only() {
    assert_eq!(voters(&[1, 2, 3, 4, 5], 3, false, &[2]), [(1, 1, 0), (3, 1, 0)]);
}

/// Model of the rules, position by position: the primary votes and the votes of a sloppy quorum.
fn model(order: &[NodeIndex], n_val: u32, down: &BTreeSet<NodeIndex>) -> (u32, u32) {
    let k = order.len().min(n_val as usize);
    let up = (0..n_val as usize).filter(|place| !down.contains(&order[place % k])).count();
    let anybody = order.iter().any(|node| !down.contains(node));
    (up as u32, if anybody { n_val } else { 0 })
}

proptest! {
    #[test]
    fn every_position_has_one_vote_while_anybody_is_up(
        node_count in 1u16..9,
        n_val in 1u32..9,
        down in proptest::collection::btree_set(0u16..9, 0..9),
    ) {
        let order: Vec<NodeIndex> = (0..node_count).rev().collect();
        let assigned = Voters::assign(order.iter().copied(), n_val, true, |node| !down.contains(&node));
        let (up, votes) = model(&order, n_val, &down);
        prop_assert_eq!(assigned.primary_votes(), up);
        prop_assert_eq!(assigned.votes(), votes);
        let nodes: BTreeSet<_> = assigned.iter().map(|voter| voter.node).collect();
        prop_assert_eq!(nodes.len() as u32, assigned.node_count());
        prop_assert!(nodes.is_disjoint(&down));
        let strict = Voters::assign(order.iter().copied(), n_val, false, |node| !down.contains(&node));
        prop_assert_eq!((strict.primary_votes(), strict.votes()), (up, up));
    }
}

const WRITE: WriteNeed = WriteNeed { w: 2, dw: 1, pw: 0, node_confirms: 0 };

fn assigned(down: &[NodeIndex]) -> Voters {
    Voters::assign([1, 2, 3, 4].into_iter(), 3, true, |node| !down.contains(&node))
}

#[test]
fn a_write_is_met_when_each_quorum_is() {
    let layouts = [assigned(&[])];
    let mut tally = WriteTally::new(WRITE);
    tally.accept(1);
    assert!(!tally.is_met(&layouts));
    tally.accept(2);
    assert!(!tally.is_met(&layouts), "nothing is synced");
    tally.sync(2);
    assert!(tally.is_met(&layouts));
}

#[test]
fn a_stand_in_takes_a_write_and_is_no_primary_that_has_it() {
    let layouts = [assigned(&[1])];
    let mut tally = WriteTally::new(WriteNeed { w: 2, dw: 2, pw: 2, node_confirms: 1 });
    tally.sync(2);
    tally.sync(4);
    assert!(matches!(
        tally.missing(&layouts),
        Err(RequestError::Unsatisfied { kind: QuorumKind::Pw, wanted: 2, got: 1 })
    ));
    tally.sync(3);
    assert!(tally.is_met(&layouts));
}

#[test]
fn a_write_has_to_be_met_in_every_layout() {
    let old = Voters::assign([1, 2, 3].into_iter(), 3, true, |_| true);
    let new = Voters::assign([1, 5, 6].into_iter(), 3, true, |_| true);
    let layouts = [old, new];
    let mut tally = WriteTally::new(WriteNeed { dw: 0, ..WRITE });
    tally.accept(1);
    tally.accept(2);
    let missing = tally.missing(&layouts);
    assert!(matches!(
        missing,
        Err(RequestError::Unsatisfied { kind: QuorumKind::W, wanted: 2, got: 1 })
    ));
    tally.accept(6);
    assert!(tally.is_met(&layouts));
}

#[test]
fn a_stand_in_is_no_primary() {
    let layouts = [assigned(&[1, 2])];
    let need = WriteNeed { pw: 2, ..WRITE };
    assert!(matches!(
        WriteTally::check(&need, &layouts),
        Err(RequestError::Unsatisfied { kind: QuorumKind::Pw, wanted: 2, got: 1 })
    ));
    let strict = [Voters::assign([1, 2, 3, 4].into_iter(), 3, false, |node| node == 3)];
    assert!(matches!(
        WriteTally::check(&WRITE, &strict),
        Err(RequestError::InsufficientVnodes { have: 1, wanted: 2 })
    ));
}

#[test]
fn one_node_with_all_votes_is_one_node() {
    let layouts = [Voters::assign([9].into_iter(), 3, true, |_| true)];
    let mut tally = WriteTally::new(WriteNeed { w: 3, dw: 3, pw: 3, node_confirms: 1 });
    tally.sync(9);
    assert!(tally.is_met(&layouts));
    let mut tally = WriteTally::new(WriteNeed { node_confirms: 2, ..WRITE });
    tally.sync(9);
    assert!(matches!(
        tally.missing(&layouts),
        Err(RequestError::Unsatisfied { kind: QuorumKind::NodeConfirms, wanted: 2, got: 1 })
    ));
}

const READ: ReadNeed = ReadNeed {
    n_val: 3,
    filled_n_val: 3,
    r: 2,
    pr: 0,
    node_confirms: 0,
    notfound_ok: true,
    basic_quorum: false,
};

#[test]
fn not_found_counts_where_it_is_ok() {
    let voters = assigned(&[]);
    let mut tally = ReadTally::new(READ);
    tally.missing(1);
    assert_eq!(tally.state(&voters), ReadState::Open);
    tally.missing(1);
    assert_eq!(tally.state(&voters), ReadState::Open, "one node answers once");
    tally.found(2);
    assert_eq!(tally.state(&voters), ReadState::Met);
}

#[test]
fn a_stand_in_counts_when_no_primary_is_left_to_ask() {
    let voters = assigned(&[1]);
    let mut tally = ReadTally::new(READ);
    tally.missing(4);
    tally.found(2);
    assert_eq!(tally.state(&voters), ReadState::Open, "the other primary may know better");
    tally.found(3);
    assert_eq!(tally.state(&voters), ReadState::Met);
    let voters = assigned(&[1, 2]);
    let mut tally = ReadTally::new(READ);
    tally.missing(4);
    assert_eq!(tally.state(&voters), ReadState::Open);
    tally.found(3);
    assert_eq!(tally.state(&voters), ReadState::Met);
}

#[test]
fn not_found_is_no_answer_where_it_is_not_ok() {
    let voters = assigned(&[]);
    let need = ReadNeed { notfound_ok: false, ..READ };
    let mut tally = ReadTally::new(need);
    tally.missing(1);
    tally.missing(2);
    assert_eq!(tally.state(&voters), ReadState::Open);
    tally.missing(3);
    assert_eq!(tally.state(&voters), ReadState::Open);
    assert!(matches!(tally.give_up(&voters), Ok(ReadState::NotFound)));
    let mut basic = ReadTally::new(ReadNeed { basic_quorum: true, ..need });
    basic.missing(1);
    assert_eq!(basic.state(&voters), ReadState::Open, "one of three is no majority");
    basic.missing(2);
    assert_eq!(basic.state(&voters), ReadState::NotFound);
}

#[test]
fn not_found_is_no_result_while_the_silent_nodes_could_make_up_a_quorum() {
    let voters = assigned(&[]);
    let mut tally = ReadTally::new(ReadNeed { notfound_ok: false, ..READ });
    tally.missing(1);
    assert!(matches!(
        tally.give_up(&voters),
        Err(RequestError::Unsatisfied { kind: QuorumKind::R, wanted: 2, got: 0 })
    ));
    tally.missing(2);
    assert!(matches!(tally.give_up(&voters), Ok(ReadState::NotFound)));
}

#[test]
fn a_read_that_wants_several_nodes_is_not_met_by_the_votes_of_one() {
    let voters = Voters::assign([1, 2].into_iter(), 3, true, |_| true);
    let mut tally = ReadTally::new(ReadNeed { node_confirms: 2, ..READ });
    tally.found(1);
    assert_eq!(tally.state(&voters), ReadState::Open, "two votes of one node");
    assert!(matches!(
        tally.give_up(&voters),
        Err(RequestError::InsufficientNodes { have: 1, wanted: 2 })
    ));
    tally.found(2);
    assert_eq!(tally.state(&voters), ReadState::Met);
}

#[test]
fn a_read_that_wants_no_votes_takes_the_first_answer() {
    let voters = assigned(&[]);
    let none = ReadTally::new(ReadNeed { r: 0, ..READ });
    assert_eq!(none.state(&voters), ReadState::Open, "no replica was asked");
    assert!(matches!(
        none.give_up(&voters),
        Err(RequestError::Unsatisfied { kind: QuorumKind::R, wanted: 1, got: 0 })
    ));
    let mut found = none.clone();
    found.found(2);
    assert_eq!(found.state(&voters), ReadState::Met);
    let mut missing = ReadTally::new(ReadNeed { r: 0, notfound_ok: false, ..READ });
    missing.missing(3);
    assert_eq!(missing.state(&voters), ReadState::Met);
}

#[test]
fn a_read_that_lacks_answers_names_the_quorum() {
    let voters = assigned(&[]);
    let mut tally = ReadTally::new(ReadNeed { pr: 2, ..READ });
    tally.found(1);
    assert!(matches!(
        tally.give_up(&voters),
        Err(RequestError::Unsatisfied { kind: QuorumKind::R, wanted: 2, got: 1 })
    ));
    tally.found(4);
    assert!(matches!(
        ReadTally::check(&ReadNeed { pr: 3, ..READ }, &assigned(&[2])),
        Err(RequestError::Unsatisfied { kind: QuorumKind::Pr, wanted: 3, got: 2 })
    ));
}
