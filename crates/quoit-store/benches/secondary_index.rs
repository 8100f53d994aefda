//! Measures a range query of a secondary index on each engine, with cached files.
//!
//! `cargo bench -p quoit-store --bench secondary_index -- [ENTRIES] [RESULTS] [ENGINE...]`
//!
//! Writes ENTRIES records (default: 10 000 000) with one entry each, in scattered order. Then it queries
//! ranges of RESULTS entries (default: 1000), and prints the times of the first page of 100 and of all
//! pages.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring tool")]

use bytes::Bytes;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::BucketRef;
use quoit_model::object::{IndexEntry, IndexTerm, Object, Sibling};
use quoit_model::secondary_index::IndexRange;
use quoit_seam::{Disk, RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Engine, IoMode, RecordAt, RecordMeta, RecordRef,
};
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings, TreeSettings};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const FIELD: &[u8] = b"number_int";
const BUCKET: BucketRef<'static> = BucketRef::untyped(b"test");

/// Number of queries that are timed.
const QUERY_COUNT: u64 = 200;

/// Number of results in a page.
const PAGE_COUNT: usize = 100;

fn open(engine: &str, directory: &Path) -> Box<dyn Engine> {
    let clock = Arc::new(SystemClock::default());
    let settings = OrderedSettings::new(1);
    let trees = LsmSettings::default();
    match engine {
        "memory" => {
            Box::new(MemoryEngine::new(MemorySettings::default(), RingSize::DEFAULT, clock))
        }
        "bitcask" => {
            let disk = Arc::new(RealDisk::open(directory).unwrap());
            let settings = BitcaskSettings::new(1);
            Box::new(BitcaskEngine::open(disk, clock, &Threads, settings).unwrap().0)
        }
        "innostore" => {
            let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory).unwrap());
            let opened = OrderedEngine::open_innostore(
                &disk,
                clock,
                &Threads,
                settings,
                TreeSettings::default(),
            );
            Box::new(opened.unwrap().0)
        }
        "leveldb" => Box::new(
            OrderedEngine::open_leveldb(directory, clock, &Threads, settings, trees).unwrap().0,
        ),
        "leveled" => Box::new(
            OrderedEngine::open_leveled(directory, clock, &Threads, settings, trees).unwrap().0,
        ),
        other => panic!("there is no engine {other}"),
    }
}

fn put(engine: &dyn Engine, number: u64) {
    let key = format!("{number:012}");
    let name = BUCKET.key(key.as_bytes());
    let encoded = name.encoded();
    let hash = KeyHash::of(&encoded, BUCKET, PlacementRule::BucketAndKey);
    let at = RecordAt {
        key: name,
        encoded: &encoded,
        identity: hash.identity,
        partition: RingSize::DEFAULT.partition(hash.placement),
    };
    let actor = Actor(number.to_be_bytes().to_vec().into());
    let dot = Dot { actor, counter: 1, time_secs: 0 };
    let mut sibling = Sibling { dot: Some(dot.clone()), ..Sibling::default() };
    let term = IndexTerm::integer(number.into());
    sibling.meta.indexes = vec![IndexEntry { field: Bytes::from_static(FIELD), term }];
    sibling.value = Bytes::from_static(&[b'v'; 100]);
    let object =
        Object { clock: VersionVector::from_entries(vec![dot]), siblings: [sibling].into() };
    let meta = RecordMeta {
        digest: object.digest(),
        n_val_class: 3,
        indexed: true,
        ..RecordMeta::default()
    };
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        object.encode_into(out);
        Decision::Put(meta)
    };
    loop {
        match engine.update(&at, BeforeImage::Read, IoMode::Wait, change) {
            Ok(Applied::Written(_)) => return,
            Ok(other) => panic!("a put was {other:?}"),
            // The store has fallen behind. Like a client, wait and try again.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// Times of the first page and of all pages.
fn query(engine: &dyn Engine, from: u64, result_count: u64) -> (Duration, Duration) {
    let min = IndexTerm::integer(from.into());
    let max = IndexTerm::integer((from + result_count - 1).into());
    let range = IndexRange { bucket: BUCKET, field: FIELD, min: &min, max: &max };
    let started = Instant::now();
    let (mut first, mut found, mut after) = (None, 0, None);
    loop {
        let page = engine.query_index(&range, &|_| true, after.as_ref(), PAGE_COUNT).unwrap();
        first.get_or_insert(started.elapsed());
        found += page.entries.len() as u64;
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    assert_eq!(found, result_count);
    (first.unwrap_or_default(), started.elapsed())
}

fn measure(name: &str, entry_count: u64, result_count: u64) {
    let directory = tempfile::tempdir().unwrap();
    let engine = open(name, directory.path());
    let started = Instant::now();
    // A prime that does not divide the count: each number comes once, in scattered order.
    (0..entry_count).for_each(|number| put(&*engine, number * 7_919_317 % entry_count));
    engine.sync().unwrap();
    let put_us = started.elapsed().as_micros() as f64 / entry_count as f64;
    let places = entry_count - result_count + 1;
    let mut times: Vec<_> = (0..QUERY_COUNT)
        .map(|number| query(&*engine, number * 1_000_003 % places, result_count))
        .collect();
    times.sort_unstable();
    let (first, _) = times[times.len() / 2];
    times.sort_unstable_by_key(|(_, whole)| *whole);
    let (_, whole) = times[times.len() / 2];
    let (_, longest) = times[times.len() - 1];
    println!(
        "{name:10} put {put_us:7.2} us; first page {first:9.2?}, {result_count} results {whole:9.2?}, \
         at most {longest:9.2?}"
    );
    engine.close().unwrap();
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let entry_count = arguments.next().map_or(10_000_000, |number| number.parse().unwrap());
    let result_count = arguments.next().map_or(1_000, |number| number.parse().unwrap());
    let mut engines: Vec<String> = arguments.collect();
    if engines.is_empty() {
        engines = ["bitcask", "leveldb", "leveled", "innostore", "memory"].map(Into::into).into();
    }
    engines.iter().for_each(|engine| measure(engine, entry_count, result_count));
}
