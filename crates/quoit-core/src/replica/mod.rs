//! This node as a replica: reads and merges its own copies of records.
//!
//! A coordinator reads a copy as a digest or as the whole object ([`Replica::fetch_copy`]), and sends an
//! object to be merged into the copy ([`Replica::merge_into_copy`]). [`Records::merge`] describes the merge;
//! the replica adds two steps that need other parts of the node:
//!
//! - If nothing is stored, the incoming object is compared with a reap record of its name, so that a late
//!   copy does not bring a deleted record back (`reaped.rs`).
//! - Before a damaged copy is replaced, the store gives up the actors and incarnations of the partition
//!   ([`DotSequence::give_away`](crate::DotSequence::give_away)): events that only the damaged copy had must
//!   not be made again. If a write replaces it, the new copy has no vote in reads until all other replicas
//!   have answered ([`Healing`]).

mod join;
mod reaped;
mod written;
mod written_object;

pub(crate) use crate::records::{ApplyOutcome, DecodedDelta, JoinOutcome, Replicated, SentDelta};
pub(crate) use reaped::{Reaped, clock_of, written_over};
pub(crate) use written_object::WrittenObject;

use crate::error::RequestError;
use crate::healing::Healing;
use crate::local_node::LocalNode;
use crate::placement::{PlacedKey, n_val_of};
use crate::reap_records::ReapRecords;
use crate::records::{ArrivalDecision, MergeSteps, PartCopy, Records, merge};
use crate::stored::wait_if_blocked;
use crate::suspects::StraySuspects;
use crate::tombstones::NotedTombstones;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::data_type::{FieldName, WantedPart};
use quoit_model::object::Object;
use quoit_model::props::BucketProps;
use quoit_planted::planted;
use quoit_store::engine::{InPlaceRead, IoMode, RecordAt, RecordMeta, RecordRef};
use quoit_store::error::StoreError;
use quoit_wire::internode::data::MergeRule;
use std::sync::Arc;

/// A replica's copy of a record, as a reader receives it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Copy {
    /// Nothing is stored.
    Missing,
    /// Digest of the copy and, if the reader asked for it, the encoded object.
    Found(u64, Option<Bytes>),
}

/// Reads a copy as [`Replica::fetch_copy`] describes.
fn fetch(
    records: &Records,
    at: &RecordAt<'_>,
    whole: bool,
    access: IoMode,
) -> Result<Option<Copy>, StoreError> {
    if !whole {
        let head = records.head(at)?;
        return Ok(Some(head.map_or(Copy::Missing, |meta| Copy::Found(meta.digest, None))));
    }
    let mut found = None;
    let mut look = |record: &RecordRef<'_>| {
        found = Some(Copy::Found(record.meta.digest, Some(record.to_bytes())));
    };
    Ok(match records.show(at, access, &mut look)? {
        InPlaceRead::WouldBlock => None,
        InPlaceRead::Missing => Some(Copy::Missing),
        InPlaceRead::Found => found,
    })
}

/// This node's own copies of records, with the reap records that keep deleted records from coming back.
/// Shared; every method takes `&self`.
pub(crate) struct Replica {
    pub(crate) local: Arc<LocalNode>,
    pub(crate) reap_records: Arc<ReapRecords>,
    tombstones: Arc<NotedTombstones>,
    suspects: Arc<Mutex<StraySuspects>>,
    pub(crate) healing: Arc<Healing>,
}

impl Replica {
    /// `suspects` are the partitions that may hold strays.
    pub(crate) const fn new(
        local: Arc<LocalNode>,
        reap_records: Arc<ReapRecords>,
        tombstones: Arc<NotedTombstones>,
        suspects: Arc<Mutex<StraySuspects>>,
        healing: Arc<Healing>,
    ) -> Self {
        Self { local, reap_records, tombstones, suspects, healing }
    }

    /// Reads the local copy, as a digest or, if `whole`, as an object. `None` if the read would have to
    /// wait for the disk and `access` does not allow that. A copy without a vote ([`Healing`]) fails as a
    /// damaged one does.
    pub(crate) fn fetch_copy(
        &self,
        at: &RecordAt<'_>,
        whole: bool,
        access: IoMode,
    ) -> Result<Option<Copy>, RequestError> {
        let read = || fetch(&self.local.records, at, whole, access);
        Ok(self.healing.with_vote(at, read)?)
    }

    /// Shows the local copy as [`Records::show`] does, if it has a vote. Fails before `look` is called, or
    /// not at all: `look` may have written an answer.
    #[inline]
    pub(crate) fn show(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        self.healing.check_vote(at)?;
        let mut vote = Ok(());
        let shown = self.local.records.show(at, access, &mut |record| {
            // A write may have replaced the damaged copy since. It takes the vote before.
            vote = self.healing.check_vote(at);
            if vote.is_ok() {
                look(record);
            }
        })?;
        vote.map(|()| shown)
    }

    /// Reads a part of the local copy as [`Records::part`] does, if the copy has a vote.
    pub(crate) fn part(
        &self,
        at: &RecordAt<'_>,
        path: &[FieldName],
        wanted: WantedPart,
        access: IoMode,
    ) -> Result<Option<PartCopy>, StoreError> {
        self.healing.with_vote(at, || self.local.records.part(at, path, wanted, access))
    }

    /// Reads the local copy on a thread that may wait for the disk, so that a slow disk delays neither
    /// other requests nor the other replicas' answers to this request.
    pub(crate) fn read_copy_waiting(
        &self,
        at: &RecordAt<'_>,
        whole: bool,
    ) -> impl Future<Output = Result<Copy, RequestError>> + Send + use<> {
        let healing = Arc::clone(&self.healing);
        self.read_on_pool(at, move |records, at| {
            healing.with_vote(at, || fetch(records, at, whole, IoMode::Wait))
        })
    }

    /// Reads the local copy after a write that this node has made, whether the copy has a vote or not, on a
    /// thread that may wait for the disk.
    pub(crate) fn written_copy(
        &self,
        at: &RecordAt<'_>,
    ) -> impl Future<Output = Result<Copy, RequestError>> + Send + use<> {
        self.read_on_pool(at, |records, at| fetch(records, at, true, IoMode::Wait))
    }

    fn read_on_pool<R>(
        &self,
        at: &RecordAt<'_>,
        read: R,
    ) -> impl Future<Output = Result<Copy, RequestError>> + Send + use<R>
    where
        R: FnOnce(&Records, &RecordAt<'_>) -> Result<Option<Copy>, StoreError> + Send + 'static,
    {
        let records = Arc::clone(&self.local.records);
        let (encoded, partition) = (Bytes::copy_from_slice(at.encoded), at.partition);
        let read = move || {
            let place = PlacedKey::new(&encoded, partition)?;
            let copy = read(&records, &place.at())?;
            Ok(copy.expect("an engine that may wait does not answer WouldBlock"))
        };
        self.local.settings.blocking.on_pool(read)
    }

    /// Merges an object into the local copy. With `needs_ticket` the outcome carries a ticket even if the
    /// copy already included the object, because that copy may not be synced yet. `None` if the merge
    /// would have to wait for the disk and `access` does not allow that.
    pub(crate) fn merge_into_copy(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
        needs_ticket: bool,
        access: IoMode,
    ) -> Result<Option<ApplyOutcome>, RequestError> {
        self.merge_into_copy_of(at, incoming, needs_ticket, CopyCondition::Readable, access)
    }

    /// As [`Replica::merge_into_copy`], for a copy that may be damaged.
    fn merge_into_copy_of(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
        needs_ticket: bool,
        own: CopyCondition,
        access: IoMode,
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
        let has_all = own == CopyCondition::MayBeDamaged || planted!(CountsReplacedCopies);
        let replacing = || match has_all || !self.is_one_of_several(at) {
            true => Ok(()),
            false => self.healing.begin_replacing(at),
        };
        let steps = MergeSteps {
            admitted: &admitted,
            merged: &merged,
            now_us: &|| self.local.clock.monotonic_us(),
            timed: &|took_us, datatype| self.local.stats.record_merge(took_us, datatype),
            forget: &forget,
            replacing: &replacing,
            may_be_damaged: own == CopyCondition::MayBeDamaged,
        };
        let taken = self.local.records.merge(at, incoming, needs_ticket, access, &steps)?;
        // The caller would take the object for one that is stored.
        assert!(taken.is_some() || access == IoMode::NoWait, "an engine that may wait does so");
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

    /// True if this node is one of several primaries of a record.
    fn is_one_of_several(&self, at: &RecordAt<'_>) -> bool {
        let topology = self.local.topology_now();
        let n_val = n_val_of(&self.local.control.read(), at.encoded).unwrap_or(1);
        topology.is_own(at.partition, n_val) && topology.primaries(at.partition, n_val).len() > 1
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

    /// Replaces this node's damaged copy by the merge of what all other replicas have. If another object
    /// has replaced the copy in the meantime, merges the object with that. Waits for the disk.
    pub(crate) fn replace_damaged(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
    ) -> Result<(), RequestError> {
        let own = CopyCondition::MayBeDamaged;
        self.merge_into_copy_of(at, incoming, false, own, IoMode::Wait)?;
        self.healing.end_replacing(at.encoded);
        Ok(())
    }

    /// As [`Replica::replace_damaged`], on a thread that must not wait for the disk.
    pub(crate) fn heal_own(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
    ) -> Result<(), RequestError> {
        let take = |access| match access {
            IoMode::NoWait => Ok(None),
            IoMode::Wait => self.replace_damaged(at, incoming).map(Some),
        };
        wait_if_blocked(self.local.settings.blocking, take)
    }

    /// Removes a tombstone if the stored record is still that tombstone, by its digest. Returns true if
    /// it was removed. In a cluster the caller has written a reap record before.
    pub(crate) fn reap_copy(&self, at: &RecordAt<'_>, digest: u64) -> Result<bool, StoreError> {
        self.local.records.reap(at, digest)
    }
}

/// State of this node's copy before a merge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum CopyCondition {
    /// The copy could be read, or was not read.
    Readable,
    /// All of the copy is read in the step that changes it, and a damaged copy is replaced: some of its
    /// pages may still be readable, but its clock names events whose values are in unreadable pages.
    MayBeDamaged,
}

/// Rule by which copies of a bucket's records are merged.
pub(crate) const fn merge_rule(props: &BucketProps) -> MergeRule {
    if props.last_write_wins { MergeRule::LastWriteWins } else { MergeRule::Causal }
}
