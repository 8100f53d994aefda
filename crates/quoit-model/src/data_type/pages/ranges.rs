//! Comparison of two copies of a large set or map by ranges of hashes, so that only the differences
//! are sent.
//!
//! 1. The copies compare sums of digests for ranges of hashes, and divide the ranges that differ,
//!    until these have few items ([`RangeWalk`]).
//! 2. One copy reads, at one moment, the items of the ranges that differ and the sum of the digests
//!    of all other items ([`PagedObject::read_ranges`]).
//! 3. The other copy compares that sum with the sum of its own other items. If they are equal, the
//!    copies differ only in the items that were sent. It merges these and joins the whole clock of the
//!    first copy ([`PagedObject::take_ranges`]). An item that the clock covers and that the merged copy
//!    lacks has then been removed: otherwise it would have been sent.
//!
//! Concurrent changes that only one copy has seen do no harm: items outside the ranges that both copies had,
//! or neither had, remain that way. If the other copy has seen such a change too, it may have undone it.
//! Nothing is merged then, and the comparison begins again.

use super::object::{PagedObject, replace_root};
use super::region::CopySplitter;
use super::{ItemHash, Loaded, PageRange, PageTable, Pages, Region};
use crate::data_type::content::Content;
use crate::data_type::{CausalClock, State, StoredFormError};
use crate::object::{Object, Sibling};
use std::ops::RangeInclusive;

/// Maximum depth of a range, so that its number has at most 61 bits.
const DEPTH_MAX: u32 = 60;

/// A range is divided into 2 to the power of this number of parts.
const PART_LEVELS: u32 = 4;

/// Number of items up to which a range is sent and not divided further.
const SENT_ITEM_COUNT: u64 = 32;

/// Maximum number of ranges that two copies compare in one message.
pub const COMPARED_RANGE_COUNT_MAX: usize = 256;

/// Maximum number of ranges whose items are sent. Copies that differ in more are sent whole.
pub const SENT_RANGE_COUNT_MAX: usize = 4_096;

/// A range of item hashes: all that begin with the same bits.
///
/// Ranges are numbered as the nodes of a binary tree: number 1 has all hashes, and the halves of
/// range `n` are `2 n` and `2 n + 1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HashRange(u64);

impl HashRange {
    /// All hashes.
    pub const ALL: Self = Self(1);

    /// The range with a number; `None` for 0 and for ranges below the maximum depth.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 || number.ilog2() > DEPTH_MAX { None } else { Some(Self(number)) }
    }

    /// The ranges with these numbers; `None` unless they are in the order of their hashes and do
    /// not overlap.
    #[must_use]
    pub fn in_order(numbers: &[u64]) -> Option<Vec<Self>> {
        let ranges: Option<Vec<Self>> = numbers.iter().map(|number| Self::new(*number)).collect();
        ranges.filter(|ranges| ranges.is_sorted_by(|before, after| before.last() < after.first()))
    }

    /// Number of the range.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    const fn depth(self) -> u32 {
        self.0.ilog2()
    }

    /// Lowest hash of the range.
    #[must_use]
    pub const fn first(self) -> ItemHash {
        let free_bits = u64::BITS - self.depth();
        match self.0.checked_shl(free_bits) {
            // The highest bit of the number, which marks the depth, is shifted out.
            Some(first) => ItemHash(first),
            None => ItemHash(0),
        }
    }

    /// Highest hash of the range.
    #[must_use]
    pub const fn last(self) -> ItemHash {
        match u64::MAX.checked_shr(self.depth()) {
            Some(free) => ItemHash(self.first().0 | free),
            None => self.first(),
        }
    }

    /// All hashes of the range.
    #[must_use]
    pub const fn hashes(self) -> RangeInclusive<ItemHash> {
        self.first()..=self.last()
    }

    /// The range's parts, in order; empty if they would be too deep.
    fn parts(self, levels: u32) -> impl Iterator<Item = Self> {
        let is_deep = self.depth() + levels > DEPTH_MAX;
        let count = if is_deep { 0 } else { 1 << levels };
        (0..count).map(move |place| Self(self.0 << levels | place))
    }
}

/// Index of the range that has a hash, among ranges in order.
pub(super) fn place_of(ranges: &[HashRange], hash: ItemHash) -> Option<usize> {
    let place = ranges.partition_point(|range| range.last() < hash);
    ranges.get(place).is_some_and(|range| range.first() <= hash).then_some(place)
}

/// Figures of the items in a range.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RangeFigures {
    /// Sum of the digests of the items, including deferred events.
    pub digest: u64,
    /// Number of live items.
    pub item_count: u64,
}

/// Items of a region of one copy, read at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeCopy {
    /// The object; its state has only the items of the region.
    pub object: Object,
    /// Sum of the digests of all other items.
    pub rest: u64,
}

/// Result of merging the items that another copy has sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RangesTaken {
    /// The items were merged.
    Merged(Box<PagedObject>),
    /// This copy had seen all events of the other.
    Known,
    /// The copies may now differ outside the ranges. The comparison has to begin again.
    Stale,
    /// The copies can't be merged by ranges. The whole object has to be sent.
    NeedsWhole,
}

/// Search for the ranges in which two copies differ.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeWalk {
    /// Ranges that still have to be compared.
    open: Vec<HashRange>,
    /// Ranges that differ and are small enough to be sent.
    found: Vec<HashRange>,
    /// Number of items of the whole, and of the ranges in `found`.
    item_count: u64,
    found_item_count: u64,
}

impl RangeWalk {
    /// Starts a search; one of the copies has this number of items.
    #[must_use]
    pub fn new(item_count: u64) -> Self {
        let levels = if item_count > 64 * SENT_ITEM_COUNT { 2 * PART_LEVELS } else { PART_LEVELS };
        let open = HashRange::ALL.parts(levels).collect();
        Self { open, found: Vec::new(), item_count, found_item_count: 0 }
    }

    /// Returns the next ranges to compare, in order; empty at the end.
    pub fn ask(&mut self) -> Vec<HashRange> {
        let count = self.open.len().min(COMPARED_RANGE_COUNT_MAX);
        let mut asked = self.open.split_off(self.open.len() - count);
        asked.sort_unstable_by_key(|range| range.first());
        asked
    }

    /// Records a range that differs; `item_count` is the higher of the two copies' numbers of items
    /// in it. Returns false if the copies differ so much that the whole object should be sent.
    #[must_use]
    pub fn differs(&mut self, range: HashRange, item_count: u64) -> bool {
        let found_before = self.open.len();
        if item_count > SENT_ITEM_COUNT {
            self.open.extend(range.parts(PART_LEVELS));
        }
        if self.open.len() == found_before {
            self.found.push(range);
            self.found_item_count = self.found_item_count.saturating_add(item_count);
        }
        self.open.len() <= SENT_RANGE_COUNT_MAX
            && self.found.len() <= SENT_RANGE_COUNT_MAX
            && self.found_item_count <= (self.item_count / 2).max(8 * SENT_ITEM_COUNT)
    }

    /// Returns the ranges that differ, in order.
    #[must_use]
    pub fn into_found(self) -> Vec<HashRange> {
        let mut found = self.found;
        found.sort_unstable_by_key(|range| range.first());
        found
    }
}

impl PagedObject {
    /// All events that the copy has seen.
    ///
    /// # Errors
    ///
    /// Returns an error if the stored events are damaged.
    pub fn causal_clock(&self) -> Result<CausalClock, StoredFormError> {
        self.object().causal_clock()
    }

    /// Reads the items of a region, and the sum of the digests of all others. Reads all pages of
    /// the record, one at a time, and those pages of large fields that are needed.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be read, or the pages do not match the root.
    pub fn read_ranges<P: Pages + ?Sized>(
        &self,
        region: &Region,
        pages: &mut P,
    ) -> Result<RangeCopy, P::Error> {
        let clock = self.causal_clock()?;
        let (items, rest) = self.split(region, &clock, true, pages)?;
        let mut record = self.root().shell.record.clone();
        record.content.append(items);
        let state = State::from_record(self.root().datatype(), record);
        let mut object = self.object().clone();
        if let Some(place) = object.siblings.iter().position(Sibling::is_data_type) {
            let life = object.siblings.remove(place).life();
            object.push_state(&state, &clock, life);
        }
        Ok(RangeCopy { object, rest })
    }

    /// Sum of the digests of all items outside a region. Reads the pages that
    /// [`PagedObject::read_ranges`] does, except those needed only for the items of the region.
    ///
    /// # Errors
    ///
    /// As [`PagedObject::read_ranges`].
    pub fn rest<P: Pages + ?Sized>(&self, region: &Region, pages: &mut P) -> Result<u64, P::Error> {
        let (_, rest) = self.split(region, &self.causal_clock()?, false, pages)?;
        Ok(rest)
    }

    fn split<P: Pages + ?Sized>(
        &self,
        region: &Region,
        clock: &CausalClock,
        wants_items: bool,
        pages: &mut P,
    ) -> Result<(Content, u64), P::Error> {
        let mut trunk = self.root().trunk.clone();
        let (mut items, mut rest) = (trunk.empty_like(), 0u64);
        for page in trunk.table.pages() {
            let Some((content, _)) = trunk.take_page(0, page, pages)? else { continue };
            let mut splitter = CopySplitter { pages: &mut *pages, clock, wants_items };
            let (some, others) = splitter.split(content, 0, region, 1)?;
            rest = rest.wrapping_add(others);
            if wants_items {
                items.append(some);
            }
        }
        if trunk.counts_nothing() { Ok((items, rest)) } else { Err(other_pages().into()) }
    }

    /// Merges the items that another copy has in a region. `compared` is the clock that this copy
    /// had when the sum of its other items was equal to that of the other copy. Reads and writes
    /// the pages of the region.
    ///
    /// # Errors
    ///
    /// Returns an error if a page can't be read or written.
    pub fn take_ranges<P: Pages>(
        self,
        region: &Region,
        theirs: &Object,
        compared: &CausalClock,
        pages: &mut P,
    ) -> Result<RangesTaken, P::Error> {
        let (mut clock, their_clock) = (self.causal_clock()?, theirs.causal_clock()?);
        let (generation, mut object, root) = self.into_parts();
        let is_plain = |object: &Object| !object.siblings.iter().all(Sibling::is_data_type);
        let their_state = theirs.data_type()?.unwrap_or_else(|| State::empty(root.datatype()));
        if is_plain(&object) || is_plain(theirs) || their_state.datatype() != root.datatype() {
            return Ok(RangesTaken::NeedsWhole);
        }
        if clock.covers(&their_clock) {
            return Ok(RangesTaken::Known);
        }
        if !is_sound(&clock, compared, &their_clock, &their_state, region) {
            return Ok(RangesTaken::Stale);
        }
        if !their_state.record.content.is_in(0, region) {
            return Ok(RangesTaken::NeedsWhole);
        }
        let mut loaded = Loaded::read_region(root, region, pages)?;
        let is_behind = their_clock.covers(&clock);
        let state = loaded.state_mut();
        let items = state.record.content.take_region(0, region);
        let rest = std::mem::replace(&mut state.record.content, items);
        state.merge(&mut clock, &their_state, &their_clock);
        state.record.content.join_region(rest);
        let root = loaded.store(pages)?;
        let life = |object: &Object| object.siblings.first().map(Sibling::life);
        let life = match (life(&object), life(theirs)) {
            (Some(_), Some(theirs)) if is_behind => theirs,
            (Some(ours), Some(theirs)) => ours.merge(theirs),
            (life, None) | (None, life) => life.unwrap_or_default(),
        };
        replace_root(&mut object, &root, &clock, life);
        Ok(RangesTaken::Merged(Box::new(Self::from_parts(generation, object, root))))
    }
}

/// True if all events that this copy has seen since `compared` are new to the other copy, and no
/// field of the other copy defers one of them. Otherwise the other copy may have undone such an
/// event outside the region: for a narrowed field only the writes in the region would be undone
/// here.
fn is_sound(
    clock: &CausalClock,
    compared: &CausalClock,
    their_clock: &CausalClock,
    theirs: &State,
    region: &Region,
) -> bool {
    if !clock.covers(compared) {
        // The record was deleted and created anew in between.
        return false;
    }
    let since = clock.beyond(compared);
    let mut new_to_them = since.clone();
    new_to_them.subtract(their_clock);
    new_to_them == since && !theirs.record.defers_any(region, &since)
}

fn other_pages() -> StoredFormError {
    StoredFormError::BadForm { what: "other pages than its root knows of", at: 0 }
}

/// The pages that some ranges touch; ranges and pages are in order.
pub(super) fn pages_of(
    table: PageTable,
    ranges: &[HashRange],
) -> impl Iterator<Item = PageRange> + use<> {
    let ranges: Vec<HashRange> = ranges.to_vec();
    let mut next = 0;
    let mut after: Option<PageRange> = None;
    std::iter::from_fn(move || {
        // Takes the page after the last one if the range continues there, else the page of the next
        // range.
        while let Some(range) = ranges.get(next) {
            let page = match after {
                Some(last) if last.last() >= range.last() => {
                    next += 1;
                    continue;
                }
                Some(last) if last.last() >= range.first() => table.page_after(last)?,
                _ => table.page_of(range.first()),
            };
            after = Some(page);
            return Some(page);
        }
        None
    })
}

impl Content {
    /// Takes out the elements or fields for whose hashes `is_asked_for` returns true. `seed` is the
    /// hash of the field that has this content; 0 for a record.
    pub(in crate::data_type) fn extract(
        &mut self,
        seed: u64,
        is_asked_for: impl Fn(ItemHash) -> bool,
    ) -> Self {
        match self {
            Self::Set(elements) => Self::Set(
                elements
                    .extract_if(.., |element, _| {
                        is_asked_for(ItemHash::of_element_in(element, seed))
                    })
                    .collect(),
            ),
            Self::Map(fields) => Self::Map(
                fields
                    .extract_if(.., |name, _| is_asked_for(ItemHash::of_field_in(name, seed)))
                    .collect(),
            ),
            other => unreachable!("{other:?} has no items"),
        }
    }
}
