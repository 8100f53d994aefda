//! The records of this node's engine, as coordination sees them: an object is whole, however it is stored.
//!
//! A large set or map lies in pages: pieces of its record ([`KeyRef::piece`]), which are found by a root
//! in the record itself. Here they are put together where somebody wants the whole object, divided where
//! one has become large, and changed one by one where an operation says which of them it is about
//! ([`Records::change_pages`]), or where another copy or a plain value comes ([`Records::change_root`]).
//!
//! [`KeyRef::piece`]: quoit_model::key::KeyRef::piece

mod change;
mod items;
mod pages;
mod part;
mod ranges;
mod sent;
mod staged;
mod together;

use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::hash::Partition;
use quoit_model::key::{BucketRef, PIECE_TYPE};
use quoit_model::object::Object;
use quoit_store::engine::{
    Access, Applied, Before, Change, Decision, Engine, Fetch, Interrupted, KeyRange, Record,
    RecordAt, RecordMeta, RecordRef, Shown, Transaction,
};
use quoit_store::error::StoreError;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

pub(crate) use change::Becomes;
pub(crate) use items::Items;
pub(crate) use pages::{PageChange, PageFault, WrittenPages};
pub(crate) use part::PartCopy;
pub(crate) use ranges::TakenRanges;
pub(crate) use sent::{ChangedPages, PassEnd, SentPages};
pub(crate) use staged::{AroundStaged, StagedPages, Unstaged};
pub(crate) use together::{clock_of, size_of};

/// How often pages are read without keeping writers away, before they are.
const ATTEMPT_COUNT: usize = 3;

/// Pages that a call which must not wait reads: some 100 microseconds of work.
const QUICK_PAGES_MAX: u32 = 32;

/// Old pages that are removed at once.
const COLLECTED_COUNT: usize = 500;

/// Records of which some lie in pages.
pub(crate) struct Records {
    engine: Arc<dyn Engine>,
    /// When this process began to use the engine, and a number for each record divided since: together they
    /// make a generation of pages that no record had before.
    started_us: u64,
    divided_count: AtomicU64,
    /// Generations of pages that come from other nodes and have no root yet.
    staged: Mutex<BTreeSet<u64>>,
}

/// Result of a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Updated {
    Applied(Applied),
    /// The record lies in pages; the change function was not called.
    InPages,
}

impl Records {
    pub(crate) fn new(engine: Arc<dyn Engine>, started_us: u64) -> Self {
        let (divided_count, staged) = (AtomicU64::new(0), Mutex::new(BTreeSet::new()));
        Self { engine, started_us, divided_count, staged }
    }

    /// A generation that no pages of a record have had before.
    fn new_generation(&self, at: &RecordAt<'_>) -> u64 {
        let number = self.divided_count.fetch_add(1, Ordering::Relaxed);
        let mut seed = [0; 24];
        seed[..8].copy_from_slice(&self.started_us.to_le_bytes());
        seed[8..16].copy_from_slice(&number.to_le_bytes());
        seed[16..].copy_from_slice(&at.identity.0.to_le_bytes());
        xxh3_64(&seed)
    }

    /// As [`PointAccess::head`].
    pub(crate) fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        self.engine.head(at)
    }

    /// Whether a record lies in pages; `None` where the disk would have to be waited for.
    pub(crate) fn is_in_pages(
        &self,
        at: &RecordAt<'_>,
        access: Access,
    ) -> Result<Option<bool>, StoreError> {
        let mut is_paged = false;
        let mut look = |record: &RecordRef<'_>| is_paged = PagedObject::is_one(record.value);
        let shown = self.engine.show(at, access, &mut look)?;
        Ok((shown != Shown::WouldBlock).then_some(is_paged))
    }

    /// As [`PointAccess::show`].
    pub(crate) fn show(
        &self,
        at: &RecordAt<'_>,
        access: Access,
        look: &mut dyn FnMut(&RecordRef<'_>),
    ) -> Result<Shown, StoreError> {
        let mut paged = None;
        let shown = self.engine.show(at, access, &mut |record| {
            if PagedObject::is_one(record.value) {
                paged = Some(record.to_record());
            } else {
                look(record);
            }
        })?;
        let Some(root) = paged else { return Ok(shown) };
        Ok(match self.whole(at, root, access)? {
            Fetch::Missing => Shown::Missing,
            Fetch::WouldBlock => Shown::WouldBlock,
            Fetch::Found(record) => {
                look(&RecordRef::shared(&record));
                Shown::Found
            }
        })
    }

    /// As [`PointAccess::update`] for records that are not in pages, by a change that stores no data type.
    pub(crate) fn update_plain(
        &self,
        at: &RecordAt<'_>,
        before: Before,
        access: Access,
        change: &mut Change<'_>,
    ) -> Result<Updated, StoreError> {
        let mut is_paged = false;
        let applied = self.engine.update(at, before, access, &mut |stored, out| {
            is_paged = stored.is_some_and(|record| PagedObject::is_one(record.value));
            if is_paged { Decision::Keep } else { change(stored, out) }
        })?;
        Ok(if is_paged { Updated::InPages } else { Updated::Applied(applied) })
    }

    /// As [`PointAccess::update`] for records that are not in pages; what has become large is divided into
    /// some.
    /// The change may be called again where others have changed the record meanwhile. One that becomes large
    /// counts as one that has to wait, and is not changed: it is not known of all engines without waiting
    /// that they have no such pages.
    pub(crate) fn update(
        &self,
        at: &RecordAt<'_>,
        before: Before,
        access: Access,
        change: &mut Change<'_>,
    ) -> Result<Updated, StoreError> {
        let mut becomes_large = false;
        let updated = self.update_plain(at, before, access, &mut |stored, out| {
            let start = out.len();
            let decision = change(stored, out);
            becomes_large = matches!(decision, Decision::Put(_))
                && pages::can_have_pages(at)
                && should_be_divided(&out[start..]);
            if becomes_large && access == Access::NoWait { Decision::Keep } else { decision }
        })?;
        if becomes_large && updated == Updated::Applied(Applied::Kept) {
            return Ok(Updated::Applied(Applied::WouldBlock));
        }
        if becomes_large
            && matches!(updated, Updated::Applied(Applied::Written(_)))
            && let Err(fault) = self.divide(at)
        {
            // The record is stored as it was written, and will be divided by the next write.
            tracing::warn!(%fault, "a large set or map could not be divided into pages");
        }
        Ok(updated)
    }

    /// Stores those of several records of one partition under whose names nothing is stored, all or none of
    /// them. The places of the others are left in `is_there`. None of them may be a data type, and no two of
    /// them the same record.
    pub(crate) fn insert(
        &self,
        partition: Partition,
        access: Access,
        records: &[(RecordAt<'_>, RecordMeta, &[u8])],
        is_there: &mut Vec<usize>,
    ) -> Result<Applied, StoreError> {
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

    /// As [`PointAccess::update`] with [`Before::Skip`], of a record that is damaged: its pages go as well,
    /// whether or not anything leads to them any more. Counts as a call that has to wait.
    pub(crate) fn replace_damaged(
        &self,
        at: &RecordAt<'_>,
        access: Access,
        change: &mut Change<'_>,
    ) -> Result<Applied, StoreError> {
        if access == Access::NoWait {
            return Ok(Applied::WouldBlock);
        }
        let applied = self.engine.update(at, Before::Skip, access, change)?;
        if matches!(applied, Applied::Written(_))
            && let Err(fault) = self.collect_pages(at)
        {
            // They take space, and are never read again.
            tracing::warn!(%fault, "old pages of a damaged record could not be removed");
        }
        Ok(applied)
    }

    /// Removes the pages of a record that do not belong to what it is now, nor come for it at present.
    fn collect_pages(&self, at: &RecordAt<'_>) -> Result<(), StoreError> {
        let pieces = BucketRef { bucket_type: PIECE_TYPE, bucket: at.encoded };
        let mut after = None;
        loop {
            let listed = self.engine.list_keys(
                KeyRange::Bucket(pieces),
                after.as_deref(),
                COLLECTED_COUNT,
            )?;
            self.engine.transact(at.partition, Access::Wait, &mut |transaction| {
                let stored = transaction.get(at)?;
                let stored = stored.filter(|record| PagedObject::is_one(&record.value));
                let paged = stored.map(|root| read_root(at, &root)).transpose()?;
                let generation = paged.as_ref().map(PagedObject::generation);
                let staged = self.staged.lock();
                let stays = |of| generation == Some(of) || staged.contains(&of);
                for (key, _) in &listed.entries {
                    pages::remove_of_others(transaction, at, key, stays)?;
                }
                Ok(())
            })?;
            after = listed.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    /// As [`PointAccess::update`], wherever the record lies: what is in pages is put together for the change.
    pub(crate) fn update_whole(
        &self,
        at: &RecordAt<'_>,
        before: Before,
        access: Access,
        change: &mut Change<'_>,
    ) -> Result<Applied, StoreError> {
        match self.update(at, before, access, change)? {
            Updated::Applied(applied) => Ok(applied),
            Updated::InPages => self.update_together(at, access, change),
        }
    }

    /// Changes a record that lies in pages as a whole: where nothing less will do. One of many
    /// pages counts as
    /// one that has to wait.
    pub(crate) fn update_together(
        &self,
        at: &RecordAt<'_>,
        access: Access,
        change: &mut Change<'_>,
    ) -> Result<Applied, StoreError> {
        let mut out = Vec::new();
        self.engine.transact(at.partition, access, &mut |transaction| {
            out.clear();
            let stored = transaction.get(at)?;
            let paged = stored.as_ref().filter(|record| PagedObject::is_one(&record.value));
            let Some(root) = paged else {
                let decision = change(stored.as_ref().map(RecordRef::shared).as_ref(), &mut out);
                return decide(transaction, at, decision, &out);
            };
            let paged = read_root(at, root)?;
            let mut pages = WrittenPages::new(&mut *transaction, at, paged.generation(), access);
            let object = paged.whole(&mut pages).map_err(|fault| fault.interrupts(at))?;
            let whole = Record { meta: root.meta, value: encoded(&object) };
            let decision = change(Some(&RecordRef::shared(&whole)), &mut out);
            let left = match decision {
                Decision::Keep => return Ok(()),
                Decision::Remove => paged.remove_pages(&mut pages).map(|()| None),
                Decision::Put(_) => {
                    let object = decoded(at, &Bytes::copy_from_slice(&out))?;
                    paged.replace(&object, &mut pages)
                }
            };
            let left = left.map_err(|fault| fault.interrupts(at))?;
            pages.finish()?;
            match (decision, left) {
                (Decision::Put(meta), Some(paged)) => put_root(transaction, at, &paged, meta),
                (decision, _) => decide(transaction, at, decision, &out),
            }
        })
    }

    /// Files a record under another number of replicas, as it is.
    pub(crate) fn refile(&self, at: &RecordAt<'_>, n_val_class: u8) -> Result<(), StoreError> {
        let refiled = self.engine.transact(at.partition, Access::Wait, &mut |transaction| {
            let Some(stored) = transaction.get(at)? else { return Ok(()) };
            let meta = RecordMeta { n_val_class, ..stored.meta };
            if meta == stored.meta { Ok(()) } else { transaction.put(at, meta, &stored.value) }
        });
        refiled.map(|_| ())
    }

    /// Divides a record that has become large. Its value is the same before and after; where it can't be
    /// divided now, that is done when it is next written.
    fn divide(&self, at: &RecordAt<'_>) -> Result<(), StoreError> {
        let generation = self.new_generation(at);
        let divided = self.engine.transact(at.partition, Access::Wait, &mut |transaction| {
            let Some(stored) = transaction.get(at)? else { return Ok(()) };
            if PagedObject::is_one(&stored.value) {
                return Ok(());
            }
            let object = decoded(at, &stored.value)?;
            if !PagedObject::should_be(&object) {
                return Ok(());
            }
            let mut pages = WrittenPages::new(&mut *transaction, at, generation, Access::Wait);
            let divided = PagedObject::divide(&object, generation, &mut pages);
            let divided = divided.map_err(|fault| fault.interrupts(at))?;
            pages.finish()?;
            match divided {
                Some(paged) => put_root(transaction, at, &paged, stored.meta),
                None => Ok(()),
            }
        });
        divided.map(|_| ())
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

/// Whether a stored object is one whose state is better divided. Values of other kinds are told by a look
/// at their front.
fn should_be_divided(stored: &[u8]) -> bool {
    PagedObject::may_be(stored)
        && Object::decode(&Bytes::copy_from_slice(stored))
            .is_ok_and(|object| PagedObject::should_be(&object))
}

#[cfg(test)]
mod tests;
