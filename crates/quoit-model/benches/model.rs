//! Times of the operations of this crate that every request performs. Run with `cargo bench -p
//! quoit-model`.
#![allow(clippy::print_stdout)]

use bytes::Bytes;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::context::{decode_context, encode_context};
use quoit_model::data_type::context::incarnation;
use quoit_model::data_type::pages::{PageName, PagedObject, Pages};
use quoit_model::data_type::{
    CausalClock, EventOrigin, FieldOperation, FieldUpdate, MapOperation, Operation, SetChange,
    State, StoredFormError,
};
use quoit_model::hash::RingSize;
use quoit_model::hll::Precision;
use quoit_model::layout::{Layout, LayoutMember, LayoutRequest, LayoutRules};
use quoit_model::merge::{NewValue, WritePolicy};
use quoit_model::node::NodeId;
use quoit_model::object::{Metadata, Object};
use quoit_model::vtag::make_vtag;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Instant;

const ROUNDS: u32 = 100_000;
const SAMPLES: usize = 7;

/// Prints the median time of several samples, in nanoseconds.
fn measure<T>(name: &str, mut run: impl FnMut() -> T) {
    let mut nanos: Vec<f64> = (0..SAMPLES)
        .map(|_| {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                black_box(run());
            }
            start.elapsed().as_nanos() as f64 / f64::from(ROUNDS)
        })
        .collect();
    nanos.sort_by(f64::total_cmp);
    println!("{name:32} {:7.1} ns", nanos[SAMPLES / 2]);
}

fn event(counter: u64) -> Dot {
    let actor = Actor(SmallVec::from_slice(b"8bytesid"));
    Dot { actor, counter, time_secs: 63_900_000_000 }
}

fn new_value(value: &Bytes) -> NewValue {
    NewValue {
        meta: Metadata {
            content_type: Some(Bytes::from_static(b"application/octet-stream")),
            ..Metadata::default()
        },
        value: value.clone(),
        last_modified_us: 1_750_000_000_000_000,
        vtag: make_vtag(&event(1), 42),
        ..NewValue::default()
    }
}

/// Measures what happens once for each change of members, in milliseconds.
fn measure_layouts(node_count: u32, partition_count: u16) {
    let time = |what: &str, run: &dyn Fn() -> Layout| {
        let start = Instant::now();
        let layout = run();
        let name = format!("layout, {node_count} x {partition_count}, {what}");
        println!("{name:40} {:7.1} ms", start.elapsed().as_secs_f64() * 1e3);
        layout
    };
    let member = |number: u32| {
        let mut id = [0; 16];
        id[..4].copy_from_slice(&number.wrapping_mul(0x9e37_79b1).to_be_bytes());
        let location = Some(format!("rack {}", number % 10).into());
        LayoutMember { location, capacity: 100 + number % 3, id: NodeId(id) }
    };
    let members: Vec<_> = (0..=node_count).map(member).collect();
    let request = LayoutRequest {
        previous: None,
        members: &members[1..],
        replacements: &[],
        rules: LayoutRules::default(),
        ring_size: RingSize::new(partition_count).expect("a power of two"),
        version: 1,
    };
    let first = time("first", &|| Layout::compute(&request).expect("good members"));
    let join = LayoutRequest::after(&first, &members);
    let joined = time("join", &|| Layout::compute(&join).expect("good members"));
    let leave = LayoutRequest::after(&joined, &members[..members.len() - 1]);
    time("leave", &|| Layout::compute(&leave).expect("good members"));
    let bytes = joined.encode();
    println!("{:40} {:7} bytes", "    stored size", bytes.len());
    time("decode", &|| Layout::decode(&bytes).expect("own encoding"));
}

/// Makes a state by some operations of one store.
fn made(clock: &mut CausalClock, operations: impl IntoIterator<Item = Operation>) -> State {
    let actor = incarnation(&event(1).actor, 1);
    let mut operations = operations.into_iter().peekable();
    let mut state = State::empty(operations.peek().expect("at least one").datatype());
    for operation in operations {
        apply(&mut state, clock, &operation, &actor);
    }
    state
}

fn apply(state: &mut State, clock: &mut CausalClock, operation: &Operation, actor: &Actor) {
    let (time_secs, now_us) = (63_900_000_000, 1_750_000_000_000_000);
    let hll_precision = Precision::DEFAULT;
    let coordinator = EventOrigin { actor, time_secs, now_us, hll_precision };
    state.apply(clock, operation, None, coordinator).expect("adds always work");
}

/// Measures what an update of a small data type costs beyond a put of the same bytes: decoding, the
/// operation, and encoding.
fn measure_data_types() {
    let element = |number: usize| Bytes::from(format!("element-{number:012}"));
    let add = |number| Operation::Set(vec![SetChange::Add(element(number))]);
    let count = |number| {
        let name = element(number);
        let updates = vec![FieldUpdate::new(name, FieldOperation::Counter(1))];
        Operation::Map(MapOperation { updates, ..MapOperation::default() })
    };
    let fill = |operation: &dyn Fn(usize) -> Operation| (0..10).map(operation).collect::<Vec<_>>();
    let cases = [
        ("counter, increment", vec![Operation::Counter(1)], Operation::Counter(1)),
        ("set of 10, another element", fill(&add), add(5_000)),
        ("set of 10, the same element", fill(&add), add(5)),
        ("map of 10, count in a field", fill(&count), count(5)),
    ];
    let actor = incarnation(&event(1).actor, 1);
    for (name, operations, operation) in cases {
        let mut clock = CausalClock::default();
        let state = made(&mut clock, operations);
        let mut out = Vec::with_capacity(4096);
        state.encode_into(&mut out);
        let stored = Bytes::from(out.clone());
        println!("{name:32} {:7} bytes", stored.len());
        measure("    decode", || State::decode(&stored).expect("own encoding"));
        measure("    decode, apply, encode", || {
            let mut state = State::decode(&stored).expect("own encoding");
            apply(&mut state, &mut clock.clone(), &operation, &actor);
            out.clear();
            state.encode_into(&mut out);
        });
        let (mut later, mut later_clock) = (state.clone(), clock.clone());
        apply(&mut later, &mut later_clock, &operation, &incarnation(&actor, 2));
        measure("    merge with a later one", || {
            let (mut state, mut clock) = (state.clone(), clock.clone());
            state.merge(&mut clock, &later, &later_clock);
            state
        });
        measure("    digest", || state.digest());
    }
}

/// Pages in memory.
#[derive(Default)]
struct InMemory(BTreeMap<PageName, Bytes>);

impl Pages for InMemory {
    type Error = StoredFormError;

    fn can_have_branches(&self) -> bool {
        true
    }

    fn read(&mut self, name: PageName) -> Result<Option<Bytes>, StoredFormError> {
        Ok(self.0.get(&name).cloned())
    }

    fn write(&mut self, name: PageName, page: Option<&[u8]>) -> Result<(), StoredFormError> {
        match page {
            Some(page) => self.0.insert(name, Bytes::copy_from_slice(page)),
            None => self.0.remove(&name),
        };
        Ok(())
    }
}

/// Measures an operation on a data type in pages: decoding the root and a page, the operation, and
/// encoding both.
fn measure_pages() {
    let element = |number: u32| Bytes::from(format!("element-{number:08}"));
    let add = |number| Operation::Set(vec![SetChange::Add(element(number))]);
    let remove = |number| Operation::Set(vec![SetChange::Remove(element(number))]);
    let count = |number| {
        let updates = vec![FieldUpdate::new(element(number), FieldOperation::Counter(1))];
        Operation::Map(MapOperation { updates, ..MapOperation::default() })
    };
    let sets = Operation::Set((0..10_000).map(element).map(SetChange::Add).collect());
    let fields =
        (0..10_000).map(|number| FieldUpdate::new(element(number), FieldOperation::Counter(1)));
    let maps =
        Operation::Map(MapOperation { updates: fields.collect(), ..MapOperation::default() });
    let actor = incarnation(&event(1).actor, 1);
    let (time_secs, now_us) = (63_900_000_000, 1_750_000_000_000_000);
    let coordinator =
        EventOrigin { actor: &actor, time_secs, now_us, hll_precision: Precision::DEFAULT };
    type Next<'a> = &'a dyn Fn(u32) -> Operation;
    let in_map = |changes| {
        let updates = vec![FieldUpdate::new("tags", FieldOperation::Set(changes))];
        Operation::Map(MapOperation { updates, ..MapOperation::default() })
    };
    let inner = in_map((0..10_000).map(element).map(SetChange::Add).collect());
    let cases: [(&str, Operation, Next<'_>); 5] = [
        ("set of 10 000, the same element", sets.clone(), &|number| add(number % 10_000)),
        ("set of 10 000, another element", sets.clone(), &|number| add(10_000 + number)),
        ("set of 10 000, out and in", sets, &|number| match number % 2 {
            0 => remove(number % 10_000),
            _ => add(number % 10_000 - 1),
        }),
        ("map of 10 000, count in a field", maps, &|number| count(number % 10_000)),
        ("set of 10 000 in a map, another", inner, &|number| {
            in_map(vec![SetChange::Add(element(10_000 + number))])
        }),
    ];
    for (name, fill, next) in cases {
        let object = Object::update_data_type(None, &fill, None, coordinator, None).expect("works");
        let mut pages = InMemory::default();
        let paged = PagedObject::divide(&object, 1, &mut pages).expect("pages").expect("a set");
        let mut stored = Vec::new();
        paged.encode_into(&mut stored);
        let mut number = 0;
        measure(name, || {
            let paged = PagedObject::decode(&Bytes::from(stored.clone())).expect("own encoding");
            let operation = next(number);
            number += 1;
            let updated = paged.update(&operation, None, coordinator, &mut pages);
            let (paged, _) = updated.expect("pages").expect("works");
            stored.clear();
            paged.encode_into(&mut stored);
        });
    }
}

fn main() {
    let value = Bytes::from(vec![b'x'; 1024]);
    let nothing = VersionVector::default();
    let policy = WritePolicy::Siblings;
    let write = |stored, context, counter| {
        Object::write(stored, context, new_value(&value), event(counter), policy)
    };
    let object = write(None, &nothing, 1_000_000);
    let conflict = write(Some(&object), &nothing, 2_000_000);
    let mut encoded = Vec::new();
    object.encode_into(&mut encoded);
    println!("stored size beside the value     {:7} bytes", encoded.len() - value.len());
    let stored = Bytes::from(encoded);
    let mut out = Vec::with_capacity(4096);

    measure("decode", || Object::decode(&stored).expect("own encoding"));
    measure("decode clock", || Object::decode_clock(&stored).expect("own encoding"));
    measure("encode, 1 KiB value", || {
        out.clear();
        object.encode_into(&mut out);
    });
    measure("digest", || object.digest());
    measure("new value with vtag", || new_value(&value));
    measure("write, nothing stored", || write(None, &nothing, 3_000_000));
    measure("write, replacing", || write(Some(&object), &object.clock, 3_000_000));
    measure("write, sibling", || write(Some(&object), &nothing, 3_000_000));
    measure("merge, one newer", || object.merge(&conflict));
    measure("make vtag", || make_vtag(&event(1), 42));
    measure("encode context", || encode_context(&object.clock));
    let context = encode_context(&object.clock);
    measure("decode context", || decode_context(&context).expect("own encoding"));
    measure_data_types();
    measure_pages();
    for (node_count, partition_count) in [(5, 64), (50, 512), (1000, 4096)] {
        measure_layouts(node_count, partition_count);
    }
}
