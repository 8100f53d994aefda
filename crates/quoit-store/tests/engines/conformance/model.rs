//! The naive model, and its comparison with an engine.

use super::program::{Content, Part, RecordIndex, Step};
use super::{Identities, START_SECS, Subject, ring_size};
use bytes::Bytes;
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementRule};
use quoit_model::key::{BucketRef, KeyRef, PIECE_TYPE};
use quoit_seam::Clock;
use quoit_store::engine::{
    Applied, BatchWrite, BeforeImage, Decision, Engine, FRONT_BYTES, Fetch, InPlaceRead,
    Interrupted, IoMode, KeyRange, Record, RecordAt, RecordMeta, RecordPlace, RecordRef, Ticket,
    TransactionFn,
};
use std::collections::BTreeMap;
use std::task::{Poll, Waker};

/// Types and buckets of all programs, with names that are prefixes of others and bytes at both ends of the
/// range.
pub const BUCKETS: [(&[u8], &[u8]); 7] = [
    (b"default", b"a"),
    (b"default", b"a\0"),
    (b"default", b"ab"),
    (b"maps", b"\xff"),
    (b"maps", b"\xff\xff"),
    (b"z", b"a"),
    (PIECE_TYPE, RECORD_OF_PIECES),
];

/// The encoded name of a record with pieces.
const RECORD_OF_PIECES: &[u8] = b"\0\x07\0\x01defaulta0";

/// Bucket type, bucket and key, in the order of listings.
type Name = (Vec<u8>, Vec<u8>, Vec<u8>);

/// A map of the stored records. Applies each step to itself and to the engine, and compares the results.
pub struct Model {
    identities: Identities,
    records: BTreeMap<Name, Record>,
    last_ticket: Ticket,
    /// True once a record has expired. From then on, engines may count records that they no longer show.
    expired: bool,
}

/// A name, and everything that is derived from it.
struct Place {
    name: Name,
    encoded: Vec<u8>,
    identity: Identity,
    partition: Partition,
}

impl Place {
    fn at(&self) -> RecordAt<'_> {
        RecordAt {
            key: key_ref(&self.name),
            encoded: &self.encoded,
            identity: self.identity,
            partition: self.partition,
        }
    }
}

fn key_ref(name: &Name) -> KeyRef<'_> {
    BucketRef { bucket_type: &name.0, bucket: &name.1 }.key(&name.2)
}

fn name_of(which: RecordIndex) -> Name {
    let (bucket_type, bucket) = BUCKETS[which.bucket];
    // Keys `0`, `00`, `000`, `1` and so on, of which some are prefixes of others.
    let digit = b'0' + (which.key / 3) as u8;
    (bucket_type.to_vec(), bucket.to_vec(), vec![digit; which.key % 3 + 1])
}

/// Runs a call without waiting, and if it would block, once more with waiting.
fn unblocked<T>(mut run: impl FnMut(IoMode) -> T, would_block: impl Fn(&T) -> bool) -> T {
    let first = run(IoMode::NoWait);
    if !would_block(&first) {
        return first;
    }
    let second = run(IoMode::Wait);
    assert!(!would_block(&second), "the engine would block though it may wait");
    second
}

impl Model {
    pub fn new(identities: Identities) -> Self {
        Self { identities, records: BTreeMap::new(), last_ticket: Ticket(0), expired: false }
    }

    /// Applies a step to the engine and to the model, and compares the results.
    pub fn check(&mut self, subject: &mut impl Subject, step: &Step) {
        self.expire(subject);
        let engine = subject.engine();
        match step {
            Step::Put(which, content) => self.put(subject, *which, content),
            Step::PutLarge(which, content, shared_at) => {
                self.put_large(subject, *which, content, *shared_at);
            }
            Step::Append(which, content) => self.append(subject, *which, content),
            Step::Keep(which) => self.keep(engine, *which),
            Step::Remove(which) => self.remove(engine, *which),
            Step::Get(which) => self.get(engine, &name_of(*which)),
            Step::Head(which) => self.head(engine, &name_of(*which)),
            Step::Batch(writes) => self.batch(subject, writes),
            Step::Transact(changes) => self.transact(subject, changes),
            Step::ListKeys(part, limit) => self.list_keys(engine, *part, *limit),
            Step::Query(query) => super::indexes::check(subject, &self.keyed(), query),
            Step::ListBuckets(bucket, limit) => self.list_buckets(engine, *bucket, *limit),
            Step::Fold { partition, limit, tombstones_only } => {
                self.fold(engine, Partition(*partition), *limit, *tombstones_only);
            }
            Step::DropPartition(partition) => {
                let ticket = engine.drop_partition(Partition(*partition)).unwrap();
                self.written(ticket);
                let identities = self.identities;
                self.records.retain(|name, _| {
                    place_of(identities, name.clone()).partition != Partition(*partition)
                });
            }
            Step::Advance { secs } => {
                subject.clock().advance_us(u64::from(*secs) * 1_000_000);
            }
            Step::Sync => {
                engine.sync().unwrap();
                let durable = engine.poll_durable(self.last_ticket, Waker::noop());
                assert!(matches!(durable, Poll::Ready(Ok(()))), "{durable:?} after a sync");
            }
            Step::Restart => {
                subject.restart();
                self.last_ticket = Ticket(0);
            }
            Step::Maintain => subject.maintain(),
        }
    }

    /// Compares everything that the engine can be asked.
    pub fn check_everything(&mut self, subject: &impl Subject) {
        self.expire(subject);
        let engine = subject.engine();
        for bucket in 0..BUCKETS.len() {
            for key in 0..super::program::KEYS {
                let name = name_of(RecordIndex { bucket, key });
                self.get(engine, &name);
                self.head(engine, &name);
            }
            self.list_keys(engine, Part::Bucket(bucket), 5);
        }
        self.list_keys(engine, Part::All, 7);
        for bucket in 0..BUCKETS.len() {
            self.list_buckets(engine, bucket, 2);
        }
        super::indexes::check_everything(subject, &self.keyed());
        for partition in 0..super::RING_SIZE {
            self.fold(engine, Partition(partition), 3, false);
            self.fold(engine, Partition(partition), 3, true);
            super::digests::check(engine, Partition(partition), &self.of_partition(partition));
        }
        let stats = engine.stats();
        if !self.expired {
            assert_eq!(stats.key_count, self.keys().count() as u64, "keys");
            let tombstones = self.records.values().filter(|record| record.meta.tombstone).count();
            assert_eq!(stats.tombstone_count, tombstones as u64, "tombstones");
        }
    }

    /// The records of a partition, sorted by identity and encoded name.
    fn of_partition(&self, partition: u16) -> Vec<(Identity, Bytes, Record)> {
        let placed = self
            .keys()
            .map(|(name, record)| (place_of(self.identities, name.clone()), record))
            .filter(|(place, _)| place.partition == Partition(partition));
        placed
            .map(|(place, record)| (place.identity, Bytes::from(place.encoded), record.clone()))
            .collect()
    }

    /// The records that aren't pieces of others.
    fn keys(&self) -> impl Iterator<Item = (&Name, &Record)> {
        self.records.iter().filter(|(name, _)| !key_ref(name).is_piece())
    }

    /// All records with their names and partitions.
    fn keyed(&self) -> Vec<(KeyRef<'_>, Partition, &Record)> {
        let keyed = self.records.iter().map(|(name, record)| {
            (key_ref(name), place_of(self.identities, name.clone()).partition, record)
        });
        keyed.collect()
    }

    fn expire(&mut self, subject: &impl Subject) {
        let now_secs = subject.clock().unix_secs();
        let count = self.records.len();
        self.records.retain(|_, record| {
            let at_secs = u64::from(record.meta.expires_at_secs);
            at_secs == 0 || at_secs > now_secs
        });
        self.expired |= self.records.len() < count;
    }

    fn written(&mut self, ticket: Ticket) {
        assert!(ticket > self.last_ticket, "{ticket:?} comes after {:?}", self.last_ticket);
        self.last_ticket = ticket;
    }

    fn place(&self, which: RecordIndex) -> Place {
        place_of(self.identities, name_of(which))
    }

    fn put(&mut self, subject: &impl Subject, which: RecordIndex, content: &Content) {
        let place = self.place(which);
        let record = record_of(subject, which, content);
        let mut calls = 0;
        let mut change = |before: Option<&RecordRef<'_>>, value: &mut Vec<u8>| {
            calls += 1;
            assert!(before.is_none(), "the change function asked for nothing");
            value.extend_from_slice(&record.value);
            Decision::Put(record.meta)
        };
        let run = |access| {
            subject.engine().update(&place.at(), BeforeImage::Skip, access, &mut change).unwrap()
        };
        let applied = unblocked(run, |applied| *applied == Applied::WouldBlock);
        let Applied::Written(ticket) = applied else { panic!("a put was {applied:?}") };
        assert_eq!(calls, 1, "calls of the change function");
        self.written(ticket);
        self.records.insert(place.name, record);
    }

    /// A put whose change leaves the end of the value, from `shared_at` on, in a buffer of its own.
    fn put_large(
        &mut self,
        subject: &impl Subject,
        which: RecordIndex,
        content: &Content,
        shared_at: usize,
    ) {
        let place = self.place(which);
        let expected = self.records.get(&place.name).cloned();
        let record = record_of(subject, which, content);
        let shared_at = shared_at.min(record.value.len());
        let mut change = |before: Option<&RecordRef<'_>>, value: &mut Vec<u8>, rest: &mut Bytes| {
            assert_eq!(before.map(RecordRef::to_record), expected, "the record before");
            value.extend_from_slice(&record.value[..shared_at]);
            *rest = record.value.slice(shared_at..);
            Decision::Put(record.meta)
        };
        let run = |access| {
            subject
                .engine()
                .update_large(&place.at(), BeforeImage::Read, access, &mut change)
                .unwrap()
        };
        let applied = unblocked(run, |applied| *applied == Applied::WouldBlock);
        let Applied::Written(ticket) = applied else { panic!("a put was {applied:?}") };
        self.written(ticket);
        self.records.insert(place.name, record);
    }

    fn append(&mut self, subject: &impl Subject, which: RecordIndex, content: &Content) {
        let place = self.place(which);
        let expected = self.records.get(&place.name).cloned();
        let added = record_of(subject, which, content);
        let value = match &expected {
            // An encoded object can't be appended.
            Some(before) if !added.meta.indexed => [&before.value[..], &added.value].concat(),
            _ => added.value.to_vec(),
        };
        let record = Record { value: Bytes::from(value), ..added };
        let mut change = |before: Option<&RecordRef<'_>>, value: &mut Vec<u8>| {
            assert_eq!(before.map(RecordRef::to_record), expected, "the record before");
            value.extend_from_slice(&record.value);
            Decision::Put(record.meta)
        };
        let run = |access| {
            subject.engine().update(&place.at(), BeforeImage::Read, access, &mut change).unwrap()
        };
        let applied = unblocked(run, |applied| *applied == Applied::WouldBlock);
        let Applied::Written(ticket) = applied else { panic!("a put was {applied:?}") };
        self.written(ticket);
        self.records.insert(place.name, record);
    }

    fn keep(&self, engine: &dyn Engine, which: RecordIndex) {
        let place = self.place(which);
        let expected = self.records.get(&place.name);
        let mut change = |before: Option<&RecordRef<'_>>, _: &mut Vec<u8>| {
            assert_eq!(before.map(RecordRef::to_record).as_ref(), expected, "the record before");
            Decision::Keep
        };
        let run =
            |access| engine.update(&place.at(), BeforeImage::Read, access, &mut change).unwrap();
        let applied = unblocked(run, |applied| *applied == Applied::WouldBlock);
        assert_eq!(applied, Applied::Kept);
        let mut change = |before: Option<&RecordRef<'_>>, _: &mut Vec<u8>| {
            assert_eq!(before.map(|front| front.meta), expected.map(|record| record.meta));
            if let (Some(front), Some(record)) = (before, expected) {
                let size_bytes_min = record.value.len().min(FRONT_BYTES);
                assert!(
                    front.value.len() >= size_bytes_min && record.value.starts_with(front.value)
                );
                assert_eq!(front.is_whole, front.value.len() == record.value.len());
            }
            Decision::Keep
        };
        let run =
            |access| engine.update(&place.at(), BeforeImage::Front, access, &mut change).unwrap();
        let applied = unblocked(run, |applied| *applied == Applied::WouldBlock);
        assert_eq!(applied, Applied::Kept);
    }

    fn remove(&mut self, engine: &dyn Engine, which: RecordIndex) {
        let place = self.place(which);
        let mut change = |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| Decision::Remove;
        let run =
            |access| engine.update(&place.at(), BeforeImage::Read, access, &mut change).unwrap();
        match unblocked(run, |applied| *applied == Applied::WouldBlock) {
            Applied::Written(ticket) => self.written(ticket),
            applied => {
                let record = self.records.get(&place.name);
                assert_eq!((applied, record), (Applied::Kept, None), "a removal");
            }
        }
        self.records.remove(&place.name);
    }

    fn get(&self, engine: &dyn Engine, name: &Name) {
        let place = place_of(self.identities, name.clone());
        let run = |access| engine.get(&place.at(), access).unwrap();
        let found = unblocked(run, |found| *found == Fetch::WouldBlock);
        let expected = self.records.get(name).cloned().map_or(Fetch::Missing, Fetch::Found);
        assert_eq!(found, expected, "{name:?}");
        let mut shown = Fetch::Missing;
        let answer = unblocked(
            |access| {
                let mut look = |record: &RecordRef<'_>| shown = Fetch::Found(record.to_record());
                engine.show(&place.at(), access, &mut look).unwrap()
            },
            |answer| *answer == InPlaceRead::WouldBlock,
        );
        assert_eq!(answer == InPlaceRead::Found, expected != Fetch::Missing, "{name:?}");
        assert_eq!(shown, expected, "{name:?}");
    }

    fn head(&self, engine: &dyn Engine, name: &Name) {
        let place = place_of(self.identities, name.clone());
        let found = engine.head(&place.at()).unwrap();
        let expected = self.records.get(name).map(|record| record.meta);
        // With colliding identities, the engine may mistake a missing record for another one.
        if expected.is_some() || self.identities == Identities::Hashed {
            assert_eq!(found, expected, "{name:?}");
        }
    }

    fn batch(&mut self, subject: &impl Subject, writes: &[(RecordIndex, Option<Content>)]) {
        let first = writes.first().map(|(which, _)| *which);
        let places: Vec<(Place, Option<Record>)> = writes
            .iter()
            .filter(|(which, _)| changes_together(subject, first, *which))
            .map(|(which, content)| {
                (self.place(*which), content.map(|content| record_of(subject, *which, &content)))
            })
            .collect();
        let batch: Vec<BatchWrite<'_>> = places
            .iter()
            .map(|(place, record)| match record {
                Some(Record { meta, value }) => {
                    BatchWrite::Put { at: place.at(), meta: *meta, value }
                }
                None => BatchWrite::Remove { at: place.at() },
            })
            .collect();
        let ticket = subject.engine().batch(&batch).unwrap();
        if !batch.is_empty() {
            self.written(ticket);
        }
        for (place, record) in places {
            match record {
                Some(record) => self.records.insert(place.name, record),
                None => self.records.remove(&place.name),
            };
        }
    }

    fn transact(
        &mut self,
        subject: &impl Subject,
        changes: &[(RecordIndex, Option<Content>, bool)],
    ) {
        let Some(partition) = changes.first().map(|(which, ..)| self.place(*which).partition)
        else {
            let body: &mut TransactionFn<'_> = &mut |_| Ok(());
            let mut applied =
                subject.engine().transact(Partition(0), IoMode::NoWait, body).unwrap();
            if applied == Applied::WouldBlock {
                // The engine has to wait for earlier writes.
                applied = subject.engine().transact(Partition(0), IoMode::Wait, body).unwrap();
            }
            assert_eq!(applied, Applied::Kept);
            let body: &mut TransactionFn<'_> = &mut |_| Err(Interrupted::needs_wait());
            let applied = subject.engine().transact(Partition(0), IoMode::NoWait, body).unwrap();
            assert_eq!(applied, Applied::WouldBlock);
            return;
        };
        let mut after = self.records.clone();
        let mut planned = Vec::new();
        for (which, content, looks) in changes {
            let place = self.place(*which);
            let first = changes.first().map(|(which, ..)| *which);
            if place.partition != partition || !changes_together(subject, first, *which) {
                continue;
            }
            let before = looks.then(|| self.records.get(&place.name).cloned());
            let seen = before.clone().flatten().map_or(Bytes::new(), |record| record.value);
            let record = content.map(|content| {
                let added = record_of(subject, *which, &content);
                let seen = if added.meta.indexed { &[][..] } else { &seen };
                Record { value: [seen, &added.value].concat().into(), ..added }
            });
            match &record {
                Some(record) => after.insert(place.name.clone(), record.clone()),
                None => after.remove(&place.name),
            };
            planned.push((place, before, record));
        }
        let body: &mut TransactionFn<'_> = &mut |transaction| {
            for (place, before, record) in &planned {
                if let Some(before) = before {
                    assert_eq!(transaction.get(&place.at())?, *before, "{:?}", place.name);
                }
                match record {
                    Some(Record { meta, value }) => transaction.put(&place.at(), *meta, value)?,
                    None => transaction.remove(&place.at())?,
                }
            }
            Ok(())
        };
        let engine = subject.engine();
        let run = |access| engine.transact(partition, access, body).unwrap();
        let applied = unblocked(run, |applied| *applied == Applied::WouldBlock);
        let Applied::Written(ticket) = applied else { panic!("a transaction was {applied:?}") };
        self.written(ticket);
        self.records = after;
    }

    fn list_keys(&self, engine: &dyn Engine, part: Part, limit: usize) {
        let prefix_of = |which| name_of(which).2[..1].to_vec();
        let prefix = match part {
            Part::Prefix(which) => prefix_of(which),
            Part::Between(from, _) => name_of(from).2,
            _ => Vec::new(),
        };
        let last = match part {
            Part::Between(RecordIndex { bucket, .. }, Some(key)) => {
                name_of(RecordIndex { bucket, key }).2
            }
            _ => Vec::new(),
        };
        let bucket = |number: usize| {
            let (bucket_type, bucket) = BUCKETS[number];
            BucketRef { bucket_type, bucket }
        };
        let range = match part {
            Part::All => KeyRange::All,
            Part::BucketType(number) => KeyRange::BucketType(BUCKETS[number].0),
            Part::Bucket(number) => KeyRange::Bucket(bucket(number)),
            Part::Prefix(which) => KeyRange::Prefix(bucket(which.bucket), &prefix),
            Part::Between(from, to) => {
                KeyRange::Between(bucket(from.bucket), &prefix, to.map(|_| &last[..]))
            }
        };
        let mut placed = BTreeMap::new();
        let expected: Vec<(Bytes, RecordMeta)> = self
            .records
            .iter()
            .filter(|(name, _)| match range {
                KeyRange::All => !key_ref(name).is_piece(),
                KeyRange::BucketType(bucket_type) => name.0 == bucket_type,
                KeyRange::Bucket(bucket) => key_ref(name).bucket == bucket,
                KeyRange::Prefix(bucket, prefix) => {
                    key_ref(name).bucket == bucket && name.2.starts_with(prefix)
                }
                KeyRange::Between(bucket, from, to) => {
                    let is_within = from <= &name.2[..] && to.is_none_or(|to| &name.2[..] <= to);
                    key_ref(name).bucket == bucket && is_within
                }
            })
            .map(|(name, record)| {
                let Place { encoded, identity, partition, .. } =
                    place_of(self.identities, name.clone());
                let encoded = Bytes::from(encoded);
                let place = RecordPlace { identity, partition };
                placed.insert(encoded.clone(), (place, record.clone()));
                (encoded, record.meta)
            })
            .collect();
        super::visits::check(engine, range, limit, &placed);
        let mut found = Vec::new();
        let mut after: Option<Bytes> = None;
        loop {
            let page = engine.list_keys(range, after.as_deref(), limit).unwrap();
            assert!(page.entries.len() <= limit, "{} keys in a page", page.entries.len());
            found.extend(page.entries);
            assert!(found.len() <= expected.len(), "{found:?} is more than {expected:?}");
            match page.next {
                Some(next) => after = Some(next),
                None => break,
            }
        }
        assert_eq!(found, expected, "{part:?}");
    }

    fn list_buckets(&self, engine: &dyn Engine, bucket: usize, limit: usize) {
        let bucket_type = BUCKETS[bucket].0;
        let mut expected: Vec<(Bytes, Bytes)> = self
            .records
            .iter()
            .filter(|(name, _)| name.0 == bucket_type)
            .map(|(name, _)| (Bytes::from(name.0.clone()), Bytes::from(name.1.clone())))
            .collect();
        expected.dedup();
        let mut found: Vec<(Bytes, Bytes)> = Vec::new();
        loop {
            let after = found.last().map(|(bucket_type, bucket)| BucketRef { bucket_type, bucket });
            let page = engine.list_buckets(bucket_type, after, limit).unwrap();
            assert!(page.len() <= limit, "{} buckets in a page", page.len());
            if page.is_empty() {
                break;
            }
            found.extend(page);
            assert!(found.len() <= expected.len(), "{found:?} is more than {expected:?}");
        }
        assert_eq!(found, expected);
    }

    fn fold(&self, engine: &dyn Engine, partition: Partition, limit: usize, tombstones_only: bool) {
        let mut expected: Vec<(Identity, Bytes, Record)> = self
            .keys()
            .map(|(name, record)| (place_of(self.identities, name.clone()), record))
            .filter(|(place, record)| {
                place.partition == partition && (record.meta.tombstone || !tombstones_only)
            })
            .map(|(place, record)| (place.identity, Bytes::from(place.encoded), record.clone()))
            .collect();
        expected.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
        let mut found: Vec<(Identity, Bytes, Record)> = Vec::new();
        let mut from = Identity(0);
        loop {
            let page = engine.fold(partition, from, limit, tombstones_only).unwrap();
            let identity = |encoded: &Bytes| {
                let key = KeyRef::decode(encoded).unwrap();
                let bucket = (key.bucket.bucket_type.to_vec(), key.bucket.bucket.to_vec());
                place_of(self.identities, (bucket.0, bucket.1, key.key.to_vec())).identity
            };
            let mut entries: Vec<_> = page
                .entries
                .into_iter()
                .map(|(encoded, record)| (identity(&encoded), encoded, record))
                .collect();
            assert!(entries.is_sorted_by_key(|entry| entry.0), "identities are out of order");
            assert!(entries.first().is_none_or(|entry| entry.0 >= from), "a page starts too early");
            // Records with the same identity may come in any order.
            entries.sort_by(|one, other| (one.0, &one.1).cmp(&(other.0, &other.1)));
            let last = entries.last().map(|entry| entry.0);
            found.extend(entries);
            match page.next {
                Some(next) => {
                    assert!(next > from && last.is_none_or(|last| next > last), "no progress");
                    from = next;
                }
                None => break,
            }
        }
        assert_eq!(found, expected, "fold of {partition:?}");
    }
}

/// True if the record can be changed in the same transaction as the first one.
fn changes_together(
    subject: &impl Subject,
    first: Option<RecordIndex>,
    which: RecordIndex,
) -> bool {
    let bucket = |which: RecordIndex| {
        let (bucket_type, bucket) = BUCKETS[which.bucket];
        BucketRef { bucket_type, bucket }
    };
    first.is_none_or(|first| subject.changes_together(bucket(first), bucket(which)))
}

fn place_of(identities: Identities, name: Name) -> Place {
    let mut encoded = Vec::new();
    key_ref(&name).encode_into(&mut encoded);
    let mut hash = KeyHash::of(&encoded, key_ref(&name).bucket, PlacementRule::BucketAndKey);
    if key_ref(&name).is_piece() {
        let record = KeyRef::decode(&name.1).unwrap();
        let record = KeyHash::of(&name.1, record.bucket, PlacementRule::BucketAndKey);
        hash = KeyHash::of_piece(&encoded, record.placement);
    }
    let identity = match identities {
        Identities::Hashed => hash.identity,
        // Three tags, with two identities each.
        Identities::Shared => Identity(((hash.identity.0 >> 8) % 3) << 60 | (hash.identity.0 & 1)),
    };
    let partition = ring_size().partition(hash.placement);
    Place { name, encoded, identity, partition }
}

fn record_of(subject: &impl Subject, which: RecordIndex, content: &Content) -> Record {
    let now_secs = subject.clock().unix_secs() as u32;
    assert!(now_secs >= START_SECS, "the subject's clock starts at START_SECS");
    let expires_at_secs = match content.expires_in_secs {
        0 => 0,
        secs => now_secs + secs,
    };
    let is_piece = BUCKETS[which.bucket].0 == PIECE_TYPE;
    let meta = RecordMeta { expires_at_secs, ..content.meta };
    if content.entries != 0 && !is_piece {
        return super::indexes::indexed_record(content, meta);
    }
    Record {
        meta: if is_piece { RecordMeta::PIECE } else { meta },
        value: Bytes::from(vec![content.fill; content.size]),
    }
}
