//! Decoding of states. Memory is reserved for a few entries at a time, whatever counts the input
//! claims.

use super::excerpt::SkippedItem;
use super::{
    HAS_DEFERRED, STATE_FORMAT_1, bad, read_end, read_field_kind, read_format, read_paged_kind,
    read_wide,
};
use crate::clock::{Actor, Dot};
use crate::cursor::Cursor;
use crate::data_type::content::{Assigned, Content, MapField, Totals};
use crate::data_type::item::{Item, Write};
use crate::data_type::pages::Branch;
use crate::data_type::{EventSet, FieldKind, FieldName, MAP_DEPTH_MAX, State, StoredFormError};
use crate::hll::HyperLogLog;
use crate::props::Datatype;
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Maximum number of entries for which memory is reserved at once; small records have no more.
const ENTRIES_RESERVED_MAX: usize = 32;

type StoredResult<T> = Result<T, StoredFormError>;

/// Payload of a write that can be decoded.
pub(super) trait ReadPayload: Sized {
    fn read(cursor: &mut Cursor<'_>) -> StoredResult<Self>;
}

impl ReadPayload for () {
    fn read(_: &mut Cursor<'_>) -> StoredResult<Self> {
        Ok(())
    }
}

impl ReadPayload for Totals {
    fn read(cursor: &mut Cursor<'_>) -> StoredResult<Self> {
        Ok(Self { increments: read_wide(cursor)?, decrements: read_wide(cursor)? })
    }
}

impl ReadPayload for Assigned {
    fn read(cursor: &mut Cursor<'_>) -> StoredResult<Self> {
        Ok(Self { time_us: cursor.varint()?, value: cursor.counted_bytes()? })
    }
}

impl ReadPayload for Arc<HyperLogLog> {
    fn read(cursor: &mut Cursor<'_>) -> StoredResult<Self> {
        let registers = HyperLogLog::decode(cursor.counted_slice()?);
        registers.map(Self::new).map_err(|_| bad(cursor, "registers of no HyperLogLog"))
    }
}

impl State {
    /// Decodes the stored form. Elements and values share `input`.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are cut off, have another format, or hold something that no
    /// encoder writes.
    pub fn decode(input: &Bytes) -> Result<Self, StoredFormError> {
        Self::read(StateReader::new(input))
    }

    /// Decodes a page, which may contain branches.
    pub(in crate::data_type) fn decode_page(input: &Bytes) -> Result<Self, StoredFormError> {
        Self::read(StateReader::of_page(input))
    }

    fn read(mut reader: StateReader<'_>) -> Result<Self, StoredFormError> {
        let datatype = read_format(&mut reader.cursor, STATE_FORMAT_1)?;
        reader.actors()?;
        let record = reader.field(Content::of_record(datatype), 1)?;
        read_end(&reader.cursor)?;
        if reader.actors.iter().any(|(_, is_used)| !is_used) {
            return Err(bad(&reader.cursor, "an actor without a write"));
        }
        Ok(Self::from_record(datatype, record))
    }
}

impl State {
    /// Calls `look` with each live element of a stored set, in stored order, without decoding the
    /// rest. Returns the number of live elements.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are cut off or are not a set.
    pub(in crate::data_type) fn each_stored_element(
        stored: &[u8],
        look: &mut dyn FnMut(&[u8]),
    ) -> Result<u64, StoredFormError> {
        let cursor = Cursor::borrowing(stored);
        let mut reader = StateReader { cursor, actors: ReadActors::new(), is_page: false };
        let datatype = read_format(&mut reader.cursor, STATE_FORMAT_1)?;
        if !matches!(datatype, Datatype::Set | Datatype::Gset) {
            return Err(bad(&reader.cursor, "no set"));
        }
        for _ in 0..reader.cursor.count()? {
            reader.cursor.counted_slice()?;
        }
        reader.skip_to_content()?;
        let mut live_count = 0;
        for _ in 0..reader.cursor.count()? {
            let element = reader.cursor.counted_slice()?;
            if reader.skip_item::<()>()?.is_live {
                live_count += 1;
                look(element);
            }
        }
        read_end(&reader.cursor)?;
        Ok(live_count)
    }
}

/// The table of actors; the flag is true once a write of the actor was read.
pub(super) type ReadActors = SmallVec<[(Actor, bool); 4]>;

pub(super) struct StateReader<'a> {
    pub(super) cursor: Cursor<'a>,
    pub(super) actors: ReadActors,
    /// True for a page, where fields may be branches.
    is_page: bool,
}

impl<'a> StateReader<'a> {
    pub(super) fn new(input: &'a Bytes) -> Self {
        Self { cursor: Cursor::new(input), actors: ReadActors::new(), is_page: false }
    }

    pub(super) fn of_page(input: &'a Bytes) -> Self {
        Self { is_page: true, ..Self::new(input) }
    }
}

impl StateReader<'_> {
    pub(super) fn actors(&mut self) -> StoredResult<()> {
        for _ in 0..self.cursor.count()? {
            let actor = Actor(SmallVec::from_slice(self.cursor.counted_slice()?));
            if self.actors.last().is_some_and(|(before, _)| *before >= actor) {
                return Err(bad(&self.cursor, "actors that are not sorted"));
            }
            self.actors.push((actor, false));
        }
        Ok(())
    }

    /// Reads a field; `empty` determines the kind of its content. `depth` is the depth of the
    /// content if it is a map.
    pub(super) fn field(&mut self, empty: Content, depth: usize) -> StoredResult<MapField> {
        let deferred = EventSet::decode(&mut self.cursor)?;
        let presence = self.item()?;
        let content = match empty {
            Content::Counter(_) => Content::Counter(self.item()?),
            Content::Set(_) => Content::Set(self.entries(|reader| {
                let element = reader.cursor.counted_bytes()?;
                let item = reader.item()?;
                Ok((!item.is_void()).then_some((element, item)))
            })?),
            Content::Register(_) => Content::Register(self.item()?),
            Content::Flag(_) => Content::Flag(self.item()?),
            Content::Map(_) => Content::Map(self.entries(|reader| {
                let name = reader.cursor.counted_bytes()?;
                let (kind, branch) = reader.kind(depth)?;
                let field = reader.field_or_branch(kind, branch, depth + 1)?;
                Ok((!field.is_void()).then_some((FieldName { name, kind }, field)))
            })?),
            Content::Hll(_) => Content::Hll(self.item()?),
            Content::Branch(branch) => {
                Content::Branch(Box::new(Branch::decode(branch.datatype, &mut self.cursor)?))
            }
        };
        let field = MapField { presence, content, deferred };
        let is_deferred = |dot: &Dot| field.deferred.contains(dot);
        if !field.deferred.is_empty() && field.find_dot(&mut |dot| is_deferred(dot)) {
            return Err(bad(&self.cursor, "a write of an event that is deferred"));
        }
        Ok(field)
    }

    /// Reads the kind of a field in a map of this depth and, if it is a branch, the branch's data
    /// type.
    pub(super) fn kind(&mut self, depth: usize) -> StoredResult<(FieldKind, Option<Datatype>)> {
        let (kind, branch) = match self.is_page {
            true => read_paged_kind(&mut self.cursor)?,
            false => (read_field_kind(&mut self.cursor)?, None),
        };
        if depth == MAP_DEPTH_MAX && kind == FieldKind::Map {
            return Err(bad(&self.cursor, "maps nested too deeply"));
        }
        Ok((kind, branch))
    }

    /// As [`StateReader::field`], for a field whose kind was read.
    pub(super) fn field_or_branch(
        &mut self,
        kind: FieldKind,
        branch: Option<Datatype>,
        depth: usize,
    ) -> StoredResult<MapField> {
        self.field(branch.map_or_else(|| Content::empty(kind), Content::empty_branch), depth)
    }

    /// Reads sorted entries. `read` returns `None` for an entry that holds nothing, which is an
    /// error.
    fn entries<K: Ord, V>(
        &mut self,
        read: impl Fn(&mut Self) -> StoredResult<Option<(K, V)>>,
    ) -> StoredResult<BTreeMap<K, V>> {
        let count = self.cursor.count()?;
        let mut entries: Vec<(K, V)> = Vec::with_capacity(count.min(ENTRIES_RESERVED_MAX));
        for _ in 0..count {
            let entry = read(self)?.ok_or_else(|| bad(&self.cursor, "an entry of nothing"))?;
            if entries.last().is_some_and(|(before, _)| *before >= entry.0) {
                return Err(bad(&self.cursor, "entries that are not sorted"));
            }
            entries.push(entry);
        }
        Ok(entries.into_iter().collect())
    }

    /// Skips the parts of a record before its content. Returns true if they are empty.
    pub(super) fn skip_to_content(&mut self) -> StoredResult<bool> {
        let is_deferred = !EventSet::decode(&mut self.cursor)?.is_empty();
        let presence = self.skip_item::<()>()?;
        Ok(!is_deferred && !presence.is_live && !presence.has_deferred)
    }

    /// Skips an item.
    pub(super) fn skip_item<P: ReadPayload>(&mut self) -> StoredResult<SkippedItem> {
        let header = self.cursor.varint()?;
        let has_deferred = header & HAS_DEFERRED != 0;
        let mut skipped = SkippedItem { is_live: header >> 1 > 0, used: 0, has_deferred };
        for _ in 0..header >> 1 {
            let place = self.cursor.varint()?;
            skipped.used |=
                u32::try_from(place).ok().and_then(|place| 1u64.checked_shl(place)).unwrap_or(0);
            self.cursor.varint()?;
            P::read(&mut self.cursor)?;
        }
        if has_deferred {
            EventSet::decode(&mut self.cursor)?;
        }
        Ok(skipped)
    }

    /// Skips a field; `depth` is as for [`StateReader::field`]. The items of a branch are not
    /// counted.
    pub(super) fn skip_field(
        &mut self,
        kind: FieldKind,
        branch: Option<Datatype>,
        depth: usize,
    ) -> StoredResult<SkippedItem> {
        let has_deferred = !EventSet::decode(&mut self.cursor)?.is_empty();
        let mut skipped = SkippedItem { has_deferred, ..SkippedItem::default() };
        skipped.add(self.skip_item::<()>()?);
        if let Some(datatype) = branch {
            Branch::decode(datatype, &mut self.cursor)?;
            return Ok(skipped);
        }
        match kind {
            FieldKind::Counter => skipped.add(self.skip_item::<Totals>()?),
            FieldKind::Register => skipped.add(self.skip_item::<Assigned>()?),
            FieldKind::Flag => skipped.add(self.skip_item::<()>()?),
            FieldKind::Set => {
                for _ in 0..self.cursor.count()? {
                    self.cursor.counted_slice()?;
                    skipped.add(self.skip_item::<()>()?);
                }
            }
            FieldKind::Map => {
                for _ in 0..self.cursor.count()? {
                    self.cursor.counted_slice()?;
                    let (kind, branch) = self.kind(depth)?;
                    skipped.add(self.skip_field(kind, branch, depth + 1)?);
                }
            }
        }
        Ok(skipped)
    }

    pub(super) fn item<P: ReadPayload>(&mut self) -> StoredResult<Item<P>> {
        let header = self.cursor.varint()?;
        let mut live: SmallVec<[Write<P>; 1]> = SmallVec::new();
        let mut before = None;
        for _ in 0..header >> 1 {
            let (place, counter) = (self.cursor.varint()?, self.cursor.varint()?);
            if counter == 0 || before.is_some_and(|before| before >= (place, counter)) {
                return Err(bad(&self.cursor, "writes that are not sorted events"));
            }
            before = Some((place, counter));
            let actor = usize::try_from(place).ok().and_then(|place| self.actors.get_mut(place));
            let Some((actor, is_used)) = actor else {
                return Err(bad(&self.cursor, "a write of an actor that is not listed"));
            };
            *is_used = true;
            let dot = Dot { actor: actor.clone(), counter, time_secs: 0 };
            live.push(Write { dot, payload: P::read(&mut self.cursor)? });
        }
        let has_deferred = header & HAS_DEFERRED != 0;
        let deferred =
            if has_deferred { EventSet::decode(&mut self.cursor)? } else { EventSet::default() };
        if has_deferred && deferred.is_empty() {
            return Err(bad(&self.cursor, "no events where some are deferred"));
        }
        if has_deferred && live.iter().any(|write| deferred.contains(&write.dot)) {
            return Err(bad(&self.cursor, "a write of an event that is deferred"));
        }
        Ok(Item::from_parts(live, deferred))
    }
}
