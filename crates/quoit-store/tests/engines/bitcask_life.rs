//! The Bitcask engine over its lifetime: durability, expiry, merges, counters.

use crate::support;
use crate::support::{Faulty, Name, keys, put, remove, try_put, value};
use quoit_model::hash::{Identity, Partition};
use quoit_seam::{Clock, NextStep};
use quoit_store::bitcask::{COMMIT_WORKER, Durability, MERGE_WORKER, SEAL_WORKER};
use quoit_store::engine::{
    BatchWrite, BeforeImage, Decision, IoMode, Maintenance, PointAccess, RecordMeta, RecordRef,
    ScanAccess,
};
use quoit_store::{OpeningWatch, PROGRESS_BYTES};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};

#[derive(Default)]
struct Wakes(AtomicU64);

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

#[test]
fn one_sync_makes_all_waiting_writes_durable() {
    let store = Faulty::new(1 << 20);
    let wakes = Arc::new(Wakes::default());
    let waker = Waker::from(Arc::clone(&wakes));
    let tickets: Vec<_> =
        (0..50).map(|number| put(store.engine(), &format!("{number}"), b"v")).collect();
    for ticket in &tickets {
        assert!(store.engine().poll_durable(*ticket, &waker).is_pending());
        assert!(store.engine().poll_durable(*ticket, &waker).is_pending());
    }
    assert_eq!(store.execution.woken(), [COMMIT_WORKER]);
    let before = store.engine().stats();
    store.execution.step(COMMIT_WORKER);
    let after = store.engine().stats();
    assert_eq!(after.sync_count - before.sync_count, 1);
    assert!(after.synced_write_count - before.synced_write_count >= 50);
    assert_eq!(wakes.0.load(Ordering::Relaxed), 50, "each wait wakes once");
    for ticket in tickets {
        assert!(matches!(store.engine().poll_durable(ticket, &waker), Poll::Ready(Ok(()))));
    }
}

#[test]
fn writes_that_nobody_waits_for_are_synced_after_a_while() {
    let mut store = Faulty::new(1 << 20);
    put(store.engine(), "key", b"value");
    assert!(matches!(store.execution.step(COMMIT_WORKER), Some(NextStep::AfterUs(_))));
    store.clock.advance_us(store.settings.sync_interval_us);
    store.execution.step(COMMIT_WORKER);
    store.crash();
    store.open().unwrap();
    assert_eq!(value(store.engine(), "key").unwrap(), b"value");
}

#[test]
fn relaxed_writes_are_durable_at_once() {
    let mut store = Faulty::new(1 << 20);
    store.kill();
    store.settings.durability = Durability::Relaxed;
    store.open().unwrap();
    let ticket = put(store.engine(), "key", b"value");
    assert!(matches!(store.engine().poll_durable(ticket, Waker::noop()), Poll::Ready(Ok(()))));
}

/// Collects the progress reports of openings.
#[derive(Debug)]
struct RecordedProgress(Mutex<Vec<(u64, u64)>>);

impl OpeningWatch for RecordedProgress {
    fn log_read(&self, done_bytes: u64, total_bytes: u64) {
        self.0.lock().unwrap().push((done_bytes, total_bytes));
    }

    fn partitions_rebuilt(&self, _: u64, _: u64) {
        unreachable!("the store has a log")
    }
}

#[test]
fn an_opening_tells_how_much_of_the_log_it_has_read() {
    static PROGRESS: RecordedProgress = RecordedProgress(Mutex::new(Vec::new()));
    let mut store = Faulty::new(8 * PROGRESS_BYTES);
    for number in 0..300 {
        put(store.engine(), &format!("{number}"), &[7; 64 << 10]);
    }
    store.kill();
    store.settings.watch = &PROGRESS;
    store.open().unwrap();
    let heard = PROGRESS.0.lock().unwrap();
    let log_bytes = heard[0].1;
    assert!(log_bytes > 300 << 16, "{log_bytes}");
    assert!(heard.iter().all(|(_, total_bytes)| *total_bytes == log_bytes));
    assert!(heard.is_sorted(), "{heard:?}");
    assert_eq!(heard.last(), Some(&(log_bytes, log_bytes)));
    // The newest segment has no key file, so all of it was read.
    assert!(heard.len() as u64 > 300 * (64 << 10) / PROGRESS_BYTES / 3, "{heard:?}");
}

#[test]
fn counters_are_reserved_for_good() {
    let mut store = Faulty::new(1 << 20);
    assert_eq!(store.engine().identity().reserved_counter(), 0);
    store.engine().identity().reserve_counter(1_000).unwrap();
    store.engine().identity().reserve_counter(500).unwrap();
    store.crash();
    store.open().unwrap();
    assert_eq!(store.engine().identity().reserved_counter(), 1_000);
    store.disk.set_faults(|faults| faults.failing_syncs = 1);
    store.engine().identity().reserve_counter(2_000).unwrap_err();
    assert_eq!(store.engine().identity().reserved_counter(), 1_000);
    store.engine().identity().reserve_counter(3_000).unwrap();
    store.crash();
    store.open().unwrap();
    assert_eq!(store.engine().identity().reserved_counter(), 3_000);
}

#[test]
fn counters_in_copies_that_are_given_away_are_noted_for_good() {
    let mut store = Faulty::new(1 << 20);
    assert_eq!(store.engine().identity().exported_counter(), 0);
    store.engine().identity().note_exported(1_000).unwrap();
    store.engine().identity().note_exported(500).unwrap();
    store.disk.set_faults(|faults| faults.failing_syncs = 1);
    store.engine().identity().note_exported(2_000).unwrap_err();
    store.crash();
    store.open().unwrap();
    assert_eq!(store.engine().identity().exported_counter(), 1_000);
}

/// Fills several segments of a store, overwriting most records.
fn churn(store: &Faulty) {
    for round in 0..10 {
        for number in 0..20 {
            put(store.engine(), &format!("key{number:02}"), &[round; 150]);
        }
    }
    for number in 0..10 {
        remove(store.engine(), &format!("key{number:02}"));
    }
    while store.execution.step(SEAL_WORKER) == Some(NextStep::Again) {}
}

#[test]
fn merges_take_back_the_room_of_what_no_longer_counts() {
    let mut store = Faulty::new(4_000);
    churn(&store);
    let before = store.engine().stats();
    while store.execution.step(MERGE_WORKER) == Some(NextStep::Again) {}
    let after = store.engine().stats();
    assert!(after.merge_count > 0 && after.merged_bytes > 0, "{after:?}");
    assert!(after.disk_bytes < before.disk_bytes / 3, "{before:?} {after:?}");
    assert!(after.dead_bytes < before.dead_bytes / 3, "{before:?} {after:?}");
    for restart in 0..3 {
        let expected: Vec<_> = (10..20).map(|number| format!("key{number:02}")).collect();
        assert_eq!(keys(store.engine()), expected);
        assert!(expected.iter().all(|key| value(store.engine(), key) == Some(vec![9; 150])));
        store.kill();
        if restart == 1 {
            store.forget_indexes();
        }
        let report = store.open().unwrap();
        assert_eq!(report.damage_count, 0, "{report:?}");
    }
}

#[test]
fn a_merge_that_a_full_disk_ended_leaves_nothing_that_a_start_takes_for_a_loss() {
    for available_bytes in (100..500).step_by(20) {
        let mut store = Faulty::new(4_000);
        churn(&store);
        let used_bytes = store.disk.used_bytes();
        store.disk.set_faults(|faults| faults.capacity_bytes = Some(used_bytes + available_bytes));
        store.execution.step(MERGE_WORKER);
        store.disk.set_faults(|faults| faults.capacity_bytes = None);
        assert_eq!(store.engine().stats().merged_bytes, 0, "the merge had enough room");
        store.close();
        store.forget_indexes();
        let report = store.open().unwrap();
        assert!(
            report.clean && report.loss.is_none(),
            "{available_bytes} bytes of room: {report:?}"
        );
        let expected: Vec<_> = (10..20).map(|number| format!("key{number:02}")).collect();
        assert_eq!(keys(store.engine()), expected);
    }
}

#[test]
fn a_merge_copies_no_more_than_its_budget() {
    let store = Faulty::new(4_000);
    churn(&store);
    let pauses = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&pauses);
    store.execution.set_pause_hook(Some(Box::new(move |name| {
        assert_eq!(name, MERGE_WORKER);
        counted.fetch_add(1, Ordering::Relaxed);
    })));
    store.execution.step(MERGE_WORKER);
    assert!(pauses.load(Ordering::Relaxed) > 10, "a merge gives way after each slice");
}

#[test]
fn a_segment_with_a_damaged_record_survives_merges() {
    let mut store = Faulty::new(4_000);
    put(store.engine(), "rotten", &[1; 150]);
    churn(&store);
    store.close();
    let name = store.segments().remove(0);
    store.disk.flip_bit(&name, 64 + 100, 2);
    store.open().unwrap();
    merge_until_rest(&store);
    assert!(store.disk.bytes(&name).is_some(), "{:?}", store.segments());
    let found = support::get(store.engine(), "rotten");
    assert!(found.is_err(), "{found:?}");
    assert_eq!(keys(store.engine()).len(), 11);
    // The segment can be removed once the record was replaced, but the merge isn't retried at once.
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(b"repaired");
        Decision::Put(RecordMeta::default())
    };
    let at = Name::new("rotten");
    store.engine().update(&at.at(), BeforeImage::Skip, IoMode::Wait, change).unwrap();
    merge_until_rest(&store);
    assert!(store.disk.bytes(&name).is_some(), "{:?}", store.segments());
    store.clock.advance_us(store.settings.merge.check_interval_us);
    merge_until_rest(&store);
    assert!(store.disk.bytes(&name).is_none(), "{:?}", store.segments());
    assert_eq!(value(store.engine(), "rotten").unwrap(), b"repaired");
}

/// Writes one record `count` times.
fn overwrite(store: &Faulty, count: u8) {
    for round in 0..count {
        put(store.engine(), "churned", &[round; 150]);
    }
}

/// Merges until no more merge is due now.
fn merge_until_rest(store: &Faulty) {
    for _ in 0..100 {
        if store.execution.step(MERGE_WORKER) != Some(NextStep::Again) {
            return;
        }
    }
    panic!("merges go on for ever: {:?}", store.engine().stats());
}

#[test]
fn removals_beside_a_damaged_segment_are_not_merged_for_ever() {
    let mut store = Faulty::new(4_000);
    for number in 0..10 {
        put(store.engine(), &format!("gone{number}"), &[1; 150]);
    }
    put(store.engine(), "rotten", &[1; 150]);
    overwrite(&store, 10);
    // The tombstones in another segment must be kept, because the damaged segment has older writes of the
    // same keys.
    (0..10).for_each(|number| remove(store.engine(), &format!("gone{number}")));
    overwrite(&store, 40);
    while store.execution.step(SEAL_WORKER) == Some(NextStep::Again) {}
    store.close();
    let name = store.segments().remove(0);
    let bytes = store.disk.bytes(&name).unwrap();
    let at = bytes.windows(6).position(|window| window == b"rotten").unwrap();
    store.disk.flip_bit(&name, at + 50, 2);
    store.open().unwrap();
    merge_until_rest(&store);
    assert_eq!(keys(store.engine()), ["churned", "rotten"]);
    let before = store.engine().stats();
    for _ in 0..100 {
        store.clock.advance_us(store.settings.merge.check_interval_us);
        merge_until_rest(&store);
    }
    let after = store.engine().stats();
    // Tombstones are copied again only when a merge of the damaged segment is retried.
    assert!(after.merge_count - before.merge_count < 8, "{before:?} {after:?}");
    store.kill();
    store.forget_indexes();
    store.open().unwrap();
    assert_eq!(keys(store.engine()), ["churned"], "removed records stay away");
}

#[test]
fn merges_that_gain_nothing_are_tried_less_and_less() {
    let mut store = Faulty::new(4_000);
    store.kill();
    store.settings.merge.small_file_threshold_bytes = 0;
    store.open().unwrap();
    // The oldest segment of all; little of it is live.
    put(store.engine(), "oldest", &[1; 150]);
    overwrite(&store, 30);
    // Segments that aren't worth a merge, with older writes of the removed keys.
    for number in 0..34 {
        put(store.engine(), &format!("key{number:02}"), &[2; 150]);
    }
    for number in (3..7).chain(19..23) {
        remove(store.engine(), &format!("key{number:02}"));
    }
    overwrite(&store, 40);
    while store.execution.step(SEAL_WORKER) == Some(NextStep::Again) {}
    merge_until_rest(&store);
    let merges = || store.engine().stats().merge_count;
    let first = merges();
    let interval_us = store.settings.merge.check_interval_us;
    let mut counts = Vec::new();
    for _ in 0..2 {
        for _ in 0..64 {
            store.clock.advance_us(interval_us);
            merge_until_rest(&store);
        }
        counts.push(merges() - first);
    }
    assert!((3..8).contains(&counts[0]), "{counts:?}");
    assert!(counts[1] - counts[0] <= 1, "{counts:?}");
    assert_eq!(keys(store.engine()).len(), 28);
}

#[test]
fn expired_records_are_missing_and_merges_drop_them() {
    let mut store = Faulty::new(4_000);
    let now_secs = store.clock.unix_secs() as u32;
    let expiring = RecordMeta { expires_at_secs: now_secs + 100, ..RecordMeta::default() };
    // This older write never expires. It must not reappear when a merge drops the newer, expired one.
    put(store.engine(), "again", &[1; 100]);
    for number in 0..30 {
        put(store.engine(), &format!("stays{number:02}"), &[2; 100]);
    }
    try_put(store.engine(), "again", &[3; 100], expiring).unwrap();
    for number in 0..60 {
        try_put(store.engine(), &format!("goes{number:02}"), &[4; 100], expiring).unwrap();
    }
    while store.execution.step(SEAL_WORKER) == Some(NextStep::Again) {}
    assert_eq!(keys(store.engine()).len(), 91);
    store.clock.advance_us(100_000_000);
    assert_eq!(value(store.engine(), "goes00"), None);
    assert_eq!(store.engine().head(&Name::new("again").at()).unwrap(), None);
    assert_eq!(keys(store.engine()).len(), 30);
    let before = store.engine().stats();
    while store.execution.step(MERGE_WORKER) == Some(NextStep::Again) {}
    let after = store.engine().stats();
    assert!(after.merge_count > 0, "{after:?}");
    assert!(after.key_count < before.key_count / 2, "{before:?} {after:?}");
    store.kill();
    store.forget_indexes();
    store.open().unwrap();
    assert_eq!(keys(store.engine()).len(), 30);
    assert_eq!(value(store.engine(), "again"), None);
}

#[test]
fn an_expired_overwrite_leaves_a_tombstone() {
    let mut store = Faulty::new(4_000);
    support::expired::an_expired_overwrite_leaves_a_tombstone(store.engine(), &store.clock, || {
        // Closes the segment that has both writes, whose records have all expired.
        for number in 0..3 {
            put(store.engine(), &format!("filler{number}"), &[1; 4_000]);
        }
        while store.execution.step(SEAL_WORKER) == Some(NextStep::Again) {}
        for number in 0..3 {
            remove(store.engine(), &format!("filler{number}"));
        }
        merge_until_rest(&store);
        assert!(store.engine().stats().merge_count > 0);
    });
    store.kill();
    store.forget_indexes();
    store.open().unwrap();
    assert_eq!(keys(store.engine()), ["overwrite"], "a tombstone");
    assert_eq!(store.engine().stats().tombstone_count, 1);
}

#[test]
fn a_dropped_partition_stays_dropped_through_merges_and_restarts() {
    let mut store = Faulty::new(4_000);
    churn(&store);
    let partition = Name::new("key15").at().partition;
    let ticket = store.engine().drop_partition(partition).unwrap();
    put(store.engine(), "later", b"value");
    for restart in 0..3 {
        while store.execution.step(SEAL_WORKER) == Some(NextStep::Again) {}
        store.execution.step(MERGE_WORKER);
        assert_eq!(value(store.engine(), "key15"), None);
        let page = store.engine().fold(partition, Identity(0), 100, false).unwrap();
        assert!(page.entries.iter().all(|(key, _)| key.ends_with(b"later")), "{page:?}");
        store.engine().sync().unwrap();
        store.crash();
        if restart == 1 {
            store.forget_indexes();
        }
        store.open().unwrap();
    }
    assert!(ticket.0 > 0);
    assert_eq!(value(store.engine(), "later").unwrap(), b"value");
}

#[test]
fn batches_are_merged_as_single_records() {
    let mut store = Faulty::new(4_000);
    let names: Vec<Name> = (0..6).map(|number| Name::new(&format!("batch{number}"))).collect();
    for round in 0..20u8 {
        let value = [round; 200];
        let meta = RecordMeta::default();
        let writes: Vec<_> = names
            .iter()
            .map(|name| BatchWrite::Put { at: name.at(), meta, value: &value })
            .collect();
        store.engine().batch(&writes).unwrap();
    }
    while store.execution.step(SEAL_WORKER) == Some(NextStep::Again) {}
    while store.execution.step(MERGE_WORKER) == Some(NextStep::Again) {}
    assert!(store.engine().stats().merge_count > 0);
    store.kill();
    store.forget_indexes();
    store.open().unwrap();
    assert_eq!(keys(store.engine()).len(), 6);
    assert_eq!(value(store.engine(), "batch5").unwrap(), [19; 200]);
}

#[test]
fn numbers_of_partitions_are_those_of_the_ring() {
    let store = Faulty::new(1 << 20);
    let page = store.engine().fold(Partition(63), Identity(0), 10, false).unwrap();
    assert!(page.entries.is_empty() && page.next.is_none());
}
