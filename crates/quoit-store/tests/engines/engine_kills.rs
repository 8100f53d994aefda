//! Kills processes that run an engine while they write.

use crate::support::indexes::{check_indexes, query_all, try_put_indexed};
use crate::support::ordered::open_ordered;
use crate::support::{Name, check_sums, put, sync, value};
use quoit_seam::{RealDisk, SystemClock, Threads};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, MergeSettings};
use quoit_store::engine::{BatchWrite, Engine, RecordMeta};
use quoit_store::ordered::{LsmSettings, OrderedSettings};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Environment variables that tell a child process of this test which engine to run, and in which
/// directory.
const ENGINE_VARIABLE: &str = "QUOIT_TEST_KILLED_ENGINE";
const DIRECTORY_VARIABLE: &str = "QUOIT_TEST_KILLED_DIRECTORY";

/// Environment variable with the number of kills of each engine's process; 3 by default.
const COUNT_VARIABLE: &str = "QUOIT_TEST_KILL_COUNT";

/// Number of keys that the writer overwrites in turn.
const KEY_COUNT: u64 = 40;

/// An open engine, and its report on the last stop.
struct Opened {
    engine: Box<dyn Engine>,
    clean: bool,
    incarnation: u64,
}

/// Opens an engine with limits so small that it seals, flushes and merges within a test.
fn open(engine: &str, directory: &Path) -> Opened {
    match engine {
        "bitcask" => open_bitcask(directory),
        _ => open_tree(engine, directory),
    }
}

fn open_bitcask(directory: &Path) -> Opened {
    let merge = MergeSettings { check_interval_us: 50_000, ..MergeSettings::default() };
    let settings = BitcaskSettings {
        max_file_size_bytes: 64 << 10,
        snapshot_interval_bytes: 100_000,
        merge,
        ..BitcaskSettings::new(7)
    };
    let disk = Arc::new(RealDisk::open(directory).unwrap());
    let clock = Arc::new(SystemClock::default());
    let (engine, report) = BitcaskEngine::open(disk, clock, &Threads, settings).unwrap();
    assert!(report.damages.is_empty(), "damaged by a kill: {:?}", report.damages);
    let (clean, incarnation) = (report.clean, engine.identity().incarnation());
    Opened { engine: Box::new(engine), clean, incarnation }
}

fn open_tree(engine: &str, directory: &Path) -> Opened {
    let clock = Arc::new(SystemClock::default());
    let settings = OrderedSettings::new(7);
    let of_trees =
        LsmSettings { write_buffer_bytes: 256 << 10, cache_bytes: 1 << 20, ..Default::default() };
    let opened = open_ordered(engine, directory, clock, &Threads, settings, of_trees);
    let (engine, report) = opened.unwrap();
    assert_eq!(report.loss, None, "a kill loses nothing that was durable");
    Opened { engine: Box::new(engine), clean: report.clean, incarnation: report.incarnation }
}

/// Waits until the secondary indexes are available: `bitcask` rebuilds them after an unclean stop.
fn wait_for_indexes(engine: &dyn Engine) {
    let began = Instant::now();
    while query_all(engine).is_err() {
        assert!(began.elapsed() < Duration::from_secs(60), "no indexes after a minute");
        std::thread::yield_now();
    }
}

/// The child process: writes, and prints what is durable. Does nothing when it runs as an ordinary test.
#[test]
fn writer() {
    let Ok(engine) = std::env::var(ENGINE_VARIABLE) else { return };
    let directory = PathBuf::from(std::env::var(DIRECTORY_VARIABLE).unwrap());
    let Opened { engine, .. } = open(&engine, &directory);
    let engine = &*engine;
    wait_for_indexes(engine);
    let first = value(engine, "last").map_or(0, |last| number_of(&last) + 1);
    for number in first.. {
        put(engine, &format!("key{}", number % KEY_COUNT), &body_of(number));
        let (one, other) = (Name::new("one"), Name::new("other"));
        let (meta, body) = (RecordMeta::default(), body_of(number));
        let writes = [
            BatchWrite::Put { at: one.at(), meta, value: &body },
            BatchWrite::Put { at: other.at(), meta, value: &body },
        ];
        engine.batch(&writes).unwrap();
        try_put_indexed(engine, &format!("indexed{}", number % KEY_COUNT), number).unwrap();
        put(engine, "last", &number.to_be_bytes());
        if number % 3 == 0 {
            sync(engine);
            println!("durable {number}");
        }
    }
}

fn body_of(number: u64) -> Vec<u8> {
    let mut body = number.to_be_bytes().to_vec();
    body.resize(8 + (number % 7) as usize * 700, number as u8);
    body
}

fn number_of(body: &[u8]) -> u64 {
    u64::from_be_bytes(*body.first_chunk().unwrap())
}

/// Starts a writer, waits until it has reported durable writes `said_count + 1` times, and kills it.
/// Returns the last number that it reported as durable.
fn write_and_kill(engine: &str, directory: &Path, said_count: usize) -> u64 {
    let mut process = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "engine_kills::writer", "--nocapture"])
        .env(ENGINE_VARIABLE, engine)
        .env(DIRECTORY_VARIABLE, directory)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let lines = BufReader::new(process.stdout.take().unwrap()).lines();
    let mut durable = lines.filter_map(|line| line.ok()?.strip_prefix("durable ")?.parse().ok());
    let last: u64 = durable.nth(said_count).expect("the writer goes on");
    process.kill().unwrap();
    process.wait().unwrap();
    last
}

fn survives_kills(engine: &str) {
    let kill_count = std::env::var(COUNT_VARIABLE).map_or(3, |count| count.parse().unwrap());
    let directory = tempfile::tempdir().unwrap();
    for kill in 0..kill_count {
        let last = write_and_kill(engine, directory.path(), 5 + (kill % 4) as usize * 11);
        let Opened { engine, clean, incarnation } = open(engine, directory.path());
        let engine = &*engine;
        assert!(!clean && incarnation == kill + 2, "clean: {clean}, incarnation {incarnation}");
        let seen = number_of(&value(engine, "last").unwrap());
        assert!(seen >= last, "{last} was durable, and {seen} is there");
        for number in seen.saturating_sub(KEY_COUNT - 1)..=seen {
            let body = value(engine, &format!("key{}", number % KEY_COUNT)).unwrap();
            let found = number_of(&body);
            assert!(found == number || found == seen + 1, "{found} in the place of {number}");
            assert_eq!(body, body_of(found));
        }
        assert_eq!(value(engine, "one"), value(engine, "other"), "parts of a batch");
        wait_for_indexes(engine);
        assert!(query_all(engine).unwrap().len() as u64 >= 2 * seen.min(KEY_COUNT - 1));
        check_indexes(engine);
        check_sums(engine);
        engine.close().unwrap();
    }
}

#[test]
fn bitcask_survives_kills() {
    survives_kills("bitcask");
}

#[test]
fn leveldb_survives_kills() {
    survives_kills("leveldb");
}

#[test]
fn leveled_survives_kills() {
    survives_kills("leveled");
}

#[test]
fn innostore_survives_kills() {
    survives_kills("innostore");
}
