//! The least movement between two layouts, computed as a minimum-cost flow: slow, but exact.

use super::oracle::fair_shares;
use crate::layout::Layout;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

#[derive(Default)]
struct Network {
    /// End, remaining capacity and unit cost of each edge; edge i ^ 1 is its reverse.
    edges: Vec<(usize, u32, i64)>,
    out: Vec<Vec<usize>>,
}

impl Network {
    fn vertex(&mut self) -> usize {
        self.out.push(Vec::new());
        self.out.len() - 1
    }

    fn edge(&mut self, from: usize, to: usize, room: u32, cost: i64) {
        if room > 0 {
            self.out[from].push(self.edges.len());
            self.edges.push((to, room, cost));
            self.out[to].push(self.edges.len());
            self.edges.push((from, 0, -cost));
        }
    }

    /// Sends one more unit along the cheapest path. Returns its cost; `None` if there is no path.
    fn augment(&mut self, from: usize, to: usize) -> Option<i64> {
        let mut costs = vec![i64::MAX; self.out.len()];
        let mut by_edge = vec![usize::MAX; self.out.len()];
        let mut waiting = VecDeque::from([from]);
        costs[from] = 0;
        while let Some(vertex) = waiting.pop_front() {
            for edge in &self.out[vertex] {
                let (end, room, cost) = self.edges[*edge];
                if room > 0 && costs[vertex] + cost < costs[end] {
                    costs[end] = costs[vertex] + cost;
                    by_edge[end] = *edge;
                    waiting.push_back(end);
                }
            }
        }
        let mut vertex = to;
        while vertex != from {
            let edge = *by_edge.get(vertex).filter(|edge| **edge != usize::MAX)?;
            self.edges[edge].1 -= 1;
            self.edges[edge ^ 1].1 += 1;
            vertex = self.edges[edge ^ 1].0;
        }
        Some(costs[to])
    }
}

/// Least number of copies that must move so that the members of `new` have fair shares by its
/// rules.
pub(super) fn least_movement(old: &Layout, new: &Layout) -> u64 {
    const SHARE_IS_MET: i64 = -1_000_000;
    let copies = new.balanced_count();
    let locations: BTreeSet<_> = new.members().iter().map(|member| &member.location).collect();
    let distinct = usize::from(new.rules().target_location_n_val).min(copies).min(locations.len());
    let mut network = Network::default();
    let (source, sink) = (network.vertex(), network.vertex());
    let mut nodes = BTreeMap::new();
    for (member, fair) in new.members().iter().zip(fair_shares(new, copies)) {
        let vertex = network.vertex();
        let (floor, ceil) = ((fair + 1e-6).floor(), (fair - 1e-6).ceil());
        network.edge(source, vertex, floor as u32, SHARE_IS_MET);
        network.edge(source, vertex, (ceil - floor).max(0.0) as u32, 0);
        nodes.insert(member.id, (vertex, &member.location));
    }
    for partition in new.partitions() {
        let (first, more) = (network.vertex(), network.vertex());
        network.edge(first, sink, distinct as u32, 0);
        network.edge(more, sink, (copies - distinct) as u32, 0);
        let mut places = BTreeMap::new();
        for location in &locations {
            let place = network.vertex();
            network.edge(place, first, 1, 0);
            network.edge(place, more, copies as u32, 0);
            places.insert(*location, place);
        }
        let held: Vec<_> = old.primaries(partition, copies as u32).iter().collect();
        for (id, (vertex, location)) in &nodes {
            let is_held = held.iter().any(|node| old.nodes()[usize::from(**node)] == *id);
            network.edge(*vertex, places[location], 1, i64::from(!is_held));
        }
    }
    let mut cost = 0;
    for _ in 0..copies * usize::from(new.ring_size().get()) {
        cost += network.augment(source, sink).expect("there is a layout");
    }
    cost.rem_euclid(-SHARE_IS_MET) as u64
}
