//! Changes records that lie in pages without putting them together.

use super::pages::{PageChange, PageFault, WrittenPages};
use super::{Records, encoded, put_root, read_root, should_be_divided};
use bytes::Bytes;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::object::Object;
use quoit_store::engine::{Access, Applied, Interrupted, RecordAt, RecordMeta};
use quoit_store::error::StoreError;

/// New form of a record in pages.
pub(crate) enum Becomes {
    /// The form that it had; writes to its pages do not count.
    Same,
    /// A record in pages, of which those are written that differ.
    Paged(RecordMeta, Box<PagedObject>),
    /// Something of this stored form. Its pages are removed.
    Whole(RecordMeta, Bytes),
    /// It is removed, and so are its pages.
    Nothing,
}

impl Becomes {
    /// The form of a record that lies in pages: still in pages, or the whole object where little is
    /// left in them.
    pub(crate) fn paged(
        paged: Box<PagedObject>,
        n_val_class: u8,
        pages: &mut WrittenPages<'_, '_>,
    ) -> Result<Self, PageFault> {
        if !paged.is_small() {
            return Ok(Self::Paged(RecordMeta::of(paged.object(), n_val_class), paged));
        }
        let whole = paged.whole(pages)?;
        paged.remove_pages(pages)?;
        Ok(Self::whole(&whole, n_val_class))
    }

    /// A whole object. Its pages are removed.
    pub(crate) fn whole(object: &Object, n_val_class: u8) -> Self {
        Self::Whole(RecordMeta::of(object, n_val_class), encoded(object))
    }

    /// The metadata for the engine; `None` where nothing is written.
    pub(crate) const fn meta(&self) -> Option<RecordMeta> {
        match self {
            Self::Same | Self::Nothing => None,
            Self::Paged(meta, _) | Self::Whole(meta, _) => Some(*meta),
        }
    }
}

/// A change of a record in pages: gets what the engine knows of it, the record with its root, and the pages.
pub(crate) type RootChange<'c> =
    dyn FnMut(&RecordMeta, PagedObject, &mut WrittenPages<'_, '_>) -> RootChanged + 'c;

/// Result of such a change.
pub(crate) type RootChanged = Result<Becomes, PageFault>;

impl Records {
    /// Changes a record in pages; the answer is `None` when it does not lie in pages. The change may be
    /// called several times; what it did last counts. To read or remove many pages, and to divide anew what
    /// it becomes, counts as having to wait.
    pub(crate) fn change_root(
        &self,
        at: &RecordAt<'_>,
        access: Access,
        change: &mut RootChange<'_>,
    ) -> Result<Option<Applied>, StoreError> {
        let (mut is_paged, mut is_large) = (false, false);
        let applied = self.engine.transact(at.partition, access, &mut |transaction| {
            is_large = false;
            let stored = transaction.get(at)?;
            is_paged = stored.as_ref().is_some_and(|record| PagedObject::is_one(&record.value));
            let Some(root) = stored.filter(|_| is_paged) else { return Ok(()) };
            let paged = read_root(at, &root)?;
            let mut pages = WrittenPages::new(&mut *transaction, at, paged.generation(), access);
            let becomes = change(&root.meta, paged, &mut pages);
            match becomes.map_err(|fault| fault.interrupts(at))? {
                Becomes::Same => Ok(()),
                Becomes::Paged(meta, paged) => {
                    pages.finish()?;
                    put_root(transaction, at, &paged, meta)
                }
                Becomes::Whole(meta, value) => {
                    is_large = should_be_divided(&value);
                    if is_large && access == Access::NoWait {
                        return Err(Interrupted::by_long_work());
                    }
                    pages.finish()?;
                    transaction.put(at, meta, &value)
                }
                Becomes::Nothing => {
                    pages.finish()?;
                    transaction.remove(at)
                }
            }
        })?;
        if is_large
            && matches!(applied, Applied::Written(_))
            && let Err(fault) = self.divide(at)
        {
            // The record is stored as it was written, and will be divided by the next write.
            tracing::warn!(%fault, "a large set or map could not be divided into pages");
        }
        Ok((is_paged || applied == Applied::WouldBlock).then_some(applied))
    }

    /// As [`Records::change_root`], by a change that leaves it in pages.
    pub(crate) fn change_pages(
        &self,
        at: &RecordAt<'_>,
        access: Access,
        change: &mut PageChange<'_>,
    ) -> Result<Option<Applied>, StoreError> {
        self.change_root(at, access, &mut |meta, paged, pages| match change(paged, pages)? {
            Some(paged) => Becomes::paged(Box::new(paged), meta.n_val_class, pages),
            None => Ok(Becomes::Same),
        })
    }
}
