//! JavaScript functions of MapReduce jobs, in a sandbox.
//!
//! Each job has a runtime of QuickJS of its own, on a thread of its own. It has the language and the
//! functions of `prelude.js`, and no way to files, sockets, modules, timers or other jobs. Time, memory,
//! stack and output have limits ([`ScriptLimits`]); a script that exceeds one ends, and its job with it.
//!
//! Not here: what a job is, and who reads the objects (`quoit-mapreduce`, `quoit-core`).

mod limits;
mod session;
mod worker;

pub use limits::ScriptLimits;

use quoit_mapreduce::{ScriptEngine, ScriptFault, ScriptSession, ScriptText};
use quoit_model::etf::Term;
use session::Session;

/// QuickJS as the engine of a node's jobs.
#[derive(Clone, Copy, Debug)]
pub struct QuickJs {
    limits: ScriptLimits,
}

impl QuickJs {
    /// An engine whose sessions have these limits.
    #[must_use]
    pub const fn new(limits: ScriptLimits) -> Self {
        Self { limits }
    }
}

impl ScriptEngine for QuickJs {
    fn open(
        &self,
        scripts: Vec<(usize, ScriptText, Term)>,
    ) -> Result<Box<dyn ScriptSession>, ScriptFault> {
        Session::open(self.limits, scripts).map(|session| Box::new(session) as _)
    }
}

#[cfg(test)]
mod tests;
