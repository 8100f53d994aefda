//! Raises of an `n_val`, until the added replicas are filled.

use super::*;
use crate::RaiseReport;
use crate::tests::updates;
use quoit_model::key::BucketRef;
use serde_json::json;

const TYPE: &[u8] = b"t";
const BUCKET: BucketRef<'_> = BucketRef { bucket_type: TYPE, bucket: b"b" };

/// Starts three members with an active bucket type.
async fn with_type(n_val: u32) -> TestCluster {
    let cluster = TestCluster::joined(3).await;
    let control = cluster.control(1);
    control.create_type(TYPE, &updates(json!({ "n_val": n_val }))).await.unwrap();
    control.activate_type(TYPE).await.unwrap();
    cluster.until_equal().await;
    cluster
}

async fn set_n_val(cluster: &TestCluster, bucket: BucketRef<'_>, n_val: u32) {
    let props = updates(json!({ "n_val": n_val }));
    cluster.control(1).set_bucket_props(bucket, &props).await.unwrap();
    cluster.until_equal().await;
}

fn report(known: u64, filled: u64) -> RaiseReport {
    RaiseReport { known, filled }
}

/// Returns the number of first primaries that have all records of the bucket.
fn filled(cluster: &TestCluster) -> u32 {
    let state = cluster.state(2);
    state.filled_n_val(BUCKET, state.bucket_props(BUCKET).unwrap().n_val)
}

#[tokio::test(start_paused = true)]
async fn a_raise_is_over_when_all_members_have_told_that_they_are_through() {
    let mut cluster = with_type(2).await;
    set_n_val(&cluster, BUCKET, 3).await;
    let n_val_raised_at = cluster.state(1).n_val_raised_at();
    assert_eq!(filled(&cluster), 2);
    for number in 1..=3 {
        assert!(!cluster.state(1).all_know_raises());
        cluster.control(number).report_raises(report(n_val_raised_at, 0)).await.unwrap();
    }
    cluster.until_equal().await;
    assert!(cluster.state(1).all_know_raises());
    for number in 1..=3 {
        assert_eq!(filled(&cluster), 2, "{number} was not heard yet");
        // The report survives a restart.
        cluster.crash(2);
        cluster.start(2).await;
        cluster.until_equal().await;
        cluster
            .control(number)
            .report_raises(report(n_val_raised_at, n_val_raised_at))
            .await
            .unwrap();
        cluster.until_equal().await;
    }
    assert_eq!(filled(&cluster), 3);
    assert_eq!((cluster.state(2).n_val_raised_at(), cluster.state(2).raises().len()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_second_raise_goes_on_from_what_was_filled_before_the_first() {
    let cluster = with_type(1).await;
    set_n_val(&cluster, BUCKET, 2).await;
    let first = cluster.state(1).n_val_raised_at();
    set_n_val(&cluster, BUCKET, 3).await;
    assert_eq!((filled(&cluster), cluster.state(1).raises().len()), (1, 1));
    for number in 1..=3 {
        cluster.control(number).report_raises(report(first, first)).await.unwrap();
    }
    cluster.until_equal().await;
    assert_eq!(filled(&cluster), 1);
    set_n_val(&cluster, BUCKET, 1).await;
    assert!(cluster.state(1).raises().is_empty(), "all of its replicas are filled");
}

#[tokio::test(start_paused = true)]
async fn a_type_raises_its_buckets_and_leaves_others_alone() {
    let cluster = with_type(1).await;
    let own = BucketRef { bucket_type: TYPE, bucket: b"own" };
    set_n_val(&cluster, own, 2).await;
    for number in 1..=3 {
        let n_val_raised_at = cluster.state(1).n_val_raised_at();
        cluster
            .control(number)
            .report_raises(report(n_val_raised_at, n_val_raised_at))
            .await
            .unwrap();
    }
    cluster.control(1).update_type(TYPE, &updates(json!({ "n_val": 3 }))).await.unwrap();
    cluster.until_equal().await;
    assert_eq!(filled(&cluster), 1);
    let untyped = BucketRef { bucket_type: b"default", bucket: b"b" };
    assert_eq!(cluster.state(1).filled_n_val(untyped, 3), 3);
}
