//! Walks between two sides, without nodes.

use super::roots::{self, SharedPartition};
use super::walk::{LISTED_COUNT, RANGE_COUNT_MAX, RangeStep, Walk, answer};
use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;
use quoit_model::hash::Partition;
use quoit_store::compare::{Digests, HashRange, Leaf, LeafPage, Scope};
use quoit_store::engine::Compare;
use quoit_store::engine::Record;
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use quoit_wire::internode::exchange::{Descend, Descended, Differences, Ranges};
use std::collections::BTreeSet;

const SCOPE: Scope = Scope { n_val_class: 3, hour_min: 0 };
const PARTITION: Partition = Partition(5);

/// The leaves of one side, in order.
#[derive(Clone, Default, Debug)]
struct Side(BTreeSet<Leaf>);

impl Side {
    fn within(&self, range: HashRange) -> impl Iterator<Item = &Leaf> {
        let leaf = |tag| Leaf { tag, digest: 0, tombstone: false };
        let after = range.last().next();
        let leaves = self.0.range(leaf(range.first())..);
        leaves.take_while(move |each| after.is_none_or(|after| each.tag < after))
    }
}

impl Compare for Side {
    fn digests(&self, _: Partition, _: u32) -> Result<Digests, StoreError> {
        let mut digests = Digests::default();
        self.0.iter().for_each(|leaf| digests.toggle(3, leaf));
        Ok(digests)
    }

    fn range_digests(
        &self,
        _: Partition,
        _: Scope,
        ranges: &[HashRange],
    ) -> Result<Vec<u64>, StoreError> {
        let digest = |range: &HashRange| {
            let mut digests = Digests::default();
            self.within(*range).for_each(|leaf| digests.toggle(3, leaf));
            digests.of_class(3)
        };
        Ok(ranges.iter().map(digest).collect())
    }

    fn leaves(
        &self,
        _: Partition,
        _: Scope,
        range: HashRange,
        from: Tag,
        limit: usize,
    ) -> Result<LeafPage, StoreError> {
        let leaves: Vec<Leaf> =
            self.within(range).filter(|leaf| leaf.tag >= from).copied().collect();
        let border = leaves.get(limit.max(1) - 1).map(|last| last.tag);
        let end = leaves.partition_point(|leaf| border.is_none_or(|border| leaf.tag <= border));
        let next = leaves.get(end).map(|leaf| leaf.tag);
        Ok(LeafPage { leaves: leaves[..end].to_vec(), next })
    }

    fn tagged(&self, _: Partition, _: &[Tag]) -> Result<Vec<(Bytes, Record)>, StoreError> {
        Ok(Vec::new())
    }
}

/// Cost of a walk.
#[derive(Default, Debug)]
struct Cost {
    message_count: usize,
    byte_count: usize,
}

/// Runs a walk to its end. Returns the tags that differ, in order, and the cost.
fn walk(ours: &Side, theirs: &Side, salt: u64) -> (Vec<Tag>, Cost) {
    let mut walk = Walk::new(salt, [RangeStep::all(PARTITION, SCOPE)]);
    let mut cost = Cost::default();
    while let Some((ranges, asked)) = walk.ask(ours).unwrap() {
        let range_count: usize = ranges.iter().map(|all| all.split.len() + all.listed.len()).sum();
        assert!(range_count <= RANGE_COUNT_MAX, "{range_count} ranges in a message");
        let asked_for = Descend { layout_version: 1, hour_min: 0, salt, ranges };
        let answered = answer(theirs, 0, salt, &asked_for.ranges).unwrap().unwrap();
        cost.message_count += 1;
        cost.byte_count += asked_for.encoded_len() + answered.encoded_len();
        walk.take_answer(&asked, &answered).unwrap();
    }
    let mut found: Vec<Tag> =
        walk.take_found().into_iter().map(|found| found.difference.tag).collect();
    let count = found.len();
    found.sort_unstable();
    found.dedup();
    assert_eq!(found.len(), count, "a tag was found twice");
    (found, cost)
}

fn differing(ours: &Side, theirs: &Side) -> Vec<Tag> {
    let differing = ours.0.symmetric_difference(&theirs.0).filter(|leaf| !leaf.tombstone);
    differing.map(|leaf| leaf.tag).collect::<BTreeSet<Tag>>().into_iter().collect()
}

/// A side with `count` records whose tags are spread evenly.
fn side(count: u64) -> Side {
    let leaf = |number: u64| {
        // An odd multiplier spreads the numbers evenly.
        let hash = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Leaf { tag: Tag::from_number(hash >> 24), digest: !hash, tombstone: false }
    };
    Side((0..count).map(leaf).collect())
}

fn any_side() -> impl Strategy<Value = Side> {
    // Small tags are near each other: they collide, and walks go deep. Random tags are far apart.
    let tag = prop_oneof![0..40u64, any::<u64>()];
    let leaf = (tag, 0..4u64).prop_map(|(tag, digest)| {
        let tombstone = digest == 3;
        Leaf { tag: Tag::from_number(tag), digest, tombstone }
    });
    prop::collection::btree_set(leaf, 0..60).prop_map(Side)
}

proptest! {
    #[test]
    fn a_walk_finds_exactly_what_differs(
        common in any_side(), mut ours in any_side(), mut theirs in any_side(), salt: u64,
        common_count in 0..2_000u64,
    ) {
        let common = common.0.into_iter().chain(side(common_count).0);
        common.for_each(|leaf| {
            ours.0.insert(leaf);
            theirs.0.insert(leaf);
        });
        let expected = differing(&ours, &theirs);
        prop_assert_eq!(walk(&ours, &theirs, salt).0, expected);
    }
}

#[test]
fn a_partition_that_the_other_node_can_not_compare_does_not_count_as_equal() {
    let shared = |number| SharedPartition { partition: Partition(number), classes: 1 << 3 };
    let (side, ours) = (side(10), [shared(4), shared(5)]);
    let asked = roots::ask(&side, 1, 0, &ours).unwrap();
    let answered = roots::answer(&side, &asked, &[shared(5)]).unwrap().unwrap();
    let compared = roots::differing(&ours, &answered).unwrap();
    assert_eq!(compared, [SharedPartition { partition: Partition(5), classes: 0 }]);
}

#[test]
fn equal_sides_cost_one_message() {
    let (found, cost) = walk(&side(50_000), &side(50_000), 7);
    assert_eq!((found.len(), cost.message_count), (0, 1));
    assert!(cost.byte_count < 200, "{cost:?}");
}

#[test]
fn what_little_differs_is_found_with_little() {
    let ours = side(50_000);
    let mut theirs = ours.clone();
    let missing: Vec<Leaf> = ours.0.iter().step_by(5_000).copied().collect();
    missing.iter().for_each(|leaf| _ = theirs.0.remove(leaf));
    for (one, other) in [(&ours, &theirs), (&theirs, &ours)] {
        let (found, cost) = walk(one, other, 7);
        assert_eq!(found, missing.iter().map(|leaf| leaf.tag).collect::<Vec<_>>());
        let bytes_each = cost.byte_count / found.len();
        assert!(bytes_each < 400 && cost.message_count <= 6, "{cost:?}");
    }
}

#[test]
fn an_empty_side_lists_what_the_other_has() {
    let (none, many) = (Side::default(), side(20_000));
    for (one, other) in [(&none, &many), (&many, &none)] {
        let (found, cost) = walk(one, other, 7);
        assert_eq!(found.len(), many.0.len());
        assert!(cost.byte_count / found.len() < 24, "{cost:?}");
    }
}

#[test]
fn another_side_that_makes_no_sense_is_refused() {
    let mut walk = Walk::new(7, [RangeStep::all(PARTITION, SCOPE)]);
    let many = side(LISTED_COUNT as u64 * 4);
    let (ranges, asked) = walk.ask(&many).unwrap().unwrap();
    let good = answer(&Side::default(), 0, 7, &ranges).unwrap().unwrap();
    let mut bad = good.clone();
    bad.differences[0].parts[0] = 1 << 16;
    assert!(walk.take_answer(&asked, &bad).is_err());
    let mut bad = good.clone();
    bad.differences[0].overfull.push(0);
    assert!(walk.take_answer(&asked, &bad).is_err());
    let mut bad = good;
    bad.differences.clear();
    assert!(walk.take_answer(&asked, &bad).is_err());
    let mut ranges = ranges;
    ranges[0].parts.pop();
    assert!(answer(&many, 0, 7, &ranges).unwrap().is_err());
}

fn outside_ranges() -> impl Strategy<Value = Ranges> {
    let numbers = || prop::collection::vec(prop_oneof![0..40u64, any::<u64>()], 0..4);
    let counts = || prop::collection::vec(prop_oneof![0..4u32, any::<u32>()], 0..4);
    let part_counts = prop_oneof![Just(0usize), Just(16), 0..40usize];
    let parts = part_counts.prop_flat_map(|count| prop::collection::vec(any::<u32>(), count));
    (numbers(), parts, numbers(), counts(), numbers(), counts()).prop_map(
        |(split, parts, listed, counts, tags, states)| Ranges {
            partition: 5,
            n_val_class: 3,
            split,
            parts,
            listed,
            counts,
            tags,
            states,
        },
    )
}

proptest! {
    #[test]
    fn no_request_of_another_node_causes_a_panic(ranges in outside_ranges(), ours in any_side()) {
        let _ = answer(&ours, 0, 7, &[ranges]).unwrap();
    }

    #[test]
    fn no_answer_of_another_node_causes_a_panic(ranges in outside_ranges(), ours in any_side()) {
        let mut walk = Walk::new(7, [RangeStep::all(PARTITION, SCOPE)]);
        let (_, asked) = walk.ask(&ours).unwrap().unwrap();
        let Ranges { parts, counts, tags, states, .. } = ranges;
        let answer = Differences { parts, overfull: counts.clone(), counts, tags, states };
        let _ = walk.take_answer(&asked, &Descended { differences: vec![answer] });
    }
}
