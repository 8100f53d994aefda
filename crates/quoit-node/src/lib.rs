//! Assembly of a node: puts an engine, the control plane, the connections to other nodes and the
//! replicated store together, and starts and stops them in the only safe order.
//!
//! The program does this with the disks and sockets of the operating system, the simulator and tests
//! with simulated ones; all of them run the same node. The caller chooses disks, engine and settings
//! ([`NodeParts`]).
//!
//! The order of a start, with reasons:
//!
//! 1. Open the engine with the record of its last opening, which the control plane's file keeps, and note the
//!    new opening there before serving anything ([`open_noted`]). This lets a store detect that it was
//!    restored from an older copy.
//! 2. Build the store ([`NodeParts::assemble`]). It answers other nodes only if it has all of its
//!    records.
//! 3. Connect and listen ([`Node::connect`], [`Node::listen`]).
//! 4. Recover from the loss of records, if any were lost ([`Node::recover_lost_records`]), and only then
//!    answer other nodes.
//!
//! [`Node::finish`] and [`Node::close`] describe the order of a stop.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod engine;
mod node;
mod parts;

pub use engine::{FoundLoss, NodeEngine, NotedOpeningError, open_noted};
pub use node::{Node, RecoveryError, StopLimits, UnfinishedWork};
pub use parts::{AssemblyError, AuxiliaryData, NodeParts};
