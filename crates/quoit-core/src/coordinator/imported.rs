//! Stores batches of whole objects that were made elsewhere, as imports bring them.
//!
//! On a node that is alone, the objects of a batch under whose names nothing is stored yet are written
//! together by partition: one engine call and one append to the log for many records. All other objects
//! are written one by one, like puts of clients; the caller appends several to the log before it waits
//! for a sync.

use crate::coordinator::Coordinator;
use crate::coordinator::in_place::Pending;
use crate::coordinator::put::PutRequest;
use crate::coordinator::write_replicas::{Accepted, OwnWrite, WriteTargets};
use crate::error::RequestError;
use crate::options::WriteOptions;
use crate::placement::{object_props, record_at};
use crate::stored::wait_if_blocked;
use quoit_model::bitcask_key::BitcaskKey;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{EncodedKey, KeyRef};
use quoit_model::object::Object;
use quoit_store::engine::{Applied, RecordAt, RecordMeta, Ticket};
use std::collections::HashSet;
use std::ops::Range;

/// Size in bytes above which an object is written by itself.
const TOGETHER_BYTES_MAX: usize = 256 << 10;
/// Number of objects that are encoded before other tasks get a turn.
const OBJECTS_WITHOUT_PAUSE: usize = 128;
/// Most bytes that one engine call writes.
const STEP_BYTES: usize = 1 << 20;

/// Result of storing a whole object that was made elsewhere.
#[derive(Debug)]
#[must_use = "a write is acknowledged when it is finished"]
pub enum ImportedInPlace {
    /// Nothing had to be written, for example because a reaped tombstone has seen all of the object.
    Stored,
    /// The object is in the log. [`ReplicatedStore::finish`](crate::ReplicatedStore::finish) waits for
    /// what the write still needs.
    Pending(Pending),
    /// This node is not alone, so other nodes must take part.
    /// [`ReplicatedStore::put`](crate::ReplicatedStore::put) stores the object.
    Declined(Object),
}

/// An object of a batch, with its name.
#[derive(Debug)]
pub struct ImportedObject {
    /// Number of the object in the batch, from 0.
    pub number: usize,
    /// Name of the record.
    pub key: BitcaskKey,
    /// The object.
    pub object: Object,
}

/// A batch after its first step.
#[derive(Debug, Default)]
pub struct BegunBatch {
    /// Objects that were written together and are in the log, if there are any.
    pub pending: Option<PendingBatch>,
    /// Objects that the caller has to write one by one, in the order of the batch.
    pub left: Vec<ImportedObject>,
}

/// Objects in the log that wait for one sync.
#[derive(Debug)]
#[must_use = "the objects are acknowledged when the batch is finished"]
pub struct PendingBatch {
    /// Numbers of the objects.
    pub numbers: Vec<usize>,
    ticket: Ticket,
    started_us: u64,
}

impl PendingBatch {
    fn add(&mut self, other: Self, join: impl FnOnce(Ticket, Ticket) -> Ticket) {
        self.numbers.extend(other.numbers);
        self.ticket = join(self.ticket, other.ticket);
    }
}

/// A new record that is about to be written with others.
struct NewRecord {
    given: ImportedObject,
    encoded: EncodedKey,
    identity: Identity,
    partition: Partition,
    meta: RecordMeta,
    /// Range of its bytes in the buffer of the batch.
    bytes: Range<usize>,
}

impl NewRecord {
    fn at(&self) -> RecordAt<'_> {
        RecordAt {
            key: self.given.key.as_key_ref(),
            encoded: &self.encoded,
            identity: self.identity,
            partition: self.partition,
        }
    }
}

impl Coordinator {
    /// As [`ReplicatedStore::begin_import`](crate::ReplicatedStore::begin_import).
    pub(crate) async fn begin_import(&self, objects: Vec<ImportedObject>) -> BegunBatch {
        let mut begun = BegunBatch::default();
        if self.check_puts().is_err() || !self.local.topology_now().is_alone() {
            begun.left = objects;
            return begun;
        }
        let started_us = self.local.clock.monotonic_us();
        let mut bytes = Vec::new();
        let mut records = Vec::with_capacity(objects.len());
        // Once one object of a name is left, all later ones of that name are left too, so that they stay
        // in order.
        let mut names_left = HashSet::new();
        for (done, mut given) in objects.into_iter().enumerate() {
            if done % OBJECTS_WITHOUT_PAUSE == OBJECTS_WITHOUT_PAUSE - 1 {
                tokio::task::yield_now().await;
            }
            let start = bytes.len();
            let new = match names_left.contains(&given.key) {
                true => None,
                false => self.new_record(&mut given, &mut bytes),
            };
            let Some((identity, partition, meta)) = new else {
                bytes.truncate(start);
                names_left.insert(given.key.clone());
                begun.left.push(given);
                continue;
            };
            let encoded = given.key.as_key_ref().encoded();
            let bytes = start..bytes.len();
            records.push(NewRecord { given, encoded, identity, partition, meta, bytes });
        }
        for step in steps(records, &mut begun.left) {
            tokio::task::yield_now().await;
            let written = self.write_new(step, &bytes, &mut begun.left);
            let written =
                written.map(|(numbers, ticket)| PendingBatch { numbers, ticket, started_us });
            begun.pending = match (begun.pending, written) {
                (Some(mut pending), Some(written)) => {
                    pending.add(written, |one, other| self.local.engine.joined(one, other));
                    Some(pending)
                }
                (pending, written) => pending.or(written),
            };
        }
        begun.left.sort_unstable_by_key(|given| given.number);
        begun
    }

    /// As [`ReplicatedStore::finish_import`](crate::ReplicatedStore::finish_import).
    pub(crate) async fn finish_import(&self, pending: &PendingBatch) -> Result<(), RequestError> {
        let _waiting = self.waiting_put();
        let result = self.local.durable(pending.ticket, None).await;
        let total_us = self.local.clock.monotonic_us() - pending.started_us;
        pending.numbers.iter().for_each(|_| self.local.stats.record_put(total_us, &result));
        result
    }

    /// Encodes an object into `bytes`, and returns its place and metadata, if it can be written together
    /// with others. `None` if anything is stored under its name or if the object needs the general path.
    fn new_record(
        &self,
        given: &mut ImportedObject,
        bytes: &mut Vec<u8>,
    ) -> Option<(Identity, Partition, RecordMeta)> {
        let (state, topology) = (self.local.control.read(), self.local.topology_now());
        let key = given.key.as_key_ref();
        key.check().ok()?;
        self.local.check_context(&given.object.clock).ok()?;
        let props = object_props(&state, key.bucket).ok()?;
        let encoded = key.encoded();
        let at = record_at(&state, props, key, &encoded);
        WriteTargets::of(&topology, &at, props, &WriteOptions::default()).ok()?;
        self.adopt(&mut given.object, props).ok()?;
        let object = &given.object;
        let is_plain = !object.is_tombstone() && !object.has_data_type();
        let needs_coordination = props.feeds_changes() || self.replica.may_be_reaped(&at);
        // The sync is waited for even if the bucket has dw=0.
        if !is_plain || needs_coordination || self.check_siblings(object).is_err() {
            return None;
        }
        if !matches!(self.local.records.head(&at), Ok(None)) {
            return None;
        }
        let start = bytes.len();
        object.encode_into(bytes);
        let size_bytes = bytes.len() - start;
        if size_bytes > TOGETHER_BYTES_MAX || self.check_size(key, size_bytes as u64).is_err() {
            return None;
        }
        self.warn_if_many(key, object);
        let meta = RecordMeta::of(object, RecordMeta::class_of(props.n_val));
        Some((at.identity, at.partition, meta))
    }

    /// Writes new records of one partition in one engine call. Leaves the records that exist by now, and
    /// all records if the engine refuses; written one by one, each of those reports its own fault.
    #[expect(
        clippy::indexing_slicing,
        reason = "each record has the range of its bytes in `bytes`"
    )]
    fn write_new(
        &self,
        step: Vec<NewRecord>,
        bytes: &[u8],
        left: &mut Vec<ImportedObject>,
    ) -> Option<(Vec<usize>, Ticket)> {
        let partition = step.first()?.partition;
        let mut is_there = Vec::new();
        let written = match self.local.topology_now().is_alone() {
            false => None,
            true => {
                let records =
                    step.iter().map(|new| (new.at(), new.meta, &bytes[new.bytes.clone()]));
                let records: Vec<_> = records.collect();
                let write = |access| {
                    let applied =
                        self.local.records.insert(partition, access, &records, &mut is_there)?;
                    Ok((applied != Applied::WouldBlock).then_some(applied))
                };
                wait_if_blocked(self.local.settings.blocking, write).ok()
            }
        };
        let Some(Applied::Written(ticket)) = written else {
            left.extend(step.into_iter().map(|new| new.given));
            return None;
        };
        debug_assert!(is_there.is_sorted(), "names that are taken are found by their place");
        let mut numbers = Vec::with_capacity(step.len());
        for (place, new) in step.into_iter().enumerate() {
            match is_there.binary_search(&place).is_ok() {
                true => left.push(new.given),
                false => numbers.push(new.given.number),
            }
        }
        Some((numbers, ticket))
    }

    /// As [`ReplicatedStore::put_imported_in_place`](crate::ReplicatedStore::put_imported_in_place).
    pub(crate) fn put_imported_in_place(
        &self,
        key: KeyRef<'_>,
        object: Object,
    ) -> Result<ImportedInPlace, RequestError> {
        self.check_puts()?;
        let topology = self.local.topology_now();
        if !topology.is_alone() {
            return Ok(ImportedInPlace::Declined(object));
        }
        let mut request = PutRequest::given(key, object);
        let started_us = self.local.clock.monotonic_us();
        let encoded = key.encoded();
        let accepted = self.accept_put(&topology, &mut request, &encoded);
        let unwritten = match accepted {
            Ok(Accepted { targets, own: OwnWrite::Logged(ticket), .. }) => {
                let quorums = targets.quorums;
                let name = (quorums.dw > 0).then(|| bytes::Bytes::copy_from_slice(&encoded));
                let pending = Pending::of_lone_node(started_us, quorums, ticket, name);
                return Ok(ImportedInPlace::Pending(pending));
            }
            Ok(_) => Ok(()),
            Err(fault) => Err(fault),
        };
        self.local.stats.record_put(self.local.clock.monotonic_us() - started_us, &unwritten);
        unwritten.map(|()| ImportedInPlace::Stored)
    }
}

/// Groups records by partition into steps of at most [`STEP_BYTES`]. Of several objects of one name, all
/// but one are left; the caller merges them afterwards.
#[expect(clippy::indexing_slicing, reason = "`order` has the indexes of the records")]
fn steps(records: Vec<NewRecord>, left: &mut Vec<ImportedObject>) -> Vec<Vec<NewRecord>> {
    // Sorts indexes in place of records, which are large; each record is moved once.
    let mut order: Vec<usize> = (0..records.len()).collect();
    let name = |place: &usize| (records[*place].partition, &*records[*place].encoded);
    order.sort_unstable_by(|a, b| name(a).cmp(&name(b)));
    let mut records: Vec<Option<NewRecord>> = records.into_iter().map(Some).collect();
    let mut steps: Vec<Vec<NewRecord>> = Vec::new();
    let mut step_bytes = 0;
    for place in order {
        let Some(new) = records[place].take() else { continue };
        let last = steps.last().and_then(|step| step.last());
        if last.is_some_and(|last| last.encoded == new.encoded) {
            left.push(new.given);
            continue;
        }
        let is_same = last.is_some_and(|last| last.partition == new.partition);
        step_bytes = if is_same { step_bytes } else { 0 } + new.bytes.len();
        match steps.last_mut().filter(|_| is_same && step_bytes <= STEP_BYTES) {
            Some(step) => step.push(new),
            None => {
                step_bytes = new.bytes.len();
                steps.push(vec![new]);
            }
        }
    }
    // The engine takes the records of one partition, each name once.
    let are_in_order = |one: &NewRecord, other: &NewRecord| {
        one.partition == other.partition && one.encoded[..] < other.encoded[..]
    };
    debug_assert!(
        steps.iter().all(|step| step.is_sorted_by(are_in_order)),
        "a step has records of one partition, and each name once"
    );
    let size_bytes = |step: &[NewRecord]| step.iter().map(|new| new.bytes.len()).sum::<usize>();
    debug_assert!(
        steps.iter().all(|step| step.len() == 1 || size_bytes(step) <= STEP_BYTES),
        "a step of several records keeps to its bound"
    );
    steps
}
