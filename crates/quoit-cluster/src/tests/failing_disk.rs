//! A disk that refuses writes for a time.

use super::*;
use quoit_seam::FaultyDisk;
use serde_json::json;

/// Opens a control plane on a faulty disk, with the active type `t`.
async fn on_faulty_disk() -> (ControlPlane, FaultyDisk) {
    let disk = FaultyDisk::new(1);
    let control = ControlPlane::open(Arc::new(disk.clone()), settings()).unwrap();
    with_active_type(&control, json!({"n_val": 1})).await;
    (control, disk)
}

#[tokio::test]
async fn change_that_cannot_be_written_is_refused_and_the_next_one_recovers() {
    let (control, disk) = on_faulty_disk().await;
    disk.set_faults(|faults| faults.failing_writes = u64::MAX);
    let change = updates(json!({"n_val": 2}));
    for _ in 0..2 {
        let failed = control.set_bucket_props(untyped("b"), &change).await.unwrap_err();
        assert!(failed.is_server_fault());
        let text = failed.to_string();
        assert!(text.contains("control.redb") && text.contains("disk has room"), "{text}");
        assert_eq!(control.bucket_props(untyped("b")).unwrap().n_val, 3);
        assert_eq!(control.bucket_props(typed("t", "b")).unwrap().n_val, 1);
    }

    disk.set_faults(|faults| faults.failing_writes = 0);
    control.set_bucket_props(untyped("c"), &updates(json!({"n_val": 5}))).await.unwrap();
    assert_eq!(control.bucket_props(untyped("c")).unwrap().n_val, 5);
    assert_eq!(control.bucket_props(typed("t", "b")).unwrap().n_val, 1);
    drop(control);
    let control = ControlPlane::open(Arc::new(disk.crash()), settings()).unwrap();
    assert_eq!(control.bucket_props(untyped("c")).unwrap().n_val, 5);
}

#[tokio::test]
async fn change_whose_sync_failed_is_as_the_file_has_it_once_that_is_known() {
    let (control, disk) = on_faulty_disk().await;
    control.set_bucket_props(untyped("b"), &updates(json!({"n_val": 5}))).await.unwrap();

    disk.set_faults(|faults| faults.failing_syncs = u64::MAX);
    let failed = control.reset_bucket_props(untyped("b")).await.unwrap_err();
    assert!(failed.is_server_fault());
    assert_eq!(control.bucket_props(untyped("b")).unwrap().n_val, 5);

    disk.set_faults(|faults| faults.failing_syncs = 0);
    control.set_bucket_props(untyped("c"), &updates(json!({"n_val": 2}))).await.unwrap();
    let in_memory = control.bucket_props(untyped("b")).unwrap();
    assert_eq!(control.bucket_props(untyped("c")).unwrap().n_val, 2);
    drop(control);
    let reopened = ControlPlane::open(Arc::new(disk.kill()), settings()).unwrap();
    assert_eq!(reopened.bucket_props(untyped("b")).unwrap(), in_memory);
    assert_eq!(reopened.bucket_props(untyped("c")).unwrap().n_val, 2);
}

/// The power fails at any operation of the disk. Acknowledged changes survive.
#[tokio::test]
async fn changes_that_were_answered_survive_power_cuts() {
    for seed in 0..40 {
        let disk = FaultyDisk::new(seed);
        let mut control = ControlPlane::open(Arc::new(disk.clone()), settings()).unwrap();
        let mut answered = 0;
        disk.set_faults(|faults| faults.operations_left = Some(30 + 13 * seed));
        for number in 1..20 {
            let change = updates(json!({"n_val": number}));
            match control.set_bucket_props(untyped("b"), &change).await {
                Ok(()) => answered = number,
                Err(_) => break,
            }
        }
        drop(control);
        control = ControlPlane::open(Arc::new(disk.crash()), settings()).unwrap();
        // Another change makes sure that all committed entries are applied.
        control.set_bucket_props(untyped("other"), &updates(json!({"n_val": 1}))).await.unwrap();
        let found = control.bucket_props(untyped("b")).unwrap().n_val;
        let first = if answered == 0 { 3 } else { answered };
        assert!(found == first || found == answered + 1, "seed {seed}: {answered} -> {found}");
    }
}
