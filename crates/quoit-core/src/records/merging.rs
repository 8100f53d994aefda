//! Merges an object into a record, in whichever form the record is stored.
//!
//! A merge is one step under the record's lock:
//!
//! 1. If nothing is stored, the caller decides which part of the object is stored.
//! 2. If the stored object has the same digest, nothing is written, unless the caller needs a ticket.
//! 3. If both objects are plain and the incoming one has seen the stored one, it replaces it. The beginning
//!    of the stored record is enough to decide that.
//! 4. Otherwise the whole stored object is read and merged. Large sets and maps are merged page by page.
//!
//! A record that turns out to be damaged is replaced by the incoming object, unless another object has
//! replaced it since; then the two are merged.

use super::arrival::{Verdict, take_first};
use super::pages::{PageFault, WrittenPages};
use super::root_change::NewForm;
use super::{ApplyOutcome, ArrivalDecision, Merge, Records, Replicated, Updated};
use crate::error::RequestError;
use crate::shared_value;
use crate::stored::decode;
use bytes::Bytes;
use quoit_model::data_type::pages::{OtherCopy, PagedObject, Pages, PagesMerged, Region};
use quoit_model::object::Object;
use quoit_model::plain::PlainObject;
use quoit_model::props::Datatype;
use quoit_planted::planted;
use quoit_store::engine::{
    Applied, BeforeImage, Decision, IoMode, RecordAt, RecordMeta, RecordRef,
};
use quoit_store::error::StoreError;
use quoit_wire::SHARED_BYTES_MIN;
use quoit_wire::internode::data::MergeRule;

/// Functions of the surrounding replica that [`Records::merge`] calls.
pub(crate) struct MergeSteps<'a> {
    /// Decides which part of the object is stored if nothing is stored yet.
    pub(crate) admitted: &'a dyn Fn(IoMode) -> Result<ArrivalDecision, RequestError>,
    /// Merges the stored object with the incoming one.
    pub(crate) merged: &'a Merge<'a>,
    /// The present time, in microseconds, by which merges page by page are timed.
    pub(crate) now_us: &'a dyn Fn() -> u64,
    /// Notes how long a merge page by page took, in microseconds, and the type of its result.
    pub(crate) timed: &'a dyn Fn(u64, Option<Datatype>),
    /// Called before a damaged record is replaced.
    pub(crate) forget: &'a dyn Fn() -> Result<(), StoreError>,
    /// Called in the transaction that replaces the record if it is still damaged.
    pub(crate) replacing: &'a dyn Fn() -> Result<(), StoreError>,
    /// True if an earlier call has found the record damaged.
    pub(crate) may_be_damaged: bool,
}

impl MergeSteps<'_> {
    /// Merges an object into a record in pages.
    fn merge_pages(
        &self,
        ours: &PagedObject,
        theirs: &Object,
        rule: MergeRule,
        pages: &mut WrittenPages<'_, '_>,
    ) -> Result<PagesMerged, PageFault> {
        let began_us = (self.now_us)();
        let merged = match rule {
            MergeRule::Causal => ours.merge(OtherCopy::Whole(theirs), pages),
            MergeRule::LastWriteWins => ours.merge_last_write_wins(theirs, pages),
        }?;
        let datatype = match &merged {
            PagesMerged::NeedsWhole => return Ok(merged),
            PagesMerged::Known | PagesMerged::Paged(_) => Some(ours.root().datatype()),
            PagesMerged::Other => theirs.datatype(),
            PagesMerged::Whole(object) => object.datatype(),
        };
        (self.timed)((self.now_us)() - began_us, datatype);
        Ok(merged)
    }
}

impl Records {
    /// Merges an object into a record. With `needs_ticket` the outcome carries a ticket even if the record
    /// already includes the object, because the record may not be synced yet. `None` if the merge would
    /// have to wait for the disk and `access` does not allow that.
    pub(crate) fn merge(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
        needs_ticket: bool,
        access: IoMode,
        steps: &MergeSteps<'_>,
    ) -> Result<Option<ApplyOutcome>, RequestError> {
        let MergeSteps { admitted, merged, forget, replacing, .. } = steps;
        // Most objects replace the stored one, and the front of the stored record is enough to see that.
        // The last step replaces a damaged record.
        let mut may_be_damaged = steps.may_be_damaged;
        let is_large = incoming.object.len() >= SHARED_BYTES_MIN;
        let befores = [Some(BeforeImage::Front), Some(BeforeImage::Read), None];
        for before in befores.into_iter().skip(if may_be_damaged { 2 } else { 0 }) {
            if before.is_none() && !may_be_damaged {
                break;
            }
            let mut verdict = Ok(Verdict::Undecided);
            let mut change =
                |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>, rest: Option<&mut Bytes>| {
                    verdict = match stored {
                        None => admitted(access)
                            .map(|admitted| take_first(admitted, incoming, out, rest)),
                        Some(stored) => {
                            merge_with_stored(stored, incoming, needs_ticket, merged, (out, rest))
                        }
                    };
                    decision_on(&verdict, before.is_none())
                };
            let updated = match before {
                None => forget()
                    .and_then(|()| {
                        self.replace_damaged(at, access, replacing, &mut |stored, out| {
                            change(stored, out, None)
                        })
                    })
                    .map(Updated::Applied),
                Some(before) => self.update_parts(at, before, access, is_large, &mut change),
            };
            let applied = match updated {
                Ok(Updated::Applied(applied)) => Ok(applied),
                Ok(Updated::InPages) => {
                    match self.merge_by_pages(at, incoming, needs_ticket, access, steps) {
                        Ok(Some(taken)) => return Ok(taken),
                        Ok(None) => self.update_assembled(at, access, &mut |stored, out| {
                            change(stored, out, None)
                        }),
                        Err(fault) => Err(fault),
                    }
                }
                Err(fault) => Err(fault),
            };
            let applied = match applied {
                Err(StoreError::Corrupt { .. }) if before.is_some() => {
                    may_be_damaged = true;
                    continue;
                }
                applied => applied?,
            };
            if let Some(outcome) = outcome_of(applied, verdict?) {
                return Ok(outcome);
            }
            debug_assert!(matches!(before, Some(BeforeImage::Front)), "a whole record decides");
        }
        Err(RequestError::Damaged("a whole record was shown as a front".to_owned()))
    }

    /// As [`Records::merge`], for a record in pages, which are merged one by one. The outer `None` means
    /// that the record is no longer in pages or can only be merged as a whole; the inner `None`, that the
    /// merge would have to wait for the disk.
    fn merge_by_pages(
        &self,
        at: &RecordAt<'_>,
        incoming: &Replicated,
        needs_ticket: bool,
        access: IoMode,
        steps: &MergeSteps<'_>,
    ) -> Result<Option<Option<ApplyOutcome>>, StoreError> {
        // The merge as a whole reports an incoming object that can't be decoded.
        let Ok(theirs) = decode(&incoming.object) else { return Ok(None) };
        let n_val_class = incoming.meta.n_val_class;
        let as_it_came = || NewForm::Whole(incoming.meta, incoming.object.clone());
        let (mut written, mut needs_whole) = (None, false);
        let applied = self.change_root(at, access, &mut |stored, paged, pages| {
            (written, needs_whole) = (None, false);
            let is_known = stored.digest == incoming.meta.digest;
            let merged = match is_known {
                true => PagesMerged::Known,
                false => steps.merge_pages(&paged, &theirs, incoming.rule, pages)?,
            };
            let becomes = match merged {
                PagesMerged::Known => {
                    check_pages(&paged, pages)?;
                    match needs_ticket {
                        true => NewForm::paged(Box::new(paged), n_val_class, pages)?,
                        false => NewForm::Same,
                    }
                }
                PagesMerged::Other => {
                    paged.remove_pages(pages)?;
                    as_it_came()
                }
                PagesMerged::Paged(merged) => match NewForm::paged(merged, n_val_class, pages)? {
                    becomes if needs_ticket => becomes,
                    becomes if becomes.meta().is_some_and(|meta| meta.digest == stored.digest) => {
                        NewForm::Same
                    }
                    becomes => becomes,
                },
                PagesMerged::Whole(object) if object.digest() == incoming.meta.digest => {
                    as_it_came()
                }
                PagesMerged::Whole(object) => NewForm::whole(&object, n_val_class),
                PagesMerged::NeedsWhole => {
                    needs_whole = true;
                    NewForm::Same
                }
            };
            written = becomes.meta();
            Ok(becomes)
        })?;
        Ok(match (applied, written) {
            (None, _) => None,
            (Some(_), _) if needs_whole => None,
            (Some(Applied::WouldBlock), _) => Some(None),
            (Some(Applied::Written(ticket)), Some(meta)) => {
                Some(Some(ApplyOutcome::Written(ticket, meta)))
            }
            (Some(applied @ (Applied::Written(_) | Applied::Kept)), _) => {
                debug_assert_eq!(
                    applied,
                    Applied::Kept,
                    "a record that was written has a new form"
                );
                Some(Some(ApplyOutcome::Known))
            }
        })
    }

    /// Removes a tombstone if the stored record is still that tombstone, by its digest. Returns true if it
    /// was removed.
    pub(crate) fn reap(&self, at: &RecordAt<'_>, digest: u64) -> Result<bool, StoreError> {
        let mut same = |stored: Option<&RecordRef<'_>>, _: &mut Vec<u8>| match stored {
            Some(record) if record.meta.tombstone && record.meta.digest == digest => {
                Decision::Remove
            }
            _ => Decision::Keep,
        };
        let applied = self.apply(at, BeforeImage::Read, IoMode::Wait, &mut same)?;
        Ok(matches!(applied, Applied::Written(_)))
    }
}

/// Decision that follows from a verdict. `is_damaged` is true if the record was found damaged.
fn decision_on(verdict: &Result<Verdict, RequestError>, is_damaged: bool) -> Decision {
    match verdict {
        Ok(Verdict::Put(meta)) => Decision::Put(*meta),
        // No object remains, so no other replica will ever send one that replaces the damaged record:
        // remove it.
        Ok(Verdict::Nothing) if is_damaged => Decision::Remove,
        Ok(Verdict::Keep | Verdict::Nothing | Verdict::Undecided | Verdict::WouldBlock)
        | Err(_) => Decision::Keep,
    }
}

/// Outcome of a merge, as [`Records::merge`] returns it; the outer `None` if the front of the stored record
/// was not enough to decide.
fn outcome_of(applied: Applied, verdict: Verdict) -> Option<Option<ApplyOutcome>> {
    match (applied, verdict) {
        (Applied::WouldBlock, _) | (_, Verdict::WouldBlock) => Some(None),
        (Applied::Written(ticket), Verdict::Put(meta)) => {
            Some(Some(ApplyOutcome::Written(ticket, meta)))
        }
        (Applied::Kept, Verdict::Keep) => Some(Some(ApplyOutcome::Known)),
        (Applied::Kept | Applied::Written(_), Verdict::Nothing) => {
            Some(Some(ApplyOutcome::Nothing))
        }
        _ => None,
    }
}

/// Reads all pages, one by one, and fails if one is damaged. An object that the copy already includes may
/// have been sent because a page is damaged here.
fn check_pages(paged: &PagedObject, pages: &mut WrittenPages<'_, '_>) -> Result<(), PageFault> {
    let mut names = Vec::new();
    paged.each_page_name(pages, &mut |name| names.push(name));
    for name in names {
        pages.read(name)?;
    }
    // This fails if a page that the root lists is missing.
    paged.rest(&Region::default(), pages).map(|_| ())
}

/// Merges an incoming object with the stored one, and appends to `out` the object that replaces it. May
/// leave the end of an object that is stored as it came in `rest`.
fn merge_with_stored(
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
