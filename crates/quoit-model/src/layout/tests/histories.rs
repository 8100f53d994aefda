//! Random histories of clusters; each layout must meet the requirements.

use super::least::least_movement;
use super::oracle::fair_shares;
use super::{node, ring};
use crate::hash::Partition;
use crate::layout::{
    Layout, LayoutMember, LayoutRequest, LayoutRules, Movement, Replacement, Transfer,
};
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A change of a cluster between two layouts.
#[derive(Clone, Debug)]
enum Change {
    Join { capacity: u32, location: u8 },
    Leave { who: usize },
    Replace { who: usize },
    Capacity { who: usize, capacity: u32 },
    Location { who: usize, location: u8 },
}

#[derive(Clone, Debug)]
struct History {
    partition_count: u16,
    rules: LayoutRules,
    steps: Vec<Vec<Change>>,
}

/// Number of locations, and the maximum ratio of capacities, of a kind of history.
#[derive(Clone, Copy, Debug)]
struct World {
    locations: u8,
    capacity_max: u32,
    ring_log_max: u32,
    joins_max: usize,
}

fn change(world: World) -> impl Strategy<Value = Change> {
    let capacity = 1..=world.capacity_max;
    let location = 0..world.locations;
    prop_oneof![
        5 => (capacity.clone(), location.clone())
            .prop_map(|(capacity, location)| Change::Join { capacity, location }),
        3 => any::<usize>().prop_map(|who| Change::Leave { who }),
        1 => any::<usize>().prop_map(|who| Change::Replace { who }),
        1 => (any::<usize>(), capacity).prop_map(|(who, capacity)| Change::Capacity { who, capacity }),
        1 => (any::<usize>(), location).prop_map(|(who, location)| Change::Location { who, location }),
    ]
}

fn history(world: World) -> impl Strategy<Value = History> {
    let rules = prop_oneof![
        2 => Just(LayoutRules::default()),
        1 => (1..=6u8, 1..=6u8).prop_map(|(target_n_val, target_location_n_val)| LayoutRules {
            target_n_val,
            target_location_n_val,
        }),
    ];
    let joins = prop::collection::vec(change(world), 1..=world.joins_max);
    let few = prop::collection::vec(change(world), 1..=3);
    let steps = prop::collection::vec(prop_oneof![1 => joins, 3 => few], 1..=8);
    (3..=world.ring_log_max, rules, steps).prop_map(|(log, rules, steps)| History {
        partition_count: 1 << log,
        rules,
        steps,
    })
}

/// A cluster during a history.
struct Cluster {
    members: Vec<LayoutMember>,
    next: u32,
    layout: Layout,
}

impl Cluster {
    fn new(history: &History) -> Self {
        let members = vec![LayoutMember::new(node(0))];
        let layout = Layout::compute(&LayoutRequest {
            previous: None,
            members: &members,
            replacements: &[],
            rules: history.rules,
            ring_size: ring(history.partition_count),
            version: 1,
        });
        Self { members, next: 1, layout: layout.unwrap() }
    }

    fn new_node(&mut self) -> LayoutMember {
        self.next += 1;
        LayoutMember::new(node(self.next))
    }

    /// Computes the layout after some changes.
    fn step(&mut self, changes: &[Change]) -> Layout {
        let mut replacements = Vec::new();
        for change in changes {
            let count = self.members.len();
            match change {
                Change::Join { capacity, location } => {
                    let location = location_name(*location);
                    let member = self.new_node();
                    self.members.push(LayoutMember { capacity: *capacity, location, ..member });
                }
                Change::Leave { who } if count > 1 => {
                    self.members.remove(who % count);
                }
                Change::Leave { .. } => {}
                Change::Replace { who } => {
                    let old = self.members[who % count].id;
                    let is_old = self.layout.node_index(old).is_some();
                    let new = self.new_node().id;
                    self.members[who % count].id = new;
                    if is_old {
                        replacements.push(Replacement { old, new });
                    }
                }
                Change::Capacity { who, capacity } => {
                    self.members[who % count].capacity = *capacity;
                }
                Change::Location { who, location } => {
                    self.members[who % count].location = location_name(*location);
                }
            }
        }
        replacements.retain(|pair| self.members.iter().any(|member| member.id == pair.new));
        let request = LayoutRequest {
            replacements: &replacements,
            ..LayoutRequest::after(&self.layout, &self.members)
        };
        let next = Layout::compute(&request).unwrap();
        std::mem::replace(&mut self.layout, next)
    }
}

fn location_name(number: u8) -> Option<std::sync::Arc<str>> {
    (number > 0).then(|| format!("rack {number}").into())
}

/// Checks that every node is in every order once, and that the first positions are on as many
/// locations as possible.
pub(super) fn check_places(layout: &Layout) {
    let locations: BTreeSet<_> = layout.members().iter().map(|member| &member.location).collect();
    let rules = layout.rules();
    for partition in layout.partitions() {
        let order = layout.order(partition);
        let distinct: BTreeSet<u16> = order.iter().copied().collect();
        assert_eq!(distinct.len(), order.len(), "a node is twice in {partition:?}");
        assert_eq!(order.len(), layout.nodes().len());
        for n_val in 1..=rules.target_n_val.min(rules.target_location_n_val) {
            let primaries = layout.primaries(partition, u32::from(n_val));
            let here: BTreeSet<_> = primaries
                .iter()
                .map(|node| &layout.members()[usize::from(*node)].location)
                .collect();
            assert_eq!(here.len(), primaries.len().min(locations.len()), "{partition:?}");
        }
    }
}

/// Checks that each node's share is its fair share, rounded down or up.
pub(super) fn check_shares(layout: &Layout) {
    let fair = fair_shares(layout, layout.balanced_count());
    for (share, fair) in layout.shares().iter().zip(fair) {
        let off = (f64::from(share.partition_count) - fair).abs();
        assert!(off < 1.0 - 1e-6 || off < 1e-6, "{share:?} where {fair} is fair");
    }
    let percents: f64 = layout.shares().iter().map(|share| share.percent).sum();
    assert!((percents - 100.0).abs() < 1e-6);
}

/// Checks that applying the transfers to the old primaries gives the new ones.
fn check_transfers(old: &Layout, new: &Layout, n_val: u32) -> Movement {
    let movement = Movement::between(old, new, n_val);
    let ids = |layout: &Layout, partition: Partition| -> BTreeSet<_> {
        let primaries = layout.primaries(partition, n_val).iter();
        primaries.map(|node| layout.nodes()[usize::from(*node)]).collect()
    };
    for partition in old.partitions() {
        let (before, after) = (ids(old, partition), ids(new, partition));
        let here: Vec<&Transfer> =
            movement.transfers.iter().filter(|transfer| transfer.partition == partition).collect();
        let come: BTreeSet<_> = here.iter().map(|transfer| transfer.to).collect();
        assert_eq!(come, after.difference(&before).copied().collect());
        assert_eq!(come.len(), here.len(), "a node gets a copy once");
        let from: BTreeSet<_> = here.iter().map(|transfer| transfer.from).collect();
        assert!(from.is_subset(&before), "copies come from those who have them");
        let go: BTreeSet<_> = before.difference(&after).copied().collect();
        assert!(go.len() > here.len() || go.is_subset(&from), "who goes hands over");
    }
    movement
}

/// Runs a history and checks each layout. `least` returns the least movement from one layout to the
/// next, if it is known. The movement is at most 1.1 times that, plus three copies.
fn live(history: &History, least: impl Fn(&Layout, &Layout) -> Option<u64>) {
    let mut cluster = Cluster::new(history);
    for changes in &history.steps {
        let before = cluster.step(changes);
        let layout = &cluster.layout;
        check_places(layout);
        check_shares(layout);
        assert_eq!(Layout::decode(&layout.encode()).as_ref(), Ok(layout));
        for n_val in 1..=layout.balanced_count() as u32 + 1 {
            let movement = check_transfers(&before, layout, n_val);
            assert!(movement.transfers.len() as u64 >= movement.lower_bound);
        }
        let moved = check_transfers(&before, layout, layout.balanced_count() as u32);
        let moved = moved.transfers.len() as u64;
        if let Some(least) = least(&before, layout) {
            assert!(moved * 10 <= least * 11 + 30, "{moved} moved, {least} had to");
        }
        let again = LayoutRequest::after(layout, &cluster.members);
        let again = Layout::compute(&again).unwrap();
        assert!(layout.partitions().all(|one| again.order(one) == layout.order(one)));
    }
}

fn lower_bound(old: &Layout, new: &Layout) -> u64 {
    Movement::between(old, new, new.balanced_count() as u32).lower_bound
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn a_cluster_of_equal_nodes_moves_next_to_nothing_more_than_the_lower_bound(
        history in history(World { locations: 1, capacity_max: 1, ring_log_max: 8, joins_max: 20 })
    ) {
        live(&history, |old, new| Some(lower_bound(old, new)));
    }

    #[test]
    fn a_cluster_is_balanced_over_distinct_locations(
        history in history(World { locations: 5, capacity_max: 4, ring_log_max: 8, joins_max: 20 })
    ) {
        live(&history, |_, _| None);
    }

}

proptest! {
    // Computing flows is slow, so there are few cases.
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn a_small_cluster_moves_next_to_nothing_more_than_the_cheapest_flow(
        history in history(World { locations: 5, capacity_max: 4, ring_log_max: 5, joins_max: 12 })
    ) {
        live(&history, |old, new| {
            let least = least_movement(old, new);
            assert!(least >= lower_bound(old, new));
            Some(least)
        });
    }
}
