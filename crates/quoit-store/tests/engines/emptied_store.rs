//! Ordered engines whose store lacks one file. The remaining data is complete, the engine reports a loss,
//! or it refuses to open.

use crate::support::files::copy;
use crate::support::indexes::{query_all, try_put_indexed};
use crate::support::ordered::{ORDERED, open_ordered};
use crate::support::{get, sync};
use quoit_model::store_opening::LastOpening;
use quoit_seam::{ManualClock, ManualExecution, RealDisk};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::engine::{Engine, KeyRange, Maintenance};
use quoit_store::error::StoreError;
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedReport, OrderedSettings};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RECORD_COUNT: u64 = 120;

fn open(
    engine: &str,
    directory: &Path,
    last_opening: Option<LastOpening>,
) -> Result<(OrderedEngine, OrderedReport), StoreError> {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    let is_expected = last_opening.is_some();
    let settings = OrderedSettings { is_expected, last_opening, ..OrderedSettings::new(7) };
    // A small write buffer, so that tables are written while the test puts records.
    let of_trees = LsmSettings {
        cache_bytes: 1 << 20,
        write_buffer_bytes: 64 << 10,
        ..LsmSettings::default()
    };
    open_ordered(engine, directory, clock, &ManualExecution::default(), settings, of_trees)
}

/// All files and directories below a directory, sorted.
fn entries_of(directory: &Path) -> Vec<PathBuf> {
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            entries.append(&mut entries_of(&path));
        }
        entries.push(path);
    }
    entries.sort();
    entries
}

/// Counts the records, names and index entries that are missing without an error.
fn missing(engine: &dyn Engine) -> [u64; 3] {
    let is_missing = |number: &u64| matches!(get(engine, &format!("key{number}")), Ok(None));
    let records = (0..RECORD_COUNT).filter(is_missing).count() as u64;
    let listed = engine.list_keys(KeyRange::All, None, usize::MAX);
    let names = listed.map_or(0, |page| RECORD_COUNT - page.entries.len() as u64);
    let found = query_all(engine);
    let entries = found.map_or(0, |found| 2 * RECORD_COUNT - found.len() as u64);
    [records, names, entries]
}

#[test]
fn an_engine_file_that_is_missing_beside_data_is_named() {
    for (engine, data) in [("leveldb", "lsm"), ("innostore", "tree.redb")] {
        let directory = tempfile::tempdir().unwrap();
        open(engine, directory.path(), None).unwrap().0.close().unwrap();
        std::fs::remove_file(directory.path().join("ENGINE")).unwrap();
        let refused = open(engine, directory.path(), None).map(drop).unwrap_err().to_string();
        assert!(refused.contains("ENGINE") && refused.contains(data), "{refused}");
        let disk = RealDisk::open(directory.path()).unwrap();
        let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
        let (execution, settings) = (ManualExecution::default(), BitcaskSettings::new(7));
        let other = BitcaskEngine::open(Arc::new(disk), clock, &execution, settings);
        let refused = other.map(drop).unwrap_err().to_string();
        assert!(refused.contains("ENGINE") && refused.contains(data), "{refused}");
    }
}

#[test]
fn a_store_that_lacks_a_file_says_so() {
    for engine in ORDERED {
        let sound = tempfile::tempdir().unwrap();
        let (opened, _) = open(engine, sound.path(), None).unwrap();
        for number in 0..RECORD_COUNT {
            try_put_indexed(&opened, &format!("key{number}"), number).unwrap();
            if number % 20 == 0 {
                sync(&opened);
            }
        }
        let known = opened.identity().opening();
        opened.close().unwrap();
        drop(opened);
        // The directories and files by which the store and its keyspaces are found.
        let is_known_by = |entry: &PathBuf| {
            let below = entry.strip_prefix(sound.path()).unwrap().components().count();
            below < 4 || entry.ends_with("current")
        };
        let entries = entries_of(sound.path());
        for entry in entries.into_iter().filter(is_known_by) {
            let gone = entry.strip_prefix(sound.path()).unwrap().to_owned();
            let directory = tempfile::tempdir().unwrap();
            copy(sound.path(), directory.path());
            let entry = directory.path().join(&gone);
            let removed = if entry.is_dir() {
                std::fs::remove_dir_all(&entry)
            } else {
                std::fs::remove_file(&entry)
            };
            removed.unwrap();
            let Ok((opened, report)) = open(engine, directory.path(), Some(known)) else {
                continue;
            };
            let missing = missing(&opened);
            let is_told = report.loss.is_some() || missing == [0; 3];
            assert!(is_told, "{engine} without {}: {missing:?}", gone.display());
        }
    }
}
