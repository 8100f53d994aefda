//! A secret that all nodes of a cluster share, as a proof for nodes without a certificate.

use super::token::{seeded_identity, seeded_key};
use super::{Fingerprint, issue_error};
use crate::error::TlsError;
use crate::identity::Identity;
use ring::hkdf::{HKDF_SHA256, Salt};
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

/// Minimum strength of a shared secret, in bits. An attacker can test guesses without asking a node, so the
/// minimum is high.
const SECRET_BITS_MIN: f64 = 128.0;
/// Minimum number of different characters of a shared secret.
const CHARACTERS_MIN: usize = 8;
/// Default secrets in the manuals and packages of Riak and Erlang.
const DEFAULTS: [&str; 5] = ["riak", "erlang", "cookie", "quoit", "monster"];

/// Reason why a shared secret is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WeakSecret {
    /// It is a default of a package or a manual.
    #[error("it is the default, which everybody knows")]
    Default,
    /// It can be guessed.
    #[error("it has fewer than 128 bits: make one with `openssl rand -hex 32`")]
    Short,
}

/// A shared secret: the seeds of one key for the dialing side and of one for the listening side.
#[derive(Clone)]
pub struct SharedSecret {
    client_seed: [u8; 32],
    server_seed: [u8; 32],
}

impl fmt::Debug for SharedSecret {
    /// Shows nothing of the secret.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SharedSecret")
    }
}

impl SharedSecret {
    /// Accepts a secret of at least 128 bits. Its strength is estimated as its length times the bits of
    /// the kinds of characters that it uses.
    ///
    /// # Errors
    ///
    /// [`WeakSecret`] if it is a default or too weak.
    pub fn of(secret: &str) -> Result<SharedSecret, WeakSecret> {
        if DEFAULTS.contains(&secret.to_ascii_lowercase().as_str()) {
            return Err(WeakSecret::Default);
        }
        if bits(secret) < SECRET_BITS_MIN {
            return Err(WeakSecret::Short);
        }
        let derive = |side: &[u8]| {
            let key =
                Salt::new(HKDF_SHA256, b"quoit internode secret 1").extract(secret.as_bytes());
            let mut seed = [0; 32];
            let info = [side];
            let filled = key.expand(&info, HKDF_SHA256).and_then(|out| out.fill(&mut seed));
            filled.map(|()| seed).map_err(|_| WeakSecret::Short)
        };
        Ok(SharedSecret { client_seed: derive(b"asks")?, server_seed: derive(b"answers")? })
    }

    /// Returns the digest of the dialing side's public key.
    pub(super) fn client_key(&self) -> Result<Fingerprint, TlsError> {
        Ok(Fingerprint::of(seeded_key(&self.client_seed)?.public_key_raw()))
    }

    /// Returns the digest of the listening side's public key.
    pub(super) fn server_key(&self) -> Result<Fingerprint, TlsError> {
        Ok(Fingerprint::of(seeded_key(&self.server_seed)?.public_key_raw()))
    }

    pub(super) fn client_identity(&self) -> Result<Identity, TlsError> {
        seeded_identity(&self.client_seed, "Quoit shared secret").map_err(issue_error)
    }

    pub(super) fn server_identity(&self) -> Result<Identity, TlsError> {
        seeded_identity(&self.server_seed, "Quoit shared secret").map_err(issue_error)
    }
}

/// Estimates the strength of a secret, in bits: that of a random text of this length over the same kinds
/// of characters; 0 if it has few different characters.
fn bits(secret: &str) -> f64 {
    let different: BTreeSet<char> = secret.chars().collect();
    if different.len() < CHARACTERS_MIN {
        return 0.0;
    }
    let has = |test: fn(&char) -> bool| different.iter().any(test);
    let is_hex = different.iter().all(|c| matches!(c, '0'..='9' | 'a'..='f'))
        || different.iter().all(|c| matches!(c, '0'..='9' | 'A'..='F'));
    let kinds: u32 = if is_hex {
        16
    } else {
        [
            (has(char::is_ascii_digit as fn(&char) -> bool), 10),
            (has(char::is_ascii_lowercase), 26),
            (has(char::is_ascii_uppercase), 26),
            (has(|c| !c.is_ascii_alphanumeric()), 2),
        ]
        .iter()
        .map(|(is_there, count)| if *is_there { *count } else { 0 })
        .sum()
    };
    secret.chars().count() as f64 * f64::from(kinds.max(2)).log2()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_and_what_can_be_guessed_are_no_secrets() {
        assert_eq!(SharedSecret::of("riak").unwrap_err(), WeakSecret::Default);
        assert_eq!(SharedSecret::of("Riak").unwrap_err(), WeakSecret::Default);
        for short in ["", "correct horse", "0123456789abcdef0123456789abcde", &"ab".repeat(100)] {
            assert_eq!(SharedSecret::of(short).unwrap_err(), WeakSecret::Short, "{short}");
        }
        assert!(
            SharedSecret::of("0123456789abcdef0123456789abcdef").is_ok(),
            "32 digits, 128 bits"
        );
        assert!(SharedSecret::of("Xq0pQ7mGz3bV9sKdT2yH8w").is_ok(), "22 characters of Base64");
    }
}
