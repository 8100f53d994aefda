//! JavaScript functions of MapReduce jobs, run in a sandbox.
//!
//! Each session of a job has its own QuickJS runtime on its own thread. Scripts have the language and the
//! functions of `prelude.js`; they cannot reach files, sockets, modules, timers or other jobs. Time,
//! memory, stack and output are limited ([`ScriptLimits`]) for each call, each job, and all jobs of the
//! node. A script that exceeds a limit is ended, and its job fails.
//!
//! `quoit-mapreduce` defines jobs, and `quoit-core` runs them and reads the objects.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod limits;
mod session;
mod shares;
mod worker;

/// Script that runs before all others. It replaces the built-in functions on lists and texts that QuickJS
/// could not interrupt with implementations that can be interrupted.
pub const BOUNDS: &str = include_str!("bounds.js");

pub use limits::ScriptLimits;

use bytes::Bytes;
use quoit_mapreduce::{ScriptEngine, ScriptFault, ScriptSession, ScriptText};
use quoit_model::etf::Term;
use session::Session;
use shares::JobShares;
use std::sync::Arc;

/// QuickJS as the script engine of a node.
#[derive(Debug)]
pub struct QuickJs {
    shares: Arc<JobShares>,
}

impl QuickJs {
    /// Creates an engine whose scripts have these limits.
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
