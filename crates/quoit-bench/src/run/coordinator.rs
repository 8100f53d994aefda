//! The run as a whole: prepare, connect, release, report, stop.

use std::future::pending;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

use super::control::{Control, Release};
use super::mix::build_mix;
use super::thread::run_thread;
use super::worker::Shared;
use super::{RunEnd, RunError, RunReport, RunSetup};
use crate::config::{Config, RunLength};
use crate::driver::{Driver, StartError};
use crate::measure::{Collector, Window};
use crate::output::{OutputError, Reporter};
use crate::valgen::Sources;

/// How long a run goes on after the failure that ends it.
const SHUTDOWN_PAUSE: Duration = Duration::from_millis(500);

/// Workers whose report of being connected may wait.
const READY_QUEUE: usize = 1024;

type Ready = mpsc::Receiver<(u32, Result<(), StartError>)>;

/// Runs a configuration with one driver.
pub(crate) fn run_driver<D: Driver>(setup: RunSetup<'_>) -> Result<RunReport, RunError> {
    let RunSetup { config, directory, log, terminal } = setup;
    let plan = D::plan(config)?;
    let (mix, operations) =
        build_mix::<D>(&config.operations, &config.settings.place("operations"))?;
    let value_sources = mix
        .operations()
        .any(D::draws_values)
        .then(|| config.value_generator.source_kind())
        .flatten();
    let sources = Sources::prepare(
        &config.source,
        config.key_generator.source_kinds().into_iter().chain(value_sources),
    )?;
    let length = match config.length {
        RunLength::For(length) => Some(length),
        RunLength::Unlimited => None,
    };
    let operation_count = operations.len();
    let mut reporter = Reporter::create(
        directory.path(),
        operations,
        terminal,
        log.clone(),
        config.report_interval,
        length,
    )?;
    let (ready, connected) = mpsc::channel(READY_QUEUE.max(config.worker_count as usize));
    let thread_count = config.thread_count as usize;
    let shared = Arc::new(Shared::<D> {
        plan,
        mix,
        pacing: config.pacing,
        seed: config.seed,
        random_kind: config.random_kind,
        worker_count: config.worker_count,
        shutdown_on_error: config.shutdown_on_error,
        keys: config.key_generator.clone(),
        values: config.value_generator.clone(),
        sources,
        control: Control::new(),
        collector: Arc::new(Collector::new(thread_count, operation_count)),
        log,
        ready,
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(RunError::Thread)?;
    let threads = start_threads(&shared, thread_count)?;
    announce(config, D::NAME, &mut reporter);
    let run = conduct(&shared, config, length, connected, &mut reporter);
    let conducted = runtime.block_on(run);
    shared.control.stop();
    let mut thread_error = None;
    for thread in threads {
        // A thread's own panic is none of a worker's; its counts are lost and so is the run.
        if let Err(error) = thread.join().unwrap_or_else(|_| Err(std::io::Error::other("panic"))) {
            thread_error = Some(error);
        }
    }
    if let Some(error) = thread_error {
        return Err(RunError::Thread(error));
    }
    let Conducted { end, elapsed, rest } = conducted?;
    let (operations, total) = reporter.finish(&rest, elapsed)?;
    Ok(RunReport { directory: directory.path().to_owned(), end, elapsed, operations, total })
}

fn announce(config: &Config, driver: &str, reporter: &mut Reporter<'_>) {
    let (workers, threads) = (config.worker_count, config.thread_count);
    let message = format!("{driver}: {workers} workers on {threads} threads, {}", config.pacing);
    reporter.notice(&message);
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
    /// From the release to the end of the last worker.
    elapsed: Duration,
    /// The last seconds, which nobody has reported yet.
    rest: Vec<(u64, Window)>,
}

/// Waits for all workers to be connected, releases them and reports until they have ended.
async fn conduct<D: Driver>(
    shared: &Shared<D>,
    config: &Config,
    length: Option<Duration>,
    mut connected: Ready,
    reporter: &mut Reporter<'_>,
) -> Result<Conducted, RunError> {
    let mut signals = Signals::listen().map_err(RunError::Thread)?;
    for _ in 0..config.worker_count {
        tokio::select! {
            ready = connected.recv() => match ready {
                Some((_, Ok(()))) => {}
                Some((number, Err(error))) => return Err(RunError::Start { number, error }),
                None => return Err(RunError::StartCrash),
            },
            () = shared.control.end_requested() => return Err(RunError::StartCrash),
            () = signals.next() => {
                let (end, elapsed) = (RunEnd::Interrupted, Duration::ZERO);
                return Ok(Conducted { end, elapsed, rest: Vec::new() });
            }
        }
    }
    let at = Instant::now();
    shared.control.release(Release { at, deadline: length.map(|length| at + length) });
    let mut end = RunEnd::Completed;
    let mut stop_at = None;
    loop {
        if let Some(rest) = report_completed(shared, reporter)? {
            let end = shared.control.requested_end().unwrap_or(end);
            return Ok(Conducted { end, elapsed: at.elapsed(), rest });
        }
        tokio::select! {
            () = shared.collector.changed() => {}
            () = shared.control.end_requested(), if stop_at.is_none() => {
                stop_at = Some(tokio::time::Instant::now() + SHUTDOWN_PAUSE);
            }
            () = until(stop_at), if !shared.control.is_stopping() => shared.control.stop(),
            () = signals.next() => {
                reporter.notice("Interrupted: finishing the operations in flight.");
                end = RunEnd::Interrupted;
                shared.control.stop();
            }
        }
    }
}

/// Hands complete seconds to the reporter. When all threads have finished it gives what is left,
/// which belongs to the end of the run.
fn report_completed<D: Driver>(
    shared: &Shared<D>,
    reporter: &mut Reporter<'_>,
) -> Result<Option<Vec<(u64, Window)>>, OutputError> {
    let completed = shared.collector.take_completed();
    if completed.is_finished {
        return Ok(Some(completed.windows));
    }
    let mut windows = completed.windows.iter().peekable();
    while reporter.seconds_done() < completed.through_second {
        let window = windows.next_if(|(second, _)| *second == reporter.seconds_done());
        reporter.second(window.map(|(_, window)| window))?;
    }
    Ok(None)
}

async fn until(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => pending().await,
    }
}

/// The signals that end a run early.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
