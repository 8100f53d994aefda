//! The run as a whole: prepare, connect, release, report, stop.

use std::future::pending;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use super::beside::{finish_beside, start_beside};
use super::control::{Control, Release};
use super::expectations::{Judgement, Measured};
use super::junit::{JUNIT_FILE, write_junit};
use super::mix::{Mix, build_mix};
use super::read_back::read_back;
use super::recording::{Recorded, Recording};
use super::replaying::Replaying;
use super::schedule::Schedule;
use super::signals::Signals;
use super::summary::{SUMMARY_FILE, SummaryInputs};
use super::thread::run_thread;
use super::worker::Shared;
use super::{RunEnd, RunError, RunReport, RunSetup, expectations, failures, verdict};
use crate::config::{Config, Pacing, RunLength};
use crate::driver::{Driver, StartError, check_verifies};
use crate::measure::{
    ClientLoad, Collector, Gaps, Stall, ThreadLoad, Window, process_cpu_time, stalls,
};
use crate::output::{Reporter, RunDirectory, RunLog, Terminal};
use crate::random::Random;
use crate::valgen::{SourceError, Sources};
use crate::verify::{Verifier, VerifyReport};
use crate::view::ViewPhase;

/// How long a run goes on after the failure that ends it.
const SHUTDOWN_PAUSE: Duration = Duration::from_millis(500);

/// Stalls that are told; all of them are in `summary.json`.
const STALLS_TOLD_MAX: usize = 5;

/// Workers whose report of being connected may wait.
const READY_QUEUE: usize = 1024;

type Ready = mpsc::Receiver<(u32, Result<(), StartError>)>;

/// Runs a configuration with one driver.
pub(crate) fn run_driver<D: Driver>(setup: RunSetup<'_>) -> Result<RunReport, RunError> {
    let RunSetup { config, directory, log, terminal } = setup;
    let board = terminal.servers().clone();
    let plan = D::plan(config)?;
    let (mix, operations) = build_mix::<D>(&plan, &config.operations)?;
    let replay = config.replay.as_ref();
    let replaying = replay.map(|replay| Replaying::open(replay, &mix, &operations)).transpose()?;
    let sources = prepare_sources(config, draws_values::<D>(config, &mix))?;
    let verifier = prepare_verifier::<D>(config, directory)?;
    let length = match config.length {
        RunLength::For(length) => Some(length),
        RunLength::Unlimited => None,
    };
    let operation_count = operations.len();
    let reporter = Reporter::create(
        directory.path(),
        operations.clone(),
        &mut *terminal,
        log.clone(),
        config.report_interval,
        length,
    )?;
    let mut recording = Recording::new(reporter, directory.path().to_owned(), operations, length);
    let (ready, connected) = mpsc::channel(READY_QUEUE.max(config.worker_count as usize));
    let thread_count = config.thread_count as usize;
    let shared = Arc::new(Shared::<D> {
        plan,
        mix,
        pacing: config.pacing,
        schedule: schedule(config),
        replaying,
        seed: config.seed,
        random_kind: config.random_kind,
        worker_count: config.worker_count,
        shutdown_on_error: config.shutdown_on_error,
        session: config.session.clone(),
        script_faults: config.script_faults.clone(),
        keys: config.key_generator.clone(),
        inserted: config.inserted_keys(),
        values: config.value_generator.clone(),
        sources,
        verifier,
        control: Control::new(),
        collector: Arc::new(Collector::new(thread_count, operation_count)),
        log,
        ready,
    });
    prepare_system::<D>(&shared.plan, &mut recording)?;
    let threads = start_threads(&shared, thread_count)?;
    let beside = start_beside(config, directory.path(), &shared.control.phases(), &board);
    announce(config, D::NAME, &mut recording);
    let conducted = drive(&shared, config, length, connected, &mut recording);
    shared.control.stop();
    join(threads)?;
    finish_beside(beside, |text| recording.notice(&format!("warning: {text}")));
    let conducted = conducted?;
    tell_faults(&shared, &mut recording);
    let verification = finish_verification(&shared, &mut recording);
    let of_threads = OfThreads {
        process_cpu: conducted.process_cpu,
        threads: shared.collector.loads(),
        gaps: shared.collector.gaps(),
    };
    let report = conclude(config, directory, conducted, of_threads, verification, recording);
    tell(&report, terminal, &shared.log);
    Ok(report)
}

/// Whether an operation that a worker may perform draws values: a session also those without a weight.
fn draws_values<D: Driver>(config: &Config, mix: &Mix<D::Operation>) -> bool {
    match config.session {
        Some(_) => mix.all_operations().any(D::draws_values),
        None => mix.operations().any(D::draws_values),
    }
}

/// Tells the faults of a trace or a script that have ended the run.
fn tell_faults<D: Driver>(shared: &Shared<D>, recording: &mut Recording<'_>) {
    let of_trace = shared.replaying.as_ref().and_then(Replaying::fault);
    let of_script = shared.script_faults.get().map(|fault| fault.to_string());
    for fault in of_trace.into_iter().chain(of_script) {
        recording.notice(&format!("error: {fault}"));
    }
}

/// Tells a terminal and the log what a run has shown beside its figures.
fn tell(report: &RunReport, terminal: &mut Terminal, log: &RunLog) {
    if let Some(warning) = report.client.warning() {
        log.warning(&warning);
        terminal.line(&warning);
    }
    tell_stalls(&report.stalls, terminal, log);
    failures::tell(report, terminal, log);
    expectations::tell(&report.judgements, terminal, log);
    if let Some(verification) = &report.verification {
        verdict::tell(verification, terminal, log);
    }
}

/// Writes what is left to be written and gives the report.
fn conclude(
    config: &Config,
    directory: &RunDirectory,
    conducted: Conducted,
    of_threads: OfThreads,
    verification: Option<VerifyReport>,
    mut recording: Recording<'_>,
) -> RunReport {
    let Conducted { end, started_at, elapsed, unstarted, rest, .. } = conducted;
    if unstarted > 0 {
        recording.notice(&format!(
            "{unstarted} operations were due and never started: the schedule could not be kept"
        ));
    }
    let mut recorded = recording.finish(&rest, elapsed, end);
    let OfThreads { process_cpu, threads, gaps } = of_threads;
    let noise_floor = recorded.total.breakdown().canary().latencies();
    let client = ClientLoad::new(process_cpu, threads, noise_floor);
    let offered_per_s = match config.pacing {
        Pacing::Open { rate_per_s, .. } => Some(rate_per_s),
        Pacing::Max | Pacing::Rate(_) | Pacing::Trace(_) => None,
    };
    let stalls = stalls(&gaps, elapsed, recorded.total.success_count(), offered_per_s);
    let measured = Measured {
        operations: &recorded.operations,
        total: &recorded.total,
        rates_per_s: &recorded.rates_per_s,
        stalls: &stalls,
        unstarted,
    };
    let judgements: Vec<Judgement> =
        config.expectations.iter().map(|expectation| expectation.judge(&measured)).collect();
    if !judgements.is_empty()
        && let Err(error) = write_junit(directory.path(), &judgements, elapsed)
    {
        recorded.lost.push(format!("{JUNIT_FILE} ({error})"));
    }
    let inputs = SummaryInputs {
        config,
        started_at,
        end,
        elapsed,
        recorded: &recorded,
        unstarted,
        client: &client,
        stalls: &stalls,
        judgements: &judgements,
        verification: verification.as_ref(),
    };
    if let Err(error) = inputs.summary().write(directory.path()) {
        recorded.lost.push(format!("{SUMMARY_FILE} ({error})"));
    }
    let directory = directory.path().to_owned();
    let Recorded { operations, total, lost, .. } = recorded;
    RunReport {
        directory,
        end,
        elapsed,
        operations,
        total,
        unstarted,
        client,
        stalls,
        judgements,
        verification,
        lost,
    }
}

/// Measurements of the threads of a run, of themselves.
struct OfThreads {
    process_cpu: Duration,
    threads: Vec<ThreadLoad>,
    gaps: Vec<Gaps>,
}

/// Tells a terminal and the log the longest times without a success.
fn tell_stalls(stalls: &[Stall], terminal: &mut Terminal, log: &RunLog) {
    let mut lines: Vec<String> = stalls.iter().take(STALLS_TOLD_MAX).map(Stall::text).collect();
    let left = stalls.len().saturating_sub(STALLS_TOLD_MAX);
    if left > 0 {
        lines.push(format!("  and {left} shorter ones: summary.json has all of them"));
    }
    for line in lines {
        log.warning(&line);
        terminal.line(&line);
    }
}

/// Makes the blocks of bytes that the generators draw from.
fn prepare_sources(config: &Config, draws_values: bool) -> Result<Sources, SourceError> {
    let of_values = if draws_values { config.value_generator.source_kinds() } else { Vec::new() };
    let of_keys = config.key_generator.source_kinds();
    Sources::prepare(&config.source, of_keys.into_iter().chain(of_values))
}

/// The verifier of a run that is to be verified.
fn prepare_verifier<D: Driver>(
    config: &Config,
    directory: &RunDirectory,
) -> Result<Option<Arc<Verifier>>, RunError> {
    check_verifies::<D>(config)?;
    let verifier = config.verify.map(|settings| Verifier::new(settings, directory.path()));
    verifier.transpose().map_err(RunError::WrittenKeys)
}

/// Reads back what was written, and gives what verification has found in all.
fn finish_verification<D: Driver>(
    shared: &Arc<Shared<D>>,
    recording: &mut Recording<'_>,
) -> Option<VerifyReport> {
    let verifier = shared.verifier.as_ref()?;
    let key_count = verifier.report().keys_written;
    recording.notice(&format!("Reading back {key_count} written keys."));
    if let Err(error) = read_back(shared, verifier) {
        recording.notice(&error.to_string());
        verifier.note_unread(key_count);
    }
    Some(verifier.report())
}

/// Lets the driver prepare the system under test, and tells what there is to tell.
fn prepare_system<D: Driver>(
    plan: &D::Plan,
    recording: &mut Recording<'_>,
) -> Result<(), RunError> {
    let prepared = event_loop()?.block_on(D::prepare(plan));
    for notice in D::notices(plan).iter().chain(&prepared) {
        recording.notice(&format!("notice: {notice}"));
    }
    Ok(())
}

fn event_loop() -> Result<Runtime, RunError> {
    Builder::new_current_thread().enable_all().build().map_err(RunError::Thread)
}

/// The arrivals of an open loop. They are drawn from a stream of their own.
fn schedule(config: &Config) -> Option<Schedule> {
    let Pacing::Open { rate_per_s, arrivals } = config.pacing else { return None };
    let random = Random::new(config.random_kind, config.seed, 0);
    Some(Schedule::new(rate_per_s, arrivals, random))
}

/// Conducts the run on an event loop of its own.
fn drive<D: Driver>(
    shared: &Shared<D>,
    config: &Config,
    length: Option<Duration>,
    connected: Ready,
    recording: &mut Recording<'_>,
) -> Result<Conducted, RunError> {
    event_loop()?.block_on(conduct(shared, config, length, connected, recording))
}

/// Waits for all threads. A thread's own panic is none of a worker's; its counts are lost and so
/// is the run.
fn join(threads: Vec<JoinHandle<std::io::Result<()>>>) -> Result<(), RunError> {
    let mut joined = Ok(());
    for thread in threads {
        if let Err(error) = thread.join().unwrap_or_else(|_| Err(std::io::Error::other("panic"))) {
            joined = Err(RunError::Thread(error));
        }
    }
    joined
}

fn announce(config: &Config, driver: &str, recording: &mut Recording<'_>) {
    let (workers, threads) = (config.worker_count, config.thread_count);
    let message = format!("{driver}: {workers} workers on {threads} threads, {}", config.pacing);
    recording.notice(&message);
}

/// Starts the threads; worker i runs on thread (i - 1) mod count.
fn start_threads<D: Driver>(
    shared: &Arc<Shared<D>>,
    thread_count: usize,
) -> Result<Vec<JoinHandle<std::io::Result<()>>>, RunError> {
    let mut threads = Vec::new();
    for thread in 0..thread_count {
        let numbers: Vec<u32> =
            (1..=shared.worker_count).skip(thread).step_by(thread_count).collect();
        let of_thread = shared.clone();
        let started =
            std::thread::Builder::new().name(format!("bench-{thread}")).spawn(move || {
                let _finish = Finish { shared: of_thread.clone(), thread };
                let ran = run_thread(&of_thread, thread, numbers);
                if ran.is_err() {
                    of_thread.control.request_end(RunEnd::Crashed);
                }
                ran
            });
        match started {
            Ok(handle) => threads.push(handle),
            Err(error) => {
                shared.control.stop();
                return Err(RunError::Thread(error));
            }
        }
    }
    Ok(threads)
}

/// Tells the collector that a thread is done, however it ends.
struct Finish<D: Driver> {
    shared: Arc<Shared<D>>,
    thread: usize,
}

impl<D: Driver> Drop for Finish<D> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.shared.control.request_end(RunEnd::Crashed);
        }
        self.shared.collector.finish(self.thread);
    }
}

/// How the workers' time went.
struct Conducted {
    end: RunEnd,
    /// When the measurement started.
    started_at: jiff::Timestamp,
    /// From the start of the measurement to the end of the last worker.
    elapsed: Duration,
    /// Processor time of the process from the release on.
    process_cpu: Duration,
    /// Arrivals of an open loop that were due and never started.
    unstarted: u64,
    /// The last seconds, which were not reported yet.
    rest: Vec<(u64, Window)>,
}

impl Conducted {
    /// A run that was interrupted before its release.
    fn nothing() -> Self {
        Self {
            end: RunEnd::Interrupted,
            started_at: jiff::Timestamp::now(),
            elapsed: Duration::ZERO,
            process_cpu: Duration::ZERO,
            unstarted: 0,
            rest: Vec::new(),
        }
    }
}

/// Waits for all workers to be connected, releases them and reports until they have ended.
async fn conduct<D: Driver>(
    shared: &Shared<D>,
    config: &Config,
    length: Option<Duration>,
    mut connected: Ready,
    recording: &mut Recording<'_>,
) -> Result<Conducted, RunError> {
    let mut signals = Signals::listen().map_err(RunError::Thread)?;
    recording.enter_phase(ViewPhase::Connecting);
    if !all_connected(shared, config.worker_count, &mut connected, &mut signals).await? {
        return Ok(Conducted::nothing());
    }
    let started_at = SystemTime::now() + config.warmup;
    recording.enter_phase(match config.warmup.is_zero() {
        true => ViewPhase::Measuring,
        false => ViewPhase::WarmingUp,
    });
    if !config.warmup.is_zero() {
        recording.notice(&format!("Warming up for {:?}.", config.warmup));
    }
    recording.begin(started_at)?;
    let cpu_before = process_cpu_time();
    let at = Instant::now();
    let measured_from = at + config.warmup;
    let deadline = length.map(|length| measured_from + length);
    let release = Release { at, measured_from, deadline };
    shared.control.release(release);
    let mut end = RunEnd::Completed;
    let mut stop_at = None;
    let mut stopped_at = None;
    loop {
        let completed = shared.collector.take_completed();
        if completed.is_finished {
            let over_at = release.end_by(stopped_at.unwrap_or_else(Instant::now));
            return Ok(Conducted {
                end: shared.control.requested_end().unwrap_or(end),
                started_at: jiff::Timestamp::try_from(started_at).unwrap_or_default(),
                elapsed: measured_from.elapsed(),
                unstarted: shared.schedule.as_ref().map_or(0, |it| it.unstarted(over_at - at)),
                process_cpu: process_cpu_time().saturating_sub(cpu_before),
                rest: completed.windows,
            });
        }
        recording.set_replayed(shared.replaying.as_ref().and_then(Replaying::progress));
        recording.take(&completed.windows, completed.through_second);
        if config.aborts_early && stop_at.is_none() {
            end_if_missed(shared, config, recording);
        }
        tokio::select! {
            () = shared.collector.changed() => {}
            () = shared.control.end_requested(), if stop_at.is_none() => {
                stop_at = Some(tokio::time::Instant::now() + SHUTDOWN_PAUSE);
            }
            () = until(stop_at), if !shared.control.is_stopping() => {
                recording.enter_phase(ViewPhase::Ending);
                stopped_at.get_or_insert_with(Instant::now);
                shared.control.stop();
            }
            () = signals.next() => {
                recording.enter_phase(ViewPhase::Ending);
                recording.notice("Interrupted: finishing the operations in flight.");
                end = RunEnd::Interrupted;
                stopped_at.get_or_insert_with(Instant::now);
                shared.control.stop();
            }
        }
    }
}

/// Waits until all workers are connected; false when a signal comes before.
async fn all_connected<D: Driver>(
    shared: &Shared<D>,
    worker_count: u32,
    connected: &mut Ready,
    signals: &mut Signals,
) -> Result<bool, RunError> {
    for _ in 0..worker_count {
        tokio::select! {
            ready = connected.recv() => match ready {
                Some((_, Ok(()))) => {}
                Some((number, Err(error))) => return Err(RunError::Start { number, error }),
                None => return Err(RunError::StartCrash),
            },
            () = shared.control.end_requested() => return Err(RunError::StartCrash),
            () = signals.next() => return Ok(false),
        }
    }
    Ok(true)
}

/// Asks for the end of a run whose seconds so far miss an expectation.
fn end_if_missed<D: Driver>(shared: &Shared<D>, config: &Config, recording: &mut Recording<'_>) {
    let missed = recording.missed_so_far(&config.expectations);
    if let Some(Judgement { expectation, measured, .. }) = missed {
        recording.notice(&format!("Stopped early: expected {expectation}, and it is {measured}."));
        shared.control.request_end(RunEnd::Missed);
    }
}

async fn until(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => pending().await,
    }
}
