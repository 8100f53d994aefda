//! Changes of the rules, and their form on disk and on the wire: a key and a JSON value.

use crate::cidr::Cidr;
use crate::password::PasswordHash;
use crate::permission::{Permission, PermissionSet};
use crate::role::{Group, Options, Role, User};
use crate::scope::Scope;
use crate::source::{Source, SourceKey, SourceKind};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thiserror::Error;

/// A change of one rule. All nodes apply the same changes.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// Enables or disables the rules. While they are disabled, any client may do everything.
    Enabled(bool),
    /// Sets the list of ciphers; `None` restores the default list.
    Ciphers(Option<String>),
    /// Creates or replaces a user; `None` deletes it.
    User(String, Option<Arc<User>>),
    /// Creates or replaces a group; `None` deletes it.
    Group(String, Option<Arc<Group>>),
    /// Creates or replaces a source; `None` deletes it.
    Source(SourceKey, Option<Arc<Source>>),
    /// Sets all permissions that are granted to a role on a scope; an empty set deletes the grant.
    Grant(Role, Scope, PermissionSet),
}

/// A row of the rules is damaged or was written by a newer version. Displayed for operators.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("security rule {key}: {reason}")]
pub struct DecodeError {
    key: String,
    reason: String,
}

/// Separates the parts of a key. Names cannot contain it.
const SEPARATOR: char = '\0';

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct RoleRow {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    password: Option<PasswordHash>,
    groups: Vec<String>,
    options: Options,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct SourceRow {
    kind: String,
    options: Options,
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("rows have no maps and write to memory")
}

impl Change {
    /// Returns the key of the row that changes, and its new value; `None` deletes the row.
    #[must_use]
    pub fn encode(&self) -> (String, Option<String>) {
        match self {
            Self::Enabled(is_enabled) => ("enabled".to_owned(), is_enabled.then(|| json(&true))),
            Self::Ciphers(ciphers) => ("ciphers".to_owned(), ciphers.as_ref().map(json)),
            Self::User(name, user) => {
                let row = user.as_ref().map(|user| {
                    let User { password, groups, options } = &**user;
                    let (password, groups) = (password.clone(), groups.iter().cloned().collect());
                    json(&RoleRow { password, groups, options: options.clone() })
                });
                (key(&["user", name]), row)
            }
            Self::Group(name, group) => {
                let row = group.as_ref().map(|group| {
                    let groups = group.groups.iter().cloned().collect();
                    json(&RoleRow { password: None, groups, options: group.options.clone() })
                });
                (key(&["group", name]), row)
            }
            Self::Source(SourceKey { user, cidr }, source) => {
                let row = source.as_ref().map(|source| {
                    let (kind, options) = (source.kind.name().to_owned(), source.options.clone());
                    json(&SourceRow { kind, options })
                });
                let user = user.as_deref().unwrap_or_default();
                (key(&["source", user, &cidr.to_string()]), row)
            }
            Self::Grant(role, scope, permissions) => {
                let names: Vec<_> = permissions.iter().map(Permission::name).collect();
                let (role, name) = match role {
                    Role::User(name) => ("user", name.as_str()),
                    Role::Group(name) => ("group", name.as_str()),
                    Role::All => ("all", ""),
                };
                let key = match scope {
                    Scope::Any => key(&["grant", role, name]),
                    Scope::Type(bucket_type) => key(&["grant", role, name, bucket_type]),
                    Scope::Bucket(bucket_type, bucket) => {
                        key(&["grant", role, name, bucket_type, bucket])
                    }
                };
                (key, (!names.is_empty()).then(|| json(&names)))
            }
        }
    }

    /// Decodes a row.
    ///
    /// # Errors
    ///
    /// [`DecodeError`] if the row is damaged or was written by a newer version.
    pub fn decode(key: &str, value: Option<&str>) -> Result<Self, DecodeError> {
        decode(key, value)
            .map_err(|reason| DecodeError { key: key.replace(SEPARATOR, "/"), reason })
    }
}

fn key(parts: &[&str]) -> String {
    parts.join(&SEPARATOR.to_string())
}

fn read<'v, T: Deserialize<'v>>(value: Option<&'v str>) -> Result<Option<T>, String> {
    value.map(serde_json::from_str).transpose().map_err(|fault| fault.to_string())
}

fn decode(key: &str, value: Option<&str>) -> Result<Change, String> {
    let parts: Vec<_> = key.split(SEPARATOR).collect();
    Ok(match parts.as_slice() {
        ["enabled"] => Change::Enabled(read::<bool>(value)?.unwrap_or(false)),
        ["ciphers"] => Change::Ciphers(read(value)?),
        ["user", name] => {
            let row = read::<RoleRow>(value)?;
            let user = row.map(|RoleRow { password, groups, options }| {
                Arc::new(User { password, groups: groups.into_iter().collect(), options })
            });
            if let Some(hash) = user.as_ref().and_then(|user| user.password.as_ref()) {
                hash.check().map_err(|fault| fault.to_string())?;
            }
            Change::User((*name).to_owned(), user)
        }
        ["group", name] => {
            let group = read::<RoleRow>(value)?.map(|RoleRow { groups, options, .. }| {
                Arc::new(Group { groups: groups.into_iter().collect(), options })
            });
            Change::Group((*name).to_owned(), group)
        }
        ["source", user, cidr] => {
            let cidr: Cidr = cidr.parse().map_err(|fault| format!("{fault}"))?;
            let user = (!user.is_empty()).then(|| (*user).to_owned());
            let source = read::<SourceRow>(value)?.map(|row| {
                let kind = SourceKind::named(&row.kind).ok_or_else(|| unknown(&row.kind))?;
                Ok::<_, String>(Arc::new(Source { kind, options: row.options }))
            });
            Change::Source(SourceKey { user, cidr }, source.transpose()?)
        }
        ["grant", role, name, scope @ ..] => {
            let role = match *role {
                "user" => Role::User((*name).to_owned()),
                "group" => Role::Group((*name).to_owned()),
                "all" => Role::All,
                _ => return Err(unknown(role)),
            };
            let scope = match scope {
                [] => Scope::Any,
                [bucket_type] => Scope::Type((*bucket_type).to_owned()),
                [bucket_type, bucket] => {
                    Scope::Bucket((*bucket_type).to_owned(), (*bucket).to_owned())
                }
                _ => return Err(unknown(key)),
            };
            let names = read::<Vec<String>>(value)?.unwrap_or_default();
            let permission = |name: &String| Permission::named(name).ok_or_else(|| unknown(name));
            let set = names.iter().map(permission).collect::<Result<PermissionSet, _>>()?;
            Change::Grant(role, scope, set)
        }
        _ => return Err(unknown(key)),
    })
}

fn unknown(word: &str) -> String {
    format!("{word:?} is known only to newer versions; upgrade this node")
}
