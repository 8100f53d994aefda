//! Changes of records in pages that do not assemble the whole object.

use super::pages::{PageChange, PageFault, WrittenPages};
use super::{Records, encoded, read_root, should_be_divided};
use bytes::Bytes;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::object::Object;
use quoit_store::engine::{Applied, Interrupted, IoMode, RecordAt, RecordMeta};
use quoit_store::error::StoreError;

/// New form of a record in pages.
pub(super) enum NewForm {
    /// The same as before; writes to its pages are dropped.
    Same,
    /// A record in pages; the pages that the change wrote are stored.
    Paged(RecordMeta, Box<PagedObject>),
    /// A whole object in this stored form. Its pages are removed.
    Whole(RecordMeta, Bytes),
    /// No record: it is removed with its pages.
    Nothing,
}

impl NewForm {
    /// The form of a record in pages after a change: still in pages or, if little is left in them, a
    /// whole object.
    pub(super) fn paged(
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

    /// A whole object. The caller removes the pages.
    pub(super) fn whole(object: &Object, n_val_class: u8) -> Self {
        Self::Whole(RecordMeta::of(object, n_val_class), encoded(object))
    }

    /// Metadata for the engine; `None` if no new form is written.
    pub(super) const fn meta(&self) -> Option<RecordMeta> {
        match self {
            Self::Same | Self::Nothing => None,
            Self::Paged(meta, _) | Self::Whole(meta, _) => Some(*meta),
        }
    }
}

/// A change of a record in pages. Gets the engine's metadata of the record, the record with its root,
/// and access to its pages.
pub(super) type RootChange<'c> =
    dyn FnMut(&RecordMeta, PagedObject, &mut WrittenPages<'_, '_>) -> RootChanged + 'c;

/// Result of such a change.
pub(super) type RootChanged = Result<NewForm, PageFault>;

impl Records {
    /// Changes a record in pages; `None` if the record is not stored in pages. The change function may
    /// be called several times; only its last call counts. With [`IoMode::NoWait`], reading or removing
    /// many pages, or a result that has to be divided anew, gives `WouldBlock`.
    pub(super) fn change_root(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        change: &mut RootChange<'_>,
    ) -> Result<Option<Applied>, StoreError> {
        let (mut is_paged, mut is_large) = (false, false);
        let applied = self.engine.transact(at.partition, access, &mut |transaction| {
            is_large = false;
            let stored = transaction.get(at)?;
            is_paged = stored.as_ref().is_some_and(|record| PagedObject::is_paged(&record.value));
            let Some(root) = stored.filter(|_| is_paged) else { return Ok(()) };
            let paged = read_root(at, &root)?;
            let mut pages = WrittenPages::new(&mut *transaction, at, paged.generation(), access);
            let becomes = change(&root.meta, paged, &mut pages);
            match becomes.map_err(|fault| fault.interrupts(at))? {
                NewForm::Same => Ok(()),
                NewForm::Paged(meta, paged) => pages.finish_with_root(&paged, meta),
                NewForm::Whole(meta, value) => {
                    is_large = should_be_divided(&value);
                    if is_large && access == IoMode::NoWait {
                        return Err(Interrupted::needs_wait());
                    }
                    pages.finish()?;
                    transaction.put(at, meta, &value)
                }
                NewForm::Nothing => {
                    pages.finish()?;
                    transaction.remove(at)
                }
            }
        })?;
        if is_large
            && matches!(applied, Applied::Written(_))
            && let Err(fault) = self.divide(at)
        {
            // The record is stored undivided and readable; the next write tries again to divide it.
            tracing::warn!(%fault, "a large set or map could not be divided into pages");
        }
        Ok((is_paged || applied == Applied::WouldBlock).then_some(applied))
    }

    /// As [`Records::change_root`], for a change that leaves the record in pages.
    pub(super) fn change_pages(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
        change: &mut PageChange<'_>,
    ) -> Result<Option<Applied>, StoreError> {
        self.change_root(at, access, &mut |meta, paged, pages| match change(paged, pages)? {
            Some(paged) => NewForm::paged(Box::new(paged), meta.n_val_class, pages),
            None => Ok(NewForm::Same),
        })
    }
}
