//! Changes of large sets and maps, which read and write only the pages that they concern.
//!
//! An operation changes the pages of its items, and the other replicas are sent a delta. A plain value or a
//! delete removes from the pages the part of the state that its writer had seen, page by page. If a part of
//! the state stays, the other replicas are sent the write alone where that is enough, because they hold
//! pages of their own.

use super::decided::{
    ChangeAction, DataTypeUpdate, DecidedChange, Pruning, RecordState, ValueWrite, finished,
};
use super::{ChangeOptions, ChangeResults, ChangeRun, ChangeSteps, SentChange};
use crate::error::{DataTypeError, RequestError};
use crate::records::pages::{PageFault, WrittenPages};
use crate::records::root_change::NewForm;
use crate::records::{Replicated, SentDelta};
use quoit_model::clock::{Dot, VersionVector};
use quoit_model::data_type::pages::{OtherCopy, PagedObject, PagesMerged};
use quoit_model::merge::WritePolicy;
use quoit_model::object::Object;
use quoit_store::engine::{Applied, Decision, RecordMeta};
use quoit_store::error::StoreError;
use quoit_wire::internode::data::MergeRule;
use std::borrow::Cow;

/// A write of which the other replicas may need nothing else.
struct WriteAlone {
    /// Causal context of the writer.
    context: VersionVector,
    /// The write's event.
    dot: Dot,
    /// Counter of this actor's event before it.
    earlier: u64,
}

impl<S: ChangeSteps> ChangeRun<'_, S> {
    /// Applies the change to the pages of a record; `None` if the record is no longer in pages.
    pub(super) fn change_by_pages(&mut self) -> Result<Option<Applied>, StoreError> {
        // An earlier run may have found the record whole. Its results are those of a change that was not
        // made.
        self.results = ChangeResults::default();
        let (records, at, access) = (self.records, self.at, self.access);
        records.change_root(at, access, &mut |stored, paged, pages| {
            self.results = ChangeResults::default();
            self.changed_pages(stored, paged, pages)
        })
    }

    fn changed_pages(
        &mut self,
        stored: &RecordMeta,
        paged: PagedObject,
        pages: &mut WrittenPages<'_, '_>,
    ) -> Result<NewForm, PageFault> {
        if self.options.needs_items {
            return Ok(self.left_to_whole());
        }
        let steps = self.steps;
        let DecidedChange { action, pruning } =
            match steps.decide(&RecordState::Stored(Cow::Borrowed(paged.object()))) {
                Ok(Some(change)) => change,
                Ok(None) => return Ok(NewForm::Same),
                Err(fault) => return Ok(self.refused(fault)),
            };
        match action {
            ChangeAction::Merge(given, rule) => {
                let merged = merged_with_given(paged, &given, rule, pages)?;
                self.written_over(merged, pruning.as_ref(), None, pages)
            }
            ChangeAction::Write(ValueWrite { context, new, dot, policy, .. }) => {
                let earlier = paged.object().clock.counter(&dot.actor);
                let alone = (policy == WritePolicy::Siblings).then(|| WriteAlone {
                    context: context.clone(),
                    dot: dot.clone(),
                    earlier,
                });
                let merged = paged.write(&context, new, dot, policy, pages)?;
                self.written_over(merged, pruning.as_ref(), alone, pages)
            }
            ChangeAction::Update(update) => self.update_pages(stored, paged, &update, pages),
        }
    }

    /// Runs an operation, and makes the delta for the other replicas.
    fn update_pages(
        &mut self,
        stored: &RecordMeta,
        paged: PagedObject,
        update: &DataTypeUpdate<'_>,
        pages: &mut WrittenPages<'_, '_>,
    ) -> Result<NewForm, PageFault> {
        let DataTypeUpdate { operation, context, origin, .. } = update;
        let siblings = &paged.object().siblings;
        let has_dropped_tombstones = siblings.iter().any(|sibling| !sibling.is_data_type());
        let began_us = self.steps.monotonic_us();
        let updated = paged.update(operation, *context, origin.event_origin(), pages)?;
        let (paged, delta) = match updated {
            Ok(updated) => updated,
            Err(fault) => return Ok(self.refused(DataTypeError::from(fault).into())),
        };
        self.steps.note_update(operation, began_us, paged.object());
        let mut encoded = Vec::new();
        delta.encode_into(&mut encoded);
        self.results.sent = Some(SentChange::Delta(SentDelta {
            n_val_class: self.options.n_val_class,
            last_modified_us: origin.now_us,
            delta: encoded.into(),
            has_dropped_tombstones,
        }));
        NewForm::paged(Box::new(paged), stored.n_val_class, pages)
    }

    /// Finishes a write or a merge over a record in pages. A record that has become small is stored whole
    /// again.
    fn written_over(
        &mut self,
        merged: PagesMerged,
        pruning: Option<&Pruning>,
        alone: Option<WriteAlone>,
        pages: &mut WrittenPages<'_, '_>,
    ) -> Result<NewForm, PageFault> {
        let object = match merged {
            PagesMerged::Paged(merged) if merged.is_small() => {
                let object = merged.whole(pages)?;
                merged.remove_pages(pages)?;
                object
            }
            PagesMerged::Paged(merged) => return self.left_in_pages(merged, alone, pages),
            PagesMerged::Whole(object) => object,
            PagesMerged::Known | PagesMerged::Other | PagesMerged::NeedsWhole => {
                return Ok(self.left_to_whole());
            }
        };
        let mut out = Vec::new();
        let stored = finished(object, pruning, self.steps)
            .and_then(|object| self.store(object, &mut out, None));
        Ok(match stored {
            Ok(Decision::Keep) => NewForm::Same,
            Ok(Decision::Put(meta)) => NewForm::Whole(meta, out.into()),
            Ok(Decision::Remove) => NewForm::Nothing,
            Err(fault) => self.refused(fault),
        })
    }

    /// Finishes a write or a merge after which a part of the state stays in pages, and makes the form for
    /// the other replicas.
    fn left_in_pages(
        &mut self,
        merged: Box<PagedObject>,
        alone: Option<WriteAlone>,
        pages: &mut WrittenPages<'_, '_>,
    ) -> Result<NewForm, PageFault> {
        let ChangeOptions { replicates, returns_object, rule, n_val_class, .. } = *self.options;
        if let Err(fault) = self.check_left(&merged) {
            return Ok(self.refused(fault));
        }
        let alone =
            alone.filter(|_| replicates).and_then(|WriteAlone { context, dot, earlier }| {
                merged.replication_object(&context, &dot, earlier)
            });
        let is_all_sent = replicates && alone.is_none();
        let whole = (is_all_sent || returns_object).then(|| merged.whole(pages)).transpose()?;
        let sent = if is_all_sent { whole.as_ref() } else { alone.as_ref() };
        self.results.sent =
            sent.map(|object| SentChange::Object(Replicated::new(object, rule, n_val_class)));
        self.results.object = Some(whole.unwrap_or_else(|| merged.object().clone()));
        NewForm::paged(merged, n_val_class, pages)
    }

    /// Refuses a record in pages that is too large or has too many siblings.
    fn check_left(&self, merged: &PagedObject) -> Result<(), RequestError> {
        let object = merged.object();
        self.steps.check_siblings(object)?;
        let mut root = Vec::new();
        object.encode_into(&mut root);
        self.steps.check_size(object, root.len() as u64 + merged.root().page_bytes())
    }

    /// Leaves the record unchanged, because the change can only be applied to the whole object.
    fn left_to_whole(&mut self) -> NewForm {
        self.results.needs_whole = true;
        NewForm::Same
    }

    /// Leaves the record unchanged, because the change was refused.
    fn refused(&mut self, fault: RequestError) -> NewForm {
        self.results.fault = Some(fault);
        NewForm::Same
    }
}

/// Merges a record in pages with an object from elsewhere.
///
/// A record that includes the object already is written and sent again: the first write may not be synced
/// yet or may not have reached the other replicas, and this one is acknowledged when it has.
fn merged_with_given(
    paged: PagedObject,
    given: &Object,
    rule: MergeRule,
    pages: &mut WrittenPages<'_, '_>,
) -> Result<PagesMerged, PageFault> {
    let merged = match rule {
        MergeRule::LastWriteWins => paged.merge_last_write_wins(given, pages)?,
        MergeRule::Causal => paged.merge(OtherCopy::Whole(given), pages)?,
    };
    Ok(match merged {
        PagesMerged::Other => {
            paged.remove_pages(pages)?;
            PagesMerged::Whole(given.clone())
        }
        PagesMerged::Known => PagesMerged::Paged(Box::new(paged)),
        merged => merged,
    })
}
