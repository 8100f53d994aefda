//! Reasons why a command is refused, in Riak's words if Riak has the same refusal.

use crate::cidr::CidrError;
use crate::name::NameError;
use crate::password::PasswordError;
use thiserror::Error;

/// Reason why a command is refused.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    /// The command has too few, too many or wrong words.
    #[error("Usage: {0}")]
    Usage(String),
    /// The command does not exist.
    #[error("{word} is not a command of security; see `quoit admin security`")]
    UnknownCommand {
        /// The word.
        word: String,
    },
    /// A name is not valid.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The name is taken.
    #[error("This name is already in use")]
    InUse,
    /// The user does not exist.
    #[error("User not recognized: {0}")]
    NoUser(String),
    /// The group does not exist.
    #[error("Group not recognized: {0}")]
    NoGroup(String),
    /// These users do not exist.
    #[error("User(s) not recognized: {}", .0.join(","))]
    NoUsers(Vec<String>),
    /// These groups do not exist.
    #[error("Group(s) not recognized: {}", .0.join(","))]
    NoGroups(Vec<String>),
    /// There is neither a user nor a group with this name.
    #[error("Name not recognized: {0}")]
    NoRole(String),
    /// A grant or its revocation has these faults.
    #[error("{}", .0.join("\n"))]
    Grant(Vec<String>),
    /// The option has no `=`.
    #[error("Invalid option {0:?}, options are of the form key=value")]
    Option(String),
    /// There are too many options, or one is too long.
    #[error("there are at most 64 options, each of at most 1024 bytes")]
    Options,
    /// The text is not a block of addresses.
    #[error(transparent)]
    Cidr(#[from] CidrError),
    /// The kind of source does not exist.
    #[error("Source not recognized: {0}; there are trust, password and certificate")]
    Source(String),
    /// The kind of source exists in Riak but not in Quoit.
    #[error(
        "Source pam is not supported: Quoit does not ask PAM of the machine. Give the users passwords and \
         use the source password, or certificates and the source certificate"
    )]
    Pam,
    /// A password or its hash is refused.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// None of the ciphers is supported.
    #[error("No known or supported ciphers in list.\nThese are supported: {supported}")]
    Ciphers {
        /// Names of the supported ciphers.
        supported: String,
    },
    /// The maximum number of things exists already.
    #[error("the cluster has the maximum of {max} {things}; delete some that are not needed")]
    TooMany {
        /// The things.
        things: &'static str,
        /// The maximum.
        max: usize,
    },
}
