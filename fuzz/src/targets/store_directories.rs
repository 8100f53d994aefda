//! A data directory of the Bitcask engine with one damaged file of any kind.

use std::sync::{Arc, OnceLock};

use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_seam::{Disk, FaultyDisk, ManualClock, ManualExecution};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, SEAL_WORKER};
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Fetch, IoMode, KeyRange, Maintenance, PointAccess, RecordAt,
    RecordMeta, RecordRef, ScanAccess,
};
use quoit_store::error::StoreError;

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "store-directories", run, seeds };

const START_US: u64 = 1_700_000_000_000_000;
const KEY_COUNT: usize = 12;
const WRITES_EACH: usize = 3;
/// Small enough that a few writes fill several segments.
const SEGMENT_BYTES_MAX: u64 = 1_000;

/// Checks a store in which one file is replaced. The first byte of the input chooses the file, the rest is
/// its content. The store must open or report an error. Each record must read as one of its former values,
/// as missing, or as an error.
fn run(input: &[u8]) {
    let Some((choice, content)) = input.split_first() else { return };
    let files = template();
    let Some((name, _)) = files.get(usize::from(*choice) % files.len()) else { return };
    let disk = FaultyDisk::new(1);
    for (name, content) in files {
        disk.put(name, content.clone());
    }
    disk.put(name, content.to_vec());
    let execution = ManualExecution::default();
    let Ok(engine) = open(disk, &execution) else { return };
    for number in 0..KEY_COUNT {
        with_record(number, |at| match engine.get(at, IoMode::Wait) {
            Ok(Fetch::Found(record)) => {
                let known = (0..WRITES_EACH).any(|write| record.value == value(number, write));
                assert!(known, "key {number} reads as {:?}", record.value);
            }
            Ok(Fetch::Missing) | Err(_) => {}
            Ok(Fetch::WouldBlock) => panic!("the engine would block though it may wait"),
        });
    }
    let _ = engine.list_keys(KeyRange::All, None, KEY_COUNT);
    with_record(0, |at| {
        if matches!(put(&engine, at, b"new"), Ok(Applied::Written(_))) {
            let found = engine.get(at, IoMode::Wait);
            let is_new = matches!(&found, Ok(Fetch::Found(record)) if record.value == b"new"[..]);
            assert!(is_new, "a write over damage reads as {found:?}");
        }
    });
}

fn open(disk: FaultyDisk, execution: &ManualExecution) -> Result<BitcaskEngine, StoreError> {
    let settings = BitcaskSettings {
        ring_size: RingSize::new(8).expect("8 is a ring size"),
        max_file_size_bytes: SEGMENT_BYTES_MAX,
        ..BitcaskSettings::new(1)
    };
    let clock = Arc::new(ManualClock::at(START_US));
    BitcaskEngine::open(Arc::new(disk), clock, execution, settings).map(|(engine, _)| engine)
}

fn with_record<T>(number: usize, then: impl FnOnce(&RecordAt<'_>) -> T) -> T {
    let name = format!("key-{number}");
    let key: KeyRef<'_> = BucketRef::untyped(b"bucket").key(name.as_bytes());
    let mut encoded = Vec::new();
    key.encode_into(&mut encoded);
    let hash = KeyHash::of(&encoded, key.bucket, PlacementRule::BucketAndKey);
    let ring_size = RingSize::new(8).expect("8 is a ring size");
    let partition = ring_size.partition(hash.placement);
    then(&RecordAt { key, encoded: &encoded, identity: hash.identity, partition })
}

fn value(number: usize, write: usize) -> Vec<u8> {
    format!("value {write} of key {number}").into_bytes()
}

fn put(engine: &BitcaskEngine, at: &RecordAt<'_>, value: &[u8]) -> Result<Applied, StoreError> {
    let mut change = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(value);
        Decision::Put(RecordMeta::default())
    };
    engine.update(at, BeforeImage::Skip, IoMode::Wait, &mut change)
}

/// The files of a store whose process was killed: sealed segments with key files, and an open segment.
fn template() -> &'static [(String, Vec<u8>)] {
    static FILES: OnceLock<Vec<(String, Vec<u8>)>> = OnceLock::new();
    FILES.get_or_init(|| {
        let disk = FaultyDisk::new(1);
        let execution = ManualExecution::default();
        let engine = open(disk.clone(), &execution).expect("an empty disk takes a store");
        for write in 0..WRITES_EACH {
            for number in 0..KEY_COUNT {
                with_record(number, |at| put(&engine, at, &value(number, write)))
                    .expect("the disk is sound");
                execution.step(SEAL_WORKER);
            }
        }
        engine.sync().expect("the disk is sound");
        let disk = disk.kill();
        let names = disk.list().expect("the disk is sound");
        let content = |name: String| disk.bytes(&name).map(|bytes| (name, bytes));
        names.into_iter().filter_map(content).collect()
    })
}

/// Every file with its sound content.
fn seeds() -> Vec<Vec<u8>> {
    let files = template().iter().enumerate();
    let numbered = |(index, (_, content)): (usize, &(String, Vec<u8>))| {
        let choice = u8::try_from(index).expect("the template has few files");
        [&[choice], content.as_slice()].concat()
    };
    files.map(numbered).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_has_files_of_every_kind_and_reads_back() {
        let disk = FaultyDisk::new(1);
        for (name, content) in template() {
            disk.put(name, content.clone());
        }
        for kind in [".log", ".keys", "STORE"] {
            assert!(template().iter().any(|(name, _)| name.ends_with(kind)), "no {kind} file");
        }
        let engine = open(disk, &ManualExecution::default()).unwrap();
        for number in 0..KEY_COUNT {
            let found = with_record(number, |at| engine.get(at, IoMode::Wait)).unwrap();
            let last = value(number, WRITES_EACH - 1);
            assert!(matches!(found, Fetch::Found(record) if record.value == last));
        }
    }
}
