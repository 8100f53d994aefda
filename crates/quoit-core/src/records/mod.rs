//! Access to the records of this node's engine. Other parts see each object as a whole, however it is
//! stored.
//!
//! A small set or map is stored in one record. A large one is stored in pages: the record itself holds
//! the root, which lists the pages, and each page is a record of its own that only this module reads
//! ([`BucketRef::of_pieces`]). [`Records`] assembles the pages when a caller wants the whole object, and
//! divides an object into pages once it has become large. An operation that concerns few elements or
//! fields changes only their pages. Another copy of the object, or a plain value, is merged through the
//! root (`root_change.rs`).
//!
//! Other parts call methods that take a record in either form:
//!
//! - [`Records::show`], [`Records::get`] and [`Records::part`] read the object or a part of it;
//!   [`Records::content`] reads it as a value or as a stream of items.
//! - [`Records::change`] makes a change that a coordinator has decided. [`Records::merge`] merges another
//!   copy of the object, and [`Records::join`] the delta of an operation. All three read and write only the
//!   pages that they need. [`Records::update_plain`] writes plain objects in the shortest way.
//! - [`Records::apply`] changes the whole object by a function.
//! - [`Records::delete`] and [`Records::reap`] remove the record with its pages.
//! - [`Records::range_figures`], [`Records::read_ranges`] and [`Records::take_ranges`] make two copies
//!   equal by the ranges of items in which they differ.
//! - [`Records::begin_sending`] and [`Records::begin_staged`] move the pages from one node to another.
//! - [`RecordOutline`] and the functions of its module describe records as folds return them.
//!
//! A root and its pages belong together only as of one moment, because a writer replaces them in one
//! transaction. Readers first read without a transaction and check afterwards that the root has not
//! changed. After [`ATTEMPT_COUNT`] failed attempts they read in a transaction, which keeps writers
//! away.
//!
//! Every division takes a new *generation*, a number in the keys of the pages, so that pages of an older
//! state of the record are never mistaken for its own.
//!
//! [`BucketRef::of_pieces`]: quoit_model::key::BucketRef::of_pieces

mod arrival;
mod assemble;
mod change;
mod damaged;
mod dividing;
mod items;
mod join;
mod large;
mod merging;
mod outline;
mod pages;
mod part;
mod plain;
mod ranges;
mod root_change;
mod sent;
mod staged;

use crate::appended::appended;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::hash::Partition;
use quoit_model::object::Object;
use quoit_store::engine::{
    Applied, BeforeImage, ChangeFn, Decision, Engine, Fetch, InPlaceRead, Interrupted, IoMode,
    Record, RecordAt, RecordMeta, RecordRef, Transaction,
};
use quoit_store::error::StoreError;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub(crate) use arrival::{ApplyOutcome, ArrivalDecision, Replicated, merge};
pub(crate) use change::{
    ChangeOptions, ChangeSteps, Changed, DataTypeUpdate, DecidedChange, OperationOrigin, Pruning,
    RecordState, SentChange, ValueWrite,
};
use dividing::should_be_divided;
pub(crate) use items::{ItemStream, Items, ItemsOutline, RecordContent};
pub(crate) use join::{DecodedDelta, JoinOutcome, SentDelta};
pub(crate) use merging::MergeSteps;
pub(crate) use outline::{
    RecordOutline, clock_of, has_ranges, is_object, is_sent_by_pages, size_of,
};
use pages::{PageFault, WrittenPages};
pub(crate) use part::PartCopy;
pub(crate) use ranges::TakenRanges;
pub(crate) use sent::{ChangedPages, PassEnd, SentPages};
pub(crate) use staged::{NeededPages, StagedCallbacks, StagedOutcome, StagedPages, StagedRoot};

/// Number of attempts to read pages without a transaction. After them a transaction keeps writers away.
const ATTEMPT_COUNT: usize = 3;

/// Maximum number of pages that a call with [`IoMode::NoWait`] reads: about 100 microseconds of work.
const QUICK_PAGES_MAX: u32 = 32;

/// Number of old pages that one transaction removes.
const COLLECTED_COUNT: usize = 500;

/// The records of an engine; large sets and maps among them are stored in pages. Shared; every method
/// takes `&self`.
pub(crate) struct Records {
    engine: Arc<dyn Engine>,
    /// Time at which this process opened the engine, and the number of generations made since. With the
    /// identity of a record they give a generation that the record has not had before.
    started_us: u64,
    divided_count: AtomicU64,
    /// Generations of pages that other nodes have sent and that have no root yet.
    staged: Mutex<BTreeSet<u64>>,
}

/// Merges a stored and an incoming object.
pub(crate) type Merge<'a> = dyn Fn(&Object, &Object) -> Object + 'a;

/// Result of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Updated {
    Applied(Applied),
    /// The record is stored in pages; the change function was not called.
    InPages,
}

impl Records {
    pub(crate) fn new(engine: Arc<dyn Engine>, started_us: u64) -> Self {
        let (divided_count, staged) = (AtomicU64::new(0), Mutex::new(BTreeSet::new()));
        Self { engine, started_us, divided_count, staged }
    }

    /// As [`PointAccess::head`].
    pub(crate) fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        self.engine.head(at)
    }

    /// True if a record is stored in pages; `None` if the answer would have to wait for the disk.
    fn is_in_pages(&self, at: &RecordAt<'_>, access: IoMode) -> Result<Option<bool>, StoreError> {
        let mut is_paged = false;
        let mut look = |record: &RecordRef<'_>| is_paged = PagedObject::is_paged(record.value);
        let shown = self.engine.show(at, access, &mut look)?;
        Ok((shown != InPlaceRead::WouldBlock).then_some(is_paged))
    }

    /// As [`PointAccess::show`]. A record in pages is shown as a whole object.
    pub(crate) fn show(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<InPlaceRead, StoreError> {
        let mut paged = None;
        let shown = self.engine.show(at, access, &mut |record| {
            if PagedObject::is_paged(record.value) {
                paged = Some(record.to_record());
            } else {
                look(record);
            }
        })?;
        let Some(root) = paged else { return Ok(shown) };
        Ok(match self.whole(at, root, access)? {
            Fetch::Missing => InPlaceRead::Missing,
            Fetch::WouldBlock => InPlaceRead::WouldBlock,
            Fetch::Found(record) => {
                look(&RecordRef::shared(&record));
                InPlaceRead::Found
            }
        })
    }

    /// As [`PointAccess::update`] for records that are not in pages. A result that has become large is
    /// divided into pages afterwards.
    ///
    /// The change function may be called again if the record was changed in the meantime. With
    /// [`IoMode::NoWait`], a change whose result is large is not made and the answer is `WouldBlock`:
    /// not every engine can tell without waiting that it holds no pages of that name.
    fn update(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut ChangeFn<'_>,
    ) -> Result<Updated, StoreError> {
        let mut becomes_large = false;
        let applied = self.update_plain(at, before, access, None, &mut |stored, out, _| {
            let start = out.len();
            let decision = change(stored, out);
            becomes_large = matches!(decision, Decision::Put(_))
                && pages::can_have_pages(at)
                && should_be_divided(appended(out, start));
            if becomes_large && access == IoMode::NoWait { Decision::Keep } else { decision }
        })?;
        let updated = applied.map_or(Updated::InPages, Updated::Applied);
        Ok(self.divided_if(becomes_large, at, updated))
    }

    /// Stores, of several records of one partition, the ones under whose names nothing is stored yet:
    /// all of them or, if the transaction fails, none. Positions in `records` of names that are taken
    /// are left in `is_there`. No record may hold a data type, and no name may occur twice.
    pub(crate) fn insert(
        &self,
        partition: Partition,
        access: IoMode,
        records: &[(RecordAt<'_>, RecordMeta, &[u8])],
        is_there: &mut Vec<usize>,
    ) -> Result<Applied, StoreError> {
        let names = || records.iter().map(|(at, ..)| at.encoded).collect::<BTreeSet<_>>();
        debug_assert_eq!(names().len(), records.len(), "no name occurs twice");
        debug_assert!(
            records.iter().all(|(at, ..)| at.partition == partition),
            "a transaction is in one partition"
        );
        self.engine.transact(partition, access, &mut |transaction| {
            is_there.clear();
            for (place, (at, meta, value)) in records.iter().enumerate() {
                match transaction.get(at)? {
                    None => transaction.put(at, *meta, value)?,
                    Some(_) => is_there.push(place),
                }
            }
            Ok(())
        })
    }

    /// As [`PointAccess::update`] for every record. Pages are assembled for the change function.
    pub(crate) fn apply(
        &self,
        at: &RecordAt<'_>,
        before: BeforeImage,
        access: IoMode,
        change: &mut ChangeFn<'_>,
    ) -> Result<Applied, StoreError> {
        match self.update(at, before, access, change)? {
            Updated::Applied(applied) => Ok(applied),
            Updated::InPages => self.update_assembled(at, access, change),
        }
    }

    /// Changes a record in pages as a whole, for changes that can't be made page by page. With
    /// [`IoMode::NoWait`], a record of many pages gives `WouldBlock`.
    fn update_assembled(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        change: &mut ChangeFn<'_>,
    ) -> Result<Applied, StoreError> {
        let mut out = Vec::new();
        self.engine.transact(at.partition, access, &mut |transaction| {
            out.clear();
            change_together(transaction, at, access, change, &mut out)
        })
    }

    /// Files a record under another number of replicas without changing its value.
    pub(crate) fn refile(&self, at: &RecordAt<'_>, n_val_class: u8) -> Result<(), StoreError> {
        let refiled = self.engine.transact(at.partition, IoMode::Wait, &mut |transaction| {
            let Some(stored) = transaction.get(at)? else { return Ok(()) };
            let meta = RecordMeta { n_val_class, ..stored.meta };
            if meta == stored.meta { Ok(()) } else { transaction.put(at, meta, &stored.value) }
        });
        refiled.map(|_| ())
    }
}

/// Changes a record as a whole, as [`Records::update_assembled`] describes.
fn change_together(
    transaction: &mut dyn Transaction,
    at: &RecordAt<'_>,
    access: IoMode,
    change: &mut ChangeFn<'_>,
    out: &mut Vec<u8>,
) -> Result<(), Interrupted> {
    let stored = transaction.get(at)?;
    let paged = stored.as_ref().filter(|record| PagedObject::is_paged(&record.value));
    let Some(root) = paged else {
        let decision = change(stored.as_ref().map(RecordRef::shared).as_ref(), out);
        return decide(transaction, at, decision, out);
    };
    let paged = read_root(at, root)?;
    let mut pages = WrittenPages::new(&mut *transaction, at, paged.generation(), access);
    let object = paged.whole(&mut pages).map_err(|fault| fault.interrupts(at))?;
    let whole = Record { meta: root.meta, value: encoded(&object) };
    let decision = change(Some(&RecordRef::shared(&whole)), out);
    let left = match decision {
        Decision::Keep => return Ok(()),
        Decision::Remove => paged.remove_pages(&mut pages).map(|()| None),
        Decision::Put(_) => {
            let object = decoded(at, &Bytes::copy_from_slice(out))?;
            paged.replace(&object, &mut pages)
        }
    };
    let left = left.map_err(|fault| fault.interrupts(at))?;
    match (decision, left) {
        (Decision::Put(meta), Some(paged)) => pages.finish_with_root(&paged, meta),
        (decision, _) => {
            pages.finish()?;
            decide(transaction, at, decision, out)
        }
    }
}

fn decide(
    transaction: &mut dyn Transaction,
    at: &RecordAt<'_>,
    decision: Decision,
    out: &[u8],
) -> Result<(), Interrupted> {
    match decision {
        Decision::Keep => Ok(()),
        Decision::Put(meta) => transaction.put(at, meta, out),
        Decision::Remove => transaction.remove(at),
    }
}

fn put_root(
    transaction: &mut dyn Transaction,
    at: &RecordAt<'_>,
    paged: &PagedObject,
    meta: RecordMeta,
) -> Result<(), Interrupted> {
    let mut out = Vec::new();
    paged.encode_into(&mut out);
    debug_assert!(PagedObject::is_paged(&out), "a root is known by its first byte");
    transaction.put(at, meta, &out)
}

fn read_root(at: &RecordAt<'_>, root: &Record) -> Result<PagedObject, Interrupted> {
    PagedObject::decode(&root.value).map_err(|fault| PageFault::Form(fault).interrupts(at))
}

fn decoded(at: &RecordAt<'_>, stored: &Bytes) -> Result<Object, Interrupted> {
    Object::decode(stored).map_err(|fault| pages::corrupt(at, fault.to_string()).into())
}

fn encoded(object: &Object) -> Bytes {
    let mut out = Vec::new();
    object.encode_into(&mut out);
    out.into()
}

#[cfg(test)]
mod tests;
