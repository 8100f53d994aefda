//! Encoding of states.

use super::{HAS_DEFERRED, IS_BRANCH, STATE_FORMAT_1, field_kind_number, put_datatype, put_wide};
use crate::clock::Actor;
use crate::cursor::{put_counted, put_varint};
use crate::data_type::content::{Assigned, Content, MapField, Totals};
use crate::data_type::item::Item;
use crate::data_type::{FieldName, State};
use crate::hll::HyperLogLog;
use smallvec::SmallVec;

/// Payload of a write that can be encoded.
pub(super) trait WritePayload {
    fn put(&self, out: &mut Vec<u8>);
}

impl WritePayload for () {
    fn put(&self, _: &mut Vec<u8>) {}
}

impl WritePayload for Totals {
    fn put(&self, out: &mut Vec<u8>) {
        put_wide(out, self.increments);
        put_wide(out, self.decrements);
    }
}

impl WritePayload for Assigned {
    fn put(&self, out: &mut Vec<u8>) {
        put_varint(out, self.time_us);
        put_counted(out, &self.value);
    }
}

impl WritePayload for std::sync::Arc<HyperLogLog> {
    fn put(&self, out: &mut Vec<u8>) {
        let mut registers = Vec::new();
        self.encode_into(&mut registers);
        put_counted(out, &registers);
    }
}

/// The actors of a state's writes, sorted.
pub(super) type SortedActors<'a> = SmallVec<[&'a Actor; 8]>;

impl State {
    /// Appends the stored form. Equal states give equal bytes.
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.push(STATE_FORMAT_1);
        put_datatype(self.datatype(), out);
        let actors = actors_of(&self.record);
        put_varint(out, actors.len() as u64);
        for actor in &actors {
            put_counted(out, &actor.0);
        }
        put_field(&self.record, &actors, out);
    }
}

fn actors_of(record: &MapField) -> SortedActors<'_> {
    let mut actors = SortedActors::new();
    record.find_dot(&mut |dot| {
        if let Err(place) = actors.binary_search(&&dot.actor) {
            actors.insert(place, &dot.actor);
        }
        false
    });
    actors
}

fn put_field(field: &MapField, actors: &SortedActors<'_>, out: &mut Vec<u8>) {
    field.deferred.encode_into(out);
    put_item(&field.presence, actors, out);
    match &field.content {
        Content::Counter(item) => put_item(item, actors, out),
        Content::Set(elements) => {
            put_varint(out, elements.len() as u64);
            for (element, item) in elements {
                put_element(element, item, actors, out);
            }
        }
        Content::Register(item) => put_item(item, actors, out),
        Content::Flag(item) => put_item(item, actors, out),
        Content::Map(fields) => {
            put_varint(out, fields.len() as u64);
            for (name, field) in fields {
                put_named_field(name, field, actors, out);
            }
        }
        Content::Hll(item) => put_item(item, actors, out),
        Content::Branch(branch) => branch.encode_into(out),
    }
}

/// Appends an element with its writes.
pub(super) fn put_element(
    element: &[u8],
    item: &Item<()>,
    actors: &SortedActors<'_>,
    out: &mut Vec<u8>,
) {
    put_counted(out, element);
    put_item(item, actors, out);
}

/// Appends a field with its name.
pub(super) fn put_named_field(
    name: &FieldName,
    field: &MapField,
    actors: &SortedActors<'_>,
    out: &mut Vec<u8>,
) {
    put_counted(out, &name.name);
    let is_branch = matches!(field.content, Content::Branch(_));
    out.push(field_kind_number(name.kind) | if is_branch { IS_BRANCH } else { 0 });
    put_field(field, actors, out);
}

fn put_item<P: WritePayload>(item: &Item<P>, actors: &SortedActors<'_>, out: &mut Vec<u8>) {
    let has_deferred = if item.deferred().is_some() { HAS_DEFERRED } else { 0 };
    put_varint(out, (item.live().len() as u64) << 1 | has_deferred);
    for write in item.live() {
        let place = actors.binary_search(&&write.dot.actor).expect("the table has all actors");
        put_varint(out, place as u64);
        put_varint(out, write.dot.counter);
        write.payload.put(out);
    }
    if let Some(deferred) = item.deferred() {
        deferred.encode_into(out);
    }
}
