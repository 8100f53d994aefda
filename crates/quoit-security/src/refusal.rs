//! Why a command is refused, in Riak's words where it has them.

use crate::cidr::CidrError;
use crate::name::NameError;
use crate::password::PasswordError;
use thiserror::Error;

/// A command that is not carried out.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Refusal {
    /// The command has too few or too many words, or others.
    #[error("Usage: {0}")]
    Usage(String),
    /// There is no such command.
    #[error("{word} is no command of security; see `quoit admin security`")]
    UnknownCommand {
        /// The word.
        word: String,
    },
    /// A name can't be one.
    #[error(transparent)]
    Name(#[from] NameError),
    /// The name is taken.
    #[error("This name is already in use")]
    InUse,
    /// There is no such user.
    #[error("User not recognized: {0}")]
    NoUser(String),
    /// There is no such group.
    #[error("Group not recognized: {0}")]
    NoGroup(String),
    /// There are no such users.
    #[error("User(s) not recognized: {}", .0.join(","))]
    NoUsers(Vec<String>),
    /// There are no such groups.
    #[error("Group(s) not recognized: {}", .0.join(","))]
    NoGroups(Vec<String>),
    /// There is no such user or group.
    #[error("Name not recognized: {0}")]
    NoRole(String),
    /// Several reasons against a grant or its end.
    #[error("{}", .0.join("\n"))]
    Grant(Vec<String>),
    /// An option without `=`.
    #[error("Invalid option {0:?}, options are of the form key=value")]
    Option(String),
    /// Too many options, or one that is too long.
    #[error("there are at most 64 options, each of at most 1024 bytes")]
    Options,
    /// The source is no block of addresses.
    #[error(transparent)]
    Cidr(#[from] CidrError),
    /// There is no such source.
    #[error("Source not recognized: {0}; there are trust, password and certificate")]
    Source(String),
    /// Riak has it, and Quoit does not.
    #[error(
        "Source pam is not supported: Quoit does not ask PAM of the machine. Give the users passwords and \
         use the source password, or certificates and the source certificate"
    )]
    Pam,
    /// A password or a hash of one is refused.
    #[error(transparent)]
    Password(#[from] PasswordError),
    /// None of the ciphers can be used.
    #[error("No known or supported ciphers in list.\nThese are supported: {supported}")]
    Ciphers {
        /// Those that can.
        supported: String,
    },
    /// There is no more room.
    #[error("there are {max} {things}, and no more are possible; delete some that nobody needs")]
    TooMany {
        /// The things.
        things: &'static str,
        /// How many there may be.
        max: usize,
    },
}
