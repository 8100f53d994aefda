//! Records: names, metadata and values.

use bytes::Bytes;
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementHash, PlacementRule};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_number::low_u8;

/// Full address of a record: its name, encoded name, identity and partition.
#[derive(Clone, Copy, Debug)]
pub struct RecordAt<'a> {
    /// The name.
    pub key: KeyRef<'a>,
    /// The name in its encoded form (`KeyRef::encode_into`), which a request makes once.
    pub encoded: &'a [u8],
    /// Hash by which the index finds the record.
    pub identity: Identity,
    /// The partition that the record belongs to.
    pub partition: Partition,
}

impl<'a> RecordAt<'a> {
    /// The address of a record, or of a piece of one, in a known partition.
    pub(crate) fn of(key: KeyRef<'a>, encoded: &'a [u8], partition: Partition) -> Self {
        let identity = if key.is_piece() {
            KeyHash::of_piece(encoded, PlacementHash(0)).identity
        } else {
            // The identity does not depend on the bucket's placement rule, so any rule will do.
            KeyHash::of(encoded, key.bucket, PlacementRule::BucketAndKey).identity
        };
        Self { key, encoded, identity, partition }
    }

    /// Size of the encoded name in bytes.
    pub(crate) fn encoded_bytes(&self) -> u16 {
        u16::try_from(self.encoded.len()).expect("encoded names have at most 65 535 bytes")
    }
}

/// Facts about a record that an engine needs beside its value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordMeta {
    /// Digest of the object's causal state: equal for equal objects on all replicas.
    pub digest: u64,
    /// True if the object is a tombstone.
    pub tombstone: bool,
    /// n_val of the record's bucket, 1 to 15 (larger values count as 15): each class has digests of its
    /// own. 0 for a piece of a record ([`RecordMeta::PIECE`]).
    pub n_val_class: u8,
    /// Time at which the record expires, in seconds since 1970; 0 = never. An expired record reads as
    /// missing, or as the tombstone that replaces it.
    pub expires_at_secs: u32,
    /// True if the value is an object with index entries (`Object::has_index_entries`). Engines look for
    /// entries only then.
    pub indexed: bool,
}

impl RecordMeta {
    /// The class of records of a bucket with this n_val.
    #[must_use]
    pub const fn class_of(n_val: u32) -> u8 {
        // An index entry has four bits for the class.
        if n_val < 15 { low_u8(n_val as u64) } else { 15 }
    }

    /// Metadata of a piece of a record, stored under a name in
    /// [`BucketRef::of_pieces`](quoit_model::key::BucketRef::of_pieces). A piece is found by that name and in
    /// listings of its record's pieces. Listings of all keys, folds, counts of keys and digests leave pieces
    /// out. The code that stores pieces keeps them consistent with their record.
    pub const PIECE: Self =
        Self { digest: 0, tombstone: false, n_val_class: 0, expires_at_secs: 0, indexed: false };

    /// The metadata of an object.
    #[must_use]
    pub fn of(object: &Object, n_val_class: u8) -> Self {
        Self {
            digest: object.digest(),
            tombstone: object.is_tombstone(),
            n_val_class,
            expires_at_secs: object.expires_at_secs().unwrap_or(0),
            indexed: object.has_index_entries(),
        }
    }

    /// True if the record is a piece of another record.
    #[must_use]
    pub const fn is_piece(&self) -> bool {
        self.n_val_class == 0
    }
}

impl Default for RecordMeta {
    /// A live record of a bucket with n_val 1 that never expires.
    fn default() -> Self {
        Self { n_val_class: 1, ..Self::PIECE }
    }
}

/// A stored record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Metadata that the caller stored with the record.
    pub meta: RecordMeta,
    /// The value, a slice of the buffer that it was read into.
    pub value: Bytes,
}

/// A stored record, valid while the engine shows it.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Metadata that the caller stored with the record.
    pub meta: RecordMeta,
    /// The value, or only its first bytes after a call with [`BeforeImage::Front`](super::Before::Front).
    pub value: &'a [u8],
    /// True if `value` is complete. If not, its checksum was not verified.
    pub is_whole: bool,
    /// The buffer that contains the value, if sharing it is cheaper than a copy.
    pub(crate) owner: Option<&'a Bytes>,
}

impl<'a> RecordRef<'a> {
    /// A view of a record whose buffer may be shared.
    #[must_use]
    pub fn shared(record: &'a Record) -> Self {
        Self { meta: record.meta, value: &record.value, is_whole: true, owner: Some(&record.value) }
    }

    /// The buffer that contains the value, if sharing it is cheaper than a copy.
    #[must_use]
    pub const fn owner(&self) -> Option<&'a Bytes> {
        self.owner
    }

    /// The value as bytes that outlive the call: a copy if it is small, shared if it is large.
    #[must_use]
    pub fn to_bytes(&self) -> Bytes {
        self.owner.cloned().unwrap_or_else(|| Bytes::copy_from_slice(self.value))
    }

    /// The record as one that outlives the call.
    #[must_use]
    pub fn to_record(&self) -> Record {
        Record { meta: self.meta, value: self.to_bytes() }
    }
}
