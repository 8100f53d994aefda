//! Reads records as values or, if they are large sets and maps, as streams of elements or fields.

use super::pages::{PageFault, ReadPages, WrittenPages};
use super::{ATTEMPT_COUNT, Records, read_root};
use bytes::Bytes;
use quoit_model::data_type::CausalClock;
use quoit_model::data_type::pages::{PagedObject, ShownItem};
use quoit_model::props::Datatype;
use quoit_store::engine::{Fetch, InPlaceRead, IoMode, Record, RecordAt, RecordRef};
use quoit_store::error::StoreError;

/// A record in the form in which it takes the least memory to read.
pub(crate) enum RecordContent {
    /// Nothing is stored.
    Missing,
    /// A value: the digest of the object, and the encoded object.
    Value(u64, Bytes),
    /// A large set or map, whose items are read one by one ([`Records::each_item`]).
    Stream(ItemStream),
}

/// A large set or map whose items have not been read yet.
pub(crate) struct ItemStream {
    root: Record,
}

/// Description of a set or map, which precedes its items.
pub(crate) struct ItemsOutline {
    pub(crate) datatype: Datatype,
    /// All events of the set or map; `None` if they can't be read.
    pub(crate) clock: Option<CausalClock>,
    /// Bytes in which the items are stored.
    pub(crate) size_bytes: u64,
}

impl ItemsOutline {
    fn of(paged: &PagedObject) -> Self {
        let root = paged.root();
        Self {
            datatype: root.datatype(),
            clock: paged.causal_clock().ok(),
            size_bytes: root.page_bytes(),
        }
    }
}

/// Receives the elements of a set or the fields of a map.
pub(crate) trait Items {
    /// Begins a pass over all items. Items of an earlier pass do not count.
    fn begin(&mut self, outline: ItemsOutline);

    /// Shows an element or field, in no meaningful order.
    fn item(&mut self, item: ShownItem<'_>);
}

impl Records {
    /// Reads a record as a value or, if it is a large set or map, as a stream whose items are still to be
    /// read; `None` if the answer would have to wait for the disk.
    pub(crate) fn content(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
    ) -> Result<Option<RecordContent>, StoreError> {
        let mut content = RecordContent::Missing;
        let mut look = |record: &RecordRef<'_>| {
            content = match PagedObject::is_paged(record.value) {
                true => RecordContent::Stream(ItemStream { root: record.to_record() }),
                false => RecordContent::Value(record.meta.digest, record.to_bytes()),
            };
        };
        let shown = self.engine.show(at, access, &mut look)?;
        Ok((shown != InPlaceRead::WouldBlock).then_some(content))
    }

    /// True if the content of a record is a stream ([`Records::content`]), so that its whole object would
    /// have to be assembled; `None` if the answer would have to wait for the disk.
    pub(crate) fn is_stream(
        &self,
        at: &RecordAt<'_>,
        access: IoMode,
    ) -> Result<Option<bool>, StoreError> {
        self.is_in_pages(at, access)
    }

    /// Shows the items of a large set or map, as of one moment, and returns the digest of its object;
    /// `None` if the record is no longer a large live set or map. `stream` is the record, if the caller
    /// has just read it. May wait for the disk.
    pub(crate) fn each_item(
        &self,
        at: &RecordAt<'_>,
        stream: Option<ItemStream>,
        items: &mut dyn Items,
    ) -> Result<Option<u64>, StoreError> {
        let mut root = stream.map(|stream| stream.root);
        for attempt in 0..ATTEMPT_COUNT {
            let record = match root.take() {
                Some(root) => root,
                None => match self.engine.get(at, IoMode::Wait)? {
                    Fetch::Found(record) => record,
                    Fetch::Missing | Fetch::WouldBlock => return Ok(None),
                },
            };
            let Some(paged) = live_one(&record) else { return Ok(None) };
            items.begin(ItemsOutline::of(&paged));
            let mut pages = ReadPages::new(&*self.engine, at, paged.generation(), IoMode::Wait);
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
        self.engine.transact(at.partition, IoMode::Wait, &mut |transaction| {
            shown = None;
            let Some(record) = transaction.get(at)? else { return Ok(()) };
            if live_one(&record).is_none() {
                return Ok(());
            }
            let paged = read_root(at, &record)?;
            items.begin(ItemsOutline::of(&paged));
            let mut pages =
                WrittenPages::new(&mut *transaction, at, paged.generation(), IoMode::Wait);
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
    if !PagedObject::is_paged(&record.value) {
        return None;
    }
    PagedObject::decode(&record.value).ok().filter(|paged| paged.root().is_live())
}
