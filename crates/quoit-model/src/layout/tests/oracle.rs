//! Fair shares, computed in the simplest way.

use crate::layout::Layout;
use std::collections::BTreeMap;

/// The share that each node should have of the first `copies` positions. All nodes are filled
/// evenly by capacity; a node stops when it meets one of its limits.
pub(super) fn fair_shares(layout: &Layout, copies: usize) -> Vec<f64> {
    let members = layout.members();
    let partitions = f64::from(layout.ring_size().get());
    let mut locations: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    for (index, member) in members.iter().enumerate() {
        locations.entry(&member.location).or_default().push(index);
    }
    let wanted = usize::from(layout.rules().target_location_n_val);
    let distinct = wanted.min(copies).min(locations.len());
    let is_possible = |held: &[f64]| {
        let more: f64 = locations
            .values()
            .map(|nodes| {
                let sum: f64 = nodes.iter().map(|node| held[*node]).sum();
                (sum - partitions).max(0.0)
            })
            .sum();
        held.iter().all(|held| *held <= partitions + 1e-9)
            && held.iter().sum::<f64>() <= copies as f64 * partitions + 1e-9
            && more <= (copies - distinct) as f64 * partitions + 1e-9
    };
    let mut held = vec![0.0; members.len()];
    let mut open: Vec<usize> = (0..members.len()).collect();
    let mut level = 0.0;
    while !open.is_empty() {
        let at = |level: f64| {
            let mut held = held.clone();
            for node in &open {
                held[*node] = level * f64::from(members[*node].capacity);
            }
            held
        };
        let (mut low, mut high) = (level, partitions * 2.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if is_possible(&at(middle)) { low = middle } else { high = middle }
        }
        level = low;
        held = at(level);
        open.retain(|node| {
            let mut more = held.clone();
            more[*node] += 1e-6;
            is_possible(&more)
        });
    }
    held
}
