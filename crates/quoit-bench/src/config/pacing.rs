//! Timing of the operations: `mode` and `warmup`.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use super::duration::RunLength;
use super::error::ConfigError;
use super::settings::Settings;
use crate::term::Term;

/// Highest rate of arrivals that a configuration may request, per second.
const OPEN_RATE_MAX: f64 = 1e8;

/// The rule by which operations follow each other.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Pacing {
    /// Closed loop: a worker's next operation starts when its last one ends.
    Max,
    /// An exponentially distributed pause before each operation of a worker. Its mean is 1 s divided by
    /// this rate.
    Rate(f64),
    /// Open loop: operations arrive on a schedule that answers do not delay. An arrival waits for a free
    /// worker, and its latency counts from the time when it was due.
    Open {
        /// Arrivals per second of all workers together.
        rate_per_s: f64,
        /// Distribution of the gaps between arrivals.
        arrivals: Arrivals,
    },
    /// Operations of a trace, in an open loop at the trace's times divided by this factor. `None` replays
    /// the trace as fast as the workers can.
    Trace(Option<f64>),
}

/// Settings of the search for the knee, the highest rate whose 99th percentile of latency keeps within a
/// bound.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct KneePlan {
    /// Bound of the 99th percentile over all operations.
    pub p99_max: Duration,
    /// The first rate that is tried, in operations per second of all workers together.
    pub from_per_s: f64,
    /// Time for which each rate is measured.
    pub step: Duration,
    /// Distribution of the gaps between arrivals.
    pub arrivals: Arrivals,
}

/// Distribution of the gaps between the arrivals of an open loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrivals {
    /// Equal gaps.
    Constant,
    /// Exponentially distributed gaps, as many independent users cause them.
    Poisson,
}

impl Display for Pacing {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Max => f.write_str("as fast as they can"),
            Self::Rate(rate) => write!(f, "{} op/s each at most", rate_text(*rate)),
            Self::Open { rate_per_s, arrivals } => {
                write!(f, "{} op/s in all, {}", rate_text(*rate_per_s), arrivals.name())
            }
            Self::Trace(None) => f.write_str("a trace as fast as they can"),
            Self::Trace(Some(speed)) => write!(f, "a trace at {speed} times its speed"),
        }
    }
}

/// A rate for people. Rates from 100 on are rounded to a tenth, because a search multiplies and halves
/// them.
fn rate_text(per_s: f64) -> String {
    match per_s >= 100.0 {
        true => format!("{}", (per_s * 10.0).round() / 10.0),
        false => format!("{per_s}"),
    }
}

impl Arrivals {
    /// Name in summaries.
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
                    {open_rate, OperationsPerSecondInAll} of up to 100000000, {open_rate, N, poisson} or \
                    {knee, [{p99_ms, 10}, {from, 1000}, {step, \"10s\"}]}";
    settings.read("mode", Pacing::Rate(5.0), expected, |term| match term {
        Term::Atom(name) if name == "max" => Some(Pacing::Max),
        Term::Tuple(parts) => match knee_of(parts) {
            // The pacing of a search is that of its first step.
            Some(KneePlan { from_per_s, arrivals, .. }) => {
                Some(Pacing::Open { rate_per_s: from_per_s, arrivals })
            }
            None => of_tuple(parts),
        },
        _ => None,
    })
}

/// Reads the settings of a search from `mode`, if the mode is a search.
pub(super) fn read_knee(settings: &Settings) -> Option<KneePlan> {
    knee_of(settings.get("mode")?.as_tuple()?)
}

fn knee_of(parts: &[Term]) -> Option<KneePlan> {
    let [name, options] = parts else { return None };
    if name.as_atom() != Some("knee") {
        return None;
    }
    let (mut p99_max, mut step) = (None, Duration::from_secs(10));
    let (mut from_per_s, mut arrivals) = (1000.0, Arrivals::Constant);
    for option in options.as_list()? {
        match option.as_tuple() {
            Some([name, value]) => match name.as_atom()? {
                "p99_ms" => {
                    let ms = value.as_number().filter(|ms| (0.001..=1e7).contains(ms))?;
                    p99_max = Some(Duration::from_secs_f64(ms / 1e3));
                }
                "from" => {
                    from_per_s = value.as_number().filter(|n| (1.0..=OPEN_RATE_MAX).contains(n))?
                }
                "step" => step = time_of(value).filter(|step| *step >= Duration::from_secs(1))?,
                _ => return None,
            },
            _ if option.as_atom() == Some("poisson") => arrivals = Arrivals::Poisson,
            _ => return None,
        }
    }
    Some(KneePlan { p99_max: p99_max?, from_per_s, step, arrivals })
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

/// Reads `warmup`: a text with a unit such as `"10s"`, or a number of seconds.
pub(super) fn read_warmup(settings: &Settings) -> Result<Duration, ConfigError> {
    let expected = "write a time with its unit such as \"10s\", or a number of seconds";
    settings.read("warmup", Duration::ZERO, expected, time_of)
}

/// Reads a time: a text with a unit, or a number of seconds.
pub(crate) fn time_of(term: &Term) -> Option<Duration> {
    match term {
        Term::Integer(0) => Some(Duration::ZERO),
        Term::Integer(_) | Term::Float(_) => {
            let seconds = term.as_number().filter(|seconds| (0.0..=86_400.0).contains(seconds))?;
            Some(Duration::from_secs_f64(seconds))
        }
        text => match RunLength::parse(&text.as_text()?).ok()? {
            RunLength::For(length) => Some(length),
            RunLength::Unlimited => None,
        },
    }
}
