//! Single flipped bits in files of `leveldb` and `leveled`, after clean and unclean stops. The engine never
//! returns a value that was never written, never returns an incomplete answer without an error or a
//! reported loss, and loses no more than the damaged batch.

use crate::support::files::copy;
use crate::support::indexes::{indexed, query_all};
use crate::support::ordered::open_ordered;
use crate::support::{Name, check_sums, get, mix, put, remove, sync, try_put};
use quoit_model::hash::Partition;
use quoit_model::secondary_index::{IndexPosition, index_entries_of};
use quoit_seam::{ManualClock, ManualExecution};
use quoit_store::engine::{KeyRange, Maintenance, RecordMeta, ScanAccess};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedReport, OrderedSettings};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Environment variable with the number of bits to flip, each in a copy of a store; 16 by default.
const COUNT_VARIABLE: &str = "QUOIT_TEST_FLIP_COUNT";

const KEY_COUNT: u64 = 12;

fn flip_count() -> u64 {
    std::env::var(COUNT_VARIABLE).ok().and_then(|count| count.parse().ok()).unwrap_or(16)
}

fn open(engine: &str, directory: &Path) -> Result<(OrderedEngine, OrderedReport), StoreError> {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    // Without a record cache, reads come from the files.
    let settings = OrderedSettings { record_cache_bytes: 0, ..OrderedSettings::new(7) };
    let of_trees = LsmSettings {
        cache_bytes: 1 << 20,
        disk_free_bytes_min: 0,
        write_buffer_bytes: 24 << 10,
        block_bytes: 1 << 10,
        ..LsmSettings::default()
    };
    open_ordered(engine, directory, clock, &ManualExecution::default(), settings, of_trees)
}

/// The versions of a key, each with the number of the sync that made it durable.
type Versions = Vec<(u64, Option<Vec<u8>>)>;

/// A store, and all versions of each key that were written to it.
struct VersionedStore {
    directory: TempDir,
    versions: BTreeMap<String, Versions>,
}

/// Creates a store with `sync_count` syncs, each after up to three writes.
fn make(engine: &str, sync_count: u64, closes: bool) -> VersionedStore {
    let directory = tempfile::tempdir().unwrap();
    // The journal of the second opening has no zeros at its end.
    open(engine, directory.path()).unwrap().0.close().unwrap();
    let (opened, report) = open(engine, directory.path()).unwrap();
    assert_eq!(report.loss, None);
    let mut versions: BTreeMap<String, Versions> = BTreeMap::new();
    let mut number = 0;
    for sync_number in 1..=sync_count {
        let mut written = BTreeSet::new();
        for _ in 0..3 {
            number += 1;
            let (kind, place) = (number % 3, mix(number) % KEY_COUNT);
            let key = format!("{kind}-{place}");
            if !written.insert(key.clone()) {
                continue;
            }
            let of_key = versions.entry(key.clone()).or_default();
            let is_there = of_key.last().is_some_and(|(_, value)| value.is_some());
            let value = if is_there && mix(number ^ 5).is_multiple_of(5) {
                remove(&opened, &key);
                None
            } else {
                Some(write(&opened, kind, &key, number))
            };
            of_key.push((sync_number, value));
        }
        sync(&opened);
    }
    if closes {
        opened.close().unwrap();
    }
    VersionedStore { directory, versions }
}

/// Writes a record. Its kind says if it has index entries, expires, or neither.
fn write(engine: &OrderedEngine, kind: u64, key: &str, number: u64) -> Vec<u8> {
    let (value, meta) = match kind {
        0 => indexed(number),
        _ => {
            let expires_at_secs = if kind == 1 { 1_700_050_000 } else { 0 };
            let meta = RecordMeta { digest: number, expires_at_secs, ..RecordMeta::default() };
            let size = 40 + mix(number) % 1_800;
            ((0..size).map(|place| mix(number ^ place << 20) as u8).collect(), meta)
        }
    };
    try_put(engine, key, &value, meta).unwrap();
    value
}

/// All nonempty files below a directory, sorted.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.append(&mut files_of(&path));
        } else if path.metadata().unwrap().len() > 0 {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// Flips one bit of a file, before the zeros at its end. Returns a description.
fn flip(path: &Path, seed: u64) -> String {
    let mut bytes = std::fs::read(path).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(1, |last| last + 1);
    let (place, bit) = ((mix(seed) % end as u64) as usize, mix(seed ^ 1 << 33) % 8);
    bytes[place] ^= 1 << bit;
    std::fs::write(path, bytes).unwrap();
    format!("bit {bit} of byte {place} of {end} of {}", path.display())
}

/// Results of reading a damaged store.
struct ReadResults {
    /// Numbers of the syncs of which a version is missing.
    lost: BTreeSet<u64>,
    /// Records that can't be read.
    damaged: BTreeSet<String>,
    /// Number of failed listings and queries.
    error_count: u64,
}

/// Reads everything. Checks that all values were written, and that listings and queries agree with the
/// records.
fn check(opened: &OrderedEngine, made: &VersionedStore, flipped: &str) -> ReadResults {
    let mut seen = ReadResults { lost: BTreeSet::new(), damaged: BTreeSet::new(), error_count: 0 };
    let (mut there, mut entries) = (BTreeSet::new(), BTreeSet::new());
    for (key, versions) in &made.versions {
        let found = match get(opened, key) {
            Ok(found) => found,
            Err(_) => {
                seen.damaged.insert(key.clone());
                seen.lost.extend(versions.last().map(|(sync, _)| *sync));
                continue;
            }
        };
        if let Some(value) = &found {
            there.insert(key.clone());
            let of_record = if key.starts_with('0') { index_entries_of(value) } else { Ok(vec![]) };
            let positions = of_record.unwrap().into_iter();
            entries.extend(positions.map(|entry| IndexPosition::of(&entry.term, key.as_bytes())));
        }
        let is_found = |(_, value): &(u64, Option<Vec<u8>>)| *value == found;
        let newer = match versions.iter().rposition(is_found) {
            Some(place) => &versions[place + 1..],
            None => {
                assert!(found.is_none(), "wrong bytes of {key} after {flipped}");
                &versions[..]
            }
        };
        seen.lost.extend(newer.iter().map(|(sync, _)| *sync));
    }
    match opened.list_keys(KeyRange::All, None, 10_000) {
        Ok(page) => {
            let name = |encoded: &[u8]| String::from_utf8(encoded[4 + 7 + 6..].to_vec()).unwrap();
            let listed: BTreeSet<String> =
                page.entries.iter().map(|(encoded, _)| name(encoded)).collect();
            assert!(there.is_subset(&listed), "a short listing after {flipped}");
            let known = there.union(&seen.damaged).cloned().collect();
            assert!(listed.is_subset(&known), "a listing of more than there is after {flipped}");
        }
        Err(_) => seen.error_count += 1,
    }
    match query_all(opened) {
        Ok(positions) => {
            let found: BTreeSet<IndexPosition> = positions.into_iter().collect();
            let is_right = match seen.damaged.is_empty() {
                true => found == entries,
                false => found.is_superset(&entries),
            };
            assert!(is_right, "{found:?} and not {entries:?} after {flipped}");
        }
        Err(_) => seen.error_count += 1,
    }
    seen
}

/// Verifies the whole store. Returns the records reported as damaged.
fn verify(opened: &OrderedEngine) -> Vec<(Partition, Tag)> {
    let (mut damaged, mut next) = (Vec::new(), None);
    loop {
        let verified = opened.verify(next, 10_000).unwrap();
        damaged.extend(verified.damaged);
        match verified.next {
            Some(place) => next = Some(place),
            None => return damaged,
        }
    }
}

fn journal_of(directory: &Path) -> PathBuf {
    let is_journal = |path: &PathBuf| path.extension().is_some_and(|extension| extension == "jnl");
    files_of(directory).into_iter().rfind(is_journal).expect("a journal")
}

fn loses_no_more_than_a_damaged_batch(engine: &str) {
    for closes in [true, false] {
        let made = make(engine, 40, closes);
        let mut lossy_count = 0;
        for seed in 0..flip_count() {
            let directory = tempfile::tempdir().unwrap();
            copy(made.directory.path(), directory.path());
            let flipped = flip(&journal_of(directory.path()), seed ^ u64::from(closes) << 20);
            let (opened, report) = open(engine, directory.path()).expect(&flipped);
            let seen = check(&opened, &made, &flipped);
            assert_eq!(seen.error_count, 0, "after {flipped}");
            assert!(seen.lost.len() <= 1, "{:?} after {flipped}: {report:?}", seen.lost);
            assert!(seen.lost.is_empty() || report.loss.is_some(), "{flipped}: {report:?}");
            lossy_count += u64::from(report.loss.is_some());
            if seen.damaged.is_empty() {
                check_sums(&opened);
            }
            // The contents stay the same, and the loss is reported until the node has repaired it.
            put(&opened, "young", b"v");
            opened.close().unwrap();
            drop(opened);
            let (opened, again) = open(engine, directory.path()).expect(&flipped);
            assert_eq!(again.loss.is_some(), report.loss.is_some(), "{flipped}: {again:?}");
            assert_eq!(get(&opened, "young").unwrap().as_deref(), Some(&b"v"[..]));
            remove(&opened, "young");
            assert_eq!(check(&opened, &made, &flipped).lost, seen.lost, "after {flipped}");
        }
        assert!(lossy_count > 0, "no flip has cost anything");
    }
}

#[test]
fn leveldb_loses_no_more_than_a_damaged_batch_of_its_journal() {
    loses_no_more_than_a_damaged_batch("leveldb");
}

#[test]
fn leveled_loses_no_more_than_a_damaged_batch_of_its_journal() {
    loses_no_more_than_a_damaged_batch("leveled");
}

/// Flips bits in all files of `fjall`. An opening may be refused with an error that names the file.
/// Otherwise each read is right or an error, or the engine reports a loss.
fn tells_of_damage(engine: &str) {
    let mut outcomes = [0; 3];
    for closes in [true, false] {
        let made = make(engine, 60, closes);
        for number in 0..32 * flip_count() {
            // How much of the data is in which file depends on the work in the background, so a few flips
            // may all meet the same kind of file.
            if number >= 2 * flip_count() && outcomes[0] > 0 && outcomes[2] > 0 {
                break;
            }
            let seed = number ^ u64::from(closes) << 20 ^ 1 << 40;
            let directory = tempfile::tempdir().unwrap();
            copy(made.directory.path(), directory.path());
            let files = files_of(&directory.path().join("lsm"));
            let path = &files[(mix(seed ^ 1 << 41) % files.len() as u64) as usize];
            let flipped = flip(path, seed);
            match open(engine, directory.path()) {
                Err(error) => {
                    let (name, told) = (path.display().to_string(), error.to_string());
                    assert!(told.contains(&name), "{told} after {flipped}");
                    outcomes[0] += 1;
                }
                Ok((opened, report)) => {
                    let seen = check(&opened, &made, &flipped);
                    let is_told = report.loss.is_some() || !seen.damaged.is_empty();
                    assert!(seen.lost.is_empty() || is_told, "{flipped}: {report:?}");
                    let found = verify(&opened);
                    for key in &seen.damaged {
                        let name = Name::new(key);
                        let record = (name.at().partition, Tag::of(name.at().identity));
                        // Verification finds unreadable keys by their names, and a removed record has none.
                        let is_removed =
                            made.versions[key].last().is_some_and(|(_, value)| value.is_none());
                        // A merge reads tables without their filters and writes new ones, so the record may
                        // be readable now.
                        let is_whole = || {
                            get(&opened, key).ok()
                                == made.versions[key].last().map(|last| last.1.clone())
                        };
                        let is_found = found.contains(&record)
                            || seen.error_count > 0
                            || is_removed
                            || is_whole();
                        assert!(is_found, "verification misses {key} after {flipped}");
                    }
                    let is_damaged = !seen.damaged.is_empty() || seen.error_count > 0;
                    outcomes[1 + usize::from(is_damaged)] += 1;
                }
            }
        }
    }
    println!("{engine}: {outcomes:?} starts refused, without errors, with errors");
    assert!(outcomes[0] > 0 && outcomes[2] > 0, "{outcomes:?}");
}

#[test]
fn leveldb_tells_of_damage_of_any_file() {
    tells_of_damage("leveldb");
}

#[test]
fn leveled_tells_of_damage_of_any_file() {
    tells_of_damage("leveled");
}

/// Moves all tables of a closed store to the lowest level, whose filters aren't kept in memory.
fn compact(directory: &Path) {
    let database = fjall::Database::builder(directory.join("lsm")).open().unwrap();
    for name in database.list_keyspace_names() {
        let keyspace = database.keyspace(&name, Default::default).unwrap();
        keyspace.rotate_memtable_and_wait().unwrap();
        keyspace.major_compact().unwrap();
    }
}

/// Flips bits near the end of a table of records, where its filter is. Point reads use the filter, and
/// scans don't. Verification has to find the damage by the names of the records.
fn verifies_filters(engine: &str) {
    let made = tempfile::tempdir().unwrap();
    let (opened, _) = open(engine, made.path()).unwrap();
    // Enough keys that the filter has some kilobytes.
    let keys: Vec<String> = (0..3_000).map(|number| format!("1-{number}")).collect();
    for key in &keys {
        put(&opened, key, b"v");
    }
    sync(&opened);
    opened.close().unwrap();
    drop(opened);
    compact(made.path());
    // The keyspace of records was created first.
    let tables = files_of(&made.path().join("lsm/keyspaces/1/tables"));
    let last = tables.last().unwrap().strip_prefix(made.path()).unwrap();
    let mut damaged_count = 0;
    for from_end in (1..12).map(|step| step * 500) {
        let directory = tempfile::tempdir().unwrap();
        copy(made.path(), directory.path());
        let table = directory.path().join(last);
        let mut bytes = std::fs::read(&table).unwrap();
        let place = bytes.len() - from_end;
        bytes[place] ^= 4;
        std::fs::write(&table, &bytes).unwrap();
        let Ok((opened, _)) = open(engine, directory.path()) else { continue };
        let damaged: Vec<_> = keys.iter().filter(|key| get(&opened, key).is_err()).collect();
        damaged_count += damaged.len();
        let found = verify(&opened);
        for key in damaged {
            let name = Name::new(key);
            let record = (name.at().partition, Tag::of(name.at().identity));
            assert!(found.contains(&record), "verification misses {key} after a flip at {place}");
        }
    }
    assert!(damaged_count > 0, "no flip has hit a filter");
}

#[test]
fn leveldb_verifies_filters_of_tables() {
    verifies_filters("leveldb");
}

#[test]
fn leveled_verifies_filters_of_tables() {
    verifies_filters("leveled");
}

/// Removes each file in turn. An engine that refuses to open must not remove other files; one that opens
/// must report what is lost.
fn misses_files(engine: &str) {
    let made = make(engine, 60, true);
    for path in files_of(made.directory.path()) {
        let directory = tempfile::tempdir().unwrap();
        copy(made.directory.path(), directory.path());
        let name = path.strip_prefix(made.directory.path()).unwrap();
        std::fs::remove_file(directory.path().join(name)).unwrap();
        let missing = format!("{} is missing", name.display());
        let left = files_of(directory.path());
        match open(engine, directory.path()) {
            Err(_) => {
                let is_kept = |path: &&PathBuf| {
                    path.exists() || path.extension().is_some_and(|extension| extension == "jnl")
                };
                assert_eq!(left.iter().filter(is_kept).count(), left.len(), "{missing}");
            }
            Ok((opened, report)) => {
                let seen = check(&opened, &made, &missing);
                assert!(seen.lost.is_empty() || report.loss.is_some(), "{missing}: {report:?}");
            }
        }
    }
}

#[test]
fn leveldb_misses_its_files() {
    misses_files("leveldb");
}

#[test]
fn leveled_misses_its_files() {
    misses_files("leveled");
}
