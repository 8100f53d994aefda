//! Objects in pages, compared with whole ones.

use super::{
    Paged, Stored, actor, coordinator, deep_operation, element, map_operation, set_operation,
};
use crate::clock::{Actor, Dot, VersionVector};
use crate::data_type::pages::{PageName, PagedObject, PagesMerged, ShownItem};
use crate::data_type::{
    Answer, CausalClock, Delta, FieldKind, FieldName, FieldOperation, FieldUpdate, ItemRange,
    MapOperation, Operation, Query, Question, State, Value,
};
use crate::merge::{NewValue, WritePolicy};
use crate::object::Object;
use bytes::Bytes;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// An object as a store would keep it: whole while it is small, else in pages.
#[derive(Default)]
pub(super) struct Kept {
    whole: Option<Object>,
    pub(super) paged: Option<PagedObject>,
    pub(super) pages: Stored,
    generation: u64,
}

impl Kept {
    /// Divides a large object into pages, makes a small one whole, and decodes its stored form
    /// again.
    pub(super) fn settle(&mut self) {
        if let Some(paged) = self.paged.take_if(|paged| paged.is_small()) {
            self.whole = Some(paged.whole(&mut self.pages).unwrap());
            paged.remove_pages(&mut self.pages).unwrap();
            assert!(self.pages.pages.is_empty());
        }
        if let Some(object) = self.whole.take_if(|object| PagedObject::needs_pages(object)) {
            self.generation += 1;
            let divided = PagedObject::divide(&object, self.generation, &mut self.pages);
            self.paged = divided.unwrap();
        }
        if let Some(paged) = &mut self.paged {
            let mut stored = Vec::new();
            paged.encode_into(&mut stored);
            assert!(PagedObject::is_paged(&stored));
            assert_eq!(paged.generation(), self.generation);
            *paged = PagedObject::decode(&stored.into()).unwrap();
        }
    }

    fn update(&mut self, operation: &Operation, has_context: bool, by: &Actor) -> Option<Delta> {
        let context = has_context.then(|| self.object().causal_clock().unwrap());
        self.update_knowing(operation, context.as_ref(), by)
    }

    pub(super) fn update_knowing(
        &mut self,
        operation: &Operation,
        context: Option<&CausalClock>,
        by: &Actor,
    ) -> Option<Delta> {
        let delta = match self.paged.take() {
            Some(paged) => {
                let updated =
                    paged.clone().update(operation, context, coordinator(by), &mut self.pages);
                let updated = updated.unwrap().ok();
                let (paged, delta) =
                    updated.map_or((paged, None), |(paged, delta)| (paged, Some(delta)));
                self.paged = Some(paged);
                delta
            }
            None => {
                let object = self.whole.clone().unwrap_or_default();
                let state = object.data_type().unwrap();
                let state = state.unwrap_or_else(|| State::empty(operation.datatype()));
                let clock = object.causal_clock().unwrap();
                let delta = state.delta(&clock, operation, context, coordinator(by)).ok();
                let updated = Object::update_data_type(
                    self.whole.clone(),
                    operation,
                    context,
                    coordinator(by),
                    None,
                );
                assert_eq!(updated.is_ok(), delta.is_some());
                self.whole = updated.ok().or(self.whole.take());
                delta
            }
        };
        self.settle();
        delta
    }

    pub(super) fn join(&mut self, delta: &Delta) -> bool {
        let joined = match self.paged.take() {
            Some(paged) => {
                let joined = paged.clone().join(delta, 9, &mut self.pages).unwrap();
                let is_joined = joined.is_some();
                self.paged = joined.or(Some(paged));
                is_joined
            }
            None => {
                let joined = Object::join_data_type(self.whole.clone(), delta, 9, None).unwrap();
                let is_joined = joined.is_some();
                self.whole = joined.or(self.whole.take());
                is_joined
            }
        };
        self.settle();
        joined
    }

    pub(super) fn replace(&mut self, object: Object) {
        match self.paged.take() {
            Some(paged) => {
                self.paged = paged.replace(&object, &mut self.pages).unwrap();
                if self.paged.is_none() {
                    assert!(self.pages.pages.is_empty());
                    self.whole = Some(object);
                }
            }
            None => self.whole = Some(object),
        }
        self.settle();
    }

    /// Applies the result of a merge, or of a write, of the pages. `other` is the object that was
    /// merged.
    pub(super) fn become_merged(&mut self, merged: PagesMerged, other: Option<&Object>) {
        match merged {
            PagesMerged::Known => {}
            PagesMerged::Paged(merged) => self.paged = Some(*merged),
            PagesMerged::Whole(object) => (self.paged, self.whole) = (None, Some(object)),
            PagesMerged::Other => (self.paged, self.whole) = (None, other.cloned()),
            PagesMerged::NeedsWhole => panic!("states of one type"),
        }
        assert!(self.paged.is_some() || self.pages.pages.is_empty());
        self.settle();
    }

    /// Checks the pages against the figures of the root.
    pub(super) fn check(&self) {
        let Some(paged) = &self.paged else {
            assert!(self.pages.pages.is_empty());
            return;
        };
        let stored = Stored { pages: self.pages.pages.clone(), ..Stored::default() };
        let clock = paged.causal_clock().unwrap();
        Paged { root: paged.root().clone(), clock, stored }.check();
    }

    pub(super) fn object(&mut self) -> Object {
        match &self.paged {
            Some(paged) => paged.whole(&mut self.pages).unwrap(),
            None => self.whole.clone().unwrap_or_default(),
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    /// An operation of one of two replicas, with or without its clock as context.
    Update(usize, Operation, bool),
    /// An earlier delta arrives at one of two replicas.
    Join(usize, usize),
    /// One replica merges the other's object.
    Take(usize),
    Delete(usize, bool),
}

fn steps(operation: impl Strategy<Value = Operation>) -> impl Strategy<Value = Vec<Step>> {
    let who = || 0..2usize;
    let step = prop_oneof![
        6 => (who(), operation, any::<bool>())
            .prop_map(|(who, operation, has_context)| Step::Update(who, operation, has_context)),
        6 => (who(), 0..30usize).prop_map(|(who, which)| Step::Join(who, which)),
        2 => who().prop_map(Step::Take),
        1 => (who(), any::<bool>()).prop_map(|(who, has_seen)| Step::Delete(who, has_seen)),
    ];
    prop::collection::vec(step, 1..30)
}

fn delete(object: &Object, who: usize, number: usize, has_seen: bool) -> Object {
    let context = if has_seen { object.clock.clone() } else { VersionVector::default() };
    let new = NewValue { deleted: true, last_modified_us: 4, ..NewValue::default() };
    let counter = number as u64 + 1;
    let dot = Dot { actor: actor([&b"plain one"[..], b"plain two"][who]), counter, time_secs: 1 };
    Object::write(Some(object), &context, new, dot, WritePolicy::Siblings)
}

/// Checks that queries of the pages and of the whole state have equal answers.
fn check_queries(paged: &PagedObject, pages: &mut Stored, whole: &Object) {
    let state = whole.data_type().unwrap().expect("a state");
    let (mut elements, mut fields) = (Vec::new(), Vec::new());
    let mut look = |item: ShownItem<'_>| match item {
        ShownItem::Element(element) => elements.push(Bytes::copy_from_slice(element)),
        ShownItem::Field(name, value) => fields.push((name.clone(), value.clone())),
    };
    paged.each_item(true, pages, &mut look).unwrap();
    let mut element_count = 0;
    let mut count = |item: ShownItem<'_>| {
        element_count += usize::from(matches!(item, ShownItem::Element(_)));
    };
    paged.each_item(false, pages, &mut count).unwrap();
    assert_eq!(element_count, elements.len());
    elements.sort_unstable();
    fields.sort_by(|(one, _), (other, _)| one.cmp(other));
    let shown = if elements.is_empty() { Value::Map(fields) } else { Value::Set(elements) };
    let is_nothing = matches!(&shown, Value::Map(fields) if fields.is_empty());
    assert!(is_nothing && paged.root().item_count() == 0 || shown == state.value());
    check_parts(paged, pages, &state, &mut Vec::new(), &state.value());
}

/// As [`check_queries`], for the data type at a path and for its fields; `value` is its value.
fn check_parts(
    paged: &PagedObject,
    pages: &mut Stored,
    state: &State,
    path: &mut Vec<FieldName>,
    value: &Value,
) {
    let mut queries = vec![Query::Size, Query::Contains(element(7)), Query::Contains("x".into())];
    for name in [element(7), "a".into()] {
        let field = |kind| Query::Field(FieldName { name: name.clone(), kind });
        queries.extend(FieldKind::ALL.map(field));
    }
    for query in queries {
        pages.read_count = 0;
        let question = Question { path: path.clone(), query };
        let part = paged.part(path, question.wanted(), pages).unwrap();
        let page_count = usize::from(!path.is_empty() || question.query != Query::Size);
        let is_read = pages.read_count == page_count || part.is_none();
        assert!(is_read || paged.root().has_branches(), "{} pages", pages.read_count);
        let whole = ItemRange::whole(state.clone(), path);
        let answer = |part: Option<ItemRange>| part.map(|part| part.answer(&question));
        assert_eq!(answer(part), answer(whole));
    }
    if !state.is_live() {
        return;
    }
    check_pages(paged, pages, state, path, value);
    let Value::Map(fields) = value else { return };
    let has_items = |(_, value): &&(_, Value)| matches!(value, Value::Set(_) | Value::Map(_));
    // A few fields are enough; all of a hundred would take too long.
    for (name, value) in fields.iter().filter(has_items).take(3) {
        path.push(name.clone());
        check_parts(paged, pages, state, path, value);
        path.pop();
    }
}

/// Checks that the pages of a [`Query::Page`] at a path are together the whole value.
fn check_pages(
    paged: &PagedObject,
    pages: &mut Stored,
    state: &State,
    path: &[FieldName],
    value: &Value,
) {
    let (mut found, mut from) = (Vec::new(), Some(0));
    while let Some(place) = from {
        let query = Query::Page { from: place, count: 17 };
        let question = Question { path: path.to_vec(), query };
        let part = paged.part(path, question.wanted(), pages).unwrap().expect("it is there");
        let Some(Answer::Page { value, next }) = part.answer(&question) else { panic!("a page") };
        let whole = ItemRange::whole(state.clone(), path).expect("it is there");
        if let Some(Answer::Page { value: expected, .. }) = whole.answer(&question) {
            assert_eq!(value, expected);
        }
        match value {
            Value::Set(elements) => {
                assert!(elements.len() <= 17, "no two have one hash");
                found.extend(elements.into_iter().map(|element| (element, None)));
            }
            Value::Map(fields) => {
                let fields = fields.into_iter();
                found.extend(fields.map(|(name, value)| (name.name.clone(), Some((name, value)))));
            }
            other => panic!("{other:?}"),
        }
        from = next;
    }
    let mut expected: Vec<_> = match value.clone() {
        Value::Set(elements) => elements.into_iter().map(|element| (element, None)).collect(),
        Value::Map(fields) => {
            let fields = fields.into_iter();
            fields.map(|(name, value)| (name.name.clone(), Some((name, value)))).collect()
        }
        other => panic!("{other:?}"),
    };
    let order = |(name, field): &(Bytes, Option<(FieldName, Value)>)| {
        (name.clone(), field.as_ref().map(|(name, _)| name.clone()))
    };
    found.sort_by_key(order);
    expected.sort_by_key(order);
    assert_eq!(found, expected);
}

/// Checks that an object in pages equals the whole object, whatever happens.
fn check(steps: Vec<Step>) {
    let actors = [actor(b"one"), actor(b"two")];
    let mut kept: [Kept; 2] = Default::default();
    let mut whole: [Option<Object>; 2] = Default::default();
    let mut deltas: Vec<Delta> = Vec::new();
    for (number, step) in steps.into_iter().enumerate() {
        match step {
            Step::Update(who, operation, has_context) => {
                let context = has_context.then(|| {
                    whole[who]
                        .as_ref()
                        .map(|object| object.causal_clock().unwrap())
                        .unwrap_or_default()
                });
                let updated = Object::update_data_type(
                    whole[who].clone(),
                    &operation,
                    context.as_ref(),
                    coordinator(&actors[who]),
                    None,
                );
                let delta = kept[who].update(&operation, has_context, &actors[who]);
                assert_eq!(delta.is_some(), updated.is_ok());
                whole[who] = updated.ok().or(whole[who].take());
                deltas.extend(delta);
            }
            Step::Join(who, which) => {
                let Some(delta) = deltas.get(which) else { continue };
                let joined = Object::join_data_type(whole[who].clone(), delta, 9, None).unwrap();
                assert_eq!(kept[who].join(delta), joined.is_some());
                whole[who] = joined.or(whole[who].take());
            }
            Step::Take(who) => {
                let theirs = whole[1 - who].clone().unwrap_or_default();
                let ours = whole[who].take().unwrap_or_default().merge(&theirs);
                let (own, others) = (kept[who].object(), kept[1 - who].object());
                kept[who].replace(own.merge(&others));
                whole[who] = Some(ours);
            }
            Step::Delete(who, has_seen) => {
                let ours = whole[who].clone().unwrap_or_default();
                whole[who] = Some(delete(&ours, who, number, has_seen));
                let own = kept[who].object();
                kept[who].replace(delete(&own, who, number, has_seen));
            }
        }
        for (kept, whole) in kept.iter_mut().zip(&whole) {
            let (own, whole) = (kept.object(), whole.clone().unwrap_or_default());
            assert_eq!(own.digest(), whole.digest());
            let state = |object: &Object| {
                object.data_type().unwrap().map(|state| (state.value(), state.digest()))
            };
            assert_eq!(state(&own), state(&whole));
            assert_eq!(own.causal_clock(), whole.causal_clock());
            assert_eq!(own.is_tombstone(), whole.is_tombstone());
            if let Some(paged) = &kept.paged {
                assert_eq!(paged.object().digest(), whole.digest());
                check_queries(paged, &mut kept.pages, &whole);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn a_set_in_pages_is_the_whole_object(steps in steps(set_operation())) {
        check(steps);
    }

    #[test]
    fn a_map_in_pages_is_the_whole_object(steps in steps(map_operation())) {
        check(steps);
    }

    #[test]
    fn a_map_with_large_fields_in_pages_is_the_whole_object(steps in steps(deep_operation())) {
        check(steps);
    }
}

#[test]
fn what_expires_and_what_has_no_elements_stays_whole() {
    let one = actor(b"one");
    let elements: Vec<Bytes> = (0..2_000).map(|number: u32| number.to_string().into()).collect();
    for (operation, expires_at_secs, is_divided) in [
        (Operation::Gset(elements.clone()), None, true),
        (Operation::Gset(elements.clone()), Some(1), false),
        (Operation::Hll(elements), None, false),
    ] {
        let object =
            Object::update_data_type(None, &operation, None, coordinator(&one), expires_at_secs);
        let object = object.unwrap();
        assert_eq!(PagedObject::needs_pages(&object), is_divided);
        let mut stored = Vec::new();
        object.encode_into(&mut stored);
        assert!(PagedObject::may_need_pages(&stored) && !PagedObject::is_paged(&stored));
    }
}

/// The old and the new pages of a map have equal sizes, and are told apart when the map is read.
#[test]
fn a_map_is_not_shown_with_fields_of_two_moments() {
    let one = actor(b"one");
    let count = |names: std::ops::Range<u16>| {
        let updates = names.map(|name| FieldUpdate::new(element(name), FieldOperation::Counter(1)));
        Operation::Map(MapOperation { updates: updates.collect(), ..MapOperation::default() })
    };
    let mut kept = Kept::default();
    kept.update(&count(0..400), false, &one);
    let (old, old_pages) = (kept.paged.clone().unwrap(), kept.pages.pages.clone());
    kept.update(&count(7..8), false, &one);
    let lengths = |pages: &BTreeMap<PageName, Bytes>| pages.values().map(Bytes::len).sum::<usize>();
    assert_ne!(kept.pages.pages, old_pages);
    assert_eq!(lengths(&kept.pages.pages), lengths(&old_pages));
    let mut show = |paged: &PagedObject| paged.each_item(false, &mut kept.pages, &mut |_| ());
    assert!(show(&old).is_err());
    assert!(show(kept.paged.as_ref().unwrap()).is_ok());
}
