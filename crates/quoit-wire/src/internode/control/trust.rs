//! The cluster's authority, tokens for nodes that join, and how far members have come with both.

use bytes::Bytes;
use std::fmt;

/// Trust that members hold each other's certificates against.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TrustMessage {
    /// The authorities that count, the oldest first.
    #[prost(message, repeated, tag = "1")]
    pub authorities: Vec<AuthorityMessage>,
    /// Digest of the one that issues.
    #[prost(bytes = "bytes", tag = "2")]
    pub issuing: Bytes,
    /// Tokens that let nodes join.
    #[prost(message, repeated, tag = "3")]
    pub tokens: Vec<TokenMessage>,
    /// Certificates that members hold.
    #[prost(message, repeated, tag = "4")]
    pub holders: Vec<HolderMessage>,
}

/// An authority. Its key is a secret, and does not appear in what is printed of it.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct AuthorityMessage {
    /// DER of its certificate.
    #[prost(bytes = "bytes", tag = "1")]
    pub certificate: Bytes,
    /// PKCS#8 of its key.
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
}

impl fmt::Debug for AuthorityMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AuthorityMessage").finish_non_exhaustive()
    }
}

/// A token.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TokenMessage {
    /// Digest of its public key.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// Its end, seconds since 1970.
    #[prost(int64, tag = "2")]
    pub expires_unix_secs: i64,
    /// Nodes that may still use it.
    #[prost(uint32, tag = "3")]
    pub uses_left: u32,
    /// Nodes that have used it.
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub nodes: Vec<Bytes>,
}

/// The certificate that a member holds.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HolderMessage {
    /// The member.
    #[prost(bytes = "bytes", tag = "1")]
    pub node: Bytes,
    /// Digest of the newest authority that it knows.
    #[prost(bytes = "bytes", tag = "2")]
    pub knows: Bytes,
    /// Digest of the authority that has issued its certificate.
    #[prost(bytes = "bytes", tag = "3")]
    pub holds: Bytes,
    /// End of its certificate, seconds since 1970.
    #[prost(int64, tag = "4")]
    pub not_after_unix_secs: i64,
}

/// Asks for a certificate, on a connection that has proved a token or the shared secret.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnrolAsked {
    /// The request (PKCS#10).
    #[prost(bytes = "bytes", tag = "1")]
    pub request: Bytes,
    /// Name of the node.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// Answer to [`EnrolAsked`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Enrolled {
    /// DER of the node's certificate.
    #[prost(bytes = "bytes", tag = "1")]
    pub certificate: Bytes,
    /// DER of the authority that has issued it.
    #[prost(bytes = "bytes", tag = "2")]
    pub issuer: Bytes,
    /// DER of all authorities that count.
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub authorities: Vec<Bytes>,
}
