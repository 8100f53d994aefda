//! Comparisons of directories in the form that basho_bench leaves.

use super::command::compare_on;
use super::*;
use crate::output::Terminal;
use std::fmt::Write as _;
use std::fs;

/// A run of one minute with windows of one second, in which second `n` has `rate(n)` operations.
fn run(directory: &Path, rate: impl Fn(u32) -> f64) {
    fs::create_dir_all(directory).expect("a directory");
    let mut summary = "elapsed, window, total, successful, failed\n".to_owned();
    let mut latencies =
        "elapsed, window, n, min, mean, median, 95th, 99th, 99_9th, max, errors\n".to_owned();
    for second in 1..=60 {
        let rate = rate(second);
        let median_us = 10_000_000.0 / rate.max(1.0);
        let _ = writeln!(summary, "{second}.0, 1.0, {rate:.0}, {rate:.0}, 0");
        let tail = format!("{0:.1}, {0:.1}, {0:.1}, {0:.1}", median_us * 3.0);
        let _ = writeln!(
            latencies,
            "{second}.0, 1.0, {rate:.0}, 10, {median_us:.1}, {median_us:.1}, {tail}, 0"
        );
    }
    fs::write(directory.join("summary.csv"), summary).expect("a table");
    fs::write(directory.join("get_latencies.csv"), latencies).expect("a table");
    fs::write(directory.join("errors.csv"), "\"error\",\"count\"\n").expect("a table");
}

fn options(sides: &[&Path]) -> CompareOptions {
    CompareOptions {
        sides: sides.iter().map(|side| side.to_path_buf()).collect(),
        repeat: None,
        duration: None,
        results_dir: None,
        spread_percent: None,
        output: None,
        json: false,
    }
}

fn wave(second: u32) -> f64 {
    1000.0 + f64::from(second % 5) * 4.0
}

#[test]
fn a_run_is_no_different_from_itself() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), wave);
    let options = options(&[folder.path(), folder.path()]);
    let compared = compare_on(&options, &mut Terminal::stdout()).expect("a comparison");
    let [one] = compared.as_slice() else { panic!("{compared:?}") };
    assert_eq!(one.verdict, SideVerdict::Same);
    let names: Vec<String> = one.figures.iter().map(text::name_of).collect();
    assert_eq!(names, ["operations a second", "get median", "get 99th percentile"]);
    assert!(one.figures.iter().all(|figure| (figure.compared.ratio - 1.0).abs() < 1e-9));
    let sentence = text::sentence(one);
    assert!(sentence.starts_with("No difference found; one below 10."), "{sentence}");
    assert!(sentence.contains("--repeat"), "{sentence}");
    assert_eq!(compare_command(&options), 0);
}

#[test]
fn several_runs_in_a_directory_are_one_side_and_a_slower_one_is_told() {
    let folder = tempfile::tempdir().expect("a folder");
    let (base, other) = (folder.path().join("base"), folder.path().join("other"));
    for (number, near) in [0.99, 1.0, 1.01].into_iter().enumerate() {
        run(&base.join(format!("{number}")), |second| wave(second) * near);
        run(&other.join(format!("{number}")), |second| match second {
            // One of the runs stalls for two seconds.
            7 | 8 if number == 1 => 0.0,
            second => wave(second) * near * 0.9,
        });
    }
    fs::write(other.join("notes.txt"), "not a run").expect("a file");
    let page = folder.path().join("compare.html");
    let options = CompareOptions { output: Some(page.clone()), ..options(&[&base, &other]) };
    let compared = compare_on(&options, &mut Terminal::stdout()).expect("a comparison");
    let one = &compared[0];
    assert_eq!((one.base.runs.len(), one.other.runs.len()), (3, 3));
    assert_eq!((one.base.stalled_s, one.other.stalled_s), (0, 2));
    assert_eq!(one.verdict, SideVerdict::Slower, "{one:?}");
    let rate = &one.figures[0];
    assert!(rate.decides && rate.compared.verdict == Verdict::Lower);
    assert!((rate.compared.ratio - 0.9).abs() < 0.005, "{rate:?}");
    assert!(rate.compared.ratio_low < 0.9 && rate.compared.ratio_high > 0.9);
    assert!(text::sentence(one).starts_with("The other side is slower: operations a second 0.9"));
    assert_eq!(compare_command(&options), EXIT_SLOWER);
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains("is slower") && page.contains("get 99th percentile"));
    // With the sides exchanged, the other side is faster.
    let back = CompareOptions { sides: vec![other, base], output: None, ..options };
    let back = compare_on(&back, &mut Terminal::stdout()).expect("a comparison");
    assert_eq!(back[0].verdict, SideVerdict::Faster);
}

#[test]
fn operations_of_one_side_alone_are_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let (base, other) = (folder.path().join("base"), folder.path().join("other"));
    [&base, &other].into_iter().for_each(|side| run(side, wave));
    fs::copy(other.join("get_latencies.csv"), other.join("put_latencies.csv")).expect("a copy");
    let compared =
        compare_on(&options(&[&base, &other]), &mut Terminal::stdout()).expect("figures");
    let one = &compared[0];
    assert!(one.base.unmatched_operations.is_empty());
    assert_eq!(one.other.unmatched_operations, ["put"]);
    let said = text::text(one);
    let words = "not compared, since of the two sides only other has it in all runs: put";
    assert!(said.contains(words) && !said.contains("put median"), "{said}");
}

/// Rewrites the tables of a run, so that this share of all operations failed.
fn fail(directory: &Path, share: f64) {
    let path = directory.join("summary.csv");
    let old = fs::read_to_string(&path).expect("a table");
    let mut lines = old.lines().map(str::to_owned);
    let mut new = lines.next().expect("a head") + "\n";
    for line in lines {
        let cells: Vec<&str> = line.split(", ").collect();
        let successful: f64 = cells[3].parse().expect("a number");
        let failed = (successful * share / (1.0 - share)).round();
        let total = successful + failed;
        let _ = writeln!(new, "{}, {}, {total}, {successful}, {failed}", cells[0], cells[1]);
    }
    fs::write(path, new).expect("a table");
}

#[test]
fn a_side_that_fails_more_is_worse_however_fast_its_successes_are() {
    let folder = tempfile::tempdir().expect("a folder");
    let (base, other) = (folder.path().join("base"), folder.path().join("other"));
    run(&base, wave);
    run(&other, |second| wave(second) * 2.0);
    fail(&other, 0.5);
    let sides = options(&[&base, &other]);
    let compared = compare_on(&sides, &mut Terminal::stdout()).expect("a comparison");
    assert_eq!(compared[0].verdict, SideVerdict::FailsMore);
    let sentence = text::sentence(&compared[0]);
    let told = "The other side fails more: 50.0 % of its operations fail, and 0.0 % of the base's";
    assert!(sentence.starts_with(told), "{sentence}");
    assert_eq!(compare_command(&sides), EXIT_SLOWER);
    // With the sides exchanged, the failures are not a fault of the other side.
    let back =
        compare_on(&options(&[&other, &base]), &mut Terminal::stdout()).expect("a comparison");
    assert_eq!(back[0].verdict, SideVerdict::Slower);
    assert!(text::sentence(&back[0]).contains("the base fails more: 50.0 %"), "{back:?}");
    // A few failures do not count.
    fail(&base, 0.0);
    run(&other, wave);
    fail(&other, 0.0005);
    let few = compare_on(&sides, &mut Terminal::stdout()).expect("a comparison");
    assert_eq!(few[0].verdict, SideVerdict::Same);
}

#[test]
fn the_page_marks_a_side_that_is_faster_by_one_figure_and_slower_by_another() {
    let folder = tempfile::tempdir().expect("a folder");
    let [base, other, slow] = ["base", "other", "slow"].map(|name| folder.path().join(name));
    run(&base, wave);
    run(&other, |second| wave(second) * 2.0);
    run(&slow, |second| wave(second) * 0.5);
    let latencies = "get_latencies.csv";
    fs::copy(slow.join(latencies), other.join(latencies)).expect("a table");
    let page = folder.path().join("compare.html");
    let sides = CompareOptions { output: Some(page.clone()), ..options(&[&base, &other]) };
    let compared = compare_on(&sides, &mut Terminal::stdout()).expect("a comparison");
    assert_eq!(compared[0].verdict, SideVerdict::Mixed);
    let page = fs::read_to_string(page).expect("the page");
    assert!(page.contains("badge bad"), "the page is as bad as the exit status");
}

#[test]
fn rows_of_ten_seconds_stand_still_for_ten_seconds() {
    let folder = tempfile::tempdir().expect("a folder");
    run(folder.path(), |second| if second == 30 { 0.0 } else { wave(second) });
    for name in ["summary.csv", "get_latencies.csv"] {
        let path = folder.path().join(name);
        let old = fs::read_to_string(&path).expect("a table");
        fs::write(&path, old.replace(".0, 1.0, ", "0.0, 10.0, ")).expect("a table");
    }
    let sides = options(&[folder.path(), folder.path()]);
    let compared = compare_on(&sides, &mut Terminal::stdout()).expect("a comparison");
    assert_eq!(compared[0].base.stalled_s, 10);
}

/// basho_bench's tables have whole microseconds: medians of 1 and 2 may be 1.4 and 1.6.
#[test]
fn latencies_that_rounding_may_have_parted_do_not_differ() {
    let folder = tempfile::tempdir().expect("a folder");
    let (base, other) = (folder.path().join("base"), folder.path().join("other"));
    let write = |directory: &Path, median_us: u32| {
        run(directory, wave);
        let path = directory.join("get_latencies.csv");
        let old = fs::read_to_string(&path).expect("a table");
        let row = |line: &str| {
            let cells: Vec<&str> = line.split(", ").collect();
            if cells[0] == "elapsed" {
                return line.to_owned();
            }
            let figures = format!("0, {median_us}.0, {median_us}, 30, 30, 30, 30, 0");
            format!("{}, {}, {}, {figures}", cells[0], cells[1], cells[2])
        };
        let new: Vec<String> = old.lines().map(row).collect();
        fs::write(path, new.join("\n") + "\n").expect("a table");
    };
    for run in ["1", "2", "3", "4", "5"] {
        write(&base.join(run), 1);
        write(&other.join(run), 2);
    }
    let compared =
        compare_on(&options(&[&base, &other]), &mut Terminal::stdout()).expect("a comparison");
    assert_eq!(compared[0].verdict, SideVerdict::Same, "{compared:?}");
    for run in ["1", "2", "3", "4", "5"] {
        write(&other.join(run), 4);
    }
    let compared =
        compare_on(&options(&[&base, &other]), &mut Terminal::stdout()).expect("a comparison");
    assert_eq!(compared[0].verdict, SideVerdict::Slower, "{compared:?}");
}

#[test]
fn what_is_no_run_is_named_with_what_to_give_instead() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("a.config");
    fs::write(&config, "{mode, max}.").expect("a file");
    let told = |options: &CompareOptions| {
        compare_on(options, &mut Terminal::stdout()).expect_err("nothing to compare").to_string()
    };
    assert!(told(&options(&[folder.path(), folder.path()])).contains("no results of a run"));
    assert!(told(&options(&[&config, &config])).contains("--repeat N runs it"));
    let repeat = CompareOptions { repeat: Some(2), ..options(&[folder.path(), &config]) };
    assert!(told(&repeat).contains("--repeat takes configurations"));
    run(folder.path(), |second| if second < 4 { 100.0 } else { 0.0 });
    assert!(told(&options(&[folder.path(), folder.path()])).contains("five seconds"));
}

#[test]
fn configurations_are_run_in_turn() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("null.config");
    let text = "{mode, {rate, 200}}. {concurrent, 2}. {driver, basho_bench_driver_null}. \
                {operations, [{do_something, 1}]}. {key_generator, {uniform_int, 9}}. \
                {value_generator, {fixed_bin, 9}}. {report_interval, 1}.";
    fs::write(&config, text).expect("a file");
    let options = CompareOptions {
        repeat: Some(1),
        duration: Some("6s".to_owned()),
        results_dir: Some(folder.path().join("results")),
        ..options(&[&config, &config])
    };
    let compared = compare_on(&options, &mut Terminal::stdout()).expect("a comparison");
    let one = &compared[0];
    assert_eq!((one.base.runs.len(), one.other.runs.len()), (1, 1));
    assert!(one.base.runs[0].ends_with("side-1/run-01"), "{:?}", one.base.runs);
    // The rate is given, so the latency would decide. Against the null driver it is the load generator's
    // own, so it is noise.
    assert!(one.figures.iter().all(|figure| !figure.decides));
    let noise = |figure: &ComparedFigure| figure.within_noise == (figure.kind != FigureKind::Rate);
    assert!(one.figures.iter().all(noise), "{one:?}");
    assert_eq!(one.verdict, SideVerdict::Same);
    assert!(text::sentence(one).contains("within the noise of the load generator"));
}
