//! Requests and answers between nodes.
//!
//! [`Internode`] is a node's end: it listens, it keeps a [`Peer`] for each other member, with a
//! connection for each lane and direction, and gives requests to the [`Service`]s that are registered.
//! A request is appended to its lane's buffer and written by whoever gets to it first; answers gather
//! in [`Replies`]. Nothing is queued without a bound, and nothing waits behind a node that is known to
//! be down. `docs/design/internode.md` tells the whole of it.
//!
//! Not here: what requests mean, and who is a member.

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
#[cfg(any(test, feature = "testing"))]
pub mod memory_network;
mod network;
mod notices;
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
#[cfg(test)]
mod tests;
mod wakefulness;

pub(crate) use clocks::ClockStanding;
pub use error::CallError;
pub(crate) use inbounds::InboundNode;
pub use internode::Internode;
pub use network::{BoxFuture, Listener, Network, Stream, TokioNetwork};
pub use peer::Peer;
pub(crate) use peer::Trouble;
pub use plain_links::{PlainLink, PlainLinks};
pub use replies::{Answered, LateFaults, Replies, Reply};
pub use responder::Responder;
pub(crate) use security::LinkKeys;
pub use security::{JoinProof, LinkMode, LinkSecurity, Proven};
pub use service::{Admission, IncomingRequest, Newcomer, NotAdmitted, Service};
pub use settings::{InternodeSettings, Limits, NodeClock};
pub use statistics::{MethodCounts, PeerStatistics, ServiceStatistics, Traffic};

use calls::Window;
use error::Fault;
use quoit_wire::internode::{InternodeDecoder, LANE_LARGE, LANE_SMALL};
use service::Services;

/// Room made for a read when nothing more is known.
const READ_BYTES: usize = 16 * 1024;
/// Room made at most for a frame that is still arriving: a claim of the peer is not believed at once.
const READ_BYTES_MAX: usize = 1024 * 1024;

/// Connections of a peer by the size of messages, so that a small one never waits behind a large one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lane {
    /// Messages up to some tens of kilobytes.
    Small,
    /// Larger ones. Dialed when it is first needed.
    Large,
}

impl Lane {
    fn number(self) -> u32 {
        match self {
            Lane::Small => LANE_SMALL,
            Lane::Large => LANE_LARGE,
        }
    }

    /// Lanes of newer nodes count as large: nothing small waits for them.
    fn from_number(number: u32) -> Lane {
        if number == LANE_SMALL { Lane::Small } else { Lane::Large }
    }

    /// The bounds of this node on a connection of the lane.
    fn window(self, limits: &Limits) -> Window {
        let bytes = match self {
            Lane::Small => limits.small_window_bytes,
            Lane::Large => limits.large_window_bytes,
        };
        Window { bytes, calls: limits.window_calls }
    }
}

/// How much room to make for the next read.
fn read_room(decoder: InternodeDecoder, input: &[u8]) -> usize {
    match decoder.missing_bytes(input) {
        Ok(missing_bytes) => missing_bytes.clamp(READ_BYTES, READ_BYTES_MAX),
        Err(_) => READ_BYTES,
    }
}
