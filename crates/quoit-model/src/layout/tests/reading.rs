use super::{first, members, node, ring};
use crate::hash::{Partition, PlacementHash};
use crate::layout::Layout;

#[test]
fn a_single_node_has_all_positions_of_all_partitions() {
    let layout = Layout::single(node(7), ring(64));
    assert_eq!((layout.version(), layout.balanced_count()), (1, 1));
    for partition in layout.partitions() {
        assert_eq!(layout.order(partition), [0]);
        assert_eq!(layout.primaries(partition, 3), [0]);
        assert_eq!(layout.votes(partition, 3, 0), 3);
    }
    assert_eq!(layout.partitions().count(), 64);
}

#[test]
fn nodes_take_the_positions_in_turn_when_they_are_fewer() {
    let layout = first(&members(0..2), ring(8));
    let partition = Partition(5);
    let [one, other] = *layout.primaries(partition, 3) else { panic!("there are two nodes") };
    assert_eq!(layout.votes(partition, 3, one), 2);
    assert_eq!(layout.votes(partition, 3, other), 1);
    assert_eq!(layout.votes(partition, 4, other), 2);
    assert_eq!(layout.votes(partition, 1, other), 0);
}

#[test]
fn votes_of_all_nodes_are_as_many_as_positions() {
    for node_count in 1..8 {
        let layout = first(&members(0..node_count), ring(8));
        for n_val in 1..10 {
            for partition in layout.partitions() {
                let votes = (0..node_count as u16).map(|node| layout.votes(partition, n_val, node));
                assert_eq!(votes.sum::<u32>(), n_val);
            }
        }
    }
}

#[test]
fn a_preference_list_wraps_around_the_ring_and_names_the_primaries_of_the_record() {
    let layout = first(&members(0..5), ring(8));
    let last = PlacementHash(u64::MAX);
    let list: Vec<_> = layout.preflist(last, 3).collect();
    let partitions: Vec<u16> = list.iter().map(|(partition, _)| partition.0).collect();
    assert_eq!(partitions, [7, 0, 1]);
    let primaries = layout.primaries(Partition(7), 3);
    let nodes = primaries.iter().map(|node| layout.nodes()[usize::from(*node)]);
    assert!(list.iter().map(|(_, node)| *node).eq(nodes));
    assert_eq!(layout.preflist(last, 100).count(), 8);
}

#[test]
fn nodes_are_found_by_id() {
    let layout = first(&members(0..5), ring(8));
    for (index, id) in layout.nodes().iter().enumerate() {
        assert_eq!(layout.node_index(*id), Some(index as u16));
    }
    assert_eq!(layout.node_index(node(99)), None);
}

#[test]
fn fallbacks_of_a_dead_node_are_spread_over_all_others() {
    // Counts the first fallbacks of the partitions of each node, after four primaries.
    let layout = first(&members(0..10), ring(1024));
    let mut stand_ins = vec![vec![0; 10]; 10];
    for partition in layout.partitions() {
        let order = layout.order(partition);
        for primary in &order[..4] {
            stand_ins[usize::from(*primary)][usize::from(order[4])] += 1;
        }
    }
    for (node, by_node) in stand_ins.iter().enumerate() {
        for (other, count) in by_node.iter().enumerate().filter(|(other, _)| *other != node) {
            // The expected number is about 1024 * 4 / 10 / 9 = 45.
            assert!((20..=80).contains(count), "{other} stands in for {node} {count} times");
        }
    }
}
