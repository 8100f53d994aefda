//! A worker: performs operations one after another and records each.

use std::cell::{Cell, OnceCell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{Semaphore, mpsc, watch};

use super::alarm::Alarm;
use super::control::{Control, Phase, Release, released};
use super::mix::{Mix, MixEntry};
use super::pauses::Pauses;
use super::replaying::{TakenOperation, TraceReplay};
use super::schedule::Schedule;
use super::{RunEnd, RunError};
use crate::config::Pacing;
use crate::driver::{Driver, Inputs, Outcome};
use crate::keygen::KeyGenerator;
use crate::measure::{Collector, OperationTimes, Recorder};
use crate::output::RunLog;
use crate::random::{Random, RandomKind, Seed};
use crate::script::{FaultSlot, Session, SessionStep};
use crate::sent::take_sent;
use crate::share::Share;
use crate::valgen::{Sources, ValueGenerator};
use crate::verify::Verifier;
use crate::worker_place::WorkerPlace;

/// State that all workers of a run share.
pub(super) struct Shared<D: Driver> {
    pub(super) plan: D::Plan,
    pub(super) mix: Mix<D::Operation>,
    pub(super) pacing: Pacing,
    /// Arrivals of an open loop; `None` in a closed loop.
    pub(super) schedule: Option<Schedule>,
    /// The trace, if the run replays one.
    pub(super) replaying: Option<TraceReplay<D::Operation>>,
    pub(super) seed: Seed,
    pub(super) random_kind: RandomKind,
    pub(super) worker_count: u32,
    /// The part of the run that this process does.
    pub(super) share: Share,
    pub(super) shutdown_on_error: bool,
    pub(super) keys: KeyGenerator,
    /// The script that decides the order of each worker's operations, if there is one.
    pub(super) session: Option<Session>,
    /// Keeps the first fault of a script.
    pub(super) script_faults: FaultSlot,
    /// Keys for operations that insert, if the mix has any.
    pub(super) inserted: Option<KeyGenerator>,
    pub(super) values: ValueGenerator,
    pub(super) sources: Sources,
    /// Checks the values that are read, if the run verifies.
    pub(super) verifier: Option<Arc<Verifier>>,
    pub(super) control: Control,
    pub(super) collector: Arc<Collector>,
    pub(super) log: Arc<RunLog>,
    /// Receives one message from each worker: that it is connected, or why not.
    pub(super) ready: mpsc::Sender<Result<(), RunError>>,
}

/// State that the workers of one thread share.
pub(super) struct ThreadState {
    pub(super) thread: usize,
    /// Created when the workers are released.
    pub(super) recorder: OnceCell<RefCell<Recorder>>,
    /// Bounds the number of workers that connect at once, so that the server's listen queue does not
    /// overflow.
    pub(super) connecting: Semaphore,
    pub(super) alarm: Alarm,
}

impl ThreadState {
    pub(super) fn recorder<D: Driver>(
        &self,
        shared: &Shared<D>,
        release: Release,
    ) -> &RefCell<Recorder> {
        self.recorder.get_or_init(|| {
            let collector = shared.collector.clone();
            RefCell::new(Recorder::new(self.thread, collector, release.measured_from))
        })
    }
}

/// Connects, waits for the release, and performs operations until the run ends. `at_operation` holds the
/// index of the reported operation that the worker is at, for the case that it crashes.
pub(super) async fn work<D: Driver>(
    shared: Arc<Shared<D>>,
    local: Rc<ThreadState>,
    number: u32,
    at_operation: Rc<Cell<usize>>,
) {
    let place = WorkerPlace { number, count: shared.worker_count };
    let Some(mut driver) = connect(&shared, &local, place).await else { return };
    let mut inputs = inputs_of(&shared, place);
    let mut phases = shared.control.phases();
    // Nobody receives this from a worker that restarts after a crash.
    let _ = shared.ready.try_send(Ok(()));
    let Some(release) = released(&mut phases).await else { return };
    let recorder = local.recorder(&shared, release);
    // Requests that the driver sent while it connected belong to no operation.
    take_sent();
    let mut now = Instant::now();
    let mut pauses = Pauses::default();
    let mut session = session_of(&shared, place);
    let mut was_success = true;
    loop {
        let Ok(taken) = next_of_trace(&shared) else { return };
        let due = match (&shared.schedule, shared.pacing) {
            (Some(schedule), _) => Some(release.at + schedule.take()),
            (None, Pacing::Rate(per_second)) => {
                let drawn_s = inputs.random().exponential(1.0 / per_second);
                let until = pauses.end_of_next(Instant::now(), drawn_s);
                wait(&local.alarm, until, release, &mut phases).await;
                now = Instant::now();
                pauses.ended(now.saturating_duration_since(until));
                None
            }
            (None, _) => taken.as_ref().and_then(|taken| Some(release.at + taken.due?)),
        };
        let Ok(step) = next_of_session(&shared, &mut session, &mut inputs, was_success) else {
            return;
        };
        if let Some(pause) = step.as_ref().map(|step| step.pause).filter(|it| !it.is_zero()) {
            wait(&local.alarm, now + pause, release, &mut phases).await;
            now = Instant::now();
        }
        let free = due.map(|_| now);
        if let Some(due) = due {
            wait(&local.alarm, due, release, &mut phases).await;
            now = Instant::now();
        }
        if is_over(&shared, release, due, now) {
            return;
        }
        let entry = next_entry(&shared, taken, step.map(|step| step.entry), &mut inputs);
        at_operation.set(entry.reported);
        inputs.begin_operation(entry.inserts);
        let started = Instant::now();
        let outcome = driver.perform(&shared.plan, entry.operation, &mut inputs).await;
        now = Instant::now();
        inputs.end_operation();
        let sent = take_sent().unwrap_or(started);
        let moments =
            OperationTimes { due, free: free.unwrap_or(started), started, sent, ended: now };
        if matches!(outcome, Outcome::Stop) {
            end_at_fault(&shared);
            return;
        }
        was_success = !matches!(outcome, Outcome::Failure(_));
        record(&shared, recorder, entry.reported, &moments, outcome);
        // Yield from time to time: a driver that never waits must not starve the other workers of its
        // thread.
        tokio::task::consume_budget().await;
    }
}

/// Chooses the next operation: that of the trace, that of the session, or a draw.
fn next_entry<D: Driver>(
    shared: &Shared<D>,
    taken: Option<TakenOperation<D::Operation>>,
    of_session: Option<MixEntry<D::Operation>>,
    inputs: &mut Inputs,
) -> MixEntry<D::Operation> {
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
fn is_over<D: Driver>(
    shared: &Shared<D>,
    release: Release,
    due: Option<Instant>,
    now: Instant,
) -> bool {
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
fn record<D: Driver>(
    shared: &Shared<D>,
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
fn next_of_trace<D: Driver>(
    shared: &Shared<D>,
) -> Result<Option<TakenOperation<D::Operation>>, EndOfTrace> {
    let Some(replaying) = &shared.replaying else { return Ok(None) };
    let taken = replaying.take();
    if taken.is_none() && replaying.fault().is_some() {
        shared.control.request_end(RunEnd::Failed);
    }
    taken.map(Some).ok_or(EndOfTrace)
}

/// The next operation of a session, and the pause before it.
struct NextOfSession<O> {
    entry: MixEntry<O>,
    pause: Duration,
}

/// The session is over, or its script has failed.
struct EndOfSession;

/// The next operation of the session; `Ok(None)` in a run without a session.
fn next_of_session<D: Driver>(
    shared: &Shared<D>,
    session: &mut Option<Session>,
    inputs: &mut Inputs,
    was_success: bool,
) -> Result<Option<NextOfSession<D::Operation>>, EndOfSession> {
    let Some(session) = session else { return Ok(None) };
    let next = session.next(inputs.random(), was_success);
    let Ok(Some(SessionStep { operation, key, value, pause })) = next else {
        end_at_fault(shared);
        return Err(EndOfSession);
    };
    let Some(entry) = shared.mix.labelled(&operation) else {
        session.refuse_operation(&operation, shared.mix.labels());
        end_at_fault(shared);
        return Err(EndOfSession);
    };
    inputs.take_step(key, value);
    Ok(Some(NextOfSession { entry, pause }))
}

fn session_of<D: Driver>(shared: &Shared<D>, place: WorkerPlace) -> Option<Session> {
    let mut session = shared.session.clone()?;
    session.start(place);
    Some(session)
}

/// Ends the whole run if a script had a fault.
fn end_at_fault<D: Driver>(shared: &Shared<D>) {
    if shared.script_faults.get().is_some() {
        shared.control.request_end(RunEnd::Failed);
    }
}

/// Connects a worker, or reports why it cannot.
async fn connect<D: Driver>(
    shared: &Shared<D>,
    local: &ThreadState,
    place: WorkerPlace,
) -> Option<D> {
    let _permit = local.connecting.acquire().await;
    match D::connect(&shared.plan, place).await {
        Ok(driver) => Some(driver),
        Err(error) => {
            let number = place.number;
            shared.log.error(&format!("worker {number}: {error}"));
            let _ = shared.ready.send(Err(RunError::Start { number, error })).await;
            None
        }
    }
}

fn inputs_of<D: Driver>(shared: &Shared<D>, place: WorkerPlace) -> Inputs {
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
