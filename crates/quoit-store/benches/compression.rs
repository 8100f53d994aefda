//! Measures costs and savings of compression on each engine: processor time of a put and of a get, and
//! bytes on disk, with and without compression.
//!
//! `cargo bench -p quoit-store --bench compression -- [VALUES] [DIRECTORY]`
//!
//! Values have 8 KiB: half random bytes and half lines of a text, like those of the load generator's
//! `semi_compressible`. Each is put once, in order, and read twice, in another order, with cached files.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a measuring tool")]

use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::BucketRef;
use quoit_seam::{Clock, Disk, RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::compressed::{CompressedEngine, CompressionChoice};
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Engine, InPlaceRead, IoMode, Maintenance, RecordAt, RecordMeta,
    RecordRef,
};
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings, TreeSettings};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::Arc;

const BUCKET: BucketRef<'static> = BucketRef::untyped(b"test");
const RANDOM_BYTES: usize = 4096;
const LINE_BYTES: usize = 128;
const LINES: usize = 32;
const ENGINES: [&str; 4] = ["bitcask", "leveled", "leveldb", "innostore"];

struct Always(bool);

impl CompressionChoice for Always {
    fn compresses(&self, _: BucketRef<'_>) -> bool {
        self.0
    }
}

/// A generator of random numbers: xorshift64*.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }
}

/// Generates values that all differ.
struct Values {
    random: Random,
    lines: Vec<Vec<u8>>,
}

impl Values {
    fn new() -> Self {
        let mut random = Random(0x9E37_79B9_7F4A_7C15);
        let mut line = || (0..LINE_BYTES).map(|_| 32 + (random.next() >> 33) as u8 % 95).collect();
        let lines = (0..16).map(|_| line()).collect();
        Self { random, lines }
    }

    fn next(&mut self, value: &mut Vec<u8>) {
        value.clear();
        for _ in 0..RANDOM_BYTES / 8 {
            value.extend_from_slice(&self.random.next().to_le_bytes());
        }
        for number in 1..=LINES {
            let among = number.min(self.lines.len()) as u64;
            value.extend_from_slice(&self.lines[((self.random.next() >> 33) % among) as usize]);
        }
    }
}

fn open(engine: &str, directory: &Path) -> Arc<dyn Engine> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let ordered = OrderedSettings::new(1);
    let of_trees = LsmSettings::default();
    match engine {
        "bitcask" => {
            let disk = Arc::new(RealDisk::open(directory).unwrap());
            Arc::new(BitcaskEngine::open(disk, clock, &Threads, BitcaskSettings::new(1)).unwrap().0)
        }
        "leveled" => Arc::new(
            OrderedEngine::open_leveled(directory, clock, &Threads, ordered, of_trees).unwrap().0,
        ),
        "leveldb" => Arc::new(
            OrderedEngine::open_leveldb(directory, clock, &Threads, ordered, of_trees).unwrap().0,
        ),
        _ => {
            let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory).unwrap());
            let of_tree = TreeSettings::default();
            Arc::new(
                OrderedEngine::open_innostore(&disk, clock, &Threads, ordered, of_tree).unwrap().0,
            )
        }
    }
}

fn with_name<T>(number: u64, run: impl FnOnce(&RecordAt<'_>) -> T) -> T {
    let name = format!("{number:020}");
    let key = BUCKET.key(name.as_bytes());
    let encoded = key.encoded();
    let hash = KeyHash::of(&encoded, BUCKET, PlacementRule::BucketAndKey);
    let partition = RingSize::DEFAULT.partition(hash.placement);
    run(&RecordAt { key, encoded: &encoded, identity: hash.identity, partition })
}

/// Processor time of all threads, in microseconds.
fn cpu_us() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 * 1e6 + time.tv_nsec as f64 / 1e3
}

struct Cost {
    put_us: f64,
    get_us: f64,
    disk_bytes: u64,
}

fn put_all(engine: &dyn Engine, count: u64) {
    let mut values = Values::new();
    let mut value = Vec::new();
    for number in 0..count {
        values.next(&mut value);
        with_name(number, |at| {
            let meta = RecordMeta { digest: number, n_val_class: 3, ..RecordMeta::default() };
            let change = &mut |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
                out.extend_from_slice(&value);
                Decision::Put(meta)
            };
            let applied = engine.update(at, BeforeImage::Front, IoMode::Wait, change).unwrap();
            assert!(matches!(applied, Applied::Written(_)));
        });
    }
    engine.sync().unwrap();
}

fn get_all(engine: &dyn Engine, count: u64) {
    let mut random = Random(7);
    for _ in 0..2 * count {
        with_name(random.next() % count, |at| {
            let mut size_bytes = 0;
            let mut look = |record: &RecordRef<'_>| size_bytes = record.value.len();
            let shown = engine.show(at, IoMode::Wait, &mut look).unwrap();
            assert!(shown == InPlaceRead::Found && size_bytes == RANDOM_BYTES + LINES * LINE_BYTES);
        });
    }
}

fn measure(engine: &str, compresses: bool, count: u64, directory: &Path) -> Cost {
    let place = directory.join(format!("quoit-compression-{}", std::process::id()));
    std::fs::create_dir_all(&place).unwrap();
    // The time for generating values is subtracted from the time of the puts.
    let mut making_us = cpu_us();
    let mut values = Values::new();
    (0..count).for_each(|_| values.next(&mut Vec::new()));
    making_us = cpu_us() - making_us;
    let front = CompressedEngine::new(open(engine, &place), Arc::new(Always(compresses)));
    let began_us = cpu_us();
    put_all(&front, count);
    let put_us = (cpu_us() - began_us - making_us) / count as f64;
    let began_us = cpu_us();
    get_all(&front, count);
    let get_us = (cpu_us() - began_us) / (2 * count) as f64;
    front.close().unwrap();
    drop(front);
    let disk_bytes = size_of(&place);
    std::fs::remove_dir_all(&place).unwrap();
    Cost { put_us, get_us, disk_bytes }
}

/// Bytes that the files of a directory take on the disk.
fn size_of(directory: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    entries
        .map(|entry| {
            let about = entry.metadata().unwrap();
            if about.is_dir() { size_of(&entry.path()) } else { about.blocks() * 512 }
        })
        .sum()
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let count = arguments.next().map_or(20_000, |count| count.parse().unwrap());
    let directory = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    println!("{count} values of 8 KiB, half of each compressible; processor time of all threads");
    println!();
    println!("| engine | compression | us a put | us a get | bytes on disk a value | ratio |");
    println!("| --- | --- | --- | --- | --- | --- |");
    for engine in ENGINES {
        let without = measure(engine, false, count, &directory);
        let with = measure(engine, true, count, &directory);
        for (name, cost) in [("none", &without), ("lz4", &with)] {
            println!(
                "| `{engine}` | {name} | {:.1} | {:.1} | {:.0} | {:.2} |",
                cost.put_us,
                cost.get_us,
                cost.disk_bytes as f64 / count as f64,
                cost.disk_bytes as f64 / without.disk_bytes as f64,
            );
        }
    }
}
