//! Readers beside a writer.

use super::*;
use serde_json::json;
use std::sync::atomic::{AtomicBool, Ordering};

/// The writer keeps `old_vclock` = 10 * `big_vclock`; a reader that ever sees anything else saw
/// half of a change.
#[test]
fn readers_see_whole_changes_in_order_while_they_are_made() {
    let fixture = Fixture::new();
    let control = fixture.open();
    with_active_type(&control, json!({"big_vclock": 1, "old_vclock": 10}));
    let finished = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                let mut last = 0;
                while !finished.load(Ordering::Acquire) {
                    let props = control.bucket_props(typed("t", "b")).unwrap();
                    assert_eq!(props.old_vclock, 10 * props.big_vclock);
                    assert!(props.big_vclock >= last, "went back");
                    last = props.big_vclock;
                }
            });
        }
        for number in 2..40 {
            let change = json!({"big_vclock": number, "old_vclock": 10 * number});
            control.update_type(b"t", &updates(change)).unwrap();
        }
        finished.store(true, Ordering::Release);
    });
    assert_eq!(control.bucket_props(typed("t", "b")).unwrap().big_vclock, 39);
}

#[test]
fn snapshot_does_not_change_under_its_reader() {
    let fixture = Fixture::new();
    let control = fixture.open();
    let before = control.read();
    control.set_bucket_props(untyped("b"), &updates(json!({"n_val": 1}))).unwrap();
    assert_eq!(before.bucket_props(untyped("b")).unwrap().n_val, 3);
    assert_eq!(control.read().bucket_props(untyped("b")).unwrap().n_val, 1);
}

#[test]
fn changes_made_at_once_are_all_there() {
    let fixture = Fixture::new();
    let control = fixture.open();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let control = &control;
            scope.spawn(move || {
                for number in 0..5 {
                    let bucket = format!("b{thread}-{number}");
                    let change = updates(json!({"n_val": number + 1}));
                    control.set_bucket_props(untyped(&bucket), &change).unwrap();
                }
            });
        }
    });
    drop(control);
    let control = fixture.open();
    for thread in 0..4 {
        for number in 0..5 {
            let bucket = format!("b{thread}-{number}");
            assert_eq!(control.bucket_props(untyped(&bucket)).unwrap().n_val, number + 1);
        }
    }
}
