//! Tests of bucket properties.

mod bucket_types;
mod json_forms;
mod quorums;
mod special_rules;
mod validation;

use super::{BucketProps, InvalidProps, PropUpdates, Scope};
use serde_json::{Map, Value};

/// Property updates from a JSON object.
fn updates(object: Value) -> PropUpdates {
    PropUpdates::from(map(object))
}

fn map(object: Value) -> Map<String, Value> {
    match object {
        Value::Object(map) => map,
        other => panic!("not an object: {other}"),
    }
}

/// The refusal of `object`, as the term that clients receive.
fn refusal(props: &BucketProps, scope: Scope, object: Value) -> String {
    props.updated(scope, &updates(object)).expect_err("expected to be refused").term()
}

fn accepted(props: &BucketProps, scope: Scope, object: Value) -> BucketProps {
    props.updated(scope, &updates(object)).unwrap()
}

fn new_type(object: Value) -> Result<BucketProps, InvalidProps> {
    BucketProps::for_new_type(&updates(object))
}
