//! Cost of reading a head, compared with reading the whole record. It calls the engines directly, in this
//! process.

use super::usage::{IoBytes, forget_cached};
use super::{EngineName, EngineOptions, interrupt};
use anyhow::{Context, Result, ensure};
use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, EncodedKey};
use quoit_seam::{Disk, RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::engine::{
    BeforeImage, Decision, Engine, Fetch, IoMode, RecordAt, RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings, TreeSettings};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

const BUCKET: BucketRef<'static> = BucketRef::untyped(b"bucket");

const BODY_BYTES: usize = 8000;

/// Records of the uncached pass: more than any engine can cache.
const COLD_COUNT: u64 = 100_000;

/// Records of the cached passes: their bodies fit into each engine's cache.
const CACHED_COUNT: u64 = 10_000;

/// Interleaved rounds of the cached passes; medians are printed.
const ROUNDS: usize = 7;

/// Small enough that heads are read from tables and not from the memtable.
const WRITE_BUFFER_BYTES: u64 = 2 << 20;

/// Time limit for an engine to catch up with its background work, and the pause between two attempts.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(10);

/// Cost of an operation.
struct OperationCost {
    us: f64,
    /// Processor time of the calling thread.
    cpu_us: f64,
    moved: IoBytes,
}

/// Measures heads and whole records for each engine.
pub(super) fn run(options: &EngineOptions, engines: &[EngineName]) -> Result<String> {
    let mut text = String::from(
        "| engine | cold head: us, bytes read, share of the body | cold get: us, bytes read \
         | cached head, CPU us | cached get, CPU us | head / get |\n|---|---|---|---|---|---|\n",
    );
    for engine in engines {
        interrupt::check()?;
        let row = measure(options, *engine).with_context(|| engine.name())?;
        println!("heads: {row}");
        text.push_str(&format!("| {row} |\n"));
    }
    Ok(text)
}

fn measure(options: &EngineOptions, engine: EngineName) -> Result<String> {
    let directory = tempfile::Builder::new().prefix("quoit-heads-").tempdir_in(&options.dir)?;
    let count = options.scaled(COLD_COUNT);
    let path = directory.path();
    let mut opened = open(engine, path)?;
    fill(&*opened, count)?;
    // The memory engine is always cached.
    if engine != EngineName::Memory {
        opened = again(opened, engine, path)?;
    }
    let cold_heads = pass(&*opened, count, head)?;
    if engine != EngineName::Memory {
        opened = again(opened, engine, path)?;
    }
    let cold_gets = pass(&*opened, count, get)?;
    let cached = CACHED_COUNT.min(count);
    let (mut heads, mut gets) = (Vec::new(), Vec::new());
    pass(&*opened, cached, get)?;
    for _ in 0..ROUNDS {
        heads.push(pass(&*opened, cached, head)?.cpu_us);
        gets.push(pass(&*opened, cached, get)?.cpu_us);
    }
    close(&*opened)?;
    let (head_us, get_us) = (crate::report::median(heads), crate::report::median(gets));
    let read = cold_heads.moved.read_bytes as f64 / count as f64;
    Ok(format!(
        "{} | {:.1}, {read:.0}, {:.1} % | {:.1}, {:.0} | {head_us:.2} | {get_us:.2} | {:.2}",
        engine.name(),
        cold_heads.us,
        read / BODY_BYTES as f64 * 100.0,
        cold_gets.us,
        cold_gets.moved.read_bytes as f64 / count as f64,
        head_us / get_us
    ))
}

fn open(engine: EngineName, path: &Path) -> Result<Box<dyn Engine>> {
    let clock = Arc::new(SystemClock::default());
    // The record cache is off, because this benchmark measures the stores below it.
    let settings = OrderedSettings { record_cache_bytes: 0, ..OrderedSettings::new(7) };
    let of_trees = LsmSettings { write_buffer_bytes: WRITE_BUFFER_BYTES, ..LsmSettings::default() };
    Ok(match engine {
        EngineName::Bitcask => {
            let disk = Arc::new(RealDisk::open(path)?);
            let settings = BitcaskSettings::new(7);
            Box::new(BitcaskEngine::open(disk, clock, &Threads, settings)?.0)
        }
        EngineName::Leveled => {
            Box::new(OrderedEngine::open_leveled(path, clock, &Threads, settings, of_trees)?.0)
        }
        EngineName::Leveldb => {
            Box::new(OrderedEngine::open_leveldb(path, clock, &Threads, settings, of_trees)?.0)
        }
        EngineName::Innostore => {
            let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(path)?);
            let of_tree = TreeSettings::default();
            Box::new(OrderedEngine::open_innostore(&disk, clock, &Threads, settings, of_tree)?.0)
        }
        EngineName::Memory => {
            Box::new(MemoryEngine::new(MemorySettings::default(), RingSize::DEFAULT, clock))
        }
    })
}

/// Closes an engine, drops its files from the page cache, and opens it again.
fn again(opened: Box<dyn Engine>, engine: EngineName, path: &Path) -> Result<Box<dyn Engine>> {
    close(&*opened)?;
    drop(opened);
    // The kernel can't drop dirty pages.
    rustix::fs::sync();
    forget_cached(path);
    open(engine, path)
}

fn close(engine: &dyn Engine) -> Result<()> {
    engine.close().context("closing the engine")
}

/// The numbers of all `count` records, in an order that differs from those in which engines store them.
fn scrambled(count: u64) -> impl Iterator<Item = u64> {
    // Multiples of a number that is coprime to the count reach every record.
    const STEP: u64 = 1_000_003;
    (0..count).map(move |place| place.wrapping_mul(STEP) % count)
}

/// Runs an operation on each of the first `count` records, in a scrambled order. Returns the mean cost.
fn pass(
    engine: &dyn Engine,
    count: u64,
    run: impl Fn(&dyn Engine, &RecordAt<'_>) -> Result<()>,
) -> Result<OperationCost> {
    // The names are made beforehand, because making them is not part of the engine's cost.
    let names: Vec<Name> = scrambled(count).map(Name::of_number).collect();
    let (before, began, cpu_before) = (IoBytes::of(None)?, Instant::now(), own_cpu());
    for name in &names {
        run(engine, &name.at())?;
    }
    let each = |taken: Duration| taken.as_secs_f64() * 1e6 / count as f64;
    let (us, cpu_us) = (each(began.elapsed()), each(own_cpu().saturating_sub(cpu_before)));
    Ok(OperationCost { us, cpu_us, moved: IoBytes::of(None)?.since(before) })
}

/// Processor time of this thread so far.
fn own_cpu() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let nanos = u32::try_from(time.tv_nsec).expect("a part of a second");
    Duration::new(time.tv_sec.unsigned_abs(), nanos)
}

fn head(engine: &dyn Engine, at: &RecordAt<'_>) -> Result<()> {
    ensure!(engine.head(at)?.is_some(), "a record is missing");
    Ok(())
}

fn get(engine: &dyn Engine, at: &RecordAt<'_>) -> Result<()> {
    match engine.get(at, IoMode::Wait)? {
        Fetch::Found(record) => ensure!(record.value.len() == BODY_BYTES, "a body is cut off"),
        other => anyhow::bail!("a record was {other:?}"),
    }
    Ok(())
}

fn fill(engine: &dyn Engine, count: u64) -> Result<()> {
    let mut random = 0x9E37_79B9_7F4A_7C15_u64;
    let mut body = vec![0; BODY_BYTES];
    for number in 0..count {
        for byte in &mut body {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            *byte = quoit_number::low_u8(random);
        }
        let name = Name::of_number(number);
        let change = &mut |_: Option<&RecordRef<'_>>, value: &mut Vec<u8>| {
            value.extend_from_slice(&body);
            Decision::Put(RecordMeta { n_val_class: 1, digest: number, ..RecordMeta::default() })
        };
        retry_while_overloaded(|| {
            engine.update(&name.at(), BeforeImage::Skip, IoMode::Wait, change)
        })?;
        if number % 10_000 == 0 {
            interrupt::check()?;
        }
    }
    retry_while_overloaded(|| engine.sync()).context("syncing")
}

/// Repeats an operation while the engine is overloaded by its background work. Compactions catch up,
/// because nothing else writes.
fn retry_while_overloaded<T>(mut run: impl FnMut() -> Result<T, StoreError>) -> Result<T> {
    let began = Instant::now();
    loop {
        match run() {
            Err(StoreError::Overloaded) if began.elapsed() < PATIENCE => {
                interrupt::check()?;
                std::thread::sleep(PAUSE);
            }
            done => return done.context("writing"),
        }
    }
}

/// A record's name with its encoding and hash.
struct Name {
    key: Vec<u8>,
    encoded: EncodedKey,
    hash: KeyHash,
}

impl Name {
    fn of_number(number: u64) -> Self {
        let key = format!("key{number:012}").into_bytes();
        let encoded = BUCKET.key(&key).encoded();
        let hash = KeyHash::of(&encoded, BUCKET, PlacementRule::BucketAndKey);
        Self { key, encoded, hash }
    }

    fn at(&self) -> RecordAt<'_> {
        let partition = RingSize::DEFAULT.partition(self.hash.placement);
        let identity = self.hash.identity;
        RecordAt { key: BUCKET.key(&self.key), encoded: &self.encoded, identity, partition }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_record_is_visited_once() {
        let mut numbers: Vec<u64> = scrambled(1000).collect();
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..1000));
    }
}
