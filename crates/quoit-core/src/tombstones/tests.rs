use super::*;
use crate::placement::PlacedKey;
use quoit_model::key::BucketRef;

const PARTITION: Partition = Partition(3);

fn name(key: &str) -> Bytes {
    Bytes::copy_from_slice(&BucketRef::untyped(b"bucket").key(key.as_bytes()).encoded())
}

fn names(taken: &[NotedTombstone]) -> Vec<Bytes> {
    taken.iter().map(|noted| noted.encoded.clone()).collect()
}

/// Queues a tombstone as a write does.
fn note(tombstones: &NotedTombstones, key: &str, now_us: u64) {
    let encoded = name(key);
    let place = PlacedKey::new(&encoded, PARTITION).expect("a good name");
    tombstones.note(now_us, DeleteMode::Immediate, &place.at(), 1);
}

/// Queues tombstones as an operator does who wants them reaped.
fn want(tombstones: &NotedTombstones, now_us: u64, count: usize) {
    let wanted = (0..count).map(|number| (name(&number.to_string()), PARTITION, 1));
    tombstones.reap_soon(now_us, wanted.collect());
}

#[test]
fn a_tombstone_that_is_due_does_not_wait_for_one_that_is_tried_again_later() {
    let tombstones = NotedTombstones::new(1);
    note(&tombstones, "failed", 10);
    let taken = tombstones.take_due(10).into_iter();
    tombstones.put_back(taken.map(|noted| NotedTombstone { due_us: 1_000, ..noted }));
    note(&tombstones, "one", 20);
    note(&tombstones, "two", 20);
    assert_eq!(names(&tombstones.take_due(20)), ["one", "two"].map(name));
    assert!(tombstones.take_due(999).is_empty());
    assert_eq!(names(&tombstones.take_due(1_000)), [name("failed")]);
}

#[test]
fn tombstones_that_are_put_back_stay_when_the_queue_has_filled_up_meanwhile() {
    let tombstones = NotedTombstones::new(1);
    want(&tombstones, 1, DUE_COUNT_MAX);
    let taken = tombstones.take_due(1);
    assert_eq!(taken.len(), DUE_COUNT_MAX);
    want(&tombstones, 1, QUEUE_COUNT_MAX);
    tombstones.put_back(taken.into_iter());
    let mut left_count = 0;
    loop {
        match tombstones.take_due(1).len() {
            0 => break,
            taken_count => left_count += taken_count,
        }
    }
    assert_eq!(left_count, QUEUE_COUNT_MAX + DUE_COUNT_MAX);
}

#[tokio::test(start_paused = true)]
async fn room_that_is_reserved_is_taken_by_nobody_else() {
    let tombstones = Arc::new(NotedTombstones::new(1));
    let room = tombstones.reserve_places(QUEUE_COUNT_MAX).await.expect("an empty queue has room");
    note(&tombstones, "key", 1);
    let other = tombstones.reserve_places(1).await;
    assert!(matches!(other, Err(RequestError::Overload)));
    want(&tombstones, 1, 2);
    assert_eq!(names(&tombstones.take_due(1)), ["0", "1"].map(name));
    drop(room);
    note(&tombstones, "key", 1);
    assert_eq!(names(&tombstones.take_due(1)), [name("key")]);
}
