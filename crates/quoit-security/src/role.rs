//! Users and groups.

use crate::password::PasswordHash;
use std::collections::BTreeSet;
use std::fmt;

/// Options of a user, a group or a source that have no effect. They are stored and shown in Riak's order.
pub type Options = Vec<(String, String)>;

/// A user.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct User {
    /// Hash of the password. With `None`, a source `password` admits no client as this user.
    pub password: Option<PasswordHash>,
    /// Names of the user's groups.
    pub groups: BTreeSet<String>,
    /// Other options.
    pub options: Options,
}

/// A group. Groups may be members of other groups.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Group {
    /// Names of the groups that this group is a member of.
    pub groups: BTreeSet<String>,
    /// Other options.
    pub options: Options,
}

/// A user, a group or all users, as the receiver of a grant.
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
