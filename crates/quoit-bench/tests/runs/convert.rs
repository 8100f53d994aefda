//! `quoit bench convert`: the converted TOML runs as basho_bench's file does.

use std::fs;

use quoit_bench::cli::{BenchOptions, ExitStatus, convert, run_on};
use quoit_bench::output::Terminal;

use crate::support;

const CONFIG: &str = "%% A load.\n{mode, max}. {concurrent, 2}. {driver, null}. {rng, as183}.\n\
    {key_generator, {int_to_bin_bigendian, {partitioned_sequential_int, 7, 1000}}}.\n\
    {value_generator_source_size, 1000}.\n\
    {operations, [{do_something, 3}, {\"with values\", do_something_else, 1}]}.\n";

#[test]
fn a_converted_configuration_runs_the_same() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("a.config"), CONFIG).unwrap();
    assert_eq!(convert(&path("a.config"), Some(&path("a.toml"))), ExitStatus::Success);
    assert!(fs::read_to_string(path("a.toml")).unwrap().starts_with("# A load.\nmode = \"max\"\n"));
    let shown = support::plan_of(&path("a.toml")).unwrap();
    assert!(shown.contains("[\"partitioned_sequential_int\", 7, 1000]]: binaries"), "{shown}");
    let counts = |name: &str| -> Vec<String> {
        let options = BenchOptions {
            config_paths: vec![path(name)],
            results_dir: Some(path("results")),
            name: Some(name.to_owned()),
            ..BenchOptions::default()
        };
        let mut terminal = Terminal::to(Box::new(std::io::sink()), false);
        let report = run_on(&options, &mut terminal).unwrap();
        assert!(report.directory.join(name).exists(), "the configuration is kept");
        let operations = report.operations.iter().zip(report.total.operations());
        operations
            .map(|(one, stats)| format!("{} {}", one.name(), stats.latencies().count))
            .collect()
    };
    assert_eq!(counts("a.toml"), counts("a.config"));
}

#[test]
fn nothing_is_written_over_and_what_is_no_configuration_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    fs::write(path("a.config"), CONFIG).unwrap();
    fs::write(path("mine.toml"), "mode = 'max'").unwrap();
    fs::write(path("wrong.config"), "{mode, }.").unwrap();
    assert_eq!(convert(&path("a.config"), Some(&path("mine.toml"))), ExitStatus::Failure);
    assert_eq!(fs::read_to_string(path("mine.toml")).unwrap(), "mode = 'max'");
    assert_eq!(convert(&path("wrong.config"), Some(&path("b.toml"))), ExitStatus::Failure);
    assert_eq!(convert(&path("none.config"), Some(&path("b.toml"))), ExitStatus::Failure);
    assert!(!path("b.toml").exists());
}
