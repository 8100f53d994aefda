//! Copies that become equal by ranges, compared with merges of whole objects.

use super::objects::Kept;
use super::{actor, coordinator, deep_operation, element, map_operation, set_operation};
use crate::clock::Actor;
use crate::data_type::pages::{
    HashRange, ItemHash, PagedObject, RangeCopy, RangeFigures, RangeWalk, RangesTaken, Region,
};
use crate::data_type::{
    CausalClock, Delta, FieldName, FieldOperation, FieldUpdate, MapOperation, Operation, SetChange,
};
use crate::object::Object;
use bytes::Bytes;
use proptest::prelude::*;

mod late;

const COPY_COUNT: usize = 3;

/// A copy that takes over items of another one, with its progress.
struct Repair {
    to: usize,
    from: usize,
    region: Region,
    /// The items that were read from the other copy, and its whole object at that time.
    read: Option<(RangeCopy, Object)>,
    /// Events that this copy had seen when it compared the rest.
    compared: Option<CausalClock>,
}

struct Copies {
    actors: [Actor; COPY_COUNT],
    kept: [Kept; COPY_COUNT],
    whole: [Object; COPY_COUNT],
    deltas: Vec<Delta>,
    repairs: Vec<Repair>,
    merged_count: usize,
}

/// The region in which two copies differ; `None` if one is not in pages, or they differ in too
/// much.
fn differing(ours: &mut Kept, theirs: &mut Kept) -> Option<Region> {
    let (mut region, mut paths) = (Region::default(), vec![Vec::new()]);
    while let Some(path) = paths.pop() {
        match differing_in(ours, theirs, &path) {
            Some(ranges) => {
                region.narrow(&path, ranges.clone());
                let own = ours.paged.as_ref()?;
                paths.extend(own.large_fields(&path, &ranges, 8, &mut ours.pages).unwrap());
            }
            None if path.is_empty() => return None,
            // The whole field is sent.
            None => {}
        }
    }
    Some(region)
}

fn differing_in(ours: &mut Kept, theirs: &mut Kept, path: &[FieldName]) -> Option<Vec<HashRange>> {
    let (own, other) = (ours.paged.as_ref()?, theirs.paged.as_ref()?);
    let (item_count, _) = own.range_figures(path, &[], &mut ours.pages).unwrap();
    let mut walk = RangeWalk::new(item_count);
    loop {
        let asked = walk.ask();
        if asked.is_empty() {
            return Some(walk.into_found());
        }
        let (_, own) = own.range_figures(path, &asked, &mut ours.pages).unwrap();
        let (_, others) = other.range_figures(path, &asked, &mut theirs.pages).unwrap();
        for (range, (own, other)) in asked.into_iter().zip(own.iter().zip(&others)) {
            let item_count = own.item_count.max(other.item_count);
            if own.digest != other.digest && !walk.differs(range, item_count) {
                return None;
            }
        }
    }
}

/// Digests and clock of everything that a copy holds.
pub(super) fn all_of(object: &Object) -> (u64, CausalClock, u64) {
    let clock = object.causal_clock().unwrap();
    let mut sum = 0u64;
    if let Some(state) = object.data_type().unwrap() {
        let content = &state.record.content;
        content.each_item_digest(&clock, 0, |_, digest, _| sum = sum.wrapping_add(digest));
    }
    (object.digest(), clock, sum)
}

impl Copies {
    fn of(first: &Operation) -> Self {
        let mut copies = Self {
            actors: [actor(b"one"), actor(b"two"), actor(b"three")],
            kept: Default::default(),
            whole: Default::default(),
            deltas: Vec::new(),
            repairs: Vec::new(),
            merged_count: 0,
        };
        copies.update(0, first, None);
        for to in 1..COPY_COUNT {
            copies.join(to, 0);
        }
        copies
    }

    fn update(&mut self, who: usize, operation: &Operation, context: Option<usize>) {
        let context = context.map(|other| self.whole[other].causal_clock().unwrap());
        let context = context.as_ref();
        let whole = self.whole[who].clone();
        let by = &self.actors[who];
        let updated =
            Object::update_data_type(Some(whole), operation, context, coordinator(by), None);
        let delta = self.kept[who].update_knowing(operation, context, by);
        assert_eq!(delta.is_some(), updated.is_ok());
        if let Ok(updated) = updated {
            self.whole[who] = updated;
        }
        self.deltas.extend(delta);
    }

    fn join(&mut self, who: usize, which: usize) {
        let Some(delta) = self.deltas.get(which) else { return };
        let whole = std::mem::take(&mut self.whole[who]);
        self.whole[who] = Object::join_data_type(Some(whole), delta, 9, None).unwrap().unwrap();
        assert!(self.kept[who].join(delta));
    }

    fn pair(&mut self, to: usize, from: usize) -> [&mut Kept; 2] {
        self.kept.get_disjoint_mut([to, from]).unwrap()
    }

    fn begin(&mut self, to: usize, from: usize) {
        let [ours, theirs] = self.pair(to, from);
        if let Some(region) = differing(ours, theirs) {
            self.repairs.push(Repair { to, from, region, read: None, compared: None });
        }
    }

    /// Takes the next step of a repair.
    fn go_on(&mut self, which: usize) {
        if which >= self.repairs.len() {
            return;
        }
        let mut repair = self.repairs.swap_remove(which);
        let from = &mut self.kept[repair.from];
        let Some((copy, whole)) = &repair.read else {
            if let Some(paged) = &from.paged {
                let copy = paged.read_ranges(&repair.region, &mut from.pages).unwrap();
                repair.read = Some((copy, self.whole[repair.from].clone()));
                self.repairs.push(repair);
            }
            return;
        };
        let to = &mut self.kept[repair.to];
        let Some(paged) = &to.paged else { return };
        let Some(compared) = &repair.compared else {
            if paged.rest(&repair.region, &mut to.pages).unwrap() == copy.rest {
                repair.compared = Some(paged.causal_clock().unwrap());
                self.repairs.push(repair);
            }
            return;
        };
        let paged = paged.clone();
        match paged.take_ranges(&repair.region, &copy.object, compared, &mut to.pages).unwrap() {
            RangesTaken::Merged(paged) => {
                to.paged = Some(*paged);
                to.settle();
                self.whole[repair.to] = self.whole[repair.to].merge(whole);
                self.merged_count += 1;
            }
            RangesTaken::Known => {
                let (own, theirs) = (&self.whole[repair.to], whole);
                assert_eq!(own.merge(theirs).digest(), own.digest());
            }
            RangesTaken::Stale => {}
            RangesTaken::NeedsWhole => panic!("nothing but states"),
        }
    }

    fn check(&mut self) {
        for (kept, whole) in self.kept.iter_mut().zip(&self.whole) {
            assert_eq!(all_of(&kept.object()), all_of(whole));
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// An operation, and the replica whose clock its client has read.
    Update(usize, Operation, Option<usize>),
    Join(usize, usize),
    Begin(usize, usize),
    GoOn(usize),
    Repair(usize, usize),
}

fn steps(operation: impl Strategy<Value = Operation>) -> impl Strategy<Value = Vec<Step>> {
    let who = || 0..COPY_COUNT;
    let two = || {
        (0..COPY_COUNT, 1..COPY_COUNT).prop_map(|(one, other)| (one, (one + other) % COPY_COUNT))
    };
    let step = prop_oneof![
        8 => (who(), operation, prop::option::of(who()))
            .prop_map(|(who, operation, context)| Step::Update(who, operation, context)),
        8 => (who(), 0..40usize).prop_map(|(who, which)| Step::Join(who, which)),
        4 => two().prop_map(|(to, from)| Step::Begin(to, from)),
        12 => (0..3usize).prop_map(Step::GoOn),
        1 => two().prop_map(|(to, from)| Step::Repair(to, from)),
    ];
    prop::collection::vec(step, 1..60)
}

/// Checks that a copy that has merged ranges equals the merge of the whole objects, whatever
/// happens in between.
fn check(first: &Operation, steps: Vec<Step>) {
    let mut copies = Copies::of(first);
    for step in steps {
        match step {
            Step::Update(who, operation, context) => copies.update(who, &operation, context),
            Step::Join(who, which) => copies.join(who, which),
            Step::Begin(to, from) => copies.begin(to, from),
            Step::GoOn(which) => copies.go_on(which),
            Step::Repair(to, from) => {
                let others = copies.repairs.len();
                copies.begin(to, from);
                let is_begun = copies.repairs.len() > others;
                let merged_before = copies.merged_count;
                (0..3).for_each(|_| copies.go_on(others));
                let (ours, theirs) = (&copies.whole[to], &copies.whole[from]);
                let lacks = |clock: CausalClock| !clock.covers(&theirs.causal_clock().unwrap());
                // There were no changes in between.
                assert!(!is_begun || !lacks(ours.causal_clock().unwrap()));
                assert!(copies.merged_count - merged_before <= 1);
            }
        }
        copies.check();
    }
}

fn many(count: u16) -> impl Iterator<Item = Bytes> {
    (0..count).map(element)
}

fn small_set_operation() -> impl Strategy<Value = Operation> {
    let change = (0..40u16, prop::bool::weighted(0.5)).prop_map(|(number, adds)| {
        if adds { SetChange::Add(element(number)) } else { SetChange::Remove(element(number)) }
    });
    prop::collection::vec(change, 1..4).prop_map(Operation::Set)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn sets_become_equal_by_ranges(steps in steps(small_set_operation())) {
        check(&Operation::Set(many(300).map(SetChange::Add).collect()), steps);
    }

    #[test]
    fn sets_of_any_size_become_equal_by_ranges(steps in steps(set_operation())) {
        check(&Operation::Set(many(200).map(SetChange::Add).collect()), steps);
    }

    #[test]
    fn maps_become_equal_by_ranges(steps in steps(map_operation())) {
        let updates = many(100).map(|name| FieldUpdate::new(name, FieldOperation::Counter(1)));
        let first = MapOperation { updates: updates.collect(), ..MapOperation::default() };
        check(&Operation::Map(first), steps);
    }

    #[test]
    fn maps_with_large_fields_become_equal_by_ranges(steps in steps(deep_operation())) {
        let updates = many(100).map(|name| FieldUpdate::new(name, FieldOperation::Counter(1)));
        let first = MapOperation { updates: updates.collect(), ..MapOperation::default() };
        check(&Operation::Map(first), steps);
    }

    #[test]
    fn ranges_are_told_by_their_numbers(number in 1..1u64 << 61, hash: u64) {
        let range = HashRange::new(number).unwrap();
        prop_assert!(range.first() <= range.last());
        let parts: Vec<_> = [2 * number, 2 * number + 1].map(HashRange::new).into();
        if let [Some(lower), Some(upper)] = parts[..] {
            prop_assert_eq!((range.first(), range.last()), (lower.first(), upper.last()));
            prop_assert_eq!(lower.last().0 + 1, upper.first().0);
            prop_assert!(HashRange::in_order(&[2 * number, 2 * number + 1]).is_some());
            prop_assert!(HashRange::in_order(&[2 * number + 1, 2 * number]).is_none());
            prop_assert!(HashRange::in_order(&[number, 2 * number + 1]).is_none());
        }
        prop_assert!(HashRange::ALL.hashes().contains(&ItemHash(hash)));
    }
}

#[test]
fn there_are_no_other_ranges() {
    assert_eq!(HashRange::new(0), None);
    assert_eq!(HashRange::new(1 << 61), None);
    assert_eq!(HashRange::new(1), Some(HashRange::ALL));
    assert_eq!(HashRange::in_order(&[]), Some(Vec::new()));
}

/// Two large sets that differ in one element compare a few ranges and send very little.
#[test]
fn what_is_compared_and_sent_follows_what_differs() {
    let first =
        Operation::Gset((0..100_000).map(|number| Bytes::from(number.to_string())).collect());
    let mut copies = Copies::of(&first);
    copies.update(0, &Operation::Gset(vec!["another".into()]), None);
    let [ours, theirs] = copies.pair(1, 0);
    let (own, other) = (ours.paged.take().unwrap(), theirs.paged.take().unwrap());
    let mut walk = RangeWalk::new(own.root().item_count());
    let (mut compared_count, mut step_count) = (0, 0);
    loop {
        let asked = walk.ask();
        if asked.is_empty() {
            break;
        }
        (compared_count, step_count) = (compared_count + asked.len(), step_count + 1);
        let (_, own) = own.range_figures(&[], &asked, &mut ours.pages).unwrap();
        let (_, others) = other.range_figures(&[], &asked, &mut theirs.pages).unwrap();
        let differ = |(_, (own, other)): &(_, (&RangeFigures, &RangeFigures))| own != other;
        let pairs = asked.into_iter().zip(own.iter().zip(&others)).filter(differ);
        pairs.for_each(|(range, (_, other))| assert!(walk.differs(range, other.item_count)));
    }
    assert_eq!((compared_count, step_count), (256 + 16, 2));
    let found = Region::from(walk.into_found());
    let copy = other.read_ranges(&found, &mut theirs.pages).unwrap();
    let mut sent = Vec::new();
    copy.object.encode_into(&mut sent);
    assert!(sent.len() < 1_500, "{} bytes", sent.len());
    assert_eq!(own.rest(&found, &mut ours.pages).unwrap(), copy.rest);
    (ours.pages.read_count, ours.pages.written_bytes) = (0, 0);
    let compared = own.causal_clock().unwrap();
    let taken = own.take_ranges(&found, &copy.object, &compared, &mut ours.pages).unwrap();
    let RangesTaken::Merged(own) = taken else { panic!("{taken:?}") };
    let (read_count, written) = (ours.pages.read_count, ours.pages.written_bytes);
    assert!(read_count <= 2 && written < 8_000, "{read_count} pages read, {written} bytes written");
    assert_eq!(own.object().digest(), other.object().digest());
    assert_eq!(own.root().item_count(), 100_001);
}

/// Two large sets in nested maps that differ in one element read, send and write little more.
#[test]
fn what_differs_in_a_large_set_in_a_map_is_all_that_is_sent() {
    let add = |elements: Vec<Bytes>| {
        let changes = elements.into_iter().map(SetChange::Add).collect();
        let tags = FieldUpdate::new("tags", FieldOperation::Set(changes));
        let inner = MapOperation { updates: vec![tags], ..MapOperation::default() };
        let update = FieldUpdate::new("inner", FieldOperation::Map(inner));
        Operation::Map(MapOperation { updates: vec![update], ..MapOperation::default() })
    };
    let all = (0..100_000).map(|number| Bytes::from(number.to_string())).collect();
    let mut copies = Copies::of(&add(all));
    copies.update(0, &add(vec!["another".into()]), None);
    copies.begin(1, 0);
    copies.go_on(0);
    let (copy, _) = copies.repairs[0].read.as_ref().unwrap();
    let mut sent = Vec::new();
    copy.object.encode_into(&mut sent);
    assert!(sent.len() < 1_500, "{} bytes", sent.len());
    copies.kept[1].pages.read_count = 0;
    copies.go_on(0);
    let compared = copies.kept[1].pages.read_count;
    assert!(compared <= 3, "{compared} pages read to compare the rest");
    copies.kept[1].pages.written_bytes = 0;
    copies.go_on(0);
    let written = copies.kept[1].pages.written_bytes;
    assert!(written < 8_000, "{written} bytes written");
    assert_eq!(copies.merged_count, 1);
    copies.check();
    assert_eq!(copies.kept[0].object().digest(), copies.kept[1].object().digest());
}
