//! A bucket of the list, and the keys that prove that it is not empty.

use super::Keys;
use crate::engine::{DataLocation, KeyRange, RecordAt};
use crate::error::StoreError;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Estimated memory of a witness in bytes, in addition to its name.
const WITNESS_BYTES: i64 = 96;

/// Maximum number of witnesses of a bucket.
pub(super) const WITNESSES_MAX: usize = 16;

/// Flag: only a sample of the keys that become live is noted. The bits below it count the keys.
pub(super) const IS_QUIET: u64 = 1 << 63;

/// The number of a witness that a bucket began with, or that a search found. No note has this number, so a
/// witness that is noted again has another number than before.
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
        let key = KeyRef::decode(&self.encoded).expect("witnesses have the names of records");
        let (identity, partition) = (self.identity, self.partition);
        look(&RecordAt { key, encoded: &self.encoded, identity, partition })
    }

    pub(super) fn cost_bytes(&self) -> i64 {
        WITNESS_BYTES + quoit_number::saturating_i64(self.encoded.len() as u64)
    }

    /// True if another witness is of the same record. One name in two partitions is two records.
    fn is_same(&self, other: &Self) -> bool {
        (self.partition, &self.encoded) == (other.partition, &other.encoded)
    }

    /// True if the witness is of this record.
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
    pub(super) witnesses: Mutex<KnownKeys>,
    /// Held while the keys of the bucket are searched.
    pub(super) searching: Mutex<()>,
}

/// The witnesses of a bucket.
#[derive(Default)]
pub(super) struct KnownKeys {
    /// Witnesses with the number of their last note, in the order of these numbers.
    pub(super) keys: Vec<(u64, KnownKey)>,
    /// True if no other key of the bucket is live.
    pub(super) are_all: bool,
    /// True if a witness was dropped since the last search began.
    pub(super) have_overflown: bool,
}

impl ListedBucket {
    /// Adds a witness. Returns the added memory in bytes, which is negative if the new witness replaces one
    /// with a longer name.
    pub(super) fn add(&self, number: u64, at: &RecordAt<'_>, place: DataLocation) -> i64 {
        let mut witnesses = self.witnesses.lock();
        // Keys that expire are noted with every write, so the youngest witness is the most likely match.
        let same = witnesses.keys.iter().rposition(|(_, known)| known.is_of(at));
        if let Some(younger) = same.and_then(|same| witnesses.keys.get_mut(same..)) {
            if let Some((noted, known)) = younger.first_mut() {
                (*noted, known.place) = (number, place);
            }
            younger.rotate_left(1);
            return 0;
        }
        let witness = KnownKey::of(at, place);
        let cost_bytes = witness.cost_bytes();
        witnesses.keys.push((number, witness));
        if witnesses.keys.len() <= WITNESSES_MAX {
            return cost_bytes;
        }
        let (_, oldest) = witnesses.keys.remove(0);
        witnesses.have_overflown = true;
        if witnesses.are_all {
            witnesses.are_all = false;
            self.noted.fetch_or(IS_QUIET, Ordering::AcqRel);
        }
        cost_bytes - oldest.cost_bytes()
    }

    /// True if one of the witnesses is live. Removes witnesses that are not live, and subtracts their
    /// memory from `bytes`.
    #[expect(clippy::indexing_slicing, reason = "`at` is the place of a witness")]
    pub(super) fn has_live_key(
        &self,
        keys: &dyn Keys,
        bytes: &AtomicI64,
    ) -> Result<bool, StoreError> {
        let noted = self.witnesses.lock().keys.clone();
        // The youngest witnesses are most likely live.
        for (number, witness) in noted.iter().rev() {
            let place = keys.live_place(witness)?;
            let mut witnesses = self.witnesses.lock();
            // The number has changed if the key has become live again since the lookup.
            let at = witnesses
                .keys
                .iter()
                .position(|(known, same)| known == number && same.is_same(witness));
            match (at, place) {
                (Some(at), Some(place)) => witnesses.keys[at].1.place = place,
                (Some(at), None) => {
                    let (_, gone) = witnesses.keys.remove(at);
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
        let witnesses = self.witnesses.lock();
        witnesses.are_all && witnesses.keys.is_empty()
    }

    /// Scans the keys of the bucket up to the first live one, unless there are witnesses. Returns the
    /// memory in bytes of the witness that it adds.
    pub(super) fn search(&self, keys: &dyn Keys) -> Result<i64, StoreError> {
        let _one_at_a_time = self.searching.lock();
        {
            let mut witnesses = self.witnesses.lock();
            if witnesses.are_all || !witnesses.keys.is_empty() {
                return Ok(0);
            }
            witnesses.have_overflown = false;
            // A writer that has counted its note before this line changed the index before, so the search
            // sees its record. A writer that counts its note later adds a witness.
            self.noted.fetch_and(!IS_QUIET, Ordering::AcqRel);
        }
        let bucket = BucketRef { bucket_type: &self.bucket_type, bucket: &self.bucket };
        let found = keys.live_keys(KeyRange::Bucket(bucket), None, 1);
        let found = found.inspect_err(|_| {
            // As before the search, the bucket may have other live keys.
            self.noted.fetch_or(IS_QUIET, Ordering::AcqRel);
        });
        let found = found?.pop();
        let mut witnesses = self.witnesses.lock();
        witnesses.are_all = found.is_none() && !witnesses.have_overflown;
        let mut more_bytes = 0;
        if let Some(found) = found {
            let is_known = witnesses.keys.iter().any(|(_, known)| known.is_same(&found));
            if !is_known {
                more_bytes = found.cost_bytes();
                witnesses.keys.insert(0, (NOT_NOTED, found));
            }
        }
        if !witnesses.are_all {
            self.noted.fetch_or(IS_QUIET, Ordering::AcqRel);
        }
        Ok(more_bytes)
    }
}
