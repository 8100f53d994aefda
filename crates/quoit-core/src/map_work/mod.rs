//! Map phases of jobs on their way to the nodes that run them: the phases and outputs as messages, functions
//! applied to objects, and the scripts that a node keeps.
//!
//! Which records a node maps is not known here: `listing` reads a node's own copies, `jobs` those of any
//! replica.

mod outputs;
mod sessions;
mod work;

pub(crate) use outputs::{ForScript, apply, elements, failure, list_of};
pub(crate) use sessions::{IDLE, MapSessions, SessionInUse};
pub(crate) use work::{
    NodeWork, ScriptTexts, datum_to_wire, decoded, input_of_wire, input_to_wire, object_of_wire,
};
