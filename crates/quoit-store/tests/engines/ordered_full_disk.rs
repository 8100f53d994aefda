//! The engines on ordered stores on a full disk: a small file system in memory, which is mounted only for a
//! child process of the test. On systems that don't allow that, the tests say so and are skipped.

use crate::support::ordered::open_ordered;
use crate::support::{check_sums, try_put, value};
use quoit_seam::{SystemClock, Threads};
use quoit_store::engine::{Engine, Maintenance, RecordMeta};
use quoit_store::error::StoreError;
use quoit_store::ordered::{LsmSettings, OrderedEngine, OrderedSettings};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Environment variables that tell a child process of this test its task and its directory.
const TASK_VARIABLE: &str = "QUOIT_TEST_FULL_DISK_TASK";
const DIRECTORY_VARIABLE: &str = "QUOIT_TEST_FULL_DISK_DIRECTORY";

/// Sizes of the file system, and of a file in it whose removal frees space.
const DISK_BYTES: u64 = 96 << 20;
const BALLAST_BYTES: usize = 48 << 20;

/// Number of writes that the disk can't hold.
const WRITE_COUNT_MAX: u64 = 4 * DISK_BYTES / BODY_BYTES as u64;

const BODY_BYTES: usize = 64 << 10;

/// Number of keys that are overwritten in turn. A tree replaces its pages, so overwrites fill the disk as
/// well.
const KEY_COUNT: u64 = 1_000;

/// Time that the engine may take to accept writes again after space was freed.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(engine: &str, directory: &Path, disk_free_bytes_min: u64) -> OrderedEngine {
    let clock = Arc::new(SystemClock::default());
    // Without a record cache, reads come from the files.
    let settings = OrderedSettings { record_cache_bytes: 0, ..OrderedSettings::new(7) };
    let of_trees = LsmSettings {
        write_buffer_bytes: 2 << 20,
        cache_bytes: 1 << 20,
        disk_free_bytes_min,
        ..Default::default()
    };
    open_ordered(engine, directory, clock, &Threads, settings, of_trees).unwrap().0
}

/// A body that contains its number and doesn't compress.
fn body_of(number: u64) -> Vec<u8> {
    let mut random = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut body = number.to_be_bytes().to_vec();
    body.extend((8..BODY_BYTES).map(|_| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random as u8
    }));
    body
}

fn key_of(number: u64) -> String {
    format!("key{}", number % KEY_COUNT)
}

fn write(engine: &dyn Engine, number: u64) -> Result<(), StoreError> {
    try_put(engine, &key_of(number), &body_of(number), RecordMeta::default())?;
    engine.sync()
}

/// Writes until the engine refuses. Returns the number of durable writes, and the error.
fn write_until_refused(engine: &dyn Engine) -> (u64, StoreError) {
    for number in 0..WRITE_COUNT_MAX {
        if let Err(error) = write(engine, number) {
            return (number, error);
        }
    }
    panic!("{WRITE_COUNT_MAX} writes fit on a disk of {DISK_BYTES} bytes");
}

/// Checks that each key has its last durable version or a newer one.
fn check_durable(engine: &dyn Engine, durable_count: u64) {
    for number in durable_count.saturating_sub(KEY_COUNT)..durable_count {
        let found = value(engine, &key_of(number)).expect("a durable record");
        let version = u64::from_be_bytes(*found.first_chunk().unwrap());
        assert!(version >= number && version % KEY_COUNT == number % KEY_COUNT, "{version}");
        assert_eq!(found, body_of(version));
    }
}

fn wait_until_writes_go(engine: &dyn Engine, number: u64) {
    let began = Instant::now();
    while let Err(error) = write(engine, number) {
        assert!(began.elapsed() < PATIENCE, "still refused with room on the disk: {error}");
        std::thread::yield_now();
    }
}

/// With an early warning of the full disk, the engine refuses writes, continues to serve reads, and accepts
/// writes again after space was freed.
fn refuses_and_goes_on(engine: &str, directory: &Path, ballast: &Path) {
    let data = directory.join("data");
    let opened = open(engine, &data, 24 << 20);
    let (durable_count, error) = write_until_refused(&opened);
    assert!(matches!(error, StoreError::DiskFull { .. }), "{error}");
    assert!(opened.stats().disk_full);
    check_durable(&opened, durable_count);
    std::fs::remove_file(ballast).unwrap();
    wait_until_writes_go(&opened, durable_count);
    assert!(!opened.stats().disk_full);
    opened.close().unwrap();
    drop(opened);
    let opened = open(engine, &data, 0);
    check_durable(&opened, durable_count + 1);
    check_sums(&opened);
    opened.close().unwrap();
}

/// An engine that hits the full disk during its background work continues after space was freed.
fn goes_on_after_the_midst(engine: &str, directory: &Path, ballast: &Path) {
    let data = directory.join("data");
    let opened = open(engine, &data, 0);
    let (mut durable_count, error) = write_until_refused(&opened);
    println!("{durable_count} writes, then: {error}");
    let began = Instant::now();
    while !opened.stats().disk_full {
        assert!(began.elapsed() < PATIENCE, "not told to be full: {error}");
        match write(&opened, durable_count) {
            // The refusal was because the store was behind with its work, not because of the full disk.
            Ok(()) => durable_count += 1,
            Err(error) => assert!(
                matches!(error, StoreError::DiskFull { .. } | StoreError::Overloaded),
                "{error}"
            ),
        }
    }
    check_durable(&opened, durable_count);
    std::fs::remove_file(ballast).unwrap();
    wait_until_writes_go(&opened, durable_count);
    assert!(!opened.stats().disk_full);
    check_durable(&opened, durable_count + 1);
    opened.close().unwrap();
    drop(opened);
    let opened = open(engine, &data, 0);
    check_durable(&opened, durable_count + 1);
    check_sums(&opened);
    opened.close().unwrap();
}

/// An engine that hits the full disk during its background work accepts no more writes. All durable records
/// can be read, also after it is opened again.
fn keeps_what_was_durable(engine: &str, directory: &Path, ballast: &Path) {
    let data = directory.join("data");
    let opened = open(engine, &data, 0);
    let (durable_count, error) = write_until_refused(&opened);
    println!("{durable_count} writes, then: {error}");
    assert!(write(&opened, durable_count).is_err(), "a write after {error}");
    check_durable(&opened, durable_count);
    drop(opened);
    std::fs::remove_file(ballast).unwrap();
    let opened = open(engine, &data, 0);
    check_durable(&opened, durable_count);
    check_sums(&opened);
    write(&opened, durable_count).unwrap();
    opened.close().unwrap();
}

/// The child process on the small disk. Does nothing when it runs as an ordinary test.
#[test]
fn on_a_small_disk() {
    let Ok(task) = std::env::var(TASK_VARIABLE) else { return };
    let directory = PathBuf::from(std::env::var(DIRECTORY_VARIABLE).unwrap());
    let ballast = directory.join("ballast");
    std::fs::write(&ballast, vec![1; BALLAST_BYTES]).unwrap();
    match task.split_once(' ').unwrap() {
        ("refuses", engine) => refuses_and_goes_on(engine, &directory, &ballast),
        ("midst", engine) => goes_on_after_the_midst(engine, &directory, &ballast),
        (_, engine) => keeps_what_was_durable(engine, &directory, &ballast),
    }
    println!("task done");
}

/// A command that runs the program with its own small disk mounted at the directory.
fn on_disk_of_its_own(directory: &Path, program: &Path) -> Command {
    let script = format!("mount -t tmpfs -o size={DISK_BYTES} tmpfs \"$0\" && exec \"$@\"");
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "sh", "-c", &script]);
    command.arg(directory).arg(program);
    command
}

fn run(task: &str) {
    let directory = tempfile::tempdir().unwrap();
    let refused = match on_disk_of_its_own(directory.path(), Path::new("true")).output() {
        Ok(tried) if tried.status.success() => None,
        Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).trim().to_owned()),
        Err(error) => Some(error.to_string()),
    };
    if let Some(reason) = refused {
        // Directly to standard error, because the output of passing tests is captured.
        let told = writeln!(
            std::io::stderr(),
            "skipped: this machine lets nobody mount a file system of their own ({reason}), so \
             what \"{task}\" says was not tested on a full disk"
        );
        return told.unwrap();
    }
    let done = on_disk_of_its_own(directory.path(), &std::env::current_exe().unwrap())
        .args(["--exact", "ordered_full_disk::on_a_small_disk", "--nocapture"])
        .env(TASK_VARIABLE, task)
        .env(DIRECTORY_VARIABLE, directory.path())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&done.stdout);
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success() && said.contains("task done"), "{said}\n{errors}");
}

#[test]
fn leveldb_refuses_writes_while_the_disk_is_full_and_goes_on() {
    run("refuses leveldb");
}

#[test]
fn leveled_refuses_writes_while_the_disk_is_full_and_goes_on() {
    run("refuses leveled");
}

#[test]
fn innostore_refuses_writes_while_the_disk_is_full_and_goes_on() {
    run("refuses innostore");
}

#[test]
fn innostore_keeps_what_was_durable_when_the_disk_is_full_in_the_midst() {
    run("keeps innostore");
}

#[test]
fn leveldb_keeps_what_was_durable_when_the_disk_is_full_in_the_midst() {
    run("keeps leveldb");
}

#[test]
fn leveled_keeps_what_was_durable_when_the_disk_is_full_in_the_midst() {
    run("keeps leveled");
}

#[test]
fn leveldb_goes_on_when_there_is_room_after_the_disk_was_full_in_the_midst() {
    run("midst leveldb");
}

#[test]
fn leveled_goes_on_when_there_is_room_after_the_disk_was_full_in_the_midst() {
    run("midst leveled");
}
