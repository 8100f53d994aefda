//! Encoding of record names as keys of Riak's Bitcask and Leveled backends.

use crate::etf::{EtfError, Limits, Term};
use crate::key::{BucketRef, DEFAULT_BUCKET_TYPE, ENCODED_KEY_BYTES_MAX, KeyRef};
use bytes::Bytes;
use thiserror::Error;

/// First byte of version 1 without a bucket type.
const UNTYPED: u8 = 0x02;
/// First byte of version 1 with a bucket type.
const TYPED: u8 = 0x03;
/// First byte of version 0, an external term.
const VERSION_0: u8 = crate::etf::ETF_VERSION;

/// A name is a shallow term: `{{Type, Bucket}, Key}`.
const LIMITS: Limits =
    Limits { depth_max: 4, terms_max: 8, inflated_bytes_max: 2 * ENCODED_KEY_BYTES_MAX };

/// Name of a record, read from a key of Riak.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BitcaskKey {
    /// Bucket type; `default` for untyped buckets.
    pub bucket_type: Bytes,
    /// Bucket name.
    pub bucket: Bytes,
    /// Key within the bucket.
    pub key: Bytes,
}

/// Error of decoding a key of Riak.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum BitcaskKeyError {
    /// The key is shorter than the lengths in it say.
    #[error("stored key of {size_bytes} bytes is shorter than its parts")]
    Truncated {
        /// Size of the key in bytes.
        size_bytes: usize,
    },
    /// The first byte is of neither version 0 nor version 1.
    #[error("stored key begins with byte {first}: not 2, 3 (version 1) or 131 (version 0)")]
    UnknownVersion {
        /// The first byte.
        first: u8,
    },
    /// The term of a key of version 0 can't be read.
    #[error("stored key of version 0: {0}")]
    Term(#[from] EtfError),
    /// The term of a key of version 0 is not a name.
    #[error("stored key of version 0 is not {{Bucket, Key}} or {{{{Type, Bucket}}, Key}}")]
    NotAName,
}

impl BitcaskKey {
    /// Decodes a key of either version; its parts share the input.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a key. Parts may be empty: check the name with
    /// [`KeyRef::check`] before use.
    pub fn decode(bytes: &Bytes) -> Result<Self, BitcaskKeyError> {
        let truncated = || BitcaskKeyError::Truncated { size_bytes: bytes.len() };
        match *bytes.first().ok_or_else(truncated)? {
            UNTYPED => {
                let (bucket, key) = split_sized(&bytes.slice(1..)).ok_or_else(truncated)?;
                Ok(Self { bucket_type: default_type(), bucket, key })
            }
            TYPED => {
                let (bucket_type, rest) = split_sized(&bytes.slice(1..)).ok_or_else(truncated)?;
                let (bucket, key) = split_sized(&rest).ok_or_else(truncated)?;
                Ok(Self { bucket_type, bucket, key })
            }
            VERSION_0 => Self::of_term(&Term::decode(bytes, &LIMITS)?),
            first => Err(BitcaskKeyError::UnknownVersion { first }),
        }
    }

    fn of_term(term: &Term) -> Result<Self, BitcaskKeyError> {
        let binary = |term: &Term| term.as_binary().cloned().ok_or(BitcaskKeyError::NotAName);
        let [bucket, key] = term.as_tuple().ok_or(BitcaskKeyError::NotAName)?;
        let (bucket_type, bucket) = match bucket.as_tuple() {
            Some([bucket_type, bucket]) => (binary(bucket_type)?, binary(bucket)?),
            None => (default_type(), binary(bucket)?),
        };
        Ok(Self { bucket_type, bucket, key: binary(key)? })
    }

    /// Borrows the name.
    #[must_use]
    pub fn as_key_ref(&self) -> KeyRef<'_> {
        BucketRef { bucket_type: &self.bucket_type, bucket: &self.bucket }.key(&self.key)
    }
}

/// Appends the version 1 key of a record. It omits the bucket type of untyped buckets.
///
/// # Panics
///
/// Panics if a part of the name is longer than 65 535 bytes, which [`KeyRef::check`] would have
/// refused.
pub fn encode_bitcask_key(key: KeyRef<'_>, out: &mut Vec<u8>) {
    if key.bucket.is_untyped() {
        out.push(UNTYPED);
    } else {
        out.push(TYPED);
        put_sized(out, key.bucket.bucket_type);
    }
    put_sized(out, key.bucket.bucket);
    out.extend_from_slice(key.key);
}

/// Appends the version 0 key of a record.
pub fn encode_bitcask_key_v0(key: KeyRef<'_>, out: &mut Vec<u8>) {
    let binary = |bytes: &[u8]| Term::Binary(Bytes::copy_from_slice(bytes));
    let bucket = binary(key.bucket.bucket);
    let bucket = match key.bucket.is_untyped() {
        true => bucket,
        false => Term::Tuple(vec![binary(key.bucket.bucket_type), bucket]),
    };
    Term::Tuple(vec![bucket, binary(key.key)]).encode_into(out);
}

fn default_type() -> Bytes {
    Bytes::from_static(DEFAULT_BUCKET_TYPE)
}

fn put_sized(out: &mut Vec<u8>, part: &[u8]) {
    let len = u16::try_from(part.len()).expect("names are checked before they are stored");
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(part);
}

fn split_sized(bytes: &Bytes) -> Option<(Bytes, Bytes)> {
    let end = 2 + usize::from(u16::from_be_bytes(*bytes.first_chunk()?));
    (end <= bytes.len()).then(|| (bytes.slice(2..end), bytes.slice(end..)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key<'a>(bucket_type: &'a [u8], bucket: &'a [u8], key: &'a [u8]) -> KeyRef<'a> {
        BucketRef { bucket_type, bucket }.key(key)
    }

    fn encoded(key: KeyRef<'_>, encode: fn(KeyRef<'_>, &mut Vec<u8>)) -> Bytes {
        let mut out = Vec::new();
        encode(key, &mut out);
        out.into()
    }

    #[test]
    fn keys_have_the_bytes_that_riak_writes() {
        let (untyped, typed) = (key(b"default", b"b", b"k"), key(b"t", b"b", b"k"));
        assert_eq!(encoded(untyped, encode_bitcask_key), b"\x02\0\x01bk".as_slice());
        assert_eq!(encoded(typed, encode_bitcask_key), b"\x03\0\x01t\0\x01bk".as_slice());
        let version_0 = b"\x83\x68\x02m\0\0\0\x01bm\0\0\0\x01k".as_slice();
        assert_eq!(encoded(untyped, encode_bitcask_key_v0), version_0);
    }

    proptest! {
        #[test]
        fn every_name_comes_back(
            bucket_type in prop::collection::vec(any::<u8>(), 1..9),
            bucket in prop::collection::vec(any::<u8>(), 1..9),
            name in prop::collection::vec(any::<u8>(), 1..9),
            untyped: bool,
        ) {
            let bucket_type = if untyped { DEFAULT_BUCKET_TYPE } else { &bucket_type };
            let name = key(bucket_type, &bucket, &name);
            for encode in [encode_bitcask_key, encode_bitcask_key_v0] {
                let decoded = BitcaskKey::decode(&encoded(name, encode)).expect("own encoding");
                prop_assert_eq!(decoded.as_key_ref(), name);
            }
        }

        #[test]
        fn random_bytes_never_panic(
            mut bytes in prop::collection::vec(any::<u8>(), 0..40),
            first in prop::sample::select(&[UNTYPED, TYPED, VERSION_0, 7][..]),
        ) {
            if let Some(byte) = bytes.first_mut() {
                *byte = first;
            }
            let _ = BitcaskKey::decode(&bytes.into());
        }
    }

    #[test]
    fn what_is_no_key_is_an_error() {
        let decode = |bytes: &'static [u8]| BitcaskKey::decode(&Bytes::from_static(bytes));
        assert_eq!(decode(b""), Err(BitcaskKeyError::Truncated { size_bytes: 0 }));
        assert_eq!(decode(b"\x02\0\x05bk"), Err(BitcaskKeyError::Truncated { size_bytes: 5 }));
        assert_eq!(decode(b"\x03\0\x01t\0"), Err(BitcaskKeyError::Truncated { size_bytes: 5 }));
        assert_eq!(decode(b"\x04\0"), Err(BitcaskKeyError::UnknownVersion { first: 4 }));
        assert_eq!(decode(b"\x83\x61\x05"), Err(BitcaskKeyError::NotAName));
    }
}
