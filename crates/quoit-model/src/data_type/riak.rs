//! States in Riak's form, for clients that read a data type as an object.
//!
//! Riak's form repeats the clock in every set, map and flag. Riak records deferred removes by whole clocks,
//! so its form can't hold deferred events of single actors; they are left out.

use super::content::{Assigned, Content, MapField, Totals};
use super::from_riak::actor_in_riak;
use super::item::{Item, Write};
use super::{FieldName, State};
use crate::clock::{Dot, VersionVector};
use crate::hll::HyperLogLog;
use crate::object::Object;
use crate::props::Datatype;
use crate::riak_data_type::{RiakCount, RiakDataType, RiakEmbedded, RiakField, RiakMap, RiakSet};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Form of counters, which depends on the bucket type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CounterForm {
    /// The bucket type has the property `datatype`.
    Typed,
    /// The bucket type does not have it: counters have the form of Riak 1.4.
    Legacy,
}

impl Object {
    /// Replaces the state of a data type by Riak's form of it. For answers only: the result can't
    /// be stored. A damaged state stays as it is.
    pub fn show_data_type(&mut self, form: CounterForm) {
        let Self { clock, siblings } = self;
        for sibling in siblings.iter_mut().filter(|sibling| sibling.is_data_type()) {
            let Ok(state) = State::decode(&sibling.value) else { continue };
            let mut value = Vec::new();
            if state.is_live() {
                let shown = match (state.to_riak(clock), form) {
                    (RiakDataType::Counter(counts), CounterForm::Legacy) => {
                        RiakDataType::LegacyCounter(counts)
                    }
                    (shown, _) => shown,
                };
                shown.encode_into(&mut value);
            }
            sibling.value = value.into();
            sibling.meta.other.clear();
        }
    }
}

impl State {
    /// Converts the state to Riak's form; `clock` is that of the state. Events that came from Riak
    /// get the actors that they had there.
    #[must_use]
    pub fn to_riak(&self, clock: &VersionVector) -> RiakDataType {
        let clock = &shown_clock(clock);
        match &self.record.content {
            Content::Counter(item) => RiakDataType::Counter(item.newest().map(count).collect()),
            Content::Set(elements) if self.datatype() == Datatype::Gset => {
                RiakDataType::Gset(live(elements).map(|(element, _)| element.clone()).collect())
            }
            Content::Set(elements) => RiakDataType::Set(set(elements, clock)),
            Content::Map(fields) => RiakDataType::Map(map(fields, clock)),
            Content::Hll(item) => RiakDataType::Hll(union(item)),
            Content::Register(_) | Content::Flag(_) | Content::Branch(_) => {
                unreachable!("these are in maps alone")
            }
        }
    }
}

/// Union of all writes; an empty HyperLogLog of the lowest precision if there is no write.
fn union(item: &Item<Arc<HyperLogLog>>) -> HyperLogLog {
    let mut writes = item.live().iter().map(|write| &*write.payload);
    let first = writes.next().cloned();
    let mut union = first.unwrap_or_else(|| HyperLogLog::new(Default::default()));
    writes.for_each(|other| union.merge(other));
    union
}

/// The clock of the state's events, without the entries of events that only the object has.
fn shown_clock(clock: &VersionVector) -> VersionVector {
    let shown = |entry: &Dot| Some(Dot { actor: actor_in_riak(&entry.actor)?, ..entry.clone() });
    VersionVector::from_entries(clock.entries().iter().filter_map(shown))
}

fn shown_dot(dot: &Dot) -> Dot {
    let actor = actor_in_riak(&dot.actor).unwrap_or_else(|| dot.actor.clone());
    Dot { actor, ..dot.clone() }
}

fn count(write: &Write<Totals>) -> RiakCount {
    let within_64_bits = |sum: u128| u64::try_from(sum).unwrap_or(u64::MAX);
    RiakCount {
        actor: shown_dot(&write.dot).actor,
        increments: within_64_bits(write.payload.increments),
        decrements: within_64_bits(write.payload.decrements),
    }
}

fn dots<P>(item: &Item<P>) -> Vec<Dot> {
    item.live().iter().map(|write| shown_dot(&write.dot)).collect()
}

fn live(elements: &BTreeMap<Bytes, Item<()>>) -> impl Iterator<Item = (&Bytes, &Item<()>)> {
    elements.iter().filter(|(_, item)| item.is_live())
}

fn set(elements: &BTreeMap<Bytes, Item<()>>, clock: &VersionVector) -> RiakSet {
    let entries = live(elements).map(|(element, item)| (element.clone(), dots(item))).collect();
    RiakSet { clock: clock.clone(), entries, deferred: Vec::new() }
}

fn map(fields: &BTreeMap<FieldName, MapField>, clock: &VersionVector) -> RiakMap {
    let live = fields.iter().filter(|(_, field)| field.is_live());
    let field = |(name, field): (&FieldName, &MapField)| {
        let value = embedded(&field.content, clock);
        // Riak merges the states of a field, and a merge is idempotent, so each state may be the
        // whole content.
        let states = dots(&field.presence).into_iter().map(|dot| (dot, value.clone())).collect();
        let tombstone = embedded(&Content::empty(name.kind), &VersionVector::default());
        RiakField { name: name.clone(), states, tombstone }
    };
    RiakMap { clock: clock.clone(), fields: live.map(field).collect(), deferred: Vec::new() }
}

fn embedded(content: &Content, clock: &VersionVector) -> RiakEmbedded {
    let clock = || clock.clone();
    match content {
        Content::Counter(item) => {
            let counts = item.newest().map(|write| (write.dot.counter, count(write)));
            RiakEmbedded::Counter { clock: clock(), counts: counts.collect() }
        }
        Content::Set(elements) => RiakEmbedded::Set(set(elements, &clock())),
        Content::Register(item) => {
            let latest = item.live().iter().map(|write| &write.payload).max();
            let (value, time_us) = latest.map_or((Bytes::new(), 0), |latest: &Assigned| {
                (latest.value.clone(), latest.time_us)
            });
            RiakEmbedded::Register { value, time_us }
        }
        Content::Flag(item) => {
            RiakEmbedded::Flag { clock: clock(), dots: dots(item), deferred: Vec::new() }
        }
        Content::Map(fields) => RiakEmbedded::Map(map(fields, &clock())),
        Content::Hll(_) => unreachable!("HyperLogLogs are not in maps"),
        Content::Branch(_) => unreachable!("what is shown was opened"),
    }
}
