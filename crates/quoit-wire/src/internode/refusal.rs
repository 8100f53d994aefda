//! Refusals: a number for programs, and a text for people.

use prost::Message;

/// Reason for which a request or a connection was refused.
#[derive(Clone, PartialEq, Eq, Message)]
pub struct Refusal {
    /// One of [`code`], or a number of the service: below [`code::TRANSPORT_MIN`], or at least
    /// [`code::SERVICE_MIN`].
    #[prost(uint32, tag = "1")]
    pub code: u32,
    /// Cause and remedy, for people.
    #[prost(string, tag = "2")]
    pub text: String,
}

/// Codes of refusals. Services and transport use different codes, because a call that ended without
/// an answer may have been executed, and must not be confused with one that was refused.
pub mod code {
    /// First code of the transport. Lower codes belong to the data plane.
    pub const TRANSPORT_MIN: u32 = 16;
    /// The two nodes have no version of the protocol in common.
    pub const VERSION: u32 = 16;
    /// The two nodes are not members of the same cluster, as far as the refusing node knows.
    pub const CLUSTER: u32 = 17;
    /// The node at the address is not the expected one.
    pub const NOT_ME: u32 = 18;
    /// Another live node has the same identity.
    pub const TWO_WITH_ONE_IDENTITY: u32 = 19;
    /// The cluster does not admit this node.
    pub const NOT_ADMITTED: u32 = 20;
    /// The node has too many connections.
    pub const TOO_MANY_CONNECTIONS: u32 = 21;
    /// The node is stopping.
    pub const STOPPING: u32 = 22;
    /// The requester's clock is too far ahead.
    pub const CLOCK: u32 = 23;
    /// The requester does not speak a version of the protocol that the cluster's data needs.
    pub const OUTDATED: u32 = 24;
    /// The TLS handshake did not authenticate the requester. Never sent, since the TLS alert says
    /// it.
    pub const PROOF: u32 = 25;
    /// The service gave no answer, because of a fault in the program or because the node is
    /// stopping. The request may have been executed.
    pub const NO_ANSWER: u32 = 32;
    /// The node does not serve the method, mostly because it is older.
    pub const UNKNOWN_METHOD: u32 = 33;
    /// The node is overloaded.
    pub const OVERLOAD: u32 = 34;
    /// The header is not the message of the method.
    pub const MALFORMED: u32 = 35;
    /// The answer does not fit in a frame. The request may have been executed.
    pub const TOO_LARGE: u32 = 36;
    /// The requester has cancelled the call. The request may have been executed.
    pub const CANCELLED: u32 = 37;
    /// First code that services define themselves.
    pub const SERVICE_MIN: u32 = 1024;
}
