//! Decisions on commands: changes, or a refusal.

use crate::change::Change;
use crate::cidr::Cidr;
use crate::command::{Command, Settings, Targets};
use crate::name::{checked_name, stored};
use crate::permission::{Permission, PermissionSet};
use crate::refusal::Refusal;
use crate::role::{Group, Options, Role, User};
use crate::scope::Scope;
use crate::security::{GRANTS_MAX, GROUPS_MAX, OPTIONS_MAX, SOURCES_MAX, Security, USERS_MAX};
use crate::source::{Source, SourceKey};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The group that contains every user. It is never stored.
const EVERYBODY: &str = "all";
/// Maximum total number of users, groups and grants for which debug builds check the rules after a command.
const CHECKED_COUNT_MAX: usize = 64;
/// Maximum number of groups of one user or group.
const GROUPS_OF_ONE_MAX: usize = 1000;

impl Security {
    /// Returns the changes that a command makes. The list is empty if the rules are already as wanted.
    ///
    /// # Errors
    ///
    /// [`Refusal`], with Riak's text.
    ///
    /// # Panics
    ///
    /// If the command contains a password that was not replaced by a hash.
    pub fn decide(&self, command: &Command) -> Result<Vec<Change>, Refusal> {
        let changes = self.changes_of(command)?;
        debug_assert!(
            self.stays_consistent(&changes),
            "no rule names a user or group that is gone"
        );
        Ok(changes)
    }

    /// Returns true if the changes leave no rule that names an unknown user or group. Otherwise a user or
    /// group created later under that name would inherit the grants of the deleted one. Skips the check if
    /// there are more than [`CHECKED_COUNT_MAX`] users, groups and grants, or if a rule named an unknown user
    /// or group before.
    fn stays_consistent(&self, changes: &[Change]) -> bool {
        if self.users.len() + self.groups.len() + self.grants.len() > CHECKED_COUNT_MAX
            || !self.is_consistent()
        {
            return true;
        }
        let mut after = self.clone();
        changes.iter().for_each(|change| after.apply(change));
        after.is_consistent()
    }

    fn is_consistent(&self) -> bool {
        let is_group = |name: &String| self.groups.contains_key(name);
        let is_role = |role: &Role| match role {
            Role::User(name) => self.users.contains_key(name),
            Role::Group(name) => self.groups.contains_key(name),
            Role::All => true,
        };
        let mut sources = self.sources.keys().filter_map(|key| key.user.as_ref());
        self.users.values().all(|user| user.groups.iter().all(is_group))
            && self.groups.values().all(|group| group.groups.iter().all(is_group))
            && sources.all(|user| self.users.contains_key(user))
            && self.grants.iter().all(|((role, _), granted)| is_role(role) && !granted.is_empty())
    }

    fn changes_of(&self, command: &Command) -> Result<Vec<Change>, Refusal> {
        Ok(match command {
            Command::Enable(is_enabled) => {
                let is_news = *is_enabled != self.is_enabled;
                is_news.then_some(Change::Enabled(*is_enabled)).into_iter().collect()
            }
            Command::Ciphers(ciphers) => vec![Change::Ciphers(Some(ciphers.clone()))],
            Command::AddUser(name, settings) => {
                let name = checked_name(name)?;
                not_taken(self.users.contains_key(&name))?;
                Bound { things: "users", max: USERS_MAX }.check(self.users.len() + 1)?;
                let user = User::default();
                vec![Change::User(name, Some(Arc::new(self.altered_user(&user, settings)?)))]
            }
            Command::AlterUser(name, settings) => {
                let name = checked_name(name)?;
                let user = self.users.get(&name).ok_or_else(|| Refusal::NoUser(name.clone()))?;
                let user = self.altered_user(user, settings)?;
                vec![Change::User(name, Some(Arc::new(user)))]
            }
            Command::DelUser(name) => self.without_user(&checked_name(name)?)?,
            Command::AddGroup(name, settings) => {
                let name = checked_name(name)?;
                not_taken(self.groups.contains_key(&name))?;
                Bound { things: "groups", max: GROUPS_MAX }.check(self.groups.len() + 1)?;
                let group = self.altered_group(&Group::default(), settings, &name)?;
                vec![Change::Group(name, Some(Arc::new(group)))]
            }
            Command::AlterGroup(name, settings) => {
                let name = checked_name(name)?;
                let group = self.groups.get(&name).ok_or_else(|| Refusal::NoGroup(name.clone()))?;
                let group = self.altered_group(group, settings, &name)?;
                vec![Change::Group(name, Some(Arc::new(group)))]
            }
            Command::DelGroup(name) => self.without_group(&checked_name(name)?)?,
            Command::AddSource { users, cidr, kind, options } => {
                let keys = self.source_keys(users, *cidr)?;
                let added = keys.iter().filter(|key| !self.sources.contains_key(key)).count();
                Bound { things: "sources", max: SOURCES_MAX }.check(self.sources.len() + added)?;
                let source = Arc::new(Source { kind: *kind, options: options.clone() });
                let put = |key| Change::Source(key, Some(Arc::clone(&source)));
                keys.into_iter().map(put).collect()
            }
            Command::DelSource { users, cidr } => {
                let keys = match users {
                    Targets::All => vec![SourceKey { user: None, cidr: *cidr }],
                    Targets::Users(names) => of_users(names, *cidr),
                };
                let known = keys.into_iter().filter(|key| self.sources.contains_key(key));
                known.map(|key| Change::Source(key, None)).collect()
            }
            Command::Grant { permissions, scope, roles } => {
                let (set, roles) = self.granting(permissions, roles)?;
                self.regranted(&roles, scope, |before| before.union(set))?
            }
            Command::Revoke { permissions, scope, roles } => {
                let (set, roles) = self.granting(permissions, roles)?;
                self.regranted(&roles, scope, |before| before.without(set))?
            }
        })
    }

    /// Returns the role with a name in a `print` command. A prefix `user/` or `group/` selects the kind.
    ///
    /// # Errors
    ///
    /// [`Refusal::NoRole`] if there is neither a user nor a group with this name.
    pub fn printed_role(&self, text: &str) -> Result<Role, Refusal> {
        let unknown = |name: &str| Refusal::NoRole(name.to_owned());
        let user = |name: &str| self.users.contains_key(name).then(|| Role::User(name.to_owned()));
        let group =
            |name: &str| self.groups.contains_key(name).then(|| Role::Group(name.to_owned()));
        let lowered = stored(text);
        if let Some(name) = lowered.strip_prefix("user/") {
            return user(name).ok_or_else(|| unknown(name));
        }
        if let Some(name) = lowered.strip_prefix("group/") {
            return group(name).ok_or_else(|| unknown(name));
        }
        user(&lowered).or_else(|| group(&lowered)).ok_or_else(|| unknown(&lowered))
    }

    fn altered_user(&self, user: &User, settings: &Settings) -> Result<User, Refusal> {
        assert!(settings.password.is_none(), "a password becomes a hash before it is decided on");
        let mut user = user.clone();
        if let Some(hash) = &settings.password_hash {
            user.password = Some(hash.clone());
        }
        if let Some(groups) = &settings.groups {
            user.groups = self.checked_groups(groups, None)?;
        }
        user.options = merged(&user.options, &settings.options)?;
        Ok(user)
    }

    fn altered_group(
        &self,
        group: &Group,
        settings: &Settings,
        own: &str,
    ) -> Result<Group, Refusal> {
        let mut group = group.clone();
        if let Some(groups) = &settings.groups {
            group.groups = self.checked_groups(groups, Some(own))?;
        }
        group.options = merged(&group.options, &settings.options)?;
        Ok(group)
    }

    fn checked_groups(
        &self,
        groups: &[String],
        own: Option<&str>,
    ) -> Result<BTreeSet<String>, Refusal> {
        let named = groups.iter().filter(|name| *name != EVERYBODY);
        let is_known =
            |name: &&&String| self.groups.contains_key(name.as_str()) || own == Some(name.as_str());
        let (known, unknown): (Vec<&String>, Vec<_>) = named.partition(|name| is_known(&name));
        if !unknown.is_empty() {
            return Err(Refusal::NoGroups(unknown.into_iter().cloned().collect()));
        }
        Bound { things: "groups of one user or group", max: GROUPS_OF_ONE_MAX }
            .check(known.len())?;
        Ok(known.into_iter().cloned().collect())
    }

    /// Returns the changes that delete a user with its sources and grants.
    fn without_user(&self, name: &str) -> Result<Vec<Change>, Refusal> {
        if !self.users.contains_key(name) {
            return Err(Refusal::NoUser(name.to_owned()));
        }
        let mut changes = vec![Change::User(name.to_owned(), None)];
        let sources = self.sources.keys().filter(|key| key.user.as_deref() == Some(name));
        changes.extend(sources.map(|key| Change::Source(key.clone(), None)));
        changes.extend(self.without_grants(&Role::User(name.to_owned())));
        Ok(changes)
    }

    /// Returns the changes that delete a group with its grants and memberships.
    fn without_group(&self, name: &str) -> Result<Vec<Change>, Refusal> {
        if !self.groups.contains_key(name) {
            return Err(Refusal::NoGroup(name.to_owned()));
        }
        let mut changes = vec![Change::Group(name.to_owned(), None)];
        for (user_name, user) in self.users.iter().filter(|(_, user)| user.groups.contains(name)) {
            let mut user = User::clone(user);
            user.groups.remove(name);
            changes.push(Change::User(user_name.clone(), Some(Arc::new(user))));
        }
        let members = self
            .groups
            .iter()
            .filter(|(member, group)| member.as_str() != name && group.groups.contains(name));
        for (group_name, group) in members {
            let mut group = Group::clone(group);
            group.groups.remove(name);
            changes.push(Change::Group(group_name.clone(), Some(Arc::new(group))));
        }
        changes.extend(self.without_grants(&Role::Group(name.to_owned())));
        Ok(changes)
    }

    fn without_grants(&self, role: &Role) -> impl Iterator<Item = Change> {
        let of_role = self.grants.keys().filter(move |(of, _)| of == role);
        let changes: Vec<_> = of_role
            .map(|(of, scope)| Change::Grant(of.clone(), scope.clone(), PermissionSet::default()))
            .collect();
        changes.into_iter()
    }

    fn source_keys(&self, users: &Targets, cidr: Cidr) -> Result<Vec<SourceKey>, Refusal> {
        let names = match users {
            Targets::All => return Ok(vec![SourceKey { user: None, cidr }]),
            Targets::Users(names) => names,
        };
        let unknown = names.iter().filter(|name| !self.users.contains_key(name.as_str()));
        let unknown: Vec<_> = unknown.cloned().collect();
        if names.is_empty() || !unknown.is_empty() {
            return Err(Refusal::NoUsers(unknown));
        }
        Ok(of_users(names, cidr))
    }

    /// Resolves the permissions and roles of a grant. An error lists all faults at once.
    fn granting(
        &self,
        permissions: &[String],
        roles: &[String],
    ) -> Result<(PermissionSet, Vec<Role>), Refusal> {
        let (mut found, mut unknown, mut ambiguous) = (Vec::new(), Vec::new(), Vec::new());
        for text in roles {
            let name = stored(text);
            let is_user = self.users.contains_key(&name);
            let is_group = self.groups.contains_key(&name);
            if name == EVERYBODY {
                found.push(Role::All);
            } else if is_user && is_group {
                ambiguous.push(name);
            } else if is_user {
                found.push(Role::User(name));
            } else if is_group {
                found.push(Role::Group(name));
            } else {
                match self.printed_role(&name) {
                    Ok(role) => found.push(role),
                    Err(_) => unknown.push(name),
                }
            }
        }
        let mut reasons = Vec::new();
        if !unknown.is_empty() || roles.is_empty() {
            reasons.push(format!("Name(s) not recognized: {}", unknown.join(",")));
        }
        if !ambiguous.is_empty() {
            reasons.push(format!(
                "Ambiguous names need to be prefixed with 'user/' or 'group/': {}",
                ambiguous.join(",")
            ));
        }
        let is_unknown = |name: &&String| Permission::named(name).is_none();
        let bad = permissions.iter().filter(is_unknown);
        reasons.extend(bad.map(|name| format!("Permission not recognized: {name}")));
        if permissions.is_empty() {
            reasons.push("Permission not recognized: ".to_owned());
        }
        if !reasons.is_empty() {
            return Err(Refusal::Grant(reasons));
        }
        Ok((permissions.iter().filter_map(|name| Permission::named(name)).collect(), found))
    }

    fn regranted(
        &self,
        roles: &[Role],
        scope: &Scope,
        after: impl Fn(PermissionSet) -> PermissionSet,
    ) -> Result<Vec<Change>, Refusal> {
        let mut changes = Vec::new();
        let mut added = 0;
        for role in roles {
            let known = self.grants.get(&(role.clone(), scope.clone()));
            let before = known.copied().unwrap_or_default();
            let after = after(before);
            if after != before {
                added += usize::from(known.is_none());
                changes.push(Change::Grant(role.clone(), scope.clone(), after));
            }
        }
        Bound { things: "grants", max: GRANTS_MAX }.check(self.grants.len() + added)?;
        Ok(changes)
    }
}

fn of_users(names: &[String], cidr: Cidr) -> Vec<SourceKey> {
    names.iter().map(|name| SourceKey { user: Some(name.clone()), cidr }).collect()
}

fn not_taken(is_taken: bool) -> Result<(), Refusal> {
    if is_taken { Err(Refusal::InUse) } else { Ok(()) }
}

/// Maximum number of things of one kind.
struct Bound {
    things: &'static str,
    max: usize,
}

impl Bound {
    /// Checks the number of things after a change.
    fn check(self, count: usize) -> Result<(), Refusal> {
        let Self { things, max } = self;
        if count <= max { Ok(()) } else { Err(Refusal::TooMany { things, max }) }
    }
}

/// Merges options: existing ones keep their position, new ones are appended.
fn merged(before: &Options, set: &Options) -> Result<Options, Refusal> {
    let mut options: Options = before.clone();
    for (name, value) in set {
        match options.iter_mut().find(|(known, _)| known == name) {
            Some(option) => option.1.clone_from(value),
            None => options.push((name.clone(), value.clone())),
        }
    }
    if options.len() > OPTIONS_MAX {
        return Err(Refusal::Options);
    }
    Ok(options)
}
