//! Engines in a directory where a process was killed while it created the store.

use crate::support::ordered::open_ordered;
use crate::support::{try_put, value};
use quoit_seam::{SystemClock, Threads};
use quoit_store::engine::{Maintenance, RecordMeta};
use quoit_store::error::StoreError;
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings};
use std::fs::{self, File};
use std::path::Path;
use std::sync::Arc;

/// Size of an empty journal.
const JOURNAL_BYTES: u64 = 64 << 20;

fn open(engine: &str, directory: &Path) -> Result<OrderedEngine, StoreError> {
    let clock = Arc::new(SystemClock::default());
    let of_trees = LsmSettings { disk_free_bytes_min: 0, ..LsmSettings::default() };
    let settings = OrderedSettings::new(7);
    Ok(open_ordered(engine, directory, clock, &Threads, settings, of_trees)?.0)
}

/// The first steps of the creation of a store.
const STEPS: [fn(&Path); 6] = [
    |store| fs::create_dir(store).unwrap(),
    |store| drop(File::create_new(store.join("lock")).unwrap()),
    |store| fs::create_dir(store.join("keyspaces")).unwrap(),
    |store| drop(File::create_new(store.join("0.jnl")).unwrap()),
    |store| File::create(store.join("0.jnl")).unwrap().set_len(JOURNAL_BYTES).unwrap(),
    |store| drop(File::create_new(store.join("version")).unwrap()),
];

#[test]
fn a_store_whose_making_was_cut_short_is_made_again() {
    for engine in ["leveldb", "leveled"] {
        for count in 1..=STEPS.len() {
            let directory = tempfile::tempdir().unwrap();
            STEPS[..count].iter().for_each(|step| step(&directory.path().join("lsm")));
            let opened = open(engine, directory.path());
            let opened = opened.unwrap_or_else(|error| panic!("{engine} {count}: {error}"));
            try_put(&opened, "k", b"v", RecordMeta::default()).unwrap();
            opened.close().unwrap();
            drop(opened);
            assert_eq!(value(&open(engine, directory.path()).unwrap(), "k").unwrap(), b"v");
        }
    }
}

#[test]
fn a_store_with_data_that_has_lost_its_marker_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open("leveled", directory.path()).unwrap();
    try_put(&opened, "k", b"v", RecordMeta::default()).unwrap();
    opened.close().unwrap();
    drop(opened);
    let (store, kept) = (directory.path().join("lsm"), directory.path().join("kept"));
    let refused = || {
        let refused = open("leveled", directory.path()).map(drop).unwrap_err().to_string();
        assert!(refused.contains("lsm/version") && refused.contains("missing"), "{refused}");
    };
    fs::rename(store.join("version"), &kept).unwrap();
    refused();
    // The journal may be the only remaining file.
    fs::rename(store.join("keyspaces"), directory.path().join("keyspaces")).unwrap();
    refused();
    fs::rename(directory.path().join("keyspaces"), store.join("keyspaces")).unwrap();
    fs::rename(&kept, store.join("version")).unwrap();
    assert_eq!(value(&open("leveled", directory.path()).unwrap(), "k").unwrap(), b"v");
}

/// A file of the initial size, whose header lacks the magic number.
fn unmade_tree(header: u8) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 20];
    bytes[9..320].fill(header);
    bytes
}

#[test]
fn a_tree_whose_making_was_cut_short_is_made_again() {
    for left in [unmade_tree(0), unmade_tree(7), vec![0; 5], Vec::new()] {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("tree.redb"), &left).unwrap();
        let opened = open("innostore", directory.path()).unwrap();
        try_put(&opened, "k", b"v", RecordMeta::default()).unwrap();
        opened.close().unwrap();
        drop(opened);
        assert_eq!(value(&open("innostore", directory.path()).unwrap(), "k").unwrap(), b"v");
    }
}

#[test]
fn a_tree_with_data_that_has_lost_its_first_bytes_is_refused_and_left_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let opened = open("innostore", directory.path()).unwrap();
    try_put(&opened, "k", b"v", RecordMeta::default()).unwrap();
    opened.close().unwrap();
    drop(opened);
    let path = directory.path().join("tree.redb");
    let whole = fs::read(&path).unwrap();
    // With its checksums, the file would be recognized.
    fs::remove_file(directory.path().join("tree.redb.sums")).unwrap();
    let damaged = [&[0; 9], &whole[9..]].concat();
    fs::write(&path, &damaged).unwrap();
    let refused = open("innostore", directory.path()).map(drop).unwrap_err().to_string();
    assert!(refused.contains("tree.redb"), "{refused}");
    assert_eq!(fs::read(&path).unwrap(), damaged);
    fs::write(&path, &whole).unwrap();
    assert_eq!(value(&open("innostore", directory.path()).unwrap(), "k").unwrap(), b"v");
}
