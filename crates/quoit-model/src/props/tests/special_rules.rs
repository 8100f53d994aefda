//! Rules of data types, write-once and consistent types, and untyped buckets.

use super::*;
use crate::merge::WritePolicy;
use crate::props::Datatype;
use serde_json::json;

const PRECISION: &str = "not supported for Hyperloglog precision property for bucket type. \
    Precision must be an integer between 4 and 16, inclusive (3 < p < 17) and precision can be \
    reduced but never increased after initial setting";

fn term(property: &str, reason: &str) -> String {
    format!("[{{{property},\"{reason}\"}}]")
}

fn refused_type(object: Value) -> String {
    new_type(object).expect_err("expected to be refused").term()
}

fn change_refused(type_props: Value, change: Value) -> String {
    let props = new_type(type_props).unwrap();
    let of_type = refusal(&props, Scope::ActiveType, change.clone());
    assert_eq!(refusal(&props, Scope::TypedBucket, change), of_type, "type and bucket differ");
    of_type
}

#[test]
fn last_write_wins_needs_dotted_clocks_off() {
    let reason = term("dvv_enabled", "If last_write_wins is true, dvv_enabled must be false");
    assert_eq!(refused_type(json!({"last_write_wins": true})), reason);
    new_type(json!({"last_write_wins": true, "dvv_enabled": false})).unwrap();
    assert_eq!(change_refused(json!({}), json!({"last_write_wins": true})), reason);
    let both = json!({"last_write_wins": true, "dvv_enabled": "maybe"});
    assert_eq!(refused_type(both), "[{dvv_enabled,not_boolean}]");
    let untyped = BucketProps::untyped();
    let lww = accepted(&untyped, Scope::UntypedBucket, json!({"last_write_wins": true}));
    assert_eq!(refusal(&lww, Scope::UntypedBucket, json!({"dvv_enabled": true})), reason);
}

#[test]
fn data_types_are_known_ones_with_siblings() {
    assert_eq!(new_type(json!({"datatype": "set"})).unwrap().datatype, Some(Datatype::Set));
    let reason = term("datatype", "tree not supported for bucket datatype property");
    assert_eq!(refused_type(json!({"datatype": "tree"})), reason);
    let reason = term("allow_mult", "Data Type buckets must be allow_mult=true");
    assert_eq!(refused_type(json!({"datatype": "map", "allow_mult": false})), reason);
    assert_eq!(change_refused(json!({"datatype": "map"}), json!({"allow_mult": false})), reason);
}

#[test]
fn data_type_of_a_type_cannot_change() {
    let reason = term("datatype", "counter not supported for bucket datatype property");
    assert_eq!(change_refused(json!({"datatype": "set"}), json!({"datatype": "counter"})), reason);
    let props = new_type(json!({"datatype": "set"})).unwrap();
    accepted(&props, Scope::ActiveType, json!({"datatype": "set"}));
    let reason = term("datatype", "`datatype` must not be defined.");
    assert_eq!(change_refused(json!({}), json!({"datatype": "set"})), reason);
}

#[test]
fn hyperloglog_precision_only_shrinks() {
    let props = new_type(json!({"datatype": "hll"})).unwrap();
    assert_eq!(props.hll_precision, Some(14));
    for bad in [3, 17] {
        let reason = term("hll_precision", &format!("{bad} {PRECISION}"));
        assert_eq!(refused_type(json!({"datatype": "hll", "hll_precision": bad})), reason);
    }
    let smaller = accepted(&props, Scope::ActiveType, json!({"hll_precision": 12}));
    let reason = term("hll_precision", &format!("13 {PRECISION}"));
    assert_eq!(refusal(&smaller, Scope::ActiveType, json!({"hll_precision": 13})), reason);
    assert_eq!(new_type(json!({"datatype": "set"})).unwrap().hll_precision, None);
}

#[test]
fn write_once_is_chosen_at_creation_and_for_ever() {
    assert!(new_type(json!({"write_once": true})).unwrap().is_write_once());
    let once = json!({"write_once": true});
    let reason = term("write_once", "Cannot modify write_once property once set to true");
    assert_eq!(change_refused(once.clone(), json!({"write_once": false})), reason);
    let reason = term("write_once", "Cannot set existing bucket type to `write_once`");
    assert_eq!(change_refused(json!({}), once.clone()), reason);
    let reason = term("datatype", "Write once buckets must not have datatype defined");
    assert_eq!(refused_type(json!({"write_once": true, "datatype": "set"})), reason);
    assert_eq!(change_refused(once.clone(), json!({"datatype": "set"})), reason);
    let reason = term("consistent", "Write once buckets must be not be consistent=true");
    assert_eq!(refused_type(json!({"write_once": true, "consistent": true})), reason);
    let reason = term("consistent", "Write once buckets must not be consistent=true");
    assert_eq!(change_refused(once, json!({"consistent": true})), reason);
}

#[test]
fn consistency_and_its_replicas_are_chosen_at_creation() {
    let consistent = json!({"consistent": true});
    let reason = term("consistent", "cannot update consistent property");
    for change in [json!(false), json!("maybe")] {
        assert_eq!(change_refused(consistent.clone(), json!({"consistent": change})), reason);
    }
    let reason = term("n_val", "n_val cannot be modified for existing consistent type");
    assert_eq!(change_refused(consistent.clone(), json!({"n_val": 5})), reason);
    let props = new_type(consistent.clone()).unwrap();
    accepted(&props, Scope::ActiveType, json!({"n_val": 3, "consistent": true}));
    let reason = term("consistent", "Write once buckets must not be consistent=true");
    assert_eq!(change_refused(json!({}), consistent), reason);
}

#[test]
fn a_data_type_becomes_no_other_special_kind() {
    let set = json!({"datatype": "set"});
    for value in [json!(true), json!("maybe")] {
        let reason = term("consistent", "cannot update consistent property");
        assert_eq!(change_refused(set.clone(), json!({"consistent": value})), reason);
        let reason = term("write_once", "cannot update write_once property");
        assert_eq!(change_refused(set.clone(), json!({"write_once": value})), reason);
    }
    let props = new_type(set).unwrap();
    accepted(&props, Scope::ActiveType, json!({"write_once": false, "consistent": false}));
    let reason = term("write_once", "cannot update write_once property");
    assert_eq!(change_refused(json!({}), json!({"write_once": "maybe"})), reason);
    let reason = term("consistent", "cannot update consistent property");
    assert_eq!(change_refused(json!({}), json!({"consistent": "maybe"})), reason);
}

#[test]
fn untyped_buckets_have_no_special_kinds() {
    let untyped = BucketProps::untyped();
    let refused = |object| refusal(&untyped, Scope::UntypedBucket, object);
    for value in [json!(true), json!("maybe")] {
        let reason = term("consistent", "cannot update consistent property");
        assert_eq!(refused(json!({"consistent": value})), reason);
        let reason = term("write_once", "cannot update write_once property");
        assert_eq!(refused(json!({"write_once": value})), reason);
    }
    let harmless = json!({"write_once": false, "consistent": false, "datatype": "set"});
    let props = accepted(&untyped, Scope::UntypedBucket, harmless);
    assert_eq!(props.datatype, None);
    assert_eq!(props.datatype_name(), Some("set"));
    assert_eq!(props.to_json()["datatype"], json!("set"));
}

#[test]
fn reset_keeps_what_cannot_change() {
    let hll = new_type(json!({"datatype": "hll", "hll_precision": 8, "n_val": 5})).unwrap();
    let expected = new_type(json!({"datatype": "hll", "hll_precision": 8})).unwrap();
    assert_eq!(hll.reset_type(), expected);
    let once = new_type(json!({"write_once": true, "ttl": 9})).unwrap();
    assert_eq!(once.reset_type(), new_type(json!({"write_once": true})).unwrap());
    let consistent = json!({"consistent": true, "n_val": 5});
    let props = new_type(consistent.clone()).unwrap();
    assert_eq!(props.reset_type(), new_type(consistent).unwrap());
}

#[test]
fn policy_of_writes_follows_from_the_properties() {
    let policy = |object| new_type(object).unwrap().write_policy();
    assert_eq!(policy(json!({})), WritePolicy::Siblings);
    assert_eq!(policy(json!({"allow_mult": false})), WritePolicy::LatestModified);
    let lww = json!({"last_write_wins": true, "dvv_enabled": false});
    assert_eq!(policy(lww), WritePolicy::LastWriteWins);
    assert_eq!(policy(json!({"write_once": true})), WritePolicy::WriteOnce);
    assert_eq!(BucketProps::untyped().write_policy(), WritePolicy::LatestModified);
}
