//! Published figures that a campaign compares with the measured ones.

use super::figure::{CampaignFigure, FORMS};
use super::matrix::Coordinates;
use crate::plot::grouped;
use crate::term::Term;
use std::fmt::{self, Display, Formatter};

/// Figures from one source, for some cells.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct PublishedSet {
    /// Names of axes and labels of values that a cell must have. If empty, the figures are for all cells.
    selector: Vec<(String, String)>,
    /// Place, time and system of the measurement.
    pub(super) source: String,
    /// The figures with their published values.
    pub(super) figures: Vec<(CampaignFigure, PublishedValue)>,
}

/// A published value.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum PublishedValue {
    /// A number.
    Number(f64),
    /// Any value between two numbers.
    Range(f64, f64),
    /// Words, if the source has no number.
    Words(String),
}

impl PublishedValue {
    fn read(term: &Term) -> Option<Self> {
        if let Some(number) = term.as_number() {
            return Some(Self::Number(number));
        }
        if let Some([low, high]) = term.as_tuple() {
            let (low, high) = (low.as_number()?, high.as_number()?);
            return (low < high).then_some(Self::Range(low, high));
        }
        term.as_text().filter(|text| !text.is_empty()).map(Self::Words)
    }

    /// The measured value as a multiple of the published one. For a range, a multiple of its nearest end,
    /// or 1 inside it.
    pub(super) fn ratio(&self, ours: f64) -> Option<f64> {
        let base = match self {
            Self::Number(number) => *number,
            Self::Range(low, _) if ours < *low => *low,
            Self::Range(_, high) if ours > *high => *high,
            Self::Range(..) => return Some(1.0),
            Self::Words(_) => return None,
        };
        (base != 0.0).then(|| ours / base)
    }
}

impl Display for PublishedValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => f.write_str(&as_written(*number)),
            Self::Range(low, high) => write!(f, "{} to {}", as_written(*low), as_written(*high)),
            Self::Words(words) => f.write_str(words),
        }
    }
}

/// A number with as many decimal places as it was published with.
fn as_written(number: f64) -> String {
    let digits = number.to_string().split_once('.').map_or(0, |(_, digits)| digits.len());
    grouped(number, digits)
}

/// Formats a value with a useful number of digits.
pub(super) fn figure_text(value: f64) -> String {
    let digits = match value.abs() {
        size if size >= 1000.0 || size == 0.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    grouped(value, digits)
}

const EXPECTED: &str = "write a list of {[{Axis, Label}, ...], \"source\", [{Figure, Value}, ...]}, where a \
                        value is a number, {Low, High}, or words in quotes, and a figure is";

/// Reads the value of `published`.
pub(super) fn read_published(term: &Term) -> Result<Vec<PublishedSet>, String> {
    let fault = |term: &Term| format!("published: {term}: {EXPECTED} {FORMS}");
    let list = term.as_list().ok_or_else(|| fault(term))?;
    list.iter().map(|term| read_set(term).ok_or_else(|| fault(term))).collect()
}

fn read_set(term: &Term) -> Option<PublishedSet> {
    let [selector, source, figures] = term.as_tuple()? else { return None };
    let part = |term: &Term| match term.as_tuple()? {
        [Term::Atom(axis), label] => {
            let label = match label {
                Term::Integer(number) => number.to_string(),
                other => other.as_atom()?.to_owned(),
            };
            Some((axis.clone(), label))
        }
        _ => None,
    };
    let figure = |term: &Term| match term.as_tuple()? {
        [figure, value] => Some((CampaignFigure::read(figure)?, PublishedValue::read(value)?)),
        _ => None,
    };
    Some(PublishedSet {
        selector: selector.as_list()?.iter().map(part).collect::<Option<_>>()?,
        source: source.as_text().filter(|text| !text.is_empty())?,
        figures: figures.as_list()?.iter().map(figure).collect::<Option<_>>()?,
    })
}

impl PublishedSet {
    /// True if the figures are for a cell with these coordinates.
    pub(super) fn is_of(&self, coordinates: &[(String, String)]) -> bool {
        self.selector.iter().all(|wanted| coordinates.contains(wanted))
    }

    /// A part of the selector that matches no cell.
    pub(super) fn stray(&self, cells: &[Coordinates<'_>]) -> Option<String> {
        let has = |cell: &Coordinates<'_>, (axis, label): &(String, String)| {
            cell.iter().any(|(known, value)| known.name == *axis && value.label == *label)
        };
        let stray = self.selector.iter().find(|part| !cells.iter().any(|cell| has(cell, part)));
        stray.map(|(axis, label)| format!("{{{axis},{label}}}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::term::parse_terms;

    #[test]
    fn a_ratio_is_that_to_the_number_or_to_the_nearest_end_of_a_range() {
        assert_eq!(PublishedValue::Number(620.0).ratio(31_000.0), Some(50.0));
        let range = PublishedValue::Range(150.0, 200.0);
        assert_eq!(
            [75.0, 150.0, 180.0, 400.0].map(|ours| range.ratio(ours)),
            [0.5, 1.0, 1.0, 2.0].map(Some)
        );
        assert_eq!(PublishedValue::Number(0.0).ratio(0.0), None, "nothing in times of nothing");
        assert_eq!(PublishedValue::Words("flat".to_owned()).ratio(1.0), None);
    }

    #[test]
    fn figures_are_those_of_the_cells_that_the_selector_names() {
        let text = r#"[{[{engine, bitcask}], "here", [{rate, 620}, {{p99, get}, {1, 2}}]},
            {[], "there", [{failed, "none"}]}]."#;
        let sets = read_published(&parse_terms(text).expect("a term")[0].term).expect("figures");
        let cell = |engine: &str| vec![("engine".to_owned(), engine.to_owned())];
        let of = |cell: &[(String, String)]| {
            sets.iter()
                .filter(|set| set.is_of(cell))
                .map(|set| set.source.as_str())
                .collect::<Vec<_>>()
        };
        assert_eq!(of(&cell("bitcask")), ["here", "there"]);
        assert_eq!(of(&cell("leveled")), ["there"]);
        let told: Vec<String> =
            sets[0].figures.iter().map(|(figure, value)| format!("{figure}: {value}")).collect();
        assert_eq!(told, ["rate: 620", "get p99: 1 to 2"]);
    }
}
