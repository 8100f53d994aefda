//! Objects a second of MapReduce jobs on one node, and gets beside a job.
//!
//! ```text
//! cargo xtask bench mapreduce [OBJECTS] [VALUE_BYTES] [RUNS] [ENGINE]
//! ```
//!
//! One node in this process holds OBJECTS (one million) objects of VALUE_BYTES (1024) in ENGINE (`bitcask`,
//! `leveldb`, `leveled` or `innostore`, in the directory of temporary files, or `memory`). Each job runs RUNS
//! (5) times over the whole bucket:
//!
//! - `count`: `map_object_value`, then `reduce_count_inputs`;
//! - `script`: a map function in JavaScript that gives the length of the value, then `reduce_sum`;
//! - `stream`: `map_object_value` alone; its outputs are encoded as JSON, as they are sent, and dropped.
//!
//! Printed are medians with the least and the greatest: objects for each second of processor time of the
//! whole process, and of wall time; bytes of output; how much the memory of the process grew at most; and the
//! longest time of the processor for which the job kept a thread that serves requests, which other programs
//! of the machine do not change. Then gets of random keys, one each half millisecond, alone and beside
//! repeated `count` jobs, in turns: their 50th and 99th percentiles, and the ratios.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use bytes::Bytes;
use quoit_core::{
    Blocking, JobInputs, JobSettings, PutRequest, ReadOptions, ReplicatedStore, StoreSettings,
    VolatileCounters, WriteOptions,
};
use quoit_mapreduce::{BucketName, Job, Outputs, ScriptEngine, append_json};
use quoit_model::clock::Actor;
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::props::Quorum;
use quoit_script::{QuickJs, ScriptLimits};
use quoit_seam::{Clock, Disk, RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::engine::Engine;
use quoit_store::error::StoreError;
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings, TreeSettings};
use quoit_testkit::{TestNode, memory_engine};
use rustix::time::{ClockId, clock_gettime};
use std::error::Error;
use std::fs;
use std::future::poll_fn;
use std::path::Path;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::time::{MissedTickBehavior, interval};

const COUNT: &str = r#"[
    {"map": {"language": "erlang", "module": "riak_kv_mapreduce", "function": "map_object_value"}},
    {"reduce": {"language": "erlang", "module": "riak_kv_mapreduce", "function": "reduce_count_inputs"}}]"#;
const SCRIPT: &str = r#"[
    {"map": {"language": "javascript", "source": "function(o) { return [o.values[0].data.length]; }"}},
    {"reduce": {"language": "erlang", "module": "riak_kv_mapreduce", "function": "reduce_sum"}}]"#;
const STREAM: &str = r#"[
    {"map": {"language": "erlang", "module": "riak_kv_mapreduce", "function": "map_object_value"}}]"#;

/// Gets of one round.
const GET_COUNT: u64 = 6_000;
const GET_PERIOD: Duration = Duration::from_micros(500);
const GET_ROUNDS: usize = 3;

struct Figures {
    objects_per_cpu_sec: f64,
    objects_per_sec: f64,
    output_bytes: u64,
    output_bytes_per_sec: f64,
    grown_kib: u64,
    /// The longest processor time of one turn on a thread that serves requests.
    longest_turn: Duration,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |place: usize, default: u64| {
        arguments.get(place).map_or(Ok(default), |text| text.parse::<u64>())
    };
    let (object_count, value_bytes, run_count) =
        (number(0, 1_000_000)?, number(1, 1024)?, number(2, 5)?);
    let engine = arguments.get(3).map_or("bitcask", String::as_str);
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    let directory = tempfile::tempdir()?;
    runtime.block_on(async {
        let store = open(engine, directory.path())?;
        let value = Bytes::from(vec![b'v'; usize::try_from(value_bytes)?]);
        for number in 0..object_count {
            let key = number.to_string();
            let key = BucketRef::untyped(b"test").key(key.as_bytes());
            let options = WriteOptions { dw: Some(Quorum::Count(0)), ..WriteOptions::default() };
            store.put(PutRequest { options, ..PutRequest::of(key, value.clone()) }).await?;
        }
        println!(
            "{object_count} objects of {value_bytes} bytes, engine {engine}, {run_count} runs"
        );
        for (name, query) in [("count", COUNT), ("script", SCRIPT), ("stream", STREAM)] {
            let mut runs = Vec::new();
            for _ in 0..run_count {
                runs.push(run(&store, query, object_count).await?);
            }
            show(name, &runs);
        }
        gets_beside_a_job(&store, object_count).await
    })
}

fn show(name: &str, runs: &[Figures]) {
    let print = |what: &str, of: fn(&Figures) -> f64| {
        let mut figures: Vec<f64> = runs.iter().map(of).collect();
        figures.sort_by(f64::total_cmp);
        let [least, .., greatest] = figures[..] else { return };
        let median = figures[figures.len() / 2];
        println!("{name:>7}: {median:>12.0} {what} ({least:.0} to {greatest:.0})");
    };
    print("objects / s of processor time", |run| run.objects_per_cpu_sec);
    print("objects / s", |run| run.objects_per_sec);
    print("bytes of output", |run| run.output_bytes as f64);
    print("bytes of output / s", |run| run.output_bytes_per_sec);
    print("KiB that memory grew at most", |run| run.grown_kib as f64);
    print("us of the longest turn", |run| run.longest_turn.as_secs_f64() * 1e6);
}

/// Runs a job over the whole bucket.
async fn run(
    store: &Arc<ReplicatedStore>,
    query: &str,
    object_count: u64,
) -> Result<Figures, Box<dyn Error>> {
    let document = format!(r#"{{"inputs": "test", "timeout": 3600000, "query": {query}}}"#);
    let job = Job::from_json(document.as_bytes())?;
    let engine: Arc<dyn ScriptEngine> = Arc::new(QuickJs::new(ScriptLimits {
        job_time_max: Duration::from_secs(3_600),
        ..ScriptLimits::default()
    }));
    store.listings().run_scripts_with(Arc::clone(&engine));
    let settings = JobSettings { held_bytes_max: 64 << 20, scripts: Some(engine) };
    let bucket_type = Bytes::from_static(b"default");
    let bucket = BucketName { bucket_type, bucket: Bytes::from_static(b"test") };
    // The peak is counted from here on.
    fs::write("/proc/self/clear_refs", "5")?;
    let resident_kib = memory_kib("VmRSS:")?;
    let (begun, cpu_begun) = (Instant::now(), cpu_secs());
    let mut job_run = store.jobs().begin(&job, JobInputs::Bucket(bucket, None), &settings).await?;
    let (mut output_bytes, mut json) = (0, Vec::new());
    let mut longest_turn = Duration::ZERO;
    while let Some(more) = turns(job_run.next(), &mut longest_turn).await? {
        for datum in more.iter().flat_map(|Outputs { data, .. }| data) {
            json.clear();
            append_json(&mut json, datum)?;
            output_bytes += json.len() as u64 + 1;
        }
    }
    let read_count = job_run.progress().read_count();
    assert_eq!(read_count, object_count, "every object is read once");
    let (secs, cpu_secs) = (begun.elapsed().as_secs_f64(), cpu_secs() - cpu_begun);
    Ok(Figures {
        objects_per_cpu_sec: object_count as f64 / cpu_secs,
        objects_per_sec: object_count as f64 / secs,
        output_bytes,
        output_bytes_per_sec: output_bytes as f64 / secs,
        grown_kib: memory_kib("VmHWM:")?.saturating_sub(resident_kib),
        longest_turn,
    })
}

/// Runs a future, and notes the longest processor time of one of its turns.
async fn turns<F: Future>(future: F, longest: &mut Duration) -> F::Output {
    let mut future = pin!(future);
    poll_fn(|context| {
        let begun = cpu_time(ClockId::ThreadCPUTime);
        let polled = future.as_mut().poll(context);
        *longest = (*longest).max(cpu_time(ClockId::ThreadCPUTime).saturating_sub(begun));
        polled
    })
    .await
}

/// Processor time of the whole process, in seconds.
fn cpu_secs() -> f64 {
    cpu_time(ClockId::ProcessCPUTime).as_secs_f64()
}

fn cpu_time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A figure of the memory of the process, in KiB.
fn memory_kib(name: &str) -> Result<u64, Box<dyn Error>> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix(name)).ok_or("no such figure")?;
    Ok(line.trim().trim_end_matches("kB").trim().parse()?)
}

/// Times gets alone and beside jobs.
async fn gets_beside_a_job(
    store: &Arc<ReplicatedStore>,
    object_count: u64,
) -> Result<(), Box<dyn Error>> {
    let (mut alone, mut beside) = (Vec::new(), Vec::new());
    for _ in 0..GET_ROUNDS {
        alone.extend(timed_gets(store, object_count).await?);
        let stops = Arc::new(AtomicBool::new(false));
        let (of_jobs, stops_jobs) = (Arc::clone(store), Arc::clone(&stops));
        let jobs = tokio::spawn(async move {
            while !stops_jobs.load(Ordering::Relaxed) {
                let done =
                    run(&of_jobs, COUNT, object_count).await.map_err(|fault| fault.to_string());
                done?;
            }
            Ok::<(), String>(())
        });
        beside.extend(timed_gets(store, object_count).await?);
        stops.store(true, Ordering::Relaxed);
        jobs.await??;
    }
    for percent in [50, 99] {
        let [alone, beside] = [&mut alone, &mut beside].map(|times| {
            times.sort_unstable();
            times[times.len() * percent / 100].as_secs_f64() * 1e6
        });
        println!(
            "   gets: {percent}th percentile {alone:.1} us alone, {beside:.1} us beside a job, ratio {:.2}",
            beside / alone
        );
    }
    Ok(())
}

async fn timed_gets(
    store: &Arc<ReplicatedStore>,
    object_count: u64,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut ticks = interval(GET_PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut times = Vec::new();
    let mut number = 1;
    for _ in 0..GET_COUNT {
        ticks.tick().await;
        // Steps of a large prime go through the keys in no order.
        number = (number + 7_919_993) % object_count;
        let key = number.to_string();
        let begun = Instant::now();
        let key = BucketRef::untyped(b"test").key(key.as_bytes());
        let found = store.get(key, &ReadOptions::default()).await?;
        times.push(begun.elapsed());
        assert!(found.is_some(), "it is there");
    }
    Ok(times)
}

fn open(engine: &str, directory: &Path) -> Result<Arc<ReplicatedStore>, Box<dyn Error>> {
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::default());
    let ring_size = RingSize::new(64).ok_or("a ring size")?;
    let engine: Arc<dyn Engine> = match engine {
        "memory" => memory_engine(ring_size, &clock),
        "bitcask" => {
            let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory)?);
            let settings = BitcaskSettings { ring_size, ..BitcaskSettings::new(1) };
            Arc::new(BitcaskEngine::open(disk, Arc::clone(&clock), &Threads, settings)?.0)
        }
        "leveldb" | "leveled" | "innostore" => ordered(engine, directory, &clock, ring_size)?,
        other => return Err(format!("no engine {other}").into()),
    };
    let settings = StoreSettings { blocking: Blocking::Pool, ..StoreSettings::default() };
    let described = TestNode { ring_size, settings, ..TestNode::new(1, "bench", clock) };
    let actor = Actor(b"actor-01"[..].into());
    Ok(described.with_engine(engine, actor, VolatileCounters).assemble()?.store)
}

fn ordered(
    engine: &str,
    directory: &Path,
    clock: &Arc<dyn Clock>,
    ring_size: RingSize,
) -> Result<Arc<dyn Engine>, StoreError> {
    let common = OrderedSettings { ring_size, ..OrderedSettings::new(1) };
    let (clock, trees) = (Arc::clone(clock), LsmSettings::default());
    let (opened, _) = match engine {
        "leveldb" => OrderedEngine::open_leveldb(directory, clock, &Threads, common, trees)?,
        "leveled" => OrderedEngine::open_leveled(directory, clock, &Threads, common, trees)?,
        _ => {
            let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(directory)?);
            let of_tree = TreeSettings::default();
            OrderedEngine::open_innostore(&disk, clock, &Threads, common, of_tree)?
        }
    };
    Ok(Arc::new(opened))
}
