//! Lookup of single records.

use super::backend::Space;
use super::keys::name_key;
use super::store::StoreShared;
use super::value::{HEAD_BYTES, ValueHead, read_meta};
use crate::engine::{Fetch, IoMode, Record, RecordAt, RecordMeta, SizeBound};
use crate::error::StoreError;
use crate::index::Tag;
use bytes::Bytes;

/// Part of a record that a caller wants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RecordPart {
    Head,
    Whole,
}

/// Result of a lookup. The record may have expired.
#[derive(Clone, Debug)]
pub(super) enum FoundRecord {
    Absent,
    /// The body is empty if only the head was wanted.
    Present(Record),
    Damaged(StoreError),
    /// The call would have to wait for the disk.
    WouldBlock,
}

impl StoreShared {
    pub(super) fn get(&self, at: &RecordAt<'_>, access: IoMode) -> Result<Fetch, StoreError> {
        self.check_open()?;
        match self.find(at, RecordPart::Whole, access)? {
            FoundRecord::Absent => Ok(Fetch::Missing),
            FoundRecord::Present(record) => {
                Ok(self.shown(record).map_or(Fetch::Missing, Fetch::Found))
            }
            FoundRecord::Damaged(error) => Err(error),
            FoundRecord::WouldBlock => Ok(Fetch::WouldBlock),
        }
    }

    pub(super) fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        self.check_open()?;
        match self.find(at, RecordPart::Head, IoMode::Wait)? {
            FoundRecord::Present(record) if self.is_expired(&record.meta) => {
                match self.get(at, IoMode::Wait)? {
                    Fetch::Found(record) => Ok(Some(record.meta)),
                    Fetch::Missing | Fetch::WouldBlock => Ok(None),
                }
            }
            FoundRecord::Present(record) => Ok(Some(record.meta)),
            FoundRecord::Damaged(error) => Err(error),
            FoundRecord::Absent | FoundRecord::WouldBlock => Ok(None),
        }
    }

    /// The size of a record, according to its head.
    pub(super) fn size_bound(&self, at: &RecordAt<'_>, access: IoMode) -> SizeBound {
        let key = self.key_of(at);
        if let Some(record) = self.cache.as_ref().and_then(|cache| cache.peek(&key)) {
            return SizeBound::AtMost(record.value.len() as u64);
        }
        match self.value(Space::Records, &key, access) {
            Ok(None) => SizeBound::WouldBlock,
            Ok(Some(Some(stored))) => {
                SizeBound::of(ValueHead::read(&key, &stored).ok().map(|head| head.body_bytes()))
            }
            Ok(Some(None)) | Err(_) => SizeBound::Unknown,
        }
    }

    /// Looks a record up.
    pub(super) fn find(
        &self,
        at: &RecordAt<'_>,
        part: RecordPart,
        access: IoMode,
    ) -> Result<FoundRecord, StoreError> {
        self.unless_damaged(self.look(&self.key_of(at), part, access))
    }

    /// Looks up a whole record for a walk over many records. Does not cache it.
    pub(super) fn find_uncached(&self, at: &RecordAt<'_>) -> Result<FoundRecord, StoreError> {
        let found = self.unless_damaged(self.look_up_uncached(&self.key_of(at)));
        if let Ok(FoundRecord::Damaged(_)) = &found {
            self.found_damage.note(at.partition, Tag::of(at.identity));
        }
        found
    }

    fn unless_damaged(
        &self,
        found: Result<FoundRecord, StoreError>,
    ) -> Result<FoundRecord, StoreError> {
        match found {
            Err(error @ StoreError::Corrupt { .. }) => {
                self.note_damage(&error);
                Ok(FoundRecord::Damaged(error))
            }
            found => found,
        }
    }

    /// Looks up a record by its key, of any epoch. Caches it if it was wanted as a whole.
    fn look(
        &self,
        key: &[u8],
        part: RecordPart,
        access: IoMode,
    ) -> Result<FoundRecord, StoreError> {
        let Some(cache) = &self.cache else { return self.look_up_stored(key, part, access) };
        match (cache.get(key), part) {
            (Some(record), RecordPart::Whole) => return Ok(FoundRecord::Present(record)),
            (Some(record), RecordPart::Head) => {
                return Ok(FoundRecord::Present(Record { value: Bytes::new(), ..record }));
            }
            (None, _) => {}
        }
        if part == RecordPart::Head || access == IoMode::NoWait {
            return self.look_up_stored(key, part, access);
        }
        let seen = cache.begin_read(key);
        let found = self.look_up_stored(key, part, access)?;
        if let FoundRecord::Present(record) = &found {
            cache.keep(key, seen, record);
        }
        Ok(found)
    }

    /// Looks up a whole record by its key, of any epoch. Does not cache it.
    pub(super) fn look_up_uncached(&self, key: &[u8]) -> Result<FoundRecord, StoreError> {
        match self.cache.as_ref().and_then(|cache| cache.peek(key)) {
            Some(record) => Ok(FoundRecord::Present(record)),
            None => self.look_up_stored(key, RecordPart::Whole, IoMode::Wait),
        }
    }

    /// Looks up a record in the batches and the store.
    fn look_up_stored(
        &self,
        key: &[u8],
        part: RecordPart,
        access: IoMode,
    ) -> Result<FoundRecord, StoreError> {
        let mut last = None;
        loop {
            let value = match self.value(Space::Records, key, access)? {
                None => return Ok(FoundRecord::WouldBlock),
                Some(None) => return Ok(FoundRecord::Absent),
                Some(Some(value)) => value,
            };
            let head = ValueHead::read(key, &value).map_err(|reason| self.damaged(reason))?;
            let body = match (part, head.is_apart) {
                (RecordPart::Head, _) => return Ok(present(&head, Bytes::new())),
                (RecordPart::Whole, false) => Some(value.slice(HEAD_BYTES..)),
                (RecordPart::Whole, true) => match self.value(Space::Bodies, key, access)? {
                    None => return Ok(FoundRecord::WouldBlock),
                    Some(body) => body,
                },
            };
            if let Some(body) = body.filter(|body| head.has_body(body)) {
                return Ok(present(&head, body));
            }
            // The record may have been written again between the two reads.
            if last == Some(head) {
                return Err(self.damaged("the body is not the one that was written"));
            }
            last = Some(head);
        }
    }

    /// The value of a key; `None` if the call would have to wait for the disk.
    fn value(
        &self,
        space: Space,
        key: &[u8],
        access: IoMode,
    ) -> Result<Option<Option<Bytes>>, StoreError> {
        match (self.overlay.waiting(space, key), access) {
            (Some(waiting), _) => Ok(Some(waiting)),
            (None, IoMode::NoWait) => Ok(None),
            (None, IoMode::Wait) => self.overlay.get(space, key).map(Some),
        }
    }

    /// Metadata of a record whose head is damaged, from the copy beside its name.
    pub(super) fn known_by_name(&self, at: &RecordAt<'_>) -> Option<RecordMeta> {
        let epoch = self.partition(at.partition).epoch();
        let stored = self.overlay.get(Space::Names, &name_key(at.key, at.partition, epoch));
        read_meta(&stored.ok()??)
    }
}

fn present(head: &ValueHead, value: Bytes) -> FoundRecord {
    FoundRecord::Present(Record { meta: head.meta, value })
}
