//! Permissions of a user: its own grants, those of its groups, and those of all users.

use crate::permission::PermissionSet;
use crate::role::Role;
use crate::scope::Scope;
use crate::security::Security;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// Permissions that are granted to a role.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Grant {
    /// The role.
    pub role: Role,
    /// Buckets that it applies to.
    pub scope: Scope,
    /// Permissions that it gives.
    pub permissions: PermissionSet,
}

/// The grants of a role, as a `print` command shows them.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct RoleGrants {
    /// Grants of its groups, directly or through groups of groups, and of all users.
    pub inherited: Vec<Grant>,
    /// Its own grants.
    pub dedicated: Vec<Grant>,
    /// Both together by scope: buckets first, then all buckets (`any`), then types.
    pub cumulative: Vec<(Scope, PermissionSet)>,
}

/// The full name of a bucket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BucketName<'n> {
    /// The bucket's type.
    pub bucket_type: &'n [u8],
    /// Its name within the type.
    pub bucket: &'n [u8],
}

/// Permissions of a user, in a form for fast lookups.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct UserPermissions {
    any: PermissionSet,
    types: HashMap<Vec<u8>, PermissionSet>,
    buckets: HashMap<Vec<u8>, HashMap<Vec<u8>, PermissionSet>>,
}

impl UserPermissions {
    /// Returns the permissions on all buckets of all types.
    #[must_use]
    pub const fn on_any(&self) -> PermissionSet {
        self.any
    }

    /// Returns the permissions on all buckets of a type. One hash lookup.
    #[must_use]
    pub fn on_type(&self, bucket_type: &[u8]) -> PermissionSet {
        self.types.get(bucket_type).map_or(self.any, |set| set.union(self.any))
    }

    /// Returns the permissions on a bucket. Three hash lookups, no allocation.
    #[must_use]
    pub fn on(&self, name: BucketName<'_>) -> PermissionSet {
        let BucketName { bucket_type, bucket } = name;
        let own = self.buckets.get(bucket_type).and_then(|buckets| buckets.get(bucket));
        let of_type = self.on_type(bucket_type);
        own.map_or(of_type, |set| set.union(of_type))
    }

    fn add(&mut self, scope: &Scope, permissions: PermissionSet) {
        let place = match scope {
            Scope::Any => &mut self.any,
            Scope::Type(name) => self.types.entry(name.clone().into_bytes()).or_default(),
            Scope::Bucket(bucket_type, bucket) => {
                let buckets = self.buckets.entry(bucket_type.clone().into_bytes()).or_default();
                buckets.entry(bucket.clone().into_bytes()).or_default()
            }
        };
        *place = place.union(permissions);
    }
}

impl Security {
    /// Returns the permissions of a user; `None` if the user does not exist.
    #[must_use]
    pub fn permissions_of(&self, user: &str) -> Option<UserPermissions> {
        self.users.get(user)?;
        let mut permissions = UserPermissions::default();
        for role in self.roles_of(&Role::User(user.to_owned())) {
            for grant in self.granted(&role) {
                permissions.add(&grant.scope, grant.permissions);
            }
        }
        Some(permissions)
    }

    /// Returns the grants of a user or a group, as a `print` command shows them.
    #[must_use]
    pub fn grants_of(&self, role: &Role) -> RoleGrants {
        let dedicated: Vec<_> = self.granted(role).collect();
        let mut inherited = Vec::new();
        for inherits in self.roles_of(role).into_iter().filter(|inherits| inherits != role) {
            inherited.extend(self.granted(&inherits));
        }
        let mut by_scope = BTreeMap::<_, PermissionSet>::new();
        for grant in dedicated.iter().chain(&inherited) {
            let place = match &grant.scope {
                Scope::Bucket(..) => 0,
                Scope::Any => 1,
                Scope::Type(_) => 2,
            };
            let set = by_scope.entry((place, grant.scope.clone())).or_default();
            *set = set.union(grant.permissions);
        }
        let cumulative = by_scope.into_iter().map(|((_, scope), set)| (scope, set)).collect();
        RoleGrants { inherited, dedicated, cumulative }
    }

    /// Returns the grants of exactly this role, ordered by scope: all buckets, buckets, types.
    fn granted(&self, role: &Role) -> impl Iterator<Item = Grant> {
        let from = (role.clone(), Scope::Any);
        let role = role.clone();
        self.grants.range(from..).take_while(move |((of, _), _)| *of == role).map(
            |((role, scope), permissions)| Grant {
                role: role.clone(),
                scope: scope.clone(),
                permissions: *permissions,
            },
        )
    }

    /// Returns the role itself, its groups and their groups, each once, and `all`. Groups may contain each
    /// other.
    fn roles_of(&self, role: &Role) -> Vec<Role> {
        let groups_of = |role: &Role| -> Option<&BTreeSet<String>> {
            match role {
                Role::User(name) => self.users.get(name).map(|user| &user.groups),
                Role::Group(name) => self.groups.get(name).map(|group| &group.groups),
                Role::All => None,
            }
        };
        let mut roles = vec![role.clone()];
        let mut seen = BTreeSet::from([role.clone()]);
        let mut next = 0;
        while let Some(role) = roles.get(next).cloned() {
            for group in groups_of(&role).into_iter().flatten() {
                let group = Role::Group(group.clone());
                if seen.insert(group.clone()) {
                    roles.push(group);
                }
            }
            next += 1;
        }
        debug_assert_eq!(roles.len(), seen.len(), "each role is there once");
        if *role != Role::All {
            roles.push(Role::All);
        }
        roles
    }
}
