//! Tests of deletes that queues do not bring to their sinks: reap records wait for them, and links
//! become stale.

use super::entry::{EntryReference, Visited};
use super::filter::QueueDefinition;
use super::missed_deletes::FullSyncNumber;
use super::source_queues::{SourceQueueSettings, SourceQueues};
use crate::machine_boot::MachineBoot;
use bytes::Bytes;
use quoit_model::key::BucketRef;
use quoit_seam::FaultyDisk;
use std::sync::Arc;
use std::time::Duration;

const SECOND: u64 = 1_000_000;
const HOUR: u64 = 3_600 * SECOND;
const SINK: Option<[u8; 16]> = Some([7; 16]);

fn settings() -> SourceQueueSettings {
    SourceQueueSettings {
        is_enabled: true,
        queues: QueueDefinition::read_list("all:any|none:block_rtq").0,
        entry_count_max: 2,
        full_sync_queue: Some("none".to_owned()),
        retention: Duration::from_secs(24 * 3_600),
        ..SourceQueueSettings::default()
    }
}

fn open(disk: &FaultyDisk) -> SourceQueues {
    open_with(disk, settings())
}

fn open_with(disk: &FaultyDisk, settings: SourceQueueSettings) -> SourceQueues {
    let queues =
        SourceQueues::open(Arc::new(disk.clone()), settings, MachineBoot(1)).expect("it opens");
    // On a new disk, entries of an earlier one may be lost. This stands for a full-sync that found
    // none.
    let _ = queues.take_loss();
    queues.settle_losses();
    queues
}

fn push(queues: &SourceQueues, reference: EntryReference, now_us: u64) {
    let mut key = Vec::new();
    let bucket = BucketRef::untyped(b"b");
    bucket.key(b"k").encode_into(&mut key);
    queues.push(bucket, key.into(), reference, Visited::new(), now_us);
}

fn delete(queues: &SourceQueues, now_us: u64) {
    push(queues, EntryReference::Tombstone(Bytes::from_static(b"t")), now_us);
}

/// Times since which deletes are missing in the sinks of the queues `all` and `none`.
fn missed(queues: &SourceQueues) -> [Option<u64>; 2] {
    let status = queues.status();
    [status[0].missed_since_us, status[1].missed_since_us]
}

fn drain(queues: &SourceQueues) {
    while queues.take("all", None, 1).is_some() {}
}

/// A full-sync that finds nothing to repair.
fn full_sync(queues: &SourceQueues, name: &str, now_us: u64) {
    let number = FullSyncNumber(now_us);
    queues.begin_full_sync(number, now_us);
    queues.end_full_sync(number, name, SINK);
}

#[test]
fn reap_records_wait_for_deletes_that_a_suspended_a_full_and_a_cleared_queue_has_dropped() {
    let (suspended, full, cleared) = (FaultyDisk::new(1), FaultyDisk::new(2), FaultyDisk::new(3));
    let queues = open(&suspended);
    queues.suspend("all", true).expect("a queue");
    push(&queues, EntryReference::ToFetch, HOUR);
    assert_eq!(missed(&queues)[0], None, "a write can't come undone by full-sync");
    delete(&queues, 2 * HOUR);
    delete(&queues, 3 * HOUR);
    queues.flush().expect("the disk is well");
    let queues = open(&full);
    push(&queues, EntryReference::ToFetch, HOUR);
    push(&queues, EntryReference::ToFetch, HOUR);
    delete(&queues, 2 * HOUR);
    drain(&queues);
    queues.flush().expect("the disk is well");
    let queues = open(&cleared);
    delete(&queues, 2 * HOUR);
    queues.clear("all", 3 * HOUR).expect("a queue");
    for disk in [suspended, full, cleared] {
        let queues = open(&disk.kill());
        drain(&queues);
        assert_eq!(missed(&queues)[0], Some(2 * HOUR));
        assert_eq!(queues.behind_since_us(4 * HOUR), Some(2 * HOUR));
        full_sync(&queues, "all", 5 * HOUR);
        assert_eq!(missed(&queues)[0], None);
    }
}

#[test]
fn a_missed_delete_is_known_after_a_kill_before_the_next_second() {
    let disk = FaultyDisk::new(7);
    let queues = open(&disk);
    queues.suspend("all", true).expect("a queue");
    let queues = open(&disk.kill());
    assert_eq!(missed(&queues), [None, None], "none was missed");
    // From here on the disk is full as well.
    disk.set_faults(|faults| faults.capacity_bytes = Some(0));
    let disk = disk.kill();
    let queues = open(&disk);
    delete(&queues, HOUR);
    let disk = disk.kill();
    let queues = open(&disk);
    assert_eq!(missed(&queues), [Some(HOUR), Some(HOUR)]);
    queues.flush().expect("the disk is well");
    let queues = open(&disk.kill());
    assert_eq!(missed(&queues), [Some(HOUR), Some(HOUR)]);
    full_sync(&queues, "all", 3 * HOUR);
    full_sync(&queues, "none", 3 * HOUR);
    queues.flush().expect("the disk is well");
    let disk = disk.kill();
    assert_eq!(missed(&open(&disk)), [None, None], "the mark is gone as well");
}

#[test]
fn a_queue_that_has_dropped_deletes_is_stale_when_no_full_sync_ends_within_the_retention() {
    let queues = open(&FaultyDisk::new(4));
    queues.suspend("all", true).expect("a queue");
    delete(&queues, HOUR);
    full_sync(&queues, "none", 2 * HOUR);
    assert!(queues.note_stale(25 * HOUR).is_empty());
    assert_eq!(queues.note_stale(26 * HOUR), ["all"]);
    assert_eq!(queues.behind_since_us(26 * HOUR), None, "reap records wait no longer");
    queues.accept_resurrection("all").expect("a queue");
    assert!(queues.note_stale(27 * HOUR).is_empty() && !queues.is_stale("all"));
}

#[test]
fn a_retention_of_more_microseconds_than_64_bits_count_is_not_cut_off() {
    let retention = Duration::from_micros(u64::MAX) + Duration::from_micros(1);
    let settings = SourceQueueSettings { retention, ..settings() };
    let queues = open_with(&FaultyDisk::new(9), settings);
    delete(&queues, HOUR);
    assert!(queues.note_stale(2 * HOUR).is_empty());
    assert_eq!(queues.behind_since_us(2 * HOUR), Some(HOUR), "reap records wait");
}

#[test]
fn a_full_sync_counts_for_the_queues_of_its_cluster_alone() {
    let queues = open(&FaultyDisk::new(5));
    queues.subscribe("all", Some([8; 16])).expect("a queue");
    queues.suspend("all", true).expect("a queue");
    delete(&queues, HOUR);
    full_sync(&queues, "all", 2 * HOUR);
    assert_eq!(missed(&queues)[0], Some(HOUR), "another cluster consumes the queue");
    queues.subscribe("all", SINK).expect("a queue");
    full_sync(&queues, "other", 3 * HOUR);
    assert_eq!(missed(&queues)[0], None);
}

#[test]
fn a_link_by_full_sync_alone_is_stale_when_none_ends_within_the_retention() {
    let disk = FaultyDisk::new(6);
    let queues = open(&disk);
    delete(&queues, HOUR);
    drain(&queues);
    assert_eq!(missed(&queues), [None, Some(HOUR)], "its queue takes no writes");
    full_sync(&queues, "none", 2 * HOUR);
    assert_eq!(missed(&queues), [None, None]);
    // As for a delete in a bucket that real-time replication leaves out.
    queues.note_delete_for_full_sync(3 * HOUR);
    queues.flush().expect("the disk is well");
    let queues = open(&disk.kill());
    assert_eq!(queues.behind_since_us(4 * HOUR), Some(3 * HOUR));
    assert_eq!(queues.note_stale(28 * HOUR), ["none"]);
}

#[test]
fn reap_records_wait_while_a_full_sync_has_to_find_lost_entries() {
    let disk = FaultyDisk::new(8);
    let queues = open(&disk);
    delete(&queues, HOUR);
    queues.flush().expect("the disk is well");
    drain(&queues);
    full_sync(&queues, "none", 2 * HOUR);
    assert_eq!(queues.behind_since_us(2 * HOUR), None);
    queues.flush().expect("the disk is well");
    // A power cut: the last entries may be gone.
    let open = || {
        SourceQueues::open(Arc::new(disk.crash()), settings(), MachineBoot(2)).expect("it opens")
    };
    let queues = open();
    assert_eq!(queues.behind_since_us(2 * HOUR), Some(0));
    assert_eq!(queues.behind_since_us(25 * HOUR), Some(0));
    assert!(queues.take_loss());
    queues.settle_losses();
    assert_eq!(queues.behind_since_us(25 * HOUR), None, "a full-sync has found nothing");
    let queues = open();
    assert_eq!(queues.behind_since_us(2 * HOUR), Some(0));
    assert_eq!(queues.behind_since_us(26 * HOUR), None, "longer than the retention");
    assert!(queues.note_stale(26 * HOUR).is_empty(), "real time goes on");
}

#[test]
fn a_mark_of_missed_deletes_may_have_any_time() {
    let disk = FaultyDisk::new(1);
    drop(open(&disk));
    let killed = disk.kill();
    killed.put(&format!("MISSED-{}", u64::MAX), Vec::new());
    assert_eq!(missed(&open(&killed)), [None, Some(u64::MAX)]);
}
