//! This node as a replica: reads and merges its own copies of records.
//!
//! A coordinator reads a copy as a digest or as the whole object ([`Replica::fetch_copy`]), and sends an
//! object to be merged into the copy ([`Replica::merge_into_copy`]). A merge is one step under the
//! record's lock:
//!
//! 1. If nothing is stored, the incoming object is compared with a reap record of its name, so that a late
//!    copy does not bring a deleted record back (`reaped.rs`).
//! 2. If the stored object has the same digest, nothing is written, unless the caller needs a ticket.
//! 3. If both objects are plain and the incoming one has seen the stored one, it replaces it. The beginning
//!    of the stored record is enough to decide that.
//! 4. Otherwise the whole stored object is read and merged. Large sets and maps are merged page by page
//!    (`in_pages.rs`).
//!
//! A copy that turns out to be damaged is replaced by the incoming object, unless another object has replaced
//! it since; then the two are merged. Before that the store gives up the actors and incarnations of the
//! partition ([`DotSequence::give_away`](crate::DotSequence::give_away)): events that only the damaged copy
//! had must not be made again.

mod in_pages;
mod join;
mod reaped;
mod written;
mod written_object;

pub(crate) use join::{Joined, Joining, SentDelta};
pub(crate) use reaped::{ArrivalDecision, Reaped, clock_of, written_over};
pub(crate) use written_object::WrittenObject;

use crate::error::RequestError;
use crate::local_node::LocalNode;
use crate::placement::Place;
use crate::reap_records::ReapRecords;
use crate::records::{Records, Updated, WrittenPages};
use crate::shared_value;
use crate::stored::{decode, wait_if_blocked};
use crate::suspects::StraySuspects;
use crate::tombstones::NotedTombstones;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::object::Object;
use quoit_model::plain::PlainObject;
use quoit_model::props::BucketProps;
use quoit_planted::planted;
use quoit_store::after_expiry;
use quoit_store::engine::{
    Access, Applied, Before, Decision, Record, RecordAt, RecordMeta, RecordRef, Shown, Ticket,
};
use quoit_store::error::StoreError;
use quoit_wire::SHARED_BYTES_MIN;
use quoit_wire::internode::data::MergeRule;
use std::sync::Arc;

use in_pages::{MergePages, take_in_pages};

/// A replica's copy of a record, as a reader receives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Copy {
    /// Nothing is stored.
    Missing,
    /// Digest of the copy and, if the reader asked for it, the encoded object.
    Found(u64, Option<Bytes>),
}

/// An object on its way to a replica, encoded.
#[derive(Clone, Debug)]
pub(crate) struct Replicated {
    /// Metadata for the engine.
    pub(crate) meta: RecordMeta,
    /// Rule by which it is merged with the replica's copy.
    pub(crate) rule: MergeRule,
    /// The encoded object.
    pub(crate) object: Bytes,
}

impl Replicated {
    /// Encodes an object for replicas.
    pub(crate) fn new(object: &Object, rule: MergeRule, n_val_class: u8) -> Self {
        let mut encoded = Vec::new();
        object.encode_into(&mut encoded);
        Self { meta: RecordMeta::of(object, n_val_class), rule, object: encoded.into() }
    }

    /// The tombstone that remains after the object has expired; `None` if nothing has to remain.
    fn after_expiry(&self) -> Option<Self> {
        let expired = Record { meta: self.meta, value: self.object.clone() };
        let Record { meta, value } = after_expiry(&expired)?;
        Some(Self { meta, rule: self.rule, object: value })
    }
}

/// Reads a copy as [`Replica::fetch_copy`] describes.
fn fetch(
    records: &Records,
    at: &RecordAt<'_>,
    whole: bool,
    access: Access,
) -> Result<Option<Copy>, RequestError> {
    if !whole {
        let head = records.head(at)?;
        return Ok(Some(head.map_or(Copy::Missing, |meta| Copy::Found(meta.digest, None))));
    }
    let mut found = None;
    let mut look = |record: &RecordRef<'_>| {
        found = Some(Copy::Found(record.meta.digest, Some(record.to_bytes())));
    };
    Ok(match records.show(at, access, &mut look)? {
        Shown::WouldBlock => None,
        Shown::Missing => Some(Copy::Missing),
        Shown::Found => found,
    })
}

/// Result of giving an object to a replica.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ApplyOutcome {
    /// The stored object already includes the incoming one, and the caller does not need a ticket for its
    /// sync.
    Known,
    /// Nothing is stored and nothing was written, because the object has expired or a reap record covers
    /// it. This outcome counts as synced: nothing can be lost.
    Nothing,
    /// Written. The record is synced when the ticket is.
    Written(Ticket, RecordMeta),
}

/// This node's own copies of records, with the reap records that keep deleted records from coming back.
/// Shared; every method takes `&self`.
pub(crate) struct Replica {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) reap_records: Arc<ReapRecords>,
    tombstones: Arc<NotedTombstones>,
    suspects: Arc<Mutex<StraySuspects>>,
}

impl Replica {
    /// `suspects` are the partitions that may hold strays.
    pub(crate) const fn new(
        local: Arc<LocalNode>,
        reap_records: Arc<ReapRecords>,
        tombstones: Arc<NotedTombstones>,
        suspects: Arc<Mutex<StraySuspects>>,
    ) -> Self {
        Self { local, reap_records, tombstones, suspects }
    }

    /// Reads the local copy, as a digest or, if `whole`, as an object. `None` if the read would have to
    /// wait for the disk and `access` does not allow that.
    pub(crate) fn fetch_copy(
        &self,
        at: &RecordAt<'_>,
        whole: bool,
        access: Access,
    ) -> Result<Option<Copy>, RequestError> {
        fetch(&self.local.records, at, whole, access)
    }

    /// Reads the local copy on a thread that may wait for the disk, so that a slow disk delays neither
    /// other requests nor the other replicas' answers to this request.
    pub(crate) fn read_copy_waiting(
        &self,
        at: &RecordAt<'_>,
        whole: bool,
    ) -> impl Future<Output = Result<Copy, RequestError>> + Send + use<> {
        let (records, blocking) = (Arc::clone(&self.local.records), self.local.settings.blocking);
        let (encoded, partition) = (Bytes::copy_from_slice(at.encoded), at.partition);
        let read = move || {
            let place = Place::new(&encoded, partition)?;
            let copy = fetch(&records, &place.at(), whole, Access::Wait)?;
            Ok(copy.expect("an engine that may wait does not answer WouldBlock"))
        };
        blocking.aside(read)
    }

    /// Merges an object into the local copy. With `needs_ticket` the outcome carries a ticket even if the
    /// copy already included the object, because that copy may not be synced yet. `None` if the merge
    /// would have to wait for the disk and `access` does not allow that.
    pub(crate) fn merge_into_copy(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
        needs_ticket: bool,
        access: Access,
    ) -> Result<Option<ApplyOutcome>, RequestError> {
        self.merge_into_copy_of(at, incoming, needs_ticket, false, access)
    }

    /// As [`Replica::merge_into_copy`]. If `may_be_damaged`, all of the copy is read in the step that
    /// changes it, and a damaged copy is replaced: some of its pages may still be readable, but its clock
    /// names events whose values are in unreadable pages.
    fn merge_into_copy_of(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
        needs_ticket: bool,
        may_be_damaged: bool,
        access: Access,
    ) -> Result<Option<ApplyOutcome>, RequestError> {
        let is_expired = self.is_expired(incoming.meta);
        let tombstone = if is_expired { incoming.after_expiry() } else { None };
        let is_gone = is_expired && tombstone.is_none();
        let incoming = tombstone.as_ref().unwrap_or(incoming);
        let admitted = |access| match is_gone {
            // Nothing has to be stored for an expired value, even if the local copy has merged it away:
            // no replica brings it back.
            true => Ok(ArrivalDecision::Nothing),
            false if planted!(ForgetsReaped) => Ok(ArrivalDecision::AsItCame),
            false => self.admitted(at, incoming, access),
        };
        let merged = |ours: &Object, theirs: &Object| self.merged(ours, theirs, incoming.rule);
        // Events of this store that were only in the damaged copy must not be made again.
        let forget = || self.local.dots.give_away(at.partition);
        let merged_pages =
            |ours: &PagedObject, theirs: &Object, pages: &mut WrittenPages<'_, '_>| {
                self.merged_pages(ours, theirs, incoming.rule, pages)
            };
        let around = MergeSteps {
            admitted: &admitted,
            merged: &merged,
            merged_pages: &merged_pages,
            forget: &forget,
            may_be_damaged,
        };
        let taken = take(&self.local.records, at, incoming, needs_ticket, access, &around)?;
        // The caller would take the object for one that is stored.
        assert!(taken.is_some() || access == Access::NoWait, "an engine that may wait does so");
        debug_assert!(
            !needs_ticket || taken != Some(ApplyOutcome::Known),
            "a caller that waits for the sync has a ticket"
        );
        if let Some(ApplyOutcome::Written(_, meta)) = &taken {
            self.note_written(at.partition, at.encoded);
            if meta.tombstone {
                self.note_tombstone(at, meta.digest);
            }
        }
        Ok(taken)
    }

    fn is_expired(&self, meta: RecordMeta) -> bool {
        let expires_at_secs = u64::from(meta.expires_at_secs);
        expires_at_secs != 0 && expires_at_secs <= self.local.clock.unix_secs()
    }

    /// Merges two copies of a record, and records the time of the merge in the statistics.
    pub(crate) fn merged(&self, ours: &Object, theirs: &Object, rule: MergeRule) -> Object {
        let began_us = self.local.clock.monotonic_us();
        let merged = merge(ours, theirs, rule);
        self.local
            .stats
            .record_merge(self.local.clock.monotonic_us() - began_us, merged.datatype());
        merged
    }

    /// Merges an object into this node's copy, and waits for the disk if need be.
    pub(crate) fn merge_into_own_copy(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
    ) -> Result<ApplyOutcome, RequestError> {
        let take = |access| self.merge_into_copy(at, incoming, false, access);
        wait_if_blocked(self.local.settings.blocking, take)
    }

    /// Replaces this node's damaged copy by the object that the other replicas have. If another object has
    /// replaced the copy in the meantime, merges the object with that.
    pub(crate) fn heal_own(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
    ) -> Result<ApplyOutcome, RequestError> {
        let take = |access| match access {
            Access::NoWait => Ok(None),
            Access::Wait => self.merge_into_copy_of(at, incoming, false, true, access),
        };
        wait_if_blocked(self.local.settings.blocking, take)
    }

    /// Removes a tombstone if the stored record is still that tombstone, by its digest. Returns true if
    /// it was removed. In a cluster the caller has written a reap record before.
    pub(crate) fn reap_copy(&self, at: &RecordAt<'_>, digest: u64) -> Result<bool, StoreError> {
        reap(&self.local.records, at, digest)
    }
}

/// Merges a stored and an incoming object.
type Merge<'a> = dyn Fn(&Object, &Object) -> Object + 'a;

/// Functions of [`Replica`] that [`take`] calls while it merges an object into a record.
struct MergeSteps<'a> {
    /// Decides which part of the object is stored if nothing is stored yet.
    admitted: &'a dyn Fn(Access) -> Result<ArrivalDecision, RequestError>,
    /// Merges the object with the stored one.
    merged: &'a Merge<'a>,
    merged_pages: &'a MergePages<'a>,
    /// Called before a damaged record is replaced.
    forget: &'a dyn Fn() -> Result<(), StoreError>,
    /// True if an earlier call has found the record damaged.
    may_be_damaged: bool,
}

/// Merges an object into a record of the engine, as [`Replica::merge_into_copy`] describes.
fn take(
    records: &Records,
    at: &RecordAt<'_>,
    incoming: &Replicated,
    needs_ticket: bool,
    access: Access,
    around: &MergeSteps<'_>,
) -> Result<Option<ApplyOutcome>, RequestError> {
    let MergeSteps { admitted, merged, forget, .. } = around;
    // Most objects replace the stored one, and the front of the stored record is enough to see that. The last
    // step replaces a damaged record.
    let mut may_be_damaged = around.may_be_damaged;
    let is_large = incoming.object.len() >= SHARED_BYTES_MIN;
    let steps = [Some(Before::Front), Some(Before::Read), None];
    for before in steps.into_iter().skip(if may_be_damaged { 2 } else { 0 }) {
        if before.is_none() && !may_be_damaged {
            break;
        }
        let mut verdict = Ok(Verdict::Undecided);
        let mut change = |stored: Option<&RecordRef<'_>>,
                          out: &mut Vec<u8>,
                          rest: Option<&mut Bytes>| {
            verdict = match stored {
                None => admitted(access).map(|admitted| take_first(admitted, incoming, out, rest)),
                Some(stored) => unite(stored, incoming, needs_ticket, merged, (out, rest)),
            };
            decision_of(&verdict, before.is_none())
        };
        let applied = match before {
            None => forget().and_then(|()| {
                records.replace_damaged(at, access, &mut |stored, out| change(stored, out, None))
            }),
            Some(before) => match records.update_parts(at, before, access, is_large, &mut change) {
                Ok(Updated::Applied(applied)) => Ok(applied),
                Ok(Updated::InPages) => {
                    match take_in_pages(records, at, incoming, needs_ticket, access, around) {
                        Ok(Some(taken)) => return Ok(taken),
                        Ok(None) => records.update_assembled(at, access, &mut |stored, out| {
                            change(stored, out, None)
                        }),
                        Err(fault) => Err(fault),
                    }
                }
                Err(fault) => Err(fault),
            },
        };
        let applied = match applied {
            Err(StoreError::Corrupt { .. }) if before.is_some() => {
                may_be_damaged = true;
                continue;
            }
            applied => applied?,
        };
        match (applied, verdict?) {
            (Applied::WouldBlock, _) | (_, Verdict::WouldBlock) => return Ok(None),
            (Applied::Written(ticket), Verdict::Put(meta)) => {
                return Ok(Some(ApplyOutcome::Written(ticket, meta)));
            }
            (Applied::Kept, Verdict::Keep) => return Ok(Some(ApplyOutcome::Known)),
            (Applied::Kept | Applied::Written(_), Verdict::Nothing) => {
                return Ok(Some(ApplyOutcome::Nothing));
            }
            // Only the front of a record can leave the verdict undecided.
            _ => debug_assert!(matches!(before, Some(Before::Front)), "a whole record decides"),
        }
    }
    Err(RequestError::Damaged("a whole record was shown as a front".to_owned()))
}

/// The decision that follows from a verdict about an incoming object.
fn decision_of(verdict: &Result<Verdict, RequestError>, replaces_damaged: bool) -> Decision {
    match verdict {
        Ok(Verdict::Put(meta)) => Decision::Put(*meta),
        // No object remains, so no other replica will ever send one that replaces the damaged record: remove
        // it.
        Ok(Verdict::Nothing) if replaces_damaged => Decision::Remove,
        Ok(Verdict::Keep | Verdict::Nothing | Verdict::Undecided | Verdict::WouldBlock)
        | Err(_) => Decision::Keep,
    }
}

/// Removes a tombstone from the engine if it still has this digest.
fn reap(records: &Records, at: &RecordAt<'_>, digest: u64) -> Result<bool, StoreError> {
    let mut same = |stored: Option<&RecordRef<'_>>, _: &mut Vec<u8>| match stored {
        Some(record) if record.meta.tombstone && record.meta.digest == digest => Decision::Remove,
        _ => Decision::Keep,
    };
    let applied = records.update_whole(at, Before::Read, Access::Wait, &mut same)?;
    Ok(matches!(applied, Applied::Written(_)))
}

/// Decision about an incoming object, made under the record's lock.
pub(crate) enum Verdict {
    Put(RecordMeta),
    Keep,
    /// Nothing is stored and nothing is written.
    Nothing,
    /// The front of the stored record is not enough to decide.
    Undecided,
    /// A reap record has to be read from disk, and the caller must not wait for it.
    WouldBlock,
}

/// Appends to `out` the part of an incoming object that is stored if nothing is stored yet. May leave the
/// end of it in `rest`.
pub(crate) fn take_first(
    admitted: ArrivalDecision,
    incoming: &Replicated,
    out: &mut Vec<u8>,
    rest: Option<&mut Bytes>,
) -> Verdict {
    match admitted {
        ArrivalDecision::AsItCame => {
            shared_value::append(&incoming.object, out, rest);
            Verdict::Put(incoming.meta)
        }
        ArrivalDecision::Rest(rest) => {
            rest.encode_into(out);
            Verdict::Put(RecordMeta::of(&rest, incoming.meta.n_val_class))
        }
        ArrivalDecision::Nothing => Verdict::Nothing,
        ArrivalDecision::WouldBlock => Verdict::WouldBlock,
    }
}

/// Merges an incoming object with the stored one, and appends to `out` the object that replaces it. May
/// leave the end of an object that is stored as it came in `rest`.
fn unite(
    stored: &RecordRef<'_>,
    incoming: &Replicated,
    needs_ticket: bool,
    merged: &Merge<'_>,
    (out, rest): (&mut Vec<u8>, Option<&mut Bytes>),
) -> Result<Verdict, RequestError> {
    let as_it_came = |out: &mut Vec<u8>, rest: Option<&mut Bytes>| {
        shared_value::append(&incoming.object, out, rest);
        Ok(Verdict::Put(incoming.meta))
    };
    if stored.meta.digest == incoming.meta.digest {
        return if needs_ticket { as_it_came(out, rest) } else { Ok(Verdict::Keep) };
    }
    if replaces(stored, incoming) {
        return as_it_came(out, rest);
    }
    if !stored.is_whole {
        return Ok(Verdict::Undecided);
    }
    let ours = decode(&stored.to_bytes())?;
    let theirs = decode(&incoming.object)?;
    let merged = merged(&ours, &theirs);
    let digest = merged.digest();
    if digest == incoming.meta.digest {
        return as_it_came(out, rest);
    }
    if digest == stored.meta.digest && !needs_ticket {
        return Ok(Verdict::Keep);
    }
    merged.encode_into(out);
    Ok(Verdict::Put(RecordMeta::of(&merged, incoming.meta.n_val_class)))
}

/// True if both objects are plain and the incoming one has seen the stored one, so that the merge is the
/// incoming object. False if the front of the stored record is not enough to see that.
fn replaces(stored: &RecordRef<'_>, incoming: &Replicated) -> bool {
    let stored = if stored.is_whole {
        PlainObject::read(stored.value)
    } else {
        PlainObject::read_front(stored.value, stored.meta.digest)
    };
    let (Some(stored), Some(new)) = (stored, PlainObject::read(&incoming.object)) else {
        return false;
    };
    let is_later = match incoming.rule {
        MergeRule::Causal => !stored.clock.descends(&new.clock),
        MergeRule::LastWriteWins => new.last_modified_us > stored.last_modified_us,
    };
    is_later && (planted!(DropsConcurrent) || new.clock.descends(&stored.clock))
}

/// Rule by which copies of a bucket's records are merged.
pub(crate) const fn merge_rule(props: &BucketProps) -> MergeRule {
    if props.last_write_wins { MergeRule::LastWriteWins } else { MergeRule::Causal }
}

/// Merges two copies of a record.
pub(crate) fn merge(ours: &Object, theirs: &Object, rule: MergeRule) -> Object {
    match rule {
        MergeRule::Causal => ours.merge(theirs),
        MergeRule::LastWriteWins => ours.merge_last_write_wins(theirs),
    }
}

#[cfg(test)]
mod tests;
