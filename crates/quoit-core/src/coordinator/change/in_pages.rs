//! Changes of records that are stored in pages.
//!
//! A plain value or a delete removes from the pages the part of the state that its writer had seen, page
//! by page. If a part of the state stays, the other replicas are sent the write alone where that is
//! enough, because they hold pages of their own.

use super::{ChangeResults, NewWrite, ObjectChange, given_value, policy};
use crate::coordinator::Coordinator;
use crate::error::RequestError;
use crate::records::{NewForm, PageChange, PageFault, Records, WrittenPages};
use crate::replica::{Replicated, merge_rule};
use quoit_model::clock::{Dot, VersionVector};
use quoit_model::data_type::pages::{OtherCopy, PagedObject, PagesMerged};
use quoit_model::merge::WritePolicy;
use quoit_model::object::Object;
use quoit_model::props::BucketProps;
use quoit_number::length_u32;
use quoit_store::engine::{Access, Applied, Decision, RecordAt, RecordMeta};
use quoit_store::error::StoreError;
use std::cell::RefCell;

/// Change of a record in pages.
pub(crate) enum InPages<'c> {
    /// An operation of a data type, which reports its own outcome.
    Operation(&'c mut PageChange<'c>),
    /// A plain value or a delete.
    Write(&'c mut PageWrite<'c>),
}

/// Writes a value over a record in pages.
pub(crate) type PageWrite<'c> =
    dyn FnMut(PagedObject, &mut WrittenPages<'_, '_>) -> Result<PageWriteResult, PageFault> + 'c;

/// Result of such a write; `None` if the record has to be changed as a whole.
pub(crate) type PageWriteResult = Option<(NewForm, ChangeResults)>;

/// Result of a change of a record in pages.
pub(super) enum ChangedInPages {
    Applied(Applied),
    /// The record is no longer in pages.
    NotInPages,
    NeedsWhole,
}

/// Changes a record in pages, as `in_pages` says. `told` gets the results of a write; an operation reports
/// its own.
pub(super) fn change_in_pages(
    records: &Records,
    at: &RecordAt<'_>,
    access: Access,
    in_pages: &mut InPages<'_>,
    told: &RefCell<ChangeResults>,
) -> Result<ChangedInPages, StoreError> {
    // An attempt that had to wait may have found the record whole. Its results are those of a change that
    // was not made.
    *told.borrow_mut() = ChangeResults::default();
    let mut needs_whole = false;
    let applied = match in_pages {
        InPages::Operation(change) => records.change_pages(at, access, *change)?,
        InPages::Write(write) => records.change_root(at, access, &mut |_, paged, pages| {
            let written = write(paged, pages)?;
            needs_whole = written.is_none();
            let Some((becomes, now)) = written else { return Ok(NewForm::Same) };
            *told.borrow_mut() = now;
            Ok(becomes)
        })?,
    };
    Ok(match applied {
        None => ChangedInPages::NotInPages,
        Some(_) if needs_whole => ChangedInPages::NeedsWhole,
        Some(applied) => ChangedInPages::Applied(applied),
    })
}

impl Coordinator {
    /// Writes a value or a tombstone over a record in pages. Called under the record's lock.
    pub(super) fn write_in_pages(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        change: &ObjectChange<'_>,
        replicates: bool,
        paged: PagedObject,
        pages: &mut WrittenPages<'_, '_>,
    ) -> Result<PageWriteResult, PageFault> {
        let policy = policy(props, change.deleted);
        if let Some(given) = &change.given {
            if let Some(fault) = &change.refused {
                return Ok(Some(kept(Err(fault.clone()))));
            }
            let merged = merged_with_given(&paged, given, policy, pages)?;
            let merged = merged.unwrap_or_else(|| PagesMerged::Paged(Box::new(paged)));
            return self.written_over(at, props, change, replicates, (merged, 0, None), pages);
        }
        if !change.as_is && change.may_be_riak_data_type(policy, props) {
            return Ok(None);
        }
        let stored = paged.object();
        let replaced_us = stored.last_modified_us();
        let write = match self.new_write(at, props, policy, change, Some(stored), replaced_us) {
            Ok(Some(write)) => write,
            Ok(None) => return Ok(Some(kept(Ok(None)))),
            Err(fault) => return Ok(Some(kept(Err(fault)))),
        };
        let NewWrite { context, new, dot, now_us } = write;
        let mut alone = None;
        let merged = if change.as_is {
            let given = given_value(context, new, props);
            let merged = merged_with_given(&paged, &given, policy, pages)?;
            merged.unwrap_or_else(|| PagesMerged::Paged(Box::new(paged)))
        } else {
            let earlier = stored.clock.counter(&dot.actor);
            alone =
                (policy == WritePolicy::Siblings).then(|| (context.clone(), dot.clone(), earlier));
            paged.write(&context, new, dot, policy, pages)?
        };
        self.written_over(at, props, change, replicates, (merged, now_us, alone), pages)
    }

    /// Finishes a write over a record in pages. A record that has become small is stored whole again.
    fn written_over(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        change: &ObjectChange<'_>,
        replicates: bool,
        (merged, now_us, alone): Merged,
        pages: &mut WrittenPages<'_, '_>,
    ) -> Result<PageWriteResult, PageFault> {
        let merged = match merged {
            PagesMerged::Paged(merged) if merged.is_small() => {
                let whole = merged.whole(pages)?;
                merged.remove_pages(pages)?;
                PagesMerged::Whole(whole)
            }
            merged => merged,
        };
        Ok(match merged {
            PagesMerged::Whole(object) => {
                let mut out = Vec::new();
                let made = match &change.given {
                    Some(_) => self.check_siblings(&object).map(|()| Some(object)),
                    None => self.pruned(object, props, now_us).map(Some),
                };
                let (decision, told) = self.told_of(at, props, made, replicates, (&mut out, None));
                let becomes = match decision {
                    Decision::Keep => NewForm::Same,
                    Decision::Put(meta) => NewForm::Whole(meta, out.into()),
                    Decision::Remove => NewForm::Nothing,
                };
                Some((becomes, told))
            }
            PagesMerged::Paged(merged) => {
                let told = alone.and_then(|(context, dot, earlier)| {
                    merged.replication_object(&context, &dot, earlier)
                });
                let sent = PageWriteForms {
                    alone: told,
                    replicates,
                    returns_object: change.returns_object,
                };
                Some(self.left_in_pages(at, props, merged, sent, pages)?)
            }
            PagesMerged::Known | PagesMerged::Other | PagesMerged::NeedsWhole => None,
        })
    }

    /// Finishes a write after which a part of the state stays in pages, and prepares the messages about
    /// it.
    fn left_in_pages(
        &self,
        at: &RecordAt<'_>,
        props: &BucketProps,
        merged: Box<PagedObject>,
        sent: PageWriteForms,
        pages: &mut WrittenPages<'_, '_>,
    ) -> Result<(NewForm, ChangeResults), PageFault> {
        let PageWriteForms { alone, replicates, returns_object } = sent;
        let object = merged.object();
        let sibling_count = length_u32(object.siblings.len());
        if sibling_count > self.local.settings.limits.sibling_count_max {
            return Ok(kept(Err(RequestError::TooManySiblings(sibling_count))));
        }
        let mut root = Vec::new();
        object.encode_into(&mut root);
        if let Err(fault) = self.check_size(at.key, root.len() as u64 + merged.root().page_bytes())
        {
            return Ok(kept(Err(fault)));
        }
        self.warn_if_many(at.key, object);
        let n_val_class = RecordMeta::class_of(props.n_val);
        let is_all_sent = replicates && alone.is_none();
        let whole = (is_all_sent || returns_object).then(|| merged.whole(pages)).transpose()?;
        let sent = if is_all_sent { whole.clone() } else { alone.filter(|_| replicates) };
        let replicated =
            sent.map(|object| Replicated::new(&object, merge_rule(props), n_val_class));
        let outcome = Some(Ok(Some(whole.unwrap_or_else(|| object.clone()))));
        let becomes = NewForm::paged(merged, n_val_class, pages)?;
        Ok((becomes, ChangeResults { outcome, replicated }))
    }
}

/// Result of a write over a record in pages; its time; and, if the other replicas may need only the
/// write, the writer's context, the write's event, and the counter of this actor's event before it.
type Merged = (PagesMerged, u64, Option<(VersionVector, Dot, u64)>);

/// Merges a record in pages with an object from elsewhere; `None` if that brings nothing new.
fn merged_with_given(
    paged: &PagedObject,
    given: &Object,
    policy: WritePolicy,
    pages: &mut WrittenPages<'_, '_>,
) -> Result<Option<PagesMerged>, PageFault> {
    let merged = match policy {
        WritePolicy::LastWriteWins => paged.merge_last_write_wins(given, pages)?,
        _ => paged.merge(OtherCopy::Whole(given), pages)?,
    };
    Ok(match merged {
        PagesMerged::Other => {
            paged.remove_pages(pages)?;
            Some(PagesMerged::Whole(given.clone()))
        }
        PagesMerged::Known => None,
        merged => Some(merged),
    })
}

/// Receivers of a write, and the form that each receives.
struct PageWriteForms {
    /// The write alone, if that is enough for the other replicas.
    alone: Option<Object>,
    replicates: bool,
    returns_object: bool,
}

/// Result of a change that wrote nothing.
fn kept(outcome: Result<Option<Object>, RequestError>) -> (NewForm, ChangeResults) {
    (NewForm::Same, ChangeResults { outcome: Some(outcome), replicated: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Place;
    use crate::records::Updated;
    use bytes::Bytes;
    use quoit_model::clock::Actor;
    use quoit_model::data_type::{EventOrigin, Operation, SetChange};
    use quoit_model::hash::{Partition, RingSize};
    use quoit_model::hll::Precision;
    use quoit_model::key::BucketRef;
    use quoit_seam::ManualClock;
    use quoit_store::engine::{Before, RecordRef};
    use quoit_store::memory::{MemoryEngine, MemorySettings};
    use quoit_wire::internode::data::MergeRule;
    use std::sync::Arc;

    /// A set that is too large for one record.
    fn large_set() -> Object {
        let element = |number: u16| SetChange::Add(Bytes::from(format!("element {number:05}")));
        let operation = Operation::Set((0..300).map(element).collect());
        let actor = Actor(b"incarnation"[..].into());
        let hll_precision = Precision::default();
        let author = EventOrigin { actor: &actor, time_secs: 1, now_us: 1, hll_precision };
        Object::update_data_type(None, &operation, None, author, None).expect("elements are added")
    }

    fn put(records: &Records, at: &RecordAt<'_>, object: &Object, access: Access) -> Updated {
        let mut change = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            object.encode_into(out);
            Decision::Put(RecordMeta::of(object, 3))
        };
        records.update(at, Before::Read, access, &mut change).expect("memory does not fail")
    }

    #[test]
    fn an_operation_in_pages_has_no_result_of_an_attempt_that_found_the_record_whole() {
        let ring_size = RingSize::new(8).expect("8 is a ring size");
        let clock = Arc::new(ManualClock::at(1));
        let engine = MemoryEngine::new(MemorySettings::default(), ring_size, clock);
        let records = Records::new(Arc::new(engine), 1);
        let name = BucketRef { bucket_type: b"sets", bucket: b"bucket" }.key(b"key").encoded();
        let place = Place::new(&name, Partition(3)).expect("it is a name");
        let (at, object) = (place.at(), large_set());
        // An attempt that may not wait makes its result, and then has to wait to divide the record.
        let attempt = put(&records, &at, &object, Access::NoWait);
        assert_eq!(attempt, Updated::Applied(Applied::WouldBlock));
        let replicated = Some(Replicated::new(&object, MergeRule::Causal, 3));
        let of_attempt = ChangeResults { outcome: Some(Ok(Some(object.clone()))), replicated };
        // Another writer is faster and divides it.
        put(&records, &at, &object, Access::Wait);
        let told = RefCell::new(of_attempt);
        let mut change = |paged: PagedObject,
                          _: &mut WrittenPages<'_, '_>|
         -> Result<Option<PagedObject>, PageFault> { Ok(Some(paged)) };
        let mut in_pages = InPages::Operation(&mut change);
        let changed = change_in_pages(&records, &at, Access::Wait, &mut in_pages, &told);
        assert!(matches!(changed, Ok(ChangedInPages::Applied(Applied::Written(_)))));
        let ChangeResults { outcome, replicated } = told.take();
        assert!(
            outcome.is_none() && replicated.is_none(),
            "they are of a change that was not made"
        );
    }
}
