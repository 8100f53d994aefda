//! JavaScript functions of MapReduce jobs, in a sandbox.
//!
//! Each session of a job has a runtime of QuickJS of its own, on a thread of its own. It has the language and
//! the functions of `prelude.js`, and no way to files, sockets, modules, timers or other jobs. Time, memory,
//! stack and output have limits ([`ScriptLimits`]), by call, by job and by node; a script that exceeds one
//! ends, and its job with it.
//!
//! Not here: what a job is, and who reads the objects (`quoit-mapreduce`, `quoit-core`).

mod limits;
mod session;
mod shares;
mod worker;

/// A script to be run before others: the built-in functions of lists and texts that would not ask whether
/// they may go on, as ones that can be ended.
pub const BOUNDS: &str = include_str!("bounds.js");

pub use limits::ScriptLimits;

use bytes::Bytes;
use quoit_mapreduce::{ScriptEngine, ScriptFault, ScriptSession, ScriptText};
use quoit_model::etf::Term;
use session::Session;
use shares::JobShares;
use std::sync::Arc;

/// QuickJS as the engine of a node's jobs.
#[derive(Debug)]
pub struct QuickJs {
    shares: Arc<JobShares>,
}

impl QuickJs {
    /// An engine whose scripts have these limits.
    #[must_use]
    pub fn new(limits: ScriptLimits) -> Self {
        Self { shares: JobShares::new(limits) }
    }
}

impl ScriptEngine for QuickJs {
    fn open(
        &self,
        job: &Bytes,
        scripts: Vec<(usize, ScriptText, Term)>,
    ) -> Result<Box<dyn ScriptSession>, ScriptFault> {
        Session::open(self.shares.of(job), scripts).map(|session| Box::new(session) as _)
    }
}

#[cfg(test)]
mod tests;
