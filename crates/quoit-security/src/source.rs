//! Sources: the required proof of identity, by user and address.

use crate::cidr::Cidr;
use crate::role::Options;
use std::fmt;

/// The proof that a source requires.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SourceKind {
    /// No proof. The user's name suffices.
    Trust,
    /// The user's password.
    Password,
    /// A client certificate whose common name is the user's name.
    Certificate,
}

impl SourceKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Trust, Self::Password, Self::Certificate];

    /// Returns the keyword in commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Password => "password",
            Self::Certificate => "certificate",
        }
    }

    /// Returns the kind with a keyword, in upper or lower case.
    #[must_use]
    pub fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name().eq_ignore_ascii_case(word))
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// The user and the addresses that a source applies to. Each such pair has at most one source.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceKey {
    /// The user; `None` for all users.
    pub user: Option<String>,
    /// Addresses of clients.
    pub cidr: Cidr,
}

/// A source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// The proof that it requires.
    pub kind: SourceKind,
    /// Options, which are stored and shown but have no effect.
    pub options: Options,
}
