//! Requests and answers between nodes.
//!
//! [`Internode`] is a node's end. It listens, keeps a [`Peer`] for each other member, with a connection
//! for each lane and direction, and passes requests to the registered [`Service`]s.
//!
//! 1. A connection begins with a greeting of both sides, after an optional TLS handshake (`greeting`,
//!    `security`). It establishes identity, cluster, version and bounds, and compares the clocks.
//! 2. A caller appends its request to the buffer of a lane (`outbox`). Either the caller writes it at
//!    once, or the connection's task writes it together with the requests of others.
//! 3. The answers arrive in [`Replies`]. Each request has exactly one last answer, a refusal included. If
//!    the connection ends first, the call fails: as unreachable if nothing of the request was written,
//!    else as disconnected, after which the other node may have carried it out.
//!
//! Every buffer has a bound. A call to a node that is known to be down fails at once.
//! `docs/design/internode.md` describes the protocol.
//!
//! Not here: the meaning of requests, and the membership of nodes.

mod calls;
mod clocks;
mod context;
mod dialing;
mod error;
mod greeting;
mod inbound;
mod inbound_driver;
mod inbounds;
mod internode;
mod lane;
mod log_limiter;
#[cfg(any(test, feature = "testing"))]
pub mod memory_network;
mod network;
mod outbound;
mod outbox;
mod peer;
#[cfg(any(test, feature = "testing"))]
mod pipe;
mod plain_links;
mod reachability;
mod redial;
mod replies;
mod responder;
mod security;
mod service;
mod settings;
mod statistics;
mod suspension;
#[cfg(test)]
mod tests;

pub(crate) use clocks::ClockComparison;
pub use error::CallError;
pub(crate) use inbounds::InboundNode;
pub use internode::Internode;
pub use network::{BoxFuture, Listener, Network, Stream, TokioNetwork};
pub(crate) use peer::ConnectionProblem;
pub use peer::Peer;
pub use plain_links::{PlainLink, PlainLinks};
pub use replies::{LateFailureListener, Replies, Reply, SlotAnswer};
pub use responder::Responder;
pub(crate) use security::LinkKeys;
pub use security::{InternodeTlsMode, JoinProof, LinkSecurity, PeerProof};
pub use service::{Admission, IncomingRequest, JoiningNode, NotAdmitted, Service};
pub use settings::{InternodeSettings, JitterSeed, Limits, NodeClock};
pub use statistics::{MethodCounts, PeerStatistics, ServiceStatistics, Traffic};

use calls::{OpenRequests, TakenBytes, Window};
use error::Fault;
use quoit_wire::internode::{InternodeDecoder, LANE_LARGE, LANE_SMALL};
use service::Services;

/// Minimum buffer capacity for a read, in bytes.
const READ_BYTES: usize = 16 * 1024;
/// Maximum buffer capacity that is reserved at once for a frame that is still arriving, in bytes: the length
/// that a peer claims is not trusted.
const READ_BYTES_MAX: usize = 1024 * 1024;

/// Connections of a peer by the size of messages, so that a small message never waits behind a large one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Messages of up to some tens of kilobytes.
    Small,
    /// Larger messages. The lane is dialed when it is first needed.
    Large,
}

impl Lane {
    fn number(self) -> u32 {
        match self {
            Lane::Small => LANE_SMALL,
            Lane::Large => LANE_LARGE,
        }
    }

    /// Unknown lanes of newer nodes are treated as large, because small messages do not wait for those.
    fn from_number(number: u32) -> Lane {
        if number == LANE_SMALL { Lane::Small } else { Lane::Large }
    }

    /// Returns this node's bounds for a connection of the lane.
    fn window(self, limits: &Limits) -> Window {
        let bytes = match self {
            Lane::Small => limits.small_window_bytes,
            Lane::Large => limits.large_window_bytes,
        };
        Window { bytes, calls: limits.window_calls }
    }
}

/// Returns the buffer capacity to reserve for the next read, in bytes.
fn read_room(decoder: InternodeDecoder, input: &[u8]) -> usize {
    match decoder.missing_bytes(input) {
        Ok(missing_bytes) => missing_bytes.clamp(READ_BYTES, READ_BYTES_MAX),
        Err(_) => READ_BYTES,
    }
}
