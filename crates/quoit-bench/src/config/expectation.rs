//! Expectations: conditions that the results of a run must meet, such as `p99 < 5ms`.

use std::fmt::{self, Display, Formatter};

use thiserror::Error;

use super::error::{ConfigError, SettingPlace};
use super::settings::Settings;
use crate::names::nearest;

/// A condition on one figure of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Expectation {
    /// The text as it was written.
    pub text: String,
    /// The place where it was written.
    pub place: SettingPlace,
    /// Label of the operation that the condition is about. `None` means each operation of the mix, or all
    /// operations together for figures that can be added up.
    pub operation: Option<String>,
    /// The figure.
    pub figure: Figure,
    /// The relation that the figure must have to the bound.
    pub relation: Relation,
    /// The bound, in the unit of the figure.
    pub bound: f64,
}

/// A figure that an expectation can bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figure {
    /// A figure of [`Latencies::figures_us`](crate::measure::Latencies::figures_us), by its index, in
    /// microseconds.
    Latency(usize),
    /// Failed operations as a share of all, from 0 to 1.
    Errors,
    /// Successful operations per second.
    Rate,
    /// The longest time without a successful operation, in microseconds.
    Stall,
    /// Number of arrivals of an open loop that were due and never started.
    Unstarted,
}

/// The relation that a figure must have to its bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Relation {
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

impl Relation {
    /// True if greater figures are worse.
    #[must_use]
    pub fn is_upper_bound(self) -> bool {
        matches!(self, Self::Less | Self::LessOrEqual)
    }
}

/// Names of the latency figures, each with its index in `Latencies::figures_us`. Some have two names.
const LATENCIES: [(&str, usize); 10] = [
    ("min", 0),
    ("mean", 1),
    ("median", 2),
    ("p50", 2),
    ("p95", 3),
    ("p99", 4),
    ("p99.9", 5),
    ("p999", 5),
    ("max", 6),
    ("maximum", 6),
];

/// Names of the other figures.
const OTHERS: [(&str, Figure); 4] = [
    ("errors", Figure::Errors),
    ("rate", Figure::Rate),
    ("stall", Figure::Stall),
    ("unstarted", Figure::Unstarted),
];

/// Reasons why a text is not an expectation. Each message names the text and what to write instead.
#[derive(Debug, Error, Clone, PartialEq, Eq)]
pub enum ExpectationError {
    /// The text does not consist of figure, comparison and bound.
    #[error(
        "the expectation \"{text}\" compares nothing: write [OPERATION] FIGURE, then <, <=, > or >=, and a \
         bound, such as \"p99 < 5ms\" or \"get p99 < 5ms\""
    )]
    Form {
        /// The text.
        text: String,
    },
    /// The figure is unknown.
    #[error(
        "the expectation \"{text}\" is about {figure}{hint}: write min, mean, p50, p95, p99, p99.9, max, \
         errors, rate, stall or unstarted, with the operation before it"
    )]
    Figure {
        /// The text.
        text: String,
        /// The word where the figure should be.
        figure: String,
        /// The nearest known figure, as a question, or an empty text.
        hint: String,
    },
    /// The bound has the wrong form for its figure.
    #[error("the expectation \"{text}\" has the bound {bound}: write {wanted}")]
    Bound {
        /// The text.
        text: String,
        /// The text where the bound should be.
        bound: String,
        /// The form that bounds of the figure have.
        wanted: &'static str,
    },
    /// The text names an operation, and the figure is one of the whole run.
    #[error(
        "the expectation \"{text}\" asks for {figure} of one operation: it is a figure of the whole run, so \
         leave the operation out"
    )]
    Whole {
        /// The text.
        text: String,
        /// The figure.
        figure: String,
    },
    /// The operation is not in the mix.
    #[error("the expectation \"{text}\" is about {operation}, and the run has only {names}")]
    Operation {
        /// The text.
        text: String,
        /// The operation.
        operation: String,
        /// Operations of the mix.
        names: String,
    },
    /// The run searches for the highest sustainable rate, so it has many rates.
    #[error(
        "the expectation \"{text}\" is about one rate, and the mode is a search with many: run the rate that \
         it finds with the expectation, or leave it out"
    )]
    Search {
        /// The text.
        text: String,
    },
}

impl Display for Expectation {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Reads `expect`: a text, or a list of them.
pub(super) fn read_expectations(settings: &Settings) -> Result<Vec<Expectation>, ConfigError> {
    let wanted = "write a list of conditions such as \"p99 < 5ms\"";
    let texts = settings.read("expect", Vec::new(), wanted, |term| match term.as_text() {
        // An empty list can't be distinguished from an empty text.
        Some(text) if !text.is_empty() => Some(vec![text]),
        _ => term.as_list()?.iter().map(crate::term::Term::as_text).collect(),
    })?;
    let place = settings.place("expect");
    let read = texts.iter().map(|text| Expectation::parse(text, place.clone()));
    read.collect::<Result<_, _>>()
        .map_err(|error| ConfigError::Expectation { place, error: Box::new(error) })
}

impl Expectation {
    /// True if a value of the figure has the relation to the bound.
    #[must_use]
    pub fn holds(&self, value: f64) -> bool {
        match self.relation {
            Relation::Less => value < self.bound,
            Relation::LessOrEqual => value <= self.bound,
            Relation::Greater => value > self.bound,
            Relation::GreaterOrEqual => value >= self.bound,
        }
    }

    /// Parses `[OPERATION] FIGURE RELATION BOUND`.
    ///
    /// # Errors
    ///
    /// When the text does not have this form, names an unknown figure, or has a bound that does not fit the
    /// figure.
    pub fn parse(text: &str, place: SettingPlace) -> Result<Self, ExpectationError> {
        let text = text.trim();
        let form = || ExpectationError::Form { text: text.to_owned() };
        let (left, relation, bound) = split(text).ok_or_else(form)?;
        let (operation, name) = match left.rsplit_once(char::is_whitespace) {
            Some((operation, name)) => (Some(operation.trim_end()), name),
            None => (None, left),
        };
        if name.is_empty() || bound.is_empty() {
            return Err(form());
        }
        let figure = figure_of(name).ok_or_else(|| ExpectationError::Figure {
            text: text.to_owned(),
            figure: name.to_owned(),
            hint: figure_hint(name),
        })?;
        if operation.is_some() && matches!(figure, Figure::Stall | Figure::Unstarted) {
            let (text, figure) = (text.to_owned(), name.to_owned());
            return Err(ExpectationError::Whole { text, figure });
        }
        let (value, wanted) = match figure {
            Figure::Latency(_) | Figure::Stall => {
                (time_us(bound), "a time such as 500us, 5ms or 2s")
            }
            Figure::Errors => (share(bound), "a share such as 0.1%"),
            Figure::Rate => (rate(bound), "operations a second such as 500 or 5k"),
            Figure::Unstarted => (count(bound), "a whole number"),
        };
        let value = value.ok_or_else(|| {
            let (text, bound) = (text.to_owned(), bound.to_owned());
            ExpectationError::Bound { text, bound, wanted }
        })?;
        let operation = operation.map(str::to_owned);
        Ok(Self { text: text.to_owned(), place, operation, figure, relation, bound: value })
    }
}

/// The parts before and after the comparison, and the comparison.
fn split(text: &str) -> Option<(&str, Relation, &str)> {
    let at = text.find(['<', '>'])?;
    let (left, rest) = text.split_at(at);
    let relations = [
        ("<=", Relation::LessOrEqual),
        (">=", Relation::GreaterOrEqual),
        ("<", Relation::Less),
        (">", Relation::Greater),
    ];
    let (relation, bound) = relations
        .into_iter()
        .find_map(|(sign, relation)| Some((relation, rest.strip_prefix(sign)?)))?;
    Some((left.trim(), relation, bound.trim()))
}

fn figure_of(name: &str) -> Option<Figure> {
    let latency = LATENCIES.iter().find(|(known, _)| *known == name);
    let other = OTHERS.iter().find(|(known, _)| *known == name);
    latency.map(|(_, index)| Figure::Latency(*index)).or(other.map(|(_, figure)| *figure))
}

/// The known figure that is nearest to an unknown name, as a question, or an empty text.
fn figure_hint(name: &str) -> String {
    let known: Vec<&str> = LATENCIES
        .iter()
        .map(|(name, _)| *name)
        .chain(OTHERS.iter().map(|(name, _)| *name))
        .collect();
    nearest(name, &known).map_or_else(String::new, |name| format!(", perhaps {name}"))
}

/// A finite number that is not negative.
fn number(text: &str) -> Option<f64> {
    text.trim().parse::<f64>().ok().filter(|number| number.is_finite() && *number >= 0.0)
}

fn time_us(text: &str) -> Option<f64> {
    let units = [("us", 1.0), ("µs", 1.0), ("ms", 1e3), ("s", 1e6)];
    units.into_iter().find_map(|(unit, factor)| Some(number(text.strip_suffix(unit)?)? * factor))
}

fn share(text: &str) -> Option<f64> {
    number(text.strip_suffix('%')?).map(|percent| percent / 100.0).filter(|share| *share <= 1.0)
}

fn rate(text: &str) -> Option<f64> {
    match (text.strip_suffix(['k', 'K']), text.strip_suffix('M')) {
        (Some(thousands), _) => number(thousands).map(|number| number * 1e3),
        (None, Some(millions)) => number(millions).map(|number| number * 1e6),
        (None, None) => number(text),
    }
}

fn count(text: &str) -> Option<f64> {
    number(text).filter(|number| number.fract() == 0.0)
}
