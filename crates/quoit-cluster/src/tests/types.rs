//! Commands on bucket types, each of which survives reopening.

use super::*;
use crate::{BUCKET_TYPES_MAX, Change, ChangeError, Command};
use quoit_model::props::{BucketType, TypeState};
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn type_is_unknown_to_clients_until_it_is_active() {
    let fixture = Fixture::new();
    let control = fixture.open();
    assert_eq!(control.read().type_state(b"t"), TypeState::Undefined);
    let state = control.create_type(b"t", &updates(json!({"n_val": 2}))).await.unwrap();
    assert_eq!(state, TypeState::Ready);
    assert!(control.bucket_props(typed("t", "b")).is_err());
    assert!(control.read().type_props(b"t").is_err());
    control.activate_type(b"t").await.unwrap();
    assert_eq!(control.bucket_props(typed("t", "b")).unwrap().n_val, 2);
    assert_eq!(control.read().type_props(b"t").unwrap().n_val, 2);
}

#[tokio::test]
async fn every_command_on_a_type_survives_reopening() {
    let fixture = Fixture::new();
    fixture.open().create_type(b"t", &updates(json!({"n_val": 1}))).await.unwrap();
    assert_eq!(fixture.open().read().type_state(b"t"), TypeState::Ready);
    fixture.open().create_type(b"t", &updates(json!({"n_val": 2}))).await.unwrap();
    fixture.open().activate_type(b"t").await.unwrap();
    assert_eq!(fixture.open().read().type_state(b"t"), TypeState::Active);
    fixture.open().update_type(b"t", &updates(json!({"ttl": 60}))).await.unwrap();
    let props = fixture.open().bucket_props(typed("t", "b")).unwrap();
    assert_eq!((props.n_val, props.ttl_secs), (2, Some(60)));
    fixture.open().reset_type(b"t").await.unwrap();
    let props = fixture.open().bucket_props(typed("t", "b")).unwrap();
    assert_eq!(*props, BucketProps::new_type());
}

#[tokio::test]
async fn activation_again_changes_nothing() {
    let fixture = Fixture::new();
    let control = fixture.open();
    with_active_type(&control, json!({})).await;
    control.activate_type(b"t").await.unwrap();
    control.activate_type(b"default").await.unwrap();
    assert_eq!(control.read().decide(Command::ActivateType { name: b"t" }).unwrap(), []);
}

#[tokio::test]
async fn refusals_are_worded_for_each_protocol_and_change_nothing() {
    let fixture = Fixture::new();
    let control = fixture.open();
    with_active_type(&control, json!({})).await;
    let refused = control.update_type(b"none", &updates(json!({"n_val": 2}))).await.unwrap_err();
    assert_eq!(refused.pb_text(), "Invalid bucket properties: not_active");
    assert_eq!(refused.http_json(), json!("not_active"));
    let refused =
        control.update_type(b"t", &updates(json!({"n_val": 2, "r": 0}))).await.unwrap_err();
    assert_eq!(refused.pb_text(), "Invalid bucket properties: [{r,not_valid_quorum}]");
    assert!(!refused.is_server_fault());
    assert_eq!(*control.bucket_props(typed("t", "b")).unwrap(), BucketProps::new_type());
    let refused = control.create_type(b"any", &PropUpdates::default()).await.unwrap_err();
    assert_eq!(refused.to_string(), "The name 'any' may not be used for bucket types");
    let refused = control.activate_type(b"none").await.unwrap_err();
    assert_eq!(refused.to_string(), "none is not an existing bucket type");
}

#[tokio::test]
async fn types_are_listed_by_name_after_the_default_one() {
    let fixture = Fixture::new();
    let control = fixture.open();
    for name in [&b"zebra"[..], &[0xff, 0x00], b"ant"] {
        control.create_type(name, &PropUpdates::default()).await.unwrap();
    }
    control.activate_type(b"ant").await.unwrap();
    let listed = fixture_list(&control);
    assert_eq!(
        listed,
        ["default (active)", "ant (active)", "zebra (not active)", "\u{fffd}\0 (not active)"]
    );
    drop(control);
    assert_eq!(fixture_list(&fixture.open()), listed);
}

fn fixture_list(control: &ControlPlane) -> Vec<String> {
    control.read().list_types().iter().map(|(name, state)| state.list_line(name)).collect()
}

#[tokio::test]
async fn status_shows_state_properties_and_claimant() {
    let fixture = Fixture::new();
    let control = fixture.open();
    assert_eq!(control.read().type_status(b"t"), None);
    control.create_type(b"t", &updates(json!({"datatype": "set"}))).await.unwrap();
    let status = control.read().type_status(b"t").unwrap();
    assert_eq!(status.state, TypeState::Ready);
    assert_eq!(status.props["active"], json!(false));
    assert_eq!(status.props["claimant"], json!("quoit@127.0.0.1"));
    assert_eq!(status.props["datatype"], json!("set"));
    let default = control.read().type_status(b"default").unwrap();
    assert_eq!(default.props, BucketProps::untyped().to_json());
}

#[test]
fn types_are_bounded_in_number() {
    let fixture = Fixture::new();
    let mut state = (**fixture.open().read()).clone();
    let bucket_type =
        BucketType { state: TypeState::Ready, props: Arc::new(BucketProps::new_type()) };
    for number in 0..BUCKET_TYPES_MAX {
        let name = format!("t{number}").into_bytes().into();
        state.apply(&Change::PutType { name, bucket_type: bucket_type.clone() });
    }
    let none = PropUpdates::default();
    let create = |name| state.decide(Command::CreateType { name, updates: &none });
    assert!(matches!(create(b"one more"), Err(ChangeError::TooManyTypes { max: 4096 })));
    assert!(create(b"t0").is_ok());
}
