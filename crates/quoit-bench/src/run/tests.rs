use std::panic::resume_unwind;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use super::typed_driver::TypedDriver;
use super::*;
use crate::config::Settings;
use crate::driver::{Driver, Inputs, Outcome, StartError, SystemRequirements};
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// A driver that panics at some of its keys and counts its connections.
struct Fragile;

static CONNECT_COUNT: AtomicU32 = AtomicU32::new(0);

impl Driver for Fragile {
    const NAME: &'static str = "fragile";
    const OPERATIONS: &'static str = "panic_at_seven, panic_always, stop, silent_then_stop";

    type Operation = usize;
    type Plan = ();

    fn plan(_: &Config) -> Result<(), ConfigError> {
        Ok(())
    }

    fn system_requirements((): &()) -> SystemRequirements {
        SystemRequirements {
            targets: Vec::new(),
            additional_lists: Vec::new(),
            durability: String::new(),
        }
    }

    fn operation((): &(), term: &Term) -> Option<usize> {
        let known = Self::OPERATIONS.split(", ");
        known.into_iter().position(|name| term.as_atom() == Some(name))
    }

    fn draws_values(_: usize) -> bool {
        false
    }

    async fn connect((): &(), _: WorkerPlace) -> Result<Self, StartError> {
        CONNECT_COUNT.fetch_add(1, Ordering::Relaxed);
        Ok(Self)
    }

    async fn perform(&mut self, (): &(), operation: usize, inputs: &mut Inputs) -> Outcome {
        let Ok(key) = inputs.next_key() else { return Outcome::Stop };
        match (operation, key.integer()) {
            // Bypasses the panic hook: printing a backtrace could take longer than the span in which
            // crashes are counted.
            (0, 7) | (1, _) => resume_unwind(Box::new(format!("at key {}", key.integer()))),
            (2, 4) => Outcome::Stop,
            (3, _) => Outcome::Silent,
            _ => Outcome::Success,
        }
    }
}

fn run(text: &str) -> (RunReport, String) {
    let base = tempfile::tempdir().expect("a directory");
    let mut settings = Settings::default();
    settings.add(Path::new("test.config"), text.as_bytes()).expect(text);
    let config = Config::from_settings(settings).expect(text);
    let directory = RunDirectory::create(base.path(), Some("run")).expect("a run directory");
    let log = Arc::new(RunLog::create(directory.path(), config.log_level).expect("logs"));
    let mut terminal = Terminal::to(Box::new(io::sink()), false);
    let setup = RunSetup { config: &config, directory: &directory, log, terminal: &mut terminal };
    let driver = TypedDriver::<Fragile>::plan(&config).expect(text);
    let report = run_driver(Arc::new(driver), setup).expect(text);
    let crashes = std::fs::read_to_string(directory.path().join("crash.log")).expect("crash.log");
    (report, crashes)
}

const ONE_WORKER: &str = "{mode, max}. {concurrent, 1}. {key_generator, {sequential_int, 20}}.";

#[test]
fn a_crashed_worker_starts_anew_until_there_are_too_many_crashes() {
    // Each incarnation performs keys 0 to 6 and crashes at key 7; its generator starts over.
    let before = CONNECT_COUNT.load(Ordering::Relaxed);
    let (report, crashes) = run(&format!("{ONE_WORKER} {{operations, [{{panic_at_seven, 1}}]}}."));
    assert_eq!(report.end, RunEnd::Crashed);
    assert!(CONNECT_COUNT.load(Ordering::Relaxed) - before >= 6);
    let crash_count = report.total.error_count();
    assert!(crash_count >= 6, "{crash_count}");
    // The end of the run may stop the last incarnation before it crashes.
    let of_the_last = report.total.success_count() - 7 * crash_count;
    assert!(of_the_last <= 7, "{of_the_last} beyond {crash_count} lives");
    let (_, reason) = report.total.errors().keys().next().expect("a reason");
    assert_eq!(reason, &Term::atom("crash"));
    assert_eq!(crashes.lines().count() as u64, crash_count);
    assert!(crashes.contains("worker 1 crashed: at key 7"), "{crashes}");
}

#[test]
fn a_crash_ends_the_run_when_an_error_should() {
    let (report, _) = run(&format!(
        "{ONE_WORKER} {{operations, [{{panic_always, 1}}]}}. {{shutdown_on_error, true}}."
    ));
    assert_eq!(report.end, RunEnd::Crashed);
}

#[test]
fn a_worker_that_stops_is_not_restarted_and_ends_the_run() {
    let (report, _) = run(&format!("{ONE_WORKER} {{operations, [{{stop, 1}}]}}."));
    assert_eq!((report.end, report.total.success_count()), (RunEnd::Completed, 4));
}

#[test]
fn silent_operations_are_counted_nowhere() {
    let (report, _) = run(&format!("{ONE_WORKER} {{operations, [{{silent_then_stop, 1}}]}}."));
    assert!(report.total.is_empty());
}

#[test]
fn operations_are_drawn_by_their_weights() {
    use crate::random::{Random, RandomKind, Seed};
    let mut settings = Settings::default();
    let text =
        b"{operations, [{stop, 1}, {a, panic_always, 0}, {b, panic_at_seven, 3}, {stop, 2}]}.";
    settings.add(Path::new("test.config"), text).expect("terms");
    let config = Config::from_settings(settings).expect("a configuration");
    let (mix, reported) = build_mix(&config.operations);
    let labels: Vec<&str> = reported.iter().map(|one| one.file_label.as_str()).collect();
    assert_eq!(labels, ["stop", "a", "b"], "entries of one label are counted together");
    let mut random = Random::new(RandomKind::Xoshiro, Seed::default(), 1);
    let mut counts = [0_u32; 3];
    (0..6000).for_each(|_| counts[mix.choose(&mut random).reported] += 1);
    assert_eq!(counts[1], 0);
    assert!(counts[0].abs_diff(3000) < 150, "{counts:?}");
}
