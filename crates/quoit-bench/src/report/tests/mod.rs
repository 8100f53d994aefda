mod page;

use std::fs;
use std::path::Path;

use proptest::prelude::*;

use super::*;

const SUMMARY_HEADER: &str = "elapsed, window, total, successful, failed\n";
const LATENCIES_HEADER: &str =
    "elapsed, window, n, min, mean, median, 95th, 99th, 99_9th, max, errors\n";

/// A directory with the results of a run of two rows, in the form of basho_bench.
fn run_directory() -> tempfile::TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    write(
        directory.path(),
        "summary.csv",
        &format!("{SUMMARY_HEADER}10.000142, 10.000142, 21, 20, 1\n20.0, 9.999858, 41, 40, 1\n"),
    );
    write(
        directory.path(),
        "get_latencies.csv",
        &format!(
            "{LATENCIES_HEADER}10.000142, 10.000142, 15, 100, 1500.5, 1000, 2000, 3000, 4000, 5000, 1\n\
             20.0, 9.999858, 0, 0, 0, 0, 0, 0, 0, 0, 1\n"
        ),
    );
    write(
        directory.path(),
        "errors.csv",
        "\"error\",\"count\"\n\"{{get,get},timeout}\",\"1\"\n\"{{get,get},\"\"x\"\"}\",\"7\"\n",
    );
    directory
}

fn write(directory: &Path, name: &str, text: &str) {
    fs::write(directory.join(name), text).expect("a file");
}

fn append(directory: &Path, name: &str, text: &str) {
    let before = fs::read_to_string(directory.join(name)).expect("a file");
    write(directory, name, &(before + text));
}

/// Changes the directory of a run and returns the error of reading it, without the directory's path.
fn problem(change: impl FnOnce(&Path)) -> String {
    let directory = run_directory();
    change(directory.path());
    let error = Results::read(directory.path()).expect_err("these results cannot be read");
    error.to_string().replace(&format!("{}", directory.path().display()), "DIR")
}

#[test]
fn tables_of_basho_bench_are_read() {
    let directory = run_directory();
    let results = Results::read(directory.path()).expect("results");
    assert_eq!(results.summary.len(), 2);
    assert_eq!(
        results.summary[0],
        SummaryRow { elapsed_s: 10.000142, window_s: 10.000142, successful: 20.0, failed: 1.0 }
    );
    assert_eq!(results.operations.len(), 1);
    let get = &results.operations[0];
    assert_eq!((get.name.as_str(), get.rows.len()), ("get", 2));
    assert_eq!((get.rows[0].mean_us, get.rows[0].p99_9_us), (1500.5, 4000.0));
    let errors: Vec<_> = results.errors.iter().map(|e| (e.error.as_str(), e.count)).collect();
    assert_eq!(errors, [("{{get,get},\"x\"}", 7), ("{{get,get},timeout}", 1)]);
    assert!(results.notes.is_empty(), "{:?}", results.notes);
}

#[test]
fn a_row_that_was_cut_off_is_passed_over_with_a_note() {
    for cut in ["30.0, 10.0, 5", "30.0, 10.0, 51, 50, 1"] {
        let directory = run_directory();
        append(directory.path(), "summary.csv", cut);
        let results = Results::read(directory.path()).expect("results");
        assert_eq!(results.summary.len(), 2);
        assert_eq!(results.notes, ["summary.csv:4: the last line is cut off and was passed over"]);
    }
}

#[test]
fn empty_tables_of_operations_and_missing_errors_are_notes() {
    let directory = run_directory();
    write(directory.path(), "put_latencies.csv", "");
    fs::remove_file(directory.path().join("errors.csv")).expect("a removal");
    let results = Results::read(directory.path()).expect("results");
    assert_eq!(results.operations.len(), 1);
    assert_eq!(
        results.notes,
        [
            "put_latencies.csv is empty and was passed over",
            "errors.csv is missing: reasons of errors are not known",
        ]
    );
}

#[test]
fn what_is_wrong_is_told_with_file_and_line() {
    let check = |file: &str, text: &str, expected: &str| {
        let said = problem(|directory| append(directory, file, text));
        assert_eq!(said, format!("DIR/{file}:4: {expected}"));
    };
    check("summary.csv", "30.0, 10.0, 5, 5\n", "found 4 cells where 5 were expected");
    check(
        "summary.csv",
        "30.0, 10.0, 5, x, 0\n",
        "successful is \"x\" where a number from 0 on was expected",
    );
    check(
        "summary.csv",
        "30.0, 10.0, 5, -5, 0\n",
        "successful is \"-5\" where a number from 0 on was expected",
    );
    check(
        "summary.csv",
        "5.0, 10.0, 5, 5, 0\n",
        "elapsed goes back from 20 to 5: rows of two runs in one file?",
    );
    check(
        "get_latencies.csv",
        "30.0, 10.0, 5, 1, NaN, 1, 1, 1, 1, 1, 0\n",
        "mean is \"NaN\" where a number from 0 on was expected",
    );
    check("errors.csv", "oops\n", "found \"oops\" where \"error\",\"count\" was expected");
    assert!(
        problem(|directory| write(directory, "summary.csv", "time,count\n1,2\n"))
            .starts_with("DIR/summary.csv:1: found \"time,count\" where the header \"elapsed")
    );
}

#[test]
fn directories_without_results_say_what_is_missing() {
    let without = |name: &str| problem(|d| fs::remove_file(d.join(name)).expect("a removal"));
    assert!(without("summary.csv").starts_with("DIR holds no results of a run: it has no summary"));
    assert!(without("get_latencies.csv").starts_with("DIR holds no *_latencies.csv"));
    let rowless = problem(|directory| write(directory, "summary.csv", SUMMARY_HEADER));
    assert_eq!(rowless, "DIR/summary.csv has no whole row: nothing was measured");
    let empty = problem(|directory| write(directory, "summary.csv", ""));
    assert_eq!(empty, rowless);
    let error = Results::read(Path::new("/nowhere/at/all")).expect_err("there is nothing");
    assert!(error.to_string().starts_with("/nowhere/at/all cannot be read: No such file"));
}

#[test]
fn a_range_of_time_keeps_the_rows_in_it() {
    let directory = run_directory();
    let mut results = Results::read(directory.path()).expect("results");
    results.cut(15.0..=20.0).expect("a row");
    assert_eq!((results.summary.len(), results.operations[0].rows.len()), (1, 1));
    let error = results.cut(30.0..=40.0).expect_err("no row").to_string();
    assert_eq!(error, "no row lies between 30 and 40 s: the run's rows are at 20 to 20 s");
}

#[test]
fn the_chart_has_five_panels_with_a_facet_for_each_operation() {
    let directory = run_directory();
    let get = fs::read_to_string(directory.path().join("get_latencies.csv")).expect("a table");
    write(directory.path(), "a<b>&_latencies.csv", &get);
    let results = Results::read(directory.path()).expect("results");
    let options = ChartOptions { title: "T & t".to_owned(), ..ChartOptions::default() };
    let svg = draw_chart(&results, &options).expect("a chart");
    let headings = svg.matches(r#"<text class="heading""#).count();
    assert_eq!(headings, 5);
    for heading in [
        "T &amp; t",
        "Mean, Median, and 95th Percentile Latency",
        "99th Percentile Latency",
        "99.9th Percentile Latency",
        "Maximum Latency",
    ] {
        assert!(svg.contains(&format!(">{heading}</text>")), "{heading}");
    }
    assert_eq!(svg.matches(">a&lt;b&gt;&amp;</text>").count(), 4);
    assert_eq!(svg.matches(">get</text>").count(), 4);
    assert!(svg.contains(r#"width="1280" height="960""#) && svg.contains(">Elapsed Secs<"));
    assert!(svg.contains(">Ops/sec<") && svg.contains("prefers-color-scheme:dark"));
    // There is one dot, because a row without latencies is not a latency of zero.
    let dots: Vec<&str> = svg.lines().filter(|line| line.contains(r#""dot max""#)).collect();
    assert_eq!(dots.len(), 2);
    assert_eq!(dots[0].matches("h0").count(), 1, "{dots:?}");
}

#[test]
fn a_chart_of_an_impossible_size_is_refused() {
    let results = Results::read(run_directory().path()).expect("results");
    let options = ChartOptions { width: 10, ..ChartOptions::default() };
    let error = draw_chart(&results, &options).expect_err("too narrow").to_string();
    assert_eq!(error, "a chart of 10 x 960 cannot be drawn: each side is 300 to 20000");
}

#[test]
fn percentiles_of_rows_are_those_of_the_median_row() {
    let directory = run_directory();
    let row = |elapsed: u32, count: u32, us: u32| {
        format!("{elapsed}, 10, {count}, {us}, {us}.0, {us}, {us}, {us}, {us}, {us}, 2\n")
    };
    let rows = [row(10, 1, 900), row(20, 5, 200), row(30, 3, 300), row(40, 0, 0)].concat();
    write(directory.path(), "get_latencies.csv", &format!("{LATENCIES_HEADER}{rows}"));
    let results = Results::read(directory.path()).expect("results");
    let get = &figures::figures(&results).expect("figures")[0];
    assert_eq!((get.count, get.error_count), (9, 8));
    assert_eq!((get.latencies.min_us, get.latencies.max_us), (200, 900));
    assert_eq!(get.latencies.p99_us, 200, "five of nine latencies are in that row");
    assert!((get.latencies.mean_us - 2800.0 / 9.0).abs() < 1e-9);
    assert!(get.distribution.is_none());
}

#[test]
fn long_runs_are_thinned_without_losing_counts_or_spikes() {
    let rows: Vec<LatencyRow> = (0..2000)
        .map(|index| LatencyRow {
            elapsed_s: f64::from(index + 1),
            window_s: 1.0,
            count: f64::from(index % 3),
            min_us: 10.0,
            mean_us: 100.0,
            median_us: 90.0,
            p95_us: 200.0,
            p99_us: 300.0,
            p99_9_us: 400.0,
            max_us: if index == 1001 { 9999.0 } else { 500.0 },
            error_count: 0.0,
        })
        .collect();
    let rows_a_point = thinned::rows_a_point(rows.len());
    assert_eq!(rows_a_point, 5);
    let merged = thinned::latencies(&rows, rows_a_point, |_| false);
    assert_eq!(merged.len(), 400);
    let count = |rows: &[LatencyRow]| rows.iter().map(|row| row.count).sum::<f64>();
    assert_eq!(count(&merged), count(&rows));
    assert_eq!(merged.iter().filter(|row| row.max_us == 9999.0).count(), 1);
    assert!(merged.iter().all(|row| (row.mean_us - 100.0).abs() < 1e-9));
    assert_eq!(thinned::rows_a_point(400), 1);
}

#[test]
fn reports_go_where_they_are_asked_for() {
    let directory = run_directory();
    let options = ReportOptions { directory: directory.path().into(), ..ReportOptions::default() };
    let written = write_reports(&options).expect("reports");
    assert_eq!(
        written.files,
        ["summary.svg", "report.html"].map(|name| directory.path().join(name))
    );
    let elsewhere = directory.path().join("other.svg");
    let other = ReportOptions { outputs: vec![elsewhere.clone()], ..options.clone() };
    write_reports(&other).expect("a chart");
    assert!(fs::read_to_string(elsewhere).expect("a chart").starts_with("<svg "));
    let png = ReportOptions { outputs: vec!["x.png".into()], ..options.clone() };
    let error = write_reports(&png).expect_err("no such kind").to_string();
    assert!(error.starts_with("x.png is neither .svg"), "{error}");
    let nowhere = ReportOptions { outputs: vec!["/nowhere/x.svg".into()], ..options };
    let error = write_reports(&nowhere).expect_err("no such place").to_string();
    assert_eq!(error, "/nowhere/x.svg cannot be written: No such file or directory (os error 2)");
}

#[test]
fn a_long_table_of_growth_is_drawn_with_medians_and_a_damaged_one_refused() {
    const HEADER: &str = "items, id, size, kv_read_elapsed, read_prewrite_elapsed, write_elapsed, \
                          read_postwrite_elapsed, read_postwrite_elapsed2\n";
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path();
    let rows: String = (1..=1600)
        .map(|n| {
            let write_s = if n % 100 == 0 { 9.0 } else { f64::from(n) / 1e6 };
            format!("{n}, 1, {}, 0, 0.001, {write_s}, 0.002, 0.002\n", n * 10)
        })
        .collect();
    write(path, "crdt-growth.csv", &format!("{HEADER}{rows}1601, 1"));
    let options = ReportOptions { directory: path.into(), ..ReportOptions::default() };
    let written = write_reports(&options).expect("reports");
    assert_eq!(written.notes.len(), 1, "a row is cut off: {:?}", written.notes);
    let page = fs::read_to_string(path.join("report.html")).expect("a page");
    assert!(page.contains("median of 4 requests") && page.contains("1\u{202f}600 items"), "{page}");
    assert!(!page.contains("\"9000 ms\""), "a median passes over one slow write in a hundred");
    // The median is 81 us in the first tenth and 1521 us in the last.
    assert!(
        page.contains("<tr><td>write</td><td>0.081</td><td>1.52</td><td>18.79x</td></tr>"),
        "{page}"
    );
    assert!(page.contains("<tr><td>plain read</td><td>-</td><td>-</td><td>-</td></tr>"));
    for (damage, expected) in [
        ("1, 1, 10, 0, 0.1, x, 0.1, 0.1\n", "crdt-growth.csv:2: write_elapsed is \"x\""),
        ("1.5, 1, 10, 0, 0.1, 0.1, 0.1, 0.1\n", "items is \"1.5\" where a whole number"),
        ("1, 1, 10\n", "found 3 cells where 8 were expected"),
        ("", "no whole row"),
    ] {
        write(path, "crdt-growth.csv", &format!("{HEADER}{damage}"));
        let error = write_reports(&options).expect_err(damage).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_the_tables_hold_a_report_is_drawn_or_refused(
        summary in "([0-9.e, -]{0,24}\n){0,3}",
        cells in prop::collection::vec(prop::collection::vec(0.0_f64..1e12, 11), 0..6),
        rest in any::<String>(),
        count in 0.0_f64..1e9,
    ) {
        let directory = run_directory();
        let path = directory.path();
        let rows: String = cells
            .iter()
            .enumerate()
            .map(|(index, cells)| {
                let cells: Vec<String> = cells.iter().skip(1).map(f64::to_string).collect();
                format!("{index}, {}\n", cells.join(", "))
            })
            .collect();
        write(path, "get_latencies.csv", &format!("{LATENCIES_HEADER}{rows}"));
        let first = format!("{SUMMARY_HEADER}0, {count}, 1, {count}, 1\n");
        for text in [format!("{first}{rest}"), first.clone(), format!("{SUMMARY_HEADER}{summary}")] {
            write(path, "summary.csv", &text);
            if let Ok(results) = Results::read(path) {
                let svg = draw_chart(&results, &ChartOptions::default()).expect("a chart");
                let page = draw_page(&results).expect("a page");
                prop_assert!(!svg.contains("NaN") && !svg.contains("inf"), "{}", svg);
                // The script calls a function whose name contains `NaN`.
                prop_assert!(!page.replace("isNaN", "").contains("NaN"), "{}", page);
            }
        }
        write(path, "errors.csv", &rest);
        let _ = Results::read(path);
    }
}

#[test]
fn events_are_lines_through_all_panels_of_the_chart_with_their_names_in_the_first() {
    let directory = run_directory();
    let events = "elapsed, event, seconds, outcome\n12.500, kill <1>, 0.100, exit status: 0\n\
                  99.000, beyond, 0.100, exit status: 0\n";
    write(directory.path(), "events.csv", events);
    let results = Results::read(directory.path()).expect("results");
    let chart = draw_chart(&results, &ChartOptions::default()).expect("a chart");
    let lines = chart.matches("<path class=\"event\"").count();
    assert_eq!(lines, 5, "one operation has five panels; what is beyond the rows is left out");
    assert_eq!(chart.matches("kill &lt;1&gt;").count(), 1);
    assert!(!chart.contains("beyond"));
    let plain = Results { events: Vec::new(), ..results };
    let chart = draw_chart(&plain, &ChartOptions::default()).expect("a chart");
    assert!(!chart.contains("class=\"event\""));
}

/// The path commands of the line of successful operations, for a run with these counts in its seconds.
fn throughput_line(successful: &[u32]) -> String {
    let directory = run_directory();
    let mut text = SUMMARY_HEADER.to_owned();
    for (at, count) in successful.iter().enumerate() {
        text += &format!("{}.0, 1.0, {count}, {count}, 0\n", at + 1);
    }
    write(directory.path(), "summary.csv", &text);
    let results = Results::read(directory.path()).expect("results");
    let chart = draw_chart(&results, &ChartOptions::default()).expect("a chart");
    let path = chart.split("class=\"line ok\"").nth(1).expect("a line");
    path.split(" d=\"").nth(1).expect("commands").split('"').next().expect("an end").to_owned()
}

#[test]
fn throughput_is_not_smoothed_over_seconds_in_which_nothing_succeeded() {
    let mut successful = [100; 20];
    let smooth = throughput_line(&successful);
    assert!(smooth.matches('L').count() > 30, "{smooth}");
    (successful[9], successful[10]) = (0, 0);
    let straight = throughput_line(&successful);
    // A straight segment from each second to the next, down to 0.
    assert_eq!(straight.matches('L').count(), 19, "{straight}");
}
