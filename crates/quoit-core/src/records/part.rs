//! Reads of parts of data types: a membership, a size, a range of elements.

use super::pages::{PageFault, ReadPages, WrittenPages, corrupt};
use super::{ATTEMPT_COUNT, Records, read_root};
use quoit_model::data_type::pages::{PagedObject, Pages};
use quoit_model::data_type::{FieldName, ItemRange, StoredFormError, WantedPart};
use quoit_model::object::Object;
use quoit_store::engine::{Applied, Fetch, IoMode, Record, RecordAt};
use quoit_store::error::StoreError;

/// A part of a copy of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum PartCopy {
    /// Not stored.
    Missing,
    Found {
        /// Digest of the whole object.
        digest: u64,
        /// `None` if the record holds no data type, a deleted one, or lacks the field that the path
        /// names.
        part: Option<Box<ItemRange>>,
    },
}

impl PartCopy {
    /// Digest of the whole object; `None` if there is no record.
    pub(crate) const fn digest(&self) -> Option<u64> {
        match self {
            Self::Missing => None,
            Self::Found { digest, .. } => Some(*digest),
        }
    }
}

impl Records {
    /// Reads a part of the data type in a record, or of a set or map in one of its fields. `None` if
    /// the call must not wait and would have to.
    pub(crate) fn part(
        &self,
        at: &RecordAt<'_>,
        path: &[FieldName],
        wanted: WantedPart,
        access: IoMode,
    ) -> Result<Option<PartCopy>, StoreError> {
        for _ in 0..ATTEMPT_COUNT {
            let record = match self.engine.get(at, access)? {
                Fetch::Missing => return Ok(Some(PartCopy::Missing)),
                Fetch::WouldBlock => return Ok(None),
                Fetch::Found(record) => record,
            };
            if !PagedObject::is_paged(&record.value) {
                return part_of_whole(at, path, &record).map(Some);
            }
            let Ok(paged) = PagedObject::decode(&record.value) else { break };
            let mut pages = ReadPages::new(&*self.engine, at, paged.generation(), access);
            let part = match boxed_part(&paged, path, wanted, &mut pages) {
                Ok(part) => part,
                Err(PageFault::NeedsWait) => return Ok(None),
                Err(PageFault::Store(fault)) => return Err(fault),
                Err(PageFault::Form(_) | PageFault::Interrupted(_)) => continue,
            };
            // If the root has changed since, the pages may not be the ones that it lists.
            let digest = record.meta.digest;
            if self.engine.head(at)?.is_some_and(|meta| meta.digest == digest) {
                return Ok(Some(PartCopy::Found { digest, part }));
            }
        }
        let mut found = Ok(PartCopy::Missing);
        let applied = self.engine.transact(at.partition, access, &mut |transaction| {
            let Some(record) = transaction.get(at)? else {
                found = Ok(PartCopy::Missing);
                return Ok(());
            };
            if !PagedObject::is_paged(&record.value) {
                found = part_of_whole(at, path, &record);
                return Ok(());
            }
            let paged = read_root(at, &record)?;
            let mut pages = WrittenPages::new(&mut *transaction, at, paged.generation(), access);
            let part = boxed_part(&paged, path, wanted, &mut pages);
            let part = part.map_err(|fault| fault.interrupts(at))?;
            found = Ok(PartCopy::Found { digest: record.meta.digest, part });
            Ok(())
        })?;
        if applied == Applied::WouldBlock { Ok(None) } else { found.map(Some) }
    }
}

fn boxed_part<P: Pages>(
    paged: &PagedObject,
    path: &[FieldName],
    wanted: WantedPart,
    pages: &mut P,
) -> Result<Option<Box<ItemRange>>, P::Error> {
    Ok(paged.part(path, wanted, pages)?.map(Box::new))
}

fn part_of_whole(
    at: &RecordAt<'_>,
    path: &[FieldName],
    record: &Record,
) -> Result<PartCopy, StoreError> {
    let object = Object::decode(&record.value);
    let object = object.map_err(|fault| corrupt(at, fault.to_string()))?;
    let state = object.data_type();
    let state = state.map_err(|fault: StoredFormError| corrupt(at, fault.to_string()))?;
    let part = state.and_then(|state| ItemRange::whole(state, path)).map(Box::new);
    Ok(PartCopy::Found { digest: record.meta.digest, part })
}
