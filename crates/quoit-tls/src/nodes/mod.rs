//! TLS between the nodes of a cluster: the cluster's own authority, certificates of nodes, and two proofs
//! with which a node without a certificate gets one.
//!
//! Members show each other certificates of the authority. The certificate of a node contains the node's
//! identity as a URI; the name in the certificate is not checked. A joining node gets its certificate with a
//! token as follows:
//!
//! ```text
//! joining node                                        member
//!   certificate of the token's key  -->                 the key's digest is among the cluster's tokens
//!      <--  chain with the authority whose digest the token carries
//!   request for a certificate  -->                      signs it, and counts the token as used
//! ```
//!
//! The handshake itself verifies both sides. If it fails, the connection is closed before a byte of
//! another protocol is read. A token consists of the digest of the authority and the seed of a key. The
//! cluster stores only the digest of that key's public part, so a copy of the cluster's state contains no
//! usable token. A shared secret (`distributed_cookie`) is the seed of two keys, one for each side. All
//! connections use TLS 1.3 without resumption.

mod authority;
mod secret;
mod token;
mod verify;

pub use authority::{Authority, GrantedCertificate, NodeRequest, NodeSubject, node_of};
pub use secret::{SharedSecret, WeakSecret};
pub use token::{JoinToken, TokenError};
pub use verify::{LinkProof, LinkTrust, node_server_name};

use crate::error::TlsError;
use ring::digest::{SHA256, digest};
use std::fmt;

/// SHA-256 digest of a certificate or of a public key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Returns the digest of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Fingerprint {
        let mut short = [0; 32];
        short.copy_from_slice(digest(&SHA256, bytes).as_ref());
        Fingerprint(short)
    }

    /// Restores a stored digest; `None` unless there are 32 bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Fingerprint> {
        bytes.try_into().ok().map(Fingerprint)
    }

    /// Returns the first eight bytes in hexadecimal digits, which is the name of a token or
    /// an authority for people.
    #[must_use]
    pub fn short(&self) -> String {
        self.0[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(formatter, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

fn issue_error(fault: impl fmt::Display) -> TlsError {
    TlsError::Issue(fault.to_string())
}
