//! Verification of the stored data, which finds damage before a request does.

use crate::support::{BUCKET, Faulty, Name, get, keys, put};
use quoit_model::hash::Partition;
use quoit_store::engine::{
    BeforeImage, Decision, IoMode, KeyRange, Maintenance, PointAccess, RecordMeta, RecordRef,
    ScanAccess,
};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use std::collections::BTreeSet;

const SEGMENT_BYTES: u64 = 2_000;
const KEY_COUNT: u32 = 60;

/// A store that was closed with many keys in several segments, and opened again.
fn store() -> Faulty {
    let mut store = Faulty::new(SEGMENT_BYTES);
    for number in 0..KEY_COUNT {
        put(store.engine(), &key(number), &vec![number as u8; 100 + number as usize]);
    }
    store.close();
    store.open().unwrap();
    store
}

fn key(number: u32) -> String {
    format!("key{number:02}")
}

/// Verifies the store in steps of `limit_bytes`. Returns the damage found and the number of bytes read.
fn verified(store: &Faulty, limit_bytes: u64) -> (BTreeSet<(Partition, Tag)>, u64) {
    let (mut damaged, mut byte_count) = (BTreeSet::new(), 0);
    let mut place = None;
    loop {
        let verified = store.engine().verify(place, limit_bytes).unwrap();
        byte_count += verified.byte_count;
        damaged.extend(verified.damaged);
        assert!(verified.next.is_none() || verified.next > place, "it gets nowhere");
        place = verified.next;
        if place.is_none() {
            return (damaged, byte_count);
        }
    }
}

/// Records whose reads fail with [`StoreError::Corrupt`].
fn unreadable(store: &Faulty) -> BTreeSet<(Partition, Tag)> {
    let is_damaged = |number: &u32| {
        matches!(get(store.engine(), &key(*number)), Err(StoreError::Corrupt { .. }))
    };
    let damaged = (0..KEY_COUNT).filter(is_damaged);
    let place = |number| {
        let name = Name::new(&key(number));
        (name.at().partition, Tag::of(name.at().identity))
    };
    damaged.map(place).collect()
}

#[test]
fn sound_data_is_read_once_whatever_the_size_of_the_pieces() {
    let store = store();
    let (damaged, byte_count) = verified(&store, u64::MAX);
    assert!(damaged.is_empty() && byte_count > 5 * SEGMENT_BYTES, "{byte_count} bytes");
    for limit_bytes in [1, 100, 1_000] {
        assert_eq!(verified(&store, limit_bytes), (BTreeSet::new(), byte_count));
    }
}

#[test]
fn what_is_damaged_is_found_and_nothing_else() {
    for seed in 0..200u64 {
        let store = store();
        let logs = store.segments();
        for flip in 0..1 + seed % 3 {
            let name = &logs[(seed + 5 * flip) as usize % logs.len()];
            let size_bytes = store.disk.bytes(name).unwrap().len() as u64;
            let at = 64 + (seed * 7_919 + flip * 104_729) % (size_bytes.max(65) - 64);
            if at < size_bytes {
                store.disk.flip_bit(name, at as usize, (seed % 8) as u32);
            }
        }
        let expected = unreadable(&store);
        for limit_bytes in [1, 700, u64::MAX] {
            assert_eq!(verified(&store, limit_bytes).0, expected, "seed {seed}");
        }
    }
}

#[test]
fn what_was_written_over_is_no_loss() {
    let store = store();
    store.segments().iter().for_each(|name| {
        let size_bytes = store.disk.bytes(name).unwrap().len();
        (64..size_bytes).step_by(50).for_each(|at| store.disk.flip_bit(name, at, 1));
    });
    assert_eq!(verified(&store, 1_000).0.len(), unreadable(&store).len());
    for number in 0..KEY_COUNT {
        let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            out.extend_from_slice(b"new");
            Decision::Put(RecordMeta::default())
        };
        let name = Name::new(&key(number));
        store.engine().update(&name.at(), BeforeImage::Skip, IoMode::Wait, change).unwrap();
    }
    assert_eq!(verified(&store, 1_000).0, BTreeSet::new());
}

/// Flips a bit in the first block of each key file.
fn damage_key_files(store: &Faulty) -> Vec<String> {
    let is_key_file = |name: &String| name.ends_with(".keys");
    let files: Vec<String> = store.names().into_iter().filter(is_key_file).collect();
    files.iter().for_each(|name| store.disk.flip_bit(name, 40, 3));
    files
}

#[test]
fn a_damaged_key_file_is_written_again_by_the_listing_that_meets_it() {
    let store = store();
    let all: Vec<String> = (0..KEY_COUNT).map(key).collect();
    let files = damage_key_files(&store);
    assert!(files.len() > 3, "{files:?}");
    assert_eq!(store.engine().list_buckets(b"default", None, 9).unwrap().len(), 1);
    assert_eq!(keys(store.engine()), all);
    let found = store.engine().stats().corrupt_record_count;
    assert_eq!(found, files.len() as u64);
    assert_eq!(keys(store.engine()), all);
    assert_eq!(store.engine().stats().corrupt_record_count, found, "all are whole again");
}

#[test]
fn a_listing_fails_rather_than_leave_out_keys_whose_records_are_damaged_too() {
    let store = store();
    damage_key_files(&store);
    let log = &store.segments()[0];
    store.disk.flip_bit(log, 70, 1);
    let damaged = unreadable(&store);
    assert_eq!(damaged.len(), 1);
    let listed = || store.engine().list_keys(KeyRange::Bucket(BUCKET), None, 100);
    assert!(matches!(listed(), Err(StoreError::Corrupt { .. })));
    for number in 0..KEY_COUNT {
        let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            out.extend_from_slice(b"from another replica");
            Decision::Put(RecordMeta::default())
        };
        let name = Name::new(&key(number));
        store.engine().update(&name.at(), BeforeImage::Skip, IoMode::Wait, change).unwrap();
    }
    assert_eq!(listed().unwrap().entries.len(), KEY_COUNT as usize);
}
