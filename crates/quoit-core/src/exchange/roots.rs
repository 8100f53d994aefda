//! The first message of an exchange: which partitions two nodes can compare, and in which of them the
//! copies differ.
//!
//! Records are compared by the n_val of their bucket (the *class*), because two primaries of a partition need
//! not be primaries of the same records: the third primary has no records of buckets with an n_val of 2. Two
//! nodes compare only the classes of which both are primaries. In all others their copies rightly differ.

use super::states::MalformedMessage;
use quoit_cluster::{NodeId, State};
use quoit_model::hash::Partition;
use quoit_model::layout::Layout;
use quoit_planted::planted;
use quoit_store::compare::Digests;
use quoit_store::engine::Compare;
use quoit_store::error::StoreError;
use quoit_store::index::N_VAL_CLASS_COUNT;
use quoit_wire::internode::exchange;
use std::collections::BTreeSet;

/// A partition of which two nodes have complete copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct SharedPartition {
    pub(super) partition: Partition,
    /// The n_val classes of which both nodes are primaries, as bits.
    pub(super) classes: u32,
}

/// Returns the partitions that two nodes can compare, in order. Both must be primaries by the newest
/// layout and have complete copies. Copies of fallbacks, and copies that are being filled, are never
/// compared.
pub(super) fn shared(state: &State, one: NodeId, other: NodeId) -> Vec<SharedPartition> {
    let layouts = state.layouts();
    let common = CommonClasses::new(state, one, other);
    let shared = |partition: Partition| {
        let is_complete = |node| !layouts.is_incomplete(partition, node);
        let classes = common.of(partition);
        (classes != 0 && is_complete(one) && is_complete(other))
            .then_some(SharedPartition { partition, classes })
    };
    layouts.newest().partitions().filter_map(shared).collect()
}

/// The n_val classes of which two nodes are primaries by the newest layout.
pub(crate) struct CommonClasses<'s> {
    newest: &'s Layout,
    /// The indices of the two nodes in the layout; `None` if it does not have both.
    places: Option<(u16, u16)>,
    /// Number of first primaries that have all records of the highest class.
    capped_n_val: usize,
}

impl<'s> CommonClasses<'s> {
    pub(crate) fn new(state: &'s State, one: NodeId, other: NodeId) -> Self {
        let newest = state.layouts().newest();
        let places = newest.node_index(one).zip(newest.node_index(other));
        // The highest class has the records of all buckets with its n_val or a larger one.
        Self { newest, places, capped_n_val: capped_n_val(&state.n_vals()) }
    }

    /// Returns the common classes of a partition, as bits.
    pub(crate) fn of(&self, partition: Partition) -> u32 {
        let order = self.newest.order(partition);
        let position = |place: u16| order.iter().position(|each| *each == place);
        let positions = self.places.map(|(one, other)| (position(one), position(other)));
        let Some((Some(one), Some(other))) = positions else { return 0 };
        let last = one.max(other) + usize::from(planted!(ComparesLowClasses));
        let n_val_of = |class: usize| match class {
            CAPPED_CLASS => self.capped_n_val,
            class => class,
        };
        let classes = (0..N_VAL_CLASS_COUNT).filter(|class| n_val_of(*class) > last);
        classes.fold(0, |bits, class| bits | 1 << class)
    }
}

/// The highest class, which stands for its own number and all larger n_vals.
const CAPPED_CLASS: usize = N_VAL_CLASS_COUNT - 1;

/// Returns the number of first primaries that have all records of the highest class: the smallest n_val
/// of the buckets in that class.
fn capped_n_val(n_vals: &[u32]) -> usize {
    let capped = n_vals.iter().map(|n_val| *n_val as usize).filter(|n_val| *n_val >= CAPPED_CLASS);
    capped.min().unwrap_or(CAPPED_CLASS)
}

/// Returns the message that asks another node to compare these partitions.
pub(super) fn ask(
    engine: &dyn Compare,
    layout_version: u64,
    hour_min: u32,
    all: &[SharedPartition],
) -> Result<exchange::Compare, StoreError> {
    let mut asked = exchange::Compare { layout_version, hour_min, ..Default::default() };
    for shared in all {
        let digests = engine.digests(shared.partition, hour_min)?;
        // A class that is not sent counts as empty. So the other node notices records that only it has.
        let classes = bits(shared.classes).filter(|class| digests.of_class(*class) != 0);
        let classes = classes.fold(0, |bits, class| bits | 1 << class);
        asked.partitions.push(u32::from(shared.partition.0));
        asked.classes.push(classes);
        asked.digests.extend(bits(classes).map(|class| digests.of_class(class)));
    }
    Ok(asked)
}

/// Answers a comparison. `all` are the partitions that this node can compare with the asking node, in
/// order. The inner error stands for a message that contradicts itself.
pub(super) fn answer(
    engine: &dyn Compare,
    asked: &exchange::Compare,
    all: &[SharedPartition],
) -> Result<Result<exchange::Compared, MalformedMessage>, StoreError> {
    debug_assert!(
        all.is_sorted_by(|one, other| one.partition < other.partition),
        "shared partitions are found by their number"
    );
    let Some(theirs) = digests_of(asked) else { return Ok(Err(MalformedMessage)) };
    let mut answer = exchange::Compared::default();
    for (place, (number, theirs)) in (0..).zip(asked.partitions.iter().zip(theirs)) {
        let found = all.binary_search_by_key(number, |shared| u32::from(shared.partition.0));
        let mut differing = 0;
        match found.ok().and_then(|found| all.get(found)) {
            Some(shared) => {
                let ours = engine.digests(shared.partition, asked.hour_min)?;
                let differs = |class: &u8| ours.of_class(*class) != theirs.of_class(*class);
                let classes = bits(shared.classes).filter(differs);
                differing = classes.fold(0, |bits, class| bits | 1 << class);
            }
            None => answer.not_comparable.push(place),
        }
        answer.differing.push(differing);
    }
    Ok(Ok(answer))
}

/// Returns the partitions that the other node compared, with the classes that differ.
pub(super) fn differing(
    all: &[SharedPartition],
    answer: &exchange::Compared,
) -> Result<Vec<SharedPartition>, MalformedMessage> {
    if all.len() != answer.differing.len() {
        return Err(MalformedMessage);
    }
    let not_comparable: BTreeSet<u32> = answer.not_comparable.iter().copied().collect();
    let told = (0_u32..).zip(all.iter().zip(&answer.differing));
    let compared = told.filter(|(place, _)| !not_comparable.contains(place));
    let differing = compared.map(|(_, (shared, differing))| SharedPartition {
        partition: shared.partition,
        classes: shared.classes & differing,
    });
    Ok(differing.collect())
}

/// Returns the positions of the bits that are set.
pub(super) fn bits(bits: u32) -> impl Iterator<Item = u8> {
    (0_u8..).take(N_VAL_CLASS_COUNT).filter(move |place| bits & (1 << place) != 0)
}

/// Reads the digests of each partition; `None` if their number does not fit the classes.
fn digests_of(asked: &exchange::Compare) -> Option<Vec<Digests>> {
    if asked.partitions.len() != asked.classes.len() {
        return None;
    }
    let mut left = asked.digests.iter();
    let mut all = Vec::with_capacity(asked.partitions.len());
    for classes in &asked.classes {
        let mut digests = Digests::default();
        for (class, digest) in digests.0.iter_mut().enumerate() {
            if *classes & (1_u32 << class) != 0 {
                *digest = *left.next()?;
            }
        }
        all.push(digests);
    }
    left.next().is_none().then_some(all)
}
