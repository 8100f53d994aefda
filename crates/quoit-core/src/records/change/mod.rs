//! Changes of a record that the coordinator makes for clients, in whichever form the record is stored.
//!
//! A change is one step under the record's lock:
//!
//! 1. The coordinator decides the change from the stored object, or from a reap record in its place
//!    ([`ChangeSteps::decide`]). Of a large set or map it sees the clock and the values, but no items.
//! 2. The change is applied: to the whole object (`decided.rs`), or, in a large set or map, to the pages that
//!    it concerns (`in_pages.rs`). If it can't be applied to pages, the object is assembled, and the change
//!    is decided again.
//! 3. The coordinator checks the result, which is written together with the pages.
//!
//! Nothing can come between the decision and the write, so two conditional writes of one coordinator can't
//! both be based on one version. The step may be repeated, because the record was changed in the meantime or
//! because the step has to wait for the disk; only its last run counts.

mod decided;
mod in_pages;
mod steps;

use super::{Records, Replicated, SentDelta, Updated};
use crate::appended::appended;
use crate::error::RequestError;
use crate::shared_value;
use crate::stored::decode;
use bytes::Bytes;
use quoit_model::object::Object;
use quoit_store::engine::{
    Applied, BeforeImage, Decision, IoMode, RecordAt, RecordMeta, RecordRef, Ticket,
};
use quoit_store::error::StoreError;
use quoit_wire::SHARED_BYTES_MIN;
use quoit_wire::internode::data::MergeRule;
use std::borrow::Cow;

pub(crate) use decided::{
    DataTypeUpdate, DecidedChange, OperationOrigin, Pruning, RecordState, ValueWrite,
};
pub(crate) use steps::ChangeSteps;

/// Requirements of a change that do not depend on the stored object.
#[derive(Clone, Copy)]
pub(crate) struct ChangeOptions {
    /// Part of the stored record that the change sees.
    pub(crate) before: BeforeImage,
    /// True if the object after the change is probably large, so that it is written from the buffer that
    /// it is in.
    pub(crate) is_large: bool,
    /// True if the change may concern all items of a large set or map.
    pub(crate) needs_items: bool,
    /// True if other replicas are sent the change.
    pub(crate) replicates: bool,
    /// True if the caller needs the whole object after the change.
    pub(crate) returns_object: bool,
    /// Rule by which the other replicas merge the object with their copies.
    pub(crate) rule: MergeRule,
    /// Number of replicas of the record's bucket, capped at 15.
    pub(crate) n_val_class: u8,
}

/// Result of a change. Each part is `None` if nothing was written or if it is not at hand.
pub(crate) struct Changed {
    /// The object after the change. A large set or map may be without its items, unless
    /// [`ChangeOptions::returns_object`] is set.
    pub(crate) object: Option<Object>,
    /// Position of the change in the log.
    pub(crate) ticket: Option<Ticket>,
    /// The change in the form for other replicas.
    pub(crate) sent: Option<SentChange>,
}

/// Form in which other replicas receive a change.
#[derive(Debug)]
pub(crate) enum SentChange {
    /// The object after the change, or the part of it that is enough for them.
    Object(Replicated),
    /// The delta of an operation on a large set or map. A replica that can't use it says so, and is sent the
    /// whole object.
    Delta(SentDelta),
}

impl Records {
    /// Decides a change by `steps` and writes it. `None` if the change would have to wait for the disk and
    /// `access` does not allow that.
    pub(crate) fn change(
        &self,
        at: &RecordAt<'_>,
        options: &ChangeOptions,
        access: IoMode,
        steps: &impl ChangeSteps,
    ) -> Result<Option<Changed>, RequestError> {
        let results = ChangeResults::default();
        ChangeRun { records: self, at, options, access, steps, results }.run()
    }
}

/// Results of the last run of a change.
#[derive(Default)]
struct ChangeResults {
    /// Reason for which nothing was written.
    fault: Option<RequestError>,
    object: Option<Object>,
    sent: Option<SentChange>,
    /// True if a reap record has to be read from the disk.
    would_block: bool,
    /// True if the change can't be applied to pages.
    needs_whole: bool,
}

/// A change under way.
struct ChangeRun<'r, S> {
    records: &'r Records,
    at: &'r RecordAt<'r>,
    options: &'r ChangeOptions,
    access: IoMode,
    steps: &'r S,
    results: ChangeResults,
}

impl<S: ChangeSteps> ChangeRun<'_, S> {
    fn run(mut self) -> Result<Option<Changed>, RequestError> {
        let Self { records, at, options, access, .. } = self;
        let ChangeOptions { before, is_large, .. } = *options;
        let applied = loop {
            let mut apply =
                |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>, rest: Option<&mut Bytes>| {
                    self.change_whole(stored, out, rest)
                };
            let applied = match records.update_parts(at, before, access, is_large, &mut apply) {
                Ok(Updated::Applied(applied)) => Ok(applied),
                Ok(Updated::InPages) => match self.change_by_pages() {
                    Ok(Some(_)) if self.results.needs_whole => {
                        let mut apply = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
                            self.change_whole(stored, out, None)
                        };
                        records.update_assembled(at, access, &mut apply)
                    }
                    Ok(Some(applied)) => Ok(applied),
                    // The record is no longer in pages.
                    Ok(None) => continue,
                    Err(fault) => Err(fault),
                },
                Err(fault) => Err(fault),
            };
            break match applied {
                // On a node that is alone no other copy can replace the damaged record. It is lost,
                // and must not keep the key from use.
                Err(StoreError::Corrupt { .. }) if !options.replicates => {
                    let mut apply = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
                        self.change_whole(stored, out, None)
                    };
                    records.replace_damaged(at, access, &|| Ok(()), &mut apply)?
                }
                applied => applied?,
            };
        };
        let ChangeResults { fault, object, sent, would_block, .. } = self.results;
        let ticket = match applied {
            Applied::WouldBlock => return Ok(None),
            _ if would_block => return Ok(None),
            Applied::Kept => None,
            Applied::Written(ticket) => Some(ticket),
        };
        match fault {
            Some(fault) => Err(fault),
            None => Ok(Some(Changed { object, ticket, sent })),
        }
    }

    /// Applies the change to the whole object, and encodes the result into the engine's buffer. With a
    /// `rest`, leaves the last value there if it is large.
    fn change_whole(
        &mut self,
        stored: Option<&RecordRef<'_>>,
        out: &mut Vec<u8>,
        rest: Option<&mut Bytes>,
    ) -> Decision {
        self.results = ChangeResults::default();
        match self.try_whole(stored, out, rest) {
            Ok(decision) => decision,
            Err(fault) => {
                self.results.fault = Some(fault);
                Decision::Keep
            }
        }
    }

    fn try_whole(
        &mut self,
        stored: Option<&RecordRef<'_>>,
        out: &mut Vec<u8>,
        rest: Option<&mut Bytes>,
    ) -> Result<Decision, RequestError> {
        let steps = self.steps;
        let present = match stored {
            Some(record) => RecordState::Stored(Cow::Owned(decode(&record.to_bytes())?)),
            None => match steps.absent(self.access)? {
                Some(present) => present,
                None => {
                    self.results.would_block = true;
                    return Ok(Decision::Keep);
                }
            },
        };
        let Some(change) = steps.decide(&present)? else { return Ok(Decision::Keep) };
        match change.applied(present, steps)? {
            Some(object) => self.store(object, out, rest),
            None => Ok(Decision::Keep),
        }
    }

    /// Encodes the object after the change, and makes its metadata for the engine and its form for other
    /// replicas.
    fn store(
        &mut self,
        object: Object,
        out: &mut Vec<u8>,
        mut rest: Option<&mut Bytes>,
    ) -> Result<Decision, RequestError> {
        let ChangeOptions { replicates, rule, n_val_class, .. } = *self.options;
        let start = out.len();
        let rest_bytes = match rest.as_deref_mut() {
            None => {
                object.encode_into(out);
                0
            }
            Some(rest) => {
                *rest = object.encode_front_into(SHARED_BYTES_MIN, out);
                rest.len()
            }
        };
        let size_bytes = out.len() - start + rest_bytes;
        self.steps.check_size(&object, size_bytes as u64)?;
        let meta = RecordMeta::of(&object, n_val_class);
        let is_kept = !meta.tombstone || self.steps.keeps_tombstone(meta.digest);
        if is_kept && (replicates || self.steps.is_held(size_bytes)) {
            let object = match rest {
                None => Bytes::copy_from_slice(appended(out, start)),
                Some(rest) => shared_value::join(appended(out, start), rest),
            };
            self.results.sent = Some(SentChange::Object(Replicated { meta, rule, object }));
        }
        self.results.object = Some(object);
        Ok(if is_kept { Decision::Put(meta) } else { Decision::Remove })
    }
}

#[cfg(test)]
mod tests;
