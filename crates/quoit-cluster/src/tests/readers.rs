//! Readers beside a writer.

use super::*;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::task::JoinSet;

/// The writer keeps `old_vclock` at 10 times `big_vclock`. A reader that sees another value
/// has seen half of a change.
#[tokio::test]
async fn readers_see_whole_changes_in_order_while_they_are_made() {
    let fixture = Fixture::new();
    let control = Arc::new(fixture.open());
    with_active_type(&control, json!({"big_vclock": 1, "old_vclock": 10})).await;
    let finished = Arc::new(AtomicBool::new(false));
    let look = |control: Arc<ControlPlane>, finished: Arc<AtomicBool>| {
        move || {
            let mut last = 0;
            while !finished.load(Ordering::Acquire) {
                let props = control.bucket_props(typed("t", "b")).unwrap();
                assert_eq!(props.old_vclock, 10 * props.big_vclock);
                assert!(props.big_vclock >= last, "went back");
                last = props.big_vclock;
            }
        }
    };
    let readers: Vec<_> = (0..3)
        .map(|_| std::thread::spawn(look(Arc::clone(&control), Arc::clone(&finished))))
        .collect();
    for number in 2..40 {
        let change = json!({"big_vclock": number, "old_vclock": 10 * number});
        control.update_type(b"t", &updates(change)).await.unwrap();
    }
    finished.store(true, Ordering::Release);
    for reader in readers {
        reader.join().unwrap();
    }
    assert_eq!(control.bucket_props(typed("t", "b")).unwrap().big_vclock, 39);
}

#[tokio::test]
async fn snapshot_does_not_change_under_its_reader() {
    let fixture = Fixture::new();
    let control = fixture.open();
    let before = control.read();
    control.set_bucket_props(untyped("b"), &updates(json!({"n_val": 1}))).await.unwrap();
    assert_eq!(before.bucket_props(untyped("b")).unwrap().n_val, 3);
    assert_eq!(control.read().bucket_props(untyped("b")).unwrap().n_val, 1);
}

/// On several threads too, where a commit lets other tasks run.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_made_at_once_are_all_there() {
    let fixture = Fixture::new();
    let control = Arc::new(fixture.open());
    let mut writers = JoinSet::new();
    for writer in 0..4 {
        let control = Arc::clone(&control);
        writers.spawn(async move {
            for number in 0..5 {
                let bucket = format!("b{writer}-{number}");
                let change = updates(json!({"n_val": number + 1}));
                control.set_bucket_props(untyped(&bucket), &change).await.unwrap();
            }
        });
    }
    while let Some(written) = writers.join_next().await {
        written.unwrap();
    }
    drop(control);
    let control = fixture.open();
    for writer in 0..4 {
        for number in 0..5 {
            let bucket = format!("b{writer}-{number}");
            assert_eq!(control.bucket_props(untyped(&bucket)).unwrap().n_val, number + 1);
        }
    }
}
