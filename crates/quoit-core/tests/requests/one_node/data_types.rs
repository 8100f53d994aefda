//! Data types.

use crate::one_node::fixture::{Fixture, SECOND_US, fixture, key, put_of};
use bytes::Bytes;
use quoit_core::{
    DataTypeError, DataTypeRequest, DeleteRequest, FetchedDataType, ReadOptions, RequestError,
    WriteOptions,
};
use quoit_model::data_type::{
    FieldKind, FieldName, FieldOperation, FieldUpdate, MapOperation, Operation, SetChange, Value,
};
use quoit_model::key::KeyRef;
use quoit_model::props::{Datatype, Quorum};
use quoit_model::riak_data_type::RiakDataType;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn request(at: KeyRef<'static>, operation: Operation) -> DataTypeRequest<'static> {
    DataTypeRequest {
        key: at,
        operation,
        context: None,
        return_value: true,
        options: WriteOptions::default(),
    }
}

fn add(element: &'static str) -> Operation {
    Operation::Set(vec![SetChange::Add(element.into())])
}

fn remove(element: &'static str) -> Operation {
    Operation::Set(vec![SetChange::Remove(element.into())])
}

impl Fixture {
    async fn with_types() -> Self {
        let fixture = fixture();
        for datatype in ["counter", "set", "gset", "map", "hll"] {
            let props = json!({"datatype": datatype, "allow_mult": true});
            fixture.create_type(datatype, props).await;
        }
        fixture
    }

    async fn do_to(&self, at: KeyRef<'static>, operation: Operation) -> FetchedDataType {
        self.store.update_data_type(request(at, operation)).await.unwrap().unwrap()
    }

    async fn fetch(&self, at: KeyRef<'_>) -> Option<FetchedDataType> {
        self.store.fetch_data_type(at, &ReadOptions::default()).await.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_is_made_by_its_first_operation() {
    let fixture = Fixture::with_types().await;
    let elements = || vec![Bytes::from("a"), Bytes::from("b")];
    let flag = FieldUpdate::new("f", FieldOperation::Flag(true));
    let map = MapOperation { updates: vec![flag], ..MapOperation::default() };
    for (name, operation, value) in [
        ("counter", Operation::Counter(-3), Value::Counter(-3)),
        ("set", add("a"), Value::Set(vec!["a".into()])),
        ("gset", Operation::Gset(elements()), Value::Set(elements())),
        ("hll", Operation::Hll(elements()), Value::Hll(2)),
        (
            "map",
            Operation::Map(map),
            Value::Map(vec![(FieldName::new("f", FieldKind::Flag), Value::Flag(true))]),
        ),
    ] {
        let at = key(name, "k");
        assert_eq!(fixture.fetch(at).await, None);
        let updated = fixture.do_to(at, operation).await;
        assert_eq!(updated.value, value);
        assert_eq!(updated.context.is_some(), ["set", "map"].contains(&name), "{name}");
        assert_eq!(fixture.fetch(at).await, Some(updated));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn removes_with_a_context_take_what_was_seen() {
    let fixture = Fixture::with_types().await;
    let at = key("set", "k");
    fixture.do_to(at, add("a")).await;
    let context = fixture.do_to(at, add("b")).await.context;
    fixture.do_to(at, add("a")).await;
    for element in ["a", "b", "never there"] {
        let seen = DataTypeRequest { context: context.clone(), ..request(at, remove(element)) };
        fixture.store.update_data_type(seen).await.unwrap();
    }
    let left = fixture.fetch(at).await.unwrap().value;
    assert_eq!(left, Value::Set(vec!["a".into()]), "added again since");
    let refused = fixture.store.update_data_type(request(at, remove("b"))).await;
    assert!(
        matches!(refused, Err(RequestError::DataType(DataTypeError::Update(_)))),
        "{refused:?}"
    );
    fixture.do_to(at, remove("a")).await;
    assert_eq!(fixture.fetch(at).await.unwrap().value, Value::Set(Vec::new()), "and is there");
}

#[tokio::test(flavor = "multi_thread")]
async fn contexts_of_nothing_and_of_other_records_are_refused() {
    let fixture = Fixture::with_types().await;
    let other = fixture.do_to(key("set", "other"), add("a")).await.context;
    let at = key("set", "k");
    fixture.do_to(at, add("a")).await;
    for context in [other, Some(Bytes::from("garbage"))] {
        let request = DataTypeRequest { context, ..request(at, remove("a")) };
        let refused = fixture.store.update_data_type(request).await;
        let context_fault = RequestError::DataType(DataTypeError::Context(
            quoit_model::data_type::context::decode_context(b"", 0).unwrap_err(),
        ));
        let refused = refused.unwrap_err();
        assert_eq!(
            std::mem::discriminant(&refused),
            std::mem::discriminant(&context_fault),
            "{refused}"
        );
    }
    assert_eq!(fixture.fetch(at).await.unwrap().value, Value::Set(vec!["a".into()]));
    let counter = Operation::Counter(1);
    let at = key("counter", "k");
    let ignored = DataTypeRequest { context: Some("garbage".into()), ..request(at, counter) };
    assert!(fixture.store.update_data_type(ignored).await.is_ok(), "counters need none");
}

#[tokio::test(flavor = "multi_thread")]
async fn operations_for_other_types_and_impossible_quorums_change_nothing() {
    let fixture = Fixture::with_types().await;
    let at = key("counter", "k");
    let refused = fixture.store.update_data_type(request(at, add("a"))).await;
    assert!(
        matches!(refused, Err(RequestError::DataType(DataTypeError::Operation(_)))),
        "{refused:?}"
    );
    let options = WriteOptions { w: Some(Quorum::Count(9)), ..WriteOptions::default() };
    let request = DataTypeRequest { options, ..request(at, Operation::Counter(1)) };
    let refused = fixture.store.update_data_type(request).await;
    assert!(matches!(refused, Err(RequestError::NVal(_))), "{refused:?}");
    assert_eq!(fixture.fetch(at).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_reads_the_object_sees_riaks_form() {
    let fixture = Fixture::with_types().await;
    let at = key("set", "k");
    fixture.do_to(at, add("a")).await;
    let object = fixture.get(at).await.unwrap();
    let [sibling] = object.siblings.as_slice() else { panic!("{object:?}") };
    assert_eq!(sibling.meta.content_type.as_deref(), Some(&b"application/riak_set"[..]));
    let Ok(RiakDataType::Set(set)) = RiakDataType::decode(&sibling.value) else { panic!("no set") };
    assert_eq!(set.entries[0].0, "a");
    assert!(sibling.meta.other.is_empty(), "no trace of how it is stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_set_is_gone_and_starts_anew() {
    let fixture = Fixture::with_types().await;
    let at = key("set", "k");
    let old = fixture.do_to(at, add("a")).await.context;
    fixture.store.delete(DeleteRequest::of(at)).await.unwrap();
    assert_eq!(fixture.fetch(at).await, None);
    fixture.do_to(at, add("b")).await;
    assert_eq!(fixture.fetch(at).await.unwrap().value, Value::Set(vec!["b".into()]));
    fixture.store.delete(DeleteRequest::of(at)).await.unwrap();
    fixture.clock.advance_us(10 * SECOND_US);
    assert_eq!(fixture.reap().await, 1);
    fixture.do_to(at, add("c")).await;
    let stale = DataTypeRequest { context: old, ..request(at, remove("c")) };
    fixture.store.update_data_type(stale).await.unwrap();
    let left = fixture.fetch(at).await.unwrap().value;
    assert_eq!(left, Value::Set(vec!["c".into()]), "a context from an earlier life");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_clients_put_stays_beside_the_counter() {
    let fixture = Fixture::with_types().await;
    let at = key("counter", "k");
    fixture.put(at, "foreign").await;
    assert_eq!(fixture.fetch(at).await, None);
    assert_eq!(fixture.do_to(at, Operation::Counter(3)).await.value, Value::Counter(3));
    fixture.put(at, "another").await;
    assert_eq!(fixture.do_to(at, Operation::Counter(1)).await.value, Value::Counter(4));
    assert_eq!(fixture.get(at).await.unwrap().siblings.len(), 3);
    fixture.update(at, "all of it").await;
    assert_eq!(fixture.fetch(at).await, None);
}

#[tokio::test(flavor = "multi_thread")]
async fn counters_of_buckets_without_a_data_type_are_those_of_riak_1_4() {
    let fixture = fixture();
    fixture.create_type("sibs", json!({"allow_mult": true})).await;
    let at = key("sibs", "k");
    let updated = fixture.do_to(at, Operation::Counter(7)).await;
    assert_eq!((updated.datatype, updated.value), (Datatype::Counter, Value::Counter(7)));
    let object = fixture.get(at).await.unwrap();
    let shown = RiakDataType::decode(&object.siblings[0].value);
    assert!(matches!(shown, Ok(RiakDataType::LegacyCounter(_))), "{shown:?}");
    let refused = fixture.store.put(put_of(at, "v")).await;
    assert!(refused.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn hyperloglogs_have_the_precision_of_their_bucket_type() {
    let fixture = fixture();
    let props = json!({"datatype": "hll", "allow_mult": true, "hll_precision": 5});
    fixture.create_type("small", props).await;
    let at = key("small", "k");
    fixture.do_to(at, Operation::Hll(vec!["a".into()])).await;
    let object = fixture.get(at).await.unwrap();
    let shown = RiakDataType::decode(&object.siblings[0].value);
    let Ok(RiakDataType::Hll(hll)) = shown else { panic!("{shown:?}") };
    assert_eq!(hll.precision().bits(), 5);
}

fn numbered(numbers: std::ops::Range<u32>) -> Vec<Bytes> {
    numbers.map(|number| Bytes::from(format!("element {number:06}"))).collect()
}

fn sorted(value: Value) -> Vec<Bytes> {
    let Value::Set(mut elements) = value else { panic!("{value:?} is no set") };
    elements.sort_unstable();
    elements
}

#[tokio::test(flavor = "multi_thread")]
async fn large_sets_are_read_changed_put_over_and_deleted_like_small_ones() {
    let fixture = Fixture::with_types().await;
    let at = key("set", "k");
    let all = Operation::Set(numbered(0..5_000).into_iter().map(SetChange::Add).collect());
    fixture.do_to(at, all).await;
    let context = fixture.do_to(at, add("x")).await.context;
    fixture.do_to(at, remove("element 000007")).await;
    let absent = fixture.store.update_data_type(request(at, remove("element 000007"))).await;
    assert!(matches!(absent, Err(RequestError::DataType(DataTypeError::Update(_)))), "{absent:?}");
    fixture.do_to(at, add("element 000008")).await;
    for element in ["element 000008", "element 000009"] {
        let seen = DataTypeRequest { context: context.clone(), ..request(at, remove(element)) };
        fixture.store.update_data_type(seen).await.unwrap();
    }
    let mut expected = numbered(0..5_000);
    expected
        .retain(|element| !["element 000007", "element 000009"].iter().any(|gone| element == gone));
    expected.push("x".into());
    let found = sorted(fixture.fetch(at).await.unwrap().value);
    assert_eq!(found.len(), expected.len());
    assert_eq!(found, expected);
    let object = fixture.get(at).await.unwrap();
    let Ok(RiakDataType::Set(set)) = RiakDataType::decode(&object.siblings[0].value) else {
        panic!("Riak's form")
    };
    assert_eq!(set.entries.len(), expected.len());
    fixture.put(at, "foreign").await;
    assert_eq!(fixture.get(at).await.unwrap().siblings.len(), 2);
    assert_eq!(sorted(fixture.do_to(at, add("y")).await.value).len(), expected.len() + 1);
    fixture.store.delete(DeleteRequest::of(at)).await.unwrap();
    assert_eq!(fixture.fetch(at).await, None);
    fixture.do_to(at, add("z")).await;
    assert_eq!(sorted(fixture.fetch(at).await.unwrap().value), ["z"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_of_large_maps_are_changed_one_by_one() {
    let fixture = Fixture::with_types().await;
    let at = key("map", "k");
    let count = |name: String, by| FieldUpdate::new(name, FieldOperation::Counter(by));
    for chunk in 0..20 {
        let updates = (0..100).map(|number| count(format!("field {}", chunk * 100 + number), 1));
        let map = MapOperation { updates: updates.collect(), ..MapOperation::default() };
        fixture.do_to(at, Operation::Map(map)).await;
    }
    let removes = vec![FieldName::new("field 3", FieldKind::Counter)];
    let updates = vec![count("field 5".to_owned(), 10), count("new".to_owned(), 7)];
    let map = MapOperation { removes, updates };
    let found = fixture.do_to(at, Operation::Map(map)).await;
    let Value::Map(fields) = found.value else { panic!("no map") };
    assert_eq!(fields.len(), 2_000);
    let value_of = |name: &str| {
        let field = fields.iter().find(|(field, _)| field.name == name);
        field.map(|(_, value)| value.clone())
    };
    assert_eq!(value_of("field 3"), None);
    assert_eq!(value_of("field 4"), Some(Value::Counter(1)));
    assert_eq!(value_of("field 5"), Some(Value::Counter(11)));
    assert_eq!(value_of("new"), Some(Value::Counter(7)));
}

/// Runs an operation as the only task of the only thread, beside one other task. Returns its result,
/// the time that it took, and the longest time that the other task waited for its turn.
async fn beside_another<T>(operation: impl Future<Output = T>) -> (T, Duration, Duration) {
    let is_done = Arc::new(AtomicBool::new(false));
    let ends = Arc::clone(&is_done);
    let other = tokio::spawn(async move {
        let (mut last, mut longest) = (Instant::now(), Duration::ZERO);
        while !ends.load(Ordering::Acquire) {
            tokio::task::yield_now().await;
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
        longest
    });
    // The other task has begun by now.
    tokio::task::yield_now().await;
    let start = Instant::now();
    let done = operation.await;
    let took = start.elapsed();
    is_done.store(true, Ordering::Release);
    (done, took, other.await.unwrap())
}

/// Runs operations on a large set. Returns the names of those that kept the only thread to themselves
/// for half of their time or longer, with their times.
async fn that_keep_their_thread() -> Vec<String> {
    let fixture = Fixture::with_types().await;
    let at = key("set", "k");
    let elements = || numbered(0..20_000).into_iter().map(SetChange::Add).collect();
    let first = beside_another(fixture.do_to(at, Operation::Set(elements()))).await;
    let again = beside_another(fixture.do_to(at, Operation::Set(elements()))).await;
    let fetched = beside_another(fixture.fetch(at)).await;
    let all =
        [("first", first.1, first.2), ("again", again.1, again.2), ("fetch", fetched.1, fetched.2)];
    let keeping = all.into_iter().filter(|(_, took, waited)| *waited >= *took / 2);
    let told = |(name, took, waited)| format!("{name}: another task waited {waited:?} of {took:?}");
    keeping.map(told).collect()
}

#[test]
fn operations_on_large_sets_leave_their_thread_to_others() {
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.unwrap();
    // The system can also suspend the thread while the other task waits, which a busy machine does now
    // and then. An operation that keeps its thread does so each time.
    let each = (0..8).map(|_| runtime.block_on(runtime.spawn(that_keep_their_thread())).unwrap());
    let each: Vec<_> = each.take_while(|keeping| !keeping.is_empty()).collect();
    assert!(each.len() < 8, "{each:?}");
}
