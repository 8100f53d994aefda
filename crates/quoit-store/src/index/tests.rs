use super::page::PAGE_BYTES;
use super::*;
use crate::compare::{Digests, HashRange, Leaf, Scope};
use proptest::prelude::*;
use quoit_model::hash::Identity;
use std::collections::BTreeMap;

/// The SplitMix64 generator: the same sequence in every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

/// The `number`th entry of a sequence with uniformly distributed tags.
fn numbered(number: u64) -> IndexEntry {
    let identity = Identity(Random(number).next());
    IndexEntry {
        tag: Tag::of(identity),
        location: Location::new((number >> 20) as u32, (number & 0xf_ffff) * 16).unwrap(),
        size_class: SizeClass::of(number % 5000),
        tombstone: number.is_multiple_of(7),
        expires: number.is_multiple_of(11),
        collided: false,
        indexed: number.is_multiple_of(13),
        n_val_class: (number % 16) as u8,
        digest: Random(!number).next(),
    }
}

/// Like [`numbered`], but never expires, and all entries have the same class.
fn lasting(number: u64) -> IndexEntry {
    IndexEntry { expires: false, n_val_class: 3, ..numbered(number) }
}

fn bytes_per_entry(index: &PartitionIndex) -> f64 {
    index.memory_bytes() as f64 / index.entry_count() as f64
}

fn load(index: &PartitionIndex) -> f64 {
    index.entry_count() as f64 / index.capacity() as f64
}

type Model = BTreeMap<(Tag, Location), IndexEntry>;

/// Checks an index against its model.
fn check(index: &PartitionIndex, model: &Model) {
    let mut of_tag: BTreeMap<Tag, u64> = BTreeMap::new();
    model.keys().for_each(|(tag, _)| *of_tag.entry(*tag).or_default() += 1);
    let marked = |entry: &IndexEntry| IndexEntry { collided: of_tag[&entry.tag] > 1, ..*entry };
    let walked: Vec<IndexEntry> = index.iter().collect();
    assert!(walked.is_sorted_by_key(|entry| entry.tag), "entries are out of order");
    let mut walked_sorted = walked.clone();
    walked_sorted.sort_by_key(|entry| (entry.tag, entry.location));
    assert_eq!(walked_sorted, model.values().map(marked).collect::<Vec<_>>());
    assert_eq!(index.entry_count(), model.len() as u64);
    let tombstones = model.values().filter(|entry| entry.tombstone).count();
    assert_eq!(index.tombstone_count(), tombstones as u64);
    let keys = model.values().filter(|entry| !entry.is_piece());
    assert_eq!(index.key_count(), keys.count() as u64);
    check_digests(index, model);
    for (tag, count) in &of_tag {
        assert_eq!(index.candidates(*tag).count() as u64, *count);
        assert_eq!(index.iter_from(*tag).next().map(|entry| entry.tag), Some(*tag));
        let above = of_tag.range(*tag..).nth(1).map(|(tag, _)| *tag);
        let from = tag.next().and_then(|next| index.iter_from(next).next());
        assert_eq!(from.map(|entry| entry.tag), above);
    }
}

/// Values of `hour_min` that include all, some and none of the expiring entries.
const HOURS: [u32; 3] = [0, 1 << 20, 1 << 21];

/// True if a comparison of this scope includes the entry.
fn is_compared(entry: &IndexEntry, scope: Scope) -> bool {
    let hour = (entry.digest >> 43) as u32;
    let lasts = !entry.expires || hour >= scope.hour_min;
    lasts && !entry.is_piece() && entry.n_val_class == scope.n_val_class
}

fn check_digests(index: &PartitionIndex, model: &Model) {
    let deep =
        |tag: Tag, depth: u32| HashRange::from_number(1 << depth | tag.number() >> (40 - depth));
    let some = model.keys().step_by(model.len() / 3 + 1);
    let ranges: Vec<HashRange> = some
        .flat_map(|(tag, _)| [0, 1, 4, 7, 12, 28, 40].map(|depth| deep(*tag, depth).unwrap()))
        .chain(HashRange::ALL.parts())
        .collect();
    for hour_min in HOURS {
        let mut digests = Digests::default();
        for n_val_class in 0..N_VAL_CLASS_COUNT as u8 {
            let scope = Scope { n_val_class, hour_min };
            let compared = || model.values().filter(|entry| is_compared(entry, scope));
            compared().for_each(|entry| digests.toggle(n_val_class, &entry.leaf()));
        }
        assert_eq!(index.digests(hour_min), digests);
        for range in &ranges {
            let scope = Scope { n_val_class: 3, hour_min };
            let within = |entry: &&IndexEntry| (range.first()..=range.last()).contains(&entry.tag);
            let entries = model.values().filter(|entry| is_compared(entry, scope)).filter(within);
            let mut leaves: Vec<Leaf> = entries.map(IndexEntry::leaf).collect();
            let mut digests = Digests::default();
            leaves.iter().for_each(|leaf| digests.toggle(3, leaf));
            assert_eq!(index.range_digest(scope, *range), digests.of_class(3), "{range:?}");
            leaves.sort_unstable();
            assert_eq!(all_leaves(index, scope, *range, leaves.len() / 2), leaves);
        }
    }
}

/// Leaves of a range, read in pages.
fn all_leaves(index: &PartitionIndex, scope: Scope, range: HashRange, limit: usize) -> Vec<Leaf> {
    let mut leaves = Vec::new();
    let mut next = Some(Tag::MIN);
    while let Some(from) = next {
        let page = index.leaves(scope, range, from, limit);
        assert!(page.leaves.len() >= limit || page.next.is_none());
        leaves.extend(page.leaves);
        next = page.next;
    }
    leaves
}

/// Distribution of the tags of a test.
#[derive(Clone, Copy, Debug)]
enum Spread {
    Even,
    OneTag,
    FewTags,
    CommonPrefix,
    ShortCommonPrefix,
    Ascending,
}

impl Spread {
    fn tag(self, number: u64) -> Tag {
        let even = Random(number).next();
        Tag::from_number(match self {
            Self::Even => even,
            Self::OneTag => 0xab_cdef_0123,
            Self::FewTags => (even % 5) << 37 | 1,
            Self::CommonPrefix => 0xff_ffff_f000 | (even % 4096),
            Self::ShortCommonPrefix => 0xff_ff00_0000 | (even % (1 << 24)),
            Self::Ascending => number,
        })
    }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Insert,
    Remove(prop::sample::Index),
    Replace(prop::sample::Index),
    Relocate(prop::sample::Index),
    Miss(prop::sample::Index),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        6 => Just(Step::Insert),
        2 => any::<prop::sample::Index>().prop_map(Step::Remove),
        1 => any::<prop::sample::Index>().prop_map(Step::Replace),
        1 => any::<prop::sample::Index>().prop_map(Step::Relocate),
        1 => any::<prop::sample::Index>().prop_map(Step::Miss),
    ];
    prop::collection::vec(step, 0..300)
}

fn spread() -> impl Strategy<Value = Spread> {
    prop_oneof![
        Just(Spread::Even),
        Just(Spread::OneTag),
        Just(Spread::FewTags),
        Just(Spread::CommonPrefix),
        Just(Spread::ShortCommonPrefix),
        Just(Spread::Ascending),
    ]
}

/// An index and its model.
struct Pair {
    index: PartitionIndex,
    model: Model,
    next: u64,
    spread: Spread,
}

impl Pair {
    fn with(spread: Spread, count: u64) -> Self {
        let mut pair = Self { index: PartitionIndex::new(), model: Model::new(), next: 0, spread };
        (0..count).for_each(|_| pair.insert());
        pair
    }

    fn insert(&mut self) {
        let entry = IndexEntry { tag: self.spread.tag(self.next), ..numbered(self.next) };
        self.next += 1;
        self.index.insert(entry);
        self.model.insert((entry.tag, entry.location), entry);
    }

    fn remove(&mut self, (tag, location): (Tag, Location)) {
        let removed = self.index.remove(tag, location).unwrap();
        let expected = self.model.remove(&(tag, location)).unwrap();
        assert_eq!(IndexEntry { collided: false, ..removed }, expected);
    }

    fn pick(&self, which: prop::sample::Index) -> Option<(Tag, Location)> {
        let count = self.model.len();
        (count > 0).then(|| *self.model.keys().nth(which.index(count)).unwrap())
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Insert => self.insert(),
            Step::Remove(which) => {
                if let Some(key) = self.pick(which) {
                    self.remove(key);
                }
            }
            Step::Replace(which) => {
                if let Some((tag, location)) = self.pick(which) {
                    let entry = IndexEntry { tag, ..numbered(self.next) };
                    self.next += 1;
                    assert!(self.index.replace(tag, location, entry));
                    self.model.remove(&(tag, location));
                    self.model.insert((tag, entry.location), entry);
                }
            }
            Step::Relocate(which) => {
                if let Some((tag, location)) = self.pick(which) {
                    let to = numbered(self.next).location;
                    self.next += 1;
                    assert!(self.index.relocate(tag, location, to));
                    let entry = self.model.remove(&(tag, location)).unwrap();
                    self.model.insert((tag, to), IndexEntry { location: to, ..entry });
                }
            }
            Step::Miss(which) => {
                let nowhere = Location::new(Location::SEGMENT_MAX, 16).unwrap();
                if let Some((tag, _)) = self.pick(which) {
                    assert!(!self.index.relocate(tag, nowhere, Location::default()));
                    assert_eq!(self.index.remove(tag, nowhere), None);
                }
            }
        }
    }

    fn check(&self) {
        check(&self.index, &self.model);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_an_ordered_map(spread in spread(), before in 0..2500u64, steps in steps()) {
        let mut pair = Pair::with(spread, before);
        steps.into_iter().for_each(|step| pair.apply(step));
        pair.check();
    }

    #[test]
    fn behaves_like_an_ordered_map_while_it_empties(
        spread in spread(),
        before in 0..4000u64,
        keep in 0..4000usize,
        seed: u64,
    ) {
        let mut pair = Pair::with(spread, before);
        let mut random = Random(seed);
        let mut keys: Vec<_> = pair.model.keys().copied().collect();
        keys.sort_by_cached_key(|_| random.next());
        keys.iter().skip(keep).for_each(|key| pair.remove(*key));
        pair.check();
        // Each of the few groups has about a page of free places.
        let bytes_max = pair.index.entry_count() * 26 + 6 * PAGE_BYTES as u64;
        prop_assert!(pair.index.memory_bytes() <= bytes_max, "{} bytes", pair.index.memory_bytes());
    }

    #[test]
    fn a_written_index_reads_back(spread in spread(), count in 0..3000u64, limit in 1..2000usize) {
        let pair = Pair::with(spread, count);
        let mut run = Vec::new();
        let mut next = Some(Tag::MIN);
        while let Some(from) = next {
            next = pair.index.write_from(from, limit, &mut run);
        }
        prop_assert_eq!(run.len() as u64, count * ENTRY_BYTES as u64);
        let mut pair = Pair { index: PartitionIndex::from_run(&run).unwrap(), ..pair };
        pair.check();
        (0..200).for_each(|_| pair.insert());
        pair.check();
    }

    #[test]
    fn entries_in_any_order_make_an_index(spread in spread(), count in 0..3000u64) {
        let pair = Pair::with(spread, count);
        let entry = |number| IndexEntry { tag: spread.tag(number), ..numbered(number) };
        check(&PartitionIndex::from_entries((0..count).map(entry).collect()), &pair.model);
    }

    #[test]
    fn outside_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = PartitionIndex::from_run(&bytes);
    }

    #[test]
    fn an_entry_survives_its_encoding(
        tag in 0..1u64 << 40, segment in 0..1u32 << 20, unit in 0..1u64 << 28, size: u64,
        flags: [bool; 4], n_val_class in 0..16u8, digest: u64,
    ) {
        let entry = IndexEntry {
            tag: Tag::from_number(tag),
            location: Location::new(segment, unit * 16).unwrap(),
            size_class: SizeClass::of(size),
            tombstone: flags[0],
            expires: flags[1],
            collided: flags[2],
            indexed: flags[3],
            n_val_class,
            digest,
        };
        prop_assert_eq!(IndexEntry::decode(&entry.encode()), entry);
        prop_assert_eq!(entry.location.segment(), segment);
        prop_assert_eq!(entry.location.offset_bytes(), unit * 16);
    }

    #[test]
    fn a_size_class_is_a_close_upper_bound(size in 0..=Location::OFFSET_END_BYTES) {
        let bound = SizeClass::of(size).size_bytes_max();
        let aligned = size.next_multiple_of(16);
        prop_assert!(bound >= aligned && bound - aligned <= aligned / 8, "{size} in {bound}");
    }
}

#[test]
fn locations_that_do_not_fit_are_refused() {
    assert_eq!(Location::new(Location::SEGMENT_MAX + 1, 0), None);
    assert_eq!(Location::new(0, Location::OFFSET_END_BYTES), None);
    assert_eq!(Location::new(0, 8), None);
}

#[test]
fn an_encoded_entry_has_the_bytes_of_the_specification() {
    let entry = IndexEntry {
        tag: Tag::of(Identity(0x0102_0304_05ff_ffff)),
        location: Location::new(0xabcde, 0x123_4567 * 16).unwrap(),
        size_class: SizeClass::of(1072),
        tombstone: true,
        expires: false,
        collided: true,
        indexed: false,
        n_val_class: 3,
        digest: 0x1112_1314_1516_1718,
    };
    let expected = [
        1, 2, 3, 4, 5, 0xab, 0xcd, 0xe1, 0x23, 0x45, 0x67, 33, 0x35, 0x11, 0x12, 0x13, 0x14, 0x15,
        0x16, 0x17, 0x18,
    ];
    assert_eq!(entry.encode(), expected);
}

#[test]
fn what_expires_is_digested_by_its_hour() {
    let mut index = PartitionIndex::new();
    let entry = |hour: u64| IndexEntry { expires: true, digest: hour << 43 | 77, ..numbered(1) };
    let of = |entry: IndexEntry| {
        let mut digests = Digests::default();
        digests.toggle(entry.n_val_class, &entry.leaf());
        digests
    };
    index.insert(entry(1000));
    assert_eq!(index.digests(1000), of(entry(1000)));
    assert_eq!(index.digests(1001), Digests::default());
    assert!(index.replace(entry(0).tag, entry(0).location, entry(1002)));
    assert_eq!(index.digests(1001), of(entry(1002)));
    index.remove(entry(0).tag, entry(0).location).unwrap();
    assert_eq!(index.digests(0), Digests::default());
}

#[test]
fn damaged_runs_are_refused() {
    let index = PartitionIndex::from_entries((0..100).map(numbered).collect());
    let mut run = Vec::new();
    assert_eq!(index.write_from(Tag::MIN, usize::MAX / ENTRY_BYTES, &mut run), None);
    let torn = PartitionIndex::from_run(&run[..run.len() - 1]).unwrap_err();
    assert_eq!(torn, RunError::Torn { size_bytes: 2099 });
    let mut marked = run.clone();
    marked[12] ^= 4;
    assert_eq!(PartitionIndex::from_run(&marked).unwrap_err(), RunError::WrongMark { number: 0 });
    run[21 * 50] = 0;
    assert_eq!(PartitionIndex::from_run(&run).unwrap_err(), RunError::Unordered { number: 50 });
}

#[test]
fn load_and_memory_keep_their_bounds_at_every_size() {
    let mut index = PartitionIndex::new();
    let (mut load_min, mut bytes_max) = (1.0f64, 0.0f64);
    for number in 1..=400_000 {
        index.insert(lasting(number));
        if number.is_multiple_of(1000) && number >= 5000 {
            load_min = load_min.min(load(&index));
            bytes_max = bytes_max.max(bytes_per_entry(&index));
        }
    }
    assert!(load_min >= 0.88, "load {load_min}");
    assert!(bytes_max <= 24.0, "{bytes_max} bytes an entry");
}

#[test]
fn load_recovers_from_mass_removals_and_growing_again() {
    let mut index = PartitionIndex::new();
    (0..200_000).for_each(|number| index.insert(lasting(number)));
    for (keep_one_in, step) in [(2, 1), (4, 2), (20, 4)] {
        for number in (0..200_000).step_by(step).filter(|number| number % keep_one_in != 0) {
            let entry = lasting(number as u64);
            index.remove(entry.tag, entry.location).unwrap();
        }
        assert!(load(&index) >= 0.86, "load {} with one in {keep_one_in}", load(&index));
        assert!(bytes_per_entry(&index) <= 24.75, "{}", bytes_per_entry(&index));
    }
    (200_000..390_000).for_each(|number| index.insert(lasting(number)));
    assert!(load(&index) >= 0.88, "load {}", load(&index));
    assert!(bytes_per_entry(&index) <= 24.0, "{}", bytes_per_entry(&index));
}

#[test]
fn a_loaded_index_is_dense() {
    let index = PartitionIndex::from_entries((0..150_000).map(lasting).collect());
    assert!(load(&index) >= 0.9, "load {}", load(&index));
    assert!(bytes_per_entry(&index) <= 23.5, "{}", bytes_per_entry(&index));
}

#[test]
fn crafted_tags_cost_memory_like_others() {
    for spread in [Spread::OneTag, Spread::CommonPrefix, Spread::ShortCommonPrefix] {
        let mut index = PartitionIndex::new();
        for number in 0..20_000 {
            index.insert(IndexEntry { tag: spread.tag(number), ..numbered(number) });
            assert!(index.memory_bytes() <= 26 * index.entry_count() + 6000, "{number}");
        }
    }
}

#[test]
fn an_emptied_index_gives_its_memory_back() {
    let mut index = PartitionIndex::new();
    (0..50_000).for_each(|number| index.insert(lasting(number)));
    for entry in (0..50_000).map(numbered) {
        index.remove(entry.tag, entry.location).unwrap();
    }
    assert_eq!(index.entry_count(), 0);
    assert!(index.memory_bytes() < 4096, "{}", index.memory_bytes());
}
