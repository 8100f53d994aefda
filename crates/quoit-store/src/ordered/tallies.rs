//! Counts and digests of a partition, updated with every write and stored in its batch.
//!
//! A partition's hash space is split into tally buckets of equal size (no relation to buckets of keys).
//! Each has its counts, and the digests of its records that never expire. The digests of expiring records
//! are kept by hour, for the whole partition.

use super::backend::Space;
use super::keys::{hour_key, tally_key};
use crate::compare::{Leaf, compared_digest};
use crate::engine::RecordMeta;
use crate::index::{PartitionSummary, RecordContribution, TAG_BITS, Tag};
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_number::low_u16;
use smallvec::SmallVec;
use std::collections::BTreeMap;

/// Binary logarithm of the number of tally buckets of all partitions together. With a hundred million keys
/// on a node, each bucket has a few hundred. A partition has at most 2^[`BUCKET_BITS_MAX`] buckets.
const NODE_BUCKET_BITS: u32 = 18;

const BUCKET_BITS_MAX: u32 = 12;

const COUNT_BYTES: usize = 16;
const DIGEST_BYTES: usize = 9;

/// Counts and digests of the records of a tally bucket.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Bucket {
    pub(super) entry_count: u32,
    piece_count: u32,
    tombstone_count: u32,
    /// Number of records that expire and are not tombstones.
    pub(super) expiring_count: u32,
    /// Digests of the records that never expire, by class, without zeros.
    digests: SmallVec<[(u8, u64); 1]>,
}

impl Bucket {
    /// The digest of the records of a class that never expire.
    pub(super) fn lasting(&self, class: usize) -> u64 {
        let of_class = self.digests.iter().find(|(each, _)| usize::from(*each) == class);
        of_class.map_or(0, |(_, bits)| *bits)
    }

    fn count(&mut self, share: &RecordContribution, by: fn(u32, u32) -> u32) {
        self.entry_count = by(self.entry_count, 1);
        self.piece_count = by(self.piece_count, u32::from(share.piece));
        self.tombstone_count = by(self.tombstone_count, u32::from(share.tombstone));
        self.expiring_count = by(self.expiring_count, u32::from(share.hour.is_some()));
        if share.hour.is_none() && share.bits != 0 {
            self.toggle(share.class, share.bits);
        }
    }

    #[expect(clippy::indexing_slicing, reason = "the digest was found at this place")]
    fn toggle(&mut self, class: u8, bits: u64) {
        match self.digests.iter().position(|(each, _)| *each == class) {
            None => self.digests.push((class, bits)),
            Some(place) if self.digests[place].1 == bits => drop(self.digests.swap_remove(place)),
            Some(place) => self.digests[place].1 ^= bits,
        }
    }

    fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(COUNT_BYTES + DIGEST_BYTES * self.digests.len());
        for count in [self.entry_count, self.piece_count, self.tombstone_count, self.expiring_count]
        {
            out.extend_from_slice(&count.to_be_bytes());
        }
        for (class, bits) in &self.digests {
            out.push(*class);
            out.extend_from_slice(&bits.to_be_bytes());
        }
        Bytes::from(out)
    }

    /// `None` if the bytes are not an encoded bucket.
    fn read(bytes: &[u8]) -> Option<Self> {
        let (counts, digests) = bytes.split_first_chunk::<COUNT_BYTES>()?;
        let (digests, []) = digests.as_chunks::<DIGEST_BYTES>() else { return None };
        let (counts, _) = counts.as_chunks::<4>();
        let [entries, pieces, tombstones, expiring] = counts else { return None };
        let digest = |[class, bits @ ..]: &[u8; DIGEST_BYTES]| (*class, u64::from_be_bytes(*bits));
        Some(Self {
            entry_count: u32::from_be_bytes(*entries),
            piece_count: u32::from_be_bytes(*pieces),
            tombstone_count: u32::from_be_bytes(*tombstones),
            expiring_count: u32::from_be_bytes(*expiring),
            digests: digests.iter().map(digest).collect(),
        })
    }
}

/// A change of a record: it is added, removed or replaced.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordChange {
    pub(super) identity: Identity,
    pub(super) before: Option<RecordMeta>,
    pub(super) after: Option<RecordMeta>,
}

/// Writes to the ordered store.
pub(super) type SpaceWrites = Vec<(Space, Bytes, Option<Bytes>)>;

/// The counts and digests of a partition.
#[derive(Debug)]
pub(super) struct Tallies {
    partition: Partition,
    bucket_bits: u32,
    summary: PartitionSummary,
    buckets: BTreeMap<u16, Bucket>,
}

impl Tallies {
    pub(super) fn new(partition: Partition, ring_size: RingSize) -> Self {
        let bucket_bits = NODE_BUCKET_BITS - u32::from(ring_size.get()).ilog2();
        let bucket_bits = bucket_bits.min(BUCKET_BITS_MAX);
        Self {
            partition,
            bucket_bits,
            summary: PartitionSummary::default(),
            buckets: BTreeMap::new(),
        }
    }

    pub(super) fn summary(&self) -> &PartitionSummary {
        &self.summary
    }

    /// The first and the last tag of each bucket, and the bucket, in order.
    pub(super) fn buckets(&self) -> impl Iterator<Item = (Tag, Tag, &Bucket)> {
        let width_bits = TAG_BITS - self.bucket_bits;
        self.buckets.iter().map(move |(number, bucket)| {
            let first = u64::from(*number) << width_bits;
            let last = first | ((1 << width_bits) - 1);
            (Tag::from_number(first), Tag::from_number(last), bucket)
        })
    }

    /// The first tag after the bucket of `tag`; `None` after the last bucket.
    pub(super) fn bucket_end(&self, tag: Tag) -> Option<Tag> {
        let width_bits = TAG_BITS - self.bucket_bits;
        Tag::from_number(tag.number() | ((1 << width_bits) - 1)).next()
    }

    /// Restores a stored bucket. Returns false if it cannot be decoded.
    pub(super) fn restore_bucket(&mut self, number: u16, bytes: &[u8]) -> bool {
        let Some(bucket) = Bucket::read(bytes) else { return false };
        let counts = [bucket.entry_count, bucket.piece_count, bucket.tombstone_count];
        self.summary.restore(counts.map(u64::from), &bucket.digests);
        self.buckets.insert(number, bucket);
        true
    }

    /// Restores a stored digest of an hour. Returns false if it cannot be decoded.
    pub(super) fn restore_hour(&mut self, hour: u32, class: u8, bytes: &[u8]) -> bool {
        let Ok(bits) = bytes.try_into().map(u64::from_be_bytes) else { return false };
        self.summary.restore_hour((hour, class), bits);
        true
    }

    /// Counts a record, without storing the count.
    pub(super) fn add(&mut self, identity: Identity, meta: &RecordMeta) {
        let share = share_of(identity, meta);
        let number = self.bucket_number(identity);
        self.buckets.entry(number).or_default().count(&share, u32::saturating_add);
        self.summary.add(&share);
    }

    /// Replaces other tallies of the partition, and adds what has to be stored to `writes`. `are_known` is
    /// true if the former tallies have all that is stored.
    pub(super) fn replace(self, former: &mut Self, are_known: bool, writes: &mut SpaceWrites) {
        former.clear(writes);
        let unknown = (0..1 << self.bucket_bits).filter(|_| !are_known);
        writes.extend(unknown.map(|number| (Space::Side, tally_key(self.partition, number), None)));
        for (number, bucket) in &self.buckets {
            writes.push((Space::Side, tally_key(self.partition, *number), Some(bucket.encode())));
        }
        for ((hour, class), bits) in self.summary.hours() {
            let stored = Bytes::copy_from_slice(&bits.to_be_bytes());
            writes.push((Space::Side, hour_key(self.partition, hour, class), Some(stored)));
        }
        *former = self;
    }

    fn bucket_number(&self, identity: Identity) -> u16 {
        let number = low_u16(Tag::of(identity).number() >> (TAG_BITS - self.bucket_bits));
        debug_assert!(number < 1 << self.bucket_bits, "a tag is in one of the partition's buckets");
        number
    }

    /// Counts a change, and adds what has to be stored with it to `writes`.
    pub(super) fn count(&mut self, change: &RecordChange, writes: &mut SpaceWrites) {
        let number = self.bucket_number(change.identity);
        let bucket = self.buckets.entry(number).or_default();
        let mut hours: SmallVec<[(u32, u8); 2]> = SmallVec::new();
        if let Some(share) = change.before.map(|meta| share_of(change.identity, &meta)) {
            // After damage a bucket may have lower counts than it should.
            bucket.count(&share, u32::saturating_sub);
            self.summary.subtract(&share);
            hours.extend(share.hour.map(|hour| (hour, share.class)));
        }
        if let Some(share) = change.after.map(|meta| share_of(change.identity, &meta)) {
            bucket.count(&share, u32::saturating_add);
            self.summary.add(&share);
            hours.extend(share.hour.map(|hour| (hour, share.class)));
        }
        let is_empty = *bucket == Bucket::default();
        let stored = (!is_empty).then(|| bucket.encode());
        writes.push((Space::Side, tally_key(self.partition, number), stored));
        if is_empty {
            self.buckets.remove(&number);
        }
        for (hour, class) in hours {
            let bits = self.summary.of_hour((hour, class));
            let stored = bits.map(|bits| Bytes::copy_from_slice(&bits.to_be_bytes()));
            writes.push((Space::Side, hour_key(self.partition, hour, class), stored));
        }
    }

    /// Clears all counts, and adds what has to be removed to `writes`.
    pub(super) fn clear(&mut self, writes: &mut SpaceWrites) {
        for number in std::mem::take(&mut self.buckets).into_keys() {
            writes.push((Space::Side, tally_key(self.partition, number), None));
        }
        for (hour, class) in std::mem::take(&mut self.summary).into_hours() {
            writes.push((Space::Side, hour_key(self.partition, hour, class), None));
        }
    }
}

pub(super) fn leaf_of(identity: Identity, meta: &RecordMeta) -> Leaf {
    Leaf { tag: Tag::of(identity), digest: compared_digest(meta), tombstone: meta.tombstone }
}

fn share_of(identity: Identity, meta: &RecordMeta) -> RecordContribution {
    RecordContribution::new(meta.n_val_class, &leaf_of(identity, meta), meta.expires_at_secs != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn meta() -> impl Strategy<Value = RecordMeta> {
        let hour = prop_oneof![3 => Just(0), 1 => 1..3u32];
        (any::<u64>(), prop::bool::weighted(0.2), 0..4u8, hour).prop_map(
            |(digest, tombstone, n_val_class, hour)| RecordMeta {
                digest,
                tombstone,
                n_val_class,
                expires_at_secs: hour * 3_600,
                indexed: false,
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_stored_gives_the_same_tallies_again(
            changes in prop::collection::vec((0..6u64, prop::option::of(meta())), 0..60),
        ) {
            let new = || Tallies::new(Partition(3), RingSize::DEFAULT);
            let (mut tallies, mut stored) = (new(), BTreeMap::new());
            let mut records: BTreeMap<u64, RecordMeta> = BTreeMap::new();
            for (key, after) in changes {
                let before = records.get(&key).copied();
                let mut writes = SpaceWrites::new();
                let change = RecordChange { identity: Identity(key << 51), before, after };
                tallies.count(&change, &mut writes);
                for (_, key, value) in writes {
                    match value {
                        Some(value) => stored.insert(key, value),
                        None => stored.remove(&key),
                    };
                }
                match after {
                    Some(meta) => records.insert(key, meta),
                    None => records.remove(&key),
                };
            }
            let mut again = new();
            for (key, value) in &stored {
                let is_read = match super::super::keys::SideKey::read(key).unwrap() {
                    super::super::keys::SideKey::Tally { bucket, .. } => again.restore_bucket(bucket, value),
                    super::super::keys::SideKey::Hour { hour, class, .. } => {
                        again.restore_hour(hour, class, value)
                    }
                    other => panic!("{other:?}"),
                };
                prop_assert!(is_read);
            }
            prop_assert_eq!(&again.summary, &tallies.summary);
            prop_assert_eq!(again.summary.entry_count, records.len() as u64);
            let mut writes = SpaceWrites::new();
            tallies.clear(&mut writes);
            prop_assert_eq!(writes.len(), stored.len());
        }
    }

    #[test]
    fn counts_that_are_too_low_after_damage_stop_at_zero() {
        let mut tallies = Tallies::new(Partition(3), RingSize::DEFAULT);
        tallies.add(Identity(1), &RecordMeta::PIECE);
        let tombstone = RecordMeta { tombstone: true, ..RecordMeta::default() };
        for meta in [tombstone, tombstone, RecordMeta::PIECE] {
            let change = RecordChange { identity: Identity(1), before: Some(meta), after: None };
            tallies.count(&change, &mut SpaceWrites::new());
            let summary = tallies.summary();
            assert_eq!((summary.key_count(), summary.tombstone_count), (0, 0), "{meta:?}");
        }
        assert_eq!(tallies.summary().entry_count, 0);
    }
}
