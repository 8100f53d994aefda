//! Values that single properties accept, and the texts of refusals.

use super::*;
use crate::props::{
    ConditionalPutMode, N_VAL_MAX, PROP_NAME_BYTES_MAX, PROP_VALUE_BYTES_MAX, PROP_VALUE_DEPTH_MAX,
    Quorum, Reason, SyncOnWrite, UNKNOWN_PROPS_MAX,
};
use proptest::prelude::*;
use serde_json::json;

fn untyped_refusal(object: Value) -> String {
    refusal(&BucketProps::untyped(), Scope::UntypedBucket, object)
}

fn untyped(object: Value) -> BucketProps {
    accepted(&BucketProps::untyped(), Scope::UntypedBucket, object)
}

#[test]
fn booleans_may_be_text_and_numbers() {
    let props = untyped(json!({
        "allow_mult": "true", "basic_quorum": "FALSE", "notfound_ok": 0, "last_write_wins": 1,
    }));
    assert!(props.allow_mult && props.last_write_wins);
    assert!(!props.basic_quorum && !props.notfound_ok);
    assert!(!untyped(json!({"notfound_ok": -3})).notfound_ok);
    assert!(untyped(json!({"allow_mult": u64::MAX})).allow_mult);
}

#[test]
fn what_is_no_boolean_is_refused() {
    for name in ["allow_mult", "basic_quorum", "last_write_wins", "notfound_ok", "stat_tracked"] {
        for value in [json!("yes"), json!(null), json!(1.5), json!([]), json!({})] {
            let expected = format!("[{{{name},not_boolean}}]");
            assert_eq!(untyped_refusal(json!({name: value})), expected);
        }
    }
}

#[test]
fn counts_are_integers_above_zero() {
    for name in ["n_val", "big_vclock", "small_vclock", "old_vclock"] {
        for value in [json!(0), json!(-1), json!("3"), json!(3.0), json!(null), json!(true)] {
            let expected = format!("[{{{name},not_integer}}]");
            assert_eq!(untyped_refusal(json!({name: value})), expected);
        }
    }
    assert_eq!(untyped(json!({"young_vclock": 0})).young_vclock, 0);
    assert_eq!(untyped(json!({"n_val": N_VAL_MAX})).n_val, N_VAL_MAX);
    let refused = untyped_refusal(json!({"n_val": N_VAL_MAX + 1}));
    assert_eq!(refused, "[{n_val,\"must be at most 255\"}]");
}

#[test]
fn quorums_are_words_or_numbers_and_some_may_be_zero() {
    for name in ["r", "w", "rw"] {
        let expected = format!("[{{{name},not_valid_quorum}}]");
        assert_eq!(untyped_refusal(json!({name: 0})), expected);
    }
    for name in ["dw", "pr", "pw", "node_confirms"] {
        assert_eq!(untyped(json!({name: 0})).to_json()[name], json!(0));
        for value in [json!("most"), json!(-1), json!("2"), json!(true), json!(u64::MAX)] {
            let expected = format!("[{{{name},not_valid_quorum}}]");
            assert_eq!(untyped_refusal(json!({name: value})), expected);
        }
    }
    assert_eq!(untyped(json!({"w": "all"})).w, Quorum::All);
}

#[test]
fn sync_on_write_is_one_of_three_words() {
    assert_eq!(untyped(json!({"sync_on_write": "all"})).sync_on_write, SyncOnWrite::All);
    let refused = untyped_refusal(json!({"sync_on_write": "some"}));
    assert_eq!(refused, "[{sync_on_write,not_valid_sync_param}]");
}

#[test]
fn all_faults_are_told_together_and_in_every_rendering() {
    let given = updates(json!({"n_val": 0, "r": 0, "allow_mult": true, "active": true}));
    let refused = BucketProps::untyped().updated(Scope::UntypedBucket, &given).unwrap_err();
    let text = refused.pb_text();
    assert!(text.starts_with("Invalid bucket properties: [{"), "{text}");
    for part in [
        "{r,not_valid_quorum}",
        "{n_val,not_integer}",
        "{active,\"Cannot modify active property\"}",
    ] {
        assert!(text.contains(part), "{text}");
    }
    let expected = json!({
        "n_val": "not_integer", "r": "not_valid_quorum", "active": "Cannot modify active property",
    });
    assert_eq!(refused.http_json(), expected);
    let shown = refused.to_string();
    assert!(shown.contains("n_val: not_integer") && shown.contains("(given: 0)"), "{shown}");
}

#[test]
fn quotes_within_reasons_are_escaped() {
    let refused = new_type(json!({"consistent": "maybe"})).unwrap_err();
    let expected = "[{consistent,\"maybe is not a valid value for consistent. \
                    Use \\\"true\\\" or \\\"false\\\"\"}]";
    assert_eq!(refused.term(), expected);
}

#[test]
fn names_that_are_no_atoms_are_quoted() {
    let refused = InvalidProps::one("it's \"X\"", Reason::NotText);
    assert_eq!(refused.term(), "[{'it\\'s \"X\"',\"must be a text\"}]");
}

#[test]
fn active_and_claimant_are_read_only_and_name_is_ignored() {
    let untyped_props = BucketProps::untyped();
    let typed = BucketProps::new_type();
    let claimant = json!({"claimant": "n@h"});
    for (scope, reason) in [
        (Scope::NewType, "Invalid claimant"),
        (Scope::ActiveType, "Cannot update claimant property"),
        (Scope::TypedBucket, "Cannot update claimant property"),
    ] {
        let expected = format!("[{{claimant,\"{reason}\"}}]");
        assert_eq!(refusal(&typed, scope, claimant.clone()), expected);
    }
    for scope in [Scope::ActiveType, Scope::TypedBucket] {
        let active =
            |value| PropUpdates::from(json!({"active": value}).as_object().unwrap().clone());
        assert_eq!(typed.updated(scope, &active(true)).as_ref(), Ok(&typed));
        let refused = typed.updated(scope, &active(false)).unwrap_err();
        assert_eq!(refused.term(), "[{active,\"Cannot modify active property\"}]");
    }
    assert_eq!(untyped(json!({"name": "other"})), untyped_props);
}

#[test]
fn hooks_functions_and_modes_have_their_forms() {
    let props = untyped(json!({
        "precommit": [{"mod": "m", "fun": "f"}], "postcommit": [{"name": "Js.hook"}],
        "linkfun": {"jsfun": "n"}, "repl": "both",
        "chash_keyfun": {"mod": "riak_core_util", "fun": "chash_bucketonly_keyfun"},
    }));
    let shown = props.to_json();
    assert_eq!(shown["precommit"], json!([{"mod": "m", "fun": "f"}]));
    assert_eq!(shown["postcommit"], json!([{"name": "Js.hook"}]));
    assert_eq!(shown["linkfun"], json!({"jsfun": "n"}));
    assert_eq!(shown["repl"], json!("both"));
    assert_eq!(props.chash_keyfun, crate::hash::PlacementRule::BucketOnly);
    for (name, value) in [
        ("precommit", json!({"mod": "m", "fun": "f"})),
        ("postcommit", json!([{"mod": "m"}])),
        ("linkfun", json!(1)),
        ("chash_keyfun", json!({"mod": "mine", "fun": "f"})),
        ("repl", json!("sometimes")),
        ("backend", json!(1)),
        ("compression", json!("gzip")),
        ("compression", json!(true)),
        ("conditional_put_mode", json!("token")),
        ("conditional_put_mode", json!(1)),
        ("ttl", json!(-1)),
    ] {
        let refused = untyped_refusal(json!({name: value}));
        assert!(refused.starts_with(&format!("[{{{name},")), "{refused}");
    }
}

#[test]
fn life_of_zero_seconds_means_for_ever() {
    let type_props = new_type(json!({"ttl": 60})).unwrap();
    assert_eq!(type_props.expires_after_secs().map(u32::from), Some(60));
    let own = accepted(&type_props, Scope::TypedBucket, json!({"ttl": 0})).over(&type_props);
    assert_eq!(own.expires_after_secs(), None);
    assert_eq!(own.to_json()["ttl"], json!(0));
    assert!(!BucketProps::untyped().to_json().contains_key("ttl"));
}

#[test]
fn compression_is_lz4_or_none_and_a_bucket_may_switch_off_what_its_type_has() {
    assert!(!BucketProps::untyped().compresses());
    assert!(!BucketProps::untyped().to_json().contains_key("compression"));
    let type_props = new_type(json!({"compression": "lz4"})).unwrap();
    assert!(type_props.compresses());
    let of_bucket = |object| accepted(&BucketProps::new_type(), Scope::TypedBucket, object);
    assert!(of_bucket(json!({"n_val": 2})).over(&type_props).compresses());
    let own = of_bucket(json!({"compression": "none"})).over(&type_props);
    assert!(!own.compresses());
    assert_eq!(own.to_json()["compression"], json!("none"));
    let refused = untyped_refusal(json!({"compression": "gzip"}));
    assert_eq!(refused, "[{compression,\"must be lz4 or none\"}]");
}

#[test]
fn a_compression_that_was_stored_before_it_was_known_is_kept_and_has_no_effect() {
    let stored = json!({"compression": "gzip", "n_val": 2});
    let props = BucketProps::typed_from_json(stored.as_object().unwrap()).unwrap();
    assert!(!props.compresses());
    assert_eq!(props.to_json()["compression"], json!("gzip"));
    let changed = accepted(&props, Scope::TypedBucket, json!({"compression": "lz4"}));
    assert!(changed.compresses());
    assert_eq!(changed.to_json()["compression"], json!("lz4"));
}

#[test]
fn a_bucket_may_promise_more_of_conditional_writes_than_its_type() {
    let untyped = BucketProps::untyped();
    assert_eq!(untyped.conditional_put_mode(), ConditionalPutMode::ApiOnly);
    assert!(!untyped.to_json().contains_key("conditional_put_mode"));
    let type_props = new_type(json!({"conditional_put_mode": "prefer_token"})).unwrap();
    let of_bucket = |object| accepted(&BucketProps::new_type(), Scope::TypedBucket, object);
    let same = of_bucket(json!({"n_val": 2})).over(&type_props);
    assert_eq!(same.conditional_put_mode(), ConditionalPutMode::PreferToken);
    let own = of_bucket(json!({"conditional_put_mode": "require_token"})).over(&type_props);
    assert_eq!(own.conditional_put_mode(), ConditionalPutMode::RequireToken);
    assert_eq!(own.to_json()["conditional_put_mode"], json!("require_token"));
    let refused = untyped_refusal(json!({"conditional_put_mode": "token"}));
    let rule = "must be api_only, prefer_token or require_token";
    assert_eq!(refused, format!("[{{conditional_put_mode,\"{rule}\"}}]"));
}

#[test]
fn a_mode_that_was_stored_before_it_was_known_is_kept_and_has_no_effect() {
    let stored = json!({"conditional_put_mode": "token"});
    let props = BucketProps::typed_from_json(stored.as_object().unwrap()).unwrap();
    assert_eq!(props.conditional_put_mode(), ConditionalPutMode::ApiOnly);
    assert_eq!(props.to_json()["conditional_put_mode"], json!("token"));
}

#[test]
fn unknown_properties_are_kept_within_bounds() {
    let value = json!({"any": [1, "thing"]});
    assert_eq!(untyped(json!({"never_heard_of": value})).to_json()["never_heard_of"], value);

    let many: Map<String, Value> =
        (0..UNKNOWN_PROPS_MAX + 1).map(|index| (format!("p{index}"), json!(1))).collect();
    assert!(untyped_refusal(Value::Object(many.clone())).contains("at most 64 properties"));
    let full = untyped(many.into_iter().take(UNKNOWN_PROPS_MAX).collect());
    accepted(&full, Scope::UntypedBucket, json!({"p0": 2}));
    let long = "x".repeat(PROP_VALUE_BYTES_MAX);
    assert!(untyped_refusal(json!({"p": long})).contains("at most 16384 bytes"));
    assert!(untyped_refusal(json!({"n".repeat(PROP_NAME_BYTES_MAX + 1): 1})).contains("1 to 128"));
    let nested = |levels| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    untyped(json!({"p": nested(PROP_VALUE_DEPTH_MAX)}));
    let refused = untyped_refusal(json!({"p": nested(PROP_VALUE_DEPTH_MAX + 1)}));
    assert!(refused.contains("nested deeper than 32"), "{refused}");
}

/// Properties with valid values in JSON form.
fn valid_update() -> impl Strategy<Value = (String, Value)> {
    let quorum =
        prop_oneof![Just(json!("one")), Just(json!("all")), (1u32..9).prop_map(Value::from)];
    let boolean_names = prop::sample::select(vec!["allow_mult", "basic_quorum", "notfound_ok"]);
    let count_names = prop::sample::select(vec!["n_val", "big_vclock", "old_vclock", "ttl"]);
    let quorum_names =
        prop::sample::select(vec!["r", "w", "rw", "dw", "pr", "pw", "node_confirms"]);
    let pair = |(name, value): (&str, Value)| (name.to_owned(), value);
    prop_oneof![
        (boolean_names, any::<bool>().prop_map(Value::from)).prop_map(pair),
        (count_names, (1u32..200).prop_map(Value::from)).prop_map(pair),
        (quorum_names, quorum).prop_map(pair),
        ("x_[a-d]", any::<i32>().prop_map(Value::from)),
    ]
}

/// Any JSON scalar, and some lists.
fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[a-z]{0,8}".prop_map(Value::from),
        Just(json!([{"mod": "m", "fun": "f"}])),
    ]
}

const NAMES: &[&str] = &[
    "n_val",
    "allow_mult",
    "last_write_wins",
    "dvv_enabled",
    "r",
    "pr",
    "sync_on_write",
    "repl",
    "precommit",
    "chash_keyfun",
    "linkfun",
    "young_vclock",
    "write_once",
    "consistent",
    "datatype",
    "hll_precision",
    "backend",
    "compression",
    "conditional_put_mode",
    "search",
    "ttl",
    "active",
    "claimant",
    "name",
    "unheard_of",
];

proptest! {
    #[test]
    fn updates_replace_what_they_name_and_nothing_else(
        given in prop::collection::vec(valid_update(), 0..12),
    ) {
        let mut model = BucketProps::untyped().to_json();
        let mut updates = PropUpdates::default();
        for (name, value) in given {
            model.insert(name.clone(), value.clone());
            updates.set(&name, value);
        }
        let props = BucketProps::untyped().updated(Scope::UntypedBucket, &updates).unwrap();
        prop_assert_eq!(props.to_json(), model);
    }

    #[test]
    fn whatever_is_accepted_can_be_stored_and_sent_back(
        given in prop::collection::vec((prop::sample::select(NAMES), any_value()), 0..4),
        typed: bool,
    ) {
        let mut updates = PropUpdates::default();
        for (name, value) in given {
            updates.set(name, value);
        }
        let (before, scope) = if typed {
            (BucketProps::new_type(), Scope::NewType)
        } else {
            (BucketProps::untyped(), Scope::UntypedBucket)
        };
        if let Ok(props) = before.updated(scope, &updates) {
            let json = props.to_json();
            let stored = if typed {
                BucketProps::typed_from_json(&json)
            } else {
                BucketProps::untyped_from_json(&json)
            };
            prop_assert_eq!(&stored.unwrap(), &props);
            prop_assert_eq!(&props.updated(scope, &PropUpdates::from(json)).unwrap(), &props);
        }
    }
}
