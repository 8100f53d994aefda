//! Tokens that let a node join.

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

/// The first characters of a token: what it is, and its version.
const PREFIX: &str = "quoit-join-1-";
/// Digest of the authority, seed, checksum.
const TOKEN_BYTES: usize = 32 + 32 + 4;
/// PKCS#8 of an Ed25519 key, up to the seed.
const ED25519_PKCS8: [u8; 16] =
    [0x30, 0x2e, 2, 1, 0, 0x30, 5, 6, 3, 0x2b, 0x65, 0x70, 4, 0x22, 4, 0x20];

/// A token that lets a node join: the digest of the cluster's authority, by which the node knows the cluster,
/// and the seed of a key, by which the cluster knows the node. A secret; as text it is one word.
#[derive(Clone, PartialEq, Eq)]
pub struct JoinToken {
    authority: Fingerprint,
    seed: [u8; 32],
}

/// Why a text is no token. The text is not repeated: it may be one with a typing error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum TokenError {
    /// It does not begin as tokens do.
    #[error(
        "that is no join token: a token begins with {PREFIX}; make one with `quoit admin cluster token`"
    )]
    Prefix,
    /// It has characters that tokens do not have, or is cut off, or was changed.
    #[error("the join token is cut off or has a typing error: copy it again, whole")]
    Damaged,
}

impl JoinToken {
    /// Makes a token of the cluster whose authority this is.
    ///
    /// # Errors
    ///
    /// [`TlsError::Issue`] if the system gives no random bytes.
    pub fn make(authority: Fingerprint) -> Result<JoinToken, TlsError> {
        let mut seed = [0; 32];
        SystemRandom::new().fill(&mut seed).map_err(issue_error)?;
        Ok(JoinToken { authority, seed })
    }

    /// The digest of the authority of the cluster.
    #[must_use]
    pub fn authority(&self) -> Fingerprint {
        self.authority
    }

    /// The digest of the token's public key: what the cluster keeps of the token.
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

    /// The text of the token. A secret.
    #[must_use]
    pub fn secret_text(&self) -> String {
        let bytes = [&self.authority.0[..], &self.seed, &self.checksum()].concat();
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes))
    }
}

impl fmt::Debug for JoinToken {
    /// The authority alone.
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

/// A certificate of the key of `seed`, signed by that key: of use to whoever knows the key's digest.
pub(super) fn seeded_identity(seed: &[u8; 32], name: &str) -> Result<Identity, TlsError> {
    let key = seeded_key(seed)?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.self_signed(&key).map_err(issue_error)?;
    let private = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(seeded_pkcs8(seed)));
    Identity::new(vec![certificate.der().clone()], private)
}
