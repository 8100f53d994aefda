//! Which versions of the protocol between nodes members speak, and which ones the data needs.
//!
//! A node of an older version would misunderstand what a newer one sends. So nothing that needs a newer
//! version is begun before all members speak it, and once it is begun, no node is let in that does not.

use crate::members::Member;
use crate::membership_error::MembershipError;
use crate::state::State;
use quoit_model::props::BucketProps;
use quoit_wire::internode::{VERSION_DATA_TYPES, VERSION_LOSSES, VERSION_MIN, VersionRange};
use thiserror::Error;

/// A node speaks too old a version. Displayed for operators.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{node} speaks no newer version of the protocol between nodes than {speaks}, and the data of bucket type \
     {bucket_type} needs version {needed}; upgrade {node}, or raise internode.version.maximum on it"
)]
pub struct Outdated {
    /// Name of the node.
    pub node: String,
    /// The newest version that it speaks.
    pub speaks: u32,
    /// The version that it would have to speak.
    pub needed: u32,
    /// An active bucket type that needs it.
    pub bucket_type: String,
}

/// A bucket type needs a newer version than some members speak. Displayed for operators.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{bucket_type} has been created but cannot be activated yet: its data type needs version {needed} of the \
     protocol between nodes, and these members do not speak it: {}. Upgrade them, or raise \
     internode.version.maximum on them, and restart them",
    members.join(", ")
)]
pub struct MembersOutdated {
    /// The bucket type.
    pub bucket_type: String,
    /// The version that it needs.
    pub needed: u32,
    /// Names of the members that do not speak it.
    pub members: Vec<String>,
}

/// The oldest version whose nodes understand the objects of buckets with these properties.
pub(crate) const fn needed_by(props: &BucketProps) -> u32 {
    if props.datatype.is_some() { VERSION_DATA_TYPES } else { VERSION_MIN }
}

impl State {
    /// Refuses a bucket type that needs a newer version than some member speaks, whether that member is
    /// there or not.
    pub(crate) fn check_members_speak(
        &self,
        bucket_type: &[u8],
        props: &BucketProps,
    ) -> Result<(), MembersOutdated> {
        let needed = needed_by(props);
        let is_outdated = |member: &&Member| member.versions.max < needed;
        let outdated = self.members().iter().map(AsRef::as_ref).filter(is_outdated);
        let mut members: Vec<_> = outdated.map(|member| member.name.to_string()).collect();
        members.sort_unstable();
        if members.is_empty() {
            return Ok(());
        }
        let bucket_type = String::from_utf8_lossy(bucket_type).into_owned();
        Err(MembersOutdated { bucket_type, needed, members })
    }

    /// Refuses to tell of lost records while some member would not understand it.
    pub(crate) fn check_members_know_losses(&self) -> Result<(), MembershipError> {
        let outdated = self.members().iter().filter(|each| each.versions.max < VERSION_LOSSES);
        let mut members: Vec<_> = outdated.map(|member| member.name.to_string()).collect();
        members.sort_unstable();
        match members.is_empty() {
            true => Ok(()),
            false => Err(MembershipError::LossesUnknown { members }),
        }
    }

    /// Refuses a node that speaks too old a version for the active bucket types. Looks at all of them.
    pub(crate) fn check_speaks(&self, node: &str, versions: VersionRange) -> Result<(), Outdated> {
        let needs = |(_, props): &(_, &BucketProps)| needed_by(props) > versions.max;
        match self.active_types().find(needs) {
            None => Ok(()),
            Some((bucket_type, props)) => Err(Outdated {
                node: node.to_owned(),
                speaks: versions.max,
                needed: needed_by(props),
                bucket_type: String::from_utf8_lossy(bucket_type).into_owned(),
            }),
        }
    }
}
