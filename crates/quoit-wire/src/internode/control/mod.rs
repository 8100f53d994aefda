//! Messages of the control plane: entries of its log, snapshots, and requests between nodes. The
//! forms on disk and on the wire are the same.
//!
//! The log is replicated by Raft. A leader appends entries with [`Append`], candidates ask for
//! votes with [`VoteAsked`], and a node that lags far behind receives a snapshot in
//! [`SnapshotPart`]s. Other nodes send their decisions to the leader ([`Decision`]).
//!
//! Identities of nodes are 16 bytes. A reader skips fields that it does not know. A change that it
//! does not know at all is an error, because nodes that skip it would differ from the others.

mod log;
mod requests;
mod state;
mod trust;

pub use log::{Ballot, Decision, Electorate, LogEntry, NodeSet, Position, StoredElectorate};
pub use requests::{
    Append, AppendOutcome, Appended, Empty, JoinRequest, Joined, MembershipAnswer, MembershipQuery,
    Proposed, ReadIndex, SnapshotPart, StartNoted, Started, VoteAnswer, VoteAsked,
};
pub use state::{
    ChangeMessage, ClusterMessage, Copies, LayoutMessage, LostMessage, MemberMessage,
    MemberRemoval, MemberStatusMessage, NodeLoss, PropsMessage, RaisedMessage, Rule, ServedLayouts,
    StagedKind, StagedMessage, StagedMessages, StateMessage,
};
pub use trust::{
    AuthorityMessage, EnrolRequest, Enrolled, HolderMessage, TokenMessage, TrustMessage,
};

/// First method number of the control plane.
pub const METHOD_FIRST: u16 = 0x0001;
/// Last method number of the control plane.
pub const METHOD_LAST: u16 = 0x00ff;

/// Appends entries of the log: [`Append`], entries in it -> [`Appended`].
pub const METHOD_APPEND: u16 = 0x0001;
/// Asks for a vote: [`VoteAsked`] -> [`VoteAnswer`].
pub const METHOD_VOTE: u16 = 0x0002;
/// Sends a part of a snapshot as payload: [`SnapshotPart`] -> [`Ballot`] of the receiver.
pub const METHOD_SNAPSHOT: u16 = 0x0003;
/// Proposes a decision to the leader: [`Decision`] -> [`Proposed`].
pub const METHOD_PROPOSE: u16 = 0x0004;
/// Asks the leader for the committed position of the log: [`Empty`] -> [`ReadIndex`].
pub const METHOD_READ_INDEX: u16 = 0x0005;

/// Announces that the sender has started: [`Started`] -> [`StartNoted`].
pub const METHOD_STARTED: u16 = 0x0006;
/// Asks, as a guest, to join the cluster: [`JoinRequest`] -> [`Joined`].
pub const METHOD_JOIN: u16 = 0x0007;
/// Asks, as a guest, whether the sender is still a member: [`MembershipQuery`] -> [`MembershipAnswer`].
pub const METHOD_MEMBERSHIP: u16 = 0x0008;
/// Requests a certificate, authenticated by a token or the shared secret: [`EnrolRequest`] ->
/// [`Enrolled`].
pub const METHOD_ENROL: u16 = 0x0020;

/// Refusal: the receiver is not the leader.
pub const REFUSED_NOT_LEADER: u32 = 1024;
/// Refusal: the receiver's control plane has stopped, or can't do this now.
pub const REFUSED_STOPPED: u32 = 1025;
/// Refusal: the cluster does not admit the node.
pub const REFUSED_JOIN: u32 = 1026;
