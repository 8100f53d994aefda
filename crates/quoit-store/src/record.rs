//! Records, and where they live.

use bytes::Bytes;
use quoit_model::hash::{Identity, KeyHash, Partition, Placement, PlacementRule};
use quoit_model::key::KeyRef;
use quoit_model::object::Object;

/// Where a record lives: its name, encoded name, identity and partition.
#[derive(Clone, Copy, Debug)]
pub struct RecordAt<'a> {
    /// The name.
    pub key: KeyRef<'a>,
    /// The name in its encoded form (`KeyRef::encode_into`), made once a request.
    pub encoded: &'a [u8],
    /// Hash that names the record in the index.
    pub identity: Identity,
    /// The partition that the record belongs to.
    pub partition: Partition,
}

impl<'a> RecordAt<'a> {
    /// A record, or a piece of one, whose partition is known.
    pub(crate) fn of(key: KeyRef<'a>, encoded: &'a [u8], partition: Partition) -> Self {
        let identity = if key.is_piece() {
            KeyHash::of_piece(encoded, Placement(0)).identity
        } else {
            // It does not depend on the bucket's placement.
            KeyHash::of(encoded, key.bucket, PlacementRule::BucketAndKey).identity
        };
        Self { key, encoded, identity, partition }
    }
}

/// Everything that an engine has to know about a record besides its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecordMeta {
    /// Fingerprint of the object's causal state: equal for equal objects on all replicas.
    pub digest: u64,
    /// Whether the object is a tombstone.
    pub tombstone: bool,
    /// Number of replicas of the record's bucket, 1 to 15 (more count as 15): digests are kept apart by it.
    /// 0 for a piece of a record ([`RecordMeta::PIECE`]).
    pub n_val_class: u8,
    /// When the record expires, seconds since 1970; 0 = never. An expired record reads as missing, or as the
    /// tombstone that stays of it.
    pub expires_at_secs: u32,
    /// Whether the value is an object with index entries (`Object::has_index_entries`): only then engines
    /// look for entries in it.
    pub indexed: bool,
}

impl RecordMeta {
    /// The class of records of a bucket with this number of replicas.
    #[must_use]
    pub const fn class_of(n_val: u32) -> u8 {
        // The index has four bits for it.
        if n_val < 15 { n_val as u8 } else { 15 }
    }

    /// A piece of a record, under a name of [`KeyRef::piece`]: found by that name, and in listings of its
    /// record's pieces. Listings of everything, folds, counts of keys and digests know nothing of it; whoever
    /// stores pieces keeps them in step with their record.
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

    /// Whether the record is a piece of another.
    #[must_use]
    pub const fn is_piece(&self) -> bool {
        self.n_val_class == 0
    }
}

impl Default for RecordMeta {
    /// A live record that one node keeps and that never expires.
    fn default() -> Self {
        Self { n_val_class: 1, ..Self::PIECE }
    }
}

/// A stored record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// Metadata that the engine was given with the record.
    pub meta: RecordMeta,
    /// The value, a slice of the buffer that it was read into.
    pub value: Bytes,
}

/// A stored record, for as long as the engine shows it.
#[derive(Clone, Copy, Debug)]
pub struct RecordRef<'a> {
    /// Metadata that the engine was given with the record.
    pub meta: RecordMeta,
    /// The value; its front where only that was asked for ([`Before::Front`](super::Before::Front)).
    pub value: &'a [u8],
    /// Whether all of the value is there. If not, its checksum was not looked at.
    pub is_whole: bool,
    /// The buffer that the value is a part of, if sharing it is cheaper than a copy.
    pub(crate) owner: Option<&'a Bytes>,
}

impl<'a> RecordRef<'a> {
    /// A record that is shown from bytes that may be shared.
    #[must_use]
    pub fn shared(record: &'a Record) -> Self {
        Self { meta: record.meta, value: &record.value, is_whole: true, owner: Some(&record.value) }
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
