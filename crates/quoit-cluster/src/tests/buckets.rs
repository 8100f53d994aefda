//! Properties of buckets: inheritance, own properties, refusals.

use super::*;
use crate::{BUCKETS_WITH_PROPS_MAX, Change, ChangeError, Command, Placements};
use quoit_model::hash::PlacementRule;
use quoit_model::key::KeyError;
use quoit_model::props::Quorum;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn untyped_buckets_follow_the_configured_defaults() {
    let fixture = Fixture::new();
    let configured = BucketProps { n_val: 1, ..BucketProps::untyped() };
    let settings = Settings { untyped_defaults: configured.clone(), ..settings() };
    let control = ControlPlane::open(fixture.disk(), settings).unwrap();
    assert_eq!(*control.bucket_props(untyped("b")).unwrap(), configured);
    assert_eq!(**control.read().type_props(b"default").unwrap(), configured);
    let own = updates(json!({"allow_mult": true}));
    control.set_bucket_props(untyped("b"), &own).await.unwrap();
    assert_eq!(control.bucket_props(untyped("b")).unwrap().n_val, 1);
    assert_eq!(*control.bucket_props(untyped("other")).unwrap(), configured);
    let of_default_type = BucketRef { bucket_type: b"default", bucket: b"b" };
    assert!(control.bucket_props(of_default_type).unwrap().allow_mult);
}

#[tokio::test]
async fn own_properties_survive_reopening_and_are_reset() {
    let fixture = Fixture::new();
    with_active_type(&fixture.open(), json!({})).await;
    for bucket in [untyped("b"), typed("t", "b")] {
        let change = updates(json!({"n_val": 2, "r": "one", "x_mine": [1]}));
        fixture.open().set_bucket_props(bucket, &change).await.unwrap();
        let props = fixture.open().bucket_props(bucket).unwrap();
        assert_eq!((props.n_val, props.r), (2, Quorum::One));
        assert_eq!(props.other["x_mine"], json!([1]));
        fixture.open().reset_bucket_props(bucket).await.unwrap();
        assert_eq!(fixture.open().bucket_props(bucket).unwrap().n_val, 3);
        fixture.open().reset_bucket_props(bucket).await.unwrap();
    }
}

#[tokio::test]
async fn placements_name_types_in_order_and_then_the_buckets_that_differ_from_theirs() {
    let fixture = Fixture::new();
    let control = fixture.open();
    with_active_type(&control, json!({"n_val": 5})).await;
    control.create_type(b"inactive", &updates(json!({}))).await.unwrap();
    let by_bucket = json!({"mod": "riak_core_util", "fun": "chash_bucketonly_keyfun"});
    for (bucket, change) in [
        (typed("t", "same"), json!({"n_val": 5, "allow_mult": false})),
        (typed("t", "fewer"), json!({"n_val": 1})),
        (untyped("z"), json!({"chash_keyfun": by_bucket})),
        (untyped("a"), json!({"n_val": 2})),
    ] {
        control.set_bucket_props(bucket, &updates(change)).await.unwrap();
    }
    let state = control.read();
    let placements =
        |bucket_type, bucket, n_val, rule| Placements { bucket_type, bucket, n_val, rule };
    let default = PlacementRule::BucketAndKey;
    let expected = [
        placements(&b"default"[..], None, 3, default),
        placements(b"t", None, 5, default),
        placements(b"default", Some(&b"a"[..]), 2, default),
        placements(b"default", Some(b"z"), 3, PlacementRule::BucketOnly),
        placements(b"t", Some(b"fewer"), 1, default),
    ];
    assert_eq!(state.placements(), expected);
}

#[tokio::test]
async fn datatype_of_an_untyped_bucket_is_kept_without_effect() {
    let fixture = Fixture::new();
    let change = updates(json!({"datatype": "set"}));
    fixture.open().set_bucket_props(untyped("b"), &change).await.unwrap();
    let props = fixture.open().bucket_props(untyped("b")).unwrap();
    assert_eq!((props.datatype, props.datatype_name()), (None, Some("set")));
}

#[tokio::test]
async fn bucket_once_changed_no_longer_follows_its_type_until_reset() {
    let fixture = Fixture::new();
    let control = fixture.open();
    with_active_type(&control, json!({})).await;
    control.set_bucket_props(typed("t", "b"), &updates(json!({"n_val": 2}))).await.unwrap();
    let change = updates(json!({"old_vclock": 9999, "backend": "fast"}));
    control.update_type(b"t", &change).await.unwrap();
    drop(control);
    {
        let control = fixture.open();
        let props = control.bucket_props(typed("t", "b")).unwrap();
        assert_eq!((props.n_val, props.old_vclock), (2, 86_400));
        assert_eq!(props.backend.as_deref(), Some("fast"), "did not exist when b was changed");
        drop(control);
    }
    let control = fixture.open();
    control.reset_bucket_props(typed("t", "b")).await.unwrap();
    let props = control.bucket_props(typed("t", "b")).unwrap();
    assert_eq!((props.n_val, props.old_vclock), (3, 9999));
}

#[tokio::test]
async fn values_are_compressed_where_type_or_bucket_says_so() {
    let fixture = Fixture::new();
    let control = fixture.open();
    with_active_type(&control, json!({})).await;
    let compresses = |control: &ControlPlane, bucket| control.read().compresses(bucket);
    assert!(!compresses(&control, typed("t", "b")) && !compresses(&control, untyped("b")));
    control.update_type(b"t", &updates(json!({"compression": "lz4"}))).await.unwrap();
    let off = updates(json!({"compression": "none"}));
    control.set_bucket_props(typed("t", "plain"), &off).await.unwrap();
    let on = updates(json!({"compression": "lz4"}));
    control.set_bucket_props(untyped("packed"), &on).await.unwrap();
    drop(control);
    let control = fixture.open();
    assert!(compresses(&control, typed("t", "b")) && !compresses(&control, typed("t", "plain")));
    assert!(compresses(&control, untyped("packed")) && !compresses(&control, untyped("b")));
    assert!(!compresses(&control, typed("no such type", "b")));
    control.update_type(b"t", &off).await.unwrap();
    assert!(!compresses(&control, typed("t", "b")));
}

#[tokio::test]
async fn typed_and_untyped_buckets_of_one_name_are_apart() {
    let fixture = Fixture::new();
    let control = fixture.open();
    with_active_type(&control, json!({})).await;
    control.set_bucket_props(untyped("b"), &updates(json!({"n_val": 2}))).await.unwrap();
    control.set_bucket_props(typed("t", "b"), &updates(json!({"n_val": 1}))).await.unwrap();
    assert_eq!(control.bucket_props(untyped("b")).unwrap().n_val, 2);
    assert_eq!(control.bucket_props(typed("t", "b")).unwrap().n_val, 1);
}

#[tokio::test]
async fn buckets_show_their_name_and_typed_ones_their_type() {
    let fixture = Fixture::new();
    let control = fixture.open();
    with_active_type(&control, json!({})).await;
    let mut expected = BucketProps::untyped().to_json();
    expected.insert("name".to_owned(), json!("b"));
    assert_eq!(control.read().bucket_props_json(untyped("b")).unwrap(), expected);
    let mut expected = BucketProps::new_type().to_json();
    expected.insert("name".to_owned(), json!("b"));
    expected.insert("active".to_owned(), json!(true));
    expected.insert("claimant".to_owned(), json!("quoit@127.0.0.1"));
    assert_eq!(control.read().bucket_props_json(typed("t", "b")).unwrap(), expected);
}

#[tokio::test]
async fn refusals_are_worded_for_each_protocol_and_change_nothing() {
    let fixture = Fixture::new();
    let control = fixture.open();
    let change = updates(json!({"n_val": 2}));
    control.create_type(b"idle", &PropUpdates::default()).await.unwrap();
    for name in ["idle", "none"] {
        let refused = control.set_bucket_props(typed(name, "b"), &change).await.unwrap_err();
        assert_eq!(refused.pb_text(), format!("No bucket-type named '{name}'"));
        assert_eq!(refused.http_json(), json!("no_type"));
        let refused = control.reset_bucket_props(typed(name, "b")).await.unwrap_err();
        assert!(matches!(refused, ChangeError::NoSuchType { .. }));
    }
    let refused = control.set_bucket_props(untyped(""), &change).await.unwrap_err();
    assert!(matches!(refused, ChangeError::Name(KeyError::EmptyBucket)));
    let long = "b".repeat(65_536);
    let refused = control.set_bucket_props(untyped(&long), &change).await.unwrap_err();
    assert!(matches!(refused, ChangeError::Name(KeyError::TooLarge { .. })));
    let faults = updates(json!({"n_val": 0, "allow_mult": true}));
    let refused = control.set_bucket_props(untyped("b"), &faults).await.unwrap_err();
    assert_eq!(refused.pb_text(), "Invalid bucket properties: [{n_val,not_integer}]");
    assert_eq!(*control.bucket_props(untyped("b")).unwrap(), BucketProps::untyped());
}

#[tokio::test]
async fn change_of_nothing_gives_a_bucket_no_own_set() {
    let fixture = Fixture::new();
    let control = fixture.open();
    control.set_bucket_props(untyped("b"), &PropUpdates::default()).await.unwrap();
    assert_eq!(control.read().buckets_with_props(), 0);
}

#[tokio::test]
async fn bucket_that_is_changed_again_counts_once() {
    let fixture = Fixture::new();
    let control = fixture.open();
    for n_val in [1, 2] {
        control.set_bucket_props(untyped("b"), &updates(json!({"n_val": n_val}))).await.unwrap();
        assert_eq!(control.read().buckets_with_props(), 1);
    }
}

#[test]
fn buckets_with_own_properties_are_bounded_in_number() {
    let fixture = Fixture::new();
    let mut state = (**fixture.open().read()).clone();
    let props = Arc::new(BucketProps::untyped());
    for number in 0..BUCKETS_WITH_PROPS_MAX {
        state.apply(&Change::PutBucket {
            bucket_type: Arc::from(&b"default"[..]),
            bucket: number.to_be_bytes().as_slice().into(),
            props: Arc::clone(&props),
        });
    }
    let change = updates(json!({"n_val": 2}));
    let set = |bucket| state.decide(Command::SetBucketProps { bucket, updates: &change });
    assert!(matches!(set(untyped("one more")), Err(ChangeError::TooManyBuckets { .. })));
    assert!(set(BucketRef::untyped(&0usize.to_be_bytes())).is_ok());
    let bucket = BucketRef::untyped(&[0; 8]);
    let freed = state.decide(Command::ResetBucketProps { bucket }).unwrap();
    let change = Command::SetBucketProps { bucket: untyped("one more"), updates: &change };
    assert!(state.with(&freed[0]).decide(change).is_ok());
}

#[tokio::test]
async fn engines_that_the_node_does_not_have_are_refused_by_their_names() {
    let fixture = Fixture::new();
    let control = fixture.open_with_backends(&["fast", "slow"]);
    with_active_type(&control, json!({"backend": "slow"})).await;
    let unknown = updates(json!({"backend": "quick"}));
    let bucket = control.set_bucket_props(typed("t", "b"), &unknown).await.unwrap_err();
    let updated = control.update_type(b"t", &unknown).await.unwrap_err();
    let created = control.create_type(b"other", &unknown).await.unwrap_err();
    for error in [&bucket, &updated, &created] {
        let text = error.to_string();
        let expected = "backend: must be one of the node's storage engines: fast, slow";
        assert!(text.contains(expected), "{text}");
    }
    let text = bucket.pb_text();
    assert!(text.starts_with("Invalid bucket properties: [{backend,\"must be one of"), "{text}");
    let known = updates(json!({"backend": "fast"}));
    control.set_bucket_props(typed("t", "b"), &known).await.unwrap();
    control.set_bucket_props(untyped("b"), &known).await.unwrap();
    control.set_bucket_props(typed("t", "c"), &updates(json!({"n_val": 2}))).await.unwrap();
    let state = control.read();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut chosen: Vec<String> = state
        .backends()
        .map(|chosen| {
            let bucket = chosen.bucket.map_or("*".to_owned(), text);
            format!("{}/{bucket}={}", text(chosen.bucket_type), chosen.name)
        })
        .collect();
    chosen.sort_unstable();
    // The engine that `c` had from its type when it was changed is now its own.
    let expected = ["default/b=fast", "t/*=slow", "t/b=fast", "t/c=slow"];
    assert_eq!(chosen, expected);
}
