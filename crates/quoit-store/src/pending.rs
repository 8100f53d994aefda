//! Names of the records that a transaction reads and writes.

use crate::engine::RecordAt;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{EncodedKey, KeyRef};
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// A record's name and identity, owned.
pub(crate) struct OwnedName {
    encoded: EncodedKey,
    identity: Identity,
}

impl OwnedName {
    pub(crate) fn of(at: &RecordAt<'_>) -> Self {
        Self { encoded: EncodedKey::from_slice(at.encoded), identity: at.identity }
    }

    /// True if this is the name of the record `at`, which must be in the same partition.
    pub(crate) fn is(&self, at: &RecordAt<'_>) -> bool {
        self.identity == at.identity && self.encoded.as_slice() == at.encoded
    }

    pub(crate) fn encoded(&self) -> &[u8] {
        &self.encoded
    }

    pub(crate) const fn identity(&self) -> Identity {
        self.identity
    }

    /// The address of the record, given its partition.
    pub(crate) fn at(&self, partition: Partition) -> RecordAt<'_> {
        let key = KeyRef::decode(&self.encoded).expect("names come from encoded keys");
        RecordAt { key, encoded: &self.encoded, identity: self.identity, partition }
    }
}

/// A map from records of one partition to values of type `T`.
pub(crate) struct ByRecord<T>(BTreeMap<Identity, SmallVec<[(OwnedName, T); 1]>>);

impl<T> ByRecord<T> {
    pub(crate) const fn new() -> Self {
        Self(BTreeMap::new())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn get(&self, at: &RecordAt<'_>) -> Option<&T> {
        let mut named = self.0.get(&at.identity)?.iter();
        named.find(|(name, _)| name.is(at)).map(|(_, thing)| thing)
    }

    pub(crate) fn get_mut(&mut self, at: &RecordAt<'_>) -> Option<&mut T> {
        let mut named = self.0.get_mut(&at.identity)?.iter_mut();
        named.find(|(name, _)| name.is(at)).map(|(_, thing)| thing)
    }

    /// Sets the value of a record, replacing an earlier one.
    #[expect(clippy::indexing_slicing, reason = "the record was found or added at this place")]
    pub(crate) fn insert(&mut self, at: &RecordAt<'_>, thing: T) -> &T {
        let named = self.0.entry(at.identity).or_default();
        let place = named.iter().position(|(name, _)| name.is(at));
        let place = match place {
            Some(place) => {
                named[place].1 = thing;
                place
            }
            None => {
                named.push((OwnedName::of(at), thing));
                named.len() - 1
            }
        };
        &named[place].1
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &(OwnedName, T)> {
        self.0.values().flatten()
    }

    pub(crate) fn into_vec(self) -> Vec<(OwnedName, T)> {
        self.0.into_values().flatten().collect()
    }
}
