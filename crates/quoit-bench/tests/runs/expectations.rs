//! Runs with expectations.

use std::fs;

use crate::support::{Run, run, try_check, try_run};
use quoit_bench::cli::{ExitStatus, status_of};
use quoit_bench::run::{RunEnd, RunSummary};

/// One of five operations fails.
const FAILING: &str = "{mode, max}. {concurrent, 2}. {driver, null}.
    {key_generator, {partitioned_sequential_int, 1000}}.
    {operations, [{do_something, 4}, {an_error, 1}]}.";

/// A run of [`FAILING`] with these expectations.
fn judged(expectations: &str) -> Run {
    run(&format!("{FAILING} {{expect, {expectations}}}."))
}

#[test]
fn a_run_that_meets_its_conditions_succeeds() {
    let run = judged(r#"["do_something p99 < 10s", "rate > 1", "errors < 50%", "stall < 60s"]"#);
    assert!(
        run.report.judgements.iter().all(|judgement| judgement.is_met),
        "{:?}",
        run.report.judgements
    );
    assert_eq!(status_of(&run.report), ExitStatus::Success);
    assert!(run.shown.contains("Expected rate > 1: met, it is "), "{}", run.shown);
    let junit = run.file("junit.xml");
    assert!(junit.contains("tests=\"4\" failures=\"0\""), "{junit}");
}

#[test]
fn a_run_that_misses_one_exits_with_a_status_of_its_own_and_keeps_its_results() {
    let run = judged(r#"["errors < 1%", "rate > 1"]"#);
    assert_eq!(status_of(&run.report), ExitStatus::Missed);
    assert_eq!(ExitStatus::Missed.code(), 4);
    assert_eq!(run.report.end, RunEnd::Completed);
    assert!(run.shown.contains("Expected errors < 1%: MISSED, it is "), "{}", run.shown);
    let summary = RunSummary::read(&run.report.directory).unwrap();
    let met: Vec<bool> = summary.expectations.iter().map(|judgement| judgement.is_met).collect();
    assert_eq!(met, [false, true]);
    let junit = run.file("junit.xml");
    assert!(junit.contains("name=\"errors &lt; 1%\"><failure message=\""), "{junit}");
}

#[test]
fn latencies_of_operations_that_failed_are_not_known_to_be_short() {
    // All operations failed at once, so the times until they would have been answered are unknown.
    let run = judged(r#"["an_error p99 < 10s", "an_error p99 >= 0us"]"#);
    let [upper, lower] = run.report.judgements.try_into().unwrap();
    assert!(!upper.is_met && upper.measured.starts_with("at least "), "{upper:?}");
    assert!(lower.is_met, "{lower:?}");
}

#[test]
fn an_operation_that_never_ran_meets_nothing() {
    // With one key, only one operation runs.
    let run =
        run("{mode, max}. {driver, null}. {concurrent, 1}. {key_generator, {sequential_int, 1}}.
        {operations, [{do_something, 1}, {do_something_else, 1}]}.
        {expect, [\"do_something p99 < 10s\", \"do_something_else p99 < 10s\"]}.");
    let missed: Vec<_> =
        run.report.judgements.iter().filter(|judgement| !judgement.is_met).collect();
    assert_eq!(missed.len(), 1, "{missed:?}");
    assert_eq!(missed[0].measured, "nothing was measured");
    assert_eq!(status_of(&run.report), ExitStatus::Missed);
}

#[test]
fn a_run_is_stopped_by_its_first_part_if_so_asked() {
    let endless = "{mode, {rate, 50}}. {concurrent, 2}. {driver, null}. {duration, 60}.
        {operations, [{do_something, 1}]}.";
    let run = try_run(endless, |options| {
        options.expectations = vec!["rate > 1M".to_owned()];
        options.aborts_early = true;
    })
    .unwrap();
    assert_eq!(run.report.end, RunEnd::Missed);
    assert_eq!(status_of(&run.report), ExitStatus::Missed);
    let seconds = run.report.elapsed.as_secs();
    assert!((10..60).contains(&seconds), "after {seconds} s");
    assert!(run.shown.contains("Stopped early: expected rate > 1M, and it is "), "{}", run.shown);
}

#[test]
fn conditions_that_no_run_can_be_judged_by_are_told_before_it() {
    for (condition, told) in [
        ("p99", "compares nothing"),
        ("< 5ms", "compares nothing"),
        ("p99 <", "compares nothing"),
        ("p98 < 5ms", "is about p98, perhaps p9"),
        ("p99 < 5", "has the bound 5: write a time"),
        ("errors < 1", "has the bound 1: write a share"),
        ("errors < 101%", "write a share"),
        ("rate > many", "write operations a second"),
        ("get p99 < 5ms", "is about get, and the run has only do_something, an_error"),
        ("do_something stall < 1s", "figure of the whole run"),
    ] {
        let error = try_check(&format!("{FAILING} {{expect, [\"{condition}\"]}}.")).unwrap_err();
        assert!(error.to_string().contains(told), "{condition}: {error}");
        assert!(error.to_string().contains("test.config:"), "{condition}: {error}");
    }
    let search = "{mode, {knee, [{p99_ms, 10}, {from, 1000}]}}. {driver, null}.
        {operations, [{do_something, 1}]}.";
    let error = try_check(&format!("{search} {{expect, \"rate > 1\"}}.")).unwrap_err();
    assert!(error.to_string().contains("the mode is a search"), "{error}");
}

#[test]
fn the_plan_tells_the_conditions() {
    let plan = try_check(&format!(
        "{FAILING} {{expect, [\"rate > 5k\", \"p99.9 <= 20ms\"]}}. {{abort_early, true}}."
    ));
    let plan = plan.unwrap();
    let told = "rate > 5k, p99.9 <= 20ms; a run that misses one is stopped";
    assert!(plan.contains(told), "{plan}");
    let plan = try_check(&format!("{FAILING} {{abort_early, true}}.")).unwrap();
    assert!(plan.contains("warning: the run has no conditions"), "{plan}");
}

#[test]
fn rows_replace_a_file_of_open_metrics() {
    let base = tempfile::tempdir().unwrap();
    let file = base.path().join("metrics.txt");
    let mut options = quoit_bench::cli::BenchOptions::default();
    let config = base.path().join("test.config");
    fs::write(&config, format!("{FAILING} {{value_generator_source_size, 100000}}.")).unwrap();
    options.config_paths = vec![config];
    options.results_dir = Some(base.path().join("results"));
    let mut terminal = quoit_bench::output::Terminal::stdout().with_metrics(Some(file.clone()));
    let report = quoit_bench::cli::run_on(&options, &mut terminal).unwrap();
    let text = fs::read_to_string(file).unwrap();
    let count = report.total.error_count();
    let line = format!("{{operation=\"an_error\",result=\"error\"}} {count}\n");
    assert!(text.contains(&line) && text.ends_with("# EOF\n"), "{text}");
}
