//! Reads that show the local copy first, and are valid answers once the other replicas confirm that they
//! have the same copy.

use crate::coordinator::Coordinator;
use crate::coordinator::first_round::FirstRound;
use crate::coordinator::get::resolve;
use crate::coordinator::read_replicas::ReadRequest;
use crate::error::RequestError;
use crate::placement::{PlacedKey, object_props};
use crate::request_log::AskedNodes;
use crate::stats::Sizes;
use crate::votes::ReadNeed;
use bytes::Bytes;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_wire::internode::data::MergeRule;
use std::fmt;
use std::time::Duration;

/// Time that the other replicas have to confirm the local copy of a large record, of which a run would have
/// to read the whole.
pub(crate) const LARGE_PATIENCE: Duration = Duration::from_millis(500);

/// Digest and sizes of the local copy that a read saw.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CopyDigest {
    pub(crate) digest: u64,
    pub(crate) sizes: Sizes,
}

/// A [`ReadRequest`] that owns its key, so that it can be kept while other replicas are waited for.
pub(crate) struct OwnedRead {
    key: Bytes,
    partition: Partition,
    need: ReadNeed,
    sloppy: bool,
    rule: MergeRule,
    n_val_class: u8,
    timeout_ms: Option<u32>,
}

impl OwnedRead {
    /// Copies a read whose encoded name is `key`.
    pub(crate) fn new(read: &ReadRequest<'_>, key: Bytes) -> Self {
        let ReadRequest { at, need, sloppy, rule, n_val_class, timeout_ms } = *read;
        Self { key, partition: at.partition, need, sloppy, rule, n_val_class, timeout_ms }
    }

    /// The encoded name of the record.
    pub(crate) const fn key(&self) -> &Bytes {
        &self.key
    }

    pub(crate) const fn partition(&self) -> Partition {
        self.partition
    }

    pub(crate) fn request<'p>(&self, place: &'p PlacedKey<'_>) -> ReadRequest<'p> {
        let Self { need, sloppy, rule, n_val_class, timeout_ms, .. } = *self;
        ReadRequest { at: place.at(), need, sloppy, rule, n_val_class, timeout_ms }
    }
}

/// A read whose local copy was shown, and which waits for the other replicas to confirm it.
#[must_use = "what was shown is no answer before it is confirmed"]
pub struct UnconfirmedRead {
    pub(crate) first: FirstRound,
    pub(crate) read: OwnedRead,
    /// `None` if this node has nothing stored.
    pub(crate) seen: Option<CopyDigest>,
    pub(crate) started_us: u64,
}

impl fmt::Debug for UnconfirmedRead {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Unconfirmed").field("seen", &self.seen).finish_non_exhaustive()
    }
}

/// Outcome of a read whose local copy was shown before other replicas had answered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Confirmation {
    /// The other replicas that the read needs have the same copy. The object that was shown is the
    /// answer.
    Same,
    /// The merge of the replicas' versions. The object that was shown is not the answer.
    Other(Option<Box<Object>>),
}

impl Coordinator {
    /// As [`ReplicatedStore::confirm_read`](crate::ReplicatedStore::confirm_read).
    pub(crate) async fn confirm_read(
        &self,
        unconfirmed: UnconfirmedRead,
    ) -> Result<Confirmation, RequestError> {
        let UnconfirmedRead { mut first, read, seen, started_us } = unconfirmed;
        let _waiting = self.waiting_get();
        let own_us = self.local.clock.monotonic_us() - started_us;
        let key = first.key.clone();
        let key = KeyRef::decode(&key)?;
        let digest = seen.map(|seen| seen.digest);
        let patience = first.patience(&self.local.topology_now());
        if first.agree(digest, patience).await {
            let time_us = self.local.clock.monotonic_us() - started_us;
            let sizes = Ok(seen.map(|seen| seen.sizes));
            self.local.stats.record_get(time_us, &sizes);
            self.note_get(key, (time_us, own_us), &sizes, &first.nodes);
            return Ok(Confirmation::Same);
        }
        first.answer_own(digest);
        let mut asked = first.nodes.clone();
        let found = self.finish_read(key, first, &read, started_us, &mut asked).await;
        let time_us = self.local.clock.monotonic_us() - started_us;
        let sizes = found.as_ref().map(|found| found.as_ref().map(Sizes::of_object));
        self.local.stats.record_get(time_us, &sizes);
        self.note_get(key, (time_us, own_us), &sizes, &asked);
        found.map(|found| Confirmation::Other(found.map(Box::new)))
    }

    /// Continues a read whose first replicas differ, and converts the object to the form that the
    /// bucket's readers receive.
    async fn finish_read(
        &self,
        key: KeyRef<'_>,
        first: FirstRound,
        read: &OwnedRead,
        started_us: u64,
        asked: &mut AskedNodes,
    ) -> Result<Option<Object>, RequestError> {
        let place = PlacedKey::new(&read.key, read.partition)?;
        let found = self.continue_read(&read.request(&place), first, started_us, asked).await?;
        let Some(object) = found else { return Ok(None) };
        let state = self.local.control.read();
        Ok(Some(resolve(object, object_props(&state, key.bucket)?)))
    }
}
