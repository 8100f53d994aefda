//! Steps of background work that pause, so that requests run in the middle of them.
//!
//! A step is a function that returns at its end. So that it can wait for simulated time, it gets a thread of
//! its own. Only one of the two threads runs at any moment: the simulation waits while the step works, and
//! the step waits while the simulation runs. So the seed still decides the order of all events.

use parking_lot::{Condvar, Mutex};
use quoit_seam::{NextStep, Pace, Worker};
use std::cell::RefCell;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{Builder, JoinHandle};
use tokio::runtime::Handle;
use tracing::dispatcher::{get_default, with_default};

/// The thread that runs now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RunningThread {
    /// The step's thread.
    Step,
    /// The simulation's thread; the step pauses.
    Simulation,
    /// The simulation's thread; the step is over.
    SimulationAlone,
}

/// The turns of a step and of the simulation.
struct Turns {
    state: Mutex<TurnState>,
    changed: Condvar,
}

struct TurnState {
    runs: RunningThread,
    /// True if the step must end without further pauses.
    is_stopped: bool,
    /// True if the step makes no further pauses and does all of its work.
    is_hurried: bool,
}

thread_local! {
    /// The turns of the step that this thread makes, if it pauses in syncs.
    static SYNCING_STEP: RefCell<Option<Arc<Turns>>> = const { RefCell::new(None) };
}

/// The places in which a step pauses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PausePlaces {
    /// Where the worker itself asks for it.
    Asked,
    /// Also within each sync of a file ([`pause_in_sync`]).
    Syncs,
}

/// Pauses the step that this thread makes, if it is one that pauses in syncs.
pub(crate) fn pause_in_sync() {
    let step = SYNCING_STEP.with_borrow(Clone::clone);
    if let Some(turns) = step {
        turns.pause(0);
    }
}

impl Turns {
    /// Gives the turn to the other thread.
    fn give(&self, to: RunningThread) {
        self.state.lock().runs = to;
        self.changed.notify_all();
    }

    /// Waits while the step has the turn.
    fn wait_for_step(&self) {
        let mut state = self.state.lock();
        while state.runs == RunningThread::Step {
            self.changed.wait(&mut state);
        }
    }
}

impl Pace for Turns {
    fn pause(&self, _us: u64) -> bool {
        let mut state = self.state.lock();
        if state.is_stopped || state.is_hurried {
            return !state.is_stopped;
        }
        state.runs = RunningThread::Simulation;
        self.changed.notify_all();
        while state.runs != RunningThread::Step {
            self.changed.wait(&mut state);
        }
        !state.is_stopped
    }
}

/// Ends the turns of a step, also if it has panicked.
struct TurnEndGuard(Arc<Turns>);

impl Drop for TurnEndGuard {
    fn drop(&mut self) {
        self.0.give(RunningThread::SimulationAlone);
    }
}

/// A step that has begun. If it is dropped, it ends without further pauses.
pub(crate) struct PausingStep {
    turns: Arc<Turns>,
    /// `None` when the result was taken.
    thread: Option<JoinHandle<NextStep>>,
}

impl PausingStep {
    /// Begins a step of a worker that pauses in these places, and returns when the step pauses or is over.
    ///
    /// # Panics
    ///
    /// If the system can't create a thread.
    pub(crate) fn begin(worker: Arc<dyn Worker>, places: PausePlaces) -> Self {
        let state = TurnState { runs: RunningThread::Step, is_stopped: false, is_hurried: false };
        let turns = Arc::new(Turns { state: Mutex::new(state), changed: Condvar::new() });
        let (last, pace) = (TurnEndGuard(Arc::clone(&turns)), Arc::clone(&turns));
        let (log, runtime) = (get_default(Clone::clone), Handle::try_current().ok());
        let step = move || {
            let _last = last;
            let _same_clock = runtime.as_ref().map(Handle::enter);
            if places == PausePlaces::Syncs {
                SYNCING_STEP.set(Some(Arc::clone(&pace)));
            }
            with_default(&log, || worker.step(&*pace))
        };
        let thread = Builder::new().spawn(step).expect("the system has room for one more thread");
        turns.wait_for_step();
        Self { turns, thread: Some(thread) }
    }

    /// Resumes a step that pauses, and returns when it pauses again or is over. Without effect if it is over
    /// already.
    pub(crate) fn go_on(&self) {
        if self.turns.state.lock().runs == RunningThread::Simulation {
            self.turns.give(RunningThread::Step);
            self.turns.wait_for_step();
        }
    }

    /// Lets a step that pauses do the rest of its work now.
    pub(crate) fn hurry(&self) {
        self.turns.state.lock().is_hurried = true;
        self.go_on();
    }

    /// Takes the result of the step; `None` while it pauses.
    ///
    /// # Panics
    ///
    /// If the step has panicked.
    pub(crate) fn take_result(&mut self) -> Option<NextStep> {
        if self.turns.state.lock().runs != RunningThread::SimulationAlone {
            return None;
        }
        let result = self.thread.take()?.join();
        Some(result.unwrap_or_else(|panic| resume_unwind(panic)))
    }
}

impl Drop for PausingStep {
    fn drop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.turns.state.lock().is_stopped = true;
        self.go_on();
        // The result is of no use any more; a panic has been printed.
        let _ = thread.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A worker whose step pauses twice, and records what it has done.
    #[derive(Default)]
    struct Pauser(Mutex<Vec<&'static str>>);

    impl Worker for Pauser {
        fn step(&self, pace: &dyn Pace) -> NextStep {
            self.0.lock().push("begun");
            let goes_on = pace.pause(1) && pace.pause(1);
            self.0.lock().push(if goes_on { "done" } else { "stopped" });
            NextStep::WhenWoken
        }
    }

    #[test]
    fn a_step_stands_still_in_its_pauses_and_goes_on_when_it_is_told_to() {
        let pauser = Arc::new(Pauser::default());
        let mut step = PausingStep::begin(pauser.clone(), PausePlaces::Asked);
        for _ in 0..2 {
            assert_eq!((step.take_result(), pauser.0.lock().len()), (None, 1));
            step.go_on();
        }
        assert_eq!(step.take_result(), Some(NextStep::WhenWoken));
        assert_eq!(*pauser.0.lock(), ["begun", "done"]);
    }

    #[test]
    fn a_step_that_is_dropped_in_a_pause_ends_at_once() {
        let pauser = Arc::new(Pauser::default());
        drop(PausingStep::begin(pauser.clone(), PausePlaces::Asked));
        assert_eq!(*pauser.0.lock(), ["begun", "stopped"]);
    }

    /// A worker whose step syncs twice and records the syncs that are over.
    #[derive(Default)]
    struct Syncer(Mutex<u64>);

    impl Worker for Syncer {
        fn step(&self, _: &dyn Pace) -> NextStep {
            for _ in 0..2 {
                pause_in_sync();
                *self.0.lock() += 1;
            }
            NextStep::WhenWoken
        }
    }

    #[test]
    fn a_step_pauses_in_its_syncs_until_it_is_hurried() {
        let syncer = Arc::new(Syncer::default());
        let mut step = PausingStep::begin(syncer.clone(), PausePlaces::Syncs);
        assert_eq!((step.take_result(), *syncer.0.lock()), (None, 0));
        step.hurry();
        step.go_on();
        assert_eq!((step.take_result(), *syncer.0.lock()), (Some(NextStep::WhenWoken), 2));
    }

    #[test]
    fn syncs_of_other_steps_do_not_pause() {
        let mut step = PausingStep::begin(Arc::new(Syncer::default()), PausePlaces::Asked);
        assert_eq!(step.take_result(), Some(NextStep::WhenWoken));
    }
}
