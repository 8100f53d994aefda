//! Messages of the control plane: entries of its log, snapshots, and what its nodes ask of each
//! other. The forms on disk and on the wire are the same.
//!
//! Identities of nodes are 16 bytes. Fields that a reader does not know are skipped; a change that
//! it does not know at all is an error, because skipping it would make nodes differ.

mod asks;
mod log;
mod state;
mod trust;

pub use asks::{
    Append, AppendOutcome, Appended, Empty, JoinAsked, Joined, Proposed, ReadIndex, SnapshotPart,
    Standing, StandingAsked, StartNoted, Started, VoteAnswer, VoteAsked,
};
pub use log::{Ballot, Decision, Electorate, LogEntry, NodeSet, Position, StoredElectorate};
pub use state::{
    ChangeMessage, ClusterMessage, Copies, LayoutMessage, Loss, LostMessage, MemberMessage,
    MemberStatusMessage, Named, RaisedMessage, Removal, Rule, Serves, StagedKind, StagedMessage,
    StagedMessages, StateMessage,
};
pub use trust::{
    AuthorityMessage, EnrolAsked, Enrolled, HolderMessage, TokenMessage, TrustMessage,
};

/// First method number of the control plane.
pub const METHOD_FIRST: u16 = 0x0001;
/// Last method number of the control plane.
pub const METHOD_LAST: u16 = 0x00ff;

/// Appends entries of the log: [`Append`], entries in it -> [`Appended`].
pub const METHOD_APPEND: u16 = 0x0001;
/// Asks for a vote: [`VoteAsked`] -> [`VoteAnswer`].
pub const METHOD_VOTE: u16 = 0x0002;
/// Sends a part of a snapshot as payload: [`SnapshotPart`] -> [`Ballot`], the receiver's.
pub const METHOD_SNAPSHOT: u16 = 0x0003;
/// Proposes a decision to the leader: [`Decision`] -> [`Proposed`].
pub const METHOD_PROPOSE: u16 = 0x0004;
/// Asks the leader how far the log is committed: [`Empty`] -> [`ReadIndex`].
pub const METHOD_READ_INDEX: u16 = 0x0005;

/// Tells that the sender has started: [`Started`] -> [`StartNoted`].
pub const METHOD_STARTED: u16 = 0x0006;
/// Asks to be let in, as a guest: [`JoinAsked`] -> [`Joined`].
pub const METHOD_JOIN: u16 = 0x0007;
/// Asks whether the sender is still a member, as a guest: [`StandingAsked`] -> [`Standing`].
pub const METHOD_STANDING: u16 = 0x0008;
/// Asks for a certificate, by a token or the shared secret: [`EnrolAsked`] -> [`Enrolled`].
pub const METHOD_ENROL: u16 = 0x0020;

/// A refusal: the receiver is not the leader.
pub const REFUSED_NOT_LEADER: u32 = 1024;
/// A refusal: the receiver's control plane has stopped or cannot do this now.
pub const REFUSED_STOPPED: u32 = 1025;
/// A refusal: the cluster does not let the node in.
pub const REFUSED_JOIN: u32 = 1026;
