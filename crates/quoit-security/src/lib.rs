//! Users, groups, sources and grants: the rules by which a node decides which users may log
//! in and what they may do.
//!
//! [`Security`] is one immutable value that all nodes of a cluster agree on. A [`Command`] is a parsed
//! command of an operator (as in `riak admin security`). [`Security::decide`] turns it into [`Change`]s or a
//! [`Refusal`], and [`Security::apply`] applies a change. At a login, [`Security::source_for`] returns the
//! proof that the client's address requires, and [`Security::permissions_of`] returns the permissions of the
//! user.
//!
//! Everything here is pure: salts and addresses are arguments. Not here: sockets, TLS, the replicated log,
//! and delays after failed logins.
//!
//! ```
//! use quoit_security::{BucketName, Command, Permission, Security};
//!
//! let mut security = Security::default();
//! let mut run = |words: &[&str]| {
//!     let command = Command::parse(words).unwrap();
//!     for change in security.decide(&command).unwrap() {
//!         security.apply(&change);
//!     }
//! };
//! run(&["add-user", "alice"]);
//! run(&["add-source", "all", "10.0.0.0/8", "trust"]);
//! run(&["grant", "riak_kv.get", "on", "default", "logs", "to", "alice"]);
//! let permissions = security.permissions_of("alice").unwrap();
//! let of = |bucket| permissions.on(BucketName { bucket_type: b"default", bucket });
//! assert!(of(b"logs").contains(Permission::Get));
//! assert!(!of(b"other").contains(Permission::Get));
//! ```
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod change;
mod cidr;
mod command;
mod cut_off_login_policy;
mod decide;
mod grants;
mod hex;
mod name;
mod password;
mod permission;
mod refusal;
mod role;
mod scope;
mod security;
mod source;
#[cfg(test)]
mod tests;
mod words;

pub use change::{Change, DecodeError};
pub use cidr::{Cidr, CidrError};
pub use command::{Command, Settings, Targets};
pub use cut_off_login_policy::CutOffLoginPolicy;
pub use grants::{BucketName, Grant, RoleGrants, UserPermissions};
pub use name::{NAME_BYTES_MAX, NameError, checked_name};
pub use password::{HashingCost, Password, PasswordError, PasswordHash, Salt};
pub use permission::{Permission, PermissionSet};
pub use refusal::Refusal;
pub use role::{Group, Options, Role, User};
pub use scope::Scope;
pub use security::{
    GRANTS_MAX, GROUPS_MAX, OPTION_BYTES_MAX, OPTIONS_MAX, SOURCES_MAX, Security, USERS_MAX,
};
pub use source::{Source, SourceKey, SourceKind};
