//! Assembly of a node: an engine, the control plane, the connections to other nodes and the store of
//! replicated records are put together, started and stopped in the one order that is safe.
//!
//! The program does that with the operating system's disks and sockets, the simulator and the tests with
//! simulated ones: what they run is the same node. Which disks, which engine and which settings there are is
//! the caller's business ([`NodeParts`]).
//!
//! The order of a start, and why:
//!
//! 1. The engine is opened with what the control plane's file knows of its last opening, and the new opening
//!    is noted there before anything is served ([`open_noted`]): a store that is restored from a copy finds
//!    out that it went back in time.
//! 2. The store is built ([`NodeParts::assemble`]). It answers other nodes only if it has all of its records.
//! 3. The node connects and listens ([`Node::connect`], [`Node::listen`]).
//! 4. It makes up for lost records, if there are any ([`Node::make_up_for_loss`]), and answers others then.
//!
//! The order of a stop stands at [`Node::finish`] and [`Node::close`].

mod engine;
mod node;
mod parts;

pub use engine::{FoundLoss, NodeEngine, NotedOpeningError, open_noted};
pub use node::{Node, RecoveryError, StopLimits, Unfinished};
pub use parts::{AssemblyError, Beside, NodeParts};
