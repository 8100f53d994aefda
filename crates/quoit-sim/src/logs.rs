//! Log lines of nodes as part of the story.

use crate::trace::Trace;
use parking_lot::Mutex;
use std::fmt::{Debug, Write};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

/// Runs `work` and records the log lines of Quoit's own code in the trace, each at the machine whose host
/// logs it.
pub fn traced<T>(trace: &Trace, level: Level, work: impl FnOnce() -> T) -> T {
    let notes = TraceSubscriber { trace: trace.clone(), level, places: Mutex::default() };
    tracing::subscriber::with_default(notes, work)
}

/// A `tracing` subscriber that records events in a trace. It uses the spans of machines only for the
/// machine's name; the simulation opens one for each machine and step of time.
struct TraceSubscriber {
    trace: Trace,
    level: Level,
    places: Mutex<MachineSpans>,
}

/// Machines by their spans.
#[derive(Default)]
struct MachineSpans {
    /// Names of the machines that have had a span. The id of a span is the index of its machine's name
    /// plus one.
    names: Vec<String>,
    /// Ids of the spans that are entered, the innermost last.
    entered: Vec<Id>,
}

impl MachineSpans {
    /// Returns the id of all spans of a machine.
    fn id_of(&mut self, name: &str) -> Id {
        let place = self.names.iter().position(|known| known == name).unwrap_or_else(|| {
            self.names.push(name.to_owned());
            self.names.len() - 1
        });
        Id::from_u64(place as u64 + 1)
    }

    /// Returns the name of the machine that runs now.
    fn running(&self) -> Option<&str> {
        let place = quoit_number::index(self.entered.last()?.into_u64()) - 1;
        Some(&self.names[place])
    }
}

/// Text of an event's fields.
#[derive(Default)]
struct EventText(String);

impl Visit for EventText {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let result = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        result.expect("strings take everything");
    }
}

/// Finds the name of a machine among the fields of a span.
struct MachineName<'p> {
    places: &'p mut MachineSpans,
    found: Option<Id>,
}

impl Visit for MachineName<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        if field.name() == "name" {
            self.found = Some(self.places.id_of(value));
        }
    }

    fn record_debug(&mut self, _field: &Field, _value: &dyn Debug) {}
}

impl Subscriber for TraceSubscriber {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        match metadata.is_span() {
            true => metadata.target().starts_with("turmoil"),
            false => metadata.target().starts_with("quoit") && metadata.level() <= &self.level,
        }
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut places = self.places.lock();
        let mut name = MachineName { places: &mut places, found: None };
        span.record(&mut name);
        name.found.unwrap_or_else(|| places.id_of("run"))
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}

    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut words = EventText::default();
        event.record(&mut words);
        let level = event.metadata().level().as_str().to_lowercase();
        let places = self.places.lock();
        self.trace.note(places.running().unwrap_or("run"), &format!("{level}: {}", words.0));
    }

    fn enter(&self, span: &Id) {
        self.places.lock().entered.push(span.clone());
    }

    fn exit(&self, span: &Id) {
        let mut places = self.places.lock();
        if places.entered.last() == Some(span) {
            places.entered.pop();
        }
    }
}
