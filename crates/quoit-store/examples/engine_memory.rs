//! Measures the memory of a process that only holds a store with many keys (default: a million keys of 67
//! bytes with values of 10 bytes).
//!
//! ```text
//! cargo run --profile dist -p quoit-store --example engine_memory -- [KEYS] [KEY_BYTES] [DIRECTORY]
//! ```
//!
//! Writes each key once through the whole Bitcask engine, into a temporary folder in DIRECTORY (default:
//! the system's), and prints the bytes for each key, as the kernel counts the process's memory and as the
//! index counts its own. A second process, which it starts, opens the store again and prints its figures.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::BucketRef;
use quoit_seam::{RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::engine::{
    BeforeImage, Decision, IoMode, Maintenance, PointAccess, RecordAt, RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

const BUCKET: BucketRef<'static> = BucketRef::untyped(b"test");
const VALUE: [u8; 10] = [b'v'; 10];
/// Minimum size of a key in bytes: it contains its number in decimal digits.
const KEY_BYTES_MIN: usize = 20;

fn open(directory: &Path) -> Result<BitcaskEngine, StoreError> {
    let disk = Arc::new(RealDisk::open(directory)?);
    let clock = Arc::new(SystemClock::default());
    let (engine, _) = BitcaskEngine::open(disk, clock, &Threads, BitcaskSettings::new(1))?;
    Ok(engine)
}

fn put(engine: &BitcaskEngine, key: &[u8]) -> Result<(), StoreError> {
    let key = BUCKET.key(key);
    let encoded = key.encoded();
    let hash = KeyHash::of(&encoded, BUCKET, PlacementRule::BucketAndKey);
    let at = RecordAt {
        key,
        encoded: &encoded,
        identity: hash.identity,
        partition: RingSize::DEFAULT.partition(hash.placement),
    };
    let meta = RecordMeta { digest: hash.identity.0, n_val_class: 3, ..RecordMeta::default() };
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(&VALUE);
        Decision::Put(meta)
    };
    engine.update(&at, BeforeImage::Read, IoMode::Wait, change).map(drop)
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * 4096
}

fn report(what: &str, engine: &BitcaskEngine) {
    let stats = engine.stats();
    let keys = stats.key_count.max(1) as f64;
    println!(
        "{what}: {} keys, {:.2} bytes a key resident, {:.2} counted by the index, {} MiB on disk",
        stats.key_count,
        resident_bytes() as f64 / keys,
        stats.index_bytes as f64 / keys,
        stats.disk_bytes >> 20
    );
}

fn fill(directory: &Path, key_count: u64, key_bytes: usize) -> Result<(), StoreError> {
    let engine = open(directory)?;
    println!("no keys: resident {} KiB", resident_bytes() >> 10);
    for number in 0..key_count {
        put(&engine, format!("{number:0key_bytes$}").as_bytes())?;
    }
    engine.sync()?;
    report("written", &engine);
    engine.close()
}

fn main() -> Result<(), StoreError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [reopen, directory] = &arguments[..]
        && reopen == "reopen"
    {
        let engine = open(directory.as_ref())?;
        report("opened again", &engine);
        return engine.close();
    }
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse().ok());
    let key_count = number(0).unwrap_or(1_000_000);
    let key_bytes = number(1).unwrap_or(67).max(KEY_BYTES_MIN as u64) as usize;
    let parent = arguments.get(2).map_or_else(std::env::temp_dir, Into::into);
    let directory = parent.join(format!("engine_memory.{}", std::process::id()));
    println!("keys of {key_bytes} bytes, values of {}", VALUE.len());
    let filled = fill(&directory, key_count, key_bytes);
    let opened = filled.is_ok().then(|| {
        let this = std::env::current_exe();
        this.and_then(|this| Command::new(this).arg("reopen").arg(&directory).status())
    });
    let removed = std::fs::remove_dir_all(&directory);
    println!("opening: {opened:?}, removing: {removed:?}");
    filled
}
