//! Conversion of Riak's data types to states, for import, replication, and tools that copy objects.
//!
//! Riak keeps two clocks for a data type. The object's clock counts its updates. The state's own
//! clock counts the events of elements and fields, with the same actors but other counters. A
//! record of Quoit has one clock, so the events of the state's clock get actors of their own:
//! Riak's actor with [`OF_STATE`] appended. The entries of the object's clock stay as they are and
//! mark the record as present. A delete in Riak has seen them, as has any later version of the
//! object.
//!
//! Data types whose form in Riak has no events get those of the object's clock. An object with a greater
//! clock has everything that an object with a smaller clock has. So each element of a grow-only set, and the
//! registers of a HyperLogLog, are written by the last event of each actor. Of two versions the newer one
//! then replaces the older, and the merge of two concurrent versions has what either has.
//!
//! In a counter, the number of an actor's event is the sum of all that the actor has counted, which
//! grows with each update. A count of an incarnation of Quoit is an exception: its event is the
//! incarnation's entry of the object's clock, since Quoit made the count under that event.
//!
//! The conversion is compatible with merging: converting the merge of two objects gives the merge
//! of their conversions, and merging an object with itself changes nothing.

use super::content::{Assigned, Content, MapField, Totals};
use super::item::{Item, Write, order};
use super::object::{RecordTimes, content_type};
use super::{CausalClock, EventSet, FieldName, MAP_DEPTH_MAX, Run, State};
use crate::clock::{Actor, Dot, VersionVector};
use crate::hll::HyperLogLog;
use crate::merge::NewValue;
use crate::object::{Object, Sibling};
use crate::props::Datatype;
use crate::riak_data_type::{
    RiakCount, RiakDataType, RiakDataTypeError, RiakEmbedded, RiakField, RiakMap, RiakSet,
};
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Suffix of the actors of events in states from Riak.
const OF_STATE: &[u8] = b"\0dt\0";

/// Length in bytes of incarnations of Quoit, which keep their names in Riak's form.
const INCARNATION_BYTES: usize = 17;

/// First byte of every data type that Riak stores.
const RIAK_DATA_TYPE: u8 = 69;

/// The actor here for the events of `actor` in a state of Riak.
pub(super) fn actor_of_state(actor: &Actor) -> Actor {
    let mut own = actor.clone();
    if actor.0.len() != INCARNATION_BYTES {
        own.0.extend_from_slice(OF_STATE);
    }
    own
}

/// The actor in Riak's form for the events of `actor`; `None` if the actor has no events in states.
pub(super) fn actor_in_riak(actor: &Actor) -> Option<Actor> {
    match actor.0.strip_suffix(OF_STATE) {
        Some(name) => Some(Actor(name.into())),
        None => (actor.0.len() == INCARNATION_BYTES).then(|| actor.clone()),
    }
}

/// The clock of the object in Riak's form: without the entries of events of states from Riak.
#[must_use]
pub fn clock_in_riak(clock: &VersionVector) -> VersionVector {
    let is_riaks = |entry: &&Dot| !entry.actor.0.ends_with(OF_STATE);
    VersionVector::from_entries(clock.entries().iter().filter(is_riaks).cloned())
}

impl Object {
    /// Converts the values that are data types in Riak's form to one state. `datatype` is that of the bucket;
    /// in a bucket without one, only counters of Riak 1.4 are data types. Tombstones beside a data type are
    /// dropped, as they are when Riak reads it. Returns true if the object has changed.
    ///
    /// # Errors
    ///
    /// Returns an error if such a value is damaged, or nests maps deeper than [`MAP_DEPTH_MAX`].
    /// The object is then unchanged.
    pub fn adopt_riak_data_type(
        &mut self,
        datatype: Option<Datatype>,
    ) -> Result<bool, RiakDataTypeError> {
        self.adopt(datatype, None)
    }

    /// As [`Object::write`], for a plain write of a data type in Riak's form to a bucket with
    /// siblings. As in Riak, the new state replaces what its writer had seen and is merged with the
    /// rest of the stored state. Returns `None` if the value is damaged or not of the bucket's data
    /// type; it is then written as an ordinary value.
    #[must_use]
    pub fn write_riak_data_type(
        stored: Option<&Self>,
        context: &VersionVector,
        new: &NewValue,
        dot: &Dot,
        datatype: Option<Datatype>,
    ) -> Option<Self> {
        if !claims_riak_data_type(&new.value, new.meta.content_type.as_deref(), datatype) {
            return None;
        }
        let mut given = Self::given(context.clone(), new.clone());
        if !given.adopt(datatype, Some(dot)).unwrap_or(false) {
            return None;
        }
        let written = stored.map_or_else(|| given.clone(), |stored| stored.merge(&given));
        // This store has seen all earlier events of the dot's actor.
        Some(written.advanced_to(dot))
    }

    /// Converts the values. `written_by` is the event of a write on this store, which the object's
    /// clock does not have yet.
    fn adopt(
        &mut self,
        datatype: Option<Datatype>,
        written_by: Option<&Dot>,
    ) -> Result<bool, RiakDataTypeError> {
        let is_one = |sibling: &Sibling| is_riak_form(sibling, datatype);
        if !self.siblings.iter().any(is_one) || self.has_data_type() {
            return Ok(false);
        }
        let mut events =
            Events { read: clock_in_riak(&self.clock), all: clock_in_riak(&self.clock) };
        let mut clock = CausalClock::from(self.clock.clone());
        if let Some(dot) = written_by {
            events.all.advance(dot);
            clock.add(dot);
        }
        let mut converted: Option<ConvertedValue> = None;
        let mut places = Vec::new();
        for (place, sibling) in self.siblings.iter().enumerate().filter(|(_, one)| is_one(one)) {
            let value = RiakDataType::decode(&sibling.value)?;
            if !is_for(&value, datatype) {
                continue;
            }
            let read = ConvertedValue::of(value, &events, sibling.life())?;
            places.push(place);
            match &mut converted {
                None => converted = Some(read),
                Some(converted) => converted.merge(read),
            }
        }
        let Some(ConvertedValue { datatype, mut content, clock: seen, life }) = converted else {
            return Ok(false);
        };
        clock.merge(&seen);
        content.settle(&clock);
        let presence = Item::from_parts(writes(&events.all, ()).into(), EventSet::default());
        let record = MapField { presence, content, deferred: EventSet::default() };
        let mut place = 0;
        self.siblings.retain(|sibling| {
            place += 1;
            !places.contains(&(place - 1)) && !sibling.deleted
        });
        self.clock = clock.vector().clone();
        self.push_state(&State::from_record(datatype, record), &clock, life);
        Ok(true)
    }
}

/// Events of an object's clock.
struct Events {
    /// The events that the writer had read; for an object from elsewhere, all.
    read: VersionVector,
    /// The same, with the event of the write.
    all: VersionVector,
}

/// True if a sibling claims to be a data type of the bucket in Riak's form.
fn is_riak_form(sibling: &Sibling, datatype: Option<Datatype>) -> bool {
    let content_type = sibling.meta.content_type.as_deref();
    !sibling.deleted
        && !sibling.is_data_type()
        && claims_riak_data_type(&sibling.value, content_type, datatype)
}

/// True if a value claims to be a data type of the bucket in Riak's form, by its content type and
/// first byte.
#[must_use]
pub fn claims_riak_data_type(
    value: &[u8],
    content_type: Option<&[u8]>,
    datatype: Option<Datatype>,
) -> bool {
    let claimed = || self::content_type(datatype.unwrap_or(Datatype::Counter));
    value.first() == Some(&RIAK_DATA_TYPE) && content_type == Some(claimed().as_bytes())
}

fn is_for(value: &RiakDataType, datatype: Option<Datatype>) -> bool {
    match (value, datatype) {
        (RiakDataType::LegacyCounter(_), None | Some(Datatype::Counter))
        | (RiakDataType::Counter(_), Some(Datatype::Counter))
        | (RiakDataType::Set(_), Some(Datatype::Set))
        | (RiakDataType::Gset(_), Some(Datatype::Gset))
        | (RiakDataType::Map(_), Some(Datatype::Map))
        | (RiakDataType::Hll(_), Some(Datatype::Hll)) => true,
        (_, _) => false,
    }
}

/// A value of Riak, converted to the content of a record.
struct ConvertedValue {
    datatype: Datatype,
    content: Content,
    clock: CausalClock,
    life: RecordTimes,
}

impl ConvertedValue {
    fn of(
        value: RiakDataType,
        events: &Events,
        life: RecordTimes,
    ) -> Result<Self, RiakDataTypeError> {
        let (datatype, (content, clock)) = match value {
            RiakDataType::Counter(counts) | RiakDataType::LegacyCounter(counts) => {
                (Datatype::Counter, counter(&counts, &events.read))
            }
            RiakDataType::Set(value) => (Datatype::Set, set(value)),
            RiakDataType::Gset(elements) => {
                let item = || Item::from_parts(writes(&events.all, ()).into(), EventSet::default());
                let elements = elements.into_iter().map(|element| (element, item()));
                (Datatype::Gset, (Content::Set(elements.collect()), CausalClock::default()))
            }
            RiakDataType::Map(value) => (Datatype::Map, map(value, 1)?),
            RiakDataType::Hll(value) => {
                let live = writes(&events.all, Arc::new(value)).into();
                let item = Item::from_parts(live, EventSet::default());
                (Datatype::Hll, (Content::Hll(item), CausalClock::default()))
            }
        };
        Ok(Self { datatype, content, clock, life })
    }

    /// Merges another value of the same object.
    fn merge(&mut self, other: Self) {
        match (&mut self.content, other.content) {
            (Content::Set(own), Content::Set(others)) if self.datatype == Datatype::Gset => {
                own.extend(others);
            }
            (Content::Hll(own), Content::Hll(others)) => *own = united(own, &others),
            (Content::Counter(own), Content::Counter(others)) => {
                *own = counted(own, &others);
                own.merge(&self.clock, &others, &other.clock);
            }
            (own, others) => own.merge(&self.clock, &others, &other.clock),
        }
        self.clock.merge(&other.clock);
        self.life = self.life.merge(other.life);
    }
}

/// Union of two HyperLogLogs that were written by the same events.
fn united(own: &Item<Arc<HyperLogLog>>, others: &Item<Arc<HyperLogLog>>) -> Item<Arc<HyperLogLog>> {
    let mut payloads = own.live().iter().chain(others.live()).map(|write| &write.payload);
    let Some(first) = payloads.next() else { return Item::default() };
    let mut union = HyperLogLog::clone(first);
    payloads.for_each(|payload| union.merge(payload));
    let union = Arc::new(union);
    let live = own.live().iter();
    let live = live.map(|write| Write { dot: write.dot.clone(), payload: Arc::clone(&union) });
    Item::from_parts(live.collect(), EventSet::default())
}

/// Takes the larger of two counts where both counters have a write of the same event. This happens
/// because siblings share the clock of their object, so an incarnation's counts in both get the
/// same event, although the older sibling counted less.
fn counted(own: &Item<Totals>, others: &Item<Totals>) -> Item<Totals> {
    let larger = |write: &Write<Totals>| {
        let same = others.live().iter().find(|other| other.dot == write.dot);
        let theirs = same.map_or(write.payload, |other| other.payload);
        let payload = Totals {
            increments: write.payload.increments.max(theirs.increments),
            decrements: write.payload.decrements.max(theirs.decrements),
        };
        Write { dot: write.dot.clone(), payload }
    };
    Item::from_parts(own.live().iter().map(larger).collect(), EventSet::default())
}

/// Makes one write for the last event of each actor of a clock.
fn writes<P: Clone>(events: &VersionVector, payload: P) -> Vec<Write<P>> {
    let counted = events.entries().iter().filter(|entry| entry.counter > 0);
    let mut writes: Vec<Write<P>> =
        counted.map(|dot| Write { dot: dot.clone(), payload: payload.clone() }).collect();
    writes.sort_by(|a, b| order(&a.dot).cmp(&order(&b.dot)));
    writes
}

fn item<P>(mut live: Vec<Write<P>>, deferred: EventSet) -> Item<P> {
    live.sort_by(|a, b| order(&a.dot).cmp(&order(&b.dot)));
    live.dedup_by(|a, b| a.dot == b.dot);
    Item::from_parts(live.into(), deferred)
}

fn event(dot: &Dot) -> Dot {
    Dot { actor: actor_of_state(&dot.actor), counter: dot.counter.max(1), time_secs: 0 }
}

fn events(dots: &[Dot]) -> Vec<Write<()>> {
    dots.iter().map(|dot| Write { dot: event(dot), payload: () }).collect()
}

fn clock(vector: &VersionVector) -> CausalClock {
    let counted = vector.entries().iter().filter(|entry| entry.counter > 0);
    CausalClock::from(VersionVector::from_entries(counted.map(event)))
}

/// The events of a Riak clock that a state has not seen.
fn unseen_events(context: &VersionVector, seen: &CausalClock) -> EventSet {
    let mut events = EventSet::default();
    for entry in clock(context).vector().entries() {
        events.insert(&entry.actor, Run { first: 1, last: entry.counter });
    }
    events.subtract(seen);
    events
}

/// Converts a counter. `events` is the clock of the object.
fn counter(counts: &[RiakCount], events: &VersionVector) -> (Content, CausalClock) {
    let write = |count: &RiakCount| {
        let counter = match count.actor.0.len() {
            // Every event of an incarnation is an update of the counter. If Riak has pruned its
            // entry from the object's clock, the event becomes number 1, which yields to any event
            // that is known here.
            INCARNATION_BYTES => events.counter(&count.actor).max(1),
            _ => count.increments.saturating_add(count.decrements),
        };
        let dot = Dot { actor: actor_of_state(&count.actor), counter, time_secs: 0 };
        Write { dot, payload: totals(count) }
    };
    let live: Vec<_> = counts.iter().map(write).filter(|write| write.dot.counter > 0).collect();
    let seen = VersionVector::from_entries(live.iter().map(|write| write.dot.clone()));
    (Content::Counter(item(live, EventSet::default())), seen.into())
}

fn totals(count: &RiakCount) -> Totals {
    Totals { increments: count.increments.into(), decrements: count.decrements.into() }
}

fn set(value: RiakSet) -> (Content, CausalClock) {
    let mut seen = clock(&value.clock);
    let mut elements: BTreeMap<Bytes, (Vec<Write<()>>, EventSet)> = BTreeMap::new();
    for (element, dots) in value.entries {
        let live = events(&dots);
        live.iter().for_each(|write| seen.add(&write.dot));
        elements.entry(element).or_default().0.extend(live);
    }
    for (context, removed) in value.deferred {
        let unseen_events = unseen_events(&context, &seen);
        if unseen_events.is_empty() {
            continue;
        }
        for element in removed {
            elements.entry(element).or_default().1.merge(&unseen_events);
        }
    }
    let items = elements.into_iter().map(|(element, (live, late))| (element, item(live, late)));
    (Content::Set(items.filter(|(_, item)| !item.is_void()).collect()), seen)
}

fn map(value: RiakMap, depth: usize) -> Result<(Content, CausalClock), RiakDataTypeError> {
    if depth > MAP_DEPTH_MAX {
        return Err(RiakDataTypeError::TooDeep);
    }
    let mut seen = clock(&value.clock);
    let mut fields: BTreeMap<FieldName, MapField> = BTreeMap::new();
    for riaks in value.fields {
        let name = riaks.name.clone();
        let field = field(riaks, depth)?;
        field.presence.live().iter().for_each(|write| seen.add(&write.dot));
        fields.insert(name, field);
    }
    for (context, removed) in value.deferred {
        let unseen_events = unseen_events(&context, &seen);
        if unseen_events.is_empty() {
            continue;
        }
        for name in removed {
            let empty = MapField::empty(Content::empty(name.kind));
            fields.entry(name).or_insert(empty).deferred.merge(&unseen_events);
        }
    }
    fields.retain(|_, field| !field.is_void());
    Ok((Content::Map(fields), seen))
}

/// Converts a field. Its concurrent states are merged, and then merged with what removes have taken
/// away.
fn field(riaks: RiakField, depth: usize) -> Result<MapField, RiakDataTypeError> {
    let mut content = Content::empty(riaks.name.kind);
    let mut seen = CausalClock::default();
    let mut presence = Vec::with_capacity(riaks.states.len());
    for (dot, state) in riaks.states {
        presence.push(Write { dot: event(&dot), payload: () });
        let (of_state, its_clock) = embedded(state, Some(&dot), depth)?;
        content.merge(&seen, &of_state, &its_clock);
        seen.merge(&its_clock);
    }
    let (removed, its_clock) = embedded(riaks.tombstone, None, depth)?;
    content.merge(&seen, &removed, &its_clock);
    Ok(MapField {
        presence: item(presence, EventSet::default()),
        content,
        deferred: EventSet::default(),
    })
}

/// Converts a value in a map, with the events that it has seen. `dot` is the update that wrote it;
/// tombstones have none.
fn embedded(
    value: RiakEmbedded,
    dot: Option<&Dot>,
    depth: usize,
) -> Result<(Content, CausalClock), RiakDataTypeError> {
    Ok(match value {
        RiakEmbedded::Counter { clock: seen, counts } => {
            let write = |(counter, count): &(u64, RiakCount)| {
                let dot = Dot { actor: count.actor.clone(), counter: *counter, time_secs: 0 };
                Write { dot: event(&dot), payload: totals(count) }
            };
            let live = counts.iter().map(write).collect();
            (Content::Counter(item(live, EventSet::default())), clock(&seen))
        }
        RiakEmbedded::Register { value, time_us } => {
            let write = |dot| Write { dot: event(dot), payload: Assigned { time_us, value } };
            let live = dot.map(write).into_iter().collect();
            (Content::Register(item(live, EventSet::default())), CausalClock::default())
        }
        RiakEmbedded::Flag { clock: seen, dots, deferred } => {
            let seen = clock(&seen);
            let mut late = EventSet::default();
            deferred.iter().for_each(|context| late.merge(&unseen_events(context, &seen)));
            (Content::Flag(item(events(&dots), late)), seen)
        }
        RiakEmbedded::Set(value) => set(value),
        RiakEmbedded::Map(value) => map(value, depth + 1)?,
    })
}

#[cfg(test)]
mod tests;
