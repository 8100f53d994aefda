//! A run from beginning to end: prepare, connect, release, record, stop, conclude.

use std::sync::Arc;

use tokio::runtime::{Builder, Runtime};
use tokio::sync::mpsc;

use super::agents::{AgentSummary, RunAgents};
use super::background_tasks::{finish_background_tasks, start_background_tasks};
use super::conclude::{conclude, print_report};
use super::conduct::drive;
use super::control::Control;
use super::members::RunMembers as _;
use super::mix::{Mix, build_mix};
use super::planned_driver::PlannedDriver;
use super::read_back::read_back;
use super::recording::Recording;
use super::replaying::TraceReplay;
use super::schedule::Schedule;
use super::shared::Shared;
use super::threads::{join, start_threads};
use super::{ReportedOperation, RunError, RunReport, RunSetup};
use crate::config::{AgentPlan, Config, Pacing};
use crate::measure::{Collector, CollectorSize};
use crate::output::{RunDirectory, RunLog};
use crate::random::Random;
use crate::valgen::{SourceError, Sources};
use crate::verify::{Verifier, VerifyReport};

/// Capacity of the queue of readiness reports.
const READY_QUEUE: usize = 1024;

/// Runs a configuration with the driver that was planned for it.
pub(crate) fn run_driver(
    driver: Arc<dyn PlannedDriver>,
    setup: RunSetup<'_>,
) -> Result<RunReport, RunError> {
    match &setup.config.agents {
        Some(agents) => run_with_agents(&*driver, setup, agents),
        None => run_here(driver, setup),
    }
}

/// Runs all workers in this process.
fn run_here(driver: Arc<dyn PlannedDriver>, setup: RunSetup<'_>) -> Result<RunReport, RunError> {
    let RunSetup { config, directory, log, terminal } = setup;
    let board = terminal.servers().clone();
    let (mix, operations) = build_mix(&config.operations);
    let verifier = prepare_verifier(config, directory)?;
    let (ready, connected) = mpsc::channel(READY_QUEUE.max(config.worker_count as usize));
    let prepared = Prepared { driver, mix, operations: &operations, verifier };
    let shared = prepared.shared(config, log.clone(), ready)?;
    let length = config.length.bound();
    let mut recording =
        Recording::create(config, directory, &mut *terminal, log.clone(), operations.clone())?;
    prepare_system(&*shared.driver, &mut recording)?;
    let threads = start_threads(&shared, config.thread_count as usize)?;
    let background =
        start_background_tasks(config, directory.path(), &shared.control.phases(), &board);
    announce(config, shared.driver.name(), &mut recording);
    let conducted = drive(&*shared, config, length, connected, &mut recording);
    shared.control.stop();
    join(threads)?;
    finish_background_tasks(background, |text| recording.notice(&format!("warning: {text}")));
    let conducted = conducted?;
    shared.faults().iter().for_each(|fault| recording.notice(&format!("error: {fault}")));
    let verification = finish_verification(&shared, &mut recording);
    let report = conclude(config, directory, conducted, Vec::new(), verification, recording);
    print_report(&report, terminal, &log);
    Ok(report)
}

/// Runs all workers on agents.
fn run_with_agents(
    driver: &dyn PlannedDriver,
    setup: RunSetup<'_>,
    agents: &AgentPlan,
) -> Result<RunReport, RunError> {
    let RunSetup { config, directory, log, terminal } = setup;
    let board = terminal.servers().clone();
    let (_, operations) = build_mix(&config.operations);
    let (ready, connected) = mpsc::channel(READY_QUEUE);
    let run_agents = Arc::new(RunAgents::new(config, agents, operations.len())?);
    let length = config.length.bound();
    let mut recording =
        Recording::create(config, directory, &mut *terminal, log.clone(), operations)?;
    prepare_system(driver, &mut recording)?;
    let conversation = run_agents.start(config, agents, ready)?;
    let background =
        start_background_tasks(config, directory.path(), &run_agents.control().phases(), &board);
    announce(config, driver.name(), &mut recording);
    let conducted = drive(&*run_agents, config, length, connected, &mut recording);
    run_agents.control().stop();
    join(vec![conversation])?;
    finish_background_tasks(background, |text| recording.notice(&format!("warning: {text}")));
    let conducted = conducted?;
    let summaries: Vec<AgentSummary> = run_agents.summaries();
    summaries.iter().for_each(|agent| recording.notice(&agent.text()));
    let report = conclude(config, directory, conducted, summaries, None, recording);
    print_report(&report, terminal, &log);
    Ok(report)
}

/// The driver of a run, and the data that accompanies it.
pub(super) struct Prepared<'a> {
    pub(super) driver: Arc<dyn PlannedDriver>,
    pub(super) mix: Mix,
    pub(super) operations: &'a [ReportedOperation],
    pub(super) verifier: Option<Arc<Verifier>>,
}

impl Prepared<'_> {
    /// Builds the state that the workers of this process share. `ready` receives one message from each
    /// worker when it is connected.
    ///
    /// # Errors
    ///
    /// When a trace or the source of values can't be read.
    pub(super) fn shared(
        self,
        config: &Config,
        log: Arc<RunLog>,
        ready: mpsc::Sender<Result<(), RunError>>,
    ) -> Result<Arc<Shared>, RunError> {
        let Self { driver, mix, operations, verifier } = self;
        let share = config.share;
        let replay = config.replay.as_ref();
        let replaying =
            replay.map(|replay| TraceReplay::open(replay, share, &mix, operations)).transpose()?;
        let sources = prepare_sources(config, draws_values(config, &mix, &*driver))?;
        let thread_count = config.thread_count as usize;
        Ok(Arc::new(Shared {
            driver,
            mix,
            pacing: config.pacing,
            schedule: schedule(config),
            replaying,
            seed: config.seed,
            random_kind: config.random_kind,
            worker_count: config.worker_count,
            share,
            shutdown_on_error: config.shutdown_on_error,
            session: config.session.clone(),
            script_faults: config.script_faults.clone(),
            keys: config.key_generator.clone(),
            inserted: config.inserted_keys(),
            values: config.value_generator.clone(),
            sources,
            verifier,
            control: Control::new(),
            collector: Arc::new(Collector::new(CollectorSize {
                thread_count,
                operation_count: operations.len(),
            })),
            log,
            ready,
        }))
    }
}

/// True if a worker can perform an operation that draws values. A session can also name operations of
/// weight 0.
fn draws_values(config: &Config, mix: &Mix, driver: &dyn PlannedDriver) -> bool {
    match config.session {
        Some(_) => mix.all_operations().any(|operation| driver.draws_values(operation)),
        None => mix.operations().any(|operation| driver.draws_values(operation)),
    }
}

/// Makes the blocks of bytes that the generators cut keys and values from.
fn prepare_sources(config: &Config, draws_values: bool) -> Result<Sources, SourceError> {
    let of_values = if draws_values { config.value_generator.source_kinds() } else { Vec::new() };
    let of_keys = config.key_generator.source_kinds();
    Sources::prepare(&config.source, of_keys.into_iter().chain(of_values))
}

/// The verifier, if the run verifies.
fn prepare_verifier(
    config: &Config,
    directory: &RunDirectory,
) -> Result<Option<Arc<Verifier>>, RunError> {
    let verifier = config.verify.map(|settings| Verifier::new(settings, directory.path()));
    verifier.transpose().map_err(RunError::WrittenKeys)
}

/// Reads back all written keys, and returns all findings of the verification.
fn finish_verification(shared: &Shared, recording: &mut Recording<'_>) -> Option<VerifyReport> {
    let verifier = shared.verifier.as_ref()?;
    let key_count = verifier.report().keys_written;
    recording.notice(&format!("Reading back {key_count} written keys."));
    if let Err(error) = read_back(shared, verifier) {
        recording.notice(&error.to_string());
        verifier.note_unread(key_count);
    }
    Some(verifier.report())
}

/// Lets the driver prepare the system under test, and prints the driver's notices.
fn prepare_system(
    driver: &dyn PlannedDriver,
    recording: &mut Recording<'_>,
) -> Result<(), RunError> {
    let prepared = event_loop()?.block_on(driver.prepare());
    for notice in driver.notices().iter().chain(&prepared) {
        recording.notice(&format!("notice: {notice}"));
    }
    Ok(())
}

pub(super) fn event_loop() -> Result<Runtime, RunError> {
    Builder::new_current_thread().enable_all().build().map_err(RunError::Thread)
}

/// The arrivals of an open loop. They have a random stream of their own, which no worker uses.
fn schedule(config: &Config) -> Option<Schedule> {
    let Pacing::Open { rate_per_s, arrivals } = config.pacing else { return None };
    let random = Random::new(config.random_kind, config.seed, 0);
    Some(Schedule::new(rate_per_s, arrivals, config.share, random))
}

fn announce(config: &Config, driver: &str, recording: &mut Recording<'_>) {
    let (workers, threads) = (config.worker_count, config.thread_count);
    let place = match &config.agents {
        Some(agents) => format!("{} agents", agents.addresses.len()),
        None => format!("{threads} threads"),
    };
    let message = format!("{driver}: {workers} workers on {place}, {}", config.pacing);
    recording.notice(&message);
}
