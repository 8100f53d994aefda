//! All rules of a cluster as one value.

use crate::change::Change;
use crate::permission::PermissionSet;
use crate::role::{Group, Role, User};
use crate::scope::Scope;
use crate::source::{Source, SourceKey};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

/// Maximum number of users.
pub const USERS_MAX: usize = 10_000;
/// Maximum number of groups.
pub const GROUPS_MAX: usize = 10_000;
/// Maximum number of sources.
pub const SOURCES_MAX: usize = 20_000;
/// Maximum number of grants, which are pairs of a role and a scope.
pub const GRANTS_MAX: usize = 100_000;
/// Maximum number of options of a user, a group or a source.
pub const OPTIONS_MAX: usize = 64;
/// Maximum length of an option's name and of its value, in bytes.
pub const OPTION_BYTES_MAX: usize = 1024;

/// Users, groups, sources and grants, and whether they are enabled. Cloning costs one
/// reference count for each.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Security {
    pub(crate) is_enabled: bool,
    pub(crate) ciphers: Option<String>,
    pub(crate) users: BTreeMap<String, Arc<User>>,
    pub(crate) groups: BTreeMap<String, Arc<Group>>,
    pub(crate) sources: BTreeMap<SourceKey, Arc<Source>>,
    pub(crate) grants: BTreeMap<(Role, Scope), PermissionSet>,
}

impl Security {
    /// Returns true if the rules are enabled, so that clients have to log in and need permissions.
    #[must_use]
    pub const fn is_enabled(&self) -> bool {
        self.is_enabled
    }

    /// Returns true if no operator has ever changed anything.
    #[must_use]
    pub fn is_untouched(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the list of ciphers that an operator has set, in OpenSSL's notation.
    #[must_use]
    pub fn ciphers(&self) -> Option<&str> {
        self.ciphers.as_deref()
    }

    /// Returns a user by its stored name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name).map(AsRef::as_ref)
    }

    /// Returns a group by its stored name.
    #[must_use]
    pub fn group(&self, name: &str) -> Option<&Group> {
        self.groups.get(name).map(AsRef::as_ref)
    }

    /// Returns all users, by name.
    pub fn users(&self) -> impl ExactSizeIterator<Item = (&str, &User)> {
        self.users.iter().map(|(name, user)| (name.as_str(), &**user))
    }

    /// Returns all groups, by name.
    pub fn groups(&self) -> impl ExactSizeIterator<Item = (&str, &Group)> {
        self.groups.iter().map(|(name, group)| (name.as_str(), &**group))
    }

    /// Returns all sources. Those for all users come first.
    pub fn sources(&self) -> impl ExactSizeIterator<Item = (&SourceKey, &Source)> {
        self.sources.iter().map(|(key, source)| (key, &**source))
    }

    /// Returns the source that applies to a user at an address: the one with the longest prefix. Among
    /// sources with equal prefixes, the user's own source takes precedence over the source for all users.
    /// Returns `None` if the user does not exist.
    #[must_use]
    pub fn source_for(&self, user: &str, address: IpAddr) -> Option<&Source> {
        self.users.get(user)?;
        let matching = self.sources.iter().filter(|(key, _)| {
            key.user.as_deref().is_none_or(|name| name == user) && key.cidr.contains(address)
        });
        let best = matching.max_by_key(|(key, _)| (key.cidr.prefix_bits(), key.user.is_some()));
        best.map(|(_, source)| &**source)
    }

    /// Applies a change. A change that does not fit the state has no effect.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Enabled(is_enabled) => self.is_enabled = *is_enabled,
            Change::Ciphers(ciphers) => self.ciphers.clone_from(ciphers),
            Change::User(name, Some(user)) => {
                self.users.insert(name.clone(), Arc::clone(user));
            }
            Change::User(name, None) => {
                self.users.remove(name);
            }
            Change::Group(name, Some(group)) => {
                self.groups.insert(name.clone(), Arc::clone(group));
            }
            Change::Group(name, None) => {
                self.groups.remove(name);
            }
            Change::Source(key, Some(source)) => {
                self.sources.insert(key.clone(), Arc::clone(source));
            }
            Change::Source(key, None) => {
                self.sources.remove(key);
            }
            Change::Grant(role, scope, permissions) => {
                let place = (role.clone(), scope.clone());
                if permissions.is_empty() {
                    self.grants.remove(&place);
                } else {
                    self.grants.insert(place, *permissions);
                }
            }
        }
    }

    /// Returns the changes that create these rules, in a fixed order.
    #[must_use]
    pub fn changes(&self) -> Vec<Change> {
        let mut changes = Vec::new();
        changes.extend(self.is_enabled.then_some(Change::Enabled(true)));
        changes.extend(self.ciphers.is_some().then(|| Change::Ciphers(self.ciphers.clone())));
        let groups = self.groups.iter();
        changes
            .extend(groups.map(|(name, group)| Change::Group(name.clone(), Some(group.clone()))));
        let users = self.users.iter();
        changes.extend(users.map(|(name, user)| Change::User(name.clone(), Some(user.clone()))));
        let sources = self.sources.iter();
        changes.extend(
            sources.map(|(key, source)| Change::Source(key.clone(), Some(Arc::clone(source)))),
        );
        let grants = self.grants.iter();
        changes.extend(
            grants.map(|((role, scope), set)| Change::Grant(role.clone(), scope.clone(), *set)),
        );
        changes
    }
}
