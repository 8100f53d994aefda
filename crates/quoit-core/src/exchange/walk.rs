//! The walk of an exchange, by which the asking node finds the tags that differ. Plain state, without
//! I/O.
//!
//! The walk starts with whole partitions and n_val classes. In each message the asking node sends up to
//! [`RANGE_COUNT_MAX`] ranges. For a range with many records it sends the digests of its 16 parts; the
//! answer names the parts that differ, which are asked for next. For a range with at most
//! [`LISTED_COUNT`] records it sends the tags and states of the records; the answer names the tags that
//! differ, with the other node's states. If the other node has more than [`CROWD_COUNT`] records in such
//! a range, it answers that the range is crowded, and the range is split after all.
//!
//! Ranges wait on a stack, so that few are in memory at a time.

use super::states::{
    MalformedMessage, TagDifference, TagState, differences, read_tags, states, write_tags,
};
use quoit_model::hash::Partition;
use quoit_number::length_u32;
use quoit_store::compare::{HashRange, SPLIT_COUNT, Scope, salted};
use quoit_store::engine::Compare;
use quoit_store::error::StoreError;
use quoit_store::index::{TAG_BITS, Tag};
use quoit_wire::internode::exchange::{Descended, Differences, Ranges};

/// Largest number of records on the asking side with which a range is compared record by record.
pub(super) const LISTED_COUNT: usize = 16;
/// Largest number of ranges in a message.
pub(super) const RANGE_COUNT_MAX: usize = 256;

/// A range to be compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RangeStep {
    pub(super) partition: Partition,
    pub(super) scope: Scope,
    pub(super) range: HashRange,
    /// True if its parts are compared even if it has few records here, because it is crowded on the other
    /// side.
    must_split: bool,
}

impl RangeStep {
    /// Returns the range of all records of a partition in a scope.
    pub(super) const fn all(partition: Partition, scope: Scope) -> Self {
        Self { partition, scope, range: HashRange::ALL, must_split: false }
    }

    /// Returns the range of a single tag.
    pub(super) fn tag(partition: Partition, scope: Scope, tag: Tag) -> Self {
        let number = 1 << TAG_BITS | tag.number();
        let range = HashRange::from_number(number).expect("a tag has so many bits");
        Self { partition, scope, range, must_split: false }
    }
}

/// A tag that differs, with its partition and class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct RangeDifference {
    pub(super) partition: Partition,
    pub(super) scope: Scope,
    pub(super) difference: TagDifference,
}

impl RangeDifference {
    /// Returns the partition, scope and tag, without the states.
    pub(super) const fn place(&self) -> (Partition, Scope, Tag) {
        (self.partition, self.scope, self.difference.tag)
    }
}

/// The part of a message that asks about one class of one partition.
struct AskedRanges {
    partition: Partition,
    scope: Scope,
    split: Vec<HashRange>,
    listed: Vec<(HashRange, Vec<TagState>)>,
}

/// The ranges of one message, kept to read its answer.
pub(super) struct AskedMessage(Vec<AskedRanges>);

/// The state of a walk: the ranges that wait to be compared, and the differences that were found.
pub(super) struct Walk {
    salt: u64,
    waiting: Vec<RangeStep>,
    found: Vec<RangeDifference>,
}

impl Walk {
    pub(super) fn new(salt: u64, steps: impl IntoIterator<Item = RangeStep>) -> Self {
        Self { salt, waiting: steps.into_iter().collect(), found: Vec::new() }
    }

    /// Takes the walk out and leaves an empty one in its place.
    pub(super) fn take(&mut self) -> Self {
        std::mem::replace(self, Self::new(self.salt, []))
    }

    /// Takes out the differences that were found so far.
    pub(super) fn take_found(&mut self) -> Vec<RangeDifference> {
        std::mem::take(&mut self.found)
    }

    pub(super) fn found_count(&self) -> usize {
        self.found.len()
    }

    /// Returns the next ranges to ask for, and what is needed to read the answer; `None` if the walk is
    /// done.
    ///
    /// # Errors
    ///
    /// Errors of the engine.
    pub(super) fn ask(
        &mut self,
        engine: &dyn Compare,
    ) -> Result<Option<(Vec<Ranges>, AskedMessage)>, StoreError> {
        let count = self.waiting.len().min(RANGE_COUNT_MAX);
        if count == 0 {
            return Ok(None);
        }
        let steps = self.waiting.split_off(self.waiting.len() - count);
        debug_assert!(
            steps.iter().all(|step| !step.must_split || step.range.parts().len() > 0),
            "a crowded range has parts"
        );
        let is_one = |one: &RangeStep, other: &RangeStep| {
            (one.partition, one.scope) == (other.partition, other.scope)
        };
        let mut all = Vec::new();
        let mut asked = Vec::new();
        for steps in steps.chunk_by(is_one) {
            let [RangeStep { partition, scope, .. }, ..] = *steps else { continue };
            let (ranges, these) = self.ask_of(engine, partition, scope, steps)?;
            all.push(ranges);
            asked.push(these);
        }
        Ok(Some((all, AskedMessage(asked))))
    }

    /// Makes the message part for `steps`, which are all of one class of one partition.
    fn ask_of(
        &self,
        engine: &dyn Compare,
        partition: Partition,
        scope: Scope,
        steps: &[RangeStep],
    ) -> Result<(Ranges, AskedRanges), StoreError> {
        let mut asked = AskedRanges { partition, scope, split: Vec::new(), listed: Vec::new() };
        let mut ranges = Ranges {
            partition: u32::from(partition.0),
            n_val_class: u32::from(scope.n_val_class),
            ..Ranges::default()
        };
        for RangeStep { range, must_split, .. } in steps {
            let page = engine.leaves(partition, scope, *range, Tag::MIN, LISTED_COUNT)?;
            let is_listed = range.parts().len() == 0 || page.next.is_none() && !must_split;
            if is_listed {
                let states = states(&page.leaves, self.salt);
                ranges.listed.push(range.number());
                ranges.counts.push(length_u32(states.len()));
                write_tags(states.iter().map(|state| (state.tag, state.live)), &mut ranges.tags);
                ranges.states.extend(states.iter().map(|state| state.state));
                asked.listed.push((*range, states));
            } else {
                let parts: Vec<HashRange> = range.parts().collect();
                let digests = engine.range_digests(partition, scope, &parts)?;
                debug_assert_eq!(digests.len(), SPLIT_COUNT, "each part has a digest");
                ranges.split.push(range.number());
                ranges.parts.extend(digests.iter().map(|digest| salted(*digest, self.salt)));
                asked.split.push(*range);
            }
        }
        debug_assert_eq!(
            asked.split.len() + asked.listed.len(),
            steps.len(),
            "a range is split or listed"
        );
        Ok((ranges, asked))
    }

    /// Takes the answer to a message: adds the ranges that have to be compared next, and the differences.
    ///
    /// # Errors
    ///
    /// If the answer does not fit the message.
    pub(super) fn take_answer(
        &mut self,
        asked: &AskedMessage,
        answer: &Descended,
    ) -> Result<(), MalformedMessage> {
        if asked.0.len() != answer.differences.len() {
            return Err(MalformedMessage);
        }
        for (asked, answer) in asked.0.iter().zip(&answer.differences) {
            self.take_parts(asked, answer)?;
            self.take_lists(asked, answer)?;
        }
        Ok(())
    }

    fn take_parts(
        &mut self,
        asked: &AskedRanges,
        answer: &Differences,
    ) -> Result<(), MalformedMessage> {
        if asked.split.len() != answer.parts.len() {
            return Err(MalformedMessage);
        }
        for (range, differing) in asked.split.iter().zip(&answer.parts) {
            if *differing >= 1 << SPLIT_COUNT {
                return Err(MalformedMessage);
            }
            let parts = range.parts().enumerate();
            let differing = parts.filter(|(place, _)| differing & (1 << place) != 0);
            let &AskedRanges { partition, scope, .. } = asked;
            let step = |range| RangeStep { partition, scope, range, must_split: false };
            self.waiting.extend(differing.map(|(_, range)| step(range)));
        }
        Ok(())
    }

    fn take_lists(
        &mut self,
        asked: &AskedRanges,
        answer: &Differences,
    ) -> Result<(), MalformedMessage> {
        let &AskedRanges { partition, scope, .. } = asked;
        if asked.listed.len() != answer.counts.len() || answer.tags.len() != answer.states.len() {
            return Err(MalformedMessage);
        }
        let (mut tags, mut their_states) = (&answer.tags[..], &answer.states[..]);
        for ((range, ours), count) in asked.listed.iter().zip(&answer.counts) {
            let differing = read_tags(&mut tags, *count as usize)?;
            let (these, rest) =
                their_states.split_at_checked(differing.len()).ok_or(MalformedMessage)?;
            their_states = rest;
            for ((tag, live), state) in differing.into_iter().zip(these) {
                if !(range.first()..=range.last()).contains(&tag) {
                    return Err(MalformedMessage);
                }
                let their = TagState { tag, state: *state, live };
                let theirs = (their.live || their.state != 0).then_some(their);
                let our = ours.iter().find(|our| our.tag == tag).copied();
                let difference = TagDifference { tag, ours: our, theirs };
                self.found.push(RangeDifference { partition, scope, difference });
            }
        }
        for place in &answer.overfull {
            let (range, _) = asked.listed.get(*place as usize).ok_or(MalformedMessage)?;
            if range.parts().len() == 0 {
                return Err(MalformedMessage);
            }
            self.waiting.push(RangeStep { partition, scope, range: *range, must_split: true });
        }
        Ok(())
    }
}

/// Answers a message of a walk: returns which of its ranges and tags differ from this node's records.
///
/// # Errors
///
/// Errors of the engine. The inner error stands for a message that contradicts itself.
pub(super) fn answer(
    engine: &dyn Compare,
    hour_min: u32,
    salt: u64,
    all: &[Ranges],
) -> Result<Result<Descended, MalformedMessage>, StoreError> {
    let mut differences = Vec::with_capacity(all.len());
    for ranges in all {
        match answer_ranges(engine, hour_min, salt, ranges)? {
            Ok(answer) => differences.push(answer),
            Err(nonsense) => return Ok(Err(nonsense)),
        }
    }
    Ok(Ok(Descended { differences }))
}

fn answer_ranges(
    engine: &dyn Compare,
    hour_min: u32,
    salt: u64,
    ranges: &Ranges,
) -> Result<Result<Differences, MalformedMessage>, StoreError> {
    let Some(asked) = read_ranges(hour_min, ranges) else { return Ok(Err(MalformedMessage)) };
    let AskedRanges { partition, scope, split, listed } = asked;
    let mut answer = Differences::default();
    for (range, theirs) in split.iter().zip(ranges.parts.chunks(SPLIT_COUNT)) {
        let parts: Vec<HashRange> = range.parts().collect();
        let ours = engine.range_digests(partition, scope, &parts)?;
        debug_assert_eq!(ours.len(), theirs.len(), "each part has two digests");
        let differs = |(place, (ours, theirs)): (usize, (&u64, &u32))| {
            u32::from(salted(*ours, salt) != *theirs) << place
        };
        answer.parts.push(ours.iter().zip(theirs).enumerate().map(differs).sum());
    }
    for (place, (range, theirs)) in (0..).zip(&listed) {
        let page = engine.leaves(partition, scope, *range, Tag::MIN, CROWD_COUNT)?;
        if page.next.is_some() {
            answer.overfull.push(place);
            answer.counts.push(0);
            continue;
        }
        // The roles are those of the asking node: its states are "ours", this node's are "theirs".
        let differing = differences(theirs, &states(&page.leaves, salt));
        answer.counts.push(length_u32(differing.len()));
        let is_live = |side: Option<TagState>| side.is_some_and(|state| state.live);
        let tags = differing.iter().map(|each| (each.tag, is_live(each.theirs)));
        write_tags(tags, &mut answer.tags);
        let state = |each: &TagDifference| each.theirs.map_or(0, |state| state.state);
        answer.states.extend(differing.iter().map(state));
    }
    Ok(Ok(answer))
}

/// Largest number of leaves of the answering node that are compared one by one in a listed range.
const CROWD_COUNT: usize = 256;

/// Reads a part of a message; `None` if it contradicts itself.
fn read_ranges(hour_min: u32, ranges: &Ranges) -> Option<AskedRanges> {
    let n_val_class = u8::try_from(ranges.n_val_class).ok().filter(|class| *class <= 15)?;
    let ranges_of = |numbers: &[u64]| -> Option<Vec<HashRange>> {
        numbers.iter().map(|number| HashRange::from_number(*number)).collect()
    };
    let split = ranges_of(&ranges.split)?;
    let can_split = split.iter().all(|range| range.parts().len() == SPLIT_COUNT);
    let listed = ranges_of(&ranges.listed)?;
    let counted = listed.len() == ranges.counts.len() && ranges.tags.len() == ranges.states.len();
    if !can_split || ranges.parts.len() != split.len() * SPLIT_COUNT || !counted {
        return None;
    }
    let (mut tags, mut states) = (&ranges.tags[..], &ranges.states[..]);
    let mut lists = Vec::with_capacity(listed.len());
    for (range, count) in listed.iter().zip(&ranges.counts) {
        let these = read_tags(&mut tags, *count as usize).ok()?;
        let (states_here, rest) = states.split_at_checked(these.len())?;
        states = rest;
        let state =
            |((tag, live), state): ((Tag, bool), &u32)| TagState { tag, state: *state, live };
        lists.push((*range, these.into_iter().zip(states_here).map(state).collect()));
    }
    Some(AskedRanges {
        partition: Partition(u16::try_from(ranges.partition).ok()?),
        scope: Scope { n_val_class, hour_min },
        split,
        listed: lists,
    })
}
