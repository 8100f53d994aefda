//! Measures the Bitcask engine's operations on one thread, in nanoseconds, with cached files.
//!
//! `cargo bench -p quoit-store --bench bitcask -- [KEYS] [VALUE_BYTES] [DIRECTORY]`
//!
//! With `--only-open KEYS VALUE_BYTES DIRECTORY` it opens the store of an earlier run, prints how long that
//! took, and closes it. Kill the earlier run to measure a start after a kill; repeat it to measure a start
//! after a clean stop.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring tool")]

use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, EncodedKey, KeyRef};
use quoit_seam::{RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, OpenReport};
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Fetch, IoMode, Maintenance, PointAccess, RecordAt, RecordMeta,
    RecordRef, Ticket,
};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

struct Name {
    key: [u8; 36],
    encoded: EncodedKey,
    hash: KeyHash,
}

fn key_ref(key: &[u8]) -> KeyRef<'_> {
    BucketRef::untyped(b"test").key(key)
}

impl Name {
    fn new(number: u64) -> Self {
        let mut key = [b'0'; 36];
        key[..20].copy_from_slice(format!("{number:020}").as_bytes());
        let encoded = key_ref(&key).encoded();
        let hash = KeyHash::of(&encoded, key_ref(&key).bucket, PlacementRule::BucketAndKey);
        Self { key, encoded, hash }
    }

    fn at(&self) -> RecordAt<'_> {
        RecordAt {
            key: key_ref(&self.key),
            encoded: &self.encoded,
            identity: self.hash.identity,
            partition: RingSize::DEFAULT.partition(self.hash.placement),
        }
    }
}

fn open(directory: &Path) -> (BitcaskEngine, OpenReport) {
    let disk = Arc::new(RealDisk::open(directory).unwrap());
    let clock = Arc::new(SystemClock::default());
    BitcaskEngine::open(disk, clock, &Threads, BitcaskSettings::new(1)).unwrap()
}

fn put(engine: &BitcaskEngine, name: &Name, before: BeforeImage, value: &[u8]) -> Ticket {
    let meta = RecordMeta { digest: 1, n_val_class: 3, ..RecordMeta::default() };
    let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(value);
        Decision::Put(meta)
    };
    match engine.update(&name.at(), before, IoMode::Wait, change).unwrap() {
        Applied::Written(ticket) => ticket,
        applied => panic!("{applied:?}"),
    }
}

/// CPU time of this thread in nanoseconds, which other load on the machine affects little.
fn cpu_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Times `operation` on each key, in a scattered order.
fn measure(what: &str, names: &[Name], mut operation: impl FnMut(&Name)) {
    let step = 7_919;
    let (started, started_cpu) = (Instant::now(), cpu_ns());
    let mut number = 1;
    for _ in 0..names.len() {
        number = (number + step) % names.len();
        operation(&names[number]);
    }
    let count = names.len() as u64;
    let (cpu, wall) = (cpu_ns() - started_cpu, started.elapsed().as_nanos() as u64);
    println!("{what:40} {:6} ns CPU, {:6} ns", cpu / count, wall / count);
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let keys = arguments.next().map_or(200_000, |number| number.parse().unwrap());
    let value_bytes = arguments.next().map_or(1_024, |number| number.parse().unwrap());
    let temporary = tempfile::tempdir().unwrap();
    let directory = arguments.next().map_or(temporary.path().to_path_buf(), Into::into);
    let value = vec![b'v'; value_bytes];
    let (engine, report) = open(&directory);
    if std::env::args().any(|argument| argument == "--only-open") {
        println!("{report:#?}");
        let started = Instant::now();
        engine.close().unwrap();
        println!("close: {:?}", started.elapsed());
        return;
    }
    let names: Vec<Name> = (0..keys).map(Name::new).collect();
    measure("put, new key", &names, |name| {
        put(&engine, name, BeforeImage::Read, &value);
    });
    measure("put, existing key, read before", &names, |name| {
        put(&engine, name, BeforeImage::Read, &value);
    });
    measure("put, existing key, not read before", &names, |name| {
        put(&engine, name, BeforeImage::Skip, &value);
    });
    measure("get", &names, |name| {
        let fetch = engine.get(&name.at(), IoMode::NoWait).unwrap();
        assert!(matches!(fetch, Fetch::Found(_)), "{fetch:?}");
    });
    measure("head", &names, |name| assert!(engine.head(&name.at()).unwrap().is_some()));
    let stats = engine.stats();
    println!("index: {:.2} bytes a key", stats.index_bytes as f64 / stats.key_count as f64);
    let started = Instant::now();
    engine.close().unwrap();
    drop(engine);
    println!("close: {:?}", started.elapsed());
    let (engine, report) = open(&directory);
    println!("open after close: {} us, {} keys", report.elapsed_us, report.key_count);
    drop(engine);
    let (_engine, report) = open(&directory);
    println!("open after a kill: {} us, {} keys", report.elapsed_us, report.key_count);
}
