//! Merges an incoming object into a copy that is stored in pages.

use super::{ApplyOutcome, MergeSteps, Replica, Replicated};
use crate::records::{NewForm, PageFault, Records, WrittenPages};
use crate::stored::decode;
use quoit_model::data_type::pages::{OtherCopy, PagedObject, Pages, PagesMerged, Region};
use quoit_model::object::Object;
use quoit_store::engine::{Access, Applied, RecordAt};
use quoit_store::error::StoreError;
use quoit_wire::internode::data::MergeRule;

/// As [`Merge`](super::Merge), for a stored object in pages.
pub(super) type MergePages<'a> =
    dyn Fn(&PagedObject, &Object, &mut WrittenPages<'_, '_>) -> Result<PagesMerged, PageFault> + 'a;

impl Replica {
    /// As [`Replica::merged`], for a local copy in pages.
    pub(super) fn merged_pages(
        &self,
        ours: &PagedObject,
        theirs: &Object,
        rule: MergeRule,
        pages: &mut WrittenPages<'_, '_>,
    ) -> Result<PagesMerged, PageFault> {
        let began_us = self.local.clock.monotonic_us();
        let merged = merge_pages(ours, theirs, rule, pages)?;
        let datatype = match &merged {
            PagesMerged::NeedsWhole => return Ok(merged),
            PagesMerged::Known | PagesMerged::Paged(_) => Some(ours.root().datatype()),
            PagesMerged::Other => theirs.datatype(),
            PagesMerged::Whole(object) => object.datatype(),
        };
        self.local.stats.record_merge(self.local.clock.monotonic_us() - began_us, datatype);
        Ok(merged)
    }
}

/// As [`merge`](super::merge), for a local copy in pages.
pub(super) fn merge_pages(
    ours: &PagedObject,
    theirs: &Object,
    rule: MergeRule,
    pages: &mut WrittenPages<'_, '_>,
) -> Result<PagesMerged, PageFault> {
    match rule {
        MergeRule::Causal => ours.merge(OtherCopy::Whole(theirs), pages),
        MergeRule::LastWriteWins => ours.merge_last_write_wins(theirs, pages),
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

/// As [`take`](super::take), for a record in pages, which are merged one by one. The outer `None` means
/// that the record is no longer in pages or can only be merged as a whole; the inner `None`, that the
/// merge would have to wait for the disk.
pub(super) fn take_in_pages(
    records: &Records,
    at: &RecordAt<'_>,
    incoming: &Replicated,
    needs_ticket: bool,
    access: Access,
    around: &MergeSteps<'_>,
) -> Result<Option<Option<ApplyOutcome>>, StoreError> {
    // The merge as a whole reports an incoming object that can't be decoded.
    let Ok(theirs) = decode(&incoming.object) else { return Ok(None) };
    let n_val_class = incoming.meta.n_val_class;
    let as_it_came = || NewForm::Whole(incoming.meta, incoming.object.clone());
    let (mut written, mut needs_whole) = (None, false);
    let applied = records.change_root(at, access, &mut |stored, paged, pages| {
        (written, needs_whole) = (None, false);
        let is_known = stored.digest == incoming.meta.digest;
        let merged = match is_known {
            true => PagesMerged::Known,
            false => (around.merged_pages)(&paged, &theirs, pages)?,
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
            PagesMerged::Whole(object) if object.digest() == incoming.meta.digest => as_it_came(),
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
            debug_assert_eq!(applied, Applied::Kept, "a record that was written has a new form");
            Some(Some(ApplyOutcome::Known))
        }
    })
}
