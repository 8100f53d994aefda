//! Which versions of the protocol between nodes members speak, and which ones the data needs.
//!
//! A node of an older version would misunderstand what a newer one sends. So nothing that needs a newer
//! version is begun before all members speak it, and once it is begun, no node is let in that does not.

use crate::members::Member;
use crate::membership_error::MembershipError;
use crate::state::State;
use quoit_model::props::{BucketProps, ConditionalPutMode};
use quoit_wire::internode::{
    VERSION_DATA_TYPES, VERSION_GRANTS, VERSION_LOSSES, VERSION_MIN, VERSION_SECURITY, VersionRange,
};
use thiserror::Error;

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

/// The oldest version whose nodes understand the objects of buckets with these properties, and keep what the
/// properties promise.
pub(crate) fn needed_by(props: &BucketProps) -> u32 {
    if requires_grants(props) {
        VERSION_GRANTS
    } else if props.datatype.is_some() {
        VERSION_DATA_TYPES
    } else {
        VERSION_MIN
    }
}

/// Whether conditional writes need grants. A node that knows of none would write without them.
pub(crate) fn requires_grants(props: &BucketProps) -> bool {
    props.conditional_put_mode() == ConditionalPutMode::RequireToken
}

/// The property among these that needs a newer version.
fn needing(props: &BucketProps) -> &'static str {
    if requires_grants(props) { "conditional_put_mode=require_token" } else { "data type" }
}

impl State {
    /// Refuses to activate a bucket type that needs a newer version than some member speaks, whether that
    /// member is there or not.
    pub(crate) fn check_members_speak(
        &self,
        bucket_type: &[u8],
        props: &BucketProps,
    ) -> Result<(), MembersOutdated> {
        self.check_members(needed_by(props), || {
            let name = String::from_utf8_lossy(bucket_type);
            let needing = needing(props);
            format!("{name} has been created but cannot be activated yet: its {needing}")
        })
    }

    /// Refuses properties that need a newer version than those before did, and than some member speaks.
    pub(crate) fn check_members_keep(
        &self,
        name: &[u8],
        before: &BucketProps,
        props: &BucketProps,
    ) -> Result<(), MembersOutdated> {
        let needed = needed_by(props);
        if needed <= needed_by(before) {
            return Ok(());
        }
        let name = String::from_utf8_lossy(name);
        self.check_members(needed, || format!("{name} is not changed: {}", needing(props)))
    }

    pub(crate) fn check_members(
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

    /// Refuses rules of security while some member would not keep clients to them.
    pub(crate) fn check_members_know_security(&self) -> Result<(), MembersOutdated> {
        self.check_members(VERSION_SECURITY, || {
            "users and rights can't be changed yet: security".to_owned()
        })
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

    /// Refuses a node that speaks too old a version for the active bucket types and their buckets. Looks at
    /// all types, and at all buckets with properties of their own once one of them has needed a newer version
    /// than its type.
    pub(crate) fn check_speaks(&self, node: &str, versions: VersionRange) -> Result<(), Outdated> {
        if !self.security().is_untouched() && versions.max < VERSION_SECURITY {
            let (node, needed) = (node.to_owned(), VERSION_SECURITY);
            let subject = "the cluster's security".to_owned();
            return Err(Outdated { node, speaks: versions.max, needed, subject });
        }
        let refuse = |subject: String, props: &BucketProps| {
            let (node, needed) = (node.to_owned(), needed_by(props));
            Err(Outdated { node, speaks: versions.max, needed, subject })
        };
        let needs = |(_, props): &(_, &BucketProps)| needed_by(props) > versions.max;
        if let Some((name, props)) = self.active_types().find(needs) {
            let name = String::from_utf8_lossy(name);
            return refuse(format!("the {} of bucket type {name}", needing(props)), props);
        }
        match self.buckets_that_may_require_grants().find(needs) {
            None => Ok(()),
            Some((name, props)) => {
                let name = String::from_utf8_lossy(name);
                refuse(format!("the {} of bucket {name}", needing(props)), props)
            }
        }
    }
}
