//! Which versions of the protocol between nodes members speak, and which ones the data needs.
//!
//! A node of an older version would misunderstand what a newer one sends. So nothing that needs a newer
//! version is begun before all members speak it, and once it is begun, no node is let in that does not.
//!
//! The first version knows all that there is. A property of buckets that a later one adds gets a row
//! in [`PROPERTY_NEEDS`]; tests and the simulator have rows for a version that is made up.

use quoit_model::props::BucketProps;
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
