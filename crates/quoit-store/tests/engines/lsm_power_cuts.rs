//! Power failures under `leveldb` and `leveled`: part or all of what was written to the journal and not
//! synced is lost, in any order. A copy of the files stands for the disk after the failure.

use crate::support::indexes::{check_indexes, query_all, try_put_indexed};
use crate::support::ordered::open_ordered;
use crate::support::{Name, check_sums, mix, put, value};
use quoit_seam::{ManualClock, ManualExecution};
use quoit_store::engine::{BatchWrite, Engine, Maintenance, RecordMeta};
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings, WRITE_WORKER};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes that a disk writes atomically.
const SECTOR_BYTES: usize = 512;

/// Number of power failures of each engine.
const CUT_COUNT: u64 = 16;

/// Upper bound of the bytes that a test writes to a journal.
const JOURNAL_BYTES_MAX: u64 = 1 << 20;

const KEY_COUNT: u64 = 20;

fn open(engine: &str, directory: &Path, execution: &ManualExecution) -> OrderedEngine {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    // Without a record cache, reads come from the files.
    let settings = OrderedSettings { record_cache_bytes: 0, ..OrderedSettings::new(7) };
    let of_trees =
        LsmSettings { cache_bytes: 1 << 20, disk_free_bytes_min: 0, ..LsmSettings::default() };
    open_ordered(engine, directory, clock, execution, settings, of_trees).unwrap().0
}

/// Writes one version of each kind: a record, a record with index entries, and two records in one batch.
fn write(engine: &dyn Engine, version: u64) {
    let body = body_of(version);
    put(engine, &format!("key{}", version % KEY_COUNT), &body);
    try_put_indexed(engine, &format!("indexed{}", version % KEY_COUNT), version).unwrap();
    let (one, other) = (Name::new("one"), Name::new("other"));
    let meta = RecordMeta { digest: version, ..RecordMeta::default() };
    let writes = [
        BatchWrite::Put { at: one.at(), meta, value: &body },
        BatchWrite::Put { at: other.at(), meta, value: &body },
    ];
    engine.batch(&writes).unwrap();
}

fn body_of(version: u64) -> Vec<u8> {
    let mut body = version.to_be_bytes().to_vec();
    body.resize(8 + (version % 4) as usize * 900, version as u8 | 1);
    body
}

/// All files below a directory.
fn files_of(directory: &Path) -> Vec<PathBuf> {
    let paths = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    let files = |path: PathBuf| if path.is_dir() { files_of(&path) } else { vec![path] };
    paths.flat_map(files).collect()
}

/// The active journal: its path within the directory, and its bytes without the preallocated zeros.
fn journal(directory: &Path) -> (PathBuf, Vec<u8>) {
    let files = files_of(directory).into_iter();
    let mut journals: Vec<PathBuf> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "jnl")).collect();
    let path = journals.pop().expect("a journal");
    assert!(journals.is_empty(), "more than one journal: {journals:?}");
    let mut bytes = Vec::new();
    File::open(&path).unwrap().take(JOURNAL_BYTES_MAX).read_to_end(&mut bytes).unwrap();
    let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    assert!(end + SECTOR_BYTES < JOURNAL_BYTES_MAX as usize);
    bytes.truncate(end);
    (path.strip_prefix(directory).unwrap().to_owned(), bytes)
}

/// Copies all files of a directory. Replaces the contents of one by the given bytes, followed by zeros.
fn copy(from: &Path, to: &Path, other: &Path, bytes: &[u8]) {
    for file in files_of(from) {
        let name = file.strip_prefix(from).unwrap();
        let target = to.join(name);
        std::fs::create_dir_all(target.parent().unwrap()).unwrap();
        if name != other {
            std::fs::copy(&file, target).unwrap();
            continue;
        }
        let mut made = File::create(&target).unwrap();
        made.write_all(bytes).unwrap();
        made.set_len(file.metadata().unwrap().len()).unwrap();
    }
}

/// The journal on the disk after a power failure: all synced bytes, and either a prefix of the rest or some
/// of its sectors.
fn torn(mut bytes: Vec<u8>, synced_bytes: usize, seed: u64) -> Vec<u8> {
    let unsynced_bytes = bytes.len() - synced_bytes;
    if seed.is_multiple_of(2) {
        let kept_bytes = synced_bytes + (mix(seed) % (unsynced_bytes as u64 + 1)) as usize;
        bytes[kept_bytes..].fill(0);
        return bytes;
    }
    for (number, start) in (0..bytes.len()).step_by(SECTOR_BYTES).enumerate() {
        let end = bytes.len().min(start + SECTOR_BYTES);
        if mix(seed ^ (number as u64) << 32).is_multiple_of(3) {
            bytes[start.max(synced_bytes).min(end)..end].fill(0);
        }
    }
    bytes
}

fn survives_power_cuts(engine: &str) {
    let mut lost_count = 0;
    for seed in 0..CUT_COUNT {
        let (before, after) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let execution = ManualExecution::default();
        let opened = open(engine, before.path(), &execution);
        let durable = KEY_COUNT + mix(seed ^ 1 << 50) % 20;
        (0..durable).for_each(|version| write(&opened, version));
        opened.sync().unwrap();
        let (name, synced) = journal(before.path());
        let last = durable + 10;
        for version in durable..last {
            write(&opened, version);
            // Written to the operating system, and not synced.
            execution.step(WRITE_WORKER);
        }
        let (_, written) = journal(before.path());
        assert!(written.starts_with(&synced) && written.len() > synced.len());
        copy(before.path(), after.path(), &name, &torn(written, synced.len(), seed));
        let found = open(engine, after.path(), &execution);
        let body = value(&found, "one").expect("it was durable");
        let seen = u64::from_be_bytes(*body.first_chunk().unwrap());
        assert!(seen + 1 >= durable && seen < last, "{seen} of {durable} that were durable");
        assert_eq!(body, body_of(seen));
        assert_eq!(value(&found, "other"), Some(body), "parts of a batch");
        for version in seen + 1 - KEY_COUNT..=seen {
            let body = value(&found, &format!("key{}", version % KEY_COUNT)).unwrap();
            let is_next = body == body_of(seen + 1);
            assert!(body == body_of(version) || is_next, "version {version}, {seen} was seen");
        }
        assert_eq!(query_all(&found).unwrap().len() as u64, 2 * KEY_COUNT);
        check_indexes(&found);
        check_sums(&found);
        lost_count += u64::from(seen + 1 < last);
        put(&found, "young", b"v");
        found.close().unwrap();
        drop(found);
        let found = open(engine, after.path(), &execution);
        assert_eq!(value(&found, "young").as_deref(), Some(&b"v"[..]));
        check_sums(&found);
    }
    assert!(lost_count > CUT_COUNT / 2, "{lost_count} cuts have cost anything");
}

#[test]
fn leveldb_keeps_what_was_durable_and_loses_nothing_in_part() {
    survives_power_cuts("leveldb");
}

#[test]
fn leveled_keeps_what_was_durable_and_loses_nothing_in_part() {
    survives_power_cuts("leveled");
}
