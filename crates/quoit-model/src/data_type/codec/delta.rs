//! Encoding of deltas, as replicas send them to each other.

use super::{
    DELTA_FORMAT_1, HAS_UNDONE, HAS_WRITE, bad, put_datatype, put_field_kind, read, read_end,
    read_field_kind, read_format, write,
};
use crate::clock::{Actor, Dot};
use crate::cursor::{Cursor, put_counted, put_varint};
use crate::data_type::change::{ContentChange, FieldChange};
use crate::data_type::item::{ItemChange, Write};
use crate::data_type::{Delta, EventSet, FieldName, MAP_DEPTH_MAX, Run, StoredFormError};
use bytes::Bytes;
use smallvec::SmallVec;
use std::collections::BTreeMap;

impl Delta {
    /// Appends the form in which replicas send the delta.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(DELTA_FORMAT_1);
        put_datatype(self.datatype, out);
        put_counted(out, &self.actor.0);
        put_varint(out, self.run.first);
        put_varint(out, self.run.last - self.run.first);
        put_varint(out, self.time_secs);
        put_field(&self.change, self.run, out);
    }

    /// Decodes a delta. Elements and values share `input`.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are cut off, have another format, or hold something that no
    /// encoder writes.
    pub fn decode(input: &Bytes) -> Result<Self, StoredFormError> {
        let mut cursor = Cursor::new(input);
        let datatype = read_format(&mut cursor, DELTA_FORMAT_1)?;
        let actor = Actor(SmallVec::from_slice(cursor.counted_slice()?));
        let (first, more) = (cursor.varint()?, cursor.varint()?);
        let last = first.checked_add(more).filter(|_| first > 0);
        let last = last.ok_or_else(|| bad(&cursor, "no run of events"))?;
        let (time_secs, run) = (cursor.varint()?, Run { first, last });
        let mut reader = DeltaReader { cursor, actor, run };
        let change = reader.field(ContentChange::none_of_record(datatype), 1)?;
        read_end(&reader.cursor)?;
        Ok(Self { datatype, actor: reader.actor, run, time_secs, change })
    }
}

fn put_field(change: &FieldChange, run: Run, out: &mut Vec<u8>) {
    change.undone.encode_into(out);
    put_item(&change.presence, run, out);
    match &change.content {
        ContentChange::Counter(change) => put_item(change, run, out),
        ContentChange::Set(changes) => {
            put_varint(out, changes.len() as u64);
            for (element, change) in changes {
                put_counted(out, element);
                put_item(change, run, out);
            }
        }
        ContentChange::Register(change) => put_item(change, run, out),
        ContentChange::Flag(change) => put_item(change, run, out),
        ContentChange::Map(changes) => {
            put_varint(out, changes.len() as u64);
            for (name, change) in changes {
                put_counted(out, &name.name);
                put_field_kind(name.kind, out);
                put_field(change, run, out);
            }
        }
        ContentChange::Hll(change) => put_item(change, run, out),
    }
}

/// Appends a change of an item. The event of a write is stored as its position in the delta's run.
fn put_item<P: write::WritePayload>(change: &ItemChange<P>, run: Run, out: &mut Vec<u8>) {
    let flag = |flag, is_set| if is_set { flag } else { 0 };
    let (has_write, has_undone) = (change.write.is_some(), !change.undone.is_empty());
    out.push(flag(HAS_WRITE, has_write) | flag(HAS_UNDONE, has_undone));
    if let Some(write) = &change.write {
        put_varint(out, write.dot.counter - run.first);
        write.payload.put(out);
    }
    if has_undone {
        change.undone.encode_into(out);
    }
}

struct DeltaReader<'a> {
    cursor: Cursor<'a>,
    actor: Actor,
    run: Run,
}

impl DeltaReader<'_> {
    fn field(&mut self, none: ContentChange, depth: usize) -> Result<FieldChange, StoredFormError> {
        let undone = EventSet::decode(&mut self.cursor)?;
        let presence = self.item()?;
        let content = match none {
            ContentChange::Counter(_) => ContentChange::Counter(self.item()?),
            ContentChange::Set(_) => ContentChange::Set(self.entries(|reader| {
                let element = reader.cursor.counted_bytes()?;
                Ok((element, reader.item()?))
            })?),
            ContentChange::Register(_) => ContentChange::Register(self.item()?),
            ContentChange::Flag(_) => ContentChange::Flag(self.item()?),
            ContentChange::Map(_) => ContentChange::Map(self.entries(|reader| {
                let name = reader.cursor.counted_bytes()?;
                let kind = read_field_kind(&mut reader.cursor)?;
                let none = ContentChange::none(kind);
                if depth == MAP_DEPTH_MAX && matches!(none, ContentChange::Map(_)) {
                    return Err(bad(&reader.cursor, "maps nested too deeply"));
                }
                Ok((FieldName { name, kind }, reader.field(none, depth + 1)?))
            })?),
            ContentChange::Hll(_) => ContentChange::Hll(self.item()?),
        };
        Ok(FieldChange { undone, presence, content })
    }

    fn entries<K: Ord, V>(
        &mut self,
        read: impl Fn(&mut Self) -> Result<(K, V), StoredFormError>,
    ) -> Result<BTreeMap<K, V>, StoredFormError> {
        let count = self.cursor.count()?;
        let mut entries: Vec<(K, V)> = Vec::new();
        for _ in 0..count {
            let entry = read(self)?;
            if entries.last().is_some_and(|(before, _)| *before >= entry.0) {
                return Err(bad(&self.cursor, "entries that are not sorted"));
            }
            entries.push(entry);
        }
        Ok(entries.into_iter().collect())
    }

    fn item<P: read::ReadPayload>(&mut self) -> Result<ItemChange<P>, StoredFormError> {
        let flags = self.cursor.u8()?;
        if flags & !(HAS_WRITE | HAS_UNDONE) != 0 {
            return Err(bad(&self.cursor, "unknown flags"));
        }
        let mut change = ItemChange::default();
        if flags & HAS_WRITE != 0 {
            let counter = self.run.first.checked_add(self.cursor.varint()?);
            let counter = counter.filter(|counter| *counter <= self.run.last);
            let counter = counter.ok_or_else(|| bad(&self.cursor, "a write of no event of its"))?;
            let dot = Dot { actor: self.actor.clone(), counter, time_secs: 0 };
            change.write = Some(Write { dot, payload: P::read(&mut self.cursor)? });
        }
        if flags & HAS_UNDONE != 0 {
            change.undone = EventSet::decode(&mut self.cursor)?;
        }
        Ok(change)
    }
}
