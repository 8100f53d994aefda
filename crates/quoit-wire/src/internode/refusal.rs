//! Refusals: a number for programs and words for people.

use prost::Message;

/// Why a request, or a connection, was refused.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Refusal {
    /// One of [`code`], or a service's own: below [`code::TRANSPORT_MIN`] or from [`code::SERVICE_MIN`] on.
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Cause and remedy, for people.
    #[prost(string, tag = "2")]
    pub text: String,
}

/// Codes of refusals. Those of a service and those of the transport have no number in common: a call that
/// ended without an answer may have been carried out, and must not look like one that was refused.
pub mod code {
    /// The first code of the transport. Those below belong to the data plane.
    pub const TRANSPORT_MIN: u32 = 16;
    /// The two nodes have no version of the protocol in common.
    pub const VERSION: u32 = 16;
    /// The two nodes are no members of one cluster, as far as the one that refuses knows.
    pub const CLUSTER: u32 = 17;
    /// Another node answers at the address.
    pub const NOT_ME: u32 = 18;
    /// A node with the same identity is alive elsewhere.
    pub const TWO_WITH_ONE_IDENTITY: u32 = 19;
    /// The cluster does not take this node.
    pub const NOT_ADMITTED: u32 = 20;
    /// Too many connections at once.
    pub const TOO_MANY_CONNECTIONS: u32 = 21;
    /// The node is about to stop.
    pub const STOPPING: u32 = 22;
    /// The clock of the requester is too far ahead.
    pub const CLOCK: u32 = 23;
    /// The requester speaks no version of the protocol that the cluster's data needs.
    pub const OUTDATED: u32 = 24;
    /// The handshake of TLS has taken no proof of the requester. Never sent: the alert of TLS says it.
    pub const PROOF: u32 = 25;
    /// The service gave no answer: a fault of the program, or the node is stopping. The request may have been
    /// carried out.
    pub const NO_ANSWER: u32 = 32;
    /// The node does not serve the method; an older node, mostly.
    pub const UNKNOWN_METHOD: u32 = 33;
    /// The node has too much to do.
    pub const OVERLOAD: u32 = 34;
    /// The header is not the message that the method takes.
    pub const MALFORMED: u32 = 35;
    /// The answer does not fit in a frame. The request may have been carried out.
    pub const TOO_LARGE: u32 = 36;
    /// The requester has cancelled the call. The request may have been carried out.
    pub const CANCELLED: u32 = 37;
    /// The first code that services define for themselves.
    pub const SERVICE_MIN: u32 = 1024;
}
