//! Shows the elements or fields of large sets and maps without assembling the object.

use super::pages::{PageFault, ReadPages, WrittenPages};
use super::{ATTEMPT_COUNT, Records, read_root};
use quoit_model::data_type::pages::{PagedObject, ShownItem};
use quoit_store::engine::{Access, Fetch, Record, RecordAt};
use quoit_store::error::StoreError;

/// Receives the elements of a set or the fields of a map.
pub(crate) trait Items {
    /// Begins a pass over all items. Items of an earlier pass do not count.
    fn begin(&mut self, paged: &PagedObject);

    /// Shows an element or field, in no meaningful order.
    fn item(&mut self, item: ShownItem<'_>);
}

impl Records {
    /// Shows the items of a set or map in pages, as of one moment, and returns the digest of its
    /// object; `None` if there is no live set or map in pages. `root` is the record's root, if the caller
    /// has just read it. May wait for the disk.
    pub(crate) fn each_item(
        &self,
        at: &RecordAt<'_>,
        mut root: Option<Record>,
        items: &mut dyn Items,
    ) -> Result<Option<u64>, StoreError> {
        for attempt in 0..ATTEMPT_COUNT {
            let record = match root.take() {
                Some(root) => root,
                None => match self.engine.get(at, Access::Wait)? {
                    Fetch::Found(record) => record,
                    Fetch::Missing | Fetch::WouldBlock => return Ok(None),
                },
            };
            let Some(paged) = live_one(&record) else { return Ok(None) };
            items.begin(&paged);
            let mut pages = ReadPages::new(&*self.engine, at, paged.generation(), Access::Wait);
            let digest = record.meta.digest;
            // The exact check of each page is expensive. The first attempt leaves it out and compares
            // digests instead: an object whose digest is unchanged had exactly these pages.
            let is_exact = attempt > 0;
            let is_same = || {
                let head = self.engine.head(at)?;
                Ok::<bool, StoreError>(head.is_some_and(|meta| meta.digest == digest))
            };
            match paged.each_item(is_exact, &mut pages, &mut |item| items.item(item)) {
                Ok(()) if is_exact || is_same()? => return Ok(Some(digest)),
                // The record was changed in the meantime: try again.
                Ok(()) | Err(PageFault::Form(_)) => {}
                Err(PageFault::Store(fault)) => return Err(fault),
                Err(PageFault::NeedsWait | PageFault::Interrupted(_)) => {
                    unreachable!("pages that are waited for, and not in a transaction")
                }
            }
        }
        let mut shown = None;
        self.engine.transact(at.partition, Access::Wait, &mut |transaction| {
            shown = None;
            let Some(record) = transaction.get(at)? else { return Ok(()) };
            if live_one(&record).is_none() {
                return Ok(());
            }
            let paged = read_root(at, &record)?;
            items.begin(&paged);
            let mut pages =
                WrittenPages::new(&mut *transaction, at, paged.generation(), Access::Wait);
            let each = paged.each_item(false, &mut pages, &mut |item| items.item(item));
            each.map_err(|fault| fault.interrupts(at))?;
            shown = Some(record.meta.digest);
            Ok(())
        })?;
        Ok(shown)
    }
}

/// Decodes the live set or map of a record in pages; `None` for other records.
fn live_one(record: &Record) -> Option<PagedObject> {
    if !PagedObject::is_one(&record.value) {
        return None;
    }
    PagedObject::decode(&record.value).ok().filter(|paged| paged.root().is_live())
}
