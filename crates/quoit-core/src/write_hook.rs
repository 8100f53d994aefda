//! Hook of the coordinator: reports its writes to change feeds, and queues them for other clusters.

use crate::changes::ChangeFeeds;
use crate::local_node::LocalNode;
use crate::placement::object_props;
use crate::queues::SourceQueues;
use crate::queues::{EntryReference, Visited};
use crate::replica::WrittenObject;
use crate::stats::Counter;
use crate::stored::decode;
use crate::tombstones::NotedTombstone;
use bytes::Bytes;
use quoit_model::key::KeyRef;
use quoit_model::props::{BucketProps, ReplMode};
use quoit_planted::planted;
use quoit_store::engine::{IoMode, RecordAt};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Size in bytes above which a delta is not queued, because each queue entry in memory may hold one.
const DELTA_BYTES_MAX: usize = 4 << 10;

/// Reports a node's writes to change feeds and to other clusters. Shared; every method takes `&self`.
pub(crate) struct WriteHook {
    local: Arc<LocalNode>,
    source_queues: Arc<SourceQueues>,
    change_feeds: Arc<ChangeFeeds>,
    /// True if this node consumes queues of other clusters.
    consumes: AtomicBool,
}

impl WriteHook {
    pub(crate) const fn new(
        local: Arc<LocalNode>,
        source_queues: Arc<SourceQueues>,
        change_feeds: Arc<ChangeFeeds>,
    ) -> Self {
        Self { local, source_queues, change_feeds, consumes: AtomicBool::new(false) }
    }

    /// Reports a write to change feeds alone.
    pub(crate) fn note_change(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        written: &WrittenObject<'_>,
    ) {
        self.change_feeds.note(at, props, written);
    }

    /// True if an object of this size is kept in a queue with the entry of its write. False if no queue
    /// takes writes.
    pub(crate) fn is_held(&self, size_bytes: usize) -> bool {
        self.source_queues.is_active()
            && size_bytes <= self.source_queues.settings().object_bytes_max
    }

    /// True if another cluster may send versions that were deleted here, because this node has a queue or
    /// a full-sync for one, or consumes its queues.
    pub(crate) fn has_links(&self) -> bool {
        let queues = &self.source_queues;
        queues.is_active() || queues.has_full_sync() || self.consumes.load(Ordering::Relaxed)
    }

    /// Sets whether this node consumes queues of other clusters.
    pub(crate) fn set_consumes(&self, consumes: bool) {
        self.consumes.store(consumes, Ordering::Relaxed);
    }

    /// Reports a write that this node has coordinated to change feeds, and queues it for other clusters.
    /// Called right after the local write. Costs a comparison and two loads if there is no feed, no queue
    /// that takes writes, and no full-sync.
    pub(crate) fn queue_written(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        written: WrittenObject<'_>,
    ) {
        self.note_change(at, props, &written);
        if self.source_queues.is_active() || self.source_queues.has_full_sync() {
            self.queue_for_others(at, props, &written, Visited::new());
        }
    }

    /// As [`WriteHook::queue_written`], but only for other clusters, and for a write that has visited
    /// some of them already.
    pub(crate) fn queue_for_others(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        written: &WrittenObject<'_>,
        visited: Visited,
    ) {
        if !self.source_queues.is_active() || !goes_in_real_time(props) {
            if self.source_queues.has_full_sync() && goes_by_full_sync(props) && written.is_delete()
            {
                self.source_queues.note_delete_for_full_sync(self.local.clock.unix_us());
            }
            return;
        }
        let held_bytes_max = self.source_queues.settings().object_bytes_max;
        let mut reference = reference(written, held_bytes_max);
        let may_be_small = matches!(written, WrittenObject::Decoded(_) | WrittenObject::InPlace);
        if reference == EntryReference::ToFetch && may_be_small {
            reference = self.reference_to_stored(at, held_bytes_max);
        }
        let key = Bytes::copy_from_slice(at.encoded);
        let now_us = self.local.clock.unix_us();
        let discards = self.source_queues.push(at.key.bucket, key, reference, visited, now_us);
        self.local.stats.add(Counter::QueueDiscards, discards);
    }

    /// True if a node that is alone in all live layouts may still receive an older version of a record,
    /// from another cluster or from a member that is leaving.
    pub(crate) fn may_receive_older(&self) -> bool {
        let has_members = self.local.control.read().members().count() > 1;
        has_members && !planted!(ForgetsLeavers) || self.has_links() && !planted!(ForgetsAlone)
    }

    /// True if the removal of tombstones is queued for other clusters.
    pub(crate) fn queues_reaps(&self) -> bool {
        self.source_queues.is_active() && self.source_queues.settings().queues_reaps
    }

    /// Queues the removal of a tombstone, given its encoded object.
    pub(crate) fn queue_reaped(&self, noted: &NotedTombstone, tombstone: &Bytes) {
        let (Ok(key), Ok(tombstone)) = (KeyRef::decode(&noted.encoded), decode(tombstone)) else {
            return;
        };
        let is_taken = {
            let state = self.local.control.read();
            object_props(&state, key.bucket).is_ok_and(goes_in_real_time)
        };
        if is_taken {
            let now_us = self.local.clock.unix_us();
            let reference = EntryReference::Reap { clock: tombstone.clock, reaped_us: now_us };
            let (name, visited) = (noted.encoded.clone(), Visited::new());
            self.source_queues.push(key.bucket, name, reference, visited, now_us);
        }
    }

    /// A queue entry with the object that was written just now, if it is small and can be read without
    /// waiting. Then each write of a key has an entry with its own object.
    fn reference_to_stored(&self, at: &RecordAt<'_>, held_bytes_max: usize) -> EntryReference {
        match self.local.records.object_at_hand(at, IoMode::NoWait) {
            Some(object) if object.len() <= held_bytes_max => EntryReference::Object(object),
            Some(_) | None => EntryReference::ToFetch,
        }
    }
}

/// True if a bucket's writes go to other clusters by realtime replication (property `repl`).
const fn goes_in_real_time(props: &BucketProps) -> bool {
    !matches!(props.repl, Some(ReplMode::Off | ReplMode::Fullsync))
}

/// True if full-sync compares a bucket's records with those of other clusters (property `repl`).
const fn goes_by_full_sync(props: &BucketProps) -> bool {
    !matches!(props.repl, Some(ReplMode::Off | ReplMode::Realtime))
}

/// The queue entry of a write.
fn reference(written: &WrittenObject<'_>, held_bytes_max: usize) -> EntryReference {
    match written {
        WrittenObject::Encoded(written) if written.meta.tombstone => {
            EntryReference::Tombstone(written.object.clone())
        }
        WrittenObject::Encoded(written) if written.object.len() <= held_bytes_max => {
            EntryReference::Object(written.object.clone())
        }
        WrittenObject::Decoded(object) if object.is_tombstone() => {
            let mut stored = Vec::new();
            object.encode_into(&mut stored);
            EntryReference::Tombstone(stored.into())
        }
        WrittenObject::Delta(sent)
            if sent.delta.len() <= DELTA_BYTES_MAX && !sent.has_dropped_tombstones =>
        {
            let (delta, last_modified_us) = (sent.delta.clone(), sent.last_modified_us);
            EntryReference::Delta { delta, last_modified_us }
        }
        // A consumer reads the object back from the page cache, which costs less than encoding it a
        // second time.
        WrittenObject::Encoded(_)
        | WrittenObject::Decoded(_)
        | WrittenObject::Delta(_)
        | WrittenObject::InPlace => EntryReference::ToFetch,
    }
}
