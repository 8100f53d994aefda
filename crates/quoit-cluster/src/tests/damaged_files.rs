//! Foreign and damaged control files: a clear error, never a panic.

use super::*;
use quoit_seam::FaultyDisk;
use redb::{Database, TableDefinition};
use serde_json::json;
use std::fs;

#[test]
fn foreign_files_are_told() {
    for content in [Vec::new(), b"ring_size = 64\n".to_vec(), vec![0; 1 << 20], vec![0xff; 9999]] {
        let fixture = Fixture::new();
        fs::write(fixture.path(), &content).unwrap();
        let error = fixture.open_error();
        let text = error.to_string();
        assert!(text.contains("control.redb"), "{text}");
        assert!(matches!(error, OpenError::Foreign { .. }), "{} bytes: {text}", content.len());
        assert_eq!(fs::read(fixture.path()).unwrap(), content, "the file was changed");
    }
}

#[test]
fn databases_of_others_are_told() {
    let fixture = Fixture::new();
    let database = Database::create(fixture.path()).unwrap();
    let transaction = database.begin_write().unwrap();
    transaction.open_table(TableDefinition::<u64, u64>::new("theirs")).unwrap();
    transaction.commit().unwrap();
    drop(database);
    let error = fixture.open_error();
    assert!(matches!(error, OpenError::Foreign { .. }), "{error}");
}

/// Replaces an entry of a control file behind the node's back.
fn overwrite(fixture: &Fixture, key: &[u8], value: &[u8]) {
    const TYPES: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("bucket_types");
    const NODE: TableDefinition<'_, &str, &[u8]> = TableDefinition::new("quoit_node");
    let database = Database::create(fixture.path()).unwrap();
    let transaction = database.begin_write().unwrap();
    match key {
        b"t" => {
            transaction.open_table(TYPES).unwrap().insert(key, value).unwrap();
        }
        _ => {
            let key = std::str::from_utf8(key).unwrap();
            transaction.open_table(NODE).unwrap().insert(key, value).unwrap();
        }
    }
    transaction.commit().unwrap();
}

#[tokio::test]
async fn wrong_entries_are_named() {
    for (key, value, expected) in [
        (&b"format"[..], &[0, 0, 0, 4][..], "has format 4, and this version knows 3"),
        (b"format", b"1", "format has an impossible value"),
        (b"ring_size", &[0, 65], "ring_size has an impossible value"),
        (b"node_id", b"short", "node_id has an impossible value"),
        (b"t", b"{", "bucket type t: EOF while parsing"),
        (b"t", br#"{"state":"asleep","props":{}}"#, "bucket type t has no state"),
        (b"t", br#"{"state":"active"}"#, "bucket type t has no properties"),
        (b"t", br#"{"state":"active","props":{"n_val":0}}"#, "stored property n_val"),
    ] {
        let fixture = Fixture::new();
        with_active_type(&fixture.open(), json!({})).await;
        overwrite(&fixture, key, value);
        let text = fixture.open_error().to_string();
        assert!(text.contains(expected), "{text}");
        assert!(text.contains("control.redb"), "{text}");
    }
}

/// Returns a control file with a bucket type and a bucket, each changed once.
async fn written_file() -> Vec<u8> {
    let fixture = Fixture::new();
    with_active_type(&fixture.open(), json!({"n_val": 2})).await;
    let change = updates(json!({"n_val": 4}));
    fixture.open().set_bucket_props(untyped("b"), &change).await.unwrap();
    fs::read(fixture.path()).unwrap()
}

#[tokio::test]
async fn truncated_files_are_told() {
    let whole = written_file().await;
    for length in [1, 63, 64, 300, 4095, 4096, 5000, whole.len() / 2, whole.len() - 1] {
        let fixture = Fixture::new();
        fs::write(fixture.path(), &whole[..length]).unwrap();
        let error = fixture.open_error();
        let clear = matches!(error, OpenError::Foreign { .. } | OpenError::Corrupt { .. });
        println!("{length} {error}");
        assert!(clear, "{length} bytes: {error}");
    }
}

#[tokio::test]
async fn changed_value_that_still_reads_well_is_told() {
    let mut damaged = written_file().await;
    let value = b"\"n_val\":4";
    let places: Vec<usize> = (0..damaged.len() - value.len())
        .filter(|place| damaged[*place..].starts_with(value))
        .collect();
    assert!(!places.is_empty());
    for place in places {
        damaged[place + value.len() - 1] = b'5';
    }
    let fixture = Fixture::new();
    fs::write(fixture.path(), &damaged).unwrap();
    let error = fixture.open_error();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert!(fixture.open_error().to_string().contains("is damaged"), "mended by opening");
}

/// Opens a damaged file and checks what it holds. Returns false if it could not be opened.
fn opens_right(disk: &FaultyDisk, place: usize) -> bool {
    let disk = Arc::new(disk.clone());
    let Ok(control) = ControlPlane::open(disk, settings()) else { return false };
    assert_eq!(control.read().node_id(), NODE_ID, "byte {place}");
    let n_val = |bucket| control.bucket_props(bucket).unwrap().n_val;
    assert_eq!(n_val(typed("t", "x")), 2, "byte {place}");
    assert_eq!(n_val(untyped("b")), 4, "byte {place}");
    true
}

#[tokio::test]
async fn flipped_bits_are_told_or_harmless() {
    let whole = written_file().await;
    let mut told_count = 0;
    for place in (0..1024).step_by(5).chain((1024..whole.len()).step_by(1021)) {
        let disk = FaultyDisk::new(0);
        disk.put("control.redb", whole.clone());
        disk.flip_bit("control.redb", place, place as u32 % 8);
        if !opens_right(&disk, place) {
            told_count += 1;
            // The first attempt must not have turned the damage into a file that seems sound.
            opens_right(&disk, place);
        }
    }
    assert!(told_count > 10, "only {told_count} told");
}
