//! The course of a run: connect all workers, release them together, record their seconds, stop them.

use std::future::pending;
use std::time::{Duration, Instant, SystemTime};

use tokio::sync::mpsc;

use super::control::{Control, Release};
use super::coordinator::event_loop;
use super::expectations::Judgement;
use super::members::RunMembers;
use super::recording::Recording;
use super::signals::Signals;
use super::{RunEnd, RunError};
use crate::config::Config;
use crate::measure::{Gaps, ThreadLoad, Window};
use crate::view::ViewPhase;

/// Time for which a run continues after the failure that ends it.
const SHUTDOWN_PAUSE: Duration = Duration::from_millis(500);

/// Receives one message for each member of the run: that it is connected, or why it is not.
pub(super) type Ready = mpsc::Receiver<Result<(), RunError>>;

/// Conducts the run on an event loop of its own.
pub(super) fn drive(
    members: &dyn RunMembers,
    config: &Config,
    length: Option<Duration>,
    connected: Ready,
    recording: &mut Recording<'_>,
) -> Result<RunOutcome, RunError> {
    event_loop()?.block_on(conduct(members, config, length, connected, recording))
}

/// The outcome of a run before its report.
pub(super) struct RunOutcome {
    pub(super) end: RunEnd,
    /// Time at which the measurement started.
    pub(super) started_at: jiff::Timestamp,
    /// Time from the start of the measurement to the end of the last worker.
    pub(super) elapsed: Duration,
    /// Processor time of the load generator since the release.
    pub(super) process_cpu: Duration,
    /// Use of time of each of its threads.
    pub(super) loads: Vec<ThreadLoad>,
    /// Times without a successful operation.
    pub(super) gaps: Vec<Gaps>,
    /// Number of arrivals of an open loop that were due and never started.
    pub(super) unstarted: u64,
    /// The last seconds, which are not recorded yet.
    pub(super) rest: Vec<(u64, Window)>,
}

impl RunOutcome {
    /// The outcome of a run that a signal ended before its release.
    fn nothing(members: &dyn RunMembers) -> Self {
        Self {
            end: RunEnd::Interrupted,
            started_at: jiff::Timestamp::now(),
            elapsed: Duration::ZERO,
            process_cpu: Duration::ZERO,
            loads: members.loads(),
            gaps: Vec::new(),
            unstarted: 0,
            rest: Vec::new(),
        }
    }
}

/// Waits until all workers or agents are connected, releases them, and records their seconds until they
/// have ended.
async fn conduct(
    members: &dyn RunMembers,
    config: &Config,
    length: Option<Duration>,
    mut connected: Ready,
    recording: &mut Recording<'_>,
) -> Result<RunOutcome, RunError> {
    let mut signals = Signals::listen().map_err(RunError::Thread)?;
    recording.enter_phase(ViewPhase::Connecting);
    if !all_connected(members, &mut connected, &mut signals).await? {
        return Ok(RunOutcome::nothing(members));
    }
    let control = members.control();
    let notice_before = members.notice_before_start();
    let started_at = SystemTime::now() + notice_before + config.warmup;
    enter_first_phase(config, recording);
    recording.begin(started_at)?;
    let cpu_before = members.process_cpu();
    let at = Instant::now() + notice_before;
    let measured_from = at + config.warmup;
    let deadline = length.map(|length| measured_from + length);
    let release = Release { at, measured_from, deadline };
    control.release(release);
    let mut end = RunEnd::Completed;
    let mut stop_at = None;
    let mut stopped_at = None;
    loop {
        let completed = members.collector().take_completed();
        control.take_reasons().iter().for_each(|reason| recording.notice(reason));
        if completed.is_finished {
            let over_at = release.end_by(stopped_at.unwrap_or_else(Instant::now));
            return Ok(RunOutcome {
                end: control.requested_end().unwrap_or(end),
                started_at: jiff::Timestamp::try_from(started_at).unwrap_or_default(),
                elapsed: members.elapsed(measured_from),
                unstarted: members.unstarted(over_at.saturating_duration_since(at)),
                process_cpu: members.process_cpu().saturating_sub(cpu_before),
                loads: members.loads(),
                gaps: members.gaps(),
                rest: completed.windows,
            });
        }
        recording.set_replayed(members.replayed());
        recording.take(&completed.windows, completed.through_second);
        if config.aborts_early && stop_at.is_none() {
            end_if_missed(control, config, recording);
        }
        tokio::select! {
            () = members.collector().changed() => {}
            () = control.end_requested(), if stop_at.is_none() => {
                stop_at = Some(tokio::time::Instant::now() + SHUTDOWN_PAUSE);
            }
            () = until(stop_at), if !control.is_stopping() => {
                recording.enter_phase(ViewPhase::Ending);
                stopped_at.get_or_insert_with(Instant::now);
                control.stop();
            }
            () = signals.next() => {
                recording.enter_phase(ViewPhase::Ending);
                recording.notice("Interrupted: finishing the operations in flight.");
                end = RunEnd::Interrupted;
                stopped_at.get_or_insert_with(Instant::now);
                control.stop();
            }
        }
    }
}

/// Enters the warm-up, or the measurement if the run has no warm-up.
fn enter_first_phase(config: &Config, recording: &mut Recording<'_>) {
    if config.warmup.is_zero() {
        recording.enter_phase(ViewPhase::Measuring);
    } else {
        recording.enter_phase(ViewPhase::WarmingUp);
        recording.notice(&format!("Warming up for {:?}.", config.warmup));
    }
}

/// Waits until all members are connected. Returns false if a signal comes first.
async fn all_connected(
    members: &dyn RunMembers,
    connected: &mut Ready,
    signals: &mut Signals,
) -> Result<bool, RunError> {
    for _ in 0..members.member_count() {
        tokio::select! {
            ready = connected.recv() => match ready {
                Some(Ok(())) => {}
                Some(Err(error)) => return Err(error),
                None => return Err(RunError::StartCrash),
            },
            () = members.control().end_requested() => return Err(RunError::StartCrash),
            () = signals.next() => return Ok(false),
        }
    }
    Ok(true)
}

/// Requests the end of the run if the seconds so far miss an expectation.
fn end_if_missed(control: &Control, config: &Config, recording: &mut Recording<'_>) {
    let missed = recording.missed_so_far(&config.expectations);
    if let Some(Judgement { expectation, measured, .. }) = missed {
        recording.notice(&format!("Stopped early: expected {expectation}, and it is {measured}."));
        control.request_end(RunEnd::Missed);
    }
}

async fn until(instant: Option<tokio::time::Instant>) {
    match instant {
        Some(instant) => tokio::time::sleep_until(instant).await,
        None => pending().await,
    }
}
