//! How two copies of a large set or map become equal without sending all of it.
//!
//! They compare sums of digests for ranges of hashes, and look closer where these differ ([`RangeWalk`]),
//! down to some ranges with few items. One side reads the items of these, and the sum of all other digests,
//! as they are at one moment ([`PagedObject::read_ranges`]); the other merges them if its own other items
//! have that sum, too ([`PagedObject::take_ranges`]). Then the two were equal in all that was not sent, and
//! the whole clock may be joined: an element that is not here was either sent or is known to be removed.
//!
//! Changes that come meanwhile do no harm where only one side knows of them: what both had, and what neither
//! had, stays so. Where the other side has seen such a change, too, it may know that it was undone, and
//! nothing is merged: the comparison begins again.

use super::object::{PagedObject, replace_root};
use super::region::Splitting;
use super::{ItemHash, Loaded, PageRange, PageTable, Pages, Region};
use crate::data_type::content::Content;
use crate::data_type::{CausalClock, State, StoredFormError};
use crate::object::{Object, Sibling};
use std::ops::RangeInclusive;

/// Deepest ranges: their numbers have 61 bits.
const DEPTH_MAX: u32 = 60;

/// Each range is compared by so many parts: 2 to the power of this.
const PART_LEVELS: u32 = 4;

/// A range with at most so many items on both sides is not divided further, but sent.
const SENT_ITEM_COUNT: u64 = 32;

/// Most ranges that two copies are compared by in one message.
pub const COMPARED_RANGE_COUNT_MAX: usize = 256;

/// Most ranges whose items are sent. Copies that differ in more are sent whole.
pub const SENT_RANGE_COUNT_MAX: usize = 4_096;

/// A range of item hashes: all that begin with the same bits.
///
/// Ranges are numbered as the nodes of a binary tree are: all hashes are 1, the halves of range `n` are `2 n`
/// and `2 n + 1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct HashRange(u64);

impl HashRange {
    /// All hashes.
    pub const ALL: Self = Self(1);

    /// The range with a number; `None` when there is none, or a deeper one than anybody asks for.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number == 0 || number.ilog2() > DEPTH_MAX { None } else { Some(Self(number)) }
    }

    /// Ranges with these numbers, if they are in the order of their hashes and none overlaps another.
    #[must_use]
    pub fn in_order(numbers: &[u64]) -> Option<Vec<Self>> {
        let ranges: Option<Vec<Self>> = numbers.iter().map(|number| Self::new(*number)).collect();
        ranges.filter(|ranges| ranges.is_sorted_by(|before, after| before.last() < after.first()))
    }

    /// Its number.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    const fn depth(self) -> u32 {
        self.0.ilog2()
    }

    /// The lowest hash in it.
    #[must_use]
    pub const fn first(self) -> ItemHash {
        let free_bits = u64::BITS - self.depth();
        match self.0.checked_shl(free_bits) {
            // The bit that says how deep it is goes beyond the end.
            Some(first) => ItemHash(first),
            None => ItemHash(0),
        }
    }

    /// The highest hash in it.
    #[must_use]
    pub const fn last(self) -> ItemHash {
        match u64::MAX.checked_shr(self.depth()) {
            Some(free) => ItemHash(self.first().0 | free),
            None => self.first(),
        }
    }

    /// All its hashes.
    #[must_use]
    pub const fn hashes(self) -> RangeInclusive<ItemHash> {
        self.first()..=self.last()
    }

    /// Its parts, in order; none when it is one of the deepest.
    fn parts(self, levels: u32) -> impl Iterator<Item = Self> {
        let is_deep = self.depth() + levels > DEPTH_MAX;
        let count = if is_deep { 0 } else { 1 << levels };
        (0..count).map(move |place| Self(self.0 << levels | place))
    }
}

/// Which of some ranges in order a hash is in.
pub(super) fn place_of(ranges: &[HashRange], hash: ItemHash) -> Option<usize> {
    let place = ranges.partition_point(|range| range.last() < hash);
    ranges.get(place).is_some_and(|range| range.first() <= hash).then_some(place)
}

/// Figures of a range.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct RangeFigures {
    /// Sum of the digests of its items, with what they wait for.
    pub digest: u64,
    /// Items that count.
    pub item_count: u64,
}

/// Copy of a region's items, as of one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeCopy {
    /// The object, of whose state only the items of the region are there.
    pub object: Object,
    /// Sum of the digests of all other items.
    pub rest: u64,
}

/// Result of taking items that another copy has sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RangesTaken {
    /// They were merged.
    Merged(Box<PagedObject>),
    /// All that the other copy had seen was known.
    Known,
    /// The two copies differ in more than these ranges by now: compare again.
    Stale,
    /// They can't be merged by ranges: send the whole object.
    NeedsWhole,
}

/// Finds the ranges that two copies differ in.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RangeWalk {
    /// Ranges that are to be compared.
    open: Vec<HashRange>,
    /// Ranges that differ and are small enough to be sent.
    found: Vec<HashRange>,
    /// Items of the whole, and of what is to be sent.
    item_count: u64,
    found_item_count: u64,
}

impl RangeWalk {
    /// Of copies of which one has so many items.
    #[must_use]
    pub fn new(item_count: u64) -> Self {
        let levels = if item_count > 64 * SENT_ITEM_COUNT { 2 * PART_LEVELS } else { PART_LEVELS };
        let open = HashRange::ALL.parts(levels).collect();
        Self { open, found: Vec::new(), item_count, found_item_count: 0 }
    }

    /// The ranges that are to be compared next, in order; none at the end.
    pub fn ask(&mut self) -> Vec<HashRange> {
        let count = self.open.len().min(COMPARED_RANGE_COUNT_MAX);
        let mut asked = self.open.split_off(self.open.len() - count);
        asked.sort_unstable_by_key(|range| range.first());
        asked
    }

    /// Takes note of a range that differs, and of the number of items that one of the copies has in it: the
    /// higher one. False when they differ in so much that it is better sent whole.
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

    /// The ranges that differ, in order.
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
    /// When what is stored of them is damaged.
    pub fn causal_clock(&self) -> Result<CausalClock, StoredFormError> {
        self.object().causal_clock()
    }

    /// The items of a region, and the sum of all others' digests. Reads all pages of the record, one by one,
    /// and of large fields those that it has to.
    ///
    /// # Errors
    ///
    /// When a page can't be read, or they are not those that belong to the root.
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

    /// The sum of the digests of all items beside those of a region. Reads what
    /// [`PagedObject::read_ranges`] does, but not what is in the region.
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
        let (mut items, mut rest) = (trunk.no_items(), 0u64);
        for page in trunk.table.pages() {
            let Some((content, _)) = trunk.take_page(0, page, pages)? else { continue };
            let mut splitting = Splitting { pages: &mut *pages, clock, wants_items };
            let (some, others) = splitting.split(content, 0, region, 1)?;
            rest = rest.wrapping_add(others);
            if wants_items {
                items.append(some);
            }
        }
        if trunk.is_bare() { Ok((items, rest)) } else { Err(other_pages().into()) }
    }

    /// Merges what another copy has in a region. `compared` is what this copy had seen when its other items
    /// had the same sum as the other copy's. Reads and writes the pages of the region.
    ///
    /// # Errors
    ///
    /// When a page can't be read or written.
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

/// Whether what the copy has seen since `compared` is all new to the other copy. What both have seen by now,
/// but not one of them then, may have been undone there. So has what a field of the other copy waits for to
/// undo it: of a field that is narrowed, only what is in the region would be.
fn is_sound(
    clock: &CausalClock,
    compared: &CausalClock,
    their_clock: &CausalClock,
    theirs: &State,
    region: &Region,
) -> bool {
    if !clock.covers(compared) {
        // It is another life of the record.
        return false;
    }
    let since = clock.beyond(compared);
    let mut new_to_them = since.clone();
    new_to_them.subtract(their_clock);
    new_to_them == since && !theirs.record.waits_around(region, &since)
}

fn other_pages() -> StoredFormError {
    StoredFormError::BadForm { what: "other pages than its root knows of", at: 0 }
}

/// The pages that ranges in order touch, in order.
pub(super) fn pages_of(
    table: PageTable,
    ranges: &[HashRange],
) -> impl Iterator<Item = PageRange> + use<> {
    let ranges: Vec<HashRange> = ranges.to_vec();
    let mut next = 0;
    let mut after: Option<PageRange> = None;
    std::iter::from_fn(move || {
        // The page after the last one, if the range goes on there; else that of the next range beyond it.
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
    /// Takes out the elements or fields whose hashes are asked for. `seed` is the hash of the field that it
    /// is the content of, 0 for that of a record.
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
