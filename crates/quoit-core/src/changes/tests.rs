//! Tests of a node's log, and of positions in it.

use super::log::{ChangeFeedSettings, ChangeLog, LogPosition, LogRead, ReadFrom};
use super::position::FeedPosition;
use crate::machine_boot::MachineBoot;
use crate::queues::Cursor;
use bytes::Bytes;
use proptest::prelude::*;
use quoit_seam::{Disk, FaultyDisk};
use std::sync::Arc;
use std::time::Duration;

const SEC_US: u64 = 1_000_000;
const BOOT: MachineBoot = MachineBoot(1);

fn open_after(disk: &FaultyDisk, boot: MachineBoot, entropy: u64) -> ChangeLog {
    let settings = ChangeFeedSettings { retention: Duration::from_secs(60), bytes_max: 20 << 20 };
    ChangeLog::open(Arc::new(disk.clone()), settings, boot, entropy).expect("it opens")
}

fn open(disk: &FaultyDisk) -> ChangeLog {
    open_after(disk, BOOT, 7)
}

fn append(log: &ChangeLog, name: &'static str, now_us: u64) {
    log.append(Bytes::from_static(name.as_bytes()), false, Bytes::new(), now_us);
}

fn read(log: &ChangeLog, from: ReadFrom) -> Result<LogRead, String> {
    log.read(from, 5 * SEC_US).expect("the disk reads").map_err(|gap| gap.text)
}

fn names(read: &LogRead) -> Vec<String> {
    let name = |(entry, _): &(crate::queues::JournalEntry, Cursor)| {
        String::from_utf8(entry.entry.key.to_vec()).expect("a text")
    };
    read.entries.iter().map(name).collect()
}

#[test]
fn a_reader_goes_on_behind_the_entry_that_it_has_though_the_process_was_killed() {
    let disk = FaultyDisk::new(1);
    let log = open(&disk);
    append(&log, "a", 1);
    append(&log, "b", 2);
    let first = read(&log, ReadFrom::Oldest).expect("it is kept");
    assert_eq!(names(&first), ["a", "b"]);
    assert!(first.at_end && first.complete_us >= 5 * SEC_US);
    let behind_a = LogPosition { log: first.begin.log, cursor: first.entries[0].1 };
    append(&log, "c", 3);
    let disk = disk.kill();
    let log = open(&disk);
    append(&log, "d", 4);
    let second = read(&log, ReadFrom::Position(behind_a)).expect("it is kept");
    assert_eq!(names(&second), ["b", "c"]);
    let third = read(&log, ReadFrom::Position(second.next)).expect("it is kept");
    assert_eq!(names(&third), ["d"]);
}

#[test]
fn times_grow_whatever_the_clock_says_and_beyond_what_a_reader_was_told() {
    let disk = FaultyDisk::new(2);
    let log = open(&disk);
    append(&log, "a", 9 * SEC_US);
    append(&log, "b", 3 * SEC_US);
    let told = read(&log, ReadFrom::Oldest).expect("it is kept").complete_us;
    drop(log);
    let log = open(&disk.kill());
    append(&log, "c", SEC_US);
    let entries = read(&log, ReadFrom::Oldest).expect("it is kept").entries;
    assert_eq!(entries.len(), 2, "one file is read at once");
    let all: Vec<u64> = entries.iter().map(|(entry, _)| entry.entry.sequence.0).collect();
    assert!(all[0] < all[1] && told >= all[1], "{all:?}");
    let of_time = read(&log, ReadFrom::Time(told)).expect("it is kept");
    let last = read(&log, ReadFrom::Position(of_time.next)).expect("it is kept");
    assert_eq!(names(&last), ["c"]);
    assert!(last.entries[0].0.entry.sequence.0 > told, "the log goes on behind what it had");
}

#[test]
fn a_position_older_than_what_is_kept_is_a_gap_and_so_is_a_time() {
    let disk = FaultyDisk::new(3);
    let log = open(&disk);
    append(&log, "a", SEC_US);
    let place = read(&log, ReadFrom::Oldest).expect("it is kept").begin;
    // A new process begins a new file.
    drop(log);
    let log = open(&disk);
    append(&log, "b", 2 * SEC_US);
    log.flush(3 * SEC_US).expect("the disk takes it");
    assert!(read(&log, ReadFrom::Position(place)).is_ok(), "it is young enough");
    log.flush(2 * SEC_US + 61 * SEC_US).expect("the disk takes it");
    let gap = read(&log, ReadFrom::Position(place)).expect_err("its file is gone");
    assert!(gap.contains("no longer kept"), "{gap}");
    assert!(read(&log, ReadFrom::Time(SEC_US)).is_err());
    let oldest = read(&log, ReadFrom::Oldest).expect("what is left");
    assert_eq!(names(&oldest), ["b"]);
    assert!(read(&log, ReadFrom::Time(2 * SEC_US)).is_ok());
}

#[test]
fn a_retention_of_more_microseconds_than_64_bits_count_is_not_cut_off() {
    let disk = FaultyDisk::new(9);
    let retention = Duration::from_micros(u64::MAX) + Duration::from_micros(1);
    let open = || {
        let settings = ChangeFeedSettings { retention, bytes_max: 20 << 20 };
        ChangeLog::open(Arc::new(disk.clone()), settings, BOOT, 7).expect("it opens")
    };
    let log = open();
    append(&log, "a", SEC_US);
    // A new process begins a new file.
    drop(log);
    let log = open();
    append(&log, "b", 2 * SEC_US);
    log.flush(3 * SEC_US).expect("the disk takes it");
    let oldest = read(&log, ReadFrom::Oldest).expect("it is kept");
    assert_eq!(names(&oldest), ["a"], "the file of the former process is kept");
}

#[test]
fn lost_changes_are_a_gap_for_former_positions() {
    let disk = FaultyDisk::new(4);
    let log = open(&disk);
    append(&log, "a", 1);
    let place = read(&log, ReadFrom::Oldest).expect("it is kept").next;
    // A power cut: entries may have gone.
    let disk = disk.crash();
    let log = open_after(&disk, MachineBoot(2), 8);
    assert!(read(&log, ReadFrom::Position(place)).expect_err("unsure").contains("begun a new log"));
    let place = read(&log, ReadFrom::Oldest).expect("what is left").next;
    log.close(2).expect("the disk takes it");
    let log = open_after(&disk, MachineBoot(3), 9);
    assert!(read(&log, ReadFrom::Position(place)).is_ok(), "it was stopped in good order");
    // The disk refuses an entry.
    disk.set_faults(|faults| faults.failing_writes = 1);
    append(&log, "b", 3);
    append(&log, "c", 4);
    assert!(read(&log, ReadFrom::Position(place)).is_err(), "b is missing");
    assert_eq!((log.status().lost_count, log.status().appended_count), (1, 1));
}

#[test]
fn damage_in_the_newest_file_is_a_gap_behind_which_later_changes_are_read() {
    let disk = FaultyDisk::new(6);
    let log = open(&disk);
    append(&log, "first", 1);
    append(&log, "second", 2);
    let whole = read(&log, ReadFrom::Oldest).expect("it is kept");
    let from = ReadFrom::Position(LogPosition { log: whole.begin.log, cursor: whole.entries[0].1 });
    let at = |name: &String| {
        let bytes = disk.bytes(name).expect("a file");
        bytes.windows(6).position(|window| window == b"second")
    };
    let names_of_files = disk.list().expect("the disk reads");
    let file = names_of_files.iter().find(|name| at(name).is_some()).expect("a file has it");
    disk.flip_bit(file, at(file).expect("it has it"), 0);
    let gap = log.read(from, 5 * SEC_US).expect("the disk reads");
    let resume = ReadFrom::Position(gap.expect_err("the second change is damaged").resume);
    assert!(names(&read(&log, resume).expect("nothing is there yet")).is_empty());
    append(&log, "third", 3);
    assert_eq!(names(&read(&log, resume).expect("it is kept")), ["third"]);
}

#[test]
fn changes_whose_sync_failed_are_a_gap_also_when_a_later_sync_succeeds() {
    let disk = FaultyDisk::new(5);
    let log = open(&disk);
    append(&log, "a", 1);
    let place = read(&log, ReadFrom::Oldest).expect("it is kept").next;
    disk.set_faults(|faults| faults.failing_syncs = 1);
    assert!(log.flush(2).is_err());
    log.close(3).expect("the disk is well again");
    let log = open_after(&disk.crash(), MachineBoot(2), 8);
    assert!(read(&log, ReadFrom::Position(place)).is_err(), "a may be missing");
}

proptest! {
    #[test]
    fn positions_come_back_as_they_were(
        period in any::<u32>(),
        reported_us in any::<u64>(),
        places in prop::collection::btree_map(
            any::<[u8; 8]>(), (any::<u64>(), any::<u32>(), any::<u64>()), 0..6),
    ) {
        let place = |(log, file, offset)| LogPosition { log, cursor: Cursor { file, offset } };
        let places = places.into_iter().map(|(mark, at)| (mark, place(at))).collect();
        let position = FeedPosition { period, reported_us, places };
        prop_assert_eq!(FeedPosition::decode(&position.encode()), Ok(position));
    }

    #[test]
    fn whatever_a_client_sends_as_a_position_is_read_or_refused(
        bytes in prop::collection::vec(any::<u8>(), 0..100)
    ) {
        if let Ok(position) = FeedPosition::decode(&bytes) {
            prop_assert!(position.places.len() <= 4);
        }
    }
}

#[test]
fn changes_of_a_killed_process_outlast_a_power_cut_after_the_next_process_has_stopped() {
    for seed in 0..10 {
        let disk = FaultyDisk::new(seed);
        append(&open(&disk), "a", 1);
        let disk = disk.kill();
        open(&disk).close(2).expect("the disk is well");
        let log = open_after(&disk.crash(), MachineBoot(2), 8);
        let kept = read(&log, ReadFrom::Oldest).expect("it is kept");
        assert_eq!(names(&kept), ["a"], "seed {seed}");
    }
}
