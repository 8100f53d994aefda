//! A worker: performs operations one after another and records each.
//!
//! Only `work` and `connect` know the type of the driver. All other steps are compiled once for all drivers.

use std::cell::{Cell, RefCell};
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::alarm::Alarm;
use super::control::{Phase, Release, released};
use super::mix::{MixEntry, OperationNumber};
use super::pauses::Pauses;
use super::replaying::TakenOperation;
use super::shared::{Shared, ThreadState, WorkerTask};
use super::{RunEnd, RunError};
use crate::config::Pacing;
use crate::driver::{Driver, Inputs, Outcome, StartError};
use crate::measure::{OperationTimes, Recorder};
use crate::random::Random;
use crate::script::{Session, SessionStep};
use crate::sent::take_sent;
use crate::worker_place::WorkerPlace;

/// Connects, waits for the release, and performs operations until the run ends. `operations` has the driver's
/// operation for each number.
pub(super) async fn work<D: Driver>(plan: &D::Plan, operations: &[D::Operation], task: WorkerTask) {
    let place = WorkerPlace { number: task.number, count: task.shared.worker_count };
    let Some(mut driver) = connect::<D>(plan, &task, place).await else { return };
    let Some(mut course) = WorkerCourse::begin(&task, place).await else { return };
    while let Some(next) = course.next().await {
        let operation = next.operation.of(operations);
        let started = Instant::now();
        let outcome = driver.perform(plan, operation, &mut course.inputs).await;
        if course.conclude(&next, started, outcome).is_break() {
            return;
        }
        // Yield from time to time: a driver that never waits must not starve the other workers of its
        // thread.
        tokio::task::consume_budget().await;
    }
}

/// Connects a worker, or reports why it cannot.
async fn connect<D: Driver>(plan: &D::Plan, task: &WorkerTask, place: WorkerPlace) -> Option<D> {
    let _permit = task.local.connecting.acquire().await;
    match D::connect(plan, place).await {
        Ok(driver) => Some(driver),
        Err(error) => {
            report_start_error(&task.shared, place.number, error).await;
            None
        }
    }
}

async fn report_start_error(shared: &Shared, number: u32, error: StartError) {
    shared.log.error(&format!("worker {number}: {error}"));
    let _ = shared.ready.send(Err(RunError::Start { number, error })).await;
}

/// The course of a released worker through its operations.
struct WorkerCourse<'a> {
    shared: &'a Shared,
    local: &'a ThreadState,
    recorder: &'a RefCell<Recorder>,
    at_operation: &'a Cell<usize>,
    inputs: Inputs,
    phases: watch::Receiver<Phase>,
    release: Release,
    pauses: Pauses,
    session: Option<Session>,
    /// The last time that was read from the clock: the end of the last operation or of a wait after it.
    now: Instant,
    /// True if the last operation did not fail.
    was_success: bool,
}

/// The operation that a worker performs next.
struct NextOperation {
    operation: OperationNumber,
    /// Index of the reported operation under which it is counted.
    reported: usize,
    /// Time at which it is due; `None` if it is not due at a certain time.
    due: Option<Instant>,
    /// Time at which the worker was free for it, if it is due at a certain time.
    free: Option<Instant>,
}

impl<'a> WorkerCourse<'a> {
    /// Reports that the worker is connected, and waits for its release. Returns `None` if the run ends
    /// before.
    async fn begin(task: &'a WorkerTask, place: WorkerPlace) -> Option<Self> {
        let (shared, local) = (&*task.shared, &*task.local);
        let inputs = inputs_of(shared, place);
        let mut phases = shared.control.phases();
        // Nobody receives this from a worker that restarts after a crash.
        let _ = shared.ready.try_send(Ok(()));
        let release = released(&mut phases).await?;
        let recorder = local.recorder(shared, release);
        // Requests that the driver sent while it connected belong to no operation.
        take_sent();
        let now = Instant::now();
        let (pauses, session) = (Pauses::default(), session_of(shared, place));
        let (at_operation, was_success) = (&*task.at_operation, true);
        Some(Self {
            shared,
            local,
            recorder,
            at_operation,
            inputs,
            phases,
            release,
            pauses,
            session,
            now,
            was_success,
        })
    }

    /// Takes the next operation and waits until it may start. Returns `None` if the worker must end.
    async fn next(&mut self) -> Option<NextOperation> {
        let shared = self.shared;
        let taken = next_of_trace(shared).ok()?;
        let due = match (&shared.schedule, shared.pacing) {
            (Some(schedule), _) => Some(self.release.at + schedule.take()),
            (None, Pacing::Rate(per_second)) => {
                let drawn_s = self.inputs.random().exponential(1.0 / per_second);
                let until = self.pauses.end_of_next(Instant::now(), drawn_s);
                self.wait(until).await;
                self.pauses.ended(self.now.saturating_duration_since(until));
                None
            }
            (None, _) => taken.as_ref().and_then(|taken| Some(self.release.at + taken.due?)),
        };
        let step = self.next_of_session().ok()?;
        if let Some(pause) = step.as_ref().map(|step| step.pause).filter(|it| !it.is_zero()) {
            self.wait(self.now + pause).await;
        }
        let free = due.map(|_| self.now);
        if let Some(due) = due {
            self.wait(due).await;
        }
        if is_over(shared, self.release, due, self.now) {
            return None;
        }
        let entry = next_entry(shared, taken, step.map(|step| step.entry), &mut self.inputs);
        self.at_operation.set(entry.reported);
        self.inputs.begin_operation(entry.inserts);
        let MixEntry { operation, reported, .. } = entry;
        Some(NextOperation { operation, reported, due, free })
    }

    /// Records an operation that has just ended. Breaks if the worker must end.
    fn conclude(
        &mut self,
        performed: &NextOperation,
        started: Instant,
        outcome: Outcome,
    ) -> ControlFlow<()> {
        self.now = Instant::now();
        self.inputs.end_operation();
        let sent = take_sent().unwrap_or(started);
        let NextOperation { reported, due, free, .. } = *performed;
        let free = free.unwrap_or(started);
        let moments = OperationTimes { due, free, started, sent, ended: self.now };
        if matches!(outcome, Outcome::Stop) {
            end_at_fault(self.shared);
            return ControlFlow::Break(());
        }
        self.was_success = !matches!(outcome, Outcome::Failure(_));
        record(self.shared, self.recorder, reported, &moments, outcome);
        ControlFlow::Continue(())
    }

    /// Waits until `until`, or until the run ends if that is earlier.
    async fn wait(&mut self, until: Instant) {
        wait(&self.local.alarm, until, self.release, &mut self.phases).await;
        self.now = Instant::now();
    }

    /// The next operation of the session; `Ok(None)` in a run without a session.
    fn next_of_session(&mut self) -> Result<Option<NextOfSession>, EndOfSession> {
        let Some(session) = &mut self.session else { return Ok(None) };
        let next = session.next(self.inputs.random(), self.was_success);
        let Ok(Some(SessionStep { operation, key, value, pause })) = next else {
            end_at_fault(self.shared);
            return Err(EndOfSession);
        };
        let Some(entry) = self.shared.mix.labelled(&operation) else {
            session.refuse_operation(&operation, self.shared.mix.labels());
            end_at_fault(self.shared);
            return Err(EndOfSession);
        };
        self.inputs.take_step(key, value);
        Ok(Some(NextOfSession { entry, pause }))
    }
}

/// Chooses the next operation: that of the trace, that of the session, or a draw.
fn next_entry(
    shared: &Shared,
    taken: Option<TakenOperation>,
    of_session: Option<MixEntry>,
    inputs: &mut Inputs,
) -> MixEntry {
    match (taken, of_session) {
        (Some(TakenOperation { entry, traced, .. }), _) => {
            inputs.take_traced(&traced);
            entry
        }
        (None, Some(entry)) => entry,
        (None, None) => shared.mix.choose(inputs.random()),
    }
}

/// True if the worker must end. An arrival that was due before the end is counted as given up.
fn is_over(shared: &Shared, release: Release, due: Option<Instant>, now: Instant) -> bool {
    if !shared.control.is_stopping() && !release.is_over(now) {
        return false;
    }
    if let (Some(schedule), Some(due)) = (&shared.schedule, due)
        && due < release.end_by(now)
    {
        schedule.give_up();
    }
    true
}

/// Records the outcome of an operation.
fn record(
    shared: &Shared,
    recorder: &RefCell<Recorder>,
    reported: usize,
    moments: &OperationTimes,
    outcome: Outcome,
) {
    match outcome {
        Outcome::Success => recorder.borrow_mut().record(reported, moments),
        Outcome::Silent | Outcome::Stop => {}
        Outcome::Failure(reason) => {
            let elapsed = moments.latency();
            recorder.borrow_mut().record_error(reported, reason, elapsed, moments.ended);
            if shared.shutdown_on_error {
                shared.control.request_end(RunEnd::Failed);
            }
        }
    }
}

/// The trace has no more operations, or has a fault.
struct EndOfTrace;

/// Takes the next operation of the trace; `Ok(None)` in a run without a trace. A fault of the trace ends
/// the run.
fn next_of_trace(shared: &Shared) -> Result<Option<TakenOperation>, EndOfTrace> {
    let Some(replaying) = &shared.replaying else { return Ok(None) };
    let taken = replaying.take();
    if taken.is_none() && replaying.fault().is_some() {
        shared.control.request_end(RunEnd::Failed);
    }
    taken.map(Some).ok_or(EndOfTrace)
}

/// The next operation of a session, and the pause before it.
struct NextOfSession {
    entry: MixEntry,
    pause: Duration,
}

/// The session is over, or its script has failed.
struct EndOfSession;

fn session_of(shared: &Shared, place: WorkerPlace) -> Option<Session> {
    let mut session = shared.session.clone()?;
    session.start(place);
    Some(session)
}

/// Ends the whole run if a script had a fault.
fn end_at_fault(shared: &Shared) {
    if shared.script_faults.get().is_some() {
        shared.control.request_end(RunEnd::Failed);
    }
}

fn inputs_of(shared: &Shared, place: WorkerPlace) -> Inputs {
    let mut keys = shared.keys.clone();
    keys.start(place, &shared.sources);
    let mut values = shared.values.clone();
    values.start(place, &shared.sources);
    let random = Random::new(shared.random_kind, shared.seed, place.number);
    Inputs::new(random, keys, values, shared.verifier.clone())
        .with_inserted(shared.inserted.clone())
}

/// Sleeps until `until`, or until the run ends if that is earlier.
async fn wait(
    alarm: &Alarm,
    until: Instant,
    release: Release,
    phases: &mut watch::Receiver<Phase>,
) {
    let until = release.end_by(until);
    if until > Instant::now() {
        tokio::select! {
            () = alarm.sleep_until(until) => {}
            _ = phases.wait_for(|phase| matches!(phase, Phase::Stopping)) => {}
        }
    }
}
