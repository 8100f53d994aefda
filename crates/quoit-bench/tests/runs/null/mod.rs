//! Whole runs without a server: counts, tables, logs, ends.

mod refusals;

use std::fs;

use crate::support::{run, try_run};
use quoit_bench::cli::{BenchOptions, ExitStatus, run_on, status_of};
use quoit_bench::measure::intervals;
use quoit_bench::output::Terminal;
use quoit_bench::run::{RunEnd, RunSummary};

const FINITE: &str = "{mode, max}. {concurrent, 3}. {driver, basho_bench_driver_null}.
    {key_generator, {partitioned_sequential_int, 1000}}.";

#[test]
fn a_finite_generator_ends_the_run_and_every_operation_is_counted_once() {
    let run =
        run(&format!("{FINITE} {{operations, [{{do_something, 1}}, {{do_something_else, 2}}]}}."));
    assert_eq!(run.report.end, RunEnd::Completed);
    assert_eq!(run.report.total.success_count(), 1000);
    assert_eq!(run.sum("summary.csv", 2), 1000);
    assert_eq!(run.sum("summary.csv", 3), 1000);
    assert_eq!(run.sum("summary.csv", 4), 0);
    let by_operation = ["do-something_latencies.csv", "do-something-else_latencies.csv"]
        .map(|name| run.sum(name, 2));
    assert_eq!(by_operation.iter().sum::<u64>(), 1000);
    assert!(by_operation[1] > by_operation[0], "{by_operation:?}");
}

#[test]
fn the_operations_of_the_first_releases_draw_as_the_newer_ones() {
    let run = run(&format!("{FINITE} {{operations, [{{get, 1}}, {{put, 1}}, {{delete, 1}}]}}."));
    assert_eq!(run.report.total.success_count(), 1000);
    assert!(run.sum("put_latencies.csv", 2) > 0);
}

#[test]
fn a_worker_ends_when_its_values_do() {
    let run =
        run("{mode, max}. {concurrent, 3}. {driver, null}. {key_generator, {uniform_int, 9}}.
        {value_generator, {keygen, {partitioned_sequential_int, 1000}}}.
        {operations, [{do_something_else, 1}]}.");
    assert_eq!(run.report.end, RunEnd::Completed);
    assert_eq!(run.report.total.success_count(), 1000);
}

#[test]
fn the_tables_have_basho_benchs_shape() {
    let run = run(&format!(
        "{FINITE} {{operations, [{{do_something, 1}}, {{an_error, 1}},
         {{{{x, 'a_b', 5}}, another_error, 0}}]}}."
    ));
    let summary = run.file("summary.csv");
    assert_eq!(summary.lines().next(), Some("elapsed, window, total, successful, failed"));
    let latencies = run.file("do-something_latencies.csv");
    assert_eq!(
        latencies.lines().next(),
        Some("elapsed, window, n, min, mean, median, 95th, 99th, 99_9th, max, errors")
    );
    let rows = run.rows("do-something_latencies.csv");
    assert_eq!(rows.len(), 1);
    assert_eq!(rows[0].len(), 11);
    assert_eq!(rows[0][0], rows[0][1]);
    assert!(rows[0][0].contains('.'), "elapsed is a float: {rows:?}");
    assert_eq!(rows[0][4].split_once('.').map(|(_, digits)| digits.len()), Some(1));
    let failed = &run.rows("an-error_latencies.csv")[0];
    let errors = run.sum("summary.csv", 4).to_string();
    assert_eq!(failed[2..], ["0", "0", "0", "0", "0", "0", "0", "0", &errors].map(str::to_owned));
    assert_eq!(run.rows("x-a-b-5_latencies.csv")[0][10], "0");
    assert_eq!(
        run.file("errors.csv"),
        format!("\"error\",\"count\"\n\"{{{{an_error,an_error}},went_wrong}}\",\"{errors}\"\n")
    );
}

#[test]
fn errors_are_sorted_as_terms_and_named_with_label_and_operation() {
    let run =
        run("{mode, max}. {concurrent, 1}. {driver, null}. {key_generator, {sequential_int, 50}}.
         {operations, [{zz, an_error, 5}, {b, another_error, 5}, {do_something, 5}]}.");
    let text = run.file("errors.csv");
    let keys: Vec<&str> =
        text.lines().skip(1).map(|line| line.split("\",\"").next().unwrap()).collect();
    assert_eq!(
        keys,
        ["\"{{b,another_error},{bad,things,happened}}", "\"{{zz,an_error},went_wrong}"]
    );
}

#[test]
fn the_run_directory_has_the_configuration_the_logs_and_the_link() {
    let run = try_run(
        &format!(
            "{FINITE} {{operations, [{{do_something, 1}}]}}. {{no_such_key, 1}}. {{duratoin, 1}}."
        ),
        |options| options.name = Some("first".to_owned()),
    )
    .unwrap();
    let directory = &run.report.directory;
    assert_eq!(directory.file_name().unwrap(), "first");
    assert_eq!(fs::read_link(directory.with_file_name("current")).unwrap().to_str(), Some("first"));
    assert!(run.file("test.config").contains("no_such_key"));
    assert_eq!(run.file("error.log") + &run.file("crash.log"), "");
    let console = run.file("console.log");
    assert!(console.contains("[warning]") && console.contains("`no_such_key` is not known"));
    assert!(console.contains("did you mean `duration`?"), "{console}");
    assert!(console.contains("Est. data size: 97.7 KB"), "{console}");
    assert!(run.shown.contains("did you mean `duration`?"));
    assert!(run.shown.contains("Test completed after 0:00."), "{}", run.shown);
}

#[test]
fn the_interval_logs_add_up_to_the_total() {
    let config = "{mode, max}. {concurrent, 2}. {driver, null}.
        {operations, [{do_something, 3}, {an_error, 1}]}.";
    let run = try_run(config, |options| options.duration = Some("1200ms".to_owned())).unwrap();
    let directory = &run.report.directory;
    assert_eq!(intervals::file_labels(directory).unwrap(), ["an-error", "do-something"]);
    let of = |label| intervals::total(directory, label).unwrap();
    let [done, failed] = run.report.total.operations() else { panic!("two operations") };
    assert_eq!(of("do-something").histogram_ns(), done.histogram_ns());
    assert_eq!(of("do-something").latencies(), done.latencies());
    assert_eq!(of("an-error").error_count(), failed.error_count());
    let reader = intervals::IntervalReader::open(directory, "do-something").unwrap();
    let seconds: Vec<_> = reader.map(Result::unwrap).collect();
    assert_eq!(seconds.len(), 2);
    let elapsed_s = run.report.elapsed.as_secs_f64();
    assert!((seconds[1].start + seconds[1].length).as_secs_f64() <= elapsed_s + 1e-5);
}

#[test]
fn the_summary_for_programs_has_what_the_run_came_to() {
    let run = run(&format!("{FINITE} {{operations, [{{do_something, 1}}, {{an_error, 1}}]}}."));
    let summary = RunSummary::read(&run.report.directory).unwrap();
    assert_eq!((summary.end.as_str(), summary.driver.as_str()), ("completed", "null"));
    assert_eq!((summary.workers, summary.mode.kind.as_str()), (3, "max"));
    let total = &run.report.total;
    assert_eq!((summary.successful, summary.failed), (total.success_count(), total.error_count()));
    assert_eq!(summary.operations[0].latencies, total.operations()[0].latencies());
    assert_eq!(summary.errors.len(), 1);
    assert_eq!(
        (summary.errors[0].operation.as_str(), summary.errors[0].count),
        ("an_error", summary.failed)
    );
    assert_eq!(summary.client, run.report.client);
    assert!(summary.client.process_cpu_s > 0.0);
}

#[test]
fn a_busy_load_generator_is_told() {
    // One thread that only draws keys is always busy.
    let config = "{mode, max}. {concurrent, 1}. {driver, null}. {operations, [{do_something, 1}]}.";
    let busy = try_run(config, |options| options.duration = Some("300ms".to_owned())).unwrap();
    assert!(busy.report.client.client_bound, "{:?}", busy.report.client);
    assert!(busy.shown.contains("CLIENT-BOUND"), "{}", busy.shown);
    assert!(busy.file("console.log").contains("CLIENT-BOUND"));
    assert!(RunSummary::read(&busy.report.directory).unwrap().client.client_bound);
}

#[test]
fn the_summary_shows_every_operation() {
    let run = run(&format!("{FINITE} {{operations, [{{do_something, 1}}, {{an_error, 1}}]}}."));
    let table: Vec<&str> =
        run.shown.lines().skip_while(|line| !line.starts_with("operation")).collect();
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(
        words(table[0]),
        [
            "operation",
            "count",
            "op/s",
            "errors",
            "min",
            "mean",
            "median",
            "95%",
            "99%",
            "99.9%",
            "max"
        ]
    );
    assert_eq!(words(table[1])[0], "do_something");
    assert_eq!(words(table[1])[1], run.report.total.operations()[0].count().to_string());
    assert_eq!(words(table[2])[4], "-");
    assert_eq!(words(table[3])[0], "all");
}

#[test]
fn a_run_lasts_its_duration_and_rows_come_every_interval() {
    let run = try_run(
        "{mode, {rate, 200}}. {concurrent, 4}. {driver, null}. {report_interval, 1}.
         {operations, [{do_something, 1}]}.",
        |options| options.duration = Some("2500ms".to_owned()),
    )
    .unwrap();
    let elapsed = run.report.elapsed.as_secs_f64();
    assert!((2.5..4.0).contains(&elapsed), "{elapsed}");
    let rows = run.rows("summary.csv");
    assert_eq!(rows.len(), 3);
    assert_eq!(rows[0][..2], ["1.0", "1.0"]);
    assert_eq!(rows[1][..2], ["2.0", "1.0"]);
    assert_eq!(run.sum("summary.csv", 2), run.report.total.success_count());
    // Four workers at 200 op/s, with pauses truncated to whole milliseconds, make at most some 880 op/s.
    let count = run.report.total.success_count();
    assert!((400..2500).contains(&count), "{count}");
    assert!(run.shown.contains("left 0:01"), "{}", run.shown);
}

#[test]
fn one_seed_gives_one_choice_of_operations() {
    let config = |seed: &str| {
        format!(
            "{{mode, max}}. {{concurrent, 1}}. {{driver, null}}. {{rng_seed, {seed}}}.
             {{key_generator, {{sequential_int, 500}}}}. {{rng, as183}}.
             {{operations, [{{do_something, 1}}, {{do_something_else, 1}}]}}."
        )
    };
    let counts = |seed: &str| {
        let run = run(&config(seed));
        run.report.total.operations().iter().map(|stats| stats.count()).collect::<Vec<_>>()
    };
    assert_eq!(counts("{1, 2, 3}"), counts("{1, 2, 3}"));
    assert_ne!(counts("{1, 2, 3}"), counts("{4, 5, 6}"));
}

#[test]
fn a_run_in_which_nothing_succeeded_is_a_failure_that_tells_its_reasons() {
    let operations = |mix: &str| {
        run(&format!(
            "{{mode, max}}. {{concurrent, 1}}. {{driver, null}}. {{duration, 0.005}}.
             {{operations, [{mix}]}}."
        ))
    };
    let vain = operations("{an_error, 1}");
    assert_eq!(status_of(&vain.report), ExitStatus::Failure);
    assert!(vain.shown.contains("NO OPERATION SUCCEEDED"), "{}", vain.shown);
    let mixed = operations("{an_error, 1}, {do_something, 1}");
    assert_eq!(status_of(&mixed.report), ExitStatus::Success);
    assert!(mixed.shown.contains("operations failed"), "{}", mixed.shown);
}

#[test]
fn an_error_ends_the_run_when_asked_to() {
    let run =
        run("{mode, {rate, 100}}. {concurrent, 2}. {driver, null}. {shutdown_on_error, true}.
         {duration, infinity}. {operations, [{an_error, 1}]}.");
    assert_eq!(run.report.end, RunEnd::Failed);
    assert_eq!(ExitStatus::from(run.report.end).code(), 1);
    assert!(run.report.elapsed.as_millis() >= 500);
    assert!(run.report.total.error_count() > 0);
}

#[test]
fn thousands_of_workers_run() {
    let run = try_run(
        "{mode, {rate, 10}}. {concurrent, 5000}. {driver, null}. {operations, [{do_something, 1}]}.",
        |options| options.duration = Some("300ms".to_owned()),
    )
    .unwrap();
    assert!(run.report.total.success_count() > 1000);
}

#[test]
fn the_later_file_wins_and_both_are_kept() {
    let base = tempfile::tempdir().unwrap();
    let other = base.path().join("other.config");
    fs::write(&other, "{operations, [{do_something_else, 1}]}.").unwrap();
    let run = try_run(&format!("{FINITE} {{operations, [{{do_something, 1}}]}}."), |options| {
        options.config_paths.push(other);
    })
    .unwrap();
    assert_eq!(run.sum("do-something-else_latencies.csv", 2), 1000);
    assert!(run.file("other.config").contains("do_something_else"));
}

#[test]
fn commands_run_before_and_after() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let hook = |word: &str| {
        let command =
            format!("echo {word} $(ls $QUOIT_BENCH_DIR | grep summary.csv) >> {}", trace.display());
        format!("{{shell, \"{command}\"}}")
    };
    let base = "{driver, null}. {mode, max}. {concurrent, 1}. {operations, [{do_something, 1}]}.
        {key_generator, {sequential_int, 3}}.";
    let config =
        format!("{base} {{pre_hook, {}}}. {{post_hook, {}}}.", hook("before"), hook("after"));
    run(&config);
    let written = fs::read_to_string(&trace).unwrap();
    assert_eq!(written, "before\nafter summary.csv\n");
    let refused = try_run(&format!("{base} {{pre_hook, {{shell, \"exit 3\"}}}}."), |_| {});
    let error = refused.err().unwrap().to_string();
    assert!(error.contains("pre_hook: the command `exit 3` failed: exit status: 3"), "{error}");
    let kept = run(&format!("{base} {{post_hook, {{shell, \"exit 3\"}}}}."));
    assert!(kept.shown.contains("warning: post_hook: the command `exit 3` failed"));
}

#[test]
fn options_of_erlang_nodes_are_told_and_passed_over() {
    let config = format!("{FINITE} {{operations, [{{do_something, 1}}]}}.");
    let run = try_run(&config, |options| options.ignored_options = vec!["--node"]);
    let shown = run.unwrap_or_else(|error| panic!("{error}")).shown;
    assert!(shown.contains("warning: --node has no effect"), "{shown}");
}

#[test]
fn a_sequence_goes_on_in_the_next_run() {
    let dir = tempfile::tempdir().unwrap();
    let config = |count| {
        format!(
            "{{driver, null}}. {{mode, max}}. {{concurrent, 1}}. {{operations, [{{do_something, 1}}]}}.
             {{key_generator, {{sequential_int, {count}}}}}.
             {{sequential_int_state_dir, \"{}\"}}.",
            dir.path().display()
        )
    };
    let first = run(&config(1000));
    assert_eq!(first.sum("summary.csv", 3), 1000);
    assert!(first.file("console.log").contains("[debug] worker 1: 0 of 1000 keys"));
    assert_eq!(run(&config(1000)).sum("summary.csv", 3), 100);
    let again = run(&config(500));
    assert_eq!(again.sum("summary.csv", 3), 500);
    assert!(again.file("console.log").contains("[warning] worker 1: the saved position 900"));
}

#[test]
fn printing_and_writing_keys_ends_with_the_keys() {
    let operations = "{operations, [{print_key, 1}, {{print_key_and_value, 5, 5}, 1}]}.";
    let printed = run(&format!(
        "{FINITE} {{concurrent, 1}}. {operations}
        {{key_generator, {{sequential_int, 3}}}}."
    ));
    assert_eq!(printed.report.total.success_count(), 3);

    let run = run(&format!(
        "{FINITE} {{driver, nullfile}}. {{operations, [{{get, 1}}, {{put, 1}}, {{delete, 1}}]}}."
    ));
    assert_eq!(run.report.total.success_count(), 1000);
    let keys_of = |worker: u32| run.file(&format!("null/{worker}"));
    let keys: Vec<String> = (1..=3)
        .flat_map(|worker| keys_of(worker).lines().map(str::to_owned).collect::<Vec<_>>())
        .collect();
    assert_eq!(keys, (0..1000).map(|number| number.to_string()).collect::<Vec<_>>());
}

#[test]
fn the_configuration_that_the_last_run_kept_can_be_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("null.config");
    fs::write(&config, format!("{FINITE} {{operations, [{{do_something, 1}}]}}.")).unwrap();
    let results = folder.path().join("results");
    for (name, path) in [("first", config), ("second", results.join("current/null.config"))] {
        let options = BenchOptions {
            config_paths: vec![path],
            results_dir: Some(results.clone()),
            name: Some(name.to_owned()),
            ..BenchOptions::default()
        };
        let report = run_on(&options, &mut Terminal::stdout()).unwrap();
        assert_eq!(report.total.success_count(), 1000);
        assert!(results.join(name).join("null.config").is_file());
    }
}
