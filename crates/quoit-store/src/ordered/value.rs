//! Values of the ordered store.
//!
//! ```text
//! records   byte  0     flags: bit 0 tombstone, bit 1 the body is stored apart, bit 2 has index entries
//!           byte  1     n_val class (0: a piece)
//!           byte  2  4  time of expiry, seconds since 1970
//!           byte  6  8  digest
//!           byte 14  4  size of the body
//!           byte 18  8  XXH3-64 of the body
//!           byte 26  4  low half of the XXH3-64 of the key and all bytes before
//!           byte 30     the body, unless it is stored apart
//! bodies    the body
//! names     the first 14 bytes of the head
//! ```
//!
//! Numbers are big-endian.

use crate::engine::RecordMeta;
use bytes::Bytes;
use quoit_number::{length_u32, low_u32};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

pub(super) const HEAD_BYTES: usize = 30;
const META_BYTES: usize = 14;
const CHECK_AT: usize = 26;

const FLAG_TOMBSTONE: u8 = 1;
const FLAG_APART: u8 = 1 << 1;
const FLAG_INDEXED: u8 = 1 << 2;

/// The header before a record's body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct ValueHead {
    pub(super) meta: RecordMeta,
    pub(super) is_apart: bool,
    body_bytes: u32,
    body_check: u64,
}

impl ValueHead {
    /// The head for a body.
    pub(super) fn of(meta: RecordMeta, body: &[u8], is_apart: bool) -> Self {
        Self { meta, is_apart, body_bytes: length_u32(body.len()), body_check: xxh3_64(body) }
    }

    pub(super) fn encode(&self, key: &[u8]) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..META_BYTES].copy_from_slice(&encode_meta(&self.meta));
        bytes[0] |= u8::from(self.is_apart) * FLAG_APART;
        bytes[14..18].copy_from_slice(&self.body_bytes.to_be_bytes());
        bytes[18..CHECK_AT].copy_from_slice(&self.body_check.to_be_bytes());
        let check = head_check(key, &bytes[..CHECK_AT]);
        bytes[CHECK_AT..].copy_from_slice(&check.to_be_bytes());
        bytes
    }

    /// Decodes and verifies the head of a record. The body may be missing. The error says what is wrong.
    pub(super) fn read(key: &[u8], record: &[u8]) -> Result<Self, &'static str> {
        let head: &[u8; HEAD_BYTES] = record.first_chunk().ok_or("the head is cut off")?;
        if head_check(key, &head[..CHECK_AT]).to_be_bytes() != head[CHECK_AT..] {
            return Err("the checksum of the head is wrong");
        }
        Ok(Self {
            meta: read_meta(head).ok_or("the head is cut off")?,
            is_apart: head[0] & FLAG_APART != 0,
            body_bytes: u32::from_be_bytes(array_at(head, 14)),
            body_check: u64::from_be_bytes(array_at(head, 18)),
        })
    }

    /// True if these bytes are the body of this head.
    pub(super) fn has_body(&self, body: &[u8]) -> bool {
        body.len() == self.body_bytes as usize && xxh3_64(body) == self.body_check
    }

    pub(super) const fn body_bytes(&self) -> u64 {
        self.body_bytes as u64
    }
}

/// A record's value: the head, and the body unless it is stored apart.
pub(super) fn record_value(key: &[u8], head: &ValueHead, body: &[u8]) -> Bytes {
    let encoded = head.encode(key);
    if head.is_apart {
        return Bytes::copy_from_slice(&encoded);
    }
    Bytes::from([&encoded[..], body].concat())
}

/// Encodes a record's metadata as it is stored beside its name.
pub(super) fn encode_meta(meta: &RecordMeta) -> [u8; META_BYTES] {
    let mut bytes = [0; META_BYTES];
    bytes[0] = u8::from(meta.tombstone) * FLAG_TOMBSTONE + u8::from(meta.indexed) * FLAG_INDEXED;
    bytes[1] = meta.n_val_class;
    bytes[2..6].copy_from_slice(&meta.expires_at_secs.to_be_bytes());
    bytes[6..].copy_from_slice(&meta.digest.to_be_bytes());
    bytes
}

/// Decodes metadata; `None` if it is cut off.
pub(super) fn read_meta(bytes: &[u8]) -> Option<RecordMeta> {
    let bytes: &[u8; META_BYTES] = bytes.first_chunk()?;
    Some(RecordMeta {
        digest: u64::from_be_bytes(array_at(bytes, 6)),
        tombstone: bytes[0] & FLAG_TOMBSTONE != 0,
        n_val_class: bytes[1],
        expires_at_secs: u32::from_be_bytes(array_at(bytes, 2)),
        indexed: bytes[0] & FLAG_INDEXED != 0,
    })
}

fn head_check(key: &[u8], head: &[u8]) -> u32 {
    let mut hasher = Xxh3Default::new();
    hasher.update(key);
    hasher.update(head);
    low_u32(hasher.digest())
}

/// The `N` bytes at offset `at`, which the caller has checked to exist.
#[expect(clippy::indexing_slicing, reason = "the caller has checked the size")]
fn array_at<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(&bytes[at..at + N]);
    array
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(
            digest: u64,
            tombstone: bool,
            n_val_class in 0..16u8,
            expires_at_secs: u32,
            indexed: bool,
            body: Vec<u8>,
            is_apart: bool,
        ) {
            let meta = RecordMeta { digest, tombstone, n_val_class, expires_at_secs, indexed };
            let head = ValueHead::of(meta, &body, is_apart);
            let value = record_value(b"key", &head, &body);
            prop_assert_eq!(ValueHead::read(b"key", &value), Ok(head));
            prop_assert_eq!(read_meta(&encode_meta(&meta)), Some(meta));
            prop_assert_eq!(value.len(), HEAD_BYTES + if is_apart { 0 } else { body.len() });
            prop_assert!(head.has_body(&body));
        }

        #[test]
        fn a_flipped_bit_is_found(bit in 0..(HEAD_BYTES + 5) * 8) {
            let head = ValueHead::of(RecordMeta::default(), b"value", false);
            let mut value = record_value(b"key", &head, b"value").to_vec();
            value[bit / 8] ^= 1 << (bit % 8);
            let found = ValueHead::read(b"key", &value);
            prop_assert!(found.is_err() || !found.unwrap().has_body(&value[HEAD_BYTES..]));
        }
    }

    #[test]
    fn a_record_of_another_key_is_damage() {
        let head = ValueHead::of(RecordMeta::default(), b"value", true);
        let value = record_value(b"key", &head, b"value");
        assert!(ValueHead::read(b"other", &value).is_err());
    }
}
