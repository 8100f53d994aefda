//! Errors, and their form in each protocol.

use crate::departure::Departure;
use crate::membership_error::MembershipError;
use crate::outdated::{MembersOutdated, Outdated};
use crate::trust::TrustError;
use quoit_model::key::KeyError;
use quoit_model::props::{InvalidProps, TypeError};
use serde_json::Value;
use std::path::PathBuf;
use thiserror::Error;

/// A bucket type that does not exist or is not active.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("no_type")]
pub struct NoSuchType;

/// Reason why a change was not made. Displayed for operators.
#[derive(Debug, Error)]
pub enum ChangeError {
    /// The bucket's type does not exist or is not active.
    #[error("bucket type {name} does not exist or is not active; create and activate it first")]
    NoSuchType {
        /// The type.
        name: String,
    },
    /// The bucket's name is not valid.
    #[error(transparent)]
    Name(#[from] KeyError),
    /// A command on a bucket type was refused.
    #[error(transparent)]
    Type(#[from] TypeError),
    /// Properties of a bucket were refused.
    #[error(transparent)]
    InvalidProps(#[from] InvalidProps),
    /// Some members do not speak the version that a bucket type needs.
    #[error(transparent)]
    MembersOutdated(#[from] MembersOutdated),
    /// The maximum number of bucket types exists already.
    #[error("the cluster has the maximum of {max} bucket types; use one of them")]
    TooManyTypes {
        /// The maximum.
        max: usize,
    },
    /// The maximum number of buckets with properties of their own exists already.
    #[error(
        "{max} buckets have properties of their own, the most that are possible; give the properties to a \
         bucket type, or reset buckets that need none"
    )]
    TooManyBuckets {
        /// The maximum.
        max: usize,
    },
    /// A change of users, groups, sources or grants was refused.
    #[error(transparent)]
    Security(#[from] quoit_security::Refusal),
    /// A change of membership was refused.
    #[error(transparent)]
    Membership(#[from] MembershipError),
    /// A change of the authority or of tokens was refused.
    #[error(transparent)]
    Trust(#[from] TrustError),
    /// The node must stop.
    #[error(transparent)]
    Departed(#[from] Departure),
    /// No majority of the voters agreed in time. The change may or may not take effect.
    #[error(
        "no leader: a majority of the voters can't be reached or is busy; \
         look at `quoit admin cluster status`. The change may or may not have been made"
    )]
    NoLeader,
    /// The change could not be written to the control file. It may or may not be found after a restart.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl ChangeError {
    /// Returns the text of the Protocol Buffers error.
    #[must_use]
    pub fn pb_text(&self) -> String {
        match self {
            Self::NoSuchType { name } => format!("No bucket-type named '{name}'"),
            Self::Type(error) => error.pb_text(),
            Self::InvalidProps(invalid) => invalid.pb_text(),
            _ => self.to_string(),
        }
    }

    /// Returns the body of the HTTP answer: a word or a text, or an object from property to reason.
    #[must_use]
    pub fn http_json(&self) -> Value {
        match self {
            Self::NoSuchType { .. } => Value::from("no_type"),
            Self::Type(error) => error.http_json(),
            Self::InvalidProps(invalid) => invalid.http_json(),
            _ => Value::from(self.to_string()),
        }
    }

    /// Returns true if the fault is the server's and not the request's (HTTP status 500 and not 400).
    #[must_use]
    pub const fn is_server_fault(&self) -> bool {
        matches!(self, Self::Store(_) | Self::NoLeader | Self::Departed(_))
    }
}

/// The control file could not be written or read again.
#[derive(Clone, Debug, Error)]
#[error(
    "control file {path}: {reason}; make sure that the disk has room and works. \
     The change may or may not have been made"
)]
pub struct StoreError {
    /// The file.
    pub path: PathBuf,
    /// Error of the storage.
    pub reason: String,
}

/// Reason why the control file cannot be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The file or its directory cannot be read or written.
    #[error("cannot open control file {path}: {fault}; check that it may be read and written")]
    Io {
        /// The file.
        path: PathBuf,
        /// Error of the operating system. It is part of the text, and so not an error source of its own.
        fault: std::io::Error,
    },
    /// Another process has it open.
    #[error("control file {path} is in use by another process; stop that node first")]
    InUse {
        /// The file.
        path: PathBuf,
    },
    /// The file is not a control file.
    #[error(
        "{path} is not a control file ({reason}); \
         put the right file there, or start the node with another data directory"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        reason: String,
    },
    /// The file is damaged.
    #[error(
        "control file {path} is damaged: {reason}; restore it from a backup of this node, or in a cluster \
         start a node under another name with an empty data directory, join it, and let it take this one's \
         place: `quoit admin cluster force-replace THIS-NODE NEW-NODE`"
    )]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// The fault and its place.
        reason: String,
    },
    /// The file has a format that this version does not know.
    #[error(
        "control file {path} has format {found}, and this version knows {known}; \
         start the version that wrote it"
    )]
    Format {
        /// The file.
        path: PathBuf,
        /// Format of the file.
        found: u32,
        /// Newest format that this version knows.
        known: u32,
    },
    /// The node's name is empty or too long.
    #[error("node name {name:?} is empty or has more than {max} bytes; set another nodename")]
    NodeName {
        /// The name.
        name: String,
        /// Maximum length of a name, in bytes.
        max: usize,
    },
    /// The cluster's data needs a newer version of the internode protocol than the node speaks.
    #[error(transparent)]
    Outdated(#[from] Outdated),
    /// The configured ring size differs from that of the file.
    #[error(
        "ring_size is {configured} in the configuration and {stored} in control file {path}; \
         the number of partitions cannot change: set ring_size = {stored}, \
         or start with an empty data directory"
    )]
    RingSize {
        /// The file.
        path: PathBuf,
        /// Number of partitions as configured.
        configured: u16,
        /// Number of partitions as stored.
        stored: u16,
    },
}
