//! Data types whose clocks claim what was never seen.

use quoit_model::clock::Dot;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::object::Object;
use quoit_store::engine::{Interrupted, Record, RecordAt, RecordMeta, Transaction};

/// Name of the note with the events beyond gaps.
const CLOUD: &[u8] = b"d";

/// A stored object without gaps.
pub(super) struct Closed {
    pub(super) stored: Vec<u8>,
    pub(super) digest: u64,
}

/// A stored object as one that has seen all events up to the last that it knows of; `None` for one that has.
pub(super) fn closed(stored: &[u8]) -> Option<Closed> {
    // Before an object in pages come a byte and a varint.
    let is_paged = PagedObject::is_one(stored);
    let varint_bytes = || stored[1..].iter().take_while(|byte| **byte >= 0x80).count() + 1;
    let front = if is_paged { 1 + varint_bytes() } else { 0 };
    let mut object = Object::decode(&stored[front..].to_vec().into()).ok()?;
    let clock = object.causal_clock().ok()?;
    if clock.cloud().is_empty() {
        return None;
    }
    for (actor, runs) in clock.cloud().iter() {
        let counter = runs.last()?.last;
        object.clock.advance(&Dot { actor: actor.clone(), counter, time_secs: 0 });
    }
    for (name, cloud) in object.siblings.iter_mut().flat_map(|one| &mut one.meta.other) {
        if name == CLOUD {
            cloud.clear();
        }
    }
    let mut closed = stored[..front].to_vec();
    object.encode_into(&mut closed);
    Some(Closed { stored: closed, digest: object.digest() })
}

/// A transaction that stores no gaps.
pub(super) struct Closing<'t> {
    pub(super) transaction: &'t mut dyn Transaction,
}

impl Transaction for Closing<'_> {
    fn get(&mut self, at: &RecordAt<'_>) -> Result<Option<Record>, Interrupted> {
        self.transaction.get(at)
    }

    fn put(
        &mut self,
        at: &RecordAt<'_>,
        meta: RecordMeta,
        value: &[u8],
    ) -> Result<(), Interrupted> {
        match closed(value).filter(|_| !at.key.is_piece()) {
            Some(Closed { stored, digest }) => {
                self.transaction.put(at, RecordMeta { digest, ..meta }, &stored)
            }
            None => self.transaction.put(at, meta, value),
        }
    }

    fn remove(&mut self, at: &RecordAt<'_>) -> Result<(), Interrupted> {
        self.transaction.remove(at)
    }
}
