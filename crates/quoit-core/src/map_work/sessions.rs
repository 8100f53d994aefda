//! Script sessions for other nodes' jobs, kept from one batch to the next.
//!
//! A job sends a node one batch after the other. The session that is compiled for the first batch, with
//! its remaining time budget, serves the others, until the job ends or sends nothing for a while.

use super::work::NodeWork;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_mapreduce::{ScriptCall, ScriptEngine, ScriptFault, ScriptSession};
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

#[derive(Default)]
struct KeptSessions {
    /// Unused sessions by phase, with the time of their last use.
    idle: BTreeMap<MapWork, (u64, Box<dyn ScriptSession>)>,
    in_use_count: usize,
    /// Functions that end the sessions in use, with the ids of their jobs.
    enders: Vec<(Bytes, SessionEnder)>,
    /// True if a task drops unused sessions.
    is_swept: bool,
}

/// A session that a batch uses. When this is dropped, the session is kept for the next batch, unless a
/// call has failed.
pub(crate) struct SessionInUse<'w> {
    sessions: &'w MapSessions,
    clock: &'w dyn Clock,
    work: &'w NodeWork,
    session: Option<Box<dyn ScriptSession>>,
}

impl SessionInUse<'_> {
    /// Calls the script of a phase. Returns the lists that it gives.
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

    /// Drops the unused sessions of a job, and ends calls under way in its other sessions.
    pub(crate) fn end(&self, job: &[u8]) {
        let mut kept = self.kept.lock();
        kept.idle.retain(|work, _| *work.job != *job);
        kept.enders.iter().filter(|(of, _)| **of == *job).for_each(|(_, end)| end());
    }

    /// Sets the engine that runs scripts. Only the first call has an effect.
    pub(crate) fn run_with(&self, engine: Arc<dyn ScriptEngine>) {
        let _ = self.engine.set(engine);
    }

    /// Number of sessions, in use or kept.
    pub(crate) fn count(&self) -> usize {
        let kept = self.kept.lock();
        kept.idle.len() + kept.in_use_count
    }

    /// True if sweeping has to begin because there are sessions and no task sweeps them. The caller
    /// must then start it.
    pub(crate) fn begin_to_sweep(&self) -> bool {
        let mut kept = self.kept.lock();
        let is_none = kept.idle.is_empty() && kept.in_use_count == 0;
        let begins = !is_none && !kept.is_swept;
        kept.is_swept |= begins;
        begins
    }

    /// Drops sessions that were not used lately. True if sessions remain.
    pub(crate) fn sweep(&self, now_us: u64) -> bool {
        let mut kept = self.kept.lock();
        let idle_us = IDLE.as_micros() as u64;
        kept.idle.retain(|_, (used_us, _)| now_us.saturating_sub(*used_us) < idle_us);
        kept.is_swept = !kept.idle.is_empty() || kept.in_use_count > 0;
        kept.is_swept
    }
}
