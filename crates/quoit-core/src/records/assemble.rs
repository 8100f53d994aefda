//! Assembles whole objects from their pages.

use super::pages::{PageFault, ReadPages, WrittenPages, tag_of_page};
use super::{ATTEMPT_COUNT, QUICK_PAGES_MAX, Records, encoded, read_root};
use crate::placement::PlacedKey;
use bytes::Bytes;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::hash::{Identity, Partition};
use quoit_store::engine::{Applied, Fetch, Interrupted, IoMode, Record, RecordAt, Transaction};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use std::collections::BTreeSet;

/// Number of records that are read at once in the search for the owners of damaged pages.
const OWNER_COUNT: usize = 64;

impl Records {
    /// Reads a record as a whole object, in whichever form it is stored. May wait for the disk.
    pub(crate) fn get(&self, at: &RecordAt<'_>) -> Result<Option<Record>, StoreError> {
        let fetched = match self.engine.get(at, IoMode::Wait)? {
            Fetch::Found(root) if PagedObject::is_paged(&root.value) => {
                self.whole(at, root, IoMode::Wait)?
            }
            fetched => fetched,
        };
        Ok(match fetched {
            Fetch::Found(record) => Some(record),
            Fetch::Missing | Fetch::WouldBlock => None,
        })
    }

    /// Records with the given tags as they are stored, for [`Records::complete`] or a look at their clocks
    /// ([`clock_of`](super::clock_of)); empty if the engine offers no comparison by tags.
    pub(crate) fn tagged(
        &self,
        partition: Partition,
        tags: &[Tag],
    ) -> Result<Vec<(Bytes, Record)>, StoreError> {
        match self.engine.compared() {
            Some(compared) => compared.tagged(partition, tags),
            None => Ok(Vec::new()),
        }
    }

    /// Finds the records that own pages with the given tags. Returns the tag of each record with the
    /// tags of its pages. Reads all records of the partition, but of their pages only the ones that
    /// list other pages.
    pub(crate) fn owners_of_pages(
        &self,
        partition: Partition,
        tags: &BTreeSet<Tag>,
    ) -> Result<Vec<(Tag, BTreeSet<Tag>)>, StoreError> {
        let mut owners = Vec::new();
        let mut from = Some(Identity(0));
        while let Some(identity) = from {
            let page = self.engine.fold(partition, identity, OWNER_COUNT, false)?;
            for (key, record) in &page.entries {
                if !PagedObject::is_paged(&record.value) {
                    continue;
                }
                let (Ok(place), Ok(paged)) =
                    (PlacedKey::new(key, partition), PagedObject::decode(&record.value))
                else {
                    continue;
                };
                let at = place.at();
                let generation = paged.generation();
                let mut pages = ReadPages::new(&*self.engine, &at, generation, IoMode::Wait);
                let mut own = BTreeSet::new();
                paged.each_page_name(&mut pages, &mut |name| {
                    own.extend(tag_of_page(&at, generation, name).filter(|tag| tags.contains(tag)));
                });
                if !own.is_empty() {
                    owners.push((Tag::of(at.identity), own));
                }
            }
            from = page.next;
        }
        Ok(owners)
    }

    /// The whole objects of records that a fold or a read by tags has returned. Records that were removed
    /// in the meantime are left out.
    pub(crate) fn complete(
        &self,
        partition: Partition,
        mut entries: Vec<(Bytes, Record)>,
    ) -> Result<Vec<(Bytes, Record)>, StoreError> {
        if !entries.iter().any(|(_, record)| PagedObject::is_paged(&record.value)) {
            return Ok(entries);
        }
        let mut whole = Vec::with_capacity(entries.len());
        for (key, record) in entries.drain(..) {
            if !PagedObject::is_paged(&record.value) {
                whole.push((key, record));
                continue;
            }
            let Ok(place) = PlacedKey::new(&key, partition) else { continue };
            match self.whole(&place.at(), record, IoMode::Wait) {
                Ok(Fetch::Found(record)) => whole.push((key, record)),
                Ok(Fetch::Missing | Fetch::WouldBlock) => {}
                // Folds leave damaged records out, too.
                Err(StoreError::Corrupt { path, offset, reason }) => {
                    tracing::error!(%path, offset, %reason, "a record in pages is damaged");
                }
                Err(fault) => return Err(fault),
            }
        }
        Ok(whole)
    }

    /// Assembles a record from its root, which was read before.
    pub(super) fn whole(
        &self,
        at: &RecordAt<'_>,
        root: Record,
        access: IoMode,
    ) -> Result<Fetch, StoreError> {
        let mut root = root;
        for _ in 0..ATTEMPT_COUNT {
            if let Some(fetched) = self.try_assemble(at, &root, access)? {
                return Ok(fetched);
            }
            // The pages no longer belong to this root.
            match self.engine.get(at, access)? {
                Fetch::Found(newer) if PagedObject::is_paged(&newer.value) => root = newer,
                fetched => return Ok(fetched),
            }
        }
        let mut fetched = Fetch::Missing;
        let applied = self.engine.transact(at.partition, access, &mut |transaction| {
            fetched = whole_in(transaction, at, access)?.map_or(Fetch::Missing, Fetch::Found);
            Ok(())
        })?;
        Ok(if applied == Applied::WouldBlock { Fetch::WouldBlock } else { fetched })
    }

    /// One attempt to assemble a record; `None` if the root and the pages do not belong together.
    fn try_assemble(
        &self,
        at: &RecordAt<'_>,
        root: &Record,
        access: IoMode,
    ) -> Result<Option<Fetch>, StoreError> {
        let Ok(paged) = PagedObject::decode(&root.value) else { return Ok(None) };
        let page_count = paged.root().page_count_about();
        if access == IoMode::NoWait && page_count > u64::from(QUICK_PAGES_MAX) {
            return Ok(Some(Fetch::WouldBlock));
        }
        let mut pages = ReadPages::new(&*self.engine, at, paged.generation(), access);
        match paged.whole(&mut pages) {
            Ok(object) => {
                Ok(Some(Fetch::Found(Record { meta: root.meta, value: encoded(&object) })))
            }
            Err(PageFault::NeedsWait) => Ok(Some(Fetch::WouldBlock)),
            Err(PageFault::Form(_)) => Ok(None),
            Err(PageFault::Interrupted(_)) => unreachable!("only transactions are interrupted"),
            Err(PageFault::Store(fault)) => Err(fault),
        }
    }
}

/// Reads a record as a whole object in a transaction.
pub(super) fn whole_in(
    transaction: &mut dyn Transaction,
    at: &RecordAt<'_>,
    access: IoMode,
) -> Result<Option<Record>, Interrupted> {
    let Some(stored) = transaction.get(at)? else { return Ok(None) };
    if !PagedObject::is_paged(&stored.value) {
        return Ok(Some(stored));
    }
    let paged = read_root(at, &stored)?;
    let mut pages = WrittenPages::new(&mut *transaction, at, paged.generation(), access);
    let object = paged.whole(&mut pages).map_err(|fault| fault.interrupts(at))?;
    Ok(Some(Record { meta: stored.meta, value: encoded(&object) }))
}
