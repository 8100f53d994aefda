//! The list of buckets that have live keys, so that listing buckets does not scan keys. A key is live if
//! its record exists and has not expired; a tombstone counts as live until it is reaped.
//!
//! The list keeps a few *known keys* for each bucket: keys that were live when the engine last reported
//! them. A bucket is listed if one of its known keys is still live, which takes one lookup in the index.
//! Keys are scanned only
//!
//! - when buckets are listed for the first time after the store was opened: one seek per bucket, as far as
//!   the listing goes, and
//! - when all known keys of a bucket are gone: up to the first live key.
//!
//! A write notes its key when the key becomes live. In a bucket that had no other live key, every key that
//! has become live since is a known key, as long as there are few. So a bucket that is filled and emptied
//! again and again is not scanned again, even if it has many expired keys.
//!
//! The list is not stored, and it is only a hint: before a bucket is listed, the engine checks the known key,
//! whatever happened to its record since it was noted (another write, expiry, the drop of its partition, a
//! merge).

mod listed;

use crate::engine::{DataLocation, KeyRange, RecordAt};
use crate::error::StoreError;
use bytes::Bytes;
use foldhash::fast::RandomState;
use listed::{FIRST_NOTE, IS_QUIET, KnownKeys, ListedBucket, NOT_NOTED};
use parking_lot::{Mutex, RwLock};
use quoit_model::key::{BucketRef, PIECE_TYPE};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

pub(crate) use listed::KnownKey;

/// Maximum memory of the list in bytes, by estimate: about a hundred thousand buckets. There is no setting
/// for it: a store with more buckets lists them by scanning keys, as slowly as without a list, and has no
/// other disadvantage.
const LIST_BYTES_MAX: i64 = 64 << 20;

/// Estimated memory of a bucket in bytes, in addition to three times its name.
const BUCKET_BYTES: i64 = 480;

/// In a bucket with other live keys, one in this many keys that become live is noted, so that some
/// known keys are younger than most keys.
const NOTED_ONE_OF: u64 = 1_024;

/// Access of the list to the keys of an engine.
pub(crate) trait Keys {
    /// The current position of a record if it is live, that is, it exists and has not expired.
    fn live_place(&self, known_key: &KnownKey) -> Result<Option<DataLocation>, StoreError>;

    /// A live key of each of the next buckets after `after` in a range that have a live key, at most
    /// `limit`, in the order of buckets. A bucket is certain to be found if one of its keys is live during
    /// the whole call.
    fn live_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<KnownKey>, StoreError>;
}

/// The list of buckets. See the module's documentation.
pub(crate) struct BucketList {
    known: RwLock<KnownBuckets>,
    /// Held while buckets are learnt from keys.
    learning: Mutex<()>,
    /// Estimated memory of the list in bytes. Negative for a moment if a removal is counted before its
    /// addition.
    bytes: AtomicI64,
    bytes_max: i64,
    /// True after the list has become too large and was given up.
    is_off: AtomicBool,
}

#[derive(Default)]
struct KnownBuckets {
    /// Buckets by the prefix of an encoded name that names the bucket.
    by_bucket_prefix: HashMap<Box<[u8]>, Arc<ListedBucket>, RandomState>,
    types: BTreeMap<Bytes, TypeBuckets>,
}

/// The buckets of one bucket type.
#[derive(Default)]
struct TypeBuckets {
    buckets: BTreeMap<Bytes, Arc<ListedBucket>>,
    learnt: KnownRange,
}

/// The part of a bucket type up to which the list has all buckets, including those that existed before
/// anything was noted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum KnownRange {
    #[default]
    Nothing,
    UpTo(Bytes),
    All,
}

impl KnownRange {
    fn has(&self, bucket: &[u8]) -> bool {
        match self {
            Self::Nothing => false,
            Self::UpTo(last) => bucket <= &last[..],
            Self::All => true,
        }
    }
}

impl Default for BucketList {
    fn default() -> Self {
        Self::bounded(LIST_BYTES_MAX)
    }
}

impl BucketList {
    fn bounded(bytes_max: i64) -> Self {
        Self {
            known: RwLock::default(),
            learning: Mutex::new(()),
            bytes: AtomicI64::new(0),
            bytes_max,
            is_off: AtomicBool::new(false),
        }
    }

    /// Notes that a record has become live. The thread that changed the record calls this after readers see
    /// the record and before any other change of it. Costs a lookup in most cases, behind a shared lock; in
    /// a bucket with few live keys also a comparison with their names.
    pub(crate) fn note(&self, at: &RecordAt<'_>, place: DataLocation) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let known = self.known.read();
        let Some(listed) = known.by_bucket_prefix.get(front(at)) else {
            drop(known);
            return self.begin(at, place);
        };
        let number = listed.noted.fetch_add(1, Ordering::AcqRel);
        if number & IS_QUIET != 0 && number % NOTED_ONE_OF != 0 {
            return;
        }
        let more_bytes = listed.add(number & !IS_QUIET, at, place);
        drop(known);
        self.count(more_bytes);
    }

    /// Adds a bucket to the list, unless another call was faster.
    #[cold]
    fn begin(&self, at: &RecordAt<'_>, place: DataLocation) {
        let mut known = self.known.write();
        let bytes = known.begin(at, place, None);
        drop(known);
        self.count(bytes);
    }

    /// Adds to the estimated memory (negative: subtracts), and gives the list up if it is too large.
    fn count(&self, more_bytes: i64) {
        let bytes = self.bytes.fetch_add(more_bytes, Ordering::Relaxed) + more_bytes;
        if bytes > self.bytes_max && !self.is_off.swap(true, Ordering::SeqCst) {
            let given_up = std::mem::take(&mut *self.known.write());
            // Freeing the list takes long, so it happens after the lock is released.
            drop(given_up);
            tracing::warn!(
                bytes_max = self.bytes_max,
                "there are too many buckets for a list in memory: they are listed by their keys from now on"
            );
        }
    }

    /// Returns the next buckets of a bucket type that have a live key, at most `limit`.
    pub(crate) fn list(
        &self,
        keys: &dyn Keys,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        if bucket_type == PIECE_TYPE {
            // Pieces are not noted, so the list does not have them.
            return scanned(keys, bucket_type, after, limit);
        }
        let is_behind = |after: &BucketRef<'_>| after.bucket_type > bucket_type;
        if after.as_ref().is_some_and(is_behind) {
            return Ok(Vec::new());
        }
        let after = after.filter(|after| after.bucket_type == bucket_type);
        let mut after = after.map(|after| Bytes::copy_from_slice(after.bucket));
        let mut found = Vec::new();
        while found.len() < limit {
            let wanted = limit - found.len();
            let (next, learnt) = self.next(bucket_type, after.as_ref(), wanted);
            let is_last = next.len() < wanted;
            for listed in next {
                if self.is_live(keys, &listed)? {
                    found.push((listed.bucket_type.clone(), listed.bucket.clone()));
                }
                after = Some(listed.bucket.clone());
            }
            let is_beyond = after.as_ref().is_some_and(|after| !learnt.has(after));
            match learnt {
                _ if !is_last => {}
                KnownRange::All => break,
                // The known part must be contiguous from the first bucket on, so a listing that starts
                // beyond it cannot extend it. A list that was given up learns nothing.
                _ if is_beyond || self.is_off.load(Ordering::SeqCst) => {
                    let bucket = after.as_deref().map(|bucket| BucketRef { bucket_type, bucket });
                    let wanted = limit - found.len();
                    found.extend(scanned(keys, bucket_type, bucket, wanted)?);
                    break;
                }
                learnt => self.learn(keys, bucket_type, &learnt, limit)?,
            }
        }
        Ok(found)
    }

    /// The next buckets of the known part of the list, and the end of that part.
    fn next(
        &self,
        bucket_type: &[u8],
        after: Option<&Bytes>,
        limit: usize,
    ) -> (Vec<Arc<ListedBucket>>, KnownRange) {
        let known = self.known.read();
        let Some(of_type) = known.types.get(bucket_type) else {
            return (Vec::new(), KnownRange::Nothing);
        };
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(&after[..]));
        let learnt = &of_type.learnt;
        let buckets = of_type.buckets.range::<[u8], _>((from, Bound::Unbounded));
        let listed = buckets.take_while(|(bucket, _)| learnt.has(bucket)).take(limit);
        (listed.map(|(_, listed)| Arc::clone(listed)).collect(), learnt.clone())
    }

    /// Extends the known part of the list by the next buckets, which it finds by scanning keys.
    fn learn(
        &self,
        keys: &dyn Keys,
        bucket_type: &[u8],
        learnt: &KnownRange,
        limit: usize,
    ) -> Result<(), StoreError> {
        let _one_at_a_time = self.learning.lock();
        let has_not = |known: &KnownBuckets| {
            let now =
                known.types.get(bucket_type).map_or(&KnownRange::Nothing, |known| &known.learnt);
            now == learnt
        };
        if !has_not(&self.known.read()) {
            return Ok(());
        }
        let last = if let KnownRange::UpTo(last) = learnt { Some(&last[..]) } else { None };
        let after = last.map(|bucket| BucketRef { bucket_type, bucket });
        let found = keys.live_keys(KeyRange::BucketType(bucket_type), after, limit)?;
        let mut known = self.known.write();
        // The list may have been given up meanwhile.
        if self.is_off.load(Ordering::SeqCst) || !has_not(&known) {
            return Ok(());
        }
        let mut bytes = 0;
        for known_key in &found {
            bytes += known_key.at(|at| known.begin(at, known_key.place, Some(IS_QUIET)));
        }
        let name = Bytes::copy_from_slice(bucket_type);
        known.types.entry(name).or_default().learnt = match found.last() {
            Some(last) if found.len() >= limit => {
                KnownRange::UpTo(last.at(|at| Bytes::copy_from_slice(at.key.bucket.bucket)))
            }
            _ => KnownRange::All,
        };
        drop(known);
        self.count(bytes);
        Ok(())
    }

    /// True if a bucket has a live key. Otherwise removes the bucket from the list.
    fn is_live(&self, keys: &dyn Keys, listed: &ListedBucket) -> Result<bool, StoreError> {
        loop {
            if listed.has_live_key(keys, &self.bytes)? {
                return Ok(true);
            }
            if listed.is_empty() {
                let bytes = self.known.write().remove(listed);
                self.bytes.fetch_sub(bytes, Ordering::Relaxed);
                return Ok(false);
            }
            let more_bytes = listed.search(keys)?;
            self.count(more_bytes);
        }
    }
}

impl KnownBuckets {
    /// Adds the bucket of a record with the record as its first known key; if the bucket is in the list
    /// already, adds only the known key. Returns the added memory in bytes.
    ///
    /// `mark` is [`IS_QUIET`] for a bucket that was found by scanning keys: it may have other live keys.
    fn begin(&mut self, at: &RecordAt<'_>, place: DataLocation, mark: Option<u64>) -> i64 {
        let front = front(at);
        if let Some(listed) = self.by_bucket_prefix.get(front) {
            let number = listed.noted.fetch_add(1, Ordering::AcqRel);
            return listed.add(number & !IS_QUIET, at, place);
        }
        let BucketRef { bucket_type, bucket } = at.key.bucket;
        let (bucket_type, bucket) =
            (Bytes::copy_from_slice(bucket_type), Bytes::copy_from_slice(bucket));
        let known_key = KnownKey::of(at, place);
        let known_key_bytes = known_key.cost_bytes();
        let of_type = self.types.entry(bucket_type.clone()).or_default();
        // In the known part of the list, a bucket that is not listed had no live key.
        let are_all = mark.is_none() && of_type.learnt.has(&bucket);
        let listed = Arc::new(ListedBucket {
            bucket_type,
            bucket: bucket.clone(),
            noted: AtomicU64::new(if are_all { FIRST_NOTE } else { IS_QUIET | FIRST_NOTE }),
            known_keys: Mutex::new(KnownKeys {
                keys: vec![(NOT_NOTED, known_key)],
                are_all,
                have_overflown: false,
            }),
            searching: Mutex::new(()),
        });
        of_type.buckets.insert(bucket, Arc::clone(&listed));
        self.by_bucket_prefix.insert(front.into(), listed);
        bucket_bytes(front) + known_key_bytes
    }

    /// Removes a bucket if it is still empty. Returns the freed memory in bytes.
    fn remove(&mut self, listed: &ListedBucket) -> i64 {
        let bucket = BucketRef { bucket_type: &listed.bucket_type, bucket: &listed.bucket };
        let front = bucket.key(&[]).encoded();
        let is_this = |known: &Arc<ListedBucket>| std::ptr::eq(&raw const **known, listed);
        if !self.by_bucket_prefix.get(&front[..]).is_some_and(is_this) || !listed.is_empty() {
            return 0;
        }
        self.by_bucket_prefix.remove(&front[..]);
        if let Some(of_type) = self.types.get_mut(&listed.bucket_type) {
            of_type.buckets.remove(&listed.bucket);
        }
        bucket_bytes(&front)
    }
}

/// The prefix of a record's encoded name that names its bucket.
#[expect(clippy::indexing_slicing, reason = "an encoded name ends with its key")]
fn front<'a>(at: &RecordAt<'a>) -> &'a [u8] {
    &at.encoded[..at.encoded.len() - at.key.key.len()]
}

fn bucket_bytes(front: &[u8]) -> i64 {
    BUCKET_BYTES + 3 * quoit_number::saturating_i64(front.len() as u64)
}

/// Lists the buckets of a type by scanning keys.
fn scanned(
    keys: &dyn Keys,
    bucket_type: &[u8],
    after: Option<BucketRef<'_>>,
    limit: usize,
) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
    let found = keys.live_keys(KeyRange::BucketType(bucket_type), after, limit)?;
    let bucket = |at: &RecordAt<'_>| {
        let BucketRef { bucket_type, bucket } = at.key.bucket;
        (Bytes::copy_from_slice(bucket_type), Bytes::copy_from_slice(bucket))
    };
    Ok(found.iter().map(|known_key| known_key.at(bucket)).collect())
}

#[cfg(test)]
mod tests;
