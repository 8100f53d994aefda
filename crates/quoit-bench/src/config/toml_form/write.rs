//! Conversion from terms to TOML that reads back as the same terms.

use toml_writer::{ToTomlKey as _, ToTomlValue as _};

use super::{is_atom_text, is_tuple};
use crate::term::Term;

/// Width, in bytes, above which an array is split into one line for each element.
const COLUMNS_MAX: usize = 90;

/// Writes `key = value`. A long array gets one line for each element.
pub(in crate::config) fn write_pair(key: &str, term: &Term) -> String {
    let key = key.to_toml_key();
    let line = format!("{key} = {}", write_value(term));
    match term {
        Term::Tuple(elements) if line.len() > COLUMNS_MAX && is_tuple(elements) => {
            lines(&key, elements)
        }
        Term::List(elements) if line.len() > COLUMNS_MAX && !is_tuple(elements) => {
            lines(&key, elements)
        }
        _ => line,
    }
}

fn lines(key: &str, elements: &[Term]) -> String {
    let lines: String =
        elements.iter().map(|element| format!("    {},\n", write_value(element))).collect();
    format!("{key} = [\n{lines}]")
}

/// Writes a value on one line.
pub(in crate::config) fn write_value(term: &Term) -> String {
    match term {
        Term::Integer(value) => value.to_string(),
        Term::Float(value) => format!("{value:?}"),
        Term::Atom(name) if name == "true" || name == "false" => name.clone(),
        Term::Atom(name) if is_atom_text(name) => name.to_toml_value(),
        Term::Atom(name) => format!("{{ atom = {} }}", name.to_toml_value()),
        Term::String(text) if is_atom_text(text) => {
            format!("{{ string = {} }}", text.to_toml_value())
        }
        Term::String(text) => text.to_toml_value(),
        Term::Binary(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => format!("{{ binary = {} }}", text.to_toml_value()),
            Err(_) => format!("{{ binary = {bytes:?} }}"),
        },
        Term::Tuple(elements) if is_tuple(elements) => array(elements),
        Term::Tuple(elements) => format!("{{ tuple = {} }}", array(elements)),
        Term::List(elements) if is_tuple(elements) => format!("{{ list = {} }}", array(elements)),
        Term::List(elements) => array(elements),
        Term::ImproperList(elements, tail) => {
            format!("{{ list = {}, tail = {} }}", array(elements), write_value(tail))
        }
        Term::Map(pairs) => {
            let pair = |(key, value): &(Term, Term)| {
                format!("[{}, {}]", write_value(key), write_value(value))
            };
            let pairs: Vec<String> = pairs.iter().map(pair).collect();
            format!("{{ map = [{}] }}", pairs.join(", "))
        }
    }
}

fn array(elements: &[Term]) -> String {
    let elements: Vec<String> = elements.iter().map(write_value).collect();
    format!("[{}]", elements.join(", "))
}
