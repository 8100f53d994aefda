//! Shows the elements of large sets without putting the sets together.

use super::pages::{PageFault, ReadPages, WrittenPages};
use super::{ATTEMPT_COUNT, Records, read_root};
use quoit_model::data_type::pages::PagedObject;
use quoit_model::props::Datatype;
use quoit_store::engine::{Access, Fetch, Record, RecordAt};
use quoit_store::error::StoreError;

/// Who is shown the elements of a set.
pub(crate) trait Elements {
    /// The set from its beginning: what was shown before does not count.
    fn begin(&mut self, set: &PagedObject);

    /// An element, in no order that means anything.
    fn element(&mut self, element: &[u8]);
}

impl Records {
    /// Shows the elements of a set that lies in pages, and answers the digest of its object; `None` when
    /// there is none, or it has to be waited for the disk to know that.
    pub(crate) fn each_element(
        &self,
        at: &RecordAt<'_>,
        elements: &mut dyn Elements,
    ) -> Result<Option<u64>, StoreError> {
        for _ in 0..ATTEMPT_COUNT {
            let Fetch::Found(record) = self.engine.get(at, Access::NoWait)? else {
                return Ok(None);
            };
            let Some(set) = set_of(&record) else { return Ok(None) };
            elements.begin(&set);
            let mut pages = ReadPages::new(&*self.engine, at, set.generation(), Access::Wait);
            match set.each_element(&mut pages, &mut |element| elements.element(element)) {
                Ok(()) => return Ok(Some(record.meta.digest)),
                // It has changed meanwhile.
                Err(PageFault::Form(_)) => {}
                Err(PageFault::Store(fault)) => return Err(fault),
                Err(PageFault::Cold | PageFault::Interrupted(_)) => {
                    unreachable!("pages that are waited for, and not in a transaction")
                }
            }
        }
        let mut shown = None;
        self.engine.transact(at.partition, Access::Wait, &mut |transaction| {
            shown = None;
            let Some(record) = transaction.get(at)? else { return Ok(()) };
            if set_of(&record).is_none() {
                return Ok(());
            }
            let set = read_root(at, &record)?;
            elements.begin(&set);
            let mut pages =
                WrittenPages::new(&mut *transaction, at, set.generation(), Access::Wait);
            let each = set.each_element(&mut pages, &mut |element| elements.element(element));
            each.map_err(|fault| fault.interrupts(at))?;
            shown = Some(record.meta.digest);
            Ok(())
        })?;
        Ok(shown)
    }
}

/// The set that lies in pages, if the record is one and nothing but that.
fn set_of(record: &Record) -> Option<PagedObject> {
    if !PagedObject::is_one(&record.value) {
        return None;
    }
    let paged = PagedObject::decode(&record.value).ok()?;
    let is_set = matches!(paged.root().datatype(), Datatype::Set | Datatype::Gset);
    (is_set && paged.root().is_live()).then_some(paged)
}
