//! Merges of copies in pages, page by page, compared with merges of whole objects.

use super::objects::Kept;
use super::ranges::all_of;
use super::{Stored, actor, coordinator, deep_operation, element, map_operation, set_operation};
use crate::clock::{Actor, Dot, VersionVector};
use crate::data_type::pages::{OtherCopy, PageName, PagedObject, Pages, PagesMerged};
use crate::data_type::{
    CausalClock, Delta, FieldName, FieldOperation, FieldUpdate, MapOperation, Operation, SetChange,
    StoredFormError,
};
use crate::merge::{NewValue, WritePolicy};
use crate::object::{IndexEntry, IndexTerm, Metadata, Object, Sibling};
use crate::secondary_index::index_entries_of;
use bytes::Bytes;
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const COPY_COUNT: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// An operation, and the replica whose clock its client has read.
    Update(usize, Operation, Option<usize>),
    /// An earlier delta arrives.
    Join(usize, usize),
    /// One copy merges another, which it receives whole or in pages.
    Merge { to: usize, from: usize, is_whole: bool },
    /// A plain value or a delete, and the replica whose clock its client has read.
    Put { who: usize, deleted: bool, context: Option<usize>, policy: WritePolicy },
    /// A merge of the bucket whose last write wins.
    Last { to: usize, from: usize },
}

fn steps(operation: impl Strategy<Value = Operation>) -> impl Strategy<Value = Vec<Step>> {
    let who = || 0..COPY_COUNT;
    let two = || {
        (0..COPY_COUNT, 1..COPY_COUNT).prop_map(|(one, other)| (one, (one + other) % COPY_COUNT))
    };
    let policy = prop::sample::select(vec![
        WritePolicy::Siblings,
        WritePolicy::LatestModified,
        WritePolicy::LastWriteWins,
    ]);
    let step = prop_oneof![
        12 => (who(), operation, prop::option::of(who()))
            .prop_map(|(who, operation, context)| Step::Update(who, operation, context)),
        8 => (who(), 0..30usize).prop_map(|(who, which)| Step::Join(who, which)),
        8 => (two(), any::<bool>())
            .prop_map(|((to, from), is_whole)| Step::Merge { to, from, is_whole }),
        2 => (who(), any::<bool>(), prop::option::of(who()), policy).prop_map(
            |(who, deleted, context, policy)| Step::Put { who, deleted, context, policy }
        ),
    ];
    let last = prop::option::weighted(0.1, two())
        .prop_map(|two| two.map(|(to, from)| Step::Last { to, from }));
    (prop::collection::vec(step, 1..50), last)
        .prop_map(|(steps, last)| steps.into_iter().chain(last).collect())
}

#[derive(Default)]
struct Copies {
    kept: [Kept; COPY_COUNT],
    whole: [Object; COPY_COUNT],
    deltas: Vec<Delta>,
    plain_count: u64,
    /// Number of merges in pages, and number of merges with other pages.
    merged: [usize; 2],
}

fn author(who: usize) -> Actor {
    actor([&b"one"[..], b"two", b"three"][who])
}

impl Copies {
    fn update(&mut self, who: usize, operation: &Operation, context: Option<usize>) {
        let context = context.map(|other| self.whole[other].causal_clock().unwrap());
        let (context, by) = (context.as_ref(), author(who));
        let whole = self.whole[who].clone();
        let updated =
            Object::update_data_type(Some(whole), operation, context, coordinator(&by), None);
        let delta = self.kept[who].update_knowing(operation, context, &by);
        assert_eq!(delta.is_some(), updated.is_ok());
        if let Ok(updated) = updated {
            self.whole[who] = updated;
        }
        self.deltas.extend(delta);
    }

    fn join(&mut self, who: usize, which: usize) {
        let Some(delta) = self.deltas.get(which) else { return };
        let whole = self.whole[who].clone();
        let joined = Object::join_data_type(Some(whole), delta, 9, None).unwrap();
        assert_eq!(self.kept[who].join(delta), joined.is_some());
        if let Some(joined) = joined {
            self.whole[who] = joined;
        }
    }

    fn merge(&mut self, to: usize, from: usize, is_whole: bool) {
        let expected = self.whole[to].merge(&self.whole[from]);
        let [ours, theirs] = self.kept.get_disjoint_mut([to, from]).unwrap();
        let their_object = theirs.object();
        let Some(paged) = ours.paged.clone() else {
            let own = ours.object();
            ours.replace(own.merge(&their_object));
            self.whole[to] = expected;
            return;
        };
        let merged = match &theirs.paged {
            Some(others) if !is_whole => {
                self.merged[1] += 1;
                paged.merge(OtherCopy::Paged(others, &mut theirs.pages), &mut ours.pages)
            }
            _ => paged.merge(OtherCopy::Whole(&their_object), &mut ours.pages),
        };
        self.merged[0] += 1;
        let merged = merged.unwrap();
        if merged == PagesMerged::Other {
            // Nothing was written; the other object is the result of the merge.
            assert_eq!(all_of(&paged.whole(&mut ours.pages).unwrap()), all_of(&self.whole[to]));
            paged.remove_pages(&mut ours.pages).unwrap();
        }
        ours.become_merged(merged, Some(&their_object));
        self.whole[to] = expected;
    }

    fn put(&mut self, who: usize, deleted: bool, context: Option<usize>, policy: WritePolicy) {
        // A client's clock does not have the deferred events of its copy. A write with that clock
        // would leave copies with equal clocks and different deferred events, in pages or whole.
        let context = context.filter(|other| !waits(&self.whole[*other]));
        let context = context.map(|other| self.whole[other].clock.clone()).unwrap_or_default();
        self.plain_count += 1;
        let new = NewValue {
            deleted,
            last_modified_us: 1_000_000 + self.plain_count % 3,
            value: if deleted { Bytes::new() } else { "plain".into() },
            ..NewValue::default()
        };
        let name = [&b"plain one"[..], b"plain two", b"plain three"][who];
        let dot = Dot { actor: actor(name), counter: self.plain_count, time_secs: 1 };
        let write = |stored: &Object| {
            Object::write(Some(stored), &context, new.clone(), dot.clone(), policy)
        };
        let expected = write(&self.whole[who]);
        let kept = &mut self.kept[who];
        match kept.paged.clone() {
            Some(paged) => {
                let merged = paged.write(&context, new, dot.clone(), policy, &mut kept.pages);
                let merged = merged.unwrap();
                if policy == WritePolicy::Siblings {
                    self.check_told(who, &expected, &merged, &context, &dot);
                }
                self.kept[who].become_merged(merged, None);
            }
            None => {
                let own = kept.object();
                kept.replace(write(&own));
            }
        }
        self.whole[who] = expected;
    }

    /// Checks that the smaller object has the effect of the whole write on a replica that knew the
    /// stored object.
    fn check_told(
        &self,
        who: usize,
        expected: &Object,
        merged: &PagesMerged,
        context: &VersionVector,
        dot: &Dot,
    ) {
        let PagesMerged::Paged(paged) = merged else { return };
        let before = &self.whole[who];
        let earlier = before.clock.counter(&dot.actor);
        let told = paged.replication_object(context, dot, earlier);
        assert_eq!(told.is_some(), earlier <= context.counter(&dot.actor), "all have events");
        let Some(told) = told else { return };
        assert!(!told.has_data_type());
        assert_eq!(all_of(&before.merge(&told)), all_of(expected));
        // The smaller object does not have a copy's deferred events either.
        if self.whole.iter().any(waits) {
            return;
        }
        for other in &self.whole {
            let all = other.merge(expected);
            let alone = other.merge(before).merge(&told);
            assert_eq!(all_of(&alone), all_of(&all));
            // The order of the two merges does not matter.
            assert_eq!(all_of(&other.merge(&told).merge(before)), all_of(&all));
        }
    }

    fn last(&mut self, to: usize, from: usize) {
        let expected = self.whole[to].merge_last_write_wins(&self.whole[from]);
        let [ours, theirs] = self.kept.get_disjoint_mut([to, from]).unwrap();
        let theirs = theirs.object();
        if let Some(paged) = ours.paged.clone() {
            let merged = paged.merge_last_write_wins(&theirs, &mut ours.pages).unwrap();
            if merged != PagesMerged::NeedsWhole {
                ours.become_merged(merged, None);
                assert_eq!(ours.object().digest(), expected.digest());
            }
        }
    }

    fn check(&mut self) {
        for (kept, whole) in self.kept.iter_mut().zip(&self.whole) {
            let own = kept.object();
            assert_eq!(all_of(&own), all_of(whole));
            assert_eq!(described(&own), described(whole));
            kept.check();
            if let Some(paged) = &kept.paged {
                assert_eq!(paged.object().digest(), whole.digest());
            }
        }
    }
}

fn waits(object: &Object) -> bool {
    object.data_type().unwrap().is_some_and(|state| state.record.deferred_run_count() > 0)
}

/// All of an object except its state and its clock.
fn described(object: &Object) -> Vec<Sibling> {
    let plain = |sibling: &Sibling| {
        let value = if sibling.is_data_type() { Bytes::new() } else { sibling.value.clone() };
        Sibling { value, ..sibling.clone() }
    };
    let mut siblings: Vec<Sibling> = object.siblings.iter().map(plain).collect();
    siblings
        .sort_by_key(|sibling| sibling.dot.as_ref().map(|dot| (dot.actor.clone(), dot.counter)));
    siblings
}

/// Checks that merges of three copies in pages have the results of merges of whole objects,
/// whatever was done to them.
fn check(first: Operation, steps: Vec<Step>) -> [usize; 2] {
    let mut copies = Copies::default();
    copies.update(0, &first, None);
    for to in 1..COPY_COUNT {
        copies.join(to, 0);
    }
    for step in steps {
        match step {
            Step::Update(who, operation, context) => copies.update(who, &operation, context),
            Step::Join(who, which) => copies.join(who, which),
            Step::Merge { to, from, is_whole } => copies.merge(to, from, is_whole),
            Step::Put { who, deleted, context, policy } => {
                copies.put(who, deleted, context, policy);
            }
            Step::Last { to, from } => {
                copies.last(to, from);
                break;
            }
        }
        copies.check();
    }
    copies.merged
}

fn many(count: u16) -> impl Iterator<Item = Bytes> {
    (0..count).map(element)
}

fn counters() -> Operation {
    let updates = many(100).map(|name| FieldUpdate::new(name, FieldOperation::Counter(1)));
    Operation::Map(MapOperation { updates: updates.collect(), ..MapOperation::default() })
}

/// A replica that received only the second value would count the first one, and what it has
/// replaced, as known.
#[test]
fn a_value_whose_writer_has_not_read_the_one_before_it_goes_with_the_whole_object() {
    let adds = |count| Operation::Set(many(count).map(SetChange::Add).collect());
    let put =
        |context| Step::Put { who: 1, deleted: false, context, policy: WritePolicy::Siblings };
    let steps = vec![
        Step::Update(1, adds(33), None),
        Step::Merge { to: 0, from: 1, is_whole: false },
        put(Some(2)),
        put(None),
    ];
    check(adds(200), steps);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn sets_are_merged_page_by_page(steps in steps(set_operation())) {
        check(Operation::Set(many(200).map(SetChange::Add).collect()), steps);
    }

    #[test]
    fn maps_are_merged_page_by_page(steps in steps(map_operation())) {
        check(counters(), steps);
    }

    #[test]
    fn maps_with_large_fields_are_merged_page_by_page(steps in steps(deep_operation())) {
        check(counters(), steps);
    }
}

/// The pages of a record, which count the pages that are in memory at a time.
#[derive(Default)]
struct Watched {
    stored: Stored,
    held: Arc<AtomicUsize>,
    held_max: usize,
    read_count: usize,
}

struct Held(Bytes, Arc<AtomicUsize>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Pages for Watched {
    type Error = StoredFormError;

    fn can_have_branches(&self) -> bool {
        true
    }

    fn read(&mut self, name: PageName) -> Result<Option<Bytes>, StoredFormError> {
        self.read_count += 1;
        let Some(page) = self.stored.read(name)? else { return Ok(None) };
        let held = self.held.fetch_add(1, Ordering::Relaxed) + 1;
        self.held_max = self.held_max.max(held);
        Ok(Some(Bytes::from_owner(Held(page, Arc::clone(&self.held)))))
    }

    fn write(&mut self, name: PageName, page: Option<&[u8]>) -> Result<(), StoredFormError> {
        self.stored.write(name, page)
    }

    fn remove(&mut self, name: PageName) -> Result<(), StoredFormError> {
        self.stored.remove(name)
    }
}

/// Adds to a set, or to a large set in nested maps.
fn large(is_map: bool, elements: impl Iterator<Item = u32>) -> Operation {
    let adds = elements.map(|number| SetChange::Add(format!("element {number:09}").into()));
    let adds = adds.collect();
    if !is_map {
        return Operation::Set(adds);
    }
    let inner = FieldUpdate::new("set", FieldOperation::Set(adds));
    let inner = MapOperation { updates: vec![inner], ..MapOperation::default() };
    let update = FieldUpdate::new("map", FieldOperation::Map(inner));
    Operation::Map(MapOperation { updates: vec![update], ..MapOperation::default() })
}

fn updated(stored: Option<Object>, operation: &Operation, by: &[u8]) -> Object {
    Object::update_data_type(stored, operation, None, coordinator(&actor(by)), None).unwrap()
}

fn divided(object: &Object, generation: u64) -> (PagedObject, Watched) {
    let mut pages = Watched::default();
    let paged = PagedObject::divide(object, generation, &mut pages).unwrap().unwrap();
    (paged, pages)
}

fn tombstone(context: &VersionVector) -> Object {
    let dot = Dot { actor: actor(b"plain"), counter: 9, time_secs: 1 };
    let new = NewValue { deleted: true, last_modified_us: 2, ..NewValue::default() };
    Object::write(None, context, new, dot, WritePolicy::Siblings)
}

/// Maximum number of pages in memory: one for each map on the path, in each copy.
const HELD_MAX: usize = 8;

/// Maximum number of pages that are split or joined at a time, in addition.
const FITTED_MAX: usize = 32;

#[test]
fn a_tombstone_of_all_takes_a_page_after_the_other_and_leaves_none() {
    for is_map in [false, true] {
        let object = updated(None, &large(is_map, 0..30_000), b"one");
        let (paged, mut pages) = divided(&object, 1);
        assert!(pages.stored.pages.len() > 300);
        let tombstone = tombstone(&object.clock);
        let merged = paged.merge(OtherCopy::Whole(&tombstone), &mut pages).unwrap();
        let PagesMerged::Whole(merged) = merged else { panic!("{merged:?}") };
        assert_eq!(merged, object.merge(&tombstone));
        assert!(pages.stored.pages.is_empty());
        assert!(pages.held_max <= HELD_MAX, "{} pages held", pages.held_max);
    }
}

#[test]
fn a_concurrent_tombstone_leaves_what_it_has_not_seen() {
    for is_map in [false, true] {
        let seen = updated(None, &large(is_map, 0..20_000), b"one");
        let object = updated(Some(seen.clone()), &large(is_map, 19_990..20_500), b"two");
        let (paged, mut pages) = divided(&object, 1);
        let tombstone = tombstone(&seen.clock);
        let merged = paged.merge(OtherCopy::Whole(&tombstone), &mut pages).unwrap();
        let PagesMerged::Paged(merged) = merged else { panic!("{merged:?}") };
        assert!(pages.held_max <= HELD_MAX + FITTED_MAX, "{} pages held", pages.held_max);
        let expected = object.merge(&tombstone);
        let found = merged.whole(&mut pages.stored).unwrap();
        assert_eq!(all_of(&found), all_of(&expected));
        let value = |object: &Object| object.data_type().unwrap().map(|state| state.value());
        assert_eq!(value(&found), value(&updated(None, &large(is_map, 19_990..20_500), b"x")));
    }
}

#[test]
fn what_another_copy_has_beyond_is_taken_a_page_at_a_time() {
    for is_map in [false, true] {
        let both = updated(None, &large(is_map, 0..50), b"one");
        for (own_count, other_count) in [(300, 20_000), (20_000, 300), (9_000, 20_000)] {
            let own = updated(Some(both.clone()), &large(is_map, 100..own_count), b"two");
            let other = large(is_map, 50_000..50_000 + other_count);
            let other = updated(Some(both.clone()), &other, b"three");
            let (paged, mut pages) = divided(&own, 1);
            let (others, mut other_pages) = divided(&other, 2);
            let merged = paged.merge(OtherCopy::Paged(&others, &mut other_pages), &mut pages);
            let PagesMerged::Paged(merged) = merged.unwrap() else { panic!("they differ") };
            let held = (pages.held_max, other_pages.held_max);
            assert!(held.0 <= HELD_MAX + FITTED_MAX && held.1 <= HELD_MAX, "{held:?} pages held");
            let expected = own.merge(&other);
            assert_eq!(all_of(&merged.whole(&mut pages.stored).unwrap()), all_of(&expected));
            let bytes = pages.stored.pages.values().map(Bytes::len);
            assert!(bytes.max().unwrap() < 8_000, "pages are as large as ever");
        }
    }
}

#[test]
fn pages_that_do_not_change_are_not_written() {
    let both = updated(None, &large(false, 0..20_000), b"one");
    let own = updated(Some(both.clone()), &large(false, 20_000..20_001), b"two");
    let other = updated(Some(both), &large(false, 30_000..30_001), b"three");
    let (paged, mut pages) = divided(&own, 1);
    pages.stored.written_bytes = 0;
    let merged = paged.merge(OtherCopy::Whole(&other), &mut pages).unwrap();
    assert!(matches!(merged, PagesMerged::Paged(_)), "{merged:?}");
    assert!(pages.stored.written_bytes < 8_000, "{} bytes", pages.stored.written_bytes);
}

#[test]
fn clocks_decide_where_one_has_seen_all_of_the_other() {
    let own = updated(None, &large(false, 0..1_000), b"one");
    let later = updated(Some(own.clone()), &large(false, 1_000..1_001), b"two");
    let (paged, mut pages) = divided(&own, 1);
    let (later_paged, mut later_pages) = divided(&later, 2);
    pages.read_count = 0;
    let merged = paged.merge(OtherCopy::Paged(&later_paged, &mut later_pages), &mut pages);
    assert_eq!(merged.unwrap(), PagesMerged::Other);
    let merged = later_paged.merge(OtherCopy::Whole(&own), &mut later_pages).unwrap();
    assert_eq!(merged, PagesMerged::Known);
    paged.remove_pages(&mut pages).unwrap();
    assert_eq!((pages.read_count, later_pages.read_count), (0, 0));
    assert!(pages.stored.pages.is_empty());
}

#[test]
fn plain_values_beside_pages_keep_their_index_entries() {
    let own = updated(None, &large(false, 0..1_000), b"one");
    let (paged, mut pages) = divided(&own, 1);
    let term = IndexTerm::integer(7);
    let entry = IndexEntry { field: "number_int".into(), term };
    let meta = Metadata { indexes: vec![entry.clone()], ..Metadata::default() };
    let new = NewValue { meta, value: "plain".into(), ..NewValue::default() };
    let dot = Dot { actor: actor(b"plain"), counter: 9, time_secs: 1 };
    let blind = VersionVector::default();
    let written = paged.write(&blind, new, dot, WritePolicy::Siblings, &mut pages).unwrap();
    let PagesMerged::Paged(written) = written else { panic!("{written:?}") };
    let mut stored = Vec::new();
    written.encode_into(&mut stored);
    assert!(written.object().has_index_entries());
    assert_eq!(index_entries_of(&stored).unwrap(), [entry]);
}

#[test]
fn missing_pages_fail_the_merge() {
    let own = updated(None, &large(false, 0..1_000), b"one");
    let other = updated(None, &large(false, 500..1_500), b"two");
    let (paged, mut pages) = divided(&own, 1);
    let (others, mut other_pages) = divided(&other, 2);
    let place = *pages.stored.pages.keys().nth(1).unwrap();
    let page = other_pages.stored.pages.remove(&place);
    assert!(page.is_some());
    let merge = |others_pages: &mut Watched, pages: &mut Watched| {
        paged.merge(OtherCopy::Paged(&others, others_pages), pages).is_err()
    };
    assert!(merge(&mut other_pages, &mut pages));
    let (_, mut pages) = divided(&own, 1);
    other_pages.stored.pages.insert(place, page.unwrap());
    pages.stored.pages.remove(&place);
    assert!(merge(&mut other_pages, &mut pages));
}

#[test]
fn other_types_are_left_to_whole_objects() {
    let own = updated(None, &large(false, 0..1_000), b"one");
    let other = updated(None, &large(true, 0..10), b"two");
    let (paged, mut pages) = divided(&own, 1);
    let merged = paged.merge(OtherCopy::Whole(&other), &mut pages).unwrap();
    assert_eq!(merged, PagesMerged::NeedsWhole);
}

/// The deferred events of a field undo what the other copy brings, in pages or not.
#[test]
fn deferred_events_undo_arriving_writes() {
    let fields = |count: u32| large(true, 0..count);
    let theirs = updated(None, &fields(5_000), b"two");
    let remove = Operation::Map(MapOperation {
        removes: vec![FieldName::new("map", crate::data_type::FieldKind::Map)],
        ..MapOperation::default()
    });
    let context: CausalClock = theirs.causal_clock().unwrap();
    let by = actor(b"one");
    let own = updated(None, &counters(), b"one");
    let own = Object::update_data_type(Some(own), &remove, Some(&context), coordinator(&by), None)
        .unwrap();
    let (paged, mut pages) = divided(&own, 1);
    let (others, mut other_pages) = divided(&theirs, 2);
    let merged = paged.merge(OtherCopy::Paged(&others, &mut other_pages), &mut pages).unwrap();
    let PagesMerged::Paged(merged) = merged else { panic!("{merged:?}") };
    let found = merged.whole(&mut pages.stored).unwrap();
    assert_eq!(all_of(&found), all_of(&own.merge(&theirs)));
    assert!(!merged.root().has_branches());
}
