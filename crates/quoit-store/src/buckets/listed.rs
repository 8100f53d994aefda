//! A bucket of the list, and the keys that prove that it is not empty.

use super::Keys;
use crate::engine::{DataLocation, KeyRange, RecordAt};
use crate::error::StoreError;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Estimated memory of a known key in bytes, in addition to its name.
const KNOWN_KEY_BYTES: i64 = 96;

/// Maximum number of known keys of a bucket.
pub(super) const KNOWN_KEYS_MAX: usize = 16;

/// Flag: only a sample of the keys that become live is noted. The bits below it count the keys.
pub(super) const IS_QUIET: u64 = 1 << 63;

/// The number of a known key that a bucket began with, or that a search found. No note has this number, so a
/// known key that is noted again has another number than before.
pub(super) const NOT_NOTED: u64 = 0;

/// The number of a bucket's first note.
pub(super) const FIRST_NOTE: u64 = NOT_NOTED + 1;

/// A key that was live when the engine last reported it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct KnownKey {
    pub(crate) encoded: Bytes,
    pub(crate) identity: Identity,
    pub(crate) partition: Partition,
    /// Position of the record at that time, where some engines look first.
    pub(crate) place: DataLocation,
}

impl KnownKey {
    pub(super) fn of(at: &RecordAt<'_>, place: DataLocation) -> Self {
        let encoded = Bytes::copy_from_slice(at.encoded);
        Self { encoded, identity: at.identity, partition: at.partition, place }
    }

    /// Calls a function with the address of the record.
    pub(crate) fn at<T>(&self, look: impl FnOnce(&RecordAt<'_>) -> T) -> T {
        let key = KeyRef::decode(&self.encoded).expect("known keys have the names of records");
        let (identity, partition) = (self.identity, self.partition);
        look(&RecordAt { key, encoded: &self.encoded, identity, partition })
    }

    pub(super) fn cost_bytes(&self) -> i64 {
        KNOWN_KEY_BYTES + quoit_number::saturating_i64(self.encoded.len() as u64)
    }

    /// True if another known key is of the same record. One name in two partitions is two records.
    fn is_same(&self, other: &Self) -> bool {
        (self.partition, &self.encoded) == (other.partition, &other.encoded)
    }

    /// True if the known key is of this record.
    fn is_of(&self, at: &RecordAt<'_>) -> bool {
        (self.partition, &self.encoded[..]) == (at.partition, at.encoded)
    }
}

/// A bucket of the list.
pub(super) struct ListedBucket {
    pub(super) bucket_type: Bytes,
    pub(super) bucket: Bytes,
    /// The number of the next key that becomes live, from [`FIRST_NOTE`] on, and the flag [`IS_QUIET`].
    pub(super) noted: AtomicU64,
    pub(super) known_keys: Mutex<KnownKeys>,
    /// Held while the keys of the bucket are searched.
    pub(super) searching: Mutex<()>,
}

/// The known keys of a bucket.
#[derive(Default)]
pub(super) struct KnownKeys {
    /// Known keys with the number of their last note, in the order of these numbers.
    pub(super) keys: Vec<(u64, KnownKey)>,
    /// True if no other key of the bucket is live.
    pub(super) are_all: bool,
    /// True if a known key was dropped since the last search began.
    pub(super) have_overflown: bool,
}

impl ListedBucket {
    /// Adds a known key. Returns the added memory in bytes, which is negative if the new known key replaces
    /// one with a longer name.
    pub(super) fn add(&self, number: u64, at: &RecordAt<'_>, place: DataLocation) -> i64 {
        let mut known_keys = self.known_keys.lock();
        // Keys that expire are noted with every write, so the youngest known key is the most likely match.
        let same = known_keys.keys.iter().rposition(|(_, known)| known.is_of(at));
        if let Some(younger) = same.and_then(|same| known_keys.keys.get_mut(same..)) {
            if let Some((noted, known)) = younger.first_mut() {
                (*noted, known.place) = (number, place);
            }
            younger.rotate_left(1);
            return 0;
        }
        let known_key = KnownKey::of(at, place);
        let cost_bytes = known_key.cost_bytes();
        known_keys.keys.push((number, known_key));
        if known_keys.keys.len() <= KNOWN_KEYS_MAX {
            return cost_bytes;
        }
        let (_, oldest) = known_keys.keys.remove(0);
        known_keys.have_overflown = true;
        if known_keys.are_all {
            known_keys.are_all = false;
            self.noted.fetch_or(IS_QUIET, Ordering::AcqRel);
        }
        cost_bytes - oldest.cost_bytes()
    }

    /// True if one of the known keys is live. Removes known keys that are not live, and subtracts their
    /// memory from `bytes`.
    #[expect(clippy::indexing_slicing, reason = "`at` is the place of a known key")]
    pub(super) fn has_live_key(
        &self,
        keys: &dyn Keys,
        bytes: &AtomicI64,
    ) -> Result<bool, StoreError> {
        let noted = self.known_keys.lock().keys.clone();
        // The youngest known keys are most likely live.
        for (number, known_key) in noted.iter().rev() {
            let place = keys.live_place(known_key)?;
            let mut known_keys = self.known_keys.lock();
            // The number has changed if the key has become live again since the lookup.
            let at = known_keys
                .keys
                .iter()
                .position(|(known, same)| known == number && same.is_same(known_key));
            match (at, place) {
                (Some(at), Some(place)) => known_keys.keys[at].1.place = place,
                (Some(at), None) => {
                    let (_, gone) = known_keys.keys.remove(at);
                    bytes.fetch_sub(gone.cost_bytes(), Ordering::Relaxed);
                }
                (None, _) => {}
            }
            if place.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if no key of the bucket is live.
    pub(super) fn is_empty(&self) -> bool {
        let known_keys = self.known_keys.lock();
        known_keys.are_all && known_keys.keys.is_empty()
    }

    /// Scans the keys of the bucket up to the first live one, unless there are known keys. Returns the
    /// memory in bytes of the known key that it adds.
    pub(super) fn search(&self, keys: &dyn Keys) -> Result<i64, StoreError> {
        let _one_at_a_time = self.searching.lock();
        {
            let mut known_keys = self.known_keys.lock();
            if known_keys.are_all || !known_keys.keys.is_empty() {
                return Ok(0);
            }
            known_keys.have_overflown = false;
            // A writer that has counted its note before this line changed the index before, so the search
            // sees its record. A writer that counts its note later adds a known key.
            self.noted.fetch_and(!IS_QUIET, Ordering::AcqRel);
        }
        let bucket = BucketRef { bucket_type: &self.bucket_type, bucket: &self.bucket };
        let found = keys.live_keys(KeyRange::Bucket(bucket), None, 1);
        let found = found.inspect_err(|_| {
            // As before the search, the bucket may have other live keys.
            self.noted.fetch_or(IS_QUIET, Ordering::AcqRel);
        });
        let found = found?.pop();
        let mut known_keys = self.known_keys.lock();
        known_keys.are_all = found.is_none() && !known_keys.have_overflown;
        let mut more_bytes = 0;
        if let Some(found) = found {
            let is_known = known_keys.keys.iter().any(|(_, known)| known.is_same(&found));
            if !is_known {
                more_bytes = found.cost_bytes();
                known_keys.keys.insert(0, (NOT_NOTED, found));
            }
        }
        if !known_keys.are_all {
            self.noted.fetch_or(IS_QUIET, Ordering::AcqRel);
        }
        Ok(more_bytes)
    }
}
