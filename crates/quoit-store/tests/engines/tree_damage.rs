//! Flipped bits and bad sectors in the files of `redb`: the secondary indexes of `bitcask`, and all data of
//! `innostore`. Each answer is right and complete, or an error, and nothing panics.

use crate::support::indexes::{check_indexes, indexed, query_all, try_put_indexed};
use crate::support::{Faulty, Name, check_sums, get, mix, put};
use quoit_seam::{Disk, FaultyDisk, ManualClock, ManualExecution, NextStep};
use quoit_store::bitcask::SNAPSHOT_WORKER;
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Engine, IoMode, KeyRange, Maintenance, RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;
use quoit_store::ordered::{OrderedEngine, OrderedReport, OrderedSettings, TreeSettings};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Once};

const INDEXES: &str = "SECONDARY";
const TREE: &str = "tree.redb";

const RECORD_COUNT: u64 = 400;

/// Number of damaged copies of each file, with one damaged offset each.
const FLIP_COUNT: u64 = 48;

/// Number of panics.
static PANIC_COUNT: AtomicUsize = AtomicUsize::new(0);

fn count_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let former = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            PANIC_COUNT.fetch_add(1, Ordering::SeqCst);
            former(panic);
        }));
    });
}

fn check_no_panics() {
    assert_eq!(PANIC_COUNT.load(Ordering::SeqCst), 0, "something panicked");
}

fn key(number: u64) -> String {
    format!("key{number}")
}

/// All files of a disk.
fn files_of(disk: &FaultyDisk) -> Vec<(String, Vec<u8>)> {
    let names = disk.list().unwrap();
    names.into_iter().map(|name| (name.clone(), disk.bytes(&name).unwrap())).collect()
}

/// A disk with the files, after one bit was flipped: mostly in the named file, sometimes in its checksum
/// file.
fn disk_with_a_flip(files: &[(String, Vec<u8>)], name: &str, seed: u64) -> FaultyDisk {
    let disk = FaultyDisk::new(seed);
    files.iter().for_each(|(name, bytes)| disk.put(name, bytes.clone()));
    let name = if seed % 6 == 5 { format!("{name}.sums") } else { name.to_owned() };
    let bytes = disk.bytes(&name).unwrap();
    // Prefers nonzero bytes, because zeros may never have been written.
    let mut places = (0..64).map(|draw| mix(seed << 8 | draw) as usize % bytes.len());
    let place = places.clone().find(|place| bytes[*place] != 0).or(places.next_back());
    disk.flip_bit(&name, place.unwrap(), (mix(seed) % 8) as u32);
    disk
}

fn tend(store: &Faulty) {
    while store.execution.step(SNAPSHOT_WORKER) == Some(NextStep::Again) {}
}

/// A store whose index entries have all been moved to their file.
fn store_with_indexes() -> Faulty {
    let mut store = Faulty::new(1 << 20);
    store.close();
    store.settings.entry_buffer_bytes = 1;
    store.open().unwrap();
    for number in 0..RECORD_COUNT {
        try_put_indexed(store.engine(), &key(number % 300), number).unwrap();
    }
    store
}

#[test]
fn damaged_indexes_are_an_error_and_then_whole_again() {
    count_panics();
    for is_clean in [true, false] {
        let mut sound = store_with_indexes();
        let expected = query_all(sound.engine()).unwrap();
        assert_eq!(expected.len(), 600);
        if is_clean {
            sound.close()
        } else {
            sound.kill()
        };
        let files = files_of(&sound.disk);
        let mut unavailable_count = 0;
        for seed in 0..FLIP_COUNT {
            let mut store = Faulty::new(1 << 20);
            store.close();
            store.settings = sound.settings.clone();
            store.disk = disk_with_a_flip(&files, INDEXES, seed);
            store.open().unwrap();
            match query_all(store.engine()) {
                Ok(found) => assert!(found == expected, "seed {seed}: {} entries", found.len()),
                Err(StoreError::IndexesUnavailable { .. }) => unavailable_count += 1,
                Err(error) => panic!("seed {seed}: {error}"),
            }
            try_put_indexed(store.engine(), "young", 10_000).unwrap();
            tend(&store);
            assert_eq!(query_all(store.engine()).unwrap().len(), 602, "seed {seed}");
            check_indexes(store.engine());
            store.close();
            store.open().unwrap();
            check_indexes(store.engine());
        }
        assert!(unavailable_count > FLIP_COUNT / 8, "{unavailable_count} of {FLIP_COUNT}");
    }
    check_no_panics();
}

#[test]
fn indexes_on_a_bad_piece_of_the_disk_get_another_file() {
    count_panics();
    let mut store = store_with_indexes();
    let expected = query_all(store.engine()).unwrap();
    let size = store.disk.bytes(INDEXES).unwrap().len() as u64;
    // Writes continue even if the whole file is bad.
    store.disk.make_unreadable(INDEXES, 0..size);
    for number in 0..50 {
        try_put_indexed(store.engine(), &key(number), 20_000 + number).unwrap();
    }
    tend(&store);
    assert_eq!(query_all(store.engine()).unwrap().len(), expected.len());
    check_indexes(store.engine());
    // An unreadable file doesn't fail queries permanently.
    store.close();
    store.disk.make_unreadable(INDEXES, 4_096..size);
    store.open().unwrap();
    let unavailable = query_all(store.engine());
    let is_told = matches!(unavailable, Err(StoreError::IndexesUnavailable { .. }));
    assert!(is_told, "{unavailable:?}");
    tend(&store);
    check_indexes(store.engine());
    // A transient read error costs nothing.
    store.close();
    store.open().unwrap();
    store.disk.set_faults(|faults| faults.failing_reads = 1);
    assert_eq!(query_all(store.engine()).unwrap().len(), expected.len());
    check_no_panics();
}

fn open_tree(disk: &FaultyDisk) -> Result<OrderedEngine, StoreError> {
    open_and_report(disk).map(|(engine, _)| engine)
}

fn open_and_report(disk: &FaultyDisk) -> Result<(OrderedEngine, OrderedReport), StoreError> {
    open_auxiliary(disk, false)
}

fn open_auxiliary(
    disk: &FaultyDisk,
    has_replicas: bool,
) -> Result<(OrderedEngine, OrderedReport), StoreError> {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    // Without a record cache, reads come from the file.
    let settings = OrderedSettings { record_cache_bytes: 0, ..OrderedSettings::new(7) };
    let of_tree = TreeSettings { cache_bytes: 1 << 20, disk_free_bytes_min: 0, has_replicas };
    let execution = ManualExecution::default();
    OrderedEngine::open_innostore(&disk, clock, &execution, settings, of_tree)
}

/// All names of a store, read in pages.
fn list_all(engine: &dyn Engine) -> Result<Vec<Vec<u8>>, StoreError> {
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = engine.list_keys(KeyRange::All, after.as_deref(), 50)?;
        names.extend(page.entries.into_iter().map(|(name, _)| name.to_vec()));
        match page.next {
            Some(next) => after = Some(next),
            None => return Ok(names),
        }
    }
}

/// The files of an `innostore` with records, and the numbers of names and index entries that it lists.
fn sound_tree(is_clean: bool) -> (Vec<(String, Vec<u8>)>, [usize; 2]) {
    let disk = FaultyDisk::new(1);
    let engine = open_tree(&disk).unwrap();
    for number in 0..RECORD_COUNT {
        try_put_indexed(&engine, &key(number), number).unwrap();
        if number % 40 == 39 {
            engine.sync().unwrap();
        }
    }
    let listed = [list_all(&engine).unwrap().len(), query_all(&engine).unwrap().len()];
    assert_eq!(listed, [RECORD_COUNT as usize, 2 * RECORD_COUNT as usize]);
    if is_clean {
        engine.close().unwrap();
        drop(engine);
        return (files_of(&disk), listed);
    }
    let killed = disk.kill();
    drop(engine);
    (files_of(&killed), listed)
}

/// Writes a record without reading the stored one.
fn try_replace(
    engine: &dyn Engine,
    key: &str,
    value: &[u8],
    meta: RecordMeta,
) -> Result<(), StoreError> {
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(value);
        Decision::Put(meta)
    };
    let applied = engine.update(&Name::new(key).at(), BeforeImage::Skip, IoMode::Wait, change)?;
    assert!(matches!(applied, Applied::Written(_)));
    Ok(())
}

fn replace(engine: &dyn Engine, key: &str, value: &[u8], meta: RecordMeta) {
    try_replace(engine, key, value, meta).unwrap();
}

/// Opens a store, finds all damage, writes a record and closes the store.
fn find_all_and_write(disk: &FaultyDisk, has_replicas: bool) -> Result<(), StoreError> {
    let (engine, _) = open_auxiliary(disk, has_replicas)?;
    let _ = (list_all(&engine), query_all(&engine), engine.verify(None, u64::MAX));
    try_replace(&engine, "new", b"value", RecordMeta::default())?;
    engine.sync()?;
    engine.close()
}

/// Numbers of right answers and of errors.
#[derive(Default, Debug)]
struct Answers {
    right_count: u64,
    error_count: u64,
}

/// Reads everything. Panics if an answer is wrong, or if something is missing without an error.
fn ask(engine: &dyn Engine, listed: [usize; 2], seed: u64) -> Answers {
    let mut answers = Answers::default();
    let mut count = |is_right: bool| match is_right {
        true => answers.right_count += 1,
        false => answers.error_count += 1,
    };
    for number in 0..RECORD_COUNT {
        let found = get(engine, &key(number));
        let is_right = |found| assert_eq!(found, Some(indexed(number).0), "seed {seed}, {number}");
        count(found.map(is_right).is_ok());
    }
    let names = list_all(engine);
    count(names.map(|names| assert_eq!(names.len(), listed[0], "seed {seed}")).is_ok());
    let entries = query_all(engine);
    count(entries.map(|entries| assert_eq!(entries.len(), listed[1], "seed {seed}")).is_ok());
    answers
}

#[test]
fn a_damaged_tree_answers_what_is_right_and_whole_or_an_error_and_is_mended() {
    count_panics();
    for is_clean in [true, false] {
        let (files, listed) = sound_tree(is_clean);
        let mut all = Answers::default();
        for seed in 0..FLIP_COUNT {
            let disk = disk_with_a_flip(&files, TREE, seed);
            let engine = open_tree(&disk).unwrap();
            let answers = ask(&engine, listed, seed);
            all.right_count += answers.right_count;
            all.error_count += answers.error_count;
            // The next write triggers a repair. After it, listings and queries are complete, and only reads
            // of lost records are errors.
            replace(&engine, "new", b"value", RecordMeta::default());
            engine.sync().unwrap();
            let with_new = [listed[0] + 1, listed[1]];
            let is_whole = |engine: &OrderedEngine| {
                assert_eq!(list_all(engine).unwrap().len(), with_new[0], "seed {seed}");
                assert_eq!(query_all(engine).unwrap().len(), with_new[1], "seed {seed}");
            };
            is_whole(&engine);
            let after = ask(&engine, with_new, seed);
            assert!(after.error_count <= 40, "seed {seed}: {after:?}");
            let known_count = engine.stats().key_count;
            assert_eq!(known_count, RECORD_COUNT + 1, "seed {seed}");
            // Unreadable records can be written again.
            for number in 0..RECORD_COUNT {
                if get(&engine, &key(number)).is_err() {
                    let (value, meta) = indexed(number);
                    replace(&engine, &key(number), &value, meta);
                }
            }
            engine.sync().unwrap();
            assert_eq!(ask(&engine, with_new, seed).error_count, 0, "seed {seed}");
            check_indexes(&engine);
            check_sums(&engine);
            engine.close().unwrap();
            drop(engine);
            let engine = open_tree(&disk).unwrap();
            assert_eq!(ask(&engine, with_new, seed).error_count, 0, "seed {seed}");
        }
        assert!(all.error_count > 0, "no flip was where anything is read: {all:?}");
    }
    check_no_panics();
}

#[test]
fn a_tree_with_damage_all_over_is_told_as_a_loss_where_records_are_missing() {
    count_panics();
    let (files, _) = sound_tree(true);
    let (mut loss_count, mut refused_count) = (0, 0);
    for seed in 0..FLIP_COUNT {
        let mut files = files.clone();
        for flip in 0..12 {
            files = files_of(&disk_with_a_flip(&files, TREE, 6 * (seed * 12 + flip)));
        }
        let disk = FaultyDisk::new(seed);
        files.iter().for_each(|(name, bytes)| disk.put(name, bytes.clone()));
        let used = find_all_and_write(&disk, false);
        let is_refused = used.is_err();
        if let Err(refused) = used {
            // The engine doesn't give up records that a salvage could still find.
            let is_damage = matches!(refused, StoreError::Corrupt { .. });
            assert!(is_damage, "seed {seed}: {refused}");
            let again = open_tree(&disk);
            for number in (0..RECORD_COUNT).filter(|_| again.is_ok()) {
                let found = again.as_ref().ok().and_then(|engine| get(engine, &key(number)).ok());
                let expected = Some(indexed(number).0);
                assert!(found.is_none_or(|found| found == expected), "seed {seed}, {number}");
            }
            drop(again);
            refused_count += 1;
            // If other nodes have replicas of the records, it does.
            find_all_and_write(&disk, true).unwrap();
        }
        let (engine, report) = open_auxiliary(&disk, is_refused).unwrap();
        let mut missing_count = 0;
        for number in 0..RECORD_COUNT {
            match get(&engine, &key(number)) {
                Ok(Some(found)) => assert_eq!(found, indexed(number).0, "seed {seed}, {number}"),
                Ok(None) => missing_count += 1,
                Err(_) => {}
            }
        }
        let lost_count = RECORD_COUNT + 1 - list_all(&engine).unwrap().len() as u64;
        let is_told = report.loss.is_some();
        assert!(is_told || missing_count + lost_count == 0, "seed {seed}: {missing_count}");
        loss_count += u64::from(is_told);
    }
    assert!(loss_count > 0, "no damage was such that records are missing");
    assert!(0 < refused_count && refused_count < FLIP_COUNT / 2, "{refused_count} were refused");
    check_no_panics();
}

#[test]
fn a_tree_whose_header_is_damaged_is_whole() {
    let (files, listed) = sound_tree(false);
    for place in 0..320 {
        let disk = FaultyDisk::new(place);
        files.iter().for_each(|(name, bytes)| disk.put(name, bytes.clone()));
        disk.flip_bit(TREE, place as usize, (place % 8) as u32);
        let engine = open_tree(&disk).unwrap();
        assert_eq!(list_all(&engine).unwrap().len(), listed[0], "byte {place}");
    }
}

#[test]
fn a_tree_without_its_checksums_or_with_foreign_ones_gets_them_again() {
    count_panics();
    let sums = "tree.redb.sums";
    for is_clean in [true, false] {
        let (files, listed) = sound_tree(is_clean);
        let harms: [fn(&FaultyDisk, &str); 4] = [
            |disk, sums| disk.delete(sums),
            |disk, sums| disk.put(sums, Vec::new()),
            |disk, sums| disk.put(sums, vec![0x5a; 9_000]),
            // The checksums of a newly created file.
            |disk, sums| {
                let young = FaultyDisk::new(1);
                drop(open_tree(&young).unwrap());
                disk.put(sums, young.bytes(sums).unwrap());
            },
        ];
        for (number, harm) in harms.into_iter().enumerate() {
            let disk = FaultyDisk::new(1);
            files.iter().for_each(|(name, bytes)| disk.put(name, bytes.clone()));
            harm(&disk, sums);
            let (engine, report) = open_and_report(&disk).unwrap();
            assert_eq!(report.loss, None, "harm {number}");
            assert_eq!(ask(&engine, listed, number as u64).error_count, 0, "harm {number}");
            engine.close().unwrap();
            drop(engine);
            // From now on, these checksums detect damage.
            let files = files_of(&disk);
            let mut error_count = 0;
            for seed in (0..8).map(|seed| 6 * seed) {
                let disk = disk_with_a_flip(&files, TREE, seed);
                error_count += ask(&open_tree(&disk).unwrap(), listed, seed).error_count;
            }
            assert!(error_count > 0, "harm {number}");
        }
    }
    check_no_panics();
}

#[test]
fn damage_that_came_before_there_were_checksums_is_mended_when_they_are_made() {
    count_panics();
    let (files, listed) = sound_tree(true);
    let mut error_count = 0;
    for seed in (0..FLIP_COUNT).map(|seed| 6 * seed) {
        let disk = disk_with_a_flip(&files, TREE, seed);
        disk.delete("tree.redb.sums");
        // The opening may fall back to an older commit, if that is the last intact one.
        let Ok((engine, report)) = open_and_report(&disk) else { continue };
        if report.loss.is_none() {
            error_count += ask(&engine, listed, seed).error_count;
        }
    }
    assert!(error_count > 0, "no flip was where anything is read");
    check_no_panics();
}

/// The copy of the header in the checksum file may be the only durable trace of the last commit.
#[test]
fn a_flipped_bit_among_the_checksums_takes_no_commit_back_when_power_fails() {
    for seed in 0..200 {
        let disk = FaultyDisk::new(seed);
        let engine = open_tree(&disk).unwrap();
        let count = 2 + seed % 5;
        for number in 0..count {
            put(&engine, &key(number), b"value");
            engine.sync().unwrap();
        }
        let place = mix(seed) as usize % 8_192;
        disk.flip_bit(&format!("{TREE}.sums"), place, 3);
        let disk = disk.crash();
        drop(engine);
        let engine = open_tree(&disk).unwrap();
        for number in 0..count {
            assert_eq!(get(&engine, &key(number)).unwrap().unwrap(), b"value", "seed {seed}");
        }
    }
}

#[test]
fn a_read_that_fails_in_a_commit_ends_no_writes() {
    let disk = FaultyDisk::new(1);
    let engine = open_tree(&disk).unwrap();
    let body = vec![7; 50_000];
    for number in 0..40 {
        put(&engine, &key(number), &body);
    }
    engine.sync().unwrap();
    let mut failed_count = 0;
    for round in 0..40 {
        put(&engine, &key(round), &[round as u8; 30_000]);
        disk.set_faults(|faults| faults.failing_reads = 2 + round % 4);
        failed_count += u64::from(engine.sync().is_err());
        disk.set_faults(|faults| faults.failing_reads = 0);
        engine.sync().unwrap();
        assert_eq!(get(&engine, &key(round)).unwrap(), Some(vec![round as u8; 30_000]));
    }
    assert!(failed_count > 0, "no commit has read");
    check_sums(&engine);
}

#[test]
fn a_tree_whose_mending_was_cut_short_is_mended_again() {
    count_panics();
    let (files, listed) = sound_tree(true);
    let flipped = (0..).map(|seed| 6 * seed).find(|seed| {
        let disk = disk_with_a_flip(&files, TREE, *seed);
        list_all(&open_tree(&disk).unwrap()).is_err()
    });
    let seed = flipped.unwrap();
    for left in (0..400).step_by(27) {
        let mut disk = disk_with_a_flip(&files, TREE, seed);
        let engine = open_tree(&disk).unwrap();
        assert!(list_all(&engine).is_err());
        replace(&engine, "new", b"value", RecordMeta::default());
        disk.set_faults(|faults| faults.operations_left = Some(left));
        let _ = engine.sync();
        disk = if left % 2 == 0 { disk.crash() } else { disk.kill() };
        drop(engine);
        let (engine, report) = open_and_report(&disk).unwrap();
        assert_eq!(report.loss, None, "after {left} operations");
        let _ = (list_all(&engine), engine.verify(None, u64::MAX));
        replace(&engine, "new", b"value", RecordMeta::default());
        engine.sync().unwrap();
        assert_eq!(list_all(&engine).unwrap().len(), listed[0] + 1, "after {left} operations");
        ask(&engine, [listed[0] + 1, listed[1]], left);
    }
    check_no_panics();
}
