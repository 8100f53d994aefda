//! Settings of TLS and logins, from the configuration.

use super::Settings;
use crate::parse::{Entry, Origin};
use quoit_cluster::InternodeTlsMode;
use quoit_security::{CutOffLoginPolicy, HashingCost};
use quoit_server::{SecuritySettings, TlsFiles};
use quoit_tls::Versions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// Riak's variable for the directory of a node's configuration.
const ETC_VARIABLE: &str = "$(platform_etc_dir)";

/// A setting that requires TLS or access control that the node can't provide.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{key} = {value}: {reason}; or add its name to security.ignore to start without it")]
pub struct UnmetSecuritySetting {
    /// The setting.
    pub key: String,
    /// Its value.
    pub value: String,
    /// The reason and the remedy.
    pub reason: &'static str,
}

const OLD_VERSION: &str =
    "Quoit speaks TLS 1.2 and 1.3 only, because older versions are broken; set it to off";
const NO_CERTIFICATE: &str =
    "the node has no certificate for it: set ssl.certfile and ssl.keyfile to the files of one";
const NO_KEY: &str = "a certificate without its key can't be used: set ssl.keyfile";
const NO_CERTFILE: &str = "a key without its certificate can't be used: set ssl.certfile";
const NO_RIGHTS: &str = "no clients' certificates are checked without a certificate of the node: set \
                         ssl.certfile and ssl.keyfile";
const NO_PEER_AUTHORITY: &str = "a login at other clusters needs the authorities that their nodes are held \
                                 against: set repl_cacert_filename";
const NO_PEER_KEY: &str = "a certificate without its key can't be used: set repl_key_filename";
const NO_PEER_CERTIFICATE: &str =
    "a key without its certificate can't be used: set repl_cert_filename";
const NO_PEER_USER: &str =
    "TLS with other clusters needs the user to log in as there: set repl_username";

const PLAIN_LINKS: &str = "connections between nodes have no TLS by it: set internode.tls to both or \
                           required, which needs no files (docs/secure-a-cluster.md)";

impl Settings {
    /// Refuses settings that promise TLS or access control that the node can't provide, unless
    /// `security.ignore` names them.
    ///
    /// # Errors
    ///
    /// The first such setting.
    pub fn check_security(&self) -> Result<(), UnmetSecuritySetting> {
        let ignored = self.text("security.ignore");
        let is_ignored = |key: &str| ignored.split(',').any(|name| name.trim() == key);
        let (has_certificate, has_key) =
            (self.get("ssl.certfile").is_some(), self.get("ssl.keyfile").is_some());
        let mut broken: Vec<(String, &'static str)> = Vec::new();
        for version in ["sslv3", "tlsv1", "tlsv1.1"] {
            let key = format!("tls_protocols.{version}");
            if self.flag(&key) {
                broken.push((key, OLD_VERSION));
            }
        }
        if has_certificate && !has_key {
            broken.push(("ssl.certfile".to_owned(), NO_KEY));
        }
        if has_key && !has_certificate {
            broken.push(("ssl.keyfile".to_owned(), NO_CERTFILE));
        }
        if !(has_certificate && has_key) {
            let listeners = self.entries().map(|(name, _)| name).filter(|name| {
                name.starts_with("listener.https.") || name.starts_with("listener.protobuf_tls.")
            });
            broken.extend(listeners.map(|name| (name.to_owned(), NO_CERTIFICATE)));
            if self.serves_plaintext() {
                broken.push(("listener.tls".to_owned(), NO_CERTIFICATE));
            }
            let of_clients = ["ssl.cacertfile", "ssl.crlfile"];
            let set = of_clients.into_iter().filter(|key| self.get(key).is_some());
            broken.extend(set.map(|key| (key.to_owned(), NO_RIGHTS)));
        }
        broken.extend(self.broken_replication());
        if let Some((key, reason)) = broken.into_iter().find(|(key, _)| !is_ignored(key)) {
            let value = self.text(&key);
            return Err(UnmetSecuritySetting { key, value, reason });
        }
        match self.handoff_certificate().filter(|entry| !is_ignored(&entry.key)) {
            Some(Entry { key, value, .. }) => {
                let (key, value) = (key.clone(), value.clone());
                Err(UnmetSecuritySetting { key, value, reason: PLAIN_LINKS })
            }
            None => Ok(()),
        }
    }

    /// A setting of Riak that promises TLS between nodes although they have none.
    fn handoff_certificate(&self) -> Option<&Entry> {
        let mut set = self.ignored.iter();
        set.find(|entry| entry.key.starts_with("handoff.ssl.") && !entry.value.is_empty())
            .filter(|_| self.link_mode() == InternodeTlsMode::Plain)
    }

    /// The file that sets `distributed_cookie`, if every user of the machine may read it.
    #[must_use]
    pub fn open_secret_file(&self) -> Option<&Path> {
        let entry = self.ignored.iter().rev().find(|entry| entry.key == "distributed_cookie")?;
        let Origin::Line(file, _) = &entry.origin else { return None };
        let mode = std::fs::metadata(file).ok()?.permissions().mode();
        (mode & 0o007 != 0).then_some(file)
    }

    /// Settings that promise TLS with other clusters but lack a required setting.
    fn broken_replication(&self) -> Vec<(String, &'static str)> {
        let has = |key: &str| self.get(key).is_some();
        let mut broken = Vec::new();
        let mut needs = |key: &str, needed: &str, reason| {
            if has(key) && !has(needed) {
                broken.push((key.to_owned(), reason));
            }
        };
        needs("repl_username", "repl_cacert_filename", NO_PEER_AUTHORITY);
        needs("repl_cert_filename", "repl_key_filename", NO_PEER_KEY);
        needs("repl_key_filename", "repl_cert_filename", NO_PEER_CERTIFICATE);
        for key in ["repl_cacert_filename", "repl_cert_filename", "repl.password_file"] {
            needs(key, "repl_username", NO_PEER_USER);
        }
        broken
    }

    /// True if clients without TLS are served without a login while security is on.
    #[must_use]
    pub fn serves_plaintext(&self) -> bool {
        self.get("listener.tls") == Some("both")
    }

    /// Settings of TLS for clients and of logins.
    #[must_use]
    pub fn security(&self) -> SecuritySettings {
        let defaults = SecuritySettings::default();
        let count = |name: &str, default: usize| {
            self.integer(name).and_then(|number| usize::try_from(number).ok()).unwrap_or(default)
        };
        let time = |name: &str, default: Duration| self.duration(name).unwrap_or(default);
        SecuritySettings {
            tls: self.tls_files(),
            failure_delay: time("security.failure_delay", defaults.failure_delay),
            attempts_max: u32::try_from(count("security.attempts.maximum", 3)).unwrap_or(3),
            handshake_timeout: time("security.handshake_timeout", defaults.handshake_timeout),
            login_timeout: time("security.login_timeout", defaults.login_timeout),
            bytes_before_login_max: self
                .size_bytes("security.bytes_before_login.maximum")
                .and_then(|size| usize::try_from(size).ok())
                .unwrap_or(defaults.bytes_before_login_max),
            unauthenticated_of_address_max: count(
                "security.unauthenticated.per_address",
                defaults.unauthenticated_of_address_max,
            ),
            unauthenticated_max: count(
                "security.unauthenticated.maximum",
                defaults.unauthenticated_max,
            ),
            serves_plaintext: self.serves_plaintext(),
            open_statistics: self.flag("security.open_statistics"),
            while_cut_off: CutOffLoginPolicy {
                refuses_after: self.duration("security.cut_off.refuse_logins_after"),
            },
            password_cost: HashingCost {
                memory_kib: self
                    .size_bytes("security.hashing.memory")
                    .and_then(|size| u32::try_from(size / 1024).ok())
                    .unwrap_or(defaults.password_cost.memory_kib),
                ..defaults.password_cost
            },
            hashing_count_max: count("security.hashing.maximum", defaults.hashing_count_max),
        }
    }

    fn tls_files(&self) -> Option<TlsFiles> {
        let file = |name: &str| self.get(name).map(|path| self.in_etc(path));
        let lists = self.get("ssl.crlfile").filter(|_| self.flag("check_crl")).unwrap_or_default();
        let lists = lists.split(',').map(str::trim).filter(|path| !path.is_empty());
        let versions = Versions {
            tls12: self.flag("tls_protocols.tlsv1.2"),
            tls13: self.flag("tls_protocols.tlsv1.3"),
        };
        Some(TlsFiles {
            certificate: file("ssl.certfile")?,
            key: file("ssl.keyfile")?,
            authorities: file("ssl.cacertfile"),
            revocation_lists: lists.map(|path| self.in_etc(path)).collect(),
            versions,
            prefers_own_order: self.flag("honor_cipher_order"),
            sessions_max: self
                .integer("security.sessions.maximum")
                .and_then(|count| usize::try_from(count).ok())
                .unwrap_or(quoit_tls::SESSIONS_MAX),
        })
    }

    /// Replaces Riak's variable for the configuration directory in a path.
    pub(super) fn in_etc(&self, path: &str) -> PathBuf {
        let Some(rest) = path.strip_prefix(ETC_VARIABLE) else { return PathBuf::from(path) };
        let set = self.ignored.iter().rev().find(|entry| entry.key == "platform_etc_dir");
        let directory = set.map_or("./etc", |entry| entry.value.as_str());
        Path::new(directory).join(rest.trim_start_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Settings, Sources, load};
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;

    fn settings(lines: &[&str]) -> Settings {
        let command_line = lines.iter().map(|line| (*line).to_owned()).collect();
        load(&Sources { command_line, ..Sources::default() }).expect("good settings")
    }

    #[test]
    fn what_promises_tls_and_cannot_keep_it_stops_the_start_unless_it_is_ignored_by_name() {
        for (line, key) in [
            ("tls_protocols.tlsv1.1 = on", "tls_protocols.tlsv1.1"),
            ("listener.https.a = 127.0.0.1:0", "listener.https.a"),
            ("ssl.certfile = /c.pem", "ssl.certfile"),
            ("ssl.keyfile = /k.pem", "ssl.keyfile"),
            ("ssl.cacertfile = /a.pem", "ssl.cacertfile"),
            ("repl_username = u", "repl_username"),
            ("repl_cacert_filename = /a.pem", "repl_cacert_filename"),
            ("repl_key_filename = /k.pem", "repl_key_filename"),
            ("handoff.ssl.certfile = /c.pem", "handoff.ssl.certfile"),
        ] {
            let refused = settings(&[line]).check_security().expect_err(line);
            assert_eq!(refused.key, key);
            let ignored = format!("security.ignore = x, {key}");
            settings(&[line, &ignored]).check_security().expect(line);
        }
        settings(&["handoff.ssl.keyfile = /k.pem", "internode.tls = both"])
            .check_security()
            .expect("connections between nodes have TLS");
        settings(&["tls_protocols.tlsv1 = off"]).check_security().expect("nothing is promised");
        settings(&["ssl.certfile = /c.pem", "ssl.keyfile = /k.pem", "listener.https.a = h:1"])
            .check_security()
            .expect("it can be kept");
    }

    #[test]
    fn a_file_with_the_secret_of_all_nodes_is_not_for_other_users() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("quoit.conf");
        std::fs::write(&file, "distributed_cookie = 0123456789abcdef0123456789abcdef\n")
            .expect("room");
        let loaded = || {
            load(&Sources { file: Some(file.clone()), ..Sources::default() })
                .expect("good settings")
        };
        for (mode, is_open) in [(0o644, true), (0o640, false)] {
            std::fs::set_permissions(&file, Permissions::from_mode(mode)).expect("it is ours");
            assert_eq!(loaded().open_secret_file().is_some(), is_open, "{mode:o}");
        }
        let given = settings(&["distributed_cookie = 0123456789abcdef0123456789abcdef"]);
        assert_eq!(given.open_secret_file(), None);
    }

    #[test]
    fn files_are_found_where_riaks_variable_says() {
        let settings = settings(&[
            "platform_etc_dir = /etc/riak",
            "ssl.certfile = $(platform_etc_dir)/cert.pem",
            "ssl.keyfile = /k.pem",
            "ssl.crlfile = a.crl, b.crl",
        ]);
        let files = settings.security().tls.expect("there is a certificate");
        assert_eq!(files.certificate, Path::new("/etc/riak/cert.pem"));
        assert_eq!(files.revocation_lists.len(), 2);
    }
}
