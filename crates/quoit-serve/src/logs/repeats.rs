//! Rate limit for repeated warnings and errors.
//!
//! A damaged file or a full disk can cause a line for each request. For each line in the source, the first
//! few events of a minute are written; the others are counted, and one line at the end of the minute
//! reports their number. Lines of other levels report changes and are always written.

use std::collections::HashMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::callsite::Identifier;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::layer::{self, Context};

/// Number of events of one source line that are written in a period.
const WRITTEN_COUNT_MAX: u64 = 10;

/// Target of the lines that report the number of suppressed events. These lines are always written.
const TARGET: &str = "quoit::repeats";

/// Counts of events since the period began.
#[derive(Default)]
pub(super) struct EventCounts {
    seen: Mutex<HashMap<Identifier, EventCount>>,
}

#[derive(Default)]
struct EventCount {
    count: u64,
    /// Message of the first event that was suppressed.
    left_out: Option<String>,
}

impl EventCounts {
    /// True if an event is written.
    fn admit(&self, event: &Event<'_>) -> bool {
        let metadata = event.metadata();
        // `Level` orders less important levels as greater.
        if *metadata.level() > Level::WARN || metadata.target() == TARGET {
            return true;
        }
        let mut all = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = all.entry(metadata.callsite()).or_default();
        seen.count += 1;
        if seen.count <= WRITTEN_COUNT_MAX {
            return true;
        }
        if seen.left_out.is_none() {
            let mut message = Message::default();
            event.record(&mut message);
            seen.left_out = Some(message.0);
        }
        false
    }

    /// Reports the suppressed events, and begins the next period.
    pub(super) fn end_window(&self) {
        let seen = std::mem::take(&mut *self.seen.lock().unwrap_or_else(PoisonError::into_inner));
        for seen in seen.into_values() {
            let Some(message) = seen.left_out else { continue };
            let count = seen.count - WRITTEN_COUNT_MAX;
            tracing::warn!(target: TARGET, count, "more lines like this within a minute: {message}");
        }
    }
}

/// The message of an event, without its fields.
#[derive(Default)]
struct Message(String);

impl Visit for Message {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if field.name() == "message" {
            self.0 = format!("{value:?}");
        }
    }
}

/// Log filter that drops repeated events.
pub(super) struct Filter(pub(super) Arc<EventCounts>);

impl<S: Subscriber> layer::Filter<S> for Filter {
    fn enabled(&self, _: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        true
    }

    fn event_enabled(&self, event: &Event<'_>, _: &Context<'_, S>) -> bool {
        self.0.admit(event)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use std::io::Write;
    use tracing_subscriber::Layer as _;
    use tracing_subscriber::layer::SubscriberExt as _;

    /// Logged lines.
    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    /// Returns the lines that `run` logs. `run` receives the counts, so that it can end a period.
    fn logged(run: impl FnOnce(&EventCounts)) -> Vec<String> {
        let (repeats, lines) = (Arc::new(EventCounts::default()), Lines::default());
        let writer = lines.clone();
        let layer = tracing_subscriber::fmt::layer()
            .without_time()
            .with_ansi(false)
            .with_writer(move || writer.clone())
            .with_filter(Filter(Arc::clone(&repeats)));
        let subscriber = tracing_subscriber::registry().with(layer);
        tracing::subscriber::with_default(subscriber, || run(&repeats));
        let bytes = lines.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap().lines().map(str::to_owned).collect()
    }

    fn warn(number: u32) {
        tracing::warn!(number, "a record is damaged");
    }

    #[test]
    fn the_first_lines_are_written_and_the_others_are_counted() {
        let lines = logged(|repeats| {
            (0..25).for_each(warn);
            tracing::error!("something else");
            repeats.end_window();
        });
        assert_eq!(lines.len(), 12, "{lines:?}");
        assert!(lines[9].contains("number=9"));
        assert!(lines[10].contains("something else"));
        assert!(lines[11].contains("more lines like this within a minute: a record is damaged"));
        assert!(lines[11].contains("count=15"));
    }

    #[test]
    fn a_window_that_left_nothing_out_tells_nothing_and_the_next_one_counts_anew() {
        let lines = logged(|repeats| {
            for _ in 0..3 {
                (0..10).for_each(warn);
                repeats.end_window();
            }
        });
        assert_eq!(lines.len(), 30, "{lines:?}");
    }

    #[test]
    fn what_tells_of_changes_is_always_written() {
        let lines = logged(|_| (0..100).for_each(|number| tracing::info!(number, "a change")));
        assert_eq!(lines.len(), 100);
    }
}
