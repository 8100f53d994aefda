//! Operations on a storage engine in this process, shared by the drivers of engines.
//!
//! An engine is called on the worker's thread, as a server calls it. A read from disk blocks the other
//! workers of the thread, so there are never more reads in flight than threads. Only the wait for a sync
//! yields to other workers.

use std::future::poll_fn;
use std::sync::Arc;

use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::{BucketRef, EncodedKey, KeyRef};
use quoit_store::engine::{
    Applied, BeforeImage, Decision, Engine, IoMode, RecordAt, RecordMeta, RecordRef, Ticket,
};
use quoit_store::error::StoreError;

use super::{Inputs, Outcome, key_bytes};
use crate::keygen::KeyKind;
use crate::term::Term;

/// The bucket of all records.
const BUCKET: BucketRef<'static> = BucketRef::untyped(b"test");

/// Number of partitions over which records are spread, as on a node.
pub(super) const RING_SIZE: RingSize = RingSize::DEFAULT;

/// An operation that every engine supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EngineOperation {
    Get,
    Put,
    Delete,
}

impl EngineOperation {
    /// The operation that a term names.
    pub(super) fn of_term(term: &Term) -> Option<Self> {
        Some(match term.as_atom()? {
            "get" => Self::Get,
            "put" => Self::Put,
            "delete" => Self::Delete,
            _ => return None,
        })
    }
}

/// Options of a write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Writing {
    /// True if writes wait until they would survive the death of the machine.
    pub(super) is_synced: bool,
    /// Expiry time of the written record, in seconds since 1970; 0 for never.
    pub(super) expires_at_secs: u32,
}

/// One worker's access to an engine.
pub(super) struct EngineWorker {
    pub(super) engine: Arc<dyn Engine>,
    key_kind: KeyKind,
    key: Vec<u8>,
}

impl EngineWorker {
    /// Creates a worker with keys of `key_kind`. Integers become decimal digits.
    pub(super) fn new(engine: Arc<dyn Engine>, key_kind: KeyKind) -> Self {
        Self { engine, key_kind, key: Vec::new() }
    }

    /// Draws the inputs of the operation and performs it. A missing record is not an error.
    pub(super) async fn perform(
        &mut self,
        operation: EngineOperation,
        writing: Writing,
        inputs: &mut Inputs,
    ) -> Outcome {
        match inputs.next_key() {
            Ok(key) => {
                self.key.clear();
                self.key.extend_from_slice(&key_bytes(self.key_kind, key));
            }
            Err(_) => return Outcome::Stop,
        }
        let written = match operation {
            EngineOperation::Get => self.get().map(|()| None),
            EngineOperation::Put => {
                let expires_at_secs = writing.expires_at_secs;
                let meta = RecordMeta { n_val_class: 1, expires_at_secs, ..RecordMeta::default() };
                let Ok(value) = inputs.next_bytes() else { return Outcome::Stop };
                self.update(|buffer| {
                    buffer.extend_from_slice(value);
                    Decision::Put(meta)
                })
            }
            EngineOperation::Delete => self.update(|_| Decision::Remove),
        };
        let done = match written {
            Ok(Some(ticket)) if writing.is_synced => self.sync_of(ticket).await,
            Ok(_) => Ok(()),
            Err(reason) => Err(reason),
        };
        match done {
            Ok(()) => Outcome::Success,
            Err(reason) => Outcome::Failure(reason),
        }
    }

    fn get(&self) -> Result<(), Term> {
        let name = RecordName::of(&self.key)?;
        self.engine.get(&name.at(), IoMode::Wait).map(drop).map_err(|error| reason_of(&error))
    }

    /// Writes or removes the record without reading it first. Returns `None` if there was nothing to
    /// remove, and so nothing to sync.
    fn update(
        &self,
        decide: impl FnOnce(&mut Vec<u8>) -> Decision,
    ) -> Result<Option<Ticket>, Term> {
        let name = RecordName::of(&self.key)?;
        let mut decide = Some(decide);
        let change = &mut |_: Option<&RecordRef<'_>>, buffer: &mut Vec<u8>| match decide.take() {
            Some(decide) => decide(buffer),
            None => Decision::Keep,
        };
        match self.engine.update(&name.at(), BeforeImage::Skip, IoMode::Wait, change) {
            Ok(Applied::Written(ticket)) => Ok(Some(ticket)),
            Ok(Applied::Kept | Applied::WouldBlock) => Ok(None),
            Err(error) => Err(reason_of(&error)),
        }
    }

    /// Waits until a write is durable.
    async fn sync_of(&self, ticket: Ticket) -> Result<(), Term> {
        let synced = poll_fn(|context| self.engine.poll_durable(ticket, context.waker()));
        synced.await.map_err(|error| reason_of(&error))
    }
}

/// A record's key with everything that is derived from it.
struct RecordName<'a> {
    key: KeyRef<'a>,
    encoded: EncodedKey,
    hash: KeyHash,
}

impl<'a> RecordName<'a> {
    fn of(key: &'a [u8]) -> Result<Self, Term> {
        let key = BUCKET.key(key);
        key.check().map_err(|error| reason("bad_key", error.to_string()))?;
        let encoded = key.encoded();
        let hash = KeyHash::of(&encoded, BUCKET, PlacementRule::BucketAndKey);
        Ok(Self { key, encoded, hash })
    }

    fn at(&self) -> RecordAt<'_> {
        let partition = RING_SIZE.partition(self.hash.placement);
        RecordAt { key: self.key, encoded: &self.encoded, identity: self.hash.identity, partition }
    }
}

/// The reason under which a fault of the engine is counted.
pub(super) fn reason_of(error: &StoreError) -> Term {
    let name = match error {
        StoreError::DiskFull { .. } => "disk_full",
        StoreError::Io { .. } => "io",
        StoreError::Corrupt { .. } => "corrupt",
        StoreError::Locked { .. } => "locked",
        StoreError::TooLarge { .. } => "too_large",
        StoreError::SyncFailed { .. } => "sync_failed",
        StoreError::OtherEngine { .. } => "other_engine",
        StoreError::OtherRing { .. } => "other_ring",
        StoreError::Overloaded => "overloaded",
        StoreError::SeveralEngines => "several_engines",
        StoreError::IndexesUnavailable { .. } => "indexes_unavailable",
        StoreError::IndexEntryTooLarge(_) => "index_entry_too_large",
        StoreError::Closed => "closed",
    };
    reason(name, error.to_string())
}

fn reason(name: &str, text: String) -> Term {
    Term::Tuple(vec![Term::atom(name), Term::String(text)])
}
