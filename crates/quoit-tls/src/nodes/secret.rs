//! A secret that all nodes of a cluster share, as a proof for those that have no certificate yet.

use super::token::{seeded_identity, seeded_key};
use super::{Fingerprint, issue_error};
use crate::error::TlsError;
use crate::identity::Identity;
use ring::hkdf::{HKDF_SHA256, Salt};
use std::collections::BTreeSet;
use std::fmt;
use thiserror::Error;

/// Bits that a shared secret has at least: it can be guessed at without asking a node.
const SECRET_BITS_MIN: f64 = 128.0;
/// Different characters that a shared secret has at least.
const CHARACTERS_MIN: usize = 8;
/// Secrets that stand in the manuals and packages of Riak and Erlang.
const DEFAULTS: [&str; 5] = ["riak", "erlang", "cookie", "quoit", "monster"];

/// A shared secret that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum WeakSecret {
    /// The one of a package or a manual.
    #[error("it is the default, which everybody knows")]
    Default,
    /// One that can be guessed.
    #[error("it has fewer than 128 bits: make one with `openssl rand -hex 32`")]
    Short,
}

/// A shared secret: the seed of a key for those who ask, and of one for those who are asked.
#[derive(Clone)]
pub struct SharedSecret {
    asks: [u8; 32],
    answers: [u8; 32],
}

impl fmt::Debug for SharedSecret {
    /// Nothing of it.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("SharedSecret")
    }
}

impl SharedSecret {
    /// Takes a secret, if it is one: the length times the bits of the kinds of characters that it uses
    /// come to 128 at least.
    ///
    /// # Errors
    ///
    /// [`WeakSecret`], and [`TlsError`] never for a secret that is none.
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
        Ok(SharedSecret { asks: derive(b"asks")?, answers: derive(b"answers")? })
    }

    /// The digest of the key of those who ask.
    pub(super) fn asking_key(&self) -> Result<Fingerprint, TlsError> {
        Ok(Fingerprint::of(seeded_key(&self.asks)?.public_key_raw()))
    }

    /// The digest of the key of those who are asked.
    pub(super) fn answering_key(&self) -> Result<Fingerprint, TlsError> {
        Ok(Fingerprint::of(seeded_key(&self.answers)?.public_key_raw()))
    }

    pub(super) fn asking(&self) -> Result<Identity, TlsError> {
        seeded_identity(&self.asks, "Quoit shared secret").map_err(issue_error)
    }

    pub(super) fn answering(&self) -> Result<Identity, TlsError> {
        seeded_identity(&self.answers, "Quoit shared secret").map_err(issue_error)
    }
}

/// Bits of a random text of this length over the kinds of characters that this one has; 0 for few different
/// ones.
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
