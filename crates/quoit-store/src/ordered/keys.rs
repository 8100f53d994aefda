//! Keys of the ordered store.
//!
//! ```text
//! records, bodies   partition 2, epoch 4, identity 8, encoded name
//! names             bucket type, bucket, key, each escaped and terminated; partition 2, epoch 4
//! indexes           encoded entry; partition 2, epoch 4
//! side   't'        partition 2, tally bucket 2                      counts and digests of the tally bucket
//!        'h'        partition 2, hour 4, n_val class 1               digest of the records that expire then
//!        'e'        second of expiry 4, key of the record            nothing
//!        'p'        partition 2                                      its epoch
//!        'd'        partition 2, epoch 4                             nothing: that epoch was dropped
//!        'u'        key of a damaged record                          nothing: its index entries may be lost
//!        'm'                                                         number of openings and closings
//!        'g'                                                         mark of the last batch (`journal`)
//! ```
//!
//! Numbers are big-endian, so that the order of the bytes is the order of the numbers; a number after a
//! field is its size in bytes. In a name, a zero byte is followed by 255, and a part ends with two zero
//! bytes, which keeps the order of names.
//!
//! Dropping a partition increments its epoch. Entries of former epochs are ignored until they are removed.

use bytes::Bytes;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::ordered_bytes::{push_front, read_part};

const RECORD_PREFIX_BYTES: usize = 14;
const NAME_SUFFIX_BYTES: usize = 6;

const TALLY: u8 = b't';
const HOUR: u8 = b'h';
const EXPIRY: u8 = b'e';
const EPOCH: u8 = b'p';
const DROPPED: u8 = b'd';
const MARK: u8 = b'm';
const GROUP: u8 = b'g';
const UNREAD: u8 = b'u';

/// Key of the mark of the last batch that was applied to a log-structured merge store.
pub(super) const GROUP_KEY: &[u8; 1] = &[GROUP];

/// Number of times that a partition was dropped.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Epoch(pub(super) u32);

/// Lower bound of the keys of a partition's records that have at least this identity.
pub(super) fn records_from(partition: Partition, epoch: Epoch, identity: Identity) -> Vec<u8> {
    let mut key = Vec::with_capacity(RECORD_PREFIX_BYTES);
    key.extend_from_slice(&partition.0.to_be_bytes());
    key.extend_from_slice(&epoch.0.to_be_bytes());
    key.extend_from_slice(&identity.0.to_be_bytes());
    key
}

/// The first key after all records of a partition's epoch.
pub(super) fn records_end(partition: Partition, epoch: Epoch) -> Vec<u8> {
    let place = (u64::from(partition.0) << 32 | u64::from(epoch.0)) + 1;
    place.to_be_bytes()[2..].to_vec()
}

pub(super) fn record_key(
    partition: Partition,
    epoch: Epoch,
    identity: Identity,
    encoded: &[u8],
) -> Bytes {
    let parts = [&partition.0.to_be_bytes()[..], &epoch.0.to_be_bytes(), &identity.0.to_be_bytes()];
    Bytes::from([parts[0], parts[1], parts[2], encoded].concat())
}

/// The parts of a record's key.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordKey<'k> {
    pub(super) partition: Partition,
    pub(super) epoch: Epoch,
    pub(super) identity: Identity,
    pub(super) encoded: &'k [u8],
}

impl<'k> RecordKey<'k> {
    /// `None` if the bytes are not the key of a record.
    pub(super) fn read(key: &'k [u8]) -> Option<Self> {
        let (partition, rest) = key.split_first_chunk()?;
        let (epoch, rest) = rest.split_first_chunk()?;
        let (identity, encoded) = rest.split_first_chunk()?;
        Some(Self {
            partition: Partition(u16::from_be_bytes(*partition)),
            epoch: Epoch(u32::from_be_bytes(*epoch)),
            identity: Identity(u64::from_be_bytes(*identity)),
            encoded,
        })
    }
}

fn push_bucket(out: &mut Vec<u8>, bucket: BucketRef<'_>) {
    push_front(out, bucket.bucket_type);
    out.extend_from_slice(&[0, 0]);
    push_front(out, bucket.bucket);
}

/// The key of a name.
pub(super) fn name_key(key: KeyRef<'_>, partition: Partition, epoch: Epoch) -> Bytes {
    let mut out = names_from(key);
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&partition.0.to_be_bytes());
    out.extend_from_slice(&epoch.0.to_be_bytes());
    Bytes::from(out)
}

/// The key of an index entry.
pub(super) fn index_key(place: &[u8], partition: Partition, epoch: Epoch) -> Bytes {
    Bytes::from([place, &partition.0.to_be_bytes(), &epoch.0.to_be_bytes()].concat())
}

/// The parts of the key of an index entry.
#[derive(Clone, Copy, Debug)]
pub(super) struct IndexKey<'k> {
    pub(super) place: &'k [u8],
    pub(super) partition: Partition,
    pub(super) epoch: Epoch,
}

impl<'k> IndexKey<'k> {
    /// `None` if the bytes are not the key of an index entry.
    pub(super) fn read(key: &'k [u8]) -> Option<Self> {
        let (rest, epoch) = key.split_last_chunk()?;
        let (place, partition) = rest.split_last_chunk()?;
        let partition = Partition(u16::from_be_bytes(*partition));
        Some(Self { place, partition, epoch: Epoch(u32::from_be_bytes(*epoch)) })
    }
}

/// Lower bound of the keys of this name and all names above it.
pub(super) fn names_from(key: KeyRef<'_>) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.encoded_len() + NAME_SUFFIX_BYTES + 6);
    push_bucket(&mut out, key.bucket);
    out.extend_from_slice(&[0, 0]);
    push_front(&mut out, key.key);
    out
}

/// Lower bound of the keys of all names above this one.
pub(super) fn names_after(key: KeyRef<'_>) -> Vec<u8> {
    let mut out = names_from(key);
    out.extend_from_slice(&[0, 1]);
    out
}

/// Lower bound of the keys of all names in buckets above this one.
pub(super) fn names_after_bucket(bucket: BucketRef<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    push_bucket(&mut out, bucket);
    out.extend_from_slice(&[0, 1]);
    out
}

/// The parts of the key of a name.
pub(super) struct NameKey {
    bucket_type: Vec<u8>,
    bucket: Vec<u8>,
    key: Vec<u8>,
    pub(super) partition: Partition,
    pub(super) epoch: Epoch,
}

impl NameKey {
    /// `None` if the bytes are not the key of a name.
    pub(super) fn read(key: &[u8]) -> Option<Self> {
        let (parts, suffix) = key.split_last_chunk::<NAME_SUFFIX_BYTES>()?;
        let (bucket_type, rest) = read_part(parts)?;
        let (bucket, rest) = read_part(rest)?;
        let (key, rest) = read_part(rest)?;
        let (partition, epoch) = suffix.split_first_chunk()?;
        rest.is_empty().then_some(Self {
            bucket_type,
            bucket,
            key,
            partition: Partition(u16::from_be_bytes(*partition)),
            epoch: Epoch(u32::from_be_bytes(epoch.try_into().ok()?)),
        })
    }

    pub(super) fn key(&self) -> KeyRef<'_> {
        BucketRef { bucket_type: &self.bucket_type, bucket: &self.bucket }.key(&self.key)
    }
}

fn side_key(kind: u8, parts: &[&[u8]]) -> Bytes {
    Bytes::from([&[kind][..], &parts.concat()].concat())
}

pub(super) fn tally_key(partition: Partition, bucket: u16) -> Bytes {
    side_key(TALLY, &[&partition.0.to_be_bytes(), &bucket.to_be_bytes()])
}

pub(super) fn hour_key(partition: Partition, hour: u32, class: u8) -> Bytes {
    side_key(HOUR, &[&partition.0.to_be_bytes(), &hour.to_be_bytes(), &[class]])
}

pub(super) fn expiry_key(expires_at_secs: u32, record_key: &[u8]) -> Bytes {
    side_key(EXPIRY, &[&expires_at_secs.to_be_bytes(), record_key])
}

/// The bounds (from, to) of the expiries up to a second. The second must not be `u32::MAX`.
pub(super) fn expiries_until(now_secs: u32) -> (Bytes, Bytes) {
    (side_key(EXPIRY, &[]), side_key(EXPIRY, &[&now_secs.saturating_add(1).to_be_bytes()]))
}

pub(super) fn epoch_key(partition: Partition) -> Bytes {
    side_key(EPOCH, &[&partition.0.to_be_bytes()])
}

pub(super) fn dropped_key(partition: Partition, epoch: Epoch) -> Bytes {
    side_key(DROPPED, &[&partition.0.to_be_bytes(), &epoch.0.to_be_bytes()])
}

/// The bounds (from, to) of the marks of dropped epochs.
pub(super) fn all_dropped() -> (Bytes, Bytes) {
    (side_key(DROPPED, &[]), side_key(DROPPED + 1, &[]))
}

/// Key of the mark of a damaged record whose index entries may be lost too.
pub(super) fn unread_key(record_key: &[u8]) -> Bytes {
    side_key(UNREAD, &[record_key])
}

/// The bounds (from, to) of these marks.
pub(super) fn all_unread() -> (Bytes, Bytes) {
    (side_key(UNREAD, &[]), side_key(UNREAD + 1, &[]))
}

/// The bounds (from, to) of these marks for the records of a partition's epoch.
pub(super) fn unread_of(partition: Partition, epoch: Epoch) -> (Bytes, Bytes) {
    let from = records_from(partition, epoch, Identity(0));
    (unread_key(&from), unread_key(&records_end(partition, epoch)))
}

/// Key of the number of times that the store was opened or closed.
pub(super) fn mark_key() -> Bytes {
    side_key(MARK, &[])
}

/// The parts of a key of the side space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum SideKey<'k> {
    Tally { partition: Partition, bucket: u16 },
    Hour { partition: Partition, hour: u32, class: u8 },
    Expiry { expires_at_secs: u32, record_key: &'k [u8] },
    Epoch { partition: Partition },
    Dropped { partition: Partition, epoch: Epoch },
    Unread { record_key: &'k [u8] },
    Mark,
    Group,
}

impl<'k> SideKey<'k> {
    /// `None` if the bytes are not a key of the side space.
    pub(super) fn read(key: &'k [u8]) -> Option<Self> {
        let (kind, rest) = key.split_first()?;
        if *kind == EXPIRY {
            let (expires_at_secs, record_key) = rest.split_first_chunk()?;
            let expires_at_secs = u32::from_be_bytes(*expires_at_secs);
            return Some(Self::Expiry { expires_at_secs, record_key });
        }
        if *kind == UNREAD {
            return Some(Self::Unread { record_key: rest });
        }
        if let (MARK | GROUP, []) = (*kind, rest) {
            return Some(if *kind == MARK { Self::Mark } else { Self::Group });
        }
        let (partition, rest) = rest.split_first_chunk()?;
        let partition = Partition(u16::from_be_bytes(*partition));
        match (*kind, rest) {
            (TALLY, [high, low]) => {
                Some(Self::Tally { partition, bucket: u16::from_be_bytes([*high, *low]) })
            }
            (HOUR, [hour @ .., class]) => {
                let hour = u32::from_be_bytes(hour.try_into().ok()?);
                Some(Self::Hour { partition, hour, class: *class })
            }
            (EPOCH, []) => Some(Self::Epoch { partition }),
            (DROPPED, epoch) => {
                let epoch = Epoch(u32::from_be_bytes(epoch.try_into().ok()?));
                Some(Self::Dropped { partition, epoch })
            }
            _ => None,
        }
    }

    /// The bounds (from, to) of a partition's tallies, and those of its hours.
    pub(super) fn sums_of(partition: Partition) -> [(Bytes, Option<Bytes>); 2] {
        let (own, next) = (partition.0.to_be_bytes(), (partition.0 + 1).to_be_bytes());
        [TALLY, HOUR].map(|kind| (side_key(kind, &[&own]), Some(side_key(kind, &[&next]))))
    }

    /// The bounds (from, to) of all keys of the side space before and after the expiries, which may be
    /// many.
    pub(super) fn all_but_expiries() -> [(Bytes, Option<Bytes>); 2] {
        let before = (Bytes::new(), Some(side_key(EXPIRY, &[])));
        [before, (side_key(EXPIRY + 1, &[]), None)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn part() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(0), Just(1), Just(255), any::<u8>()], 1..5)
    }

    type Name = (Vec<u8>, Vec<u8>, Vec<u8>);

    fn key_of(name: &Name) -> KeyRef<'_> {
        BucketRef { bucket_type: &name.0, bucket: &name.1 }.key(&name.2)
    }

    proptest! {
        #[test]
        fn names_keep_their_order(one in (part(), part(), part()), other in (part(), part(), part())) {
            let (partition, epoch) = (Partition(7), Epoch(u32::MAX));
            let [first, second] = [&one, &other].map(|name| name_key(key_of(name), partition, epoch));
            prop_assert_eq!(first.cmp(&second), key_of(&one).cmp(&key_of(&other)));
            prop_assert_eq!(first[..] < names_after(key_of(&other))[..], one <= other);
            let continues = one.0 == other.0 && one.1 == other.1 && one.2.starts_with(&other.2);
            let from = names_from(key_of(&other));
            prop_assert_eq!(first[..] >= from[..], one >= other || continues);
            let is_behind = (&one.0, &one.1) > (&other.0, &other.1);
            prop_assert_eq!(first[..] >= names_after_bucket(key_of(&other).bucket)[..], is_behind);
            let read = NameKey::read(&first).unwrap();
            prop_assert_eq!(read.key(), key_of(&one));
            prop_assert_eq!((read.partition, read.epoch), (partition, epoch));
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = (NameKey::read(&bytes).is_some(), RecordKey::read(&bytes).is_some());
            let _ = IndexKey::read(&bytes);
            let _ = SideKey::read(&bytes);
        }

        #[test]
        fn the_end_of_an_epoch_is_behind_its_records(partition: u16, epoch: u32, identity: u64) {
            let (partition, epoch) = (Partition(partition), Epoch(epoch));
            let key = record_key(partition, epoch, Identity(identity), &[255; 9]);
            let end = records_end(partition, epoch);
            prop_assert!(key[..] < end[..] || end.iter().all(|byte| *byte == 0));
            let read = RecordKey::read(&key).unwrap();
            prop_assert_eq!((read.partition, read.epoch), (partition, epoch));
            prop_assert_eq!(read.identity, Identity(identity));
        }
    }
}
