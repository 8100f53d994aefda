//! Scripts: keys, values and sessions in JavaScript, without files, sockets or clocks.
//!
//! A [`ScriptReference`] is a part of a configuration: a file, a function of it and arguments. [`Scripts`]
//! reads and tries it before the run. For each worker the script is evaluated anew and its function called
//! once, with the worker's number and the arguments; it gives another function ([`ScriptFunction`]), which is
//! called for each key, value or step of a session. Both draw from the worker's random stream, so that a seed
//! gives the same run again.
//!
//! A call is bounded in loops and calls, time and memory. A fault, or a call that was cut, ends the
//! run; the first one of all workers is told.

mod engine;
mod fault;
mod function;
mod reference;
mod scripts;
mod session;
#[cfg(test)]
mod tests;
mod values;

pub(crate) use fault::FaultSlot;
pub use fault::{ScriptError, ScriptFault};
pub use function::ScriptFunction;
pub use reference::ScriptReference;
pub(crate) use scripts::Scripts;
pub(crate) use session::{GivenValue, Session, SessionStep};
pub(crate) use values::ScriptedValue;
pub use values::{ScriptedKind, ScriptedValues};
