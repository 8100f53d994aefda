//! JSON form of whole sets, inheritance, and the lines for operators.

use super::*;
use crate::props::{LinkFun, ModFun, status_lines};
use serde_json::json;

fn default_json() -> Value {
    json!({
        "allow_mult": false, "basic_quorum": false, "big_vclock": 50,
        "chash_keyfun": {"mod": "riak_core_util", "fun": "chash_std_keyfun"},
        "dvv_enabled": false, "dw": "quorum", "last_write_wins": false,
        "linkfun": {"mod": "riak_kv_wm_link_walker", "fun": "mapreduce_linkfun"},
        "n_val": 3, "node_confirms": 0, "notfound_ok": true, "old_vclock": 86400,
        "postcommit": [], "pr": 0, "precommit": [], "pw": 0, "r": "quorum", "rw": "quorum",
        "small_vclock": 50, "sync_on_write": "backend", "w": "quorum", "write_once": false,
        "young_vclock": 20,
    })
}

#[test]
fn untyped_buckets_show_riaks_defaults() {
    assert_eq!(Value::Object(BucketProps::untyped().to_json()), default_json());
}

#[test]
fn new_types_show_riaks_defaults() {
    let mut expected = map(default_json());
    expected.remove("write_once");
    expected.insert("allow_mult".to_owned(), json!(true));
    expected.insert("dvv_enabled".to_owned(), json!(true));
    assert_eq!(BucketProps::new_type().to_json(), expected);
    expected.insert("datatype".to_owned(), json!("hll"));
    expected.insert("hll_precision".to_owned(), json!(14));
    assert_eq!(new_type(json!({"datatype": "hll"})).unwrap().to_json(), expected);
}

#[test]
fn own_set_wins_and_new_properties_of_the_type_shine_through() {
    let before = new_type(json!({"n_val": 5, "backend": "fast"})).unwrap();
    let own = accepted(&before, Scope::TypedBucket, json!({"n_val": 2}));
    let change = json!({"old_vclock": 9, "n_val": 7, "backend": "slow", "x_new": 1, "ttl": 60});
    let after = accepted(&before, Scope::ActiveType, change);
    let effective = own.over(&after);
    assert_eq!((effective.n_val, effective.old_vclock), (2, 86_400));
    assert_eq!(effective.backend.as_deref(), Some("fast"));
    assert_eq!(effective.other["x_new"], json!(1));
    assert_eq!(effective.ttl_secs, Some(60));
}

#[test]
fn stored_set_with_a_bad_value_names_the_property() {
    let stored = map(json!({"n_val": 3, "r": "most"}));
    let error = BucketProps::typed_from_json(&stored).unwrap_err();
    assert_eq!(error.to_string(), "stored property r: not_valid_quorum");
}

#[test]
fn stored_set_that_lacks_a_property_has_its_default() {
    let props = BucketProps::untyped_from_json(&map(json!({"n_val": 2}))).unwrap();
    assert_eq!(props, BucketProps { n_val: 2, ..BucketProps::untyped() });
}

#[test]
fn status_shows_a_line_for_each_property() {
    let mut props = BucketProps::new_type();
    props.linkfun = LinkFun::ModFun(ModFun::new("m", "f"));
    let lines = status_lines(&props.to_json());
    assert_eq!(lines.first().map(String::as_str), Some("allow_mult: true"));
    for line in [
        "chash_keyfun: {riak_core_util,chash_std_keyfun}",
        "linkfun: {m,f}",
        "precommit: []",
        "pr: 0",
    ] {
        assert!(lines.iter().any(|shown| shown == line), "{line} not in {lines:?}");
    }
}
