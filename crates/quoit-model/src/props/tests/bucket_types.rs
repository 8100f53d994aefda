//! Life cycle of bucket types.

use super::*;
use crate::props::{BucketType, TYPE_NAME_BYTES_MAX, TypeError, TypeState};
use serde_json::json;

fn none() -> PropUpdates {
    PropUpdates::default()
}

fn active(object: Value) -> BucketType {
    let created = BucketType::create(None, b"t", &updates(object)).unwrap();
    BucketType::activate(Some(&created.known_everywhere()), b"t").unwrap()
}

#[test]
fn type_is_created_known_everywhere_and_activated() {
    let created = BucketType::create(None, b"t", &updates(json!({"n_val": 2}))).unwrap();
    assert_eq!((created.state, created.props.n_val), (TypeState::Created, 2));
    let early = BucketType::activate(Some(&created), b"t").unwrap_err();
    assert_eq!(early.to_string(), "t has been created but cannot be activated yet");
    let ready = created.known_everywhere();
    assert_eq!(ready.state, TypeState::Ready);
    let active = BucketType::activate(Some(&ready), b"t").unwrap();
    assert_eq!(active.state, TypeState::Active);
    assert_eq!(BucketType::activate(Some(&active), b"t").unwrap(), active);
    assert_eq!(active.known_everywhere(), active);
}

#[test]
fn creation_starts_over_until_the_type_is_active() {
    let first = BucketType::create(None, b"t", &updates(json!({"datatype": "set"}))).unwrap();
    let ready = first.known_everywhere();
    let second = BucketType::create(Some(&ready), b"t", &updates(json!({"n_val": 1}))).unwrap();
    assert_eq!((second.state, second.props.n_val), (TypeState::Created, 1));
    assert_eq!(second.props.datatype, None);
    let refused = BucketType::create(Some(&active(json!({}))), b"t", &none()).unwrap_err();
    assert_eq!(refused.word(), "already_active");
}

#[test]
fn names_of_types_have_rules() {
    let create = |name: &[u8]| BucketType::create(None, name, &none()).unwrap_err();
    assert_eq!(create(b"any").to_string(), "The name 'any' may not be used for bucket types");
    assert_eq!(create(b"any").word(), "reserved_name");
    assert_eq!(create(b"default").word(), "default_type");
    assert_eq!(create(b""), TypeError::NameLength { size_bytes: 0 });
    let long = vec![b'x'; TYPE_NAME_BYTES_MAX + 1];
    assert_eq!(create(&long), TypeError::NameLength { size_bytes: 256 });
    assert!(BucketType::create(None, &[0xff, 0], &none()).is_ok());
}

#[test]
fn only_active_types_are_changed() {
    let change = updates(json!({"n_val": 2}));
    let ready = BucketType::create(None, b"t", &none()).unwrap().known_everywhere();
    for existing in [None, Some(&ready)] {
        let refused = BucketType::update(existing, b"t", &change).unwrap_err();
        assert_eq!(refused.pb_text(), "Invalid bucket properties: not_active");
        assert_eq!(refused.http_json(), json!("not_active"));
        assert_eq!(BucketType::reset(existing, b"t").unwrap_err().word(), "not_active");
    }
    let refused = BucketType::update(None, b"default", &change).unwrap_err();
    assert_eq!(refused.pb_text(), "Invalid bucket properties: no_default_update");
    let changed = BucketType::update(Some(&active(json!({}))), b"t", &change).unwrap();
    assert_eq!((changed.state, changed.props.n_val), (TypeState::Active, 2));
    let reset = BucketType::reset(Some(&changed), b"t").unwrap();
    assert_eq!(*reset.props, BucketProps::new_type());
}

#[test]
fn refused_properties_keep_their_rendering() {
    let existing = active(json!({}));
    let change = updates(json!({"datatype": "set"}));
    let refused = BucketType::update(Some(&existing), b"t", &change).unwrap_err();
    let text = "Invalid bucket properties: [{datatype,\"`datatype` must not be defined.\"}]";
    assert_eq!(refused.pb_text(), text);
    assert_eq!(refused.http_json(), json!({"datatype": "`datatype` must not be defined."}));
}

#[test]
fn unknown_type_cannot_be_activated() {
    let refused = BucketType::activate(None, b"t").unwrap_err();
    assert_eq!(refused.to_string(), "t is not an existing bucket type");
}

#[test]
fn operators_are_told_the_state() {
    let lines = [TypeState::Undefined, TypeState::Created, TypeState::Ready, TypeState::Active]
        .map(|state| state.status_line(b"t"));
    let expected = [
        "t is not an existing bucket type",
        "t has been created but cannot be activated yet",
        "t has been created and may be activated",
        "t is active",
    ];
    assert_eq!(lines, expected);
    assert_eq!(TypeState::Active.list_line(b"t"), "t (active)");
    assert_eq!(TypeState::Ready.list_line(b"t"), "t (not active)");
    for state in [TypeState::Created, TypeState::Ready, TypeState::Active] {
        assert_eq!(TypeState::from_stored(state.as_str()), Some(state));
    }
}
