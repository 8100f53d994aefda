//! The Bitcask engine under faults: full and failing disks; damaged, missing and foreign files.

use crate::support;
use crate::support::{Faulty, Name, get, keys, put, try_put, value};
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_seam::{NextStep, RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, COMMIT_WORKER, SEAL_WORKER};
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Fetch, IoMode, Maintenance, PointAccess, RecordAt, RecordMeta,
    RecordRef, ScanAccess, TransactionFn,
};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use std::sync::Arc;
use std::task::{Poll, Waker};

const SEGMENT_BYTES: u64 = 2_000;
/// Bytes of a record before its name.
const HEADER_BYTES: usize = 56;

/// Creates a store with `key_count` keys, `key00` and so on, in several segments, and closes it.
fn closed_store(key_count: u32) -> Faulty {
    let mut store = Faulty::new(SEGMENT_BYTES);
    for number in 0..key_count {
        put(store.engine(), &format!("key{number:02}"), &value_of(number));
    }
    store.close();
    store
}

fn value_of(number: u32) -> Vec<u8> {
    vec![number as u8; 100 + number as usize]
}

/// Numbers of the keys of a [`closed_store`] that no longer have their values.
fn lost(store: &Faulty, key_count: u32) -> Vec<u32> {
    let is_lost = |number: &u32| {
        let found = get(store.engine(), &format!("key{number:02}"));
        match found {
            Ok(Some(found)) => {
                assert_eq!(found, value_of(*number), "a wrong value");
                false
            }
            Ok(None) | Err(StoreError::Corrupt { .. }) => true,
            Err(error) => panic!("{error}"),
        }
    };
    (0..key_count).filter(is_lost).collect()
}

#[test]
fn a_write_of_a_new_key_reads_nothing_and_one_of_a_known_key_does() {
    let store = Faulty::new(SEGMENT_BYTES);
    store.disk.set_faults(|faults| faults.would_block_one_in = 1);
    let write = |key: &str, before| {
        let change =
            &mut |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| Decision::Put(RecordMeta::default());
        store.engine().update(&Name::new(key).at(), before, IoMode::NoWait, change).unwrap()
    };
    for before in [BeforeImage::Read, BeforeImage::Skip] {
        let key = format!("{before:?}");
        assert!(matches!(write(&key, before), Applied::Written(_)), "{key}");
        assert_eq!(write(&key, before), Applied::WouldBlock, "{key}");
    }
}

#[test]
fn a_transaction_on_many_cold_records_begins_anew_a_few_times_only() {
    let store = Faulty::new(SEGMENT_BYTES);
    let names: Vec<Name> = (0..2_000).map(|number| Name::new(&format!("key{number}"))).collect();
    for number in 0..2_000 {
        put(store.engine(), &format!("key{number}"), b"?");
    }
    let partition = names[0].at().partition;
    let here: Vec<RecordAt<'_>> =
        names.iter().map(Name::at).filter(|at| at.partition == partition).collect();
    assert!(here.len() > 10, "{} records of one partition", here.len());
    store.disk.set_faults(|faults| faults.would_block_one_in = 1);
    let mut begun = 0;
    let body: &mut TransactionFn<'_> = &mut |transaction| {
        begun += 1;
        for at in &here {
            let record = transaction.get(at)?.expect("it was put");
            transaction.put(at, record.meta, &[&record.value[..], b"!"].concat())?;
        }
        Ok(())
    };
    let applied = store.engine().transact(partition, IoMode::Wait, body).unwrap();
    assert!(matches!(applied, Applied::Written(_)));
    assert!(begun <= 10, "begun {begun} times");
    for at in &here {
        let Fetch::Found(record) = store.engine().get(at, IoMode::Wait).unwrap() else {
            panic!("{at:?} is gone")
        };
        assert_eq!((record.value.len(), record.value[1]), (2, b'!'));
    }
}

#[test]
fn a_full_disk_refuses_writes_and_nothing_else() {
    let store = Faulty::new(SEGMENT_BYTES);
    put(store.engine(), "old", b"there");
    store.disk.set_faults(|faults| faults.capacity_bytes = Some(20_000 + 32_768));
    let mut refused = 0;
    for number in 0..40 {
        match try_put(store.engine(), &format!("{number}"), &[1; 1_000], RecordMeta::default()) {
            Ok(_) => assert_eq!(refused, 0, "room came from nowhere"),
            Err(StoreError::DiskFull { size_bytes, .. }) => {
                assert!(size_bytes >= 64);
                refused += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }
    assert!(refused > 5 && refused < 35, "{refused} refused");
    assert!(store.engine().stats().disk_full);
    assert_eq!(value(store.engine(), "old").unwrap(), b"there");
    assert_eq!(value(store.engine(), "39"), None);
    assert_eq!(keys(store.engine()).len(), 41 - refused);
    store.disk.set_faults(|faults| faults.capacity_bytes = None);
    put(store.engine(), "39", b"now");
    assert!(!store.engine().stats().disk_full);
    assert_eq!(value(store.engine(), "39").unwrap(), b"now");
}

#[test]
fn a_store_that_leaves_room_alone_starts_again_and_reads_beside_a_full_disk() {
    let mut store = Faulty::new(SEGMENT_BYTES);
    store.close();
    store.settings.reserved_disk_bytes = 10_000;
    store.open().unwrap();
    let fill = |store: &Faulty| {
        store.disk.set_faults(|faults| faults.capacity_bytes = Some(60_000 + 32_768));
    };
    let accepted = |store: &Faulty| {
        let mut numbers = 0..1_000;
        let put = |number: &u32| {
            let put =
                try_put(store.engine(), &format!("{number}"), &[1; 1_000], RecordMeta::default());
            assert!(matches!(put, Ok(_) | Err(StoreError::DiskFull { .. })), "{put:?}");
            put.is_ok()
        };
        numbers.by_ref().take_while(put).count()
    };
    fill(&store);
    let count = accepted(&store);
    assert!((20..60).contains(&count), "{count} accepted");
    for _ in 0..3 {
        store.kill();
        fill(&store);
        store.open().unwrap();
        assert_eq!(keys(store.engine()).len(), count);
        assert_eq!(value(store.engine(), "0").unwrap(), [1; 1_000]);
        assert_eq!(accepted(&store), 0);
    }
    store.disk.set_faults(|faults| faults.capacity_bytes = None);
    put(store.engine(), "0", b"now");
    assert_eq!(value(store.engine(), "0").unwrap(), b"now");
}

#[test]
fn a_failed_write_leaves_the_record_as_it_was() {
    let mut store = Faulty::new(SEGMENT_BYTES);
    put(store.engine(), "key", b"old");
    for _ in 0..20 {
        store.disk.set_faults(|faults| faults.failing_writes = 1);
        let failed = try_put(store.engine(), "key", &[7; 300], RecordMeta::default());
        assert!(matches!(failed, Err(StoreError::Io { action: "write", .. })), "{failed:?}");
        assert_eq!(value(store.engine(), "key").unwrap(), b"old");
    }
    put(store.engine(), "other", b"new");
    store.kill();
    let report = store.open().unwrap();
    assert_eq!((report.damage_count, report.torn_bytes), (0, 0));
    assert_eq!(value(store.engine(), "key").unwrap(), b"old");
    assert_eq!(value(store.engine(), "other").unwrap(), b"new");
}

#[test]
fn after_a_failed_sync_nothing_is_promised_and_nothing_accepted() {
    let store = Faulty::new(SEGMENT_BYTES);
    let ticket = put(store.engine(), "key", b"value");
    let poll = || store.engine().poll_durable(ticket, Waker::noop());
    assert!(poll().is_pending());
    store.disk.set_faults(|faults| faults.failing_syncs = 1);
    store.execution.step(COMMIT_WORKER);
    assert!(matches!(poll(), Poll::Ready(Err(StoreError::SyncFailed { .. }))));
    let refused = try_put(store.engine(), "key", b"newer", RecordMeta::default());
    assert!(matches!(refused, Err(StoreError::SyncFailed { .. })), "{refused:?}");
    assert!(matches!(store.engine().sync(), Err(StoreError::SyncFailed { .. })));
    assert_eq!(value(store.engine(), "key").unwrap(), b"value");
}

#[test]
fn a_flipped_bit_costs_one_record() {
    let mut store = closed_store(12);
    store.forget_indexes();
    let segments = store.segments();
    assert!(segments.len() > 1, "{segments:?}");
    for name in &segments {
        let size = store.disk.bytes(name).unwrap().len();
        for at in (0..size).step_by(7) {
            store.disk.flip_bit(name, at, (at % 8) as u32);
            let report = store.open().unwrap();
            let lost = lost(&store, 12);
            let told = report.damage_count > 0 || report.torn_bytes > 0;
            assert!(lost.len() <= 1, "byte {at} of {name}: lost {lost:?}");
            assert!(told || lost.is_empty(), "byte {at} of {name}: lost {lost:?}, {report:?}");
            assert_eq!(keys(store.engine()).len(), 12 - lost.len());
            store.kill();
            store.forget_indexes();
            store.disk.flip_bit(name, at, (at % 8) as u32);
        }
    }
}

#[test]
fn a_record_that_rots_is_an_error_until_it_is_replaced_unseen() {
    let mut store = closed_store(3);
    let name = store.segments().remove(0);
    store.disk.flip_bit(&name, 64 + 60, 1);
    store.open().unwrap();
    let found = get(store.engine(), "key00");
    assert!(matches!(found, Err(StoreError::Corrupt { offset: 64, .. })), "{found:?}");
    assert_eq!(store.engine().stats().corrupt_record_count, 1);
    let seen = try_put(store.engine(), "key00", b"no", RecordMeta::default());
    assert!(matches!(seen, Err(StoreError::Corrupt { offset: 64, .. })), "{seen:?}");
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(b"repaired");
        Decision::Put(RecordMeta::default())
    };
    let at = Name::new("key00");
    store.engine().update(&at.at(), BeforeImage::Skip, IoMode::Wait, change).unwrap();
    assert_eq!(value(store.engine(), "key00").unwrap(), b"repaired");
    assert_eq!(keys(store.engine()).len(), 3);
}

#[test]
fn a_record_whose_name_or_header_rots_is_not_taken_for_absent() {
    const RECORD_AT: usize = 64;
    let large = vec![7; 2_000];
    let at = Name::new("key");
    // The loop ends after the name, because the engine shows the front of a value without verifying it. The
    // caller verifies it with the record's digest.
    for offset in RECORD_AT..RECORD_AT + HEADER_BYTES + at.at().encoded.len() {
        let mut store = Faulty::new(SEGMENT_BYTES);
        put(store.engine(), "key", &large);
        store.close();
        let name = store.segments().remove(0);
        store.open().unwrap();
        store.disk.flip_bit(&name, offset, 2);
        let update = |before| {
            let change = &mut |seen: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
                assert!(seen.is_none() && before == BeforeImage::Skip, "byte {offset}: {before:?}");
                out.extend_from_slice(b"repaired");
                Decision::Put(RecordMeta::default())
            };
            store.engine().update(&at.at(), before, IoMode::Wait, change)
        };
        for before in [BeforeImage::Front, BeforeImage::Read] {
            let seen = update(before);
            assert!(matches!(seen, Err(StoreError::Corrupt { .. })), "byte {offset}: {seen:?}");
        }
        update(BeforeImage::Skip).unwrap();
        assert_eq!(value(store.engine(), "key").unwrap(), b"repaired");
        assert_eq!(keys(store.engine()).len(), 1, "byte {offset}");
        let head = store.engine().head(&at.at()).unwrap();
        assert!(head.is_some(), "byte {offset}");
    }
}

#[test]
fn a_segment_that_is_cut_off_keeps_what_is_before_the_cut() {
    let mut store = closed_store(12);
    let name = store.segments().remove(0);
    let mut bytes = store.disk.bytes(&name).unwrap();
    bytes.truncate(700);
    store.disk.put(&name, bytes);
    let report = store.open().unwrap();
    assert!(!report.from_snapshot && report.damage_count > 0, "{report:?}");
    let lost = lost(&store, 12);
    assert!(!lost.contains(&0) && !lost.contains(&11) && lost.contains(&5), "{lost:?}");
    assert_eq!(keys(store.engine()).len(), 12 - lost.len());
}

#[test]
fn a_missing_segment_is_reported_and_the_others_are_used() {
    let mut store = closed_store(12);
    let name = store.segments().remove(0);
    store.disk.delete(&name);
    let report = store.open().unwrap();
    let told = report.damages.iter().any(|damage| damage.to_string().contains(&name));
    assert!(told, "{report:?}");
    let lost = lost(&store, 12);
    assert!(lost.contains(&0) && !lost.contains(&11), "{lost:?}");
}

#[test]
fn damaged_snapshots_and_key_files_are_made_again() {
    let mut store = closed_store(12);
    let derived: Vec<_> = store
        .names()
        .into_iter()
        .filter(|name| name == "INDEX" || name.ends_with(".keys"))
        .collect();
    assert!(derived.len() > 2, "{derived:?}");
    for name in derived {
        let size = store.disk.bytes(&name).unwrap().len();
        for at in [0, size / 2, size - 1] {
            store.disk.flip_bit(&name, at, 3);
            let report = store.open().unwrap();
            assert!(lost(&store, 12).is_empty(), "byte {at} of {name}: {report:?}");
            if name == "INDEX" {
                assert!(report.damage_count > 0 && !report.from_snapshot, "{report:?}");
            }
            store.close();
            if store.disk.bytes(&name).is_some_and(|bytes| bytes.len() == size) {
                // The damage of a key file may not have been noticed yet; then the file is still the
                // damaged one.
                let report = store.open().unwrap();
                assert!(lost(&store, 12).is_empty(), "{report:?}");
                store.close();
            }
        }
    }
}

#[test]
fn foreign_files_are_reported_and_left_alone() {
    let mut store = closed_store(3);
    let foreign = [
        ("notes.txt", b"mine".to_vec()),
        ("0000900.log", vec![0x41; 5_000]),
        ("0000901.log", b"QUOIT".to_vec()),
        ("12.log", b"short".to_vec()),
        ("download.tmp", b"part".to_vec()),
    ];
    for (name, bytes) in &foreign {
        store.disk.put(name, bytes.clone());
    }
    let report = store.open().unwrap();
    assert_eq!(report.damage_count, 0, "{report:?}");
    for (name, bytes) in &foreign {
        // The start of a segment whose creation was never completed. The engine may remove it.
        let is_ours = *name == "0000901.log";
        assert_eq!(report.foreign_files.iter().any(|other| other == name), !is_ours, "{name}");
        assert!(is_ours || store.disk.bytes(name).as_ref() == Some(bytes), "{name}");
    }
    assert!(lost(&store, 3).is_empty());
}

#[test]
fn a_segment_of_another_store_is_left_alone() {
    let mut other = Faulty::with_id(SEGMENT_BYTES, 99);
    put(other.engine(), "stranger", b"value");
    other.close();
    let name = other.segments().remove(0);
    let bytes = other.disk.bytes(&name).unwrap();
    let mut store = closed_store(3);
    store.disk.put("0000500.log", bytes.clone());
    let report = store.open().unwrap();
    assert_eq!(report.foreign_files, ["0000500.log"]);
    assert_eq!(value(store.engine(), "stranger"), None);
    assert_eq!(store.disk.bytes("0000500.log").unwrap(), bytes);
}

/// Renames files of a disk, all at once.
fn rename(store: &Faulty, names: &[(String, String)]) {
    let bytes: Vec<_> = names.iter().map(|(from, _)| store.disk.bytes(from).unwrap()).collect();
    names.iter().for_each(|(from, _)| store.disk.delete(from));
    names.iter().zip(bytes).for_each(|((_, to), bytes)| store.disk.put(to, bytes));
}

#[test]
fn segments_with_each_others_names_get_their_own() {
    for is_killed in [true, false] {
        let mut store = closed_store(40);
        if is_killed {
            store.open().unwrap();
            store.kill();
        }
        let segments = store.segments();
        assert!(segments.len() > 3, "{segments:?}");
        let next = segments.iter().cycle().skip(1).cloned();
        let turned: Vec<_> = segments.iter().cloned().zip(next).collect();
        rename(&store, &turned);
        let report = store.open().unwrap();
        assert_eq!((&report.loss, report.damage_count), (&None, 0), "{report:?}");
        assert!(lost(&store, 40).is_empty());
        assert_eq!(store.segments(), segments);
    }
}

#[test]
fn a_renaming_that_a_crash_interrupted_goes_on() {
    let mut store = closed_store(12);
    let segments = store.segments();
    let [first, second] = [&segments[0], &segments[1]];
    // The two segments had each other's names, and a crash interrupted the repair: one has its interim
    // name.
    rename(&store, &[(first.clone(), format!("{first}.moved")), (second.clone(), first.clone())]);
    let report = store.open().unwrap();
    assert_eq!(report.loss, None, "{report:?}");
    assert!(lost(&store, 12).is_empty());
    assert_eq!(store.segments(), segments);
}

#[test]
fn a_copy_of_a_segment_under_another_number_replaces_nothing() {
    let mut store = closed_store(12);
    let bytes = store.disk.bytes(&store.segments()[0]).unwrap();
    store.disk.put("0000500.log", bytes);
    store.open().unwrap();
    assert!(lost(&store, 12).is_empty());
}

#[test]
fn a_store_that_lost_its_name_gets_it_back_from_its_segments() {
    let mut store = closed_store(12);
    let before = store.open().unwrap();
    store.kill();
    for lose in [true, false] {
        if lose {
            store.disk.delete("STORE");
        } else {
            store.disk.flip_bit("STORE", 30, 1);
            store.disk.flip_bit("STORE", 16 * 1024 + 30, 1);
        }
        let report = store.open().unwrap();
        assert!(report.meta_rebuilt && !report.created, "{report:?}");
        assert_eq!(report.store_id, before.store_id);
        assert!(report.incarnation > before.incarnation);
        assert!(lost(&store, 12).is_empty());
        put(store.engine(), "more", b"value");
        store.kill();
    }
}

#[test]
fn damage_after_a_clean_stop_begins_an_incarnation() {
    let mut store = closed_store(12);
    let first = store.open().unwrap().incarnation;
    store.close();
    let mut last = store.open().unwrap().incarnation;
    assert_eq!(last, first, "nothing was damaged");
    store.close();
    let segment = store.segments().remove(0);
    let size = store.disk.bytes(&segment).unwrap().len();
    // A record in the middle, and the last record of the segment, whose damage looks like a torn write.
    for at in [64 + 60, size - 20] {
        store.forget_indexes();
        store.disk.flip_bit(&segment, at, 1);
        let report = store.open().unwrap();
        assert!(report.clean && report.incarnation == last + 1, "byte {at}: {report:?}");
        assert!(report.lost_after_clean_stop, "byte {at}");
        assert_eq!(store.engine().identity().incarnation(), last + 1);
        last = report.incarnation;
        // The new incarnation is durable, even after a crash.
        store.crash();
        let report = store.open().unwrap();
        assert!(!report.clean && report.incarnation == last + 1, "byte {at}: {report:?}");
        store.close();
        store.disk.flip_bit(&segment, at, 1);
        store.forget_indexes();
        last = store.open().unwrap().incarnation;
        assert_eq!(last, report.incarnation, "nothing is damaged any more");
        store.close();
    }
}

#[test]
fn a_loss_that_is_met_at_every_start_begins_one_incarnation() {
    let mut store = closed_store(12);
    let mut last = store.open().unwrap().incarnation;
    store.close();
    let segment = store.segments().remove(0);
    let size = store.disk.bytes(&segment).unwrap().len();
    // The last record, whose damage looks like a torn write, and then the segment's header as well.
    for at in [size - 20, 30] {
        store.disk.flip_bit(&segment, at, 1);
        store.forget_indexes();
        let found = store.open().unwrap();
        assert!(found.clean && found.incarnation == last + 1, "byte {at}: {found:?}");
        last = found.incarnation;
        for _ in 0..3 {
            store.close();
            store.forget_indexes();
            let found = store.open().unwrap();
            let is_met = found.damage_count > 0 || found.torn_bytes > 0;
            assert!(found.clean && is_met && found.incarnation == last, "byte {at}: {found:?}");
            assert!(!found.lost_after_clean_stop, "byte {at}: it was known");
        }
        store.close();
    }
}

#[test]
fn somebody_elses_store_file_is_not_overwritten() {
    let mut store = Faulty::new(SEGMENT_BYTES);
    store.kill();
    store.disk = quoit_seam::FaultyDisk::new(5);
    store.disk.put("STORE", b"a list of shops".to_vec());
    let error = store.open().unwrap_err();
    assert!(error.to_string().contains("STORE"), "{error}");
    assert!(error.to_string().contains("another data directory"), "{error}");
    assert_eq!(store.disk.bytes("STORE").unwrap(), b"a list of shops");
}

#[test]
fn a_wrong_ring_size_stops_the_start() {
    let mut store = closed_store(60);
    store.settings.ring_size = RingSize::new(8).unwrap();
    let error = store.open().unwrap_err();
    assert!(error.to_string().contains("ring_size"), "{error}");
}

#[test]
fn a_value_that_looks_like_a_log_is_not_taken_for_one() {
    let mut store = Faulty::new(1 << 20);
    put(store.engine(), "secret", b"removed");
    store.engine().sync().unwrap();
    let log = store.disk.bytes(&store.segments()[0]).unwrap();
    // The copy's records lie at offsets where the log itself could have records.
    put(store.engine(), "copy", &log.repeat(50));
    support::remove(store.engine(), "secret");
    // The record written next shows that everything before it is durable.
    store.engine().sync().unwrap();
    put(store.engine(), "later", b"value");
    store.kill();
    let name = store.segments().remove(0);
    let at = log.len() + 20;
    store.disk.flip_bit(&name, at, 0);
    store.forget_indexes();
    let report = store.open().unwrap();
    assert_eq!(report.damage_count, 1, "{report:?}");
    assert_eq!(keys(store.engine()), ["later"]);
}

#[test]
fn two_processes_cannot_have_one_directory() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let disk = Arc::new(RealDisk::open(directory.path()).unwrap());
        let clock = Arc::new(SystemClock::default());
        BitcaskEngine::open(disk, clock, &Threads, BitcaskSettings::new(1))
    };
    let (engine, _) = open().unwrap();
    let Err(error) = open() else { panic!("opened twice") };
    assert!(matches!(error, StoreError::Locked { .. }), "{error}");
    assert!(error.to_string().contains(&*directory.path().to_string_lossy()), "{error}");
    drop(engine);
    open().unwrap();
}

#[test]
fn a_data_directory_that_is_a_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data");
    std::fs::write(&path, b"").unwrap();
    let error = RealDisk::open(&path).unwrap_err();
    assert!(error.to_string().contains("data"), "{error}");
}

#[test]
fn key_files_that_find_no_room_are_written_later() {
    let store = Faulty::new(SEGMENT_BYTES);
    for number in 0..40 {
        put(store.engine(), &format!("key{number:02}"), &value_of(number));
    }
    let used: usize = store.names().iter().map(|name| store.disk.bytes(name).unwrap().len()).sum();
    store.disk.set_faults(|faults| faults.capacity_bytes = Some(used as u64));
    store.execution.step(SEAL_WORKER);
    assert_eq!(keys(store.engine()).len(), 40);
    store.disk.set_faults(|faults| faults.capacity_bytes = None);
    while store.execution.step(SEAL_WORKER) == Some(NextStep::Again) {}
    assert_eq!(keys(store.engine()).len(), 40);
    let key_files = store.names().iter().filter(|name| name.ends_with(".keys")).count();
    assert_eq!(key_files, store.segments().len() - 1);
}

#[test]
fn a_fold_tells_of_records_that_it_can_not_read() {
    let mut store = closed_store(40);
    let segment = store.segments().remove(0);
    let size = store.disk.bytes(&segment).unwrap().len();
    (64..size).step_by(250).for_each(|at| store.disk.flip_bit(&segment, at, 1));
    store.open().unwrap();
    let unreadable = lost(&store, 40);
    assert!(unreadable.len() > 3);
    let tag = |number: &u32| Tag::of(Name::new(&format!("key{number:02}")).at().identity);
    let mut expected: Vec<Tag> = unreadable.iter().map(tag).collect();
    expected.sort_unstable();
    let (mut told, mut read_count) = (Vec::new(), 0);
    for number in 0..RingSize::DEFAULT.get() {
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let page = store.engine().fold(Partition(number), identity, 3, false).unwrap();
            told.extend(page.damaged);
            read_count += page.entries.len();
            from = page.next;
        }
    }
    told.sort_unstable();
    assert_eq!(told, expected);
    assert_eq!(read_count + told.len(), 40);
}
