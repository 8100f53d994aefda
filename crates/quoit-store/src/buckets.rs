//! The buckets that hold live keys, so that listing them goes through no keys. A key is live if its record is
//! there and has not expired; a tombstone is one until it is reaped.
//!
//! The list has, for each bucket, a few keys that were live when they were last heard of: *witnesses*. A
//! bucket is listed if one of them is live still, which is one look at the index. Keys are gone through only
//!
//! - the first time that buckets are listed after the store was opened, from bucket to bucket, as far as the
//!   listing goes, and
//! - when all witnesses of a bucket are gone, until its first live key.
//!
//! A write is noted when it makes a key live that was not. Of a bucket that had no other live key, all keys
//! that became live since are witnesses, as long as they are few: a bucket of many expired keys that is
//! filled and emptied again and again is never gone through a second time.
//!
//! Nothing is stored, and nothing is believed: whatever happened to a record since it was noted (another
//! write, its expiry, the drop of its partition, a merge), the engine is asked before its bucket is listed.

mod listed;

use crate::engine::{DataPlace, KeyRange, RecordAt};
use crate::error::StoreError;
use bytes::Bytes;
use foldhash::fast::RandomState;
use listed::{FIRST_NOTE, IS_QUIET, ListedBucket, NOT_NOTED, Witnesses};
use parking_lot::{Mutex, RwLock};
use quoit_model::key::{BucketRef, PIECE_TYPE};
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};

pub(crate) use listed::Witness;

/// Memory that the list may take, by estimate: about a hundred thousand buckets. There is no setting for it:
/// a store that has more buckets lists them by their keys, as slowly as without a list, and loses nothing
/// else.
const LIST_BYTES_MAX: i64 = 64 << 20;

/// Estimated memory of a bucket, beside three times its name.
const BUCKET_BYTES: i64 = 480;

/// Where others are live too, one of so many keys that become live is a witness: so there are always some
/// that are younger than most keys.
const NOTED_ONE_OF: u64 = 1_024;

/// The keys of an engine, as the list asks for them.
pub(crate) trait Keys {
    /// Where a record is now if it is live: there, and not expired.
    fn live_place(&self, witness: &Witness) -> Result<Option<DataPlace>, StoreError>;

    /// A live key of each of the next `limit` buckets of a range that have one, in the order of buckets. They
    /// come after `after`. A bucket that has a key which is live throughout is found.
    fn live_keys(
        &self,
        range: KeyRange<'_>,
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<Witness>, StoreError>;
}

/// The list. See the module.
pub(crate) struct BucketList {
    known: RwLock<KnownBuckets>,
    /// Held while buckets are learnt from keys.
    learning: Mutex<()>,
    /// Estimated memory of the list. Negative for a moment where a removal comes before its
    /// addition was counted.
    bytes: AtomicI64,
    bytes_max: i64,
    /// Whether it has become too large, and is no list any more.
    is_off: AtomicBool,
}

#[derive(Default)]
struct KnownBuckets {
    /// By the part of an encoded name that says the bucket.
    by_front: HashMap<Box<[u8]>, Arc<ListedBucket>, RandomState>,
    types: BTreeMap<Bytes, TypeBuckets>,
}

/// The buckets of one bucket type.
#[derive(Default)]
struct TypeBuckets {
    buckets: BTreeMap<Bytes, Arc<ListedBucket>>,
    learnt: Learnt,
}

/// How far the buckets are known that were there before anything was noted.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
enum Learnt {
    #[default]
    Nothing,
    UpTo(Bytes),
    All,
}

impl Learnt {
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

    /// Notes that a record is live that was not. By who changed it, after readers see it and before any other
    /// change of it. Costs a lookup in most cases, behind a lock that is held shared; of a bucket with few
    /// live keys, a look at their names as well.
    pub(crate) fn note(&self, at: &RecordAt<'_>, place: DataPlace) {
        if self.is_off.load(Ordering::Relaxed) {
            return;
        }
        let known = self.known.read();
        let Some(listed) = known.by_front.get(front(at)) else {
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

    /// Begins with a bucket that is not in the list, unless another call was faster.
    #[cold]
    fn begin(&self, at: &RecordAt<'_>, place: DataPlace) {
        let mut known = self.known.write();
        let bytes = known.begin(at, place, None);
        drop(known);
        self.count(bytes);
    }

    /// Counts bytes that were added to the list or taken from it, and gives it up if they are too many.
    fn count(&self, more_bytes: i64) {
        let bytes = self.bytes.fetch_add(more_bytes, Ordering::Relaxed) + more_bytes;
        if bytes > self.bytes_max && !self.is_off.swap(true, Ordering::SeqCst) {
            let given_up = std::mem::take(&mut *self.known.write());
            // There is much to be freed: not while writers wait.
            drop(given_up);
            tracing::warn!(
                bytes_max = self.bytes_max,
                "there are too many buckets for a list in memory: they are listed by their keys from now on"
            );
        }
    }

    /// The next `limit` or fewer buckets of a bucket type that have a live key.
    pub(crate) fn list(
        &self,
        keys: &dyn Keys,
        bucket_type: &[u8],
        after: Option<BucketRef<'_>>,
        limit: usize,
    ) -> Result<Vec<(Bytes, Bytes)>, StoreError> {
        if bucket_type == PIECE_TYPE {
            // Pieces are not noted: the list is one of buckets, and so are listings that clients ask for.
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
                Learnt::All => break,
                // Nothing is learnt from the middle, and an empty list does not learn.
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

    /// Buckets of the list that come next, as far as it is known; and how far it is.
    fn next(
        &self,
        bucket_type: &[u8],
        after: Option<&Bytes>,
        limit: usize,
    ) -> (Vec<Arc<ListedBucket>>, Learnt) {
        let known = self.known.read();
        let Some(of_type) = known.types.get(bucket_type) else {
            return (Vec::new(), Learnt::Nothing);
        };
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(&after[..]));
        let learnt = &of_type.learnt;
        let buckets = of_type.buckets.range::<[u8], _>((from, Bound::Unbounded));
        let listed = buckets.take_while(|(bucket, _)| learnt.has(bucket)).take(limit);
        (listed.map(|(_, listed)| Arc::clone(listed)).collect(), learnt.clone())
    }

    /// Learns which buckets are behind those that are known, from their keys.
    fn learn(
        &self,
        keys: &dyn Keys,
        bucket_type: &[u8],
        learnt: &Learnt,
        limit: usize,
    ) -> Result<(), StoreError> {
        let _one_at_a_time = self.learning.lock();
        let has_not = |known: &KnownBuckets| {
            let now = known.types.get(bucket_type).map_or(&Learnt::Nothing, |known| &known.learnt);
            now == learnt
        };
        if !has_not(&self.known.read()) {
            return Ok(());
        }
        let last = if let Learnt::UpTo(last) = learnt { Some(&last[..]) } else { None };
        let after = last.map(|bucket| BucketRef { bucket_type, bucket });
        let found = keys.live_keys(KeyRange::BucketType(bucket_type), after, limit)?;
        let mut known = self.known.write();
        // It may have been given up.
        if self.is_off.load(Ordering::SeqCst) || !has_not(&known) {
            return Ok(());
        }
        let mut bytes = 0;
        for witness in &found {
            bytes += witness.at(|at| known.begin(at, witness.place, Some(IS_QUIET)));
        }
        let name = Bytes::copy_from_slice(bucket_type);
        known.types.entry(name).or_default().learnt = match found.last() {
            Some(last) if found.len() >= limit => {
                Learnt::UpTo(last.at(|at| Bytes::copy_from_slice(at.key.bucket.bucket)))
            }
            _ => Learnt::All,
        };
        drop(known);
        self.count(bytes);
        Ok(())
    }

    /// Whether a bucket has a live key. It leaves the list if it has none.
    fn is_live(&self, keys: &dyn Keys, listed: &ListedBucket) -> Result<bool, StoreError> {
        loop {
            if listed.has_live_witness(keys, &self.bytes)? {
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
    /// Adds the bucket of a record with that as its first witness; if it is there already, the witness. Says
    /// what that costs.
    ///
    /// `mark` is that of a bucket that was found by a key: other keys of it may be live.
    fn begin(&mut self, at: &RecordAt<'_>, place: DataPlace, mark: Option<u64>) -> i64 {
        let front = front(at);
        if let Some(listed) = self.by_front.get(front) {
            let number = listed.noted.fetch_add(1, Ordering::AcqRel);
            return listed.add(number & !IS_QUIET, at, place);
        }
        let BucketRef { bucket_type, bucket } = at.key.bucket;
        let (bucket_type, bucket) =
            (Bytes::copy_from_slice(bucket_type), Bytes::copy_from_slice(bucket));
        let witness = Witness::of(at, place);
        let witness_bytes = witness.cost_bytes();
        let of_type = self.types.entry(bucket_type.clone()).or_default();
        // Where buckets are known this one is new, or was empty.
        let are_all = mark.is_none() && of_type.learnt.has(&bucket);
        let listed = Arc::new(ListedBucket {
            bucket_type,
            bucket: bucket.clone(),
            noted: AtomicU64::new(if are_all { FIRST_NOTE } else { IS_QUIET | FIRST_NOTE }),
            witnesses: Mutex::new(Witnesses {
                keys: vec![(NOT_NOTED, witness)],
                are_all,
                have_overflown: false,
            }),
            searching: Mutex::new(()),
        });
        of_type.buckets.insert(bucket, Arc::clone(&listed));
        self.by_front.insert(front.into(), listed);
        bucket_bytes(front) + witness_bytes
    }

    /// Takes out a bucket if it is empty still. Says what that gives back.
    fn remove(&mut self, listed: &ListedBucket) -> i64 {
        let bucket = BucketRef { bucket_type: &listed.bucket_type, bucket: &listed.bucket };
        let front = bucket.key(&[]).encoded();
        let is_this = |known: &Arc<ListedBucket>| std::ptr::eq(&raw const **known, listed);
        if !self.by_front.get(&front[..]).is_some_and(is_this) || !listed.is_empty() {
            return 0;
        }
        self.by_front.remove(&front[..]);
        if let Some(of_type) = self.types.get_mut(&listed.bucket_type) {
            of_type.buckets.remove(&listed.bucket);
        }
        bucket_bytes(&front)
    }
}

/// The part of a record's encoded name that says its bucket.
fn front<'a>(at: &RecordAt<'a>) -> &'a [u8] {
    &at.encoded[..at.encoded.len() - at.key.key.len()]
}

fn bucket_bytes(front: &[u8]) -> i64 {
    BUCKET_BYTES + 3 * front.len() as i64
}

/// Buckets of a type by their keys.
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
    Ok(found.iter().map(|witness| witness.at(bucket)).collect())
}

#[cfg(test)]
mod tests;
