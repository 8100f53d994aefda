//! Looking at one record.

use super::backend::Space;
use super::keys::name_key;
use super::store::Store;
use super::value::{HEAD_BYTES, Head, read_meta};
use crate::engine::{Access, Fetch, Record, RecordAt, RecordMeta, SizeBound};
use crate::error::StoreError;
use crate::index::Tag;
use bytes::Bytes;

/// How much of a record is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Part {
    Head,
    Whole,
}

/// A stored record, expired or not.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Absent,
    /// The body is empty where only the head was wanted.
    Present(Record),
    Damaged(StoreError),
    /// The disk would have to be waited for.
    WouldBlock,
}

impl Store {
    pub(super) fn get(&self, at: &RecordAt<'_>, access: Access) -> Result<Fetch, StoreError> {
        self.check_open()?;
        match self.find(at, Part::Whole, access)? {
            Found::Absent => Ok(Fetch::Missing),
            Found::Present(record) if self.is_expired(&record.meta) => Ok(Fetch::Missing),
            Found::Present(record) => Ok(Fetch::Found(record)),
            Found::Damaged(error) => Err(error),
            Found::WouldBlock => Ok(Fetch::WouldBlock),
        }
    }

    pub(super) fn head(&self, at: &RecordAt<'_>) -> Result<Option<RecordMeta>, StoreError> {
        self.check_open()?;
        match self.find(at, Part::Head, Access::Wait)? {
            Found::Present(record) => Ok((!self.is_expired(&record.meta)).then_some(record.meta)),
            Found::Damaged(error) => Err(error),
            Found::Absent | Found::WouldBlock => Ok(None),
        }
    }

    /// The size of a record, as its head tells it.
    pub(super) fn size_bound(&self, at: &RecordAt<'_>, access: Access) -> SizeBound {
        let key = self.key_of(at);
        if let Some(record) = self.cache.as_ref().and_then(|cache| cache.peek(&key)) {
            return SizeBound::AtMost(record.value.len() as u64);
        }
        match self.value(Space::Records, &key, access) {
            Ok(None) => SizeBound::WouldBlock,
            Ok(Some(Some(stored))) => {
                SizeBound::of(Head::read(&key, &stored).ok().map(|head| head.body_bytes()))
            }
            Ok(Some(None)) | Err(_) => SizeBound::Unknown,
        }
    }

    /// Looks a record up.
    pub(super) fn find(
        &self,
        at: &RecordAt<'_>,
        part: Part,
        access: Access,
    ) -> Result<Found, StoreError> {
        self.unless_damaged(self.look(&self.key_of(at), part, access))
    }

    /// Looks up a whole record for a caller that goes through many: it is not kept for that.
    pub(super) fn find_in_passing(&self, at: &RecordAt<'_>) -> Result<Found, StoreError> {
        let found = self.unless_damaged(self.look_in_passing(&self.key_of(at)));
        if let Ok(Found::Damaged(_)) = &found {
            self.found_damage.note(at.partition, Tag::of(at.identity));
        }
        found
    }

    fn unless_damaged(&self, found: Result<Found, StoreError>) -> Result<Found, StoreError> {
        match found {
            Err(error @ StoreError::Corrupt { .. }) => {
                self.note_damage(&error);
                Ok(Found::Damaged(error))
            }
            found => found,
        }
    }

    /// Looks a record up by its key, of whatever epoch. A whole one is kept.
    fn look(&self, key: &[u8], part: Part, access: Access) -> Result<Found, StoreError> {
        let Some(cache) = &self.cache else { return self.look_stored(key, part, access) };
        match (cache.get(key), part) {
            (Some(record), Part::Whole) => return Ok(Found::Present(record)),
            (Some(record), Part::Head) => {
                return Ok(Found::Present(Record { value: Bytes::new(), ..record }));
            }
            (None, _) => {}
        }
        if part == Part::Head || access == Access::NoWait {
            return self.look_stored(key, part, access);
        }
        let seen = cache.begin_read(key);
        let found = self.look_stored(key, part, access)?;
        if let Found::Present(record) = &found {
            cache.keep(key, seen, record);
        }
        Ok(found)
    }

    /// Looks a whole record up by its key, of whatever epoch.
    pub(super) fn look_in_passing(&self, key: &[u8]) -> Result<Found, StoreError> {
        match self.cache.as_ref().and_then(|cache| cache.peek(key)) {
            Some(record) => Ok(Found::Present(record)),
            None => self.look_stored(key, Part::Whole, Access::Wait),
        }
    }

    /// Looks a record up where it is stored, or waits to be.
    fn look_stored(&self, key: &[u8], part: Part, access: Access) -> Result<Found, StoreError> {
        let mut last = None;
        loop {
            let value = match self.value(Space::Records, key, access)? {
                None => return Ok(Found::WouldBlock),
                Some(None) => return Ok(Found::Absent),
                Some(Some(value)) => value,
            };
            let head = Head::read(key, &value).map_err(|reason| self.damaged(reason))?;
            let body = match (part, head.is_apart) {
                (Part::Head, _) => return Ok(present(&head, Bytes::new())),
                (Part::Whole, false) => Some(value.slice(HEAD_BYTES..)),
                (Part::Whole, true) => match self.value(Space::Bodies, key, access)? {
                    None => return Ok(Found::WouldBlock),
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

    /// The value of a key; `None` where the disk would have to be waited for.
    fn value(
        &self,
        space: Space,
        key: &[u8],
        access: Access,
    ) -> Result<Option<Option<Bytes>>, StoreError> {
        match (self.overlay.waiting(space, key), access) {
            (Some(waiting), _) => Ok(Some(waiting)),
            (None, Access::NoWait) => Ok(None),
            (None, Access::Wait) => self.overlay.get(space, key).map(Some),
        }
    }

    /// Metadata of a record whose head is damaged, from the copy that stands with its name.
    pub(super) fn known_by_name(&self, at: &RecordAt<'_>) -> Option<RecordMeta> {
        let epoch = self.partition(at.partition).epoch();
        let stored = self.overlay.get(Space::Names, &name_key(at.key, at.partition, epoch));
        read_meta(&stored.ok()??)
    }
}

fn present(head: &Head, value: Bytes) -> Found {
    Found::Present(Record { meta: head.meta, value })
}
