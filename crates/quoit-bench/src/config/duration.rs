//! The duration of a run.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::error::ConfigError;
use crate::term::Term;

/// Maximum duration in seconds, about a hundred years. Longer runs are written as `infinity`.
const SECONDS_MAX: f64 = 3.2e9;

/// The condition under which a run ends by itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RunLength {
    /// Ends this long after the release of the workers. The warm-up does not count.
    For(Duration),
    /// Ends only if every worker has stopped or the user stops the run.
    Unlimited,
}

impl Display for RunLength {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Self::For(length) = self else {
            return f.write_str("until it is stopped, or every worker is at its end");
        };
        let seconds = length.as_secs_f64();
        match seconds {
            seconds if seconds % 3600.0 == 0.0 => write!(f, "{} h", seconds / 3600.0),
            seconds if seconds % 60.0 == 0.0 => write!(f, "{} min", seconds / 60.0),
            seconds => write!(f, "{seconds} s"),
        }
    }
}

impl RunLength {
    /// The time after which the run ends by itself, if there is one.
    #[must_use]
    pub fn bound(self) -> Option<Duration> {
        match self {
            Self::For(length) => Some(length),
            Self::Unlimited => None,
        }
    }

    /// Reads minutes as an integer or a float, or `infinity`.
    pub(crate) fn of_term(term: &Term) -> Option<Self> {
        if term.as_atom() == Some("infinity") {
            return Some(Self::Unlimited);
        }
        of_seconds(term.as_number()? * 60.0)
    }

    /// Parses a number with its unit (`500ms`, `60s`, `2m`, `1.5h`), a number of minutes, or `infinity`.
    ///
    /// # Errors
    ///
    /// When the text does not have one of these forms.
    pub fn parse(text: &str) -> Result<Self, ConfigError> {
        let text = text.trim();
        if text == "infinity" {
            return Ok(Self::Unlimited);
        }
        let unit_start = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(unit_start);
        let seconds = match unit {
            "ms" => Some(0.001),
            "s" => Some(1.0),
            "m" | "" => Some(60.0),
            "h" => Some(3600.0),
            _ => None,
        };
        let number = number.trim().parse::<f64>().ok();
        let length = number.zip(seconds).and_then(|(number, unit)| of_seconds(number * unit));
        length.ok_or_else(|| ConfigError::Duration(text.to_owned()))
    }
}

fn of_seconds(seconds: f64) -> Option<RunLength> {
    let is_usable = seconds > 0.0 && seconds <= SECONDS_MAX;
    is_usable.then(|| RunLength::For(Duration::from_secs_f64(seconds)))
}
