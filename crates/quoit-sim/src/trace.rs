//! The story of a run, as lines for people.

use crate::time::SimTime;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};
use std::sync::Arc;

/// Number of lines that are kept by default.
pub const LINE_COUNT_DEFAULT: usize = 400;

/// The story of a run: lines of simulated time, place and event. It keeps the last lines, and a digest of
/// all lines. Clones refer to the same trace.
#[derive(Clone)]
pub struct Trace {
    time: SimTime,
    tell: Option<fn(&str)>,
    lines: Arc<Mutex<TraceLines>>,
}

struct TraceLines {
    kept: VecDeque<String>,
    count_max: usize,
    count: u64,
    hasher: DefaultHasher,
}

impl Trace {
    /// Creates an empty trace that keeps the last `count_max` lines and passes each line to `tell`.
    #[must_use]
    pub fn new(time: SimTime, count_max: usize, tell: Option<fn(&str)>) -> Self {
        // This hasher has fixed keys, so equal stories have equal digests.
        let hasher = DefaultHasher::new();
        let lines = TraceLines { kept: VecDeque::new(), count_max, count: 0, hasher };
        Self { time, tell, lines: Arc::new(Mutex::new(lines)) }
    }

    /// Records an event at a place, with the current simulated time.
    pub fn note(&self, place: &str, event: &str) {
        let now_us = self.time.now_us();
        let line =
            format!("{:>4}.{:03} {place:<8} {event}", now_us / 1_000_000, now_us / 1_000 % 1_000);
        if let Some(tell) = self.tell {
            tell(&line);
        }
        let mut lines = self.lines.lock();
        lines.hasher.write(line.as_bytes());
        lines.count += 1;
        if lines.kept.len() >= lines.count_max {
            lines.kept.pop_front();
        }
        lines.kept.push_back(line);
    }

    /// Returns a digest of all lines, including those that were not kept.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.lines.lock().hasher.finish()
    }

    /// Returns the kept lines as a text, after a line with the number of lines that were left out.
    #[must_use]
    pub fn text(&self) -> String {
        let lines = self.lines.lock();
        let mut text = String::new();
        let left_out = lines.count - lines.kept.len() as u64;
        if left_out > 0 {
            text.push_str(&format!("({left_out} earlier lines left out)\n"));
        }
        for line in &lines.kept {
            text.push_str(line);
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_all_count_for_the_digest() {
        let trace = |events: &[&str]| {
            let time = SimTime::default();
            let trace = Trace::new(time.clone(), 1, None);
            for event in events {
                time.advance_us(1_234_567);
                trace.note("n1", event);
            }
            trace
        };
        let text = "(1 earlier lines left out)\n   2.469 n1       put\n";
        assert_eq!(trace(&["get", "put"]).text(), text);
        assert_eq!(trace(&["get", "put"]).digest(), trace(&["get", "put"]).digest());
        assert_ne!(trace(&["got", "put"]).digest(), trace(&["get", "put"]).digest());
    }
}
