//! Versions of the internode protocol that the data of the cluster needs.
//!
//! A node of an older version would misunderstand messages of a newer one. So a feature that needs a newer
//! version is refused until all members speak that version. Once the feature is in use, a node that does not
//! speak the version is not admitted.
//!
//! The first version knows all current properties of buckets. Each property that a later version adds
//! needs a row in [`PROPERTY_NEEDS`]. Tests and the simulator have rows for a made-up version.

use quoit_model::props::BucketProps;
use std::fmt;
use thiserror::Error;

/// A bucket property that nodes of older versions would misunderstand.
pub struct PropertyNeed {
    /// Name of the property, for operators.
    pub property: &'static str,
    /// Oldest version whose nodes understand the property.
    pub version: u32,
    /// Returns true if a set of properties uses it.
    pub is_in: fn(&BucketProps) -> bool,
}

impl fmt::Debug for PropertyNeed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} needs version {}", self.property, self.version)
    }
}

/// The properties that need more than the first version.
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
    /// The version that it needs.
    pub needed: u32,
    /// The property and the bucket or type that need the version.
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
    /// The refused change, and the property that needs the version.
    pub subject: String,
    /// The version that it needs.
    pub needed: u32,
    /// Names of the members that do not speak it.
    pub members: Vec<String>,
}
