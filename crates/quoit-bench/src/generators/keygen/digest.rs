//! Digests of keys.

use md4::Md4;
use md5::Md5;
use ripemd::Ripemd160;
use sha1::Sha1;
use sha2::digest::Digest;
use sha2::{Sha224, Sha256, Sha384, Sha512};

/// A hash function, under its Erlang name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DigestKind {
    /// MD4, 16 bytes.
    Md4,
    /// MD5, 16 bytes.
    Md5,
    /// RIPEMD-160, 20 bytes.
    Ripemd160,
    /// SHA-1, 20 bytes; its Erlang name is `sha`.
    Sha1,
    /// SHA-224, 28 bytes.
    Sha224,
    /// SHA-256, 32 bytes.
    Sha256,
    /// SHA-384, 48 bytes.
    Sha384,
    /// SHA-512, 64 bytes.
    Sha512,
}

impl DigestKind {
    /// All names, for error messages.
    pub(super) const NAMES: &'static str =
        "md4, md5, ripemd160, sha, sha224, sha256, sha384, sha512";

    /// The function with a name.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "md4" => Self::Md4,
            "md5" => Self::Md5,
            "ripemd160" => Self::Ripemd160,
            "sha" => Self::Sha1,
            "sha224" => Self::Sha224,
            "sha256" => Self::Sha256,
            "sha384" => Self::Sha384,
            "sha512" => Self::Sha512,
            _ => return None,
        })
    }

    /// Replaces `bytes` by their digest.
    pub(super) fn apply(self, bytes: &mut Vec<u8>) {
        match self {
            Self::Md4 => replace::<Md4>(bytes),
            Self::Md5 => replace::<Md5>(bytes),
            Self::Ripemd160 => replace::<Ripemd160>(bytes),
            Self::Sha1 => replace::<Sha1>(bytes),
            Self::Sha224 => replace::<Sha224>(bytes),
            Self::Sha256 => replace::<Sha256>(bytes),
            Self::Sha384 => replace::<Sha384>(bytes),
            Self::Sha512 => replace::<Sha512>(bytes),
        }
    }
}

fn replace<D: Digest>(bytes: &mut Vec<u8>) {
    let digest = D::digest(&*bytes);
    bytes.clear();
    bytes.extend_from_slice(&digest);
}
