//! Reports of whole runs.

use std::fs;

use crate::support::{run, try_run};
use quoit_bench::output::environment::Environment;
use quoit_bench::report::{ReportOptions, Results, write_reports};

const CONFIG: &str = "{mode, max}. {concurrent, 2}. {driver, null}.
    {key_generator, {partitioned_sequential_int, 3000}}.
    {operations, [{do_something, 2}, {{x, 'a<b'}, do_something_else, 1}, {an_error, 1}]}.";

#[test]
fn every_run_ends_with_its_reports() {
    let run = run(CONFIG);
    assert!(run.report.lost.is_empty(), "{:?}", run.report.lost);
    assert!(run.shown.contains("summary.svg, ") && run.shown.contains("report.html"));
    assert!(run.file("summary.svg").starts_with("<svg "));
    let page = run.file("report.html");
    // The names are those of the configuration, in its order.
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("{text}"));
    assert!(place("<tr><td>do_something</td>") < place("<tr><td>{x,&#39;a&lt;b&#39;}</td>"));
    assert!(place("<tr><td>{x,&#39;a&lt;b&#39;}</td>") < place("<tr><td>an_error</td>"));
    assert!(page.contains("from the whole distribution"));
    assert!(page.contains("Latency of do_something, {x,&#39;a&lt;b&#39;} over percentiles"));
    assert!(page.contains(">completed</li>") && page.contains("went_wrong"));
    assert!(page.contains("{concurrent, 2}"), "the configuration is in the page");
    // The table has the same counts as the terminal.
    let count = run.report.total.operations()[0].count();
    assert!(page.contains(&format!("<tr><td>do_something</td><td data-value=\"{count}\">")));
}

#[test]
fn a_run_leaves_the_files_that_are_documented_and_no_others() {
    let run = run(CONFIG);
    let mut names: Vec<String> = fs::read_dir(&run.report.directory)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "an-error_latencies.csv",
            "console.log",
            "crash.log",
            "do-something_latencies.csv",
            "environment.json",
            "error.log",
            "errors.csv",
            "hdr",
            "log.sasl.txt",
            "periods.csv",
            "report.html",
            "summary.csv",
            "summary.json",
            "summary.svg",
            "test.config",
            "x-a-b_latencies.csv",
        ]
    );
}

#[test]
fn the_setup_of_a_run_is_kept() {
    let run = run(CONFIG);
    let environment = Environment::read(&run.report.directory).unwrap();
    assert_eq!(environment.configurations, ["test.config"]);
    assert!(environment.host.core_count > 0);
    assert!(environment.plan.contains(&("driver".to_owned(), "null".to_owned())));
    assert!(environment.servers.is_empty());
    let page = run.file("report.html");
    assert!(page.contains("<h2 id=\"setup\">") && page.contains("as fast as they can"));
}

#[test]
fn a_range_of_a_run_has_the_distribution_of_that_range() {
    let run = try_run(
        "{mode, {rate, 200}}. {concurrent, 2}. {driver, null}. {report_interval, 1}.
         {operations, [{do_something, 1}]}.",
        |options| options.duration = Some("2500ms".to_owned()),
    )
    .unwrap();
    let directory = &run.report.directory;
    let output = directory.join("second.html");
    let options = ReportOptions {
        directory: directory.clone(),
        outputs: vec![output.clone()],
        start_s: Some(1.5),
        end_s: Some(2.0),
        ..ReportOptions::default()
    };
    write_reports(&options).unwrap();
    let mut results = Results::read(directory).unwrap();
    results.cut(1.5..=2.0).unwrap();
    let count = results.operations[0].rows[0].count;
    assert_eq!(results.operations[0].rows.len(), 1);
    let row = format!("<tr><td>do_something</td><td data-value=\"{count}\">");
    assert!(fs::read_to_string(output).unwrap().contains(&row), "{row}");
}
