//! Refusals of changes of membership.

use crate::NodeId;
use crate::members::MemberStatus;
use crate::outdated::{MembersOutdated, Outdated};
use quoit_model::layout::{CAPACITY_MAX, LOCATION_BYTES_MAX, LayoutError};
use thiserror::Error;

/// Returns the remedy for a member that cannot be changed because of its status.
fn remedy_for_status(name: &str, status: MemberStatus) -> String {
    match status {
        MemberStatus::Joining => "it gets its place with `cluster commit`, or is alone again with \
             `cluster clear`"
            .to_owned(),
        MemberStatus::Valid => "it is a full member".to_owned(),
        MemberStatus::Leaving | MemberStatus::Exiting => format!(
            "it leaves when it has handed over its data. If it can't be reached, mark it as down (`quoit \
             admin down {name}`), so that the other members don't wait for it; if it is lost for good, \
             remove it with `cluster force-remove {name}`"
        ),
    }
}

/// Reason why a change of membership is refused. Displayed for operators.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum MembershipError {
    /// No member has this name.
    #[error("{name} is not a member of the cluster; `cluster status` shows all members")]
    NotAMember {
        /// The name.
        name: String,
    },
    /// The only member cannot be removed.
    #[error("{name} is the only member of the cluster, so no other node could take its data")]
    OnlyMember {
        /// The member.
        name: String,
    },
    /// The member's status does not allow the change.
    #[error("{name} is {status}: {}", remedy_for_status(name, *status))]
    Status {
        /// The member.
        name: String,
        /// Status of the member.
        status: MemberStatus,
    },
    /// A change of the node is staged already.
    #[error(
        "{action} of {name} is staged already; commit it, or drop all staged changes with `cluster clear`"
    )]
    AlreadyStaged {
        /// The member.
        name: String,
        /// The staged action.
        action: &'static str,
    },
    /// The node that should replace another one has partitions itself.
    #[error(
        "{name} holds partitions and can't take the place of another; let a new node join and replace with it"
    )]
    HoldsPartitions {
        /// The member.
        name: String,
    },
    /// A node cannot replace itself.
    #[error("{name} can't replace itself")]
    SameNode {
        /// The member.
        name: String,
    },
    /// The name of the location is too long.
    #[error("a location's name has at most {LOCATION_BYTES_MAX} bytes, not {size_bytes}")]
    Location {
        /// Length of the name, in bytes.
        size_bytes: usize,
    },
    /// The capacity is out of bounds.
    #[error("a capacity is a number from 1 to {CAPACITY_MAX}, not {capacity}")]
    Capacity {
        /// The capacity.
        capacity: u32,
    },
    /// No changes are staged.
    #[error("There are no staged changes")]
    NothingStaged,
    /// The commit names no plan, and none was shown.
    #[error("You must verify the plan with `cluster plan` before committing changes")]
    NotPlanned,
    /// The plan has changed since it was shown.
    #[error(
        "The plan has changed since it was shown: verify it again with `cluster plan`, then commit"
    )]
    PlanChanged,
    /// A joining node is not reachable.
    #[error(
        "{name} is not reachable, and nodes that join must be up when the plan is committed: start it, or \
         drop all staged changes with `cluster clear`"
    )]
    NotUp {
        /// The node.
        name: String,
    },
    /// The node is up.
    #[error("Failed: {name} is up")]
    IsUp {
        /// The node.
        name: String,
    },
    /// Too many layouts are live.
    #[error(
        "{count} changes of layout are in progress, the most that are possible; wait until `cluster status` \
         shows no pending changes. If they wait for a member that is lost for good, remove it with `cluster \
         force-remove`, which is still possible"
    )]
    TooManyLayouts {
        /// Number of live layouts.
        count: usize,
    },
    /// No layout is possible with these members.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// The joining node was a member and was removed for ever.
    #[error(
        "node {id} was removed from this cluster and can't come back: others have taken over its data. \
         Start it with an empty data directory, and it joins as a new node"
    )]
    Removed {
        /// The node.
        id: NodeId,
    },
    /// Another member has the name.
    #[error(
        "the cluster already has a member with the name {name} and another identity ({id}). If that node \
         lost its disk, start this one with another --name, let it join, and run `cluster force-replace \
         {name} NEW-NAME`; otherwise give one of them another name"
    )]
    NameInUse {
        /// The name.
        name: String,
        /// The member that has it.
        id: NodeId,
    },
    /// The node is a member already.
    #[error("{name} is already a member of this cluster")]
    AlreadyMember {
        /// The node.
        name: String,
    },
    /// The joining node and the cluster have different ring sizes.
    #[error(
        "this node has ring_size {own} and the cluster {theirs}; the number of partitions cannot change: \
         start it with an empty data directory and ring_size = {theirs}"
    )]
    RingSize {
        /// Number of partitions of the joining node.
        own: u16,
        /// Number of partitions of the cluster.
        theirs: u16,
    },
    /// The cluster's data needs a newer version of the internode protocol than the node speaks.
    #[error(transparent)]
    Outdated(#[from] Outdated),
    /// The joining node has a bucket type that needs a newer version of the protocol than some members
    /// speak.
    #[error(transparent)]
    MembersOutdated(#[from] MembersOutdated),
    /// The joining node and the cluster have a bucket type of this name with different properties.
    #[error(
        "bucket type {name} differs between this node and the cluster (properties: {differing}); \
         make them equal with `bucket-type update`, on either side, and join again"
    )]
    TypeContradicts {
        /// The type.
        name: String,
        /// Names of the properties that differ.
        differing: String,
    },
    /// The joining node and the cluster have different properties for a bucket.
    #[error(
        "properties of bucket {bucket} (type {bucket_type}) differ between this node and the cluster \
         ({differing}); make them equal or reset them, on either side, and join again"
    )]
    BucketContradicts {
        /// The bucket's type.
        bucket_type: String,
        /// The bucket.
        bucket: String,
        /// Names of the properties that differ.
        differing: String,
    },
}
