use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::*;
use crate::log_level::LogLevel;
use crate::measure::tests::closed_loop;
use crate::measure::{Collector, CollectorSize, Recorder, Window};
use crate::reported_operation::ReportedOperation;
use crate::run_end::RunEnd;
use crate::term::Term;

fn operations() -> Vec<ReportedOperation> {
    ["get", "put"]
        .map(|name| ReportedOperation {
            label: Term::atom(name),
            operation: Term::atom(name),
            file_label: name.to_owned(),
        })
        .to_vec()
}

/// A window with latencies of the first operation in microseconds and errors of the second.
fn window(latencies_us: &[u64], errors: &[&str]) -> Window {
    let collector = Arc::new(Collector::new(CollectorSize { thread_count: 1, operation_count: 2 }));
    let release = Instant::now();
    let mut recorder = Recorder::new(0, collector.clone(), release);
    for us in latencies_us {
        recorder.record(0, &closed_loop(Duration::from_micros(*us), release));
    }
    for error in errors {
        recorder.record_error(1, Term::atom(error), Duration::from_secs(1), release);
    }
    recorder.flush();
    collector.finish(0);
    collector.take_completed().windows.pop().map_or(Window::new(2), |(_, window)| window)
}

#[derive(Clone, Default)]
struct Shown(Arc<Mutex<Vec<u8>>>);

impl io::Write for Shown {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().expect("no panic").extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Calls `act` with a reporter whose rows are two seconds long. Returns a function that reads a result
/// file, and the text that was shown.
fn report<T>(
    length: Option<Duration>,
    rewrites: bool,
    act: impl FnOnce(Reporter<'_>) -> T,
) -> (impl Fn(&str) -> String, String) {
    let directory = tempfile::tempdir().expect("a directory");
    let (shown, _) = report_in(directory.path(), length, rewrites, act);
    let file = move |name: &str| {
        std::fs::read_to_string(directory.path().join(name))
            .unwrap_or_else(|e| panic!("{name}: {e}"))
    };
    (file, shown)
}

/// As [`report`], in a given directory. Returns the text that was shown and the result of `act`.
fn report_in<T>(
    directory: &Path,
    length: Option<Duration>,
    rewrites: bool,
    act: impl FnOnce(Reporter<'_>) -> T,
) -> (String, T) {
    let shown = Shown::default();
    let mut terminal = Terminal::to(Box::new(shown.clone()), rewrites).with_columns(80);
    let log = Arc::new(RunLog::create(directory, LogLevel::Info).expect("logs"));
    let interval = Duration::from_secs(2);
    let reporter = Reporter::create(directory, operations(), &mut terminal, log, interval, length);
    let acted = act(reporter.expect("a reporter"));
    let text = String::from_utf8(shown.0.lock().expect("no panic").clone()).expect("text");
    (text, acted)
}

#[test]
fn rows_are_exactly_of_basho_benchs_form() {
    let (file, _) = report(None, false, |mut reporter| {
        reporter.second(Some(&window(&[100, 200], &["bad"])));
        reporter.second(Some(&window(&[600], &[])));
        reporter.second(None);
        reporter.second(None);
        let rest = [(4, window(&[1000, 2000, 3000], &["bad", "worse"]))];
        reporter.finish(&rest, Duration::from_micros(4_250_500), RunEnd::Completed);
    });
    assert_eq!(
        file("summary.csv"),
        "elapsed, window, total, successful, failed\n\
         2.0, 2.0, 4, 3, 1\n\
         4.0, 2.0, 0, 0, 0\n\
         4.2505, 0.2505, 5, 3, 2\n"
    );
    assert_eq!(
        file("get_latencies.csv"),
        "elapsed, window, n, min, mean, median, 95th, 99th, 99_9th, max, errors\n\
         2.0, 2.0, 3, 100, 300.0, 200, 600, 600, 600, 600, 0\n\
         4.0, 2.0, 0, 0, 0, 0, 0, 0, 0, 0, 0\n\
         4.2505, 0.2505, 3, 1000, 2000.0, 2000, 3000, 3000, 3000, 3000, 0\n"
    );
    assert_eq!(
        file("put_latencies.csv").lines().next_back(),
        Some("4.2505, 0.2505, 0, 0, 0, 0, 0, 0, 0, 0, 2")
    );
    assert_eq!(
        file("errors.csv"),
        "\"error\",\"count\"\n\"{{put,put},bad}\",\"2\"\n\"{{put,put},worse}\",\"1\"\n"
    );
    assert!(file("console.log").contains("[warning] 1 errors {{put,put},bad}"));
}

#[test]
fn the_last_row_waits_for_what_is_in_flight_at_the_end() {
    let (file, _) = report(Some(Duration::from_secs(4)), false, |mut reporter| {
        for _ in 0..4 {
            reporter.second(Some(&window(&[10], &[])));
        }
        let rest = [(4, window(&[10], &[]))];
        reporter.finish(&rest, Duration::from_millis(4003), RunEnd::Completed);
    });
    assert_eq!(
        file("summary.csv").lines().skip(1).collect::<Vec<_>>(),
        ["2.0, 2.0, 2, 2, 0", "4.003, 2.003, 3, 3, 0"]
    );
}

#[test]
fn seconds_that_come_only_at_the_end_still_make_rows() {
    let (file, _) = report(None, false, |reporter| {
        let rest = [(0, window(&[10], &[])), (3, window(&[10, 10], &[]))];
        reporter.finish(&rest, Duration::from_millis(4500), RunEnd::Completed);
    });
    assert_eq!(
        file("summary.csv").lines().skip(1).collect::<Vec<_>>(),
        ["2.0, 2.0, 1, 1, 0", "4.0, 2.0, 2, 2, 0", "4.5, 0.5, 0, 0, 0"]
    );
}

#[test]
fn a_terminal_shows_every_second_on_one_line_and_others_a_line_a_row() {
    let seconds = |mut reporter: Reporter<'_>| {
        for _ in 0..2 {
            reporter.second(Some(&window(&[1000, 2000], &["bad"])));
        }
        reporter.finish(&[], Duration::from_secs(2), RunEnd::Completed);
    };
    let (_, plain) = report(Some(Duration::from_secs(90)), false, seconds);
    assert!(
        plain.starts_with("0:02  2 op/s | get 2/s p50 1.00 p99 2.00 ms | errors 2 | left 1:28\n"),
        "{plain}"
    );
    assert!(!plain.contains('\r'));
    let (_, live) = report(Some(Duration::from_secs(90)), true, seconds);
    assert!(live.starts_with("\r\u{1b}[K0:01  2 op/s | get"), "{live:?}");
    assert_eq!(live.matches("op/s | get").count(), 2);
}

#[test]
fn a_second_without_operations_shows_that_nothing_is_done() {
    let (_, live) = report(None, true, |mut reporter| {
        reporter.second(Some(&window(&[1000], &[])));
        reporter.second(None);
    });
    let last = live.rsplit('\r').next();
    assert_eq!(last, Some("\u{1b}[K0:02  0 op/s | errors 0"));
}

#[test]
fn a_narrow_terminal_keeps_errors_and_time_left_in_sight() {
    let operations = operations();
    let window = window(&[1000, 2000], &["bad"]);
    let both = {
        let mut both = window.clone();
        both.add(&window);
        both
    };
    let text = |columns: usize| {
        let progress = text::Progress {
            replayed: None,
            operations: &operations,
            window: &both,
            span: Duration::from_secs(1),
            elapsed: Duration::from_secs(2),
            left: Some(Duration::from_secs(88)),
            error_count: 2,
        };
        progress.text(columns)
    };
    let whole = "0:02  4 op/s | get 4/s p50 1.00 p99 2.00 ms | errors 2 | left 1:28";
    assert_eq!(text(usize::MAX), whole);
    assert_eq!(text(whole.len()), whole);
    assert_eq!(text(whole.len() - 1), "0:02  4 op/s | +1 more | errors 2 | left 1:28");
    assert_eq!(text(40), "0:02  4 op/s | errors 2 | left 1:28");
}

#[test]
fn what_does_not_fit_or_steers_the_terminal_is_not_shown() {
    let shown = Shown::default();
    let mut terminal = Terminal::to(Box::new(shown.clone()), true).with_columns(9);
    terminal.progress("漢漢漢漢漢");
    terminal.line("a\u{1b}[2Jb\rc\nd");
    let text = String::from_utf8(shown.0.lock().expect("no panic").clone()).expect("text");
    assert_eq!(text, "\r\u{1b}[K漢漢漢漢\r\u{1b}[Ka\u{fffd}[2Jb\u{fffd}c\nd\n");
}

#[test]
fn a_full_disk_is_told_once_and_what_is_missing_at_the_end() {
    let directory = tempfile::tempdir().expect("a directory");
    let (shown, lost) = report_in(directory.path(), None, false, |mut reporter| {
        reporter.fill_disk_of("put_latencies.csv");
        for _ in 0..6 {
            reporter.second(Some(&window(&[10], &[])));
        }
        reporter.finish(&[], Duration::from_secs(6), RunEnd::Interrupted).lost
    });
    assert_eq!(lost, ["put_latencies.csv (3 rows)"]);
    assert_eq!(shown.matches("No space left on device").count(), 1, "{shown}");
    assert!(shown.contains("put_latencies.csv cannot be written") && shown.contains("goes on"));
    let summary = std::fs::read_to_string(directory.path().join("summary.csv")).expect("a table");
    assert_eq!(summary.lines().count(), 4, "the other tables are whole");
}

#[test]
fn numbers_are_written_for_people() {
    assert_eq!(text::clock_text(Duration::from_secs(59)), "0:59");
    assert_eq!(text::clock_text(Duration::from_secs(3661)), "1:01:01");
    let times = [1.0, 999.0, 1234.0, 12_340.0, 123_400.0].map(text::ms_text);
    assert_eq!(times, ["0.001", "0.999", "1.23", "12.3", "123"]);
    let sizes = [1000, 1001, 35_000_000, u64::MAX].map(text::size_text);
    assert_eq!(sizes, ["1000 bytes", "1.0 KB", "33.4 MB", "17179869184.0 GB"]);
}

#[test]
fn a_results_directory_that_cannot_be_written_is_named() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    let error =
        RunDirectory::create(&file.path().join("x"), None).expect_err("a file is in the way");
    let text = error.to_string();
    assert!(text.contains(&*file.path().to_string_lossy()) && text.contains("-d"), "{text}");
}

#[test]
fn a_run_has_every_log_that_tools_look_for() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = RunLog::create(directory.path(), LogLevel::Info).expect("logs");
    log.write(LogLevel::Debug, "unseen");
    log.warning("seen");
    log.error("bad");
    log.crash("worse");
    let read = |name: &str| std::fs::read_to_string(directory.path().join(name)).expect(name);
    let messages = |name: &str| {
        let text = read(name);
        // A line begins with a time such as `2026-11-21 12:00:00.000 `.
        text.lines().map(|line| line[24..].to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(messages("console.log"), ["[warning] seen", "[error] bad", "[error] worse"]);
    assert_eq!(messages("error.log"), ["[error] bad", "[error] worse"]);
    assert_eq!(messages("crash.log"), ["worse"]);
    assert_eq!(read("log.sasl.txt"), "");
    assert!(log.lost().is_empty());
}

#[test]
fn runs_of_one_second_get_names_of_their_own() {
    let base = tempfile::tempdir().expect("a directory");
    let paths: Vec<PathBuf> = (0..3)
        .map(|_| RunDirectory::create(base.path(), None).expect("a run").path().to_owned())
        .collect();
    assert!(paths[0] != paths[1] && paths[1] != paths[2]);
    let current = std::fs::read_link(base.path().join("current")).expect("the link");
    assert_eq!(base.path().join(current), paths[2]);
}
