//! States made of Riak's: what import, replication and tools that copy objects bring.
//!
//! Riak keeps two clocks for a data type. The object's counts its updates; the state's own counts the events
//! of elements and fields, by the same actors with other numbers. A record of ours has one clock, so the
//! events of the state's clock get actors of their own: the actor that Riak has and [`OF_STATE`] behind it.
//! The entries of the object's clock stay as they are, and say that the record is there: a delete in Riak has
//! seen them, and a later version of the object as well.
//!
//! Types without events in Riak's form take those of the object's clock. An object with a larger clock holds
//! all that a smaller one held, so each element of a grow-only set, and the registers of a HyperLogLog, are
//! written by the last event of each actor: of two versions the newer one then takes over, and two that are
//! concurrent keep what either has. A counter's event is the sum of all that its actor has counted, which
//! grows with each update; but what an actor of our own has counted keeps its event, which is the actor's
//! entry of the object's clock: the state that made it has the count under that name, and later ones.
//!
//! So the conversion of the merge of two objects is the merge of their conversions, and the same object twice
//! is one.

use super::content::{Assigned, Content, MapField, Totals};
use super::item::{Item, Write, order};
use super::object::{Life, content_type};
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

/// Behind the actors of events in states from Riak.
const OF_STATE: &[u8] = b"\0dt\0";

/// Length of the actors that make events in our own states; they need no other name in Riak's form.
const INCARNATION_BYTES: usize = 17;

/// First byte of every data type that Riak stores.
const RIAK_DATA_TYPE: u8 = 69;

/// The actor under which a record here has the events that a state of Riak's has under this one.
pub(super) fn actor_of_state(actor: &Actor) -> Actor {
    let mut own = actor.clone();
    if actor.0.len() != INCARNATION_BYTES {
        own.0.extend_from_slice(OF_STATE);
    }
    own
}

/// The actor of a state's events in Riak's form; `None` of actors that have no events in states.
pub(super) fn actor_in_riak(actor: &Actor) -> Option<Actor> {
    match actor.0.strip_suffix(OF_STATE) {
        Some(name) => Some(Actor(name.into())),
        None => (actor.0.len() == INCARNATION_BYTES).then(|| actor.clone()),
    }
}

/// The clock that Riak has of an object: without the entries that only states here have.
#[must_use]
pub fn clock_in_riak(clock: &VersionVector) -> VersionVector {
    let is_riaks = |entry: &&Dot| !entry.actor.0.ends_with(OF_STATE);
    VersionVector::from_entries(clock.entries().iter().filter(is_riaks).cloned())
}

impl Object {
    /// Makes states of the values that are data types in Riak's form, several of them one. `datatype` is that
    /// of the bucket; in buckets without one, counters of Riak 1.4 alone are data types. Returns whether the
    /// object has changed. Tombstones beside a data type go, as they do when Riak reads it.
    ///
    /// # Errors
    ///
    /// When such a value is damaged, or its maps are nested deeper than ours may be; the object then stays as
    /// it is.
    pub fn adopt_riak_data_type(
        &mut self,
        datatype: Option<Datatype>,
    ) -> Result<bool, RiakDataTypeError> {
        self.adopt(datatype, None)
    }

    /// As [`Object::write`], for a plain write of a data type in Riak's form to a bucket with siblings. As in
    /// Riak, the new state replaces what its writer had seen, and is merged with what is there beside that.
    /// `None` where the value is none of the bucket's data type, or is damaged: it is a value as any other.
    #[must_use]
    pub fn write_riak_data_type(
        stored: Option<&Self>,
        context: &VersionVector,
        new: &NewValue,
        dot: &Dot,
        datatype: Option<Datatype>,
    ) -> Option<Self> {
        if !claims_to_be_riaks(&new.value, new.meta.content_type.as_deref(), datatype) {
            return None;
        }
        let mut given = Self::given(context.clone(), new.clone());
        if !given.adopt(datatype, Some(dot)).unwrap_or(false) {
            return None;
        }
        let written = stored.map_or_else(|| given.clone(), |stored| stored.merge(&given));
        // The events of its actor before this one are known here.
        Some(written.advanced_to(dot))
    }

    /// `written_by` is the event of a write here, which the object's clock does not have yet.
    fn adopt(
        &mut self,
        datatype: Option<Datatype>,
        written_by: Option<&Dot>,
    ) -> Result<bool, RiakDataTypeError> {
        let is_one = |sibling: &Sibling| looks_like_riaks(sibling, datatype);
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
        let mut adopted: Option<Adopted> = None;
        let mut places = Vec::new();
        for (place, sibling) in self.siblings.iter().enumerate().filter(|(_, one)| is_one(one)) {
            let value = RiakDataType::decode(&sibling.value)?;
            if !is_for(&value, datatype) {
                continue;
            }
            let read = Adopted::of(value, &events, sibling.life())?;
            places.push(place);
            match &mut adopted {
                None => adopted = Some(read),
                Some(adopted) => adopted.merge(read),
            }
        }
        let Some(Adopted { datatype, mut content, clock: seen, life }) = adopted else {
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
    /// Those that its writer had read: all of an object from elsewhere.
    read: VersionVector,
    /// Those, and the event of the write.
    all: VersionVector,
}

/// Whether a sibling claims to be a data type of the bucket in Riak's form.
fn looks_like_riaks(sibling: &Sibling, datatype: Option<Datatype>) -> bool {
    let content_type = sibling.meta.content_type.as_deref();
    !sibling.deleted
        && !sibling.is_data_type()
        && claims_to_be_riaks(&sibling.value, content_type, datatype)
}

/// Whether a value claims to be a data type of the bucket in Riak's form.
#[must_use]
pub fn claims_to_be_riaks(
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

/// A value of Riak's as content of a record here.
struct Adopted {
    datatype: Datatype,
    content: Content,
    clock: CausalClock,
    life: Life,
}

impl Adopted {
    fn of(value: RiakDataType, events: &Events, life: Life) -> Result<Self, RiakDataTypeError> {
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

    /// Another value of the same object.
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

/// Two HyperLogLogs that the same events have written.
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

/// A counter with the larger of two counts where both have one of the same event: values beside each other
/// share the clock of their object, and the older of them has less of what our own actors have counted.
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

/// One write by each actor's last event in a clock.
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

/// Those events of a clock of Riak's that a state has not seen.
fn to_come(context: &VersionVector, seen: &CausalClock) -> EventSet {
    let mut events = EventSet::default();
    for entry in clock(context).vector().entries() {
        events.insert(&entry.actor, Run { first: 1, last: entry.counter });
    }
    events.subtract(seen);
    events
}

/// `events` is the clock of the object.
fn counter(counts: &[RiakCount], events: &VersionVector) -> (Content, CausalClock) {
    let write = |count: &RiakCount| {
        let counter = match count.actor.0.len() {
            // Every event of such an actor is an update of the counter. One that Riak has cut from a long
            // clock is the first: it yields to any that is known here.
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
        let to_come = to_come(&context, &seen);
        if to_come.is_empty() {
            continue;
        }
        for element in removed {
            elements.entry(element).or_default().1.merge(&to_come);
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
        let to_come = to_come(&context, &seen);
        if to_come.is_empty() {
            continue;
        }
        for name in removed {
            let empty = MapField::empty(Content::empty(name.kind));
            fields.entry(name).or_insert(empty).deferred.merge(&to_come);
        }
    }
    fields.retain(|_, field| !field.is_void());
    Ok((Content::Map(fields), seen))
}

/// A field: its states, which no update has seen together, merged, and what removes have taken away.
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

/// A value in a map, with the events that it has seen. `dot` is the update that wrote it; tombstones have
/// none.
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
            deferred.iter().for_each(|context| late.merge(&to_come(context, &seen)));
            (Content::Flag(item(events(&dots), late)), seen)
        }
        RiakEmbedded::Set(value) => set(value),
        RiakEmbedded::Map(value) => map(value, depth + 1)?,
    })
}

#[cfg(test)]
mod tests;
