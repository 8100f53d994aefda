//! Whole runs on the storage engines of this process.

use std::fs;
use std::path::Path;

use crate::support::{Run, run, try_run};

fn config(driver: &str, operations: &str, rest: &str) -> String {
    format!(
        "{{mode, max}}. {{concurrent, 4}}. {{driver, {driver}}}.
         {{key_generator, {{partitioned_sequential_int, 400}}}}.
         {{value_generator, {{fixed_bin, 1000}}}}. {{operations, [{operations}]}}. {rest}"
    )
}

fn counts(run: &Run) -> (u64, u64) {
    (run.report.total.success_count(), run.report.total.error_count())
}

/// Total size of the files of a store, in bytes.
fn size_bytes(store: &Path) -> u64 {
    fs::read_dir(store).unwrap().map(|entry| entry.unwrap().metadata().unwrap().len()).sum()
}

#[test]
fn the_memory_engine_takes_gets_puts_and_deletes() {
    let mix = "{get, 1}, {put, 1}, {delete, 1}";
    assert_eq!(counts(&run(&config("memory", mix, ""))), (400, 0));
}

#[test]
fn tables_of_erlang_run_on_the_memory_engine_with_a_notice() {
    for (driver, notice) in [("ets", "one for all workers"), ("dets", "no file is written")] {
        let run = run(&config(&format!("basho_bench_driver_{driver}"), "{put, 1}", ""));
        assert_eq!(counts(&run), (400, 0));
        assert!(run.shown.contains(notice), "{}", run.shown);
    }
}

#[test]
fn a_bitcask_store_is_made_in_the_run_directory_and_holds_what_was_put() {
    let run = run(&config("bitcask", "{put, 1}", ""));
    assert_eq!(counts(&run), (400, 0));
    let store = run.report.directory.join("test.bitcask");
    assert!((400_000..600_000).contains(&size_bytes(&store)), "{}", size_bytes(&store));
}

#[test]
fn a_bitcask_store_is_found_again_and_merges_what_was_overwritten() {
    let directory = tempfile::tempdir().unwrap();
    let rest = format!(
        "{{bitcask_dir, {:?}}}. {{bitcask_flags, [{{max_file_size, 100000}}]}}.",
        directory.path().display().to_string()
    );
    for _ in 0..3 {
        assert_eq!(counts(&run(&config("bitcask", "{put, 1}", &rest))), (400, 0));
    }
    let store = directory.path().join("test.bitcask");
    let before = size_bytes(&store);
    // Each get draws a key, so the generator ends the run.
    let merging = run(&config("bitcask", "{get, 1}, {merge, 1}", &rest));
    assert_eq!(counts(&merging).1, 0);
    assert!(merging.sum("merge_latencies.csv", 2) > 0);
    let after = size_bytes(&store);
    assert!(after < before / 2, "{before} bytes, {after} after merging");
    assert_eq!(counts(&run(&config("bitcask", "{get, 3}, {delete, 1}", &rest))), (400, 0));
}

#[test]
fn synced_puts_are_synced() {
    let rest = "{bitcask_flags, [o_sync, {expiry_secs, 60}, {merge_window, always}]}.
                {bitcask_sync_interval, 1}.";
    let run = run(&config("bitcask", "{put, 1}, {delete, 1}", rest));
    assert_eq!(counts(&run), (400, 0));
    assert!(run.shown.contains("notice: bitcask_flags: merge_window has no effect"));
}

#[test]
fn settings_and_operations_that_cannot_be_are_refused() {
    for (driver, operation, rest, expected) in [
        ("bitcask", "fold", "", "it has get, put, delete, merge"),
        ("memory", "merge", "", "it has get, put, delete"),
        ("bitcask", "put", "{bitcask_flags, [{max_file_size, big}]}.", "max_file_size, Bytes"),
        ("memory", "put", "{value_generator, {uniform_int, 5}}.", "stores bytes"),
    ] {
        let config = config(driver, &format!("{{{operation}, 1}}"), rest);
        let error = try_run(&config, |_| {}).err().expect(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_store_that_cannot_be_opened_fails_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let rest = format!("{{bitcask_dir, {:?}}}.", file.path().display().to_string());
    let error = try_run(&config("bitcask", "{put, 1}", &rest), |_| {}).err().unwrap().to_string();
    assert!(error.contains("cannot open the store"), "{error}");
    assert!(error.contains("test.bitcask"), "{error}");
}
