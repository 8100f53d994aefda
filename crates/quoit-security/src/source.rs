//! Sources: how a user proves who it is, by where it comes from.

use crate::cidr::Cidr;
use crate::role::Options;
use std::fmt;

/// The proof that a source asks for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum SourceKind {
    /// None: the name suffices.
    Trust,
    /// The user's password.
    Password,
    /// A client certificate whose common name is the user's name.
    Certificate,
}

impl SourceKind {
    /// All kinds.
    pub const ALL: [Self; 3] = [Self::Trust, Self::Password, Self::Certificate];

    /// The word in commands.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Password => "password",
            Self::Certificate => "certificate",
        }
    }

    /// The kind of a word, whatever its case.
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

/// For whom and from where a source counts. There is one source for each.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SourceKey {
    /// The user; `None` = all users.
    pub user: Option<String>,
    /// Addresses of clients.
    pub cidr: Cidr,
}

/// A source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Source {
    /// The proof that it asks for.
    pub kind: SourceKind,
    /// Options, which are kept and shown and have no effect.
    pub options: Options,
}
