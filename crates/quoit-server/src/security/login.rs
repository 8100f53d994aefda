//! Verification of logins.

use super::connection_security::ConnectionSecurity;
use parking_lot::Mutex;
use quoit_cluster::ControlPlane;
use quoit_security::{NAME_BYTES_MAX, PasswordHash, SourceKind};
use std::collections::{HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Number of correct passwords that are remembered, so that an HTTP client does not cost a password hash
/// with every request.
const KNOWN_COUNT_MAX: usize = 4096;

/// An attempt of a client to log in as a user, with its proof.
pub(crate) struct LoginAttempt<'c> {
    /// The name of the user as sent.
    pub(crate) user: &'c str,
    pub(crate) password: &'c [u8],
    /// The common name of the client's certificate.
    pub(crate) certificate: Option<&'c str>,
    /// The client's address.
    pub(crate) address: IpAddr,
}

/// A user that has proved its identity.
pub(crate) struct Login {
    pub(crate) name: Arc<str>,
}

/// Passwords that are known to be correct. A remembered password is bound to its hash, so changing the
/// password invalidates it. Only keyed digests are stored.
#[derive(Default)]
pub(super) struct KnownPasswords {
    /// Random key; created when the first password is checked.
    key: OnceLock<Option<[u8; 32]>>,
    known: Mutex<KnownTokens>,
}

/// Digests of known passwords; in `by_age` the oldest comes first.
#[derive(Default)]
struct KnownTokens {
    tokens: HashSet<[u8; 32]>,
    by_age: VecDeque<[u8; 32]>,
}

impl KnownPasswords {
    /// The keyed digest of a password; `None` if the system has no random bytes, in which case no password
    /// is remembered.
    fn token(&self, hash: &PasswordHash, password: &[u8]) -> Option<[u8; 32]> {
        let random = || {
            let mut key = [0; 32];
            getrandom::fill(&mut key).ok().map(|()| key)
        };
        Some(hash.token(self.key.get_or_init(random).as_ref()?, password))
    }

    fn has(&self, token: &[u8; 32]) -> bool {
        self.known.lock().tokens.contains(token)
    }

    fn add(&self, token: [u8; 32]) {
        let mut known = self.known.lock();
        if known.tokens.insert(token) {
            known.by_age.push_back(token);
        }
        if known.by_age.len() > KNOWN_COUNT_MAX
            && let Some(oldest) = known.by_age.pop_front()
        {
            known.tokens.remove(&oldest);
        }
    }
}

impl ConnectionSecurity {
    /// Verifies an attempt against the source of logins that applies to the user and its address; `None` if
    /// the proof is wrong. Passwords are hashed on a thread for long work, and only a few at the same time.
    pub(crate) async fn log_in(
        &self,
        control: &ControlPlane,
        attempt: &LoginAttempt<'_>,
    ) -> Option<Login> {
        let is_cut_off = !self.settings.while_cut_off.takes_logins(control.cut_off_for());
        let proved = !is_cut_off && self.is_proved(control, attempt).await;
        let count = if proved { &self.counts.logins } else { &self.counts.failed_logins };
        count.fetch_add(1, Ordering::Relaxed);
        if !proved {
            self.log_refusal(attempt, is_cut_off);
        }
        proved.then(|| Login { name: attempt.user.into() })
    }

    /// Logs a refused login, at most ten in a second. The name is truncated to the longest valid length.
    fn log_refusal(&self, attempt: &LoginAttempt<'_>, is_cut_off: bool) {
        if !self.refused_logins.has_room(Instant::now()) {
            return;
        }
        let (user, _) = attempt.user.split_at(attempt.user.floor_char_boundary(NAME_BYTES_MAX));
        let why = if is_cut_off { ": the node was cut off for too long" } else { "" };
        tracing::warn!(user, address = %attempt.address, "a login was refused{why}");
    }

    async fn is_proved(&self, control: &ControlPlane, attempt: &LoginAttempt<'_>) -> bool {
        let (kind, hash) = {
            let state = control.read();
            let security = state.security();
            let Some(source) = security.source_for(attempt.user, attempt.address) else {
                return false;
            };
            let hash = security.user(attempt.user).and_then(|user| user.password.clone());
            (source.kind, hash)
        };
        match kind {
            SourceKind::Trust => true,
            SourceKind::Certificate => attempt.certificate == Some(attempt.user),
            SourceKind::Password => match hash {
                Some(hash) => self.is_password(hash, attempt.password).await,
                None => false,
            },
        }
    }

    async fn is_password(&self, hash: PasswordHash, password: &[u8]) -> bool {
        let token = self.known.token(&hash, password);
        if token.is_some_and(|token| self.known.has(&token)) {
            return true;
        }
        let Some(_turn) = self.hashing_turn().await else { return false };
        let password = password.to_vec();
        let hashing = tokio::task::spawn_blocking(move || hash.is_of(&password));
        let is_right = hashing.await.unwrap_or(false);
        if let Some(token) = token.filter(|_| is_right) {
            self.known.add(token);
        }
        is_right
    }
}
