//! Scripts: sources in JavaScript, and the engine that runs them, which lives elsewhere.

use crate::value::found::FoundObject;
use crate::value::input::Input;
use bytes::Bytes;
use quoit_model::etf::Term;
use std::sync::Arc;
use thiserror::Error;

/// A function in JavaScript, with the argument of its phase.
#[derive(Clone, PartialEq, Debug)]
pub struct Script {
    /// Where its source is.
    pub source: ScriptSource,
    /// The argument; null where there is none.
    pub argument: Term,
}

/// Where the source of a function is.
#[derive(Clone, PartialEq, Debug)]
pub enum ScriptSource {
    /// A built-in one, by its name, for example `Riak.mapValuesJson`.
    Named(String),
    /// The expression of a function, in the job.
    Text(String),
    /// The value of an object.
    Stored(Box<Input>),
}

/// A source that an engine compiles.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScriptText {
    /// The name of a built-in function.
    Named(String),
    /// The expression of a function.
    Source(String),
}

/// Kind of a function: its arguments, and so its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptKind {
    /// An object, the data of its key, and the argument.
    Map,
    /// A list of values, and the argument.
    Reduce,
}

/// Calls of one function.
#[derive(Debug)]
pub enum ScriptCall {
    /// One call for each object; `Err` is the input of a missing one.
    Map(Vec<Result<FoundObject, Input>>),
    /// One call with all values, as a JSON list.
    Reduce(Bytes),
}

/// Runs scripts. One for a node.
pub trait ScriptEngine: Send + Sync + std::fmt::Debug {
    /// A session for scripts of a job, by the places of their phases. It has no access to anything. Sessions
    /// of one job share its limits: its name is unique among the jobs of all nodes.
    ///
    /// # Errors
    ///
    /// Sources that do not compile, and names of no function.
    fn open(
        &self,
        job: &Bytes,
        scripts: Vec<(usize, ScriptText, Term)>,
    ) -> Result<Box<dyn ScriptSession>, ScriptFault>;
}

/// The scripts of one job, in a context of their own. Calls take time: they belong on a thread that may be
/// kept busy.
pub trait ScriptSession: Send {
    /// Ends the call under way from another thread, and refuses further ones.
    fn ender(&self) -> Arc<dyn Fn() + Send + Sync>;

    /// Does calls of the script of a phase: a JSON list for each, one for all of a reduction.
    ///
    /// # Errors
    ///
    /// Exceptions, limits, and outputs that are no lists. The session is of no use any more then.
    fn call(&mut self, phase: usize, call: ScriptCall) -> Result<Vec<Bytes>, ScriptFault>;
}

/// Why a script failed.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct ScriptFault {
    /// The place of its phase among the phases.
    pub phase: usize,
    /// Description of the error.
    pub message: String,
    /// Where in the script.
    pub stack: String,
    /// The input of the call, as Erlang prints it; empty where it was none in particular.
    pub input: String,
}
