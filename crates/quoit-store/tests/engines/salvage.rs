//! Salvage of `leveldb`, `leveled` and `innostore` from files that have flipped bits, are truncated or
//! missing. Each salvaged record is right and in its last version, unless the salvage reports otherwise.

use crate::support::files::copy;
use crate::support::indexes::{check_indexes, indexed, query_all, try_put_indexed};
use crate::support::ordered::{ORDERED, open_ordered};
use crate::support::{check_sums, get, mix, remove, sync, try_put};
use bytes::Bytes;
use quoit_model::hash::RingSize;
use quoit_model::object::Object;
use quoit_seam::{ManualClock, ManualExecution};
use quoit_store::engine::{Engine, Maintenance, RecordMeta};
use quoit_store::error::StoreError;
use quoit_store::ordered::{
    LsmSettings, OrderedEngine, OrderedReport, OrderedSettings, RecordFate, SalvageEvent, Salvaged,
    salvage,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const RECORD_COUNT: u64 = 210;
/// Number of flipped bits, each in a copy of a store.
const FLIP_COUNT: u64 = 10;
/// Every `REWRITTEN_EVERY`th record is written twice, and every `REMOVED_EVERY`th record is removed.
const REWRITTEN_EVERY: u64 = 5;
const REMOVED_EVERY: u64 = 7;

fn open(engine: &str, directory: &Path) -> Result<(OrderedEngine, OrderedReport), StoreError> {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    let settings = OrderedSettings { record_cache_bytes: 0, ..OrderedSettings::new(7) };
    let of_trees = LsmSettings {
        cache_bytes: 1 << 20,
        disk_free_bytes_min: 0,
        write_buffer_bytes: 32 << 10,
        block_bytes: 1 << 10,
        ..LsmSettings::default()
    };
    open_ordered(engine, directory, clock, &ManualExecution::default(), settings, of_trees)
}

fn key(number: u64) -> String {
    format!("key{number:04}")
}

fn is_removed(number: u64) -> bool {
    number % REMOVED_EVERY == 3
}

/// A store, and the final value of each record.
struct TestStore {
    directory: TempDir,
    last: BTreeMap<String, Vec<u8>>,
    /// All values that each record ever had.
    versions: BTreeMap<String, BTreeSet<Vec<u8>>>,
}

fn make(engine: &str, closes: bool) -> TestStore {
    let directory = tempfile::tempdir().unwrap();
    let (opened, _) = open(engine, directory.path()).unwrap();
    let mut versions = BTreeMap::<String, BTreeSet<Vec<u8>>>::new();
    for number in 0..RECORD_COUNT {
        try_put_indexed(&opened, &key(number), number).unwrap();
        note(&opened, number, &mut versions);
        if number % 20 == 0 {
            sync(&opened);
        }
    }
    for number in (0..RECORD_COUNT).step_by(REWRITTEN_EVERY as usize) {
        let (value, meta) = rewritten(number);
        try_put(&opened, &key(number), &value, meta).unwrap();
        note(&opened, number, &mut versions);
    }
    (0..RECORD_COUNT).filter(|number| is_removed(*number)).for_each(|number| {
        remove(&opened, &key(number));
    });
    sync(&opened);
    let last = (0..RECORD_COUNT)
        .filter_map(|number| Some((key(number), get(&opened, &key(number)).unwrap()?)))
        .collect();
    if closes {
        if engine == "leveldb" {
            until_tables(directory.path());
        }
        opened.close().unwrap();
    }
    drop(opened);
    TestStore { directory, last, versions }
}

/// The directory of the record tables.
fn tables_of(directory: &Path) -> PathBuf {
    directory.join("lsm/keyspaces/1/tables")
}

/// Waits until there is a table of records. Tables are written in the background, on a busy machine late.
fn until_tables(directory: &Path) {
    let (tables, end) = (tables_of(directory), Instant::now() + Duration::from_secs(60));
    while !tables.is_dir() || files_of(&tables).is_empty() {
        assert!(Instant::now() < end, "no table was written");
        std::thread::yield_now();
    }
}

/// The second version of a record. Its clock includes that of the first.
fn rewritten(number: u64) -> (Vec<u8>, RecordMeta) {
    let object_of = |number| Object::decode(&Bytes::from(indexed(number).0)).unwrap();
    let mut object = object_of(number + RECORD_COUNT);
    object.clock.merge(&object_of(number).clock);
    let mut value = Vec::new();
    object.encode_into(&mut value);
    (value, RecordMeta { digest: object.digest(), indexed: true, ..RecordMeta::default() })
}

fn note(engine: &dyn Engine, number: u64, versions: &mut BTreeMap<String, BTreeSet<Vec<u8>>>) {
    let value = get(engine, &key(number)).unwrap().unwrap();
    versions.entry(key(number)).or_default().insert(value);
}

/// Result of a salvage.
struct Outcome {
    salvaged: Salvaged,
    told: BTreeMap<String, RecordFate>,
    unread: Vec<String>,
    found: BTreeMap<String, Vec<u8>>,
}

fn salvaged(engine: &str, from: &Path, made: &TestStore) -> Outcome {
    let directory = tempfile::tempdir().unwrap();
    let (target, _) = open(engine, directory.path()).unwrap();
    let (mut told, mut unread) = (BTreeMap::new(), Vec::new());
    let ring_size = RingSize::DEFAULT;
    let done = salvage(from, &target, ring_size, &mut |event| {
        match event {
            SalvageEvent::Progress { .. } => {}
            SalvageEvent::Unread(stretch) => unread.push(format!("{stretch:?}")),
            SalvageEvent::Record { key, fate } => {
                told.insert(String::from_utf8(key.key.to_vec()).unwrap(), *fate);
            }
        }
        Ok(())
    });
    let salvaged = done.unwrap();
    target.close().unwrap();
    drop(target);
    let (target, report) = open(engine, directory.path()).unwrap();
    assert!(report.loss.is_none() && report.clean);
    let found: BTreeMap<String, Vec<u8>> = (0..RECORD_COUNT)
        .filter_map(|number| Some((key(number), get(&target, &key(number)).unwrap()?)))
        .collect();
    for (key, value) in &found {
        assert!(made.versions[key].contains(value), "{key} has a value that was never written");
    }
    assert_eq!(query_all(&target).unwrap().len(), 2 * found.len());
    check_indexes(&target);
    check_sums(&target);
    Outcome { salvaged, told, unread, found }
}

impl Outcome {
    /// Checks that the salvage reports each record that doesn't have its final value.
    fn check(&self, made: &TestStore, what: &str) {
        let Self { salvaged, told, unread, found } = self;
        let is_told = |key: &String| told.contains_key(key) || salvaged.may_have_deleted;
        for (key, value) in &made.last {
            assert!(found.get(key) == Some(value) || is_told(key), "{what}: {key} {unread:?}");
        }
        for key in found.keys().filter(|key| !made.last.contains_key(*key)) {
            assert!(salvaged.may_have_deleted, "{what}: {key} was removed, {unread:?}");
        }
        let is_right = *found == made.last;
        assert!(is_right || !salvaged.is_whole, "{what}");
        assert_eq!(salvaged.record_count, found.len() as u64, "{what}");
    }
}

fn files_of(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut files_of(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// One file of each kind. Files whose names differ only in digits are of one kind.
fn kinds_of_files(made: &TestStore) -> Vec<PathBuf> {
    let mut kinds = BTreeMap::<String, Vec<PathBuf>>::new();
    for file in files_of(made.directory.path()) {
        let name = file.strip_prefix(made.directory.path()).unwrap().display().to_string();
        let is_numbered = |letter: char| if letter.is_ascii_digit() { 'N' } else { letter };
        // The files of all keyspaces are of the same kinds.
        let kind = name.replace("keyspaces/", "").chars().map(is_numbered).collect();
        if std::fs::metadata(&file).unwrap().len() > 0 {
            kinds.entry(kind).or_default().push(file);
        }
    }
    let drawn =
        |files: &Vec<PathBuf>| files[mix(files.len() as u64) as usize % files.len()].clone();
    kinds.values().map(drawn).collect()
}

/// A copy of a store, with damage done to one file.
fn damaged(made: &TestStore, file: &Path, damage: impl FnOnce(&Path)) -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    copy(made.directory.path(), directory.path());
    damage(&directory.path().join(file.strip_prefix(made.directory.path()).unwrap()));
    directory
}

#[test]
fn a_sound_store_is_salvaged_as_a_whole() {
    for engine in ORDERED {
        for closes in [true, false] {
            let made = make(engine, closes);
            let outcome = salvaged(engine, made.directory.path(), &made);
            let Outcome { salvaged, unread, found, .. } = &outcome;
            assert!(*found == made.last, "{engine} {closes}: {} {unread:?}", found.len());
            assert!(salvaged.is_whole && unread.is_empty(), "{engine} {closes}: {unread:?}");
        }
    }
}

#[test]
fn a_file_that_is_missing_costs_what_was_in_it_and_is_told() {
    for (engine, closes) in [("leveldb", true), ("leveled", false), ("innostore", true)] {
        let made = make(engine, closes);
        for file in kinds_of_files(&made) {
            // Without this file there is nothing to salvage.
            if file.ends_with("tree.redb") {
                continue;
            }
            let what = format!("{engine} {closes} without {}", file.display());
            let directory = damaged(&made, &file, |file| std::fs::remove_file(file).unwrap());
            salvaged(engine, directory.path(), &made).check(&made, &what);
        }
    }
}

#[test]
fn a_file_that_is_cut_off_costs_what_was_behind_and_is_told() {
    for (engine, closes) in [("leveldb", false), ("leveled", true), ("innostore", false)] {
        let made = make(engine, closes);
        for (number, file) in kinds_of_files(&made).into_iter().enumerate() {
            let size = std::fs::metadata(&file).unwrap().len();
            let to = mix(number as u64) % size;
            let what = format!("{engine} with {} cut to {to} of {size}", file.display());
            let directory = damaged(&made, &file, |file| {
                std::fs::OpenOptions::new().write(true).open(file).unwrap().set_len(to).unwrap();
            });
            salvaged(engine, directory.path(), &made).check(&made, &what);
        }
    }
}

#[test]
fn a_flipped_bit_costs_a_block_and_is_told() {
    for engine in ORDERED {
        let made = make(engine, true);
        let files = kinds_of_files(&made);
        for seed in 0..FLIP_COUNT {
            let file = &files[seed as usize % files.len()];
            let mut bytes = std::fs::read(file).unwrap();
            let used = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
            let place = mix(seed << 8) as usize % used;
            bytes[place] ^= 1 << (seed % 8);
            let what = format!("{engine}, bit at {place} of {}", file.display());
            let directory = damaged(&made, file, |file| std::fs::write(file, &bytes).unwrap());
            salvaged(engine, directory.path(), &made).check(&made, &what);
        }
    }
}

/// Destroys all branch pages of `innostore`'s file, which lead to the other pages.
fn without_branches(file: &Path) {
    let mut bytes = std::fs::read(file).unwrap();
    for page in bytes.chunks_mut(4_096).filter(|page| page[0] == 2) {
        page.fill(0xff);
    }
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn pages_of_a_tree_without_a_root_are_found_and_the_start_says_that_there_are_some() {
    let made = make("innostore", true);
    let tree = made.directory.path().join("tree.redb");
    let directory = damaged(&made, &tree, without_branches);
    let refused = open("innostore", directory.path()).map(drop).unwrap_err();
    assert!(matches!(refused, StoreError::Corrupt { .. }), "{refused}");
    assert!(refused.to_string().contains("the root of its records"), "{refused}");
    let outcome = salvaged("innostore", directory.path(), &made);
    let missing = made.last.keys().filter(|key| !outcome.found.contains_key(*key)).count();
    assert_eq!(missing, 0, "{:?}", outcome.unread);
    assert!(outcome.salvaged.may_have_deleted && !outcome.salvaged.is_whole);
    // The file has older versions as well; the last one must win.
    let is_last = |(key, value): &(&String, &Vec<u8>)| outcome.found.get(*key) == Some(*value);
    assert_eq!(made.last.iter().filter(is_last).count(), made.last.len());
}

#[test]
fn names_that_can_be_read_keep_removed_records_away() {
    let made = make("leveldb", true);
    // Tables of records. The latest ones contain the removals.
    let tables = files_of(&tables_of(made.directory.path()));
    assert!(!tables.is_empty());
    for file in tables {
        let what = format!("without {}", file.display());
        let directory = damaged(&made, &file, |file| std::fs::remove_file(file).unwrap());
        let outcome = salvaged("leveldb", directory.path(), &made);
        outcome.check(&made, &what);
        assert!(!outcome.salvaged.may_have_deleted, "{what}");
        assert!(outcome.found.keys().all(|key| made.last.contains_key(key)), "{what}");
        let told = outcome.told.values().filter(|fate| **fate == RecordFate::Lost).count();
        assert_eq!(told, made.last.len() - outcome.found.len(), "{what}: {:?}", outcome.unread);
    }
}
