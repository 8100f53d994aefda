//! A bucket of the list, and the keys that witness that it is not empty.

use super::Keys;
use crate::engine::{DataPlace, KeyRange, RecordAt};
use crate::error::StoreError;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

/// Estimated memory of a witness, beside its name.
const WITNESS_BYTES: i64 = 96;

/// Witnesses of a bucket.
pub(super) const WITNESSES_MAX: usize = 16;

/// Says that most keys that become live need not be witnesses. The bits below count them.
pub(super) const IS_QUIET: u64 = 1 << 63;

/// The number of witnesses that a bucket began with, or that were found by a search. No note has it: a
/// witness that is noted again has another number than before.
pub(super) const NOT_NOTED: u64 = 0;

/// The number of a bucket's first note.
pub(super) const FIRST_NOTE: u64 = NOT_NOTED + 1;

/// A key that was live when it was last heard of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Witness {
    pub(crate) encoded: Bytes,
    pub(crate) identity: Identity,
    pub(crate) partition: Partition,
    /// Where the record was, in engines that look there first.
    pub(crate) place: DataPlace,
}

impl Witness {
    pub(super) fn of(at: &RecordAt<'_>, place: DataPlace) -> Self {
        let encoded = Bytes::copy_from_slice(at.encoded);
        Self { encoded, identity: at.identity, partition: at.partition, place }
    }

    /// Calls a function with where the record is.
    pub(crate) fn at<T>(&self, look: impl FnOnce(&RecordAt<'_>) -> T) -> T {
        let key = KeyRef::decode(&self.encoded).expect("witnesses have the names of records");
        let (identity, partition) = (self.identity, self.partition);
        look(&RecordAt { key, encoded: &self.encoded, identity, partition })
    }

    pub(super) fn cost_bytes(&self) -> i64 {
        WITNESS_BYTES + self.encoded.len() as i64
    }

    /// Whether another witness is of the same record. Two partitions may each have one of a name.
    fn is_same(&self, other: &Self) -> bool {
        (self.partition, &self.encoded) == (other.partition, &other.encoded)
    }

    /// Whether it is of this record.
    fn is_of(&self, at: &RecordAt<'_>) -> bool {
        (self.partition, &self.encoded[..]) == (at.partition, at.encoded)
    }
}

/// A bucket of the list.
pub(super) struct ListedBucket {
    pub(super) bucket_type: Bytes,
    pub(super) bucket: Bytes,
    /// The number of the next key that becomes live, from [`FIRST_NOTE`] on, and [`IS_QUIET`].
    pub(super) noted: AtomicU64,
    pub(super) witnesses: Mutex<Witnesses>,
    /// Held while the bucket is searched.
    pub(super) searching: Mutex<()>,
}

/// Its witnesses.
#[derive(Default)]
pub(super) struct Witnesses {
    /// With the number under which each was noted last, in that order.
    pub(super) keys: Vec<(u64, Witness)>,
    /// Whether no other key of the bucket is live.
    pub(super) are_all: bool,
    /// Whether some were left out since a search began.
    pub(super) have_overflown: bool,
}

impl ListedBucket {
    /// Adds a witness. Says what that costs: less than nothing if one with a longer name makes room.
    pub(super) fn add(&self, number: u64, at: &RecordAt<'_>, place: DataPlace) -> i64 {
        let mut witnesses = self.witnesses.lock();
        // Keys that expire are noted with every write: most likely the youngest one again.
        let same = witnesses.keys.iter().rposition(|(_, known)| known.is_of(at));
        if let Some(same) = same {
            let (noted, known) = &mut witnesses.keys[same];
            (*noted, known.place) = (number, place);
            witnesses.keys[same..].rotate_left(1);
            return 0;
        }
        let witness = Witness::of(at, place);
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

    /// Whether one of the witnesses is live. Forgets those that are not, and takes what they cost from
    /// `bytes`.
    pub(super) fn has_live_witness(
        &self,
        keys: &dyn Keys,
        bytes: &AtomicI64,
    ) -> Result<bool, StoreError> {
        let noted = self.witnesses.lock().keys.clone();
        // The youngest ones are most likely live.
        for (number, witness) in noted.iter().rev() {
            let place = keys.live_place(witness)?;
            let mut witnesses = self.witnesses.lock();
            // It may have become live again since it was looked for.
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

    /// Whether no key of the bucket is live.
    pub(super) fn is_empty(&self) -> bool {
        let witnesses = self.witnesses.lock();
        witnesses.are_all && witnesses.keys.is_empty()
    }

    /// Goes through the keys of the bucket until the first one that is live, unless there are witnesses.
    /// Says what the witness costs that it finds.
    pub(super) fn search(&self, keys: &dyn Keys) -> Result<i64, StoreError> {
        let _one_at_a_time = self.searching.lock();
        {
            let mut witnesses = self.witnesses.lock();
            if witnesses.are_all || !witnesses.keys.is_empty() {
                return Ok(0);
            }
            witnesses.have_overflown = false;
            // What was counted before is seen by the search; what is counted from now on becomes a witness.
            self.noted.fetch_and(!IS_QUIET, Ordering::AcqRel);
        }
        let bucket = BucketRef { bucket_type: &self.bucket_type, bucket: &self.bucket };
        let found = keys.live_keys(KeyRange::Bucket(bucket), None, 1);
        let found = found.inspect_err(|_| {
            // Nothing is known of other keys, as before.
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
