//! Names of records that a transaction is going to write.

use crate::engine::RecordAt;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{EncodedKey, KeyRef};

/// A record's name and identity, owned.
pub(crate) struct Name {
    encoded: EncodedKey,
    identity: Identity,
}

impl Name {
    pub(crate) fn of(at: &RecordAt<'_>) -> Self {
        Self { encoded: EncodedKey::from_slice(at.encoded), identity: at.identity }
    }

    /// Whether this is the name of the record `at` of the same partition.
    pub(crate) fn is(&self, at: &RecordAt<'_>) -> bool {
        self.identity == at.identity && self.encoded.as_slice() == at.encoded
    }

    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    pub(crate) const fn identity(&self) -> Identity {
        self.identity
    }

    /// Where the record is, in its partition.
    pub(crate) fn at(&self, partition: Partition) -> RecordAt<'_> {
        let key = KeyRef::decode(&self.encoded).expect("names come from encoded keys");
        RecordAt { key, encoded: &self.encoded, identity: self.identity, partition }
    }
}
