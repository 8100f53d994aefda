//! Script sessions for other nodes' jobs, kept from one batch to the next.
//!
//! A job sends a node one batch after the other. The session that is compiled for the first batch, with
//! its remaining time budget, serves the others, until the job ends or sends nothing for a while.

use super::work::NodeWork;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_mapreduce::{ScriptCall, ScriptEngine, ScriptFault, ScriptSession};
use quoit_number::saturating_u64;
use quoit_seam::Clock;
use quoit_wire::internode::maps::MapWork;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Maximum number of sessions of a node, in use or kept. Each has a thread and the memory of its
/// scripts. Further batches are left to the nodes that coordinate their jobs.
const SESSION_COUNT_MAX: usize = 16;
/// Time after which an unused session is dropped.
pub(crate) const IDLE: Duration = Duration::from_secs(10);

/// Sessions of a node, and the engine that creates them.
#[derive(Default)]
pub(crate) struct MapSessions {
    engine: OnceLock<Arc<dyn ScriptEngine>>,
    kept: Mutex<KeptSessions>,
}

type SessionEnder = Arc<dyn Fn() + Send + Sync>;

/// Number of a use of a session.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct UseNumber(u64);

/// The use of a session by a batch.
struct SessionUse {
    /// Id of the job.
    job: Bytes,
    /// Function that ends the session; `None` until it is compiled.
    end: Option<SessionEnder>,
    /// True if the job has ended.
    is_ended: bool,
}

#[derive(Default)]
struct KeptSessions {
    /// Unused sessions by phase, with the time of their last use.
    idle: BTreeMap<MapWork, (u64, Box<dyn ScriptSession>)>,
    /// Sessions in use. Several may be of one job.
    in_use: BTreeMap<UseNumber, SessionUse>,
    next: UseNumber,
    /// True if a task drops unused sessions.
    is_swept: bool,
}

impl KeptSessions {
    /// Notes that a batch of a job uses a session.
    fn begin_use(&mut self, job: Bytes) -> UseNumber {
        let number = self.next;
        self.next = UseNumber(number.0 + 1);
        self.in_use.insert(number, SessionUse { job, end: None, is_ended: false });
        number
    }
}

/// A session that a batch uses. When this is dropped, the session is kept for the next batch, unless a
/// call has failed or the job has ended.
pub(crate) struct SessionInUse<'w> {
    sessions: &'w MapSessions,
    clock: &'w dyn Clock,
    work: &'w NodeWork,
    number: UseNumber,
    session: Option<Box<dyn ScriptSession>>,
}

impl SessionInUse<'_> {
    /// Calls the script of a phase. Returns the lists that the script returns.
    ///
    /// # Errors
    ///
    /// As [`ScriptSession::call`]. No further call may follow.
    pub(crate) fn call(
        &mut self,
        phase: usize,
        call: ScriptCall,
    ) -> Result<Vec<Bytes>, ScriptFault> {
        let mut session = self.session.take().expect("a batch ends when a call has failed");
        let lists = session.call(phase, call)?;
        self.session = Some(session);
        Ok(lists)
    }
}

impl Drop for SessionInUse<'_> {
    fn drop(&mut self) {
        let now_us = self.clock.monotonic_us();
        let mut kept = self.sessions.kept.lock();
        let is_ended = kept.in_use.remove(&self.number).is_some_and(|of_batch| of_batch.is_ended);
        if let Some(session) = self.session.take()
            && !is_ended
        {
            kept.idle.insert(self.work.sent.clone(), (now_us, session));
        }
    }
}

impl MapSessions {
    /// Takes a session for a phase: the kept one, or a new one. `None` if scripts are off, or the node
    /// has too many sessions.
    ///
    /// # Errors
    ///
    /// Scripts that do not compile.
    pub(crate) fn take<'w>(
        &'w self,
        work: &'w NodeWork,
        clock: &'w dyn Clock,
    ) -> Result<Option<SessionInUse<'w>>, ScriptFault> {
        let Some(engine) = self.engine.get() else { return Ok(None) };
        let mut in_use = {
            let mut kept = self.kept.lock();
            let idle = kept.idle.remove(&work.sent).map(|(_, session)| session);
            if idle.is_none() && kept.idle.len() + kept.in_use.len() >= SESSION_COUNT_MAX {
                return Ok(None);
            }
            let number = kept.begin_use(work.sent.job.clone());
            SessionInUse { sessions: self, clock, work, number, session: idle }
        };
        let session = match in_use.session.take() {
            Some(session) => session,
            None => engine.open(&work.sent.job, work.scripts())?,
        };
        if let Some(of_batch) = self.kept.lock().in_use.get_mut(&in_use.number) {
            let end = session.ender();
            if of_batch.is_ended {
                // The job has ended while the session was compiled. The session refuses calls then.
                end();
            }
            of_batch.end = Some(end);
        }
        in_use.session = Some(session);
        Ok(Some(in_use))
    }

    /// Drops the unused sessions of a job. Ends its other sessions, including those that are being compiled,
    /// and the calls under way in them.
    pub(crate) fn end(&self, job: &[u8]) {
        let mut kept = self.kept.lock();
        kept.idle.retain(|work, _| *work.job != *job);
        for of_batch in kept.in_use.values_mut().filter(|of_batch| *of_batch.job == *job) {
            of_batch.is_ended = true;
            of_batch.end.iter().for_each(|end| end());
        }
    }

    /// Sets the engine that runs scripts. Only the first call has an effect.
    pub(crate) fn run_with(&self, engine: Arc<dyn ScriptEngine>) {
        let _ = self.engine.set(engine);
    }

    /// Number of sessions, in use or kept.
    pub(crate) fn count(&self) -> usize {
        let kept = self.kept.lock();
        kept.idle.len() + kept.in_use.len()
    }

    /// Notes that sweeping starts if there are sessions and no task sweeps them. Returns true if it did; the
    /// caller must then start the task.
    pub(crate) fn start_sweeping(&self) -> bool {
        let mut kept = self.kept.lock();
        let is_none = kept.idle.is_empty() && kept.in_use.is_empty();
        let begins = !is_none && !kept.is_swept;
        kept.is_swept |= begins;
        begins
    }

    /// Drops sessions that were not used lately. True if sessions remain.
    pub(crate) fn sweep(&self, now_us: u64) -> bool {
        let mut kept = self.kept.lock();
        let idle_us = saturating_u64(IDLE.as_micros());
        kept.idle.retain(|_, (used_us, _)| now_us.saturating_sub(*used_us) < idle_us);
        kept.is_swept = !kept.idle.is_empty() || !kept.in_use.is_empty();
        kept.is_swept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_mapreduce::{PhaseKind, ScriptText};
    use quoit_model::etf::Term;
    use quoit_seam::ManualClock;
    use std::sync::Weak;

    /// An engine whose sessions note in a list that they were ended, by their numbers.
    #[derive(Default, Debug)]
    struct CountingEngine {
        opened: Mutex<usize>,
        ended: Arc<Mutex<Vec<usize>>>,
    }

    struct NumberedSession {
        number: usize,
        ended: Arc<Mutex<Vec<usize>>>,
    }

    impl ScriptEngine for CountingEngine {
        fn open(
            &self,
            _job: &Bytes,
            _scripts: Vec<(usize, ScriptText, Term)>,
        ) -> Result<Box<dyn ScriptSession>, ScriptFault> {
            let mut opened = self.opened.lock();
            *opened += 1;
            Ok(Box::new(NumberedSession { number: *opened, ended: Arc::clone(&self.ended) }))
        }
    }

    /// An engine for which a job ends while its session is compiled.
    #[derive(Debug)]
    struct LateEngine {
        inner: CountingEngine,
        sessions: Weak<MapSessions>,
    }

    impl ScriptEngine for LateEngine {
        fn open(
            &self,
            job: &Bytes,
            scripts: Vec<(usize, ScriptText, Term)>,
        ) -> Result<Box<dyn ScriptSession>, ScriptFault> {
            self.sessions.upgrade().expect("the test has them").end(job);
            self.inner.open(job, scripts)
        }
    }

    impl ScriptSession for NumberedSession {
        fn ender(&self) -> SessionEnder {
            let (number, ended) = (self.number, Arc::clone(&self.ended));
            Arc::new(move || ended.lock().push(number))
        }

        fn call(&mut self, _: usize, _: ScriptCall) -> Result<Vec<Bytes>, ScriptFault> {
            Ok(Vec::new())
        }
    }

    /// A phase of the job `job`.
    fn work() -> NodeWork {
        let kind = PhaseKind::Link { bucket: None, tag: None };
        let sent = MapWork { job: Bytes::from_static(b"job"), ..MapWork::default() };
        NodeWork { phase: 0, kind, reduce: None, sent }
    }

    #[test]
    fn a_session_whose_job_ends_while_it_is_compiled_is_ended_and_not_kept() {
        let (sessions, clock) = (Arc::new(MapSessions::default()), ManualClock::at(1));
        let inner = CountingEngine::default();
        let ended = Arc::clone(&inner.ended);
        sessions.run_with(Arc::new(LateEngine { inner, sessions: Arc::downgrade(&sessions) }));
        let work = work();
        let session = sessions.take(&work, &clock).expect("it compiles").expect("there is room");
        assert_eq!(*ended.lock(), [1]);
        drop(session);
        assert_eq!(sessions.count(), 0);
    }

    #[test]
    fn the_end_of_a_job_ends_each_session_in_use_although_others_of_the_job_are_done() {
        let (sessions, clock) = (MapSessions::default(), ManualClock::at(1));
        let engine = Arc::new(CountingEngine::default());
        sessions.run_with(Arc::clone(&engine) as Arc<dyn ScriptEngine>);
        let work = work();
        let take = || sessions.take(&work, &clock).expect("it compiles").expect("there is room");
        let (first, second, third) = (take(), take(), take());
        drop(second);
        sessions.end(b"another job");
        sessions.end(b"job");
        assert_eq!(*engine.ended.lock(), [1, 3]);
        drop((first, third));
        sessions.end(b"job");
        assert_eq!((engine.ended.lock().len(), sessions.count()), (2, 0));
    }
}
