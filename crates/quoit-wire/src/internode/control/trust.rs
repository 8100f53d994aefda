//! Certificate authorities of the cluster, tokens for joining nodes, and the certificates of
//! members.

use bytes::Bytes;
use std::fmt;

/// Authorities and tokens by which members check each other's certificates.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TrustMessage {
    /// The valid authorities, oldest first.
    #[prost(message, repeated, tag = "1")]
    pub authorities: Vec<AuthorityMessage>,
    /// Digest of the authority that issues certificates.
    #[prost(bytes = "bytes", tag = "2")]
    pub issuing: Bytes,
    /// Tokens with which nodes may join.
    #[prost(message, repeated, tag = "3")]
    pub tokens: Vec<TokenMessage>,
    /// Certificates that members hold.
    #[prost(message, repeated, tag = "4")]
    pub holders: Vec<HolderMessage>,
}

/// A certificate authority. Its private key is secret and does not appear in debug output.
#[derive(Clone, PartialEq, Eq, prost::Message)]
#[prost(skip_debug)]
pub struct AuthorityMessage {
    /// The certificate (DER).
    #[prost(bytes = "bytes", tag = "1")]
    pub certificate: Bytes,
    /// The private key (PKCS#8).
    #[prost(bytes = "bytes", tag = "2")]
    pub key: Bytes,
}

impl fmt::Debug for AuthorityMessage {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("AuthorityMessage").finish_non_exhaustive()
    }
}

/// A token with which nodes may join.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct TokenMessage {
    /// Digest of the token's public key.
    #[prost(bytes = "bytes", tag = "1")]
    pub id: Bytes,
    /// Time of expiry in seconds since 1970.
    #[prost(int64, tag = "2")]
    pub expires_unix_secs: i64,
    /// Number of nodes that may still use the token.
    #[prost(uint32, tag = "3")]
    pub uses_left: u32,
    /// Nodes that have used the token.
    #[prost(bytes = "bytes", repeated, tag = "4")]
    pub nodes: Vec<Bytes>,
}

/// The certificate of a member.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct HolderMessage {
    /// The member.
    #[prost(bytes = "bytes", tag = "1")]
    pub node: Bytes,
    /// Digest of the newest authority that the member knows.
    #[prost(bytes = "bytes", tag = "2")]
    pub knows: Bytes,
    /// Digest of the authority that issued the member's certificate.
    #[prost(bytes = "bytes", tag = "3")]
    pub holds: Bytes,
    /// Time of expiry of the certificate, in seconds since 1970.
    #[prost(int64, tag = "4")]
    pub not_after_unix_secs: i64,
}

/// Requests a certificate, on a connection that was authenticated by a token or the shared secret.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EnrolRequest {
    /// The certificate request (PKCS#10).
    #[prost(bytes = "bytes", tag = "1")]
    pub request: Bytes,
    /// Name of the node.
    #[prost(string, tag = "2")]
    pub name: String,
}

/// Answer to [`EnrolRequest`].
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct Enrolled {
    /// The node's certificate (DER).
    #[prost(bytes = "bytes", tag = "1")]
    pub certificate: Bytes,
    /// The authority that issued it (DER).
    #[prost(bytes = "bytes", tag = "2")]
    pub issuer: Bytes,
    /// All valid authorities (DER).
    #[prost(bytes = "bytes", repeated, tag = "3")]
    pub authorities: Vec<Bytes>,
}
