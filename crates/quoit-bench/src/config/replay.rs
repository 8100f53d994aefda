//! The trace that a run replays: `trace` and `trace_speed`.

use super::Config;
use super::duration::RunLength;
use super::error::ConfigError;
use super::pacing::Pacing;
use crate::keygen::KeyGenerator;
use crate::term::Term;
use crate::trace::Replay;
use std::ops::RangeInclusive;
use std::path::PathBuf;

/// Range of the speed factor.
const SPEEDS: RangeInclusive<f64> = 1e-6..=1e6;

impl Config {
    /// Reads `trace` and `trace_speed`. If they are set, the run replays the trace.
    ///
    /// # Errors
    ///
    /// When the value of a key does not have the form that the key requires, or `mode` is set too.
    pub(super) fn read_replay(&mut self) -> Result<(), ConfigError> {
        let wanted = "write the name of a file";
        let path = self.settings.read("trace", None, wanted, |term| {
            Some(Some(term.as_text().filter(|text| !text.is_empty())?))
        })?;
        let wanted = "write a factor such as 2 or 0.5, or max";
        let speed = self.settings.read("trace_speed", Some(1.0), wanted, |term| match term {
            Term::Atom(word) if word == "max" => Some(None),
            term => match term.as_text() {
                Some(text) => parse_trace_speed(&text),
                None => Some(Some(term.as_number().filter(|speed| is_speed(*speed))?)),
            },
        })?;
        match path {
            Some(path) => self.replay(Replay { path: PathBuf::from(path), speed }),
            None => Ok(()),
        }
    }

    /// Makes the run replay a trace. The run then lasts as long as the trace, unless the configuration sets
    /// a duration.
    ///
    /// # Errors
    ///
    /// When the configuration sets a mode.
    fn replay(&mut self, replay: Replay) -> Result<(), ConfigError> {
        if self.settings.get("mode").is_some() {
            let expected = "the times of the operations come from the trace: remove mode, or trace";
            return Err(self.settings.value_error("mode", expected));
        }
        // Drivers ask the configured generator what kind keys have, and the keys of a trace are bytes.
        let integers = Term::Tuple(vec![Term::atom("uniform_int"), Term::Integer(1)]);
        let of_bytes = Term::Tuple(vec![Term::atom("int_to_bin_bigendian"), integers]);
        self.key_generator = KeyGenerator::parse(&of_bytes).expect("the generator is one of ours");
        self.pacing = Pacing::Trace(replay.speed);
        if self.settings.get("duration").is_none() {
            self.length = RunLength::Unlimited;
        }
        self.replay = Some(replay);
        Ok(())
    }
}

/// Parses a speed factor of the command line: a number, or `max` (`Some(None)`) for no waiting. `None`
/// means that the text is neither.
#[must_use]
pub fn parse_trace_speed(text: &str) -> Option<Option<f64>> {
    match text {
        "max" => Some(None),
        number => Some(Some(number.parse().ok().filter(|speed| is_speed(*speed))?)),
    }
}

fn is_speed(speed: f64) -> bool {
    SPEEDS.contains(&speed)
}
