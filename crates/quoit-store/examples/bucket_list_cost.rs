//! Overwrites records of live keys, to count what the list of buckets costs each write.
//!
//! ```text
//! cargo build --profile dist -p quoit-store --example bucket_list_cost
//! valgrind --tool=callgrind --toggle-collect='*overwrite_all*' \
//!     target/dist/examples/bucket_list_cost ENGINE lasting|expiring [KEYS] [ROUNDS]
//! ```
//!
//! ENGINE is `bitcask`, `leveldb` or `memory`. Writes KEYS records in one bucket (default: 8), lists the
//! buckets, and then overwrites the records ROUNDS times (default: 1000); the overwrites are counted.
//! Expiring records expire in a day. `callgrind_annotate --inclusive=yes` prints the instructions of
//! `overwrite_all`, and those of `BucketList::note` among them.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::BucketRef;
use quoit_seam::{Clock, RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::engine::{BeforeImage, Decision, Engine, IoMode, RecordAt, RecordMeta, RecordRef};
use quoit_store::error::StoreError;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings};
use std::path::Path;
use std::sync::Arc;

const BUCKET: BucketRef<'static> = BucketRef::untyped(b"test");
const VALUE: [u8; 100] = [b'v'; 100];
const DAY_SECS: u64 = 86_400;

fn open(
    engine: &str,
    directory: &Path,
    clock: Arc<dyn Clock>,
) -> Result<Box<dyn Engine>, StoreError> {
    Ok(match engine {
        "bitcask" => {
            let disk = Arc::new(RealDisk::open(directory)?);
            Box::new(BitcaskEngine::open(disk, clock, &Threads, BitcaskSettings::new(1))?.0)
        }
        "leveldb" => {
            let (settings, of_trees) = (OrderedSettings::new(1), LsmSettings::default());
            Box::new(OrderedEngine::open_leveldb(directory, clock, &Threads, settings, of_trees)?.0)
        }
        "memory" => {
            Box::new(MemoryEngine::new(MemorySettings::default(), RingSize::DEFAULT, clock))
        }
        _ => panic!("ENGINE is bitcask, leveldb or memory, not {engine}"),
    })
}

fn put(engine: &dyn Engine, key: &[u8], expires_at_secs: u32) -> Result<(), StoreError> {
    let key = BUCKET.key(key);
    let encoded = key.encoded();
    let hash = KeyHash::of(&encoded, BUCKET, PlacementRule::BucketAndKey);
    let at = RecordAt {
        key,
        encoded: &encoded,
        identity: hash.identity,
        partition: RingSize::DEFAULT.partition(hash.placement),
    };
    let meta = RecordMeta { n_val_class: 3, expires_at_secs, ..RecordMeta::default() };
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(&VALUE);
        Decision::Put(meta)
    };
    engine.update(&at, BeforeImage::Read, IoMode::Wait, change).map(drop)
}

#[inline(never)]
fn overwrite_all(
    engine: &dyn Engine,
    keys: &[String],
    rounds: u64,
    expires_at_secs: u32,
) -> Result<(), StoreError> {
    for _ in 0..rounds {
        for key in keys {
            put(engine, key.as_bytes(), expires_at_secs)?;
        }
    }
    Ok(())
}

fn main() -> Result<(), StoreError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [engine, kind, ..] = &arguments[..] else {
        panic!("usage: bucket_list_cost ENGINE lasting|expiring [KEYS] [ROUNDS]");
    };
    let number = |place: usize| arguments.get(place).and_then(|text| text.parse().ok());
    let (key_count, rounds) = (number(2).unwrap_or(8), number(3).unwrap_or(1_000));
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let tomorrow = u32::try_from(clock.unix_secs() + DAY_SECS).unwrap_or(u32::MAX);
    let expires_at_secs = if kind == "expiring" { tomorrow } else { 0 };
    let directory = std::env::temp_dir().join(format!("bucket_list_cost.{}", std::process::id()));
    let engine = open(engine, &directory, clock)?;
    let keys: Vec<String> = (0..key_count).map(|number| format!("key{number:06}")).collect();
    overwrite_all(&*engine, &keys, 1, expires_at_secs)?;
    let listed = engine.list_buckets(b"default", None, 10)?;
    assert!(listed.len() == 1, "one bucket was written, and {listed:?} are listed");
    overwrite_all(&*engine, &keys, rounds, expires_at_secs)?;
    println!("{} overwrites, and {} before the listing", rounds * key_count, key_count);
    engine.close()?;
    drop(engine);
    let removed = std::fs::remove_dir_all(&directory);
    println!("removing {}: {removed:?}", directory.display());
    Ok(())
}
