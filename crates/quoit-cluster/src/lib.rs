//! The control plane: the node's identity, the members of the cluster, the layouts, the bucket types, and
//! the properties of buckets.
//!
//! Every member keeps the whole state. [`ControlPlane`] holds it in memory as an immutable [`State`] that
//! every request reads without a lock, and in one file. The state changes by entries of a replicated log
//! (Raft). A caller asks for a change with a [`Command`]. A command takes three separate steps:
//! [`State::decide`] turns it into [`Change`]s, the voters agree on them, and [`State::with`] applies
//! them. A single node is a cluster of one and takes the same steps.
//!
//! Not in this crate: objects and their semantics, client protocols, and the meaning of properties
//! ([`quoit_model::props`]). The server calls this crate for requests and operators' commands. The store's
//! coordinators call it for properties and preference lists.
//!
//! ```
//! use quoit_cluster::{ControlPlane, NodeId, Settings};
//! use quoit_model::key::BucketRef;
//! use quoit_model::props::PropUpdates;
//! use quoit_seam::RealDisk;
//! use std::sync::Arc;
//!
//! # let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
//! # runtime.block_on(async {
//! # let dir = tempfile::tempdir().unwrap();
//! let disk = Arc::new(RealDisk::open(dir.path()).unwrap());
//! let settings = Settings::new("quoit@127.0.0.1", NodeId(*b"sixteen random b"));
//! let control = ControlPlane::open(disk, settings).unwrap();
//! control.create_type(b"logs", &PropUpdates::default()).await.unwrap();
//! control.activate_type(b"logs").await.unwrap();
//! let bucket = BucketRef { bucket_type: b"logs", bucket: b"web" };
//! assert!(control.read().bucket_props(bucket).unwrap().allow_mult);
//! # });
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod buckets;
mod change;
mod command;
mod control;
mod cut_off;
mod departure;
mod enrolment;
mod error;
mod id_bytes;
mod join;
mod layouts;
mod liveness;
mod members;
mod membership;
mod membership_error;
mod outdated;
mod plan;
mod plan_id;
mod plane;
mod readiness;
mod recover;
mod restore;
mod run;
mod staged;
mod state;
#[cfg(test)]
mod tests;
mod transport;
mod trust;
mod trust_operations;

pub use change::Change;
pub use command::{BUCKET_TYPES_MAX, BUCKETS_WITH_PROPS_MAX, Command};
pub use control::seed_elections;
pub use cut_off::CutOff;
pub use departure::Departure;
pub use error::{ChangeError, NoSuchType, OpenError, StoreError};
pub use join::JoinError;
pub use layouts::{Layouts, MemberReport, Readers};
pub use liveness::{Latency, LivenessSettings, PhiDetector};
pub use members::{Addresses, CAPACITY_DEFAULT, Member, MemberStatus, Members};
pub use membership_error::MembershipError;
pub use outdated::{MembersOutdated, Outdated, PropertyNeed};
pub use plan::{Plan, PlannedMember, PlannedTransfer};
pub use plan_id::PlanId;
pub use plane::{ControlPlane, Settings, Snapshot};
pub use quoit_model::node::NodeId;
pub use quoit_wire::internode::VersionRange;
pub use readiness::Readiness;
pub use recover::{RecoverError, Recovered, recover};
pub use restore::{RestoreRole, Restored, inspect_copy, restore};
pub use staged::StagedChange;
pub use state::{ChosenBackend, NValRaise, Placements, PropsEntry, RaiseReport, State, TypeStatus};
#[cfg(any(test, feature = "testing"))]
pub use transport::memory_network;
pub use transport::{
    Admission, BoxFuture, CallError, IncomingRequest, Internode, InternodeSettings,
    InternodeTlsMode, JitterSeed, JoinProof, JoiningNode, Lane, LateFailureListener, Limits,
    LinkSecurity, Listener, MethodCounts, Network, NodeClock, NotAdmitted, Peer, PeerProof,
    PeerStatistics, PlainLink, PlainLinks, Replies, Reply, Responder, Service, ServiceStatistics,
    SlotAnswer, Stream, TokioNetwork, Traffic,
};
pub use trust::{
    IssuedToken, LinkView, MemberLink, MemberTrust, TOKENS_MAX, TokenView, Trust, TrustError,
    TrustToken,
};

use std::fmt;

/// Identity of a cluster: the identity of its founding node, or the one that a restore from copies chose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClusterId(pub [u8; 16]);

impl fmt::Display for ClusterId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:032x}", u128::from_be_bytes(self.0))
    }
}
