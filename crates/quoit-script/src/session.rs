//! A session from the point of view of its job: the handle of the worker thread.

use crate::shares::JobShare;
use crate::worker::{CallBatch, Called, SessionClock, run};
use bytes::Bytes;
use quoit_mapreduce::{ScriptCall, ScriptFault, ScriptSession, ScriptText};
use quoit_model::etf::Term;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Stack of a worker thread in bytes. QuickJS uses at most
/// [`STACK_BYTES_MAX`](crate::worker::STACK_BYTES_MAX) of it.
const THREAD_STACK_BYTES: usize = 2 << 20;

/// Scripts of a job. Dropping the session ends the running call and the thread.
pub(crate) struct Session {
    orders: Sender<CallBatch>,
    answers: Receiver<Called>,
    watch: Arc<SessionClock>,
}

impl Session {
    pub(crate) fn open(
        share: Arc<JobShare>,
        scripts: Vec<(usize, ScriptText, Term)>,
    ) -> Result<Self, ScriptFault> {
        let first_phase = scripts.first().map_or(0, |(phase, ..)| *phase);
        let fault = |message: String| ScriptFault {
            phase: first_phase,
            message,
            stack: String::new(),
            input: String::new(),
        };
        let watch = Arc::new(SessionClock::new(share));
        let (orders, ordered) = channel();
        let (answer, answers) = channel();
        let of_worker = Arc::clone(&watch);
        let worker = thread::Builder::new().name("script".into()).stack_size(THREAD_STACK_BYTES);
        let started = worker.spawn(move || run(&of_worker, &scripts, &ordered, &answer));
        started
            .map_err(|error| fault(format!("no thread for scripts could be started: {error}")))?;
        let session = Self { orders, answers, watch };
        match session.answers.recv() {
            Ok(Ok(_)) => Ok(session),
            Ok(Err(fault)) => Err(fault),
            Err(_) => Err(fault("the thread of the scripts ended".into())),
        }
    }
}

impl ScriptSession for Session {
    fn ender(&self) -> Arc<dyn Fn() + Send + Sync> {
        let watch = Arc::clone(&self.watch);
        Arc::new(move || watch.end())
    }

    fn call(&mut self, phase: usize, call: ScriptCall) -> Result<Vec<Bytes>, ScriptFault> {
        let ended = || ScriptFault {
            phase,
            message: "the thread of the scripts ended".into(),
            stack: String::new(),
            input: String::new(),
        };
        self.orders.send(CallBatch { phase, call }).map_err(|_| ended())?;
        self.answers.recv().map_err(|_| ended())?
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.watch.end();
    }
}
