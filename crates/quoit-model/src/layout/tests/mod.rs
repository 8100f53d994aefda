//! Tests of layouts.

mod codec;
mod figures;
mod histories;
mod large;
mod least;
mod oracle;
mod reading;

use super::{Layout, LayoutMember, LayoutRequest, LayoutRules};
use crate::hash::RingSize;
use crate::node::NodeId;

fn ring(partition_count: u16) -> RingSize {
    RingSize::new(partition_count).unwrap()
}

fn node(number: u32) -> NodeId {
    let mut id = [0x5a; 16];
    id[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b1).to_be_bytes());
    NodeId(id)
}

fn members(numbers: impl IntoIterator<Item = u32>) -> Vec<LayoutMember> {
    numbers.into_iter().map(|number| LayoutMember::new(node(number))).collect()
}

fn located(number: u32, location: &str) -> LayoutMember {
    LayoutMember { location: Some(location.into()), ..LayoutMember::new(node(number)) }
}

/// The first layout of a cluster, by the default rules.
fn first(members: &[LayoutMember], ring_size: RingSize) -> Layout {
    let request = LayoutRequest {
        previous: None,
        members,
        replacements: &[],
        rules: LayoutRules::default(),
        ring_size,
        version: 1,
    };
    Layout::compute(&request).unwrap()
}
