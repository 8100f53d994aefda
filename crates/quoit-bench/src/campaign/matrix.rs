//! The matrix of a campaign: its axes, the cells that they span, and the substitution of values.

use super::fields::pairs;
use super::scale::CampaignScale;
use crate::term::Term;

/// Maximum number of cells of a campaign.
pub(super) const CELLS_MAX: usize = 1000;
/// Maximum length of a value's label, in characters: labels are part of directory names.
const LABEL_CHARS_MAX: usize = 40;

/// One axis.
#[derive(Debug, Clone, PartialEq)]
pub struct MatrixAxis {
    /// Name, such as `engine`.
    pub name: String,
    /// The values, at least one, with distinct labels.
    pub values: Vec<AxisValue>,
}

/// A value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub struct AxisValue {
    /// Label, which is used in the cell's label and in selectors of published figures.
    pub label: String,
    /// The term that is substituted for the axis.
    pub term: Term,
}

/// The values of one cell, in the order of the axes.
pub(super) type Coordinates<'a> = Vec<(&'a MatrixAxis, &'a AxisValue)>;

const EXPECTED: &str = "write a list of {Axis, [Value, ...]}, where a value is an atom, an integer, or \
                        {Label, Term} with another label for each; a label has letters, digits, `-`, `_` \
                        and `.`, and no term names an axis";

/// Reads the value of `matrix`. The error is the expected form.
pub(super) fn read_axes(term: &Term) -> Result<Vec<MatrixAxis>, &'static str> {
    let axis = |(name, values): (String, Term)| {
        let values: Vec<AxisValue> =
            values.as_list()?.iter().map(read_value).collect::<Option<_>>()?;
        let mut labels: Vec<&str> = values.iter().map(|value| value.label.as_str()).collect();
        labels.sort_unstable();
        labels.dedup();
        let is_good = !values.is_empty() && labels.len() == values.len();
        is_good.then_some(MatrixAxis { name, values })
    };
    let axes: Option<Vec<MatrixAxis>> =
        pairs(term).and_then(|pairs| pairs.into_iter().map(axis).collect());
    axes.ok_or(EXPECTED)
}

fn read_value(term: &Term) -> Option<AxisValue> {
    let (label, term) = match term {
        Term::Tuple(parts) => match parts.as_slice() {
            [label, term] => (label_of(label)?, term.clone()),
            _ => return None,
        },
        other => (label_of(other)?, other.clone()),
    };
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_good = (1..=LABEL_CHARS_MAX).contains(&label.len())
        && label.chars().all(is_plain)
        && !label.starts_with('.')
        && !names_axis(&term);
    is_good.then_some(AxisValue { label, term })
}

/// True if a term refers to an axis. In a value of an axis, that could make substitution endless.
fn names_axis(term: &Term) -> bool {
    let refuse = |term: &Term| match term.as_tuple().unwrap_or_default() {
        [Term::Atom(word), ..] if word == "axis" => Err(String::new()),
        _ => Ok(None),
    };
    transform(term, &refuse).is_err()
}

fn label_of(term: &Term) -> Option<String> {
    match term {
        Term::Atom(name) => Some(name.clone()),
        Term::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

/// All combinations of values, with the last axis changing fastest. Without axes, one combination without
/// values.
pub(super) fn combinations(axes: &[MatrixAxis]) -> Vec<Coordinates<'_>> {
    let mut cells: Vec<Coordinates<'_>> = vec![Vec::new()];
    for axis in axes {
        let mut longer = Vec::new();
        for cell in &cells {
            for value in &axis.values {
                let mut cell = cell.clone();
                cell.push((axis, value));
                longer.push(cell);
            }
        }
        cells = longer;
    }
    cells
}

/// The label of a cell: the labels of its values, in which a number gets the name of its axis as prefix.
pub(super) fn cell_label(coordinates: &Coordinates<'_>) -> String {
    let part = |(axis, value): &(&MatrixAxis, &AxisValue)| match value.label.parse::<f64>() {
        Ok(_) => format!("{}-{}", axis.name, value.label),
        Err(_) => value.label.clone(),
    };
    match coordinates.is_empty() {
        true => "only".to_owned(),
        false => coordinates.iter().map(part).collect::<Vec<_>>().join("-"),
    }
}

/// Substitutes values of axes and scaled numbers in a term.
pub(super) fn put_in(
    term: &Term,
    coordinates: &Coordinates<'_>,
    scale: CampaignScale,
) -> Result<Term, String> {
    transform(term, &|term| {
        let parts = term.as_tuple().unwrap_or_default();
        match parts {
            [Term::Atom(word), Term::Atom(axis)] if word == "axis" => {
                value_of(axis, coordinates).map(|value| Some(value.clone()))
            }
            [Term::Atom(word), Term::Atom(axis), Term::Atom(field)] if word == "axis" => {
                let value = value_of(axis, coordinates)?;
                let found = pairs(value)
                    .and_then(|pairs| pairs.into_iter().find(|(name, _)| name == field));
                found.map(|(_, term)| Some(term)).ok_or_else(|| {
                    format!(
                        "{term}: the value of the axis {axis} has no field {field}: it is {value}"
                    )
                })
            }
            [Term::Atom(word), ..] if word == "scaled" => scale.number(term).map(Some),
            _ => Ok(None),
        }
    })
}

fn value_of<'a>(name: &str, coordinates: &Coordinates<'a>) -> Result<&'a Term, String> {
    let found = coordinates.iter().find(|(axis, _)| axis.name == name);
    found.map(|(_, value)| &value.term).ok_or_else(|| {
        let known: Vec<&str> = coordinates.iter().map(|(axis, _)| axis.name.as_str()).collect();
        match known.is_empty() {
            true => format!("{{axis,{name}}}: the campaign has no matrix: add {{matrix, [...]}}"),
            false => {
                format!("{{axis,{name}}}: the matrix has no such axis, but {}", known.join(", "))
            }
        }
    })
}

/// Replaces every term for which `replace` returns another, from the outside in. A replacement is searched,
/// too.
pub(super) fn transform(
    term: &Term,
    replace: &impl Fn(&Term) -> Result<Option<Term>, String>,
) -> Result<Term, String> {
    if let Some(other) = replace(term)? {
        // This terminates, because values of axes contain no references to axes.
        return match &other == term {
            true => Ok(other),
            false => transform(&other, replace),
        };
    }
    let all = |terms: &[Term]| -> Result<Vec<Term>, String> {
        terms.iter().map(|term| transform(term, replace)).collect()
    };
    Ok(match term {
        Term::Tuple(parts) => Term::Tuple(all(parts)?),
        Term::List(parts) => Term::List(all(parts)?),
        Term::ImproperList(parts, tail) => {
            Term::ImproperList(all(parts)?, Box::new(transform(tail, replace)?))
        }
        other => other.clone(),
    })
}
