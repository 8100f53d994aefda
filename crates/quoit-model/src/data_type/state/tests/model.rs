//! The naive model. It keeps every request for ever, and searches all requests that a replica has
//! seen to find the writes that count. It has neither clocks nor merges.

use super::*;
use crate::data_type::content::{Assigned, Content, Totals};
use crate::data_type::item::Item;
use crate::data_type::{FieldKind, FieldOperation, MapOperation, SetChange};
use crate::hll::HyperLogLog;
use std::collections::{BTreeMap, BTreeSet};

/// A step of the path to a write.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Step {
    Presence,
    Only,
    Element(Bytes),
    Field(FieldName),
    /// Outside the data type: a plain value, or a delete.
    Plain {
        deleted: bool,
    },
}

pub(super) type Path = Vec<Step>;
pub(super) type Event = (Actor, u64);

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Payload {
    Nothing,
    Count(i128),
    Assigned(u64, Bytes),
    Counted(BTreeSet<Bytes>),
}

pub(super) type Live = BTreeSet<(Path, Event, Payload)>;

/// Effects of a request.
#[derive(Clone, Default, Debug)]
pub(super) struct Done {
    pub(super) events: BTreeSet<Event>,
    writes: Live,
    /// Paths and events: writes of these events below the path do not count.
    undone: Vec<(Path, BTreeSet<Event>)>,
}

/// All requests.
#[derive(Clone, Default, Debug)]
pub(super) struct History {
    pub(super) requests: Vec<Done>,
}

pub(super) type Seen = BTreeSet<usize>;

impl History {
    pub(super) fn events(&self, seen: &Seen) -> BTreeSet<Event> {
        seen.iter().flat_map(|request| self.requests[*request].events.clone()).collect()
    }

    /// The live items for a replica that has seen these requests.
    pub(super) fn live(&self, seen: &Seen) -> Live {
        let is_undone = |path: &Path, event: &Event| {
            seen.iter()
                .flat_map(|request| &self.requests[*request].undone)
                .any(|(prefix, events)| path.starts_with(prefix) && events.contains(event))
        };
        let writes = seen.iter().flat_map(|request| &self.requests[*request].writes);
        writes.filter(|(path, event, _)| !is_undone(path, event)).cloned().collect()
    }

    pub(super) fn delete(&mut self, seen: &Seen, event: Event) -> usize {
        let events = self.live(seen).into_iter().map(|(_, event, _)| event).collect();
        let undone = vec![(Vec::new(), events)];
        self.requests.push(Done { events: [event].into(), undone, ..Done::default() });
        self.requests.len() - 1
    }
}

/// Writes outside the data type, as the whole object has them.
impl History {
    /// A plain write or a delete by a client that had seen the requests in `context`. It undoes all
    /// of them, and the replica has then seen them.
    pub(super) fn write_plain(&mut self, context: &Seen, event: Event, deleted: bool) -> usize {
        self.requests.push(Done {
            events: [event.clone()].into(),
            writes: [([Step::Plain { deleted }].into(), event, Payload::Nothing)].into(),
            undone: vec![(Vec::new(), self.events(context))],
        });
        self.requests.len() - 1
    }

    /// An operation on an object that has seen these requests. It undoes earlier deletes.
    pub(super) fn operate(&mut self, mut done: Done, seen: &Seen) -> usize {
        let path: Path = [Step::Plain { deleted: true }].into();
        let deletes = self.live(seen).into_iter().filter(|(at, _, _)| *at == path);
        done.undone.push((path.clone(), deletes.map(|(_, event, _)| event).collect()));
        self.requests.push(done);
        self.requests.len() - 1
    }
}

/// Separates the live items of the data type from the events of plain values and deletes.
pub(super) fn apart(live: Live) -> (Live, BTreeSet<(bool, Event)>) {
    let mut beside = BTreeSet::new();
    let of_type = |(path, event, _): &(Path, Event, Payload)| match path.as_slice() {
        [Step::Plain { deleted }] => {
            beside.insert((*deleted, event.clone()));
            false
        }
        _ => true,
    };
    let live = live.into_iter().filter(of_type).collect();
    (live, beside)
}

/// A request while it is applied.
pub(super) struct Doing<'a> {
    live: Live,
    /// Events of the context, and those of them that this replica has not seen.
    context: Option<&'a BTreeSet<Event>>,
    ahead: BTreeSet<Event>,
    actor: Actor,
    next: u64,
    shared: bool,
    now_us: u64,
    done: Done,
}

/// The effects of an operation; `None` if it removes something that is absent.
pub(super) fn request(
    history: &History,
    seen: &Seen,
    operation: &Operation,
    context: Option<&BTreeSet<Event>>,
    actor: &Actor,
    now_us: u64,
) -> Option<Done> {
    let known = history.events(seen);
    let last = known.iter().filter(|event| event.0 == *actor).map(|event| event.1).max();
    let removes = matches!(operation, Operation::Set(_) | Operation::Map(_));
    let context = context.filter(|_| removes);
    let mut doing = Doing {
        live: history.live(seen),
        ahead: context.map_or_else(BTreeSet::new, |context| context - &known),
        context,
        actor: actor.clone(),
        next: last.unwrap_or(0) + 1,
        shared: !matches!(operation, Operation::Set(_) | Operation::Gset(_)),
        now_us,
        done: Done::default(),
    };
    doing.replace(&[Step::Presence].into(), Payload::Nothing);
    match operation {
        Operation::Counter(by) => doing.count(&[].into(), *by),
        Operation::Set(changes) => doing.set(&[].into(), changes)?,
        Operation::Gset(elements) => {
            for element in elements {
                doing.replace(&[Step::Element(element.clone())].into(), Payload::Nothing);
            }
        }
        Operation::Hll(elements) => doing.hll(elements),
        Operation::Map(map) => doing.map(&[].into(), map)?,
    }
    let Doing { live, mut done, .. } = doing;
    let own = |(_, event, _): &&(Path, Event, Payload)| done.events.contains(event);
    done.writes = live.iter().filter(own).cloned().collect();
    Some(done)
}

fn below(path: &Path, step: Step) -> Path {
    let mut path = path.clone();
    path.push(step);
    path
}

impl Doing<'_> {
    fn write(&mut self, path: &Path, payload: Payload) {
        if !self.shared || self.done.events.is_empty() {
            self.done.events.insert((self.actor.clone(), self.next));
            self.next += 1;
        }
        let event = (self.actor.clone(), self.next - 1);
        self.live.insert((path.clone(), event, payload));
    }

    /// Undoes selected writes that count below a path. Returns them.
    fn undo(&mut self, path: &Path, which: impl Fn(&Event, &Payload) -> bool) -> Live {
        let is_it = |(at, event, payload): &&(Path, Event, Payload)| {
            at.starts_with(path) && which(event, payload)
        };
        let undone: Live = self.live.iter().filter(is_it).cloned().collect();
        self.live = &self.live - &undone;
        let others = undone.iter().map(|(_, event, _)| event.clone());
        let others = others.filter(|event| !self.done.events.contains(event)).collect();
        self.done.undone.push((path.clone(), others));
        undone
    }

    fn replace(&mut self, path: &Path, payload: Payload) {
        self.undo(path, |_, _| true);
        self.write(path, payload);
    }

    /// Removes what the client had seen. Returns true if there was anything.
    fn remove(&mut self, path: &Path) -> bool {
        let context = self.context;
        let seen = |event: &Event, _: &Payload| context.is_none_or(|seen| seen.contains(event));
        let any = !self.undo(path, seen).is_empty();
        self.done.undone.push((path.clone(), self.ahead.clone()));
        any
    }

    fn count(&mut self, path: &Path, by: i64) {
        let path = below(path, Step::Only);
        let actor = self.actor.clone();
        let before = self.undo(&path, |event, _| event.0 == actor);
        let sum = before.iter().map(|(_, _, payload)| match payload {
            Payload::Count(count) => *count,
            other => panic!("{other:?} in a counter"),
        });
        let sum = sum.sum::<i128>() + i128::from(by);
        self.write(&path, Payload::Count(sum));
    }

    fn hll(&mut self, elements: &[Bytes]) {
        let path = [Step::Only].into();
        let mut counted: BTreeSet<Bytes> = elements.iter().cloned().collect();
        for (_, _, payload) in self.undo(&path, |_, _| true) {
            match payload {
                Payload::Counted(before) => counted.extend(before),
                other => panic!("{other:?} in a HyperLogLog"),
            }
        }
        self.write(&path, Payload::Counted(counted));
    }

    fn set(&mut self, path: &Path, changes: &[SetChange]) -> Option<()> {
        for change in changes {
            match change {
                SetChange::Add(element) => {
                    self.replace(&below(path, Step::Element(element.clone())), Payload::Nothing);
                }
                SetChange::Remove(element) => {
                    let any = self.remove(&below(path, Step::Element(element.clone())));
                    if !any && self.context.is_none() {
                        return None;
                    }
                }
            }
        }
        Some(())
    }

    fn map(&mut self, path: &Path, map: &MapOperation) -> Option<()> {
        for name in &map.removes {
            if !self.remove(&below(path, Step::Field(name.clone()))) && self.context.is_none() {
                return None;
            }
        }
        for update in &map.updates {
            let path = below(path, Step::Field(update.field()));
            self.replace(&below(&path, Step::Presence), Payload::Nothing);
            let only = below(&path, Step::Only);
            match &update.operation {
                FieldOperation::Counter(by) => self.count(&path, *by),
                FieldOperation::Set(changes) => self.set(&path, changes)?,
                FieldOperation::Flag(true) => self.replace(&only, Payload::Nothing),
                FieldOperation::Flag(false) => drop(self.remove(&only)),
                FieldOperation::Map(map) => self.map(&path, map)?,
                FieldOperation::Register(value) => {
                    let new = Payload::Assigned(self.now_us, value.clone());
                    // An earlier assignment of the same request is undone in any case.
                    let own = self.done.events.clone();
                    self.undo(&only, |event, old| *old <= new || own.contains(event));
                    self.write(&only, new);
                }
            }
        }
        Some(())
    }
}

/// The value that clients read if these items are live.
pub(super) fn value(live: &Live, datatype: Datatype) -> Value {
    let field = FieldName::new(
        "",
        match datatype {
            Datatype::Counter => FieldKind::Counter,
            Datatype::Set | Datatype::Gset => FieldKind::Set,
            Datatype::Map => FieldKind::Map,
            Datatype::Hll => return hll_value(live),
        },
    );
    field_value(live, &Vec::new(), &field)
}

fn hll_value(live: &Live) -> Value {
    let mut sum = HyperLogLog::new(PRECISION);
    for (_, _, payload) in live {
        if let Payload::Counted(elements) = payload {
            for element in elements {
                sum.insert(element);
            }
        }
    }
    Value::Hll(sum.estimate())
}

fn field_value(live: &Live, path: &Path, field: &FieldName) -> Value {
    let under = || live.iter().filter(|(at, _, _)| at.starts_with(path));
    let next = || under().filter_map(|(at, _, _)| at.get(path.len()));
    let only = || under().filter(|(at, _, _)| at.get(path.len()) == Some(&Step::Only));
    match field.kind {
        FieldKind::Counter => {
            let count = |(_, event, payload): &(Path, Event, Payload)| match payload {
                Payload::Count(count) => (event.0.clone(), *count),
                other => panic!("{other:?} in a counter"),
            };
            // The newest write of each actor, in the order of events, includes the sums of the
            // older ones.
            let newest: BTreeMap<Actor, i128> = only().map(count).collect();
            Value::Counter(newest.values().sum())
        }
        FieldKind::Flag => Value::Flag(only().next().is_some()),
        FieldKind::Register => match only().map(|(_, _, payload)| payload).max() {
            Some(Payload::Assigned(_, value)) => Value::Register(value.clone()),
            _ => Value::Register(Bytes::new()),
        },
        FieldKind::Set => {
            let elements: BTreeSet<Bytes> = next()
                .filter_map(
                    |step| if let Step::Element(element) = step { Some(element) } else { None },
                )
                .cloned()
                .collect();
            Value::Set(elements.into_iter().collect())
        }
        FieldKind::Map => {
            let fields: BTreeSet<FieldName> = next()
                .filter_map(|step| if let Step::Field(name) = step { Some(name) } else { None })
                .cloned()
                .collect();
            let value = |name: FieldName| {
                let path = below(path, Step::Field(name.clone()));
                let value = field_value(live, &path, &name);
                (name, value)
            };
            Value::Map(fields.into_iter().map(value).collect())
        }
    }
}

/// The live items of a state, in the form of the model.
pub(super) fn live_of(state: &State) -> Live {
    let mut live = Live::new();
    list_field(&state.record, &Vec::new(), &mut live);
    live
}

fn list_field(field: &MapField, path: &Path, live: &mut Live) {
    let nothing = |(): &()| Payload::Nothing;
    list(&field.presence, below(path, Step::Presence), nothing, live);
    match &field.content {
        Content::Counter(item) => {
            let count = |totals: &Totals| Payload::Count(totals.value());
            list(item, below(path, Step::Only), count, live);
        }
        Content::Set(elements) => {
            for (element, item) in elements {
                list(item, below(path, Step::Element(element.clone())), nothing, live);
            }
        }
        Content::Register(item) => {
            let assigned =
                |assigned: &Assigned| Payload::Assigned(assigned.time_us, assigned.value.clone());
            list(item, below(path, Step::Only), assigned, live);
        }
        Content::Flag(item) => list(item, below(path, Step::Only), nothing, live),
        Content::Map(fields) => {
            for (name, field) in fields {
                list_field(field, &below(path, Step::Field(name.clone())), live);
            }
        }
        Content::Hll(item) => {
            list(item, below(path, Step::Only), |_| Payload::Counted(BTreeSet::new()), live);
        }
        Content::Branch(_) => panic!("a whole state has no branches"),
    }
}

fn list<P>(item: &Item<P>, path: Path, payload: impl Fn(&P) -> Payload, live: &mut Live) {
    for write in item.live() {
        let Dot { actor, counter, .. } = write.dot.clone();
        live.insert((path.clone(), (actor, counter), payload(&write.payload)));
    }
}

/// The items without the elements of HyperLogLogs, which the registers do not reveal.
pub(super) fn comparable(live: Live) -> Live {
    let plain = |(path, event, payload)| match payload {
        Payload::Counted(_) => (path, event, Payload::Counted(BTreeSet::new())),
        payload => (path, event, payload),
    };
    live.into_iter().map(plain).collect()
}
