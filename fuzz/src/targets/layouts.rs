//! Layouts, which every node stores and sends to other nodes.

use quoit_model::hash::RingSize;
use quoit_model::layout::{Layout, LayoutMember, LayoutRequest, Movement};
use quoit_model::node::NodeId;

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "layouts", run, seeds };

/// Checks that a decoded layout survives being encoded and decoded again, assigns every position once, and
/// can have a successor.
fn run(input: &[u8]) {
    let Ok(layout) = Layout::decode(input) else { return };
    assert_eq!(Layout::decode(&layout.encode()).as_ref(), Ok(&layout), "a layout changes");
    for partition in layout.partitions() {
        let votes = (0..).take(layout.nodes().len()).map(|node| layout.votes(partition, 3, node));
        assert_eq!(votes.sum::<u32>(), 3, "every position has one holder");
    }
    // Larger layouts take too long to compute.
    if layout.nodes().len() <= 16 && layout.ring_size().get() <= 64 {
        let members = &layout.members()[layout.nodes().len() / 2..];
        let next = Layout::compute(&LayoutRequest::after(&layout, members));
        let next = next.expect("members and rules of a layout are good");
        let movement = Movement::between(&layout, &next, 3);
        assert!(movement.lower_bound <= movement.transfers.len() as u64);
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let ring_size = RingSize::new(8).expect("a power of two");
    let single = Layout::single(NodeId([7; 16]), ring_size);
    let mut members: Vec<_> = (1..=6).map(|n| LayoutMember::new(NodeId([n; 16]))).collect();
    for (index, member) in (0_u32..).zip(&mut members).skip(1) {
        member.location = Some(format!("rack {}", index % 3).into());
        member.capacity = 100 * index;
    }
    let many = Layout::compute(&LayoutRequest::after(&single, &members));
    vec![single.encode(), many.expect("good members").encode()]
}
