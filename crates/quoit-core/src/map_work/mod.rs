//! Map phases in the form in which nodes exchange and run them: messages of phases and outputs,
//! functions applied to objects, and script sessions.
//!
//! This module does not choose or read records. `listing` reads a node's own copies, and `jobs` reads
//! from any replica.

mod outputs;
mod sessions;
mod work;

pub(crate) use outputs::{ScriptInput, apply, elements, failure, list_of};
pub(crate) use sessions::{IDLE, MapSessions, SessionInUse};
pub(crate) use work::{
    NodeWork, ScriptTexts, datum_to_wire, decoded, input_of_wire, input_to_wire, object_of_wire,
};
