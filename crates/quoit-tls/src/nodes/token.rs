//! Tokens with which nodes join.

use super::{Fingerprint, issue_error};
use crate::error::TlsError;
use crate::identity::Identity;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ED25519};
use ring::rand::{SecureRandom, SystemRandom};
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Prefix of every token, with the version of the format.
const PREFIX: &str = "quoit-join-1-";
/// Bytes of a token: the digest of the authority, the seed, the checksum.
const TOKEN_BYTES: usize = 32 + 32 + 4;
/// PKCS#8 encoding of an Ed25519 key, up to the seed.
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// A token with which a node can join: the digest of the cluster's authority, by which the node
/// recognizes the cluster, and the seed of a key, by which the cluster recognizes the node. It is a
/// secret. As text it is one word.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    authority: Fingerprint,
    seed: [u8; 32],
}

/// Reason why a text is not a token. The error does not repeat the text, because it may be a
/// token with a typing error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    /// It does not have the prefix of tokens.
    #[error(
        "this is not a join token: a token begins with {PREFIX}; make one with `quoit admin cluster token`"
    )]
    Prefix,
    /// It has invalid characters, is cut off, or was changed.
    #[error("the join token is cut off or has a typing error: copy it again, whole")]
    Damaged,
}

impl JoinToken {
    /// Makes a token for the cluster with this authority.
    ///
    /// # Errors
    ///
    /// [`TlsError::Issue`] if the system provides no random bytes.
    pub fn make(authority: Fingerprint) -> Result<JoinToken, TlsError> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(issue_error)?;
        Ok(JoinToken { authority, seed })
    }

    /// Returns the digest of the cluster's authority.
    #[must_use]
    pub fn authority(&self) -> Fingerprint {
        self.authority
    }

    /// Returns the digest of the token's public key, which is all that the cluster stores of the token.
    ///
    /// # Errors
    ///
    /// [`TlsError::Issue`].
    pub fn id(&self) -> Result<Fingerprint, TlsError> {
        Ok(Fingerprint::of(seeded_key(&self.seed)?.public_key_raw()))
    }

    pub(super) fn identity(&self) -> Result<Identity, TlsError> {
        seeded_identity(&self.seed, "Quoit join token")
    }

    fn checksum(&self) -> [u8; 4] {
        let content = [PREFIX.as_bytes(), &self.authority.0, &self.seed].concat();
        let digest = Fingerprint::of(&content);
        [digest.0[0], digest.0[1], digest.0[2], digest.0[3]]
    }

    /// Returns the text of the token. It is a secret.
    #[must_use]
    pub fn secret_text(&self) -> String {
        let bytes = [&self.authority.0[..], &self.seed, &self.checksum()].concat();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for JoinToken {
    /// Shows the authority only.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "JoinToken(of {})", self.authority.short())
    }
}

impl FromStr for JoinToken {
    type Err = TokenError;

    fn from_str(text: &str) -> Result<JoinToken, TokenError> {
        let encoded = text.trim().strip_prefix(PREFIX).ok_or(TokenError::Prefix)?;
        let bytes = URL_SAFE_NO_PAD.decode(encoded).map_err(|_| TokenError::Damaged)?;
        let bytes: [u8; TOKEN_BYTES] = bytes.try_into().map_err(|_| TokenError::Damaged)?;
        let mut token = JoinToken { authority: Fingerprint([0; 32]), seed: [0; 32] };
        token.authority.0.copy_from_slice(&bytes[..32]);
        token.seed.copy_from_slice(&bytes[32..64]);
        if token.checksum() == bytes[64..] { Ok(token) } else { Err(TokenError::Damaged) }
    }
}

fn seeded_pkcs8(seed: &[u8; 32]) -> Vec<u8> {
    [&ED25519_PKCS8[..], seed].concat()
}

pub(super) fn seeded_key(seed: &[u8; 32]) -> Result<KeyPair, TlsError> {
    let pkcs8 = PrivatePkcs8KeyDer::from(seeded_pkcs8(seed));
    KeyPair::from_pkcs8_der_and_sign_algo(&pkcs8, &PKCS_ED25519).map_err(issue_error)
}

/// Creates a self-signed certificate for the key of `seed`. A peer that knows the key's digest can verify
/// it.
pub(super) fn seeded_identity(seed: &[u8; 32], name: &str) -> Result<Identity, TlsError> {
    let key = seeded_key(seed)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&key).map_err(issue_error)?;
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(seeded_pkcs8(seed)));
    Identity::new(vec![certificate.der().clone()], private)
}
