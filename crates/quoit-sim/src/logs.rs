//! Log lines of nodes, as part of the story.

use crate::trace::Trace;
use std::fmt::{Debug, Write};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, filter};

/// Runs `work` with what our own code logs noted in the trace, at the machine whose host logs it.
pub fn traced<T>(trace: &Trace, level: Level, work: impl FnOnce() -> T) -> T {
    let is_wanted = move |metadata: &Metadata<'_>| {
        // The simulation opens a span for each machine that it lets run.
        let is_ours = metadata.target().starts_with("quoit") && metadata.level() <= &level;
        is_ours || metadata.is_span() && metadata.target().starts_with("turmoil")
    };
    let layer = Notes(trace.clone()).with_filter(filter::filter_fn(is_wanted));
    tracing::subscriber::with_default(Registry::default().with(layer), work)
}

/// Notes events in a trace.
struct Notes(Trace);

/// The machine that a span is of.
struct Place(String);

/// The fields of an event, in words.
#[derive(Default)]
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let result = match field.name() {
            "message" => write!(self.0, "{value:?}"),
            name => write!(self.0, " {name}={value:?}"),
        };
        result.expect("strings take everything");
    }
}

/// The name of a machine, of the span that the simulation opens for it.
#[derive(Default)]
struct MachineName(Option<String>);

impl Visit for MachineName {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "name" {
            self.0 = Some(format!("{value:?}").trim_matches('"').to_owned());
        }
    }
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for Notes {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut name = MachineName::default();
        attributes.record(&mut name);
        if let (Some(name), Some(span)) = (name.0, context.span(id)) {
            span.extensions_mut().insert(Place(name));
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut words = Words::default();
        event.record(&mut words);
        let mut spans = context.event_scope(event).into_iter().flatten();
        let place =
            spans.find_map(|span| span.extensions().get::<Place>().map(|place| place.0.clone()));
        let level = event.metadata().level().as_str().to_lowercase();
        self.0.note(place.as_deref().unwrap_or("run"), &format!("{level}: {}", words.0));
    }
}
