//! Users and groups.

use crate::password::PasswordHash;
use std::collections::BTreeSet;
use std::fmt;

/// Options of a user, a group or a source beside those that have a meaning: kept and shown, in the order in
/// which Riak shows them.
pub type Options = Vec<(String, String)>;

/// A user.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct User {
    /// Hash of the password; `None` = a source `password` admits nobody as this user.
    pub password: Option<PasswordHash>,
    /// Names of groups.
    pub groups: BTreeSet<String>,
    /// Other options.
    pub options: Options,
}

/// A group. Groups may be members of groups.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Group {
    /// Names of groups.
    pub groups: BTreeSet<String>,
    /// Other options.
    pub options: Options,
}

/// The user, the group or all users that something is granted to.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// A user.
    User(String),
    /// A group.
    Group(String),
    /// All users.
    All,
}

impl fmt::Display for Role {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::User(name) => write!(formatter, "user/{name}"),
            Self::Group(name) => write!(formatter, "group/{name}"),
            Self::All => formatter.write_str("all"),
        }
    }
}
