//! Commands that change the rules, parsed from an operator's words.

use crate::cidr::Cidr;
use crate::name::stored;
use crate::password::{Password, PasswordHash};
use crate::refusal::Refusal;
use crate::role::Options;
use crate::scope::Scope;
use crate::security::{OPTION_BYTES_MAX, OPTIONS_MAX};
use crate::source::SourceKind;
use crate::words::{list, usage};

/// Settings of a user or a group in a command.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Settings {
    /// A password in clear text. It must be replaced by a hash before the command is decided.
    pub password: Option<Password>,
    /// The hash of a password.
    pub password_hash: Option<PasswordHash>,
    /// Names of groups, in the form in which they are stored.
    pub groups: Option<Vec<String>>,
    /// Other options, the last one first.
    pub options: Options,
}

/// The users that a source applies to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Targets {
    /// All users.
    All,
    /// These users, with their names as stored.
    Users(Vec<String>),
}

/// A command that changes rules.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Command {
    /// Enables or disables the rules.
    Enable(bool),
    /// Sets the list of ciphers.
    Ciphers(String),
    /// Creates a user.
    AddUser(String, Settings),
    /// Changes a user.
    AlterUser(String, Settings),
    /// Deletes a user with its sources and grants.
    DelUser(String),
    /// Creates a group.
    AddGroup(String, Settings),
    /// Changes a group.
    AlterGroup(String, Settings),
    /// Deletes a group with its grants.
    DelGroup(String),
    /// Sets how users prove their identity.
    AddSource {
        /// The users.
        users: Targets,
        /// Addresses that the users connect from.
        cidr: Cidr,
        /// The required proof.
        kind: SourceKind,
        /// Other options, the last one first.
        options: Options,
    },
    /// Deletes sources.
    DelSource {
        /// The users.
        users: Targets,
        /// Addresses that the users connect from.
        cidr: Cidr,
    },
    /// Grants permissions.
    Grant {
        /// Names of permissions, as entered.
        permissions: Vec<String>,
        /// The buckets that the permissions apply to.
        scope: Scope,
        /// Names of roles, as entered.
        roles: Vec<String>,
    },
    /// Revokes permissions.
    Revoke {
        /// Names of permissions, as entered.
        permissions: Vec<String>,
        /// The buckets that the permissions apply to.
        scope: Scope,
        /// Names of roles, as entered.
        roles: Vec<String>,
    },
}

impl Command {
    /// Parses the words after `security`, for example `["add-user", "alice"]`.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the words are not a command that changes rules, or a value is not valid.
    pub fn parse(words: &[&str]) -> Result<Self, Refusal> {
        let (command, words) = words.split_first().unwrap_or((&"", &[]));
        Ok(match (*command, words) {
            ("enable", []) => Self::Enable(true),
            ("disable", []) => Self::Enable(false),
            ("ciphers", [ciphers]) => Self::Ciphers((*ciphers).to_owned()),
            ("add-user", [name, options @ ..]) => {
                Self::AddUser((*name).to_owned(), settings(options, true)?)
            }
            ("alter-user", [name, options @ ..]) if !options.is_empty() => {
                Self::AlterUser((*name).to_owned(), settings(options, true)?)
            }
            ("del-user", [name]) => Self::DelUser((*name).to_owned()),
            ("add-group", [name, options @ ..]) => {
                Self::AddGroup((*name).to_owned(), settings(options, false)?)
            }
            ("alter-group", [name, options @ ..]) if !options.is_empty() => {
                Self::AlterGroup((*name).to_owned(), settings(options, false)?)
            }
            ("del-group", [name]) => Self::DelGroup((*name).to_owned()),
            ("add-source", [users, cidr, kind, options @ ..]) => Self::AddSource {
                users: targets(users),
                cidr: cidr.parse()?,
                kind: source_kind(kind)?,
                options: settings(options, false)?.options,
            },
            ("del-source", [users, cidr]) => {
                Self::DelSource { users: targets(users), cidr: cidr.parse()? }
            }
            ("grant", words) if words.len() >= 4 => grant(words, GrantVerb::Grant)?,
            ("revoke", words) if words.len() >= 4 => grant(words, GrantVerb::Revoke)?,
            (
                "enable" | "disable" | "ciphers" | "add-user" | "alter-user" | "del-user"
                | "add-group" | "alter-group" | "del-group" | "add-source" | "del-source" | "grant"
                | "revoke",
                _,
            ) => return Err(usage(command)),
            (word, _) => return Err(Refusal::UnknownCommand { word: word.to_owned() }),
        })
    }

    /// Returns the settings that may contain a password in clear text.
    pub fn settings_mut(&mut self) -> Option<&mut Settings> {
        match self {
            Self::AddUser(_, settings) | Self::AlterUser(_, settings) => Some(settings),
            _ => None,
        }
    }
}

fn source_kind(word: &str) -> Result<SourceKind, Refusal> {
    if word.eq_ignore_ascii_case("pam") {
        return Err(Refusal::Pam);
    }
    SourceKind::named(word).ok_or_else(|| Refusal::Source(word.to_owned()))
}

fn targets(text: &str) -> Targets {
    match list(text).as_slice() {
        ["all"] => Targets::All,
        names => Targets::Users(names.iter().map(|name| stored(name)).collect()),
    }
}

/// Parses options as Riak does: names in lower case, the last option first.
fn settings(words: &[&str], is_user: bool) -> Result<Settings, Refusal> {
    let mut settings = Settings::default();
    if words.len() > OPTIONS_MAX {
        return Err(Refusal::Options);
    }
    for word in words {
        let invalid = || Refusal::Option((*word).to_owned());
        let (name, value) = word.split_once('=').ok_or_else(invalid)?;
        if name.is_empty() || name.contains('\0') || value.contains('\0') {
            return Err(invalid());
        }
        let name = name.to_lowercase();
        match name.as_str() {
            "password" if is_user => settings.password = Some(Password::new(value)?),
            "password_hash" if is_user => {
                settings.password_hash = Some(PasswordHash::parse(value)?);
            }
            "groups" => {
                let groups = list(value).into_iter().map(stored);
                settings.groups = Some(groups.collect());
            }
            _ if name.len().max(value.len()) > OPTION_BYTES_MAX => return Err(Refusal::Options),
            _ => {
                settings.options.retain(|(known, _)| *known != name);
                settings.options.insert(0, (name, value.to_owned()));
            }
        }
    }
    Ok(settings)
}

/// The two commands about grants, which have the same form.
#[derive(Clone, Copy)]
enum GrantVerb {
    Grant,
    Revoke,
}

impl GrantVerb {
    /// The word before the roles.
    const fn preposition(self) -> &'static str {
        match self {
            Self::Grant => "to",
            Self::Revoke => "from",
        }
    }

    fn usage(self) -> Refusal {
        let preposition = self.preposition();
        let command = match self {
            Self::Grant => "grant",
            Self::Revoke => "revoke",
        };
        Refusal::Usage(format!(
            "{command} <permissions> on (<type> [bucket]|any) {preposition} <users>"
        ))
    }
}

fn grant(words: &[&str], verb: GrantVerb) -> Result<Command, Refusal> {
    let preposition = verb.preposition();
    let (permissions, on, scope, roles) = match words {
        [permissions, on, "any", to, roles] if *to == preposition => {
            (permissions, on, Scope::Any, roles)
        }
        [permissions, on, bucket_type, to, roles] if *to == preposition => {
            (permissions, on, Scope::Type((*bucket_type).to_owned()), roles)
        }
        [permissions, on, bucket_type, bucket, to, roles] if *to == preposition => {
            let scope = Scope::Bucket((*bucket_type).to_owned(), (*bucket).to_owned());
            (permissions, on, scope, roles)
        }
        _ => return Err(verb.usage()),
    };
    let has_nul = words.iter().any(|word| word.contains('\0'));
    if *on != "on" || has_nul {
        return Err(verb.usage());
    }
    let permissions = list(permissions).into_iter().map(str::to_owned).collect();
    let roles = list(roles).into_iter().map(str::to_owned).collect();
    Ok(match verb {
        GrantVerb::Grant => Command::Grant { permissions, scope, roles },
        GrantVerb::Revoke => Command::Revoke { permissions, scope, roles },
    })
}
