//! Properties of a record in the form in which an engine returns it, without reading its pages.
//!
//! Folds and reads by tag return records as they are stored. Their callers use these functions, so that they
//! need not distinguish the stored forms.

use super::Records;
use bytes::Bytes;
use quoit_model::clock::VersionVector;
use quoit_model::data_type::pages::PagedObject;
use quoit_model::object::Object;
use quoit_store::engine::{Fetch, IoMode, Record, RecordAt, RecordMeta};
use quoit_store::error::StoreError;

/// History and figures of a record.
pub(crate) struct RecordOutline {
    pub(crate) meta: RecordMeta,
    pub(crate) clock: VersionVector,
    pub(crate) sibling_count: usize,
    /// Time of the last write, in microseconds since 1970.
    pub(crate) last_modified_us: u64,
    /// Bytes of the record with all its pages.
    pub(crate) size_bytes: u64,
    /// The object; `None` if it would have to be assembled.
    pub(crate) object: Option<Object>,
}

impl RecordOutline {
    /// Reads the outline of a record; `None` if the record is damaged.
    pub(crate) fn of(record: &Record) -> Option<Self> {
        if PagedObject::is_paged(&record.value) {
            let paged = PagedObject::decode(&record.value).ok()?;
            return Some(Self::of_object(record, paged.object()));
        }
        let object = Object::decode(&record.value).ok()?;
        let outline = Self::of_object(record, &object);
        Some(Self { object: Some(object), ..outline })
    }

    fn of_object(record: &Record, object: &Object) -> Self {
        Self {
            meta: record.meta,
            clock: object.clock.clone(),
            sibling_count: object.siblings.len(),
            last_modified_us: object.last_modified_us(),
            size_bytes: size_of(record),
            object: None,
        }
    }
}

impl Records {
    /// Reads the outline of a record; `None` if there is no record or it is damaged. May wait for the disk.
    pub(crate) fn outline(&self, at: &RecordAt<'_>) -> Result<Option<RecordOutline>, StoreError> {
        Ok(match self.engine.get(at, IoMode::Wait)? {
            Fetch::Found(record) => RecordOutline::of(&record),
            Fetch::Missing | Fetch::WouldBlock => None,
        })
    }

    /// The encoded object of a record, for callers that can do without it; `None` if it would have to be
    /// assembled, if the read would have to wait and `access` does not allow that, or if the engine fails.
    pub(crate) fn object_at_hand(&self, at: &RecordAt<'_>, access: IoMode) -> Option<Bytes> {
        match self.engine.get(at, access) {
            Ok(Fetch::Found(record)) => Some(record.value).filter(|stored| is_object(stored)),
            Ok(Fetch::Missing | Fetch::WouldBlock) | Err(_) => None,
        }
    }
}

/// True if the stored form of a record is its encoded object. Otherwise [`Records::get`] assembles the
/// object.
pub(crate) fn is_object(stored: &[u8]) -> bool {
    !PagedObject::is_paged(stored)
}

/// True if the record is handed to a node that lacks it by [`Records::begin_sending`], and not as one object.
pub(crate) fn is_sent_by_pages(record: &Record) -> bool {
    PagedObject::is_paged(&record.value)
}

/// True if the record can be made equal to another node's copy by ranges of its items
/// ([`Records::take_ranges`]).
pub(crate) fn has_ranges(record: &Record) -> bool {
    PagedObject::is_paged(&record.value)
}

/// Bytes of a record with all its pages.
pub(crate) fn size_of(record: &Record) -> u64 {
    let pages = match PagedObject::is_paged(&record.value) {
        true => PagedObject::decode(&record.value).map_or(0, |paged| paged.root().page_bytes()),
        false => 0,
    };
    record.value.len() as u64 + pages
}

/// Version vector of a record; empty if it can't be read.
pub(crate) fn clock_of(record: &Record) -> VersionVector {
    if PagedObject::is_paged(&record.value) {
        let paged = PagedObject::decode(&record.value);
        return paged.map(|paged| paged.object().clock.clone()).unwrap_or_default();
    }
    Object::decode_clock(&record.value).unwrap_or_default()
}
