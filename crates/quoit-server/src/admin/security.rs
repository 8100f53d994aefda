//! Users, groups, sources of logins and grants in the administration API.

use super::{allow, error, no_such_path};
use crate::http::{HttpConnection, Method, Refusal, Request};
use quoit_cluster::{ChangeError, PlainLink};
use quoit_security::{
    Command, Grant, Group, PermissionSet, Refusal as Refused, Role, Salt, Scope, Security, Source,
    SourceKey, User,
};
use quoit_tls::ciphers::supported_names;
use quoit_tls::{CipherList, TlsError};
use serde_json::{Value, json};

/// Largest number of words in a command.
const WORDS_MAX: usize = 100;

impl HttpConnection {
    pub(super) async fn security(
        &mut self,
        request: &Request,
        method: Method,
        names: &[&[u8]],
    ) -> Result<Value, Refusal> {
        if names.is_empty() && method == Method::Post {
            return self.security_command(request).await;
        }
        allow(method, &[Method::Get, Method::Head])?;
        // A user who may only observe does not get password hashes.
        let shows_hashes = self.may_operate();
        let state = self.context.store.control().read();
        let security = state.security();
        let text = |name: &[u8]| String::from_utf8_lossy(name).to_lowercase();
        Ok(match names {
            [] => self.security_status(security),
            [b"users"] => {
                let users =
                    security.users().map(|(name, user)| user_json(name, user, shows_hashes));
                json!({"users": users.collect::<Vec<_>>()})
            }
            [b"users", name] => {
                let name = text(name);
                let user = security.user(&name);
                let user = user.ok_or_else(|| refused(&Refused::NoUser(name.clone())))?;
                json!({"users": [user_json(&name, user, shows_hashes)]})
            }
            [b"groups"] => {
                let groups = security.groups().map(|(name, group)| group_json(name, group));
                json!({"groups": groups.collect::<Vec<_>>()})
            }
            [b"groups", name] => {
                let name = text(name);
                let group = security.group(&name);
                let group = group.ok_or_else(|| refused(&Refused::NoGroup(name.clone())))?;
                json!({"groups": [group_json(&name, group)]})
            }
            [b"sources"] => {
                let sources = security.sources().map(|(key, source)| source_json(key, source));
                json!({"sources": sources.collect::<Vec<_>>()})
            }
            [b"grants", name] => {
                let role = security.printed_role(&String::from_utf8_lossy(name));
                grants_json(security, &role.map_err(|refusal| refused(&refusal))?)
            }
            [b"ciphers"] => ciphers_json(security),
            _ => return Err(no_such_path()),
        })
    }

    fn may_operate(&mut self) -> bool {
        let need = crate::security::RequiredPermission::any(quoit_security::Permission::Operate);
        self.session.check(self.context.store.control(), &need).is_ok()
    }

    fn security_status(&self, security: &Security) -> Value {
        json!({
            "enabled": security.is_enabled(),
            "users": security.users().len(),
            "groups": security.groups().len(),
            "sources": security.sources().len(),
            "tls": self.context.security.has_tls(),
            "listener_tls": if self.context.security.serves_plaintext() { "both" } else { "required" },
            "clear_clients": self.plaintext_clients(),
            "open_listeners": self.context.open_listeners(),
            "open_internode": self.context.open_internode(),
            "warnings": self.context.security_warnings(),
        })
    }

    fn plaintext_clients(&self) -> Vec<Value> {
        let clients = self.context.security.plaintext_clients().into_iter();
        let client = |(host, link): (String, PlainLink)| {
            let (connections, last) = (link.connection_count, link.last_unix_secs);
            json!({"host": host, "connections": connections, "last_unix_secs": last})
        };
        clients.map(client).collect()
    }

    /// Executes `{"command": ["add-user", "alice", ...]}`.
    async fn security_command(&mut self, request: &Request) -> Result<Value, Refusal> {
        let bad = || {
            error(
                400,
                "no_command",
                "the body must be of the form {\"command\":[\"add-user\",...]}",
            )
        };
        let document: Value = serde_json::from_slice(&request.body).map_err(|_| bad())?;
        let words = document.get("command").and_then(Value::as_array).ok_or_else(bad)?;
        if words.len() > WORDS_MAX {
            return Err(error(400, "too_long", "a command has at most 100 words"));
        }
        let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
        let mut command =
            Command::parse(&words.ok_or_else(bad)?).map_err(|refusal| refused(&refusal))?;
        if let Command::Ciphers(list) = &command {
            check_ciphers(list)?;
        }
        self.hash_password(&mut command).await?;
        let run = self.context.store.control().run(quoit_cluster::Command::Security(&command));
        run.await.map_err(|fault| match &fault {
            ChangeError::Security(refusal) => refused(refusal),
            fault => super::refusal(fault),
        })?;
        if let Command::Enable(is_enabled) = command {
            let by = self.session.user().unwrap_or("an operator at this machine").to_owned();
            tracing::info!(is_enabled, by, "security was switched");
        }
        let state = self.context.store.control().read();
        Ok(self.security_status(state.security()))
    }

    /// Replaces the password of a command by its hash, which is computed on a thread for long work.
    async fn hash_password(&self, command: &mut Command) -> Result<(), Refusal> {
        let Some(settings) = command.settings_mut() else { return Ok(()) };
        let Some(password) = settings.password.take() else { return Ok(()) };
        let internal = || error(500, "internal", "the password could not be hashed");
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|_| internal())?;
        let cost = self.context.security.settings.password_cost;
        let _turn = self.context.security.hashing_turn().await;
        let hashed = tokio::task::spawn_blocking(move || password.hashed(Salt(salt), cost));
        let hashed = hashed.await.map_err(|_| internal())?;
        settings.password_hash = Some(hashed.map_err(|fault| refused(&fault.into()))?);
        Ok(())
    }
}

fn check_ciphers(list: &str) -> Result<(), Refusal> {
    match CipherList::parse(list) {
        Ok(_) => Ok(()),
        Err(TlsError::NoCipher { .. }) => {
            Err(refused(&Refused::Ciphers { supported: supported_names().join(":") }))
        }
        Err(fault) => Err(error(400, "invalid_ciphers", &fault.to_string())),
    }
}

/// Converts a refused command to an answer.
fn refused(refusal: &Refused) -> Refusal {
    let (status, word) = match refusal {
        Refused::Usage(_) | Refused::UnknownCommand { .. } => (400, "usage"),
        Refused::NoUser(_)
        | Refused::NoGroup(_)
        | Refused::NoUsers(_)
        | Refused::NoGroups(_)
        | Refused::NoRole(_) => (404, "unknown_name"),
        Refused::InUse => (409, "name_in_use"),
        Refused::TooMany { .. } => (409, "too_many"),
        Refused::Pam => (400, "not_supported"),
        _ => (400, "invalid"),
    };
    error(status, word, &refusal.to_string())
}

fn user_json(name: &str, user: &User, shows_hash: bool) -> Value {
    let hash = user.password.as_ref();
    json!({
        "name": name,
        "groups": user.groups,
        "password": hash.map(|hash| if shows_hash { hash.shown() } else { "*".repeat(40) }),
        "algorithm": hash.map(quoit_security::PasswordHash::algorithm),
        "options": user.options,
    })
}

fn group_json(name: &str, group: &Group) -> Value {
    json!({"name": name, "groups": group.groups, "options": group.options})
}

fn source_json(key: &SourceKey, source: &Source) -> Value {
    json!({
        "user": key.user.as_deref().unwrap_or("all"),
        "cidr": key.cidr.to_string(),
        "source": source.kind.name(),
        "options": source.options,
    })
}

#[expect(clippy::indexing_slicing, reason = "the document is an object of this node")]
fn grants_json(security: &Security, role: &Role) -> Value {
    let grants = security.grants_of(role);
    let rows = |grants: &[Grant]| -> Vec<Value> {
        let row = |grant: &Grant| {
            let mut row = grant_json(&grant.scope, grant.permissions);
            row["role"] = match &grant.role {
                Role::User(name) | Role::Group(name) => json!(name),
                Role::All => json!("all"),
            };
            row
        };
        grants.iter().map(row).collect()
    };
    let cumulative = grants.cumulative.iter().map(|(scope, set)| grant_json(scope, *set));
    json!({
        "of": role.to_string(),
        "inherited": rows(&grants.inherited),
        "dedicated": rows(&grants.dedicated),
        "cumulative": cumulative.collect::<Vec<_>>(),
    })
}

fn grant_json(scope: &Scope, permissions: PermissionSet) -> Value {
    let (bucket_type, bucket) = match scope {
        Scope::Any => ("*", "*"),
        Scope::Type(bucket_type) => (bucket_type.as_str(), "*"),
        Scope::Bucket(bucket_type, bucket) => (bucket_type.as_str(), bucket.as_str()),
    };
    let names: Vec<_> = permissions.iter().map(quoit_security::Permission::name).collect();
    json!({"type": bucket_type, "bucket": bucket, "grants": names})
}

fn ciphers_json(security: &Security) -> Value {
    let list = security.ciphers().map(|list| CipherList::parse(list).unwrap_or_default());
    let (valid, unknown) =
        list.map_or_else(|| (supported_names(), Vec::new()), |list| (list.names(), list.unknown));
    let configured = security.ciphers().map_or_else(|| valid.join(":"), str::to_owned);
    json!({
        "configured": configured,
        "valid": valid,
        "unknown": unknown,
        "supported": supported_names(),
    })
}
