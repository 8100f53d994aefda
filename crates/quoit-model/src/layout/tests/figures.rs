//! Movement, shares, warnings and errors of single changes.

use super::{first, located, members, node, ring};
use crate::layout::{
    Layout, LayoutError, LayoutMember, LayoutRequest, LayoutRules, LayoutWarning, Movement,
    Replacement,
};

#[test]
fn a_second_node_gets_every_partition_and_the_first_gives_none_up() {
    let one = first(&members(0..1), ring(64));
    let two = Layout::compute(&LayoutRequest::after(&one, &members(0..2))).unwrap();
    let movement = Movement::between(&one, &two, 3);
    assert_eq!((movement.transfers.len(), movement.lower_bound), (64, 64));
    assert_eq!(movement.by_pair(), [((node(0), node(1)), 64)].into());
    assert_eq!(movement.partition_count(), 64);
    assert_eq!(two.version(), 2);
}

#[test]
fn a_joining_node_gets_its_part_from_all_others_alike() {
    let before = first(&members(0..4), ring(64));
    let after = Layout::compute(&LayoutRequest::after(&before, &members(0..5))).unwrap();
    let pairs = Movement::between(&before, &after, 4).by_pair();
    assert_eq!(pairs.values().sum::<u32>(), 51);
    assert!(pairs.iter().all(|((_, to), count)| *to == node(4) && (12..=13).contains(count)));
}

#[test]
fn a_replacement_takes_all_positions_of_the_old_node_and_nothing_else_moves() {
    let before = first(&members(0..6), ring(64));
    let replacements = [Replacement { old: node(2), new: node(9) }];
    let members = members([0, 1, 9, 3, 4, 5]);
    let after =
        LayoutRequest { replacements: &replacements, ..LayoutRequest::after(&before, &members) };
    let after = Layout::compute(&after).unwrap();
    for n_val in 1..=4 {
        let pairs = Movement::between(&before, &after, n_val).by_pair();
        assert_eq!(pairs.into_keys().collect::<Vec<_>>(), [(node(2), node(9))]);
    }
}

#[test]
fn nothing_moves_when_a_cluster_of_few_nodes_loses_one() {
    let before = first(&members(0..3), ring(64));
    let after = Layout::compute(&LayoutRequest::after(&before, &members(0..2))).unwrap();
    let movement = Movement::between(&before, &after, 3);
    assert_eq!((movement.transfers.len(), movement.lower_bound), (0, 0));
}

#[test]
fn a_node_of_twice_the_capacity_gets_twice_the_share() {
    let mut members = members(0..9);
    members[0].capacity = 200;
    let layout = first(&members, ring(64));
    for share in layout.shares() {
        // 20 and 10 percent of 256 positions.
        let fair = if share.node == node(0) { 51..=52 } else { 25..=26 };
        assert!(fair.contains(&share.partition_count), "{share:?}");
    }
}

#[test]
fn too_few_nodes_are_warned_of() {
    let layout = first(&members(0..3), ring(64));
    let warning = LayoutWarning::NotOnDistinctNodes { node_count: 3, target_n_val: 4 };
    assert_eq!(layout.warnings(), [warning]);
    assert_eq!(first(&members(0..4), ring(64)).warnings(), []);
}

#[test]
fn too_few_locations_are_warned_of_when_there_are_any() {
    let rack = |number: u32, count| located(number, &format!("rack {}", number % count));
    let two: Vec<LayoutMember> = (0..6).map(|number| rack(number, 2)).collect();
    let warning = LayoutWarning::NotOnDistinctLocations {
        location_count: 2,
        partition_count: 64,
        target_location_n_val: 3,
    };
    assert_eq!(first(&two, ring(64)).warnings(), [warning]);
    let three: Vec<LayoutMember> = (0..6).map(|number| rack(number, 3)).collect();
    assert_eq!(first(&three, ring(64)).warnings(), []);
}

#[test]
fn what_can_not_be_is_refused() {
    let layout = first(&members(0..3), ring(64));
    let refused = |request: LayoutRequest<'_>| Layout::compute(&request).unwrap_err();
    let all = members(0..3);
    let base = LayoutRequest::after(&layout, &all);

    let none = LayoutRequest { members: &[], ..base };
    assert_eq!(refused(none), LayoutError::NodeCount { count: 0 });
    let many = members(0..1025);
    let many = LayoutRequest { members: &many, ..base };
    assert_eq!(refused(many), LayoutError::NodeCount { count: 1025 });
    let twice = members([0, 1, 0]);
    let twice = LayoutRequest { members: &twice, ..base };
    assert_eq!(refused(twice), LayoutError::SameNode { node: node(0) });
    for capacity in [0, 1_000_001] {
        let odd = [LayoutMember { capacity, ..LayoutMember::new(node(0)) }];
        let odd = LayoutRequest { members: &odd, ..base };
        assert_eq!(refused(odd), LayoutError::Capacity { node: node(0), capacity });
    }
    let long = [located(0, &"x".repeat(256))];
    let long = LayoutRequest { members: &long, ..base };
    assert_eq!(refused(long), LayoutError::Location { node: node(0), size_bytes: 256 });
    for (target, locations) in [(0, 3), (17, 3), (4, 0)] {
        let rules = LayoutRules { target_n_val: target, target_location_n_val: locations };
        let error = refused(LayoutRequest { rules, ..base });
        assert_eq!(error, LayoutError::Rules { target, locations });
    }
    let other = LayoutRequest { ring_size: ring(128), ..base };
    assert_eq!(refused(other), LayoutError::RingSize { has: 64, wanted: 128 });
}

#[test]
fn replacements_that_can_not_be_are_refused() {
    let layout = first(&members(0..3), ring(64));
    let refused = |numbers: &[u32], pairs: &[(u32, u32)]| {
        let pairs: Vec<Replacement> = pairs
            .iter()
            .map(|(old, new)| Replacement { old: node(*old), new: node(*new) })
            .collect();
        let members = members(numbers.iter().copied());
        let request =
            LayoutRequest { replacements: &pairs, ..LayoutRequest::after(&layout, &members) };
        Layout::compute(&request).unwrap_err().to_string()
    };
    let check = |text: String, words: &str| assert!(text.contains(words), "{text}");
    check(refused(&[0, 1, 9], &[(5, 9)]), "holds no partitions");
    check(refused(&[0, 1, 2, 9], &[(2, 9)]), "is to stay a member");
    check(refused(&[0, 1], &[(2, 1)]), "holds partitions of its own");
    check(refused(&[0, 1], &[(2, 9)]), "is to be no member");
    check(refused(&[0, 8, 9], &[(2, 8), (2, 9)]), "replaced twice");
    check(refused(&[0, 9], &[(1, 9), (2, 9)]), "replaces two nodes");
}
