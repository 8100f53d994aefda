use super::*;
use crate::clock::Actor;
use crate::data_type::{
    ApplyError, CausalClock, Delta, EventOrigin, FieldOperation, FieldUpdate, MapOperation,
    Operation, State, Value,
};
use crate::hll::Precision;
use crate::props::Datatype;
use proptest::prelude::*;
use std::collections::BTreeSet;

mod branches;
mod merge;
mod objects;
mod ranges;
mod repeated;

#[derive(Default)]
struct Stored {
    pages: BTreeMap<PageName, Bytes>,
    read_count: usize,
    written_bytes: usize,
}

impl Pages for Stored {
    type Error = StoredFormError;

    fn can_have_branches(&self) -> bool {
        true
    }

    fn read(&mut self, name: PageName) -> Result<Option<Bytes>, StoredFormError> {
        self.read_count += 1;
        Ok(self.pages.get(&name).cloned())
    }

    fn write(&mut self, name: PageName, page: Option<&[u8]>) -> Result<(), StoredFormError> {
        match page {
            Some(page) => {
                self.written_bytes += page.len();
                self.pages.insert(name, Bytes::copy_from_slice(page));
            }
            None => {
                self.pages.remove(&name).expect("only what is stored is removed");
            }
        }
        Ok(())
    }

    fn remove(&mut self, name: PageName) -> Result<(), StoredFormError> {
        self.pages.remove(&name);
        Ok(())
    }
}

/// A record in pages.
struct Paged {
    root: Root,
    clock: CausalClock,
    stored: Stored,
}

impl Paged {
    fn of(state: State, clock: CausalClock) -> Self {
        let mut stored = Stored::default();
        let root = Loaded::from_state(state).store(&mut stored).unwrap();
        Self { root, clock, stored }
    }

    fn empty(datatype: Datatype) -> Self {
        Self::of(State::empty(datatype), CausalClock::default())
    }

    fn apply(
        &mut self,
        operation: &Operation,
        context: Option<&CausalClock>,
        coordinator: EventOrigin<'_>,
    ) -> Result<Delta, ApplyError> {
        let mut loaded = self.load(&operation.wanted());
        let delta = loaded.state_mut().apply(&mut self.clock, operation, context, coordinator)?;
        self.store(loaded);
        Ok(delta)
    }

    fn join(&mut self, delta: &Delta) {
        let mut loaded = self.load(&delta.wanted());
        loaded.state_mut().join(&mut self.clock, delta).unwrap();
        self.store(loaded);
    }

    fn load(&mut self, wanted: &WantedItems) -> Loaded {
        (self.stored.read_count, self.stored.written_bytes) = (0, 0);
        let mut encoded = Vec::new();
        self.root.encode_into(&mut encoded);
        let root = Root::decode(&encoded.into()).unwrap();
        assert_eq!(root, self.root);
        Loaded::read_items(root, wanted, &mut self.stored).unwrap()
    }

    fn store(&mut self, loaded: Loaded) {
        self.root = loaded.store(&mut self.stored).unwrap();
    }

    fn whole(&mut self) -> State {
        Loaded::read_all(self.root.clone(), &mut self.stored).unwrap().into_state()
    }

    /// Checks the pages against the figures of the root.
    fn check(&self) {
        let mut names = BTreeSet::new();
        let mut pages = Stored { pages: self.stored.pages.clone(), ..Stored::default() };
        let trunk = &self.root.trunk;
        trunk.each_name(1, &mut pages, true, &mut |name| assert!(names.insert(name))).unwrap();
        assert!(self.stored.pages.keys().all(|name| names.contains(name)));
        assert_eq!(self.root.has_branches(), self.stored.pages.keys().any(|name| name.branch > 0));
        let page_bytes: usize = self.stored.pages.values().map(Bytes::len).sum();
        assert_eq!(self.root.page_bytes(), page_bytes as u64);
        for page in self.stored.pages.values() {
            let mut encoded = Vec::new();
            State::decode_page(page).unwrap().encode_into(&mut encoded);
            assert_eq!(*page, encoded);
        }
    }
}

fn coordinator(actor: &Actor) -> EventOrigin<'_> {
    let hll_precision = Precision::DEFAULT;
    EventOrigin { actor, time_secs: 7, now_us: 1_000_000, hll_precision }
}

fn actor(name: &[u8]) -> Actor {
    Actor(name.into())
}

fn element(number: u16) -> Bytes {
    // Elements have several sizes, so that pages fill unevenly.
    Bytes::from(format!("{number:0width$}", width = usize::from(number % 7) * 9 + 1))
}

fn set_operation() -> impl Strategy<Value = Operation> {
    let change = (0..400u16, prop::bool::weighted(0.6)).prop_map(|(number, adds)| {
        if adds { SetChange::Add(element(number)) } else { SetChange::Remove(element(number)) }
    });
    let many = (0..400u16, 0..150u16, any::<bool>()).prop_map(|(from, count, adds)| {
        let elements = (from..from + count).map(element);
        elements.map(if adds { SetChange::Add } else { SetChange::Remove }).collect()
    });
    prop_oneof![prop::collection::vec(change, 1..4), many].prop_map(Operation::Set)
}

fn map_operation() -> impl Strategy<Value = Operation> {
    let kind = prop::sample::select(FieldKind::ALL.to_vec());
    let field = (0..60u16, kind);
    let update = field.clone().prop_map(|(number, kind)| {
        let operation = match kind {
            FieldKind::Counter => FieldOperation::Counter(i64::from(number)),
            FieldKind::Set => FieldOperation::Set(vec![SetChange::Add(element(number))]),
            FieldKind::Register => FieldOperation::Register(element(number)),
            FieldKind::Flag => FieldOperation::Flag(true),
            FieldKind::Map => FieldOperation::Map(MapOperation {
                updates: vec![FieldUpdate::new("n", FieldOperation::Counter(1))],
                ..MapOperation::default()
            }),
        };
        FieldUpdate::new(element(number), operation)
    });
    let removed = field.prop_map(|(number, kind)| FieldName { name: element(number), kind });
    let removes = prop::collection::vec(removed, 0..3);
    (removes, prop::collection::vec(update, 0..40))
        .prop_map(|(removes, updates)| Operation::Map(MapOperation { removes, updates }))
}

/// Changes of a few fields in nested maps, among them sets and maps that become large.
fn deep_operation() -> impl Strategy<Value = Operation> {
    deep_map(3).prop_map(Operation::Map)
}

fn deep_map(depth: usize) -> BoxedStrategy<MapOperation> {
    let name = || prop::sample::select(vec!["a", "b"]);
    let change = (0..300u16, any::<bool>()).prop_map(|(number, adds)| {
        vec![if adds {
            SetChange::Add(element(number))
        } else {
            SetChange::Remove(element(number))
        }]
    });
    let many = (0..300u16, 0..120u16, prop::bool::weighted(0.7)).prop_map(|(from, count, adds)| {
        let elements = (from..from + count).map(element);
        elements.map(if adds { SetChange::Add } else { SetChange::Remove }).collect()
    });
    let set =
        prop_oneof![change, many].prop_map(|changes: Vec<SetChange>| FieldOperation::Set(changes));
    let set = (name(), set).prop_map(|(name, set)| FieldUpdate::new(name, set));
    let count = (0..90u16).prop_map(|number| {
        FieldUpdate::new(element(number), FieldOperation::Counter(1 + i64::from(number)))
    });
    let small = prop_oneof![2 => set, 1 => count];
    let update = if depth > 1 {
        let map = (name(), deep_map(depth - 1))
            .prop_map(|(name, map)| FieldUpdate::new(name, FieldOperation::Map(map)));
        prop_oneof![1 => small, 1 => map].boxed()
    } else {
        small.boxed()
    };
    let kind = prop::sample::select(vec![FieldKind::Set, FieldKind::Map]);
    let removed = (name(), kind).prop_map(|(name, kind)| FieldName::new(name, kind));
    let removes = prop_oneof![
        6 => Just(Vec::new()),
        1 => prop::collection::vec(removed, 1..2),
    ];
    let counts = (0..60u16, 0..60u16).prop_map(|(from, count)| {
        let count_in =
            |number| FieldUpdate::new(element(number), FieldOperation::Counter(i64::from(number)));
        MapOperation { updates: (from..from + count).map(count_in).collect(), ..Default::default() }
    });
    let some = (removes, prop::collection::vec(update, 0..3))
        .prop_map(|(removes, updates)| MapOperation { removes, updates });
    prop_oneof![5 => some, 1 => counts].boxed()
}

/// Operations of two coordinators. Each comes with two booleans (the coordinator, and whether it
/// sends its context), and the number of deltas by which the other coordinator lags.
fn history(
    operation: impl Strategy<Value = Operation>,
) -> impl Strategy<Value = Vec<(Operation, bool, bool, usize)>> {
    prop::collection::vec((operation, any::<bool>(), any::<bool>(), 0..4usize), 1..40)
}

/// Checks after every operation and delta that the pages hold what the whole state holds.
fn check(datatype: Datatype, history: Vec<(Operation, bool, bool, usize)>) {
    let actors = [actor(b"one"), actor(b"two")];
    let mut wholes = [0, 1].map(|_| (State::empty(datatype), CausalClock::default()));
    let mut paged = [0, 1].map(|_| Paged::empty(datatype));
    let mut late: Vec<(usize, Delta)> = Vec::new();
    for (operation, first, has_context, place) in history {
        let who = usize::from(first);
        let (whole, clock) = &mut wholes[who];
        let context = clock.clone();
        let context = has_context.then_some(&context);
        let expected = whole.apply(clock, &operation, context, coordinator(&actors[who]));
        let found = paged[who].apply(&operation, context, coordinator(&actors[who]));
        assert_eq!(found, expected);
        late.extend(expected.ok().map(|delta| (1 - who, delta)));
        if place < late.len() {
            let (to, delta) = late.swap_remove(place);
            let (whole, clock) = &mut wholes[to];
            whole.join(clock, &delta).unwrap();
            paged[to].join(&delta);
        }
        for ((whole, clock), paged) in wholes.iter().zip(&mut paged) {
            paged.check();
            assert_eq!((paged.root.digest(), &paged.clock), (whole.digest(), clock));
            assert_eq!(paged.root.is_live(), whole.is_live());
        }
    }
    for ((whole, clock), mut paged) in wholes.into_iter().zip(paged) {
        let mut found = paged.whole();
        let mut live = 0;
        whole.record.content.each_item(0, |_, is_live| live += u64::from(is_live));
        assert_eq!((found.value(), paged.root.item_count()), (whole.value(), live));
        // The whole state has dropped deferred events that arrived; pages drop them only when they
        // are written.
        found.merge(&mut clock.clone(), &whole, &clock);
        assert_eq!(found, whole);
        let mut again = Paged::of(whole.clone(), clock);
        again.check();
        assert_eq!(again.whole(), whole);
        assert_eq!(again.root.digest(), whole.digest());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn a_set_in_pages_is_the_set(history in history(set_operation())) {
        check(Datatype::Set, history);
    }

    #[test]
    fn a_map_in_pages_is_the_map(history in history(map_operation())) {
        check(Datatype::Map, history);
    }

    #[test]
    fn a_map_with_large_fields_in_pages_is_the_map(history in history(deep_operation())) {
        check(Datatype::Map, history);
    }
}

#[test]
fn an_operation_on_one_element_of_many_touches_one_page_or_two() {
    let one = actor(b"one");
    let mut set = Paged::empty(Datatype::Gset);
    let all: Vec<Bytes> = (0..10_000).map(|number| format!("element {number:09}").into()).collect();
    for chunk in all.chunks(1_000) {
        set.apply(&Operation::Gset(chunk.to_vec()), None, coordinator(&one)).unwrap();
    }
    assert_eq!(set.root.item_count(), 10_000);
    let pages = set.root.table().page_count();
    for number in 0..500 {
        let operation = Operation::Gset(vec![format!("another {number:09}").into()]);
        set.apply(&operation, None, coordinator(&one)).unwrap();
        assert!(set.stored.read_count <= 2, "{} pages read", set.stored.read_count);
        assert!(set.stored.written_bytes < 7_000, "{} bytes written", set.stored.written_bytes);
    }
    assert!(set.root.table().page_count() > pages);
    assert_eq!(set.root.item_count(), 10_500);
    set.check();
}

#[test]
fn pages_are_joined_when_little_is_left() {
    let one = actor(b"one");
    let mut set = Paged::empty(Datatype::Set);
    let elements: Vec<Bytes> = (0..2_000).map(|number: u32| number.to_string().into()).collect();
    let add = Operation::Set(elements.iter().cloned().map(SetChange::Add).collect());
    set.apply(&add, None, coordinator(&one)).unwrap();
    assert!(set.root.table().page_count() > 10);
    for chunk in elements.chunks(100) {
        let remove = Operation::Set(chunk.iter().cloned().map(SetChange::Remove).collect());
        set.apply(&remove, None, coordinator(&one)).unwrap();
    }
    assert_eq!((set.root.item_count(), set.root.table().page_count()), (0, 1));
    assert!(set.stored.pages.is_empty() && set.root.is_live());
}

#[test]
fn a_page_of_another_record_is_refused() {
    let one = actor(b"one");
    let mut set = Paged::empty(Datatype::Gset);
    let elements = |count: u32| (0..count).map(|number| number.to_string().into()).collect();
    set.apply(&Operation::Gset(elements(1_000)), None, coordinator(&one)).unwrap();
    let pages: Vec<Bytes> = set.stored.pages.values().cloned().collect();
    let first = *set.stored.pages.keys().next().unwrap();
    for page in &pages[1..] {
        set.stored.pages.insert(first, page.clone());
        assert!(is_refused(&mut set, first));
    }
    set.stored.pages.insert(first, Bytes::from_static(b"\x44"));
    assert!(is_refused(&mut set, first));
}

fn is_refused(set: &mut Paged, page: PageName) -> bool {
    let root = || set.root.clone();
    let whole = Loaded::read_pages(root(), &[page.first], |_| true, &mut set.stored);
    let wanted = WantedItems::items(vec![page.first]);
    let some = Loaded::read_items(root(), &wanted, &mut set.stored);
    assert_eq!(whole.is_err(), some.is_err());
    whole.is_err()
}

#[test]
fn what_an_operation_does_not_name_is_not_read() {
    let one = actor(b"one");
    let mut set = Paged::empty(Datatype::Gset);
    let elements = (0..1_000u32).map(|number| number.to_string().into()).collect();
    set.apply(&Operation::Gset(elements), None, coordinator(&one)).unwrap();
    let loaded = set.load(&WantedItems::items(vec![ItemHash::of_element(b"500")]));
    assert_eq!(loaded.state().value(), Value::Set(vec!["500".into()]));
}

#[test]
fn pages_of_many_writers_are_those_of_the_state() {
    let mut whole = (State::empty(Datatype::Set), CausalClock::default());
    let mut paged = Paged::empty(Datatype::Set);
    for round in 0..200u16 {
        let writer = actor(format!("writer {:03}", round % 80).as_bytes());
        let numbers = (round..round + 5).map(|number| element(number % 130));
        let adds = numbers.map(SetChange::Add).collect();
        let removed = SetChange::Remove(element((round / 2) % 130));
        let context = whole.1.clone();
        for operation in [Operation::Set(adds), Operation::Set(vec![removed])] {
            let expected =
                whole.0.apply(&mut whole.1, &operation, Some(&context), coordinator(&writer));
            let found = paged.apply(&operation, Some(&context), coordinator(&writer));
            assert_eq!(found, expected);
            paged.check();
            assert_eq!(paged.root.digest(), whole.0.digest());
        }
    }
    assert!(paged.root.table().page_count() > 1);
    assert_eq!(paged.whole(), whole.0);
}
