use super::*;
use FieldOperation as F;

fn read(datatype: Datatype, body: &str) -> Result<Operation, String> {
    let update = read_update(datatype, body.as_bytes());
    update.map(|update| update.operation).map_err(|fault| fault.to_string())
}

/// Checks the amount that a body adds to a counter.
fn check_counter(body: &str, amount: i64) {
    assert_eq!(read(Datatype::Counter, body), Ok(Operation::Counter(amount)), "{body}");
}

fn add(element: &'static str) -> SetChange {
    SetChange::Add(element.into())
}

fn remove(element: &'static str) -> SetChange {
    SetChange::Remove(element.into())
}

#[test]
fn counters_have_five_forms() {
    check_counter("5", 5);
    check_counter("-3", -3);
    check_counter(r#""increment""#, 1);
    check_counter(r#""decrement""#, -1);
    check_counter(r#"{"increment":5}"#, 5);
    check_counter(r#"{"decrement":5}"#, -5);
    check_counter(r#"{"decrement":-5, "context":""}"#, 5);
    check_counter("-9223372036854775808", i64::MIN);
}

#[test]
fn other_operations_on_counters_are_shown() {
    for (body, shown) in [
        (r#"{"increment":1,"decrement":1}"#, r#"{"increment":1,"decrement":1}"#),
        (r#"{"add": "x"}"#, r#"{"add":"x"}"#),
        (r#""double""#, r#""double""#),
        (r#"{"increment":"x"}"#, r#"{"increment":"x"}"#),
        ("1.5", "1.5"),
        ("{}", "{}"),
        ("null", "null"),
        (r#"{"decrement":-9223372036854775808}"#, r#"{"decrement":-9223372036854775808}"#),
    ] {
        let expected = format!("Invalid operation on datatype 'counter': {shown}\n");
        assert_eq!(read(Datatype::Counter, body), Err(expected));
    }
}

#[test]
fn sets_are_changed_in_the_order_given() {
    let body = r#"{"remove":"a","add":"b","update":[{"add_all":["c","a"]},{"remove_all":["b"]}],
                   "add":"d","update":{"remove":"c"}}"#;
    let changes =
        vec![remove("a"), add("b"), add("c"), add("a"), remove("b"), add("d"), remove("c")];
    assert_eq!(read(Datatype::Set, body), Ok(Operation::Set(changes)));
    assert_eq!(read(Datatype::Set, "{}"), Ok(Operation::Set(Vec::new())));
}

#[test]
fn other_operations_on_sets_are_shown() {
    for body in [
        r#"{"increment":1}"#,
        "5",
        r#"{"add":5}"#,
        r#"{"add_all":"x"}"#,
        r#"{"add":["x"]}"#,
        r#"{"add_all":["x",1]}"#,
        r#"{"update":[5]}"#,
        r#"[{"add":"x"}]"#,
    ] {
        let expected = format!("Invalid operation on datatype 'set': {body}\n");
        assert_eq!(read(Datatype::Set, body), Err(expected));
    }
}

#[test]
fn what_only_grows_takes_no_removes() {
    let elements = vec!["a".into(), "b".into()];
    let body = r#"{"add":"a","update":{"add_all":["b"]}}"#;
    assert_eq!(read(Datatype::Gset, body), Ok(Operation::Gset(elements.clone())));
    assert_eq!(read(Datatype::Hll, body), Ok(Operation::Hll(elements)));
    let body = r#"{"add":"a","remove":"b"}"#;
    let expected = format!("Invalid operation on datatype 'gset': {body}\n");
    assert_eq!(read(Datatype::Gset, body), Err(expected));
    assert!(read(Datatype::Hll, r#"{"remove_all":["b"]}"#).is_err());
}

#[test]
fn maps_have_every_kind_of_field() {
    let body = r#"{"update":{"a_b_counter":5,"s_set":{"add":"x"},"r_register":"v",
        "q_register":{"assign":"w"},"f_flag":"enable","g_flag":"disable",
        "_map":{"update":{"c_counter":{"decrement":1}},"remove":"old_set"}},
        "remove":["x_register","y_map"]}"#;
    let inner = MapOperation {
        removes: vec![FieldName::new("old", FieldKind::Set)],
        updates: vec![FieldUpdate::new("c", F::Counter(-1))],
    };
    let expected = MapOperation {
        removes: vec![
            FieldName::new("x", FieldKind::Register),
            FieldName::new("y", FieldKind::Map),
        ],
        updates: vec![
            FieldUpdate::new("a_b", F::Counter(5)),
            FieldUpdate::new("s", F::Set(vec![add("x")])),
            FieldUpdate::new("r", F::Register("v".into())),
            FieldUpdate::new("q", F::Register("w".into())),
            FieldUpdate::new("f", F::Flag(true)),
            FieldUpdate::new("g", F::Flag(false)),
            FieldUpdate::new("", F::Map(inner)),
        ],
    };
    assert_eq!(read(Datatype::Map, body), Ok(Operation::Map(expected)));
    assert_eq!(read(Datatype::Map, "{}"), Ok(Operation::Map(MapOperation::default())));
}

#[test]
fn faults_in_maps_are_told_with_what_is_wrong() {
    for (body, text) in [
        (r#"{"add":"x"}"#, "Invalid operation on datatype 'map': {\"add\":\"x\"}\n"),
        ("5", "Invalid operation on datatype 'map': 5\n"),
        (r#"{"update":{"s_set":5}}"#, "Invalid operation on datatype 'set': 5\n"),
        (r#"{"update":{"f_flag":"maybe"}}"#, "Invalid operation on datatype 'flag': \"maybe\"\n"),
        (
            r#"{"update":{"r_register":{"assign":1}}}"#,
            "Invalid operation on datatype 'register': {\"assign\":1}\n",
        ),
        (
            r#"{"update":{"m_map":{"context":"x"}}}"#,
            "Invalid operation on datatype 'map': {\"context\":\"x\"}\n",
        ),
        (r#"{"update":5}"#, "Couldn't decode JSON: the fields to update are not an object\n"),
        (r#"{"remove":5}"#, "Invalid operation on datatype 'map': 5\n"),
        (r#"{"update":{"plain":"x"}}"#, "Invalid map field name 'plain'\n"),
        (r#"{"update":{"a_list":"x"}}"#, "Invalid map field name 'a_list'\n"),
        (r#"{"remove":["plain"]}"#, "Invalid map field name 'plain'\n"),
        (r#"{"update":{"a_gset":{"add":"x"}}}"#, "Invalid map field name 'a_gset'\n"),
    ] {
        assert_eq!(read(Datatype::Map, body), Err(text.to_owned()), "{body}");
    }
}

#[test]
fn a_context_is_base64_and_goes_with_any_type() {
    let context = |datatype, body: &str| read_update(datatype, body.as_bytes()).map(|u| u.context);
    let body = r#"{"remove":"a","context":"AP+A"}"#;
    assert_eq!(context(Datatype::Set, body), Ok(Some(Bytes::from_static(b"\x00\xff\x80"))));
    assert_eq!(context(Datatype::Set, r#"{"remove":"a"}"#), Ok(None));
    assert_eq!(context(Datatype::Map, r#"{"context":null}"#), Ok(None));
    let fault = read(Datatype::Set, r#"{"remove":"a","context":"!!!"}"#).unwrap_err();
    assert_eq!(fault, "Couldn't decode JSON: the context is not base64 text\n");
    assert!(read(Datatype::Set, r#"{"context":5}"#).is_err());
}

#[test]
fn what_is_no_json_is_told_apart_from_what_is_no_text() {
    let fault = read(Datatype::Set, "[1").unwrap_err();
    assert!(fault.starts_with("Couldn't decode JSON: ") && fault.ends_with('\n'), "{fault}");
    assert!(read(Datatype::Counter, "").unwrap_err().starts_with("Couldn't decode JSON: "));
    let fault = read_update(Datatype::Set, b"{\"add\":\"\xff\"}").unwrap_err();
    assert_eq!(fault, JsonFault::NotUtf8);
}
