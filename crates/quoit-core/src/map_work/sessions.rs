//! Scripts of other nodes' jobs, kept from one batch to the next.
//!
//! A job sends a node batch after batch. The scripts that it has compiled for the first one, with the time
//! that they have left, serve the others, until the job has ended or has sent nothing for a while.

use super::work::NodeWork;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_mapreduce::{ScriptCall, ScriptEngine, ScriptFault, ScriptSession};
use quoit_seam::Clock;
use quoit_wire::internode::maps::MapWork;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Sessions at a node, in use or kept, at most: each has a thread and the memory of its scripts. Batches
/// beyond are left to the nodes that run their jobs.
const SESSION_COUNT_MAX: usize = 16;
/// Time after which a session is dropped that has not been used.
pub(crate) const IDLE: Duration = Duration::from_secs(10);

/// The sessions of a node, and what makes them.
#[derive(Default)]
pub(crate) struct MapSessions {
    engine: OnceLock<Arc<dyn ScriptEngine>>,
    kept: Mutex<KeptSessions>,
}

type SessionEnder = Arc<dyn Fn() + Send + Sync>;

#[derive(Default)]
struct KeptSessions {
    /// By their phases, with the time of last use.
    idle: BTreeMap<MapWork, (u64, Box<dyn ScriptSession>)>,
    in_use_count: usize,
    /// How sessions in use are ended, with their jobs.
    enders: Vec<(Bytes, SessionEnder)>,
    /// Whether a task drops what is not used any more.
    is_swept: bool,
}

/// A session that a batch uses. It is kept for the next one when this is dropped, unless a call has failed.
pub(crate) struct SessionInUse<'w> {
    sessions: &'w MapSessions,
    clock: &'w dyn Clock,
    work: &'w NodeWork,
    session: Option<Box<dyn ScriptSession>>,
}

impl SessionInUse<'_> {
    /// The lists that calls of the script of a phase give.
    ///
    /// # Errors
    ///
    /// As [`ScriptSession::call`]; there are no further calls then.
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
        kept.in_use_count -= 1;
        let ender = kept.enders.iter().position(|(job, _)| *job == self.work.sent.job);
        if let Some(place) = ender {
            kept.enders.swap_remove(place);
        }
        if let Some(session) = self.session.take() {
            kept.idle.insert(self.work.sent.clone(), (now_us, session));
        }
    }
}

impl MapSessions {
    /// A session for a phase: the one that was kept, or a new one. `None` where scripts are off, or too many
    /// are here.
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
            if idle.is_none() && kept.idle.len() + kept.in_use_count >= SESSION_COUNT_MAX {
                return Ok(None);
            }
            kept.in_use_count += 1;
            SessionInUse { sessions: self, clock, work, session: idle }
        };
        let session = match in_use.session.take() {
            Some(session) => session,
            None => engine.open(&work.sent.job, work.scripts())?,
        };
        self.kept.lock().enders.push((work.sent.job.clone(), session.ender()));
        in_use.session = Some(session);
        Ok(Some(in_use))
    }

    /// Drops the sessions of a job, and ends the calls that are under way in others of its.
    pub(crate) fn end(&self, job: &[u8]) {
        let mut kept = self.kept.lock();
        kept.idle.retain(|work, _| *work.job != *job);
        kept.enders.iter().filter(|(of, _)| **of == *job).for_each(|(_, end)| end());
    }

    /// Lets the engine run scripts. Once; later calls change nothing.
    pub(crate) fn run_with(&self, engine: Arc<dyn ScriptEngine>) {
        let _ = self.engine.set(engine);
    }

    /// Number of sessions, in use or kept.
    pub(crate) fn count(&self) -> usize {
        let kept = self.kept.lock();
        kept.idle.len() + kept.in_use_count
    }

    /// Whether sweeping has to begin: there are sessions, and none of them is swept. It is taken to have
    /// begun.
    pub(crate) fn begin_to_sweep(&self) -> bool {
        let mut kept = self.kept.lock();
        let is_none = kept.idle.is_empty() && kept.in_use_count == 0;
        let begins = !is_none && !kept.is_swept;
        kept.is_swept |= begins;
        begins
    }

    /// Drops sessions that were not used lately. Whether there are others.
    pub(crate) fn sweep(&self, now_us: u64) -> bool {
        let mut kept = self.kept.lock();
        let idle_us = IDLE.as_micros() as u64;
        kept.idle.retain(|_, (used_us, _)| now_us.saturating_sub(*used_us) < idle_us);
        kept.is_swept = !kept.idle.is_empty() || kept.in_use_count > 0;
        kept.is_swept
    }
}
