//! Data directories that are older than they should be, or in use twice.

use super::*;
use crate::Departure;
use crate::tests::{untyped, updates};
use serde_json::json;

#[tokio::test(start_paused = true)]
async fn node_with_a_restored_copy_of_its_disk_does_not_take_part() {
    let mut town = Town::joined(3).await;
    town.until_equal().await;
    town.crash(2);
    let copy = town.node(2).disk.bytes("control.redb").unwrap();
    town.start(2).await;
    town.control(2).set_bucket_props(untyped("b"), &updates(json!({"n_val": 1}))).await.unwrap();
    town.crash(2);
    town.nodes[1].disk.put("control.redb", copy);
    town.start(2).await;
    let mut departure = town.control(2).departure();
    let found = departure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert!(matches!(found, Departure::Stale { .. }));
    let text = found.to_string();
    assert!(text.contains("an old copy") && text.contains("force-replace"), "{text}");
    let error = town
        .control(2)
        .set_bucket_props(untyped("b"), &updates(json!({"n_val": 5})))
        .await
        .unwrap_err();
    assert!(error.to_string().contains("an old copy"), "{error}");
    // The others go on.
    town.control(1).set_bucket_props(untyped("b"), &updates(json!({"n_val": 2}))).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn removed_node_that_comes_back_is_told_and_stops() {
    let mut town = Town::joined(4).await;
    town.until_equal().await;
    town.crash(4);
    let node = town.control(1).member_named(&name(4)).unwrap();
    town.control(1).stage(&crate::StagedChange::ForceRemove { node }).await.unwrap();
    town.commit(1).await;
    town.start(4).await;
    let mut departure = town.control(4).departure();
    let found = departure.wait_for(Option::is_some).await.unwrap().clone().unwrap();
    assert_eq!(found, Departure::Removed);
    assert!(found.to_string().contains("empty data directory"));
    // Nor does it get in by joining.
    town.crash(4);
    let mut settings = settings();
    settings.ring_size = None;
    town.nodes[3].disk = FaultyDisk::new(44);
    town.start_with(4, settings).await;
    let error = town.control(4).join("n1:1").await.unwrap_err().to_string();
    assert!(error.contains("was removed from this cluster and can't come back"), "{error}");
}
