//! JavaScript functions of jobs, and the interface of the engine that runs them.

use crate::value::found::FoundObject;
use crate::value::input::Input;
use bytes::Bytes;
use quoit_model::etf::Term;
use std::sync::Arc;
use thiserror::Error;

/// A JavaScript function with the argument of its phase.
#[derive(Clone, PartialEq, Debug)]
pub struct Script {
    /// Source of the function.
    pub source: ScriptSource,
    /// Argument of the phase; null if the job gives none.
    pub argument: Term,
}

/// Source of a function.
#[derive(Clone, PartialEq, Debug)]
pub enum ScriptSource {
    /// A built-in function, by its name, for example `Riak.mapValuesJson`.
    Named(String),
    /// A function expression in the job.
    Text(String),
    /// The value of an object, which is a function expression.
    Stored(Box<Input>),
}

/// A source for the engine to compile.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ScriptText {
    /// Name of a built-in function.
    Named(String),
    /// A function expression.
    Source(String),
}

/// Kind of a function, which determines its arguments and its result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ScriptKind {
    /// The arguments are an object, the key data, and the argument of the phase.
    Map,
    /// The arguments are a list of values and the argument of the phase.
    Reduce,
}

/// Calls of one function.
#[derive(Debug)]
pub enum ScriptCall {
    /// One call for each object; `Err` contains the input of a missing object.
    Map(Vec<Result<FoundObject, Input>>),
    /// One call with all values, as a JSON list.
    Reduce(Bytes),
}

/// Engine that runs scripts. A node has one.
pub trait ScriptEngine: Send + Sync + std::fmt::Debug {
    /// Opens a session for scripts of a job, given with the indexes of their phases and their arguments.
    /// Scripts have no access to anything outside of the session. All sessions of a job share its limits;
    /// `job` is a name that is unique among the jobs of all nodes.
    ///
    /// # Errors
    ///
    /// A source does not compile, a name is not of a built-in function, or a limit is reached.
    fn open(
        &self,
        job: &Bytes,
        scripts: Vec<(usize, ScriptText, Term)>,
    ) -> Result<Box<dyn ScriptSession>, ScriptFault>;
}

/// The scripts of one job in a context of their own. Calls block, so they must run on a thread that may
/// block.
pub trait ScriptSession: Send {
    /// Returns a function that ends the running call from another thread and refuses further calls.
    fn ender(&self) -> Arc<dyn Fn() + Send + Sync>;

    /// Runs calls of the script of a phase. Returns a JSON list for each call; a reduction is one call.
    ///
    /// # Errors
    ///
    /// The script throws an exception, exceeds a limit, or returns a value that is not a list. The session
    /// must not be used afterwards.
    fn call(&mut self, phase: usize, call: ScriptCall) -> Result<Vec<Bytes>, ScriptFault>;
}

/// Failure of a script.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{message}")]
pub struct ScriptFault {
    /// Index of the phase.
    pub phase: usize,
    /// Description of the error.
    pub message: String,
    /// Stack trace of the script.
    pub stack: String,
    /// Input of the call, as Erlang prints it; empty if the failure concerns no particular input.
    pub input: String,
}
