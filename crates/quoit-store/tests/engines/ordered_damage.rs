//! The files of the engines on ordered stores with random damage: the engines must not panic or return
//! wrong bytes. The damage is the same in every run.

use crate::support::files::copy;
use crate::support::ordered::open_ordered;
use crate::support::{Name, mix, try_put};
use bytes::Bytes;
use quoit_model::key::KeyRef;
use quoit_seam::{ManualClock, ManualExecution};
use quoit_store::engine::{
    Fetch, IoMode, KeyRange, Maintenance, PointAccess, RecordAt, RecordMeta, RecordPlace,
    RecordVisitor, RecordWalk, ScanAccess, VisitedRecord,
};
use quoit_store::error::StoreError;
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const RECORD_COUNT: u64 = 200;

/// Number of damaged copies of each engine's files.
const DAMAGE_COUNT: u64 = 24;

fn open(engine: &str, directory: &Path) -> Result<OrderedEngine, StoreError> {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    let execution = ManualExecution::default();
    let settings = OrderedSettings::new(7);
    let of_trees = LsmSettings { cache_bytes: 1 << 20, ..LsmSettings::default() };
    let opened = open_ordered(engine, directory, clock, &execution, settings, of_trees);
    opened.map(|(engine, _)| engine)
}

fn value_of(number: u64) -> Vec<u8> {
    let size = 50 + mix(number) % 4_000;
    (0..size).map(|place| mix(number ^ place << 20) as u8).collect()
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

/// Overwrites a random stretch of one of the files. Returns its path.
fn damage(directory: &Path, seed: u64) -> PathBuf {
    let files = files_of(directory);
    let path = files[(mix(seed) % files.len() as u64) as usize].clone();
    let mut bytes = std::fs::read(&path).unwrap();
    let start = (mix(seed ^ 1 << 40) % bytes.len() as u64) as usize;
    let size = 1 + (mix(seed ^ 1 << 41) % 64) as usize;
    for (place, byte) in bytes.iter_mut().enumerate().skip(start).take(size) {
        *byte ^= 1 | mix(seed ^ (place as u64) << 8) as u8;
    }
    std::fs::write(&path, bytes).unwrap();
    path
}

/// Outcome of reading a record.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Outcome {
    Right,
    Lost,
    Damaged,
}

/// Collects the outcome of each record of a walk.
struct OutcomeVisitor<'d> {
    seen: Vec<(u64, Outcome)>,
    damaged: &'d Path,
}

impl RecordVisitor for OutcomeVisitor<'_> {
    fn wants(&mut self, encoded: &[u8], _meta: &RecordMeta) -> Option<RecordPlace> {
        let name = Name::new(&format!("key{}", number_of(encoded)));
        let RecordAt { identity, partition, .. } = name.at();
        Some(RecordPlace { identity, partition })
    }

    fn visit(&mut self, encoded: &[u8], record: VisitedRecord<'_>) {
        let number = number_of(encoded);
        let outcome = match record {
            VisitedRecord::Found(record) => {
                let is_right = record.value == value_of(number);
                assert!(is_right, "wrong bytes of {number}: damage of {}", self.damaged.display());
                Outcome::Right
            }
            VisitedRecord::Missing => Outcome::Lost,
            VisitedRecord::Damaged => Outcome::Damaged,
        };
        self.seen.push((number, outcome));
    }
}

fn number_of(encoded: &[u8]) -> u64 {
    let key = KeyRef::decode(encoded).unwrap().key;
    std::str::from_utf8(&key[3..]).unwrap().parse().unwrap()
}

/// Walks over all records. Returns the outcome of each record whose name is found; `None` if the names
/// can't be read.
fn walk_all(engine: &OrderedEngine, damaged: &Path) -> Option<Vec<(u64, Outcome)>> {
    let mut visitor = OutcomeVisitor { seen: Vec::new(), damaged };
    let mut after: Option<Bytes> = None;
    loop {
        let range = KeyRange::All;
        let walk = RecordWalk { range, after: after.as_deref(), count_max: 64, bytes_max: 1 << 16 };
        after = engine.visit_records(walk, &mut visitor).ok()?;
        if after.is_none() {
            return Some(visitor.seen);
        }
    }
}

/// Reads everything. Returns the numbers of records that are right, lost, and reported as damaged.
fn read_all(engine: &OrderedEngine, damaged: &Path) -> [u64; 3] {
    let mut outcomes = Vec::new();
    for number in 0..RECORD_COUNT {
        let name = Name::new(&format!("key{number}"));
        outcomes.push(match engine.get(&name.at(), IoMode::Wait) {
            Ok(Fetch::Found(record)) => {
                let is_right = record.value == value_of(number);
                assert!(is_right, "wrong bytes of {number} after damage of {}", damaged.display());
                Outcome::Right
            }
            Ok(Fetch::Missing) => Outcome::Lost,
            Ok(Fetch::WouldBlock) => panic!("a read that may wait would block"),
            Err(_) => Outcome::Damaged,
        });
    }
    for (number, outcome) in walk_all(engine, damaged).unwrap_or_default() {
        let expected = outcomes[number as usize];
        assert_eq!(outcome, expected, "{number} after damage of {}", damaged.display());
    }
    let counts = [Outcome::Right, Outcome::Lost, Outcome::Damaged]
        .map(|of| outcomes.iter().filter(|outcome| **outcome == of).count() as u64);
    // The remaining reads may fail, but must not panic.
    let partitions = (0..64).map(quoit_model::hash::Partition);
    for partition in partitions {
        let _ = engine.fold(partition, quoit_model::hash::Identity(0), 1_000, false);
        let _ = engine.compared().unwrap().digests(partition, 0);
    }
    let _ = engine.list_keys(KeyRange::All, None, 1_000);
    let _ = engine.verify(None, 1 << 30);
    counts
}

fn survives_damage(engine: &str) {
    let sound = tempfile::tempdir().unwrap();
    let made = open(engine, sound.path()).unwrap();
    for number in 0..RECORD_COUNT {
        let meta = RecordMeta { digest: number, ..RecordMeta::default() };
        try_put(&made, &format!("key{number}"), &value_of(number), meta).unwrap();
        if number == RECORD_COUNT / 2 {
            made.sync().unwrap();
        }
    }
    made.close().unwrap();
    drop(made);
    let reopened = open(engine, sound.path()).unwrap();
    assert_eq!(read_all(&reopened, sound.path()), [RECORD_COUNT, 0, 0]);
    assert_eq!(walk_all(&reopened, sound.path()).unwrap().len() as u64, RECORD_COUNT);
    reopened.close().unwrap();
    drop(reopened);
    let mut noticed_count = 0;
    for seed in 0..DAMAGE_COUNT {
        let directory = tempfile::tempdir().unwrap();
        copy(sound.path(), directory.path());
        let damaged = damage(directory.path(), seed);
        let Ok(opened) = open(engine, directory.path()) else {
            noticed_count += 1;
            continue;
        };
        let [right, ..] = read_all(&opened, &damaged);
        noticed_count += u64::from(right < RECORD_COUNT);
    }
    assert!(noticed_count > 0, "no damage was where anything is read");
}

#[test]
fn leveldb_survives_damage() {
    survives_damage("leveldb");
}

#[test]
fn leveled_survives_damage() {
    survives_damage("leveled");
}

#[test]
fn innostore_survives_damage() {
    survives_damage("innostore");
}
