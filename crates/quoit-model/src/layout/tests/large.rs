//! Clusters of the maximum size.

use super::histories::{check_places, check_shares};
use super::{first, located, members, ring};
use crate::layout::{Layout, LayoutMember, LayoutRequest, Movement};

/// Computes and checks the next layout. Its movement is at most 1.1 times the lower bound.
fn step(layout: &Layout, members: &[LayoutMember]) -> Layout {
    let next = Layout::compute(&LayoutRequest::after(layout, members)).unwrap();
    check_places(&next);
    check_shares(&next);
    let movement = Movement::between(layout, &next, next.balanced_count() as u32);
    let moved = movement.transfers.len() as u64;
    assert!(moved * 10 <= movement.lower_bound * 11, "{moved} of {}", movement.lower_bound);
    next
}

#[test]
fn a_thousand_nodes_share_4096_partitions() {
    let layout = first(&members(0..999), ring(4096));
    check_places(&layout);
    check_shares(&layout);
    let layout = step(&layout, &members(0..1000));
    assert_eq!(Layout::decode(&layout.encode()), Ok(layout.clone()));
    step(&layout, &members(3..1000));
}

#[test]
fn a_cluster_grows_from_one_node_to_hundreds_and_shrinks() {
    let mut layout = first(&members(0..1), ring(1024));
    for count in [2, 3, 5, 8, 20, 60, 200, 400, 390, 100, 10, 5, 3] {
        layout = step(&layout, &members(0..count));
    }
}

#[test]
fn racks_of_a_large_cluster_come_and_go() {
    let of_racks = |racks: std::ops::Range<u32>| -> Vec<LayoutMember> {
        let nodes = racks.flat_map(|rack| (0..10).map(move |place| (rack, place)));
        nodes.map(|(rack, place)| located(rack * 100 + place, &format!("rack {rack}"))).collect()
    };
    let mut layout = first(&of_racks(0..4), ring(512));
    for racks in [0..8, 0..9, 1..9, 0..20, 2..19] {
        layout = step(&layout, &of_racks(racks));
    }
}
