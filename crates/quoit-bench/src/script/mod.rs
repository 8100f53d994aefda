//! Scripts: keys, values and sessions in JavaScript, without access to files, sockets or clocks.
//!
//! A [`ScriptReference`] is part of a configuration: a file, a function in it, and arguments. [`Scripts`]
//! reads the file and tries it before the run. For each worker the script is evaluated anew and the
//! function is called once, with the worker's number and the arguments. It returns another function
//! ([`ScriptFunction`]), which is called for each key, value or step of a session. Scripts draw from the
//! worker's random stream, so the same seed gives the same run.
//!
//! A call is limited in steps, time and memory. A fault, or a call that exceeds a limit, ends the run; the
//! first fault of all workers is reported.

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
pub(crate) use session::{Session, SessionStep, SessionValue};
pub(crate) use values::ScriptedValue;
pub use values::{ScriptedKind, ScriptedValues};
