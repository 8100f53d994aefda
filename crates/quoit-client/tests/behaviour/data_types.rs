//! Data types: the requests that the client sends, and its reading of the answers.

use crate::fake::Fake;
use bytes::Bytes;
use quoit_client::wire::messages::{
    CounterOp, DataType, DtFetchReq, DtFetchResp, DtOp, DtQueryReq, DtQueryResp, DtUpdateReq,
    DtUpdateResp, DtValue, FlagOp, MapEntry, MapField, MapFieldType, MapOp, RpbCounterGetReq,
    RpbCounterGetResp, RpbCounterUpdateReq, RpbCounterUpdateResp, SetOp,
};
use quoit_client::*;
use std::time::Duration;
use tokio::join;

fn bytes(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

fn location() -> Location {
    Bucket::new("b").typed("t").key("k")
}

fn field(name: &'static str, kind: MapFieldType) -> MapField {
    MapField { name: bytes(name), kind: kind as i32 }
}

#[tokio::test]
async fn a_fetch_sends_all_its_options() {
    let (mut fake, client) = Fake::with_client().await;
    let options = FetchOptions {
        r: Quorum::One,
        pr: Quorum::Count(2),
        basic_quorum: Some(true),
        notfound_ok: Some(false),
        timeout: Some(Duration::from_millis(1500)),
        sloppy_quorum: Some(false),
        n_val: Some(3),
        without_context: true,
        node_confirms: Some(1),
    };
    let answer = DtFetchResp { kind: DataType::Counter as i32, ..DtFetchResp::default() };
    let serve = fake.answer_next::<DtFetchReq, _>(&answer);
    let location = location();
    let (fetched, request) = join!(client.fetch_with(&location, &options), serve);
    assert_eq!(fetched.unwrap(), None, "an answer without value");
    let expected = DtFetchReq {
        bucket: bytes("b"),
        key: bytes("k"),
        bucket_type: bytes("t"),
        r: Some(0xffff_fffe),
        pr: Some(2),
        basic_quorum: Some(true),
        notfound_ok: Some(false),
        timeout: Some(1500),
        sloppy_quorum: Some(false),
        n_val: Some(3),
        include_context: Some(false),
        node_confirms: Some(1),
    };
    assert_eq!(request, expected);
}

#[tokio::test]
async fn a_map_is_read_with_all_its_fields() {
    let (mut fake, client) = Fake::with_client().await;
    let entry = |name, kind| MapEntry { field: field(name, kind), ..MapEntry::default() };
    let inner = MapEntry { flag_value: Some(false), ..entry("f", MapFieldType::Flag) };
    let entries = vec![
        MapEntry { counter_value: Some(-3), ..entry("x", MapFieldType::Counter) },
        MapEntry { set_value: vec![bytes("a")], ..entry("x", MapFieldType::Set) },
        MapEntry { register_value: Some(bytes("v")), ..entry("r", MapFieldType::Register) },
        entry("unassigned", MapFieldType::Register),
        MapEntry { map_value: vec![inner], ..entry("m", MapFieldType::Map) },
    ];
    let answer = DtFetchResp {
        context: Some(bytes("c")),
        kind: DataType::Map as i32,
        value: Some(DtValue { map_value: entries, ..DtValue::default() }),
    };
    let serve = fake.answer_next::<DtFetchReq, _>(&answer);
    let location = location();
    let (fetched, _) = join!(client.fetch(&location), serve);
    let fetched = fetched.unwrap().expect("a map");
    assert_eq!(fetched.context, Some(Context(bytes("c"))));
    let inner = MapValue { flags: [(bytes("f"), false)].into(), ..MapValue::default() };
    let expected = MapValue {
        counters: [(bytes("x"), -3)].into(),
        sets: [(bytes("x"), [bytes("a")].into())].into(),
        registers: [(bytes("r"), bytes("v"))].into(),
        flags: [].into(),
        maps: [(bytes("m"), inner)].into(),
    };
    assert_eq!(fetched.value.as_map(), Some(&expected));
}

#[tokio::test]
async fn an_update_sends_all_its_options() {
    let (mut fake, client) = Fake::with_client().await;
    let update = MapUpdate::new()
        .remove(FieldKind::Set, "s")
        .count("c", -2)
        .assign("r", "v")
        .enable("f")
        .update_map("m", MapUpdate::new().disable("g"))
        .update_set("t", SetUpdate::new().insert("a").remove("b"));
    let options = DataTypeOptions {
        context: Some(Context(bytes("c"))),
        without_context: false,
        w: Quorum::All,
        dw: Quorum::One,
        pw: Quorum::Majority,
        return_body: true,
        timeout: Some(Duration::from_secs(2)),
        sloppy_quorum: Some(true),
        n_val: Some(2),
        node_confirms: Quorum::Count(1),
        resend: false,
    };
    let answer = DtUpdateResp { context: Some(bytes("d")), ..DtUpdateResp::default() };
    let serve = fake.answer_next::<DtUpdateReq, _>(&answer);
    let location = location();
    let (updated, request) =
        join!(client.update_data_type_with(&location, update, &options), serve);
    let change =
        |name, kind| wire::messages::MapUpdate { field: field(name, kind), ..Default::default() };
    use wire::messages::MapUpdate as Change;
    let inner = Change { flag_op: Some(FlagOp::Disable as i32), ..change("g", MapFieldType::Flag) };
    let set = SetOp { adds: vec![bytes("a")], removes: vec![bytes("b")] };
    let map = MapOp {
        removes: vec![field("s", MapFieldType::Set)],
        updates: vec![
            Change {
                counter_op: Some(CounterOp { increment: Some(-2) }),
                ..change("c", MapFieldType::Counter)
            },
            Change { register_op: Some(bytes("v")), ..change("r", MapFieldType::Register) },
            Change { flag_op: Some(FlagOp::Enable as i32), ..change("f", MapFieldType::Flag) },
            Change {
                map_op: Some(MapOp { removes: vec![], updates: vec![inner] }),
                ..change("m", MapFieldType::Map)
            },
            Change { set_op: Some(set), ..change("t", MapFieldType::Set) },
        ],
    };
    let expected = DtUpdateReq {
        bucket: bytes("b"),
        key: Some(bytes("k")),
        bucket_type: bytes("t"),
        context: Some(bytes("c")),
        op: DtOp { map_op: Some(map), ..DtOp::default() },
        w: Some(0xffff_fffc),
        dw: Some(0xffff_fffe),
        pw: Some(0xffff_fffd),
        return_body: Some(true),
        timeout: Some(2000),
        sloppy_quorum: Some(true),
        n_val: Some(2),
        include_context: None,
        node_confirms: Some(1),
    };
    assert_eq!(request, expected);
    let body = updated.unwrap().body.expect("it was asked for");
    assert_eq!(body.value, DataTypeValue::Map(MapValue::default()));
    assert_eq!(body.context, Some(Context(bytes("d"))));
}

#[tokio::test]
async fn what_was_asked_for_says_what_the_answer_is() {
    let (mut fake, client) = Fake::with_client().await;
    let bucket = Bucket::new("b").typed("t");
    let options = DataTypeOptions { return_body: true, ..DataTypeOptions::default() };
    let elements = vec![bytes("a")];
    let cases = [
        (
            DataTypeUpdate::counter(0),
            DtUpdateResp { counter_value: Some(7), ..DtUpdateResp::default() },
            DataTypeValue::Counter(7),
        ),
        (
            DataTypeUpdate::gset(["a"]),
            DtUpdateResp { gset_value: elements.clone(), ..DtUpdateResp::default() },
            DataTypeValue::Gset(elements.clone().into_iter().collect()),
        ),
        (
            DataTypeUpdate::hll(["a"]),
            DtUpdateResp { hll_value: Some(1), ..DtUpdateResp::default() },
            DataTypeValue::Hll(1),
        ),
        (
            SetUpdate::new().insert("a").into(),
            DtUpdateResp { set_value: elements.clone(), ..DtUpdateResp::default() },
            DataTypeValue::Set(elements.into_iter().collect()),
        ),
    ];
    for (update, answer, expected) in cases {
        let answer = DtUpdateResp { key: Some(bytes("made")), ..answer };
        let serve = fake.answer_next::<DtUpdateReq, _>(&answer);
        let (inserted, request) = join!(client.insert_data_type(&bucket, update, &options), serve);
        let inserted = inserted.unwrap();
        assert_eq!(request.key, None);
        assert_eq!(inserted.key, Some(bytes("made")));
        assert_eq!(inserted.body.expect("it was asked for").value, expected);
    }
}

#[tokio::test]
async fn removes_need_a_context_or_somebodys_word() {
    let (mut fake, client) = Fake::with_client().await;
    let location = location();
    let remove = || SetUpdate::new().remove("a");
    let refused = client.update_data_type(&location, remove()).await;
    assert!(matches!(refused, Err(Error::ContextRequired)), "{refused:?}");
    assert!(fake.is_quiet());
    let options = DataTypeOptions { without_context: true, ..DataTypeOptions::default() };
    let answer = DtUpdateResp::default();
    let serve = fake.answer_next::<DtUpdateReq, _>(&answer);
    let (updated, request) =
        join!(client.update_data_type_with(&location, remove(), &options), serve);
    assert_eq!(updated.unwrap(), UpdatedDataType { key: None, body: None });
    assert_eq!(request.context, None);
}

#[tokio::test]
async fn a_broken_connection_counts_nothing_twice() {
    let (mut fake, client) = Fake::with_client().await;
    let location = location();
    let update = client.update_data_type(&location, DataTypeUpdate::counter(1));
    let (updated, ()) = join!(update, async {
        fake.next().await.hang_up().await;
        fake.closed().await;
    });
    assert!(matches!(updated, Err(Error::Lost { .. })), "{updated:?}");
    assert!(fake.is_quiet());
}

#[tokio::test]
async fn questions_name_the_way_to_a_field() {
    let (mut fake, client) = Fake::with_client().await;
    let location = location();
    let tags = client.in_field(&location, FieldPath::new().map("m").set("s"));
    let path = vec![field("m", MapFieldType::Map), field("s", MapFieldType::Set)];
    let question = DtQueryReq {
        bucket: bytes("b"),
        key: bytes("k"),
        bucket_type: bytes("t"),
        path,
        ..DtQueryReq::default()
    };
    let answer = DtQueryResp { kind: DataType::Set as i32, found: true, ..DtQueryResp::default() };
    let size = DtQueryResp { size: Some(7), ..answer.clone() };
    let serve = fake.answer_next::<DtQueryReq, _>(&size);
    let (size, request) = join!(tags.size(), serve);
    assert_eq!((size.unwrap(), request), (Some(7), question.clone()));
    let contains = DtQueryResp { contains: Some(true), ..answer.clone() };
    let serve = fake.answer_next::<DtQueryReq, _>(&contains);
    let (contains, request) = join!(tags.contains("e"), serve);
    let expected = DtQueryReq { element: Some(bytes("e")), ..question.clone() };
    assert_eq!((contains.unwrap(), request), (true, expected));
    let value = DtValue { set_value: vec![bytes("e")], ..DtValue::default() };
    let page = DtQueryResp { value: Some(value), cursor: Some(bytes("c")), ..answer };
    let serve = fake.answer_next::<DtQueryReq, _>(&page);
    let (page, request) = join!(tags.page(5, None), serve);
    let page = page.unwrap().expect("a page");
    assert_eq!(page.value.as_set(), Some(&[bytes("e")].into()));
    assert_eq!(request, DtQueryReq { page_size: Some(5), ..question.clone() });
    let missing = DtQueryResp { kind: DataType::Set as i32, ..DtQueryResp::default() };
    let serve = fake.answer_next::<DtQueryReq, _>(&missing);
    let (missing, request) = join!(tags.page(5, page.next.as_ref()), serve);
    let expected = DtQueryReq { page_size: Some(5), cursor: Some(bytes("c")), ..question };
    assert_eq!((missing.unwrap(), request), (None, expected));
}

#[tokio::test]
async fn legacy_counters_have_messages_of_their_own() {
    let (mut fake, client) = Fake::with_client().await;
    let location = Bucket::new("b").key("k");
    let answer = RpbCounterGetResp { value: None };
    let serve = fake.answer_next::<RpbCounterGetReq, _>(&answer);
    let (value, request) = join!(client.legacy_counter(&location), serve);
    assert_eq!(value.unwrap(), None);
    assert_eq!((request.bucket, request.key), (bytes("b"), bytes("k")));
    let answer = RpbCounterUpdateResp { value: Some(-4) };
    let serve = fake.answer_next::<RpbCounterUpdateReq, _>(&answer);
    let (value, request) = join!(client.update_legacy_counter(&location, -9), serve);
    assert_eq!(value.unwrap(), -4);
    assert_eq!((request.amount, request.returnvalue), (-9, Some(true)));
}
