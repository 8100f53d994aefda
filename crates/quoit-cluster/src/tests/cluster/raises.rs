//! Buckets with more replicas, until those are filled.

use super::*;
use crate::tests::updates;
use quoit_model::key::BucketRef;
use serde_json::json;

const TYPE: &[u8] = b"t";
const BUCKET: BucketRef<'_> = BucketRef { bucket_type: TYPE, bucket: b"b" };

/// Three members with an active bucket type.
async fn with_type(n_val: u32) -> Town {
    let town = Town::joined(3).await;
    let control = town.control(1);
    control.create_type(TYPE, &updates(json!({ "n_val": n_val }))).await.unwrap();
    control.activate_type(TYPE).await.unwrap();
    town.until_equal().await;
    town
}

async fn set_n_val(town: &Town, bucket: BucketRef<'_>, n_val: u32) {
    let props = updates(json!({ "n_val": n_val }));
    town.control(1).set_bucket_props(bucket, &props).await.unwrap();
    town.until_equal().await;
}

/// How many first primaries have all records of the bucket.
fn filled(town: &Town) -> u32 {
    let state = town.state(2);
    state.filled_n_val(BUCKET, state.bucket_props(BUCKET).unwrap().n_val)
}

#[tokio::test(start_paused = true)]
async fn a_raise_is_over_when_all_members_have_told_that_they_are_through() {
    let mut town = with_type(2).await;
    set_n_val(&town, BUCKET, 3).await;
    let raised_at = town.state(1).raised_at();
    assert_eq!(filled(&town), 2);
    for number in 1..=3 {
        assert!(!town.state(1).all_know_raises());
        town.control(number).report_raises(raised_at, 0).await.unwrap();
    }
    town.until_equal().await;
    assert!(town.state(1).all_know_raises());
    for number in 1..=3 {
        assert_eq!(filled(&town), 2, "{number} was not heard yet");
        // What is known outlives the process.
        town.crash(2);
        town.start(2).await;
        town.until_equal().await;
        town.control(number).report_raises(raised_at, raised_at).await.unwrap();
        town.until_equal().await;
    }
    assert_eq!(filled(&town), 3);
    assert_eq!((town.state(2).raised_at(), town.state(2).raises().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_second_raise_goes_on_from_what_was_filled_before_the_first() {
    let town = with_type(1).await;
    set_n_val(&town, BUCKET, 2).await;
    let first = town.state(1).raised_at();
    set_n_val(&town, BUCKET, 3).await;
    assert_eq!((filled(&town), town.state(1).raises().len()), (1, 1));
    for number in 1..=3 {
        town.control(number).report_raises(first, first).await.unwrap();
    }
    town.until_equal().await;
    assert_eq!(filled(&town), 1);
    set_n_val(&town, BUCKET, 1).await;
    assert!(town.state(1).raises().is_empty(), "all of its replicas are filled");
}

#[tokio::test(start_paused = true)]
async fn a_type_raises_its_buckets_and_leaves_others_alone() {
    let town = with_type(1).await;
    let own = BucketRef { bucket_type: TYPE, bucket: b"own" };
    set_n_val(&town, own, 2).await;
    for number in 1..=3 {
        let raised_at = town.state(1).raised_at();
        town.control(number).report_raises(raised_at, raised_at).await.unwrap();
    }
    town.control(1).update_type(TYPE, &updates(json!({ "n_val": 3 }))).await.unwrap();
    town.until_equal().await;
    assert_eq!(filled(&town), 1);
    let untyped = BucketRef { bucket_type: b"default", bucket: b"b" };
    assert_eq!(town.state(1).filled_n_val(untyped, 3), 3);
}
