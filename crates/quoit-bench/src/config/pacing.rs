//! How operations follow each other: `mode` and `warmup`.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::duration::RunLength;
use super::error::ConfigError;
use super::settings::Settings;
use crate::term::Term;

/// Greatest rate of arrivals that a configuration may ask for, per second.
const OPEN_RATE_MAX: f64 = 1e8;

/// How operations follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pacing {
    /// A worker's next operation starts when its last one ends.
    Max,
    /// An exponentially distributed pause before each operation of a worker, of mean 1 s divided
    /// by this.
    Rate(f64),
    /// Operations arrive by a schedule that no answer delays; an arrival waits for a free worker,
    /// and its latency counts from when it was due.
    Open {
        /// Arrivals a second of all workers together.
        rate_per_s: f64,
        /// How they are spaced.
        arrivals: Arrivals,
    },
}

/// How the arrivals of an open loop are spaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Evenly.
    Constant,
    /// Independently of each other, as those of many users: exponentially distributed gaps.
    Poisson,
}

impl Display for Pacing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.write_str("as fast as they can"),
            Self::Rate(rate) => write!(f, "{rate} op/s each at most"),
            Self::Open { rate_per_s, arrivals } => {
                write!(f, "{rate_per_s} op/s in all, {}", arrivals.name())
            }
        }
    }
}

impl Arrivals {
    /// The name in summaries.
    pub fn name(self) -> &'static str {
        match self {
            Self::Constant => "constant",
            Self::Poisson => "poisson",
        }
    }
}

/// Reads `mode`.
pub(super) fn read_pacing(settings: &Settings) -> Result<Pacing, ConfigError> {
    let expected = "write max, {rate, max}, {rate, OperationsPerSecondOfAWorker}, \
                    {open_rate, OperationsPerSecondInAll} or {open_rate, N, poisson}";
    settings.read("mode", Pacing::Rate(5.0), expected, |term| match term {
        Term::Atom(name) if name == "max" => Some(Pacing::Max),
        Term::Tuple(parts) => of_tuple(parts),
        _ => None,
    })
}

fn of_tuple(parts: &[Term]) -> Option<Pacing> {
    let (name, arguments) = parts.split_first()?;
    match (name.as_atom()?, arguments) {
        ("max", []) => Some(Pacing::Max),
        ("rate", [max]) if max.as_atom() == Some("max") => Some(Pacing::Max),
        ("rate", [rate]) => {
            rate.as_number().filter(|rate| *rate > 0.0 && rate.is_finite()).map(Pacing::Rate)
        }
        ("open_rate", [rate, arrivals @ ..]) => {
            let rate_per_s =
                rate.as_number().filter(|rate| *rate > 0.0 && *rate <= OPEN_RATE_MAX)?;
            let arrivals = match arrivals {
                [] => Arrivals::Constant,
                [kind] if kind.as_atom() == Some("constant") => Arrivals::Constant,
                [kind] if kind.as_atom() == Some("poisson") => Arrivals::Poisson,
                _ => return None,
            };
            Some(Pacing::Open { rate_per_s, arrivals })
        }
        _ => None,
    }
}

/// Reads `warmup`: a text with its unit such as `"10s"`, or a number of seconds.
pub(super) fn read_warmup(settings: &Settings) -> Result<Duration, ConfigError> {
    let expected = "write a time with its unit such as \"10s\", or a number of seconds";
    settings.read("warmup", Duration::ZERO, expected, |term| match term {
        Term::Integer(0) => Some(Duration::ZERO),
        Term::Integer(_) | Term::Float(_) => {
            let seconds = term.as_number().filter(|seconds| (0.0..=86_400.0).contains(seconds))?;
            Some(Duration::from_secs_f64(seconds))
        }
        text => match RunLength::parse(&text.as_text()?).ok()? {
            RunLength::For(length) => Some(length),
            RunLength::Unlimited => None,
        },
    })
}
