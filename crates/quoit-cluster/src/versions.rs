//! Which versions of the protocol between nodes members speak, and which ones the data needs.
//!
//! A node of an older version would misunderstand what a newer one sends. So nothing that needs a newer
//! version is begun before all members speak it, and once it is begun, no node is let in that does not.
//!
//! The first version knows all that there is. What a later one adds to the properties of buckets gets a row
//! in [`PROPERTY_NEEDS`]; tests and the simulator have rows for a version that is made up.

use crate::members::Member;
use crate::state::State;
use quoit_model::props::BucketProps;
use quoit_wire::internode::{VERSION_MIN, VersionRange};
use std::fmt;
use thiserror::Error;

/// A kind of bucket properties that nodes of older versions would misunderstand.
pub struct PropertyNeed {
    /// The property, for operators.
    pub property: &'static str,
    /// The oldest version whose nodes understand it, and keep what it promises.
    pub version: u32,
    /// Whether properties are of this kind.
    pub is_in: fn(&BucketProps) -> bool,
}

impl fmt::Debug for PropertyNeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} needs version {}", self.property, self.version)
    }
}

/// The needs of the properties that there are.
pub(crate) const PROPERTY_NEEDS: &[PropertyNeed] = &[];

/// A node speaks too old a version. Displayed for operators.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{node} speaks no newer version of the protocol between nodes than {speaks}, and {subject} needs version \
     {needed}; upgrade {node}, or raise internode.version.maximum on it"
)]
pub struct Outdated {
    /// Name of the node.
    pub node: String,
    /// The newest version that it speaks.
    pub speaks: u32,
    /// The version that it would have to speak.
    pub needed: u32,
    /// The property or type that needs the version.
    pub subject: String,
}

/// A bucket type or a bucket needs a newer version than some members speak. Displayed for operators.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error(
    "{subject} needs version {needed} of the protocol between nodes, and these members do not speak it: {}. \
     Upgrade them, or raise internode.version.maximum on them, and restart them",
    members.join(", ")
)]
pub struct MembersOutdated {
    /// The refused change, and the property in it that needs the version.
    pub subject: String,
    /// The version that it needs.
    pub needed: u32,
    /// Names of the members that do not speak it.
    pub members: Vec<String>,
}

impl State {
    /// The need of properties with the newest version; `None` where every version knows them.
    fn need_of(&self, props: &BucketProps) -> Option<&'static PropertyNeed> {
        let needs = self.property_needs().iter().filter(|need| (need.is_in)(props));
        needs.max_by_key(|need| need.version)
    }

    /// Refuses to activate a bucket type that needs a newer version than some member speaks, whether that
    /// member is there or not.
    pub(crate) fn check_members_speak(
        &self,
        bucket_type: &[u8],
        props: &BucketProps,
    ) -> Result<(), MembersOutdated> {
        let Some(need) = self.need_of(props) else { return Ok(()) };
        self.check_members(need.version, || {
            let name = String::from_utf8_lossy(bucket_type);
            let property = need.property;
            format!("{name} has been created but cannot be activated yet: its {property}")
        })
    }

    /// Refuses properties that need a newer version than those before did, and than some member speaks.
    pub(crate) fn check_members_keep(
        &self,
        name: &[u8],
        before: &BucketProps,
        props: &BucketProps,
    ) -> Result<(), MembersOutdated> {
        let Some(need) = self.need_of(props) else { return Ok(()) };
        if need.version <= self.need_of(before).map_or(VERSION_MIN, |before| before.version) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(name);
        self.check_members(need.version, || format!("{name} is not changed: {}", need.property))
    }

    fn check_members(
        &self,
        needed: u32,
        subject: impl FnOnce() -> String,
    ) -> Result<(), MembersOutdated> {
        let is_outdated = |member: &&Member| member.versions.max < needed;
        let outdated = self.members().iter().map(AsRef::as_ref).filter(is_outdated);
        let mut members: Vec<_> = outdated.map(|member| member.name.to_string()).collect();
        members.sort_unstable();
        if members.is_empty() {
            return Ok(());
        }
        Err(MembersOutdated { subject: subject(), needed, members })
    }

    /// Refuses a node that speaks too old a version for the active bucket types and for the buckets with
    /// properties of their own. Looks at none of them unless some property needs more than the first version.
    pub(crate) fn check_speaks(&self, node: &str, versions: VersionRange) -> Result<(), Outdated> {
        if self.property_needs().is_empty() {
            return Ok(());
        }
        let refuse = |of: &str, name: &[u8], props: &BucketProps| {
            let need = self.need_of(props).filter(|need| need.version > versions.max);
            need.map_or(Ok(()), |need| {
                let subject =
                    format!("the {} of {of} {}", need.property, String::from_utf8_lossy(name));
                let (node, needed) = (node.to_owned(), need.version);
                Err(Outdated { node, speaks: versions.max, needed, subject })
            })
        };
        self.active_types().try_for_each(|(name, props)| refuse("bucket type", name, props))?;
        self.all_bucket_props().try_for_each(|(name, props)| refuse("bucket", name, props))
    }
}
