//! The driver without a server: measures the load generator itself, and shows what it draws.

use std::io::Write as _;

use super::{Asks, Driver, Inputs, Outcome, StartError};
use crate::config::{Config, ConfigError};
use crate::keygen::{Key, Kind};
use crate::term::Term;
use crate::valgen::Value;
use crate::worker_place::WorkerPlace;

/// A worker that only draws.
#[derive(Debug)]
pub(super) struct Null;

/// State that all workers share.
#[derive(Debug)]
pub(super) struct Plan {
    key_kind: Kind,
}

/// An operation: the values to draw and the outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Nothing,
    Draw { with_value: bool },
    Error,
    AnotherError,
    Print { key: Option<Depth>, value: Option<Depth> },
}

/// How much of a term is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Depth {
    Whole,
    /// At most so many elements, bytes or characters.
    Elements(usize),
}

impl Driver for Null {
    const NAME: &'static str = "null";
    const OPERATIONS: &'static str = "absolutely_nothing, do_something, do_something_else, \
         an_error, another_error, print_key, print_value, {print_value, Depth}, \
         print_key_and_value, {print_key_and_value, KeyDepth, ValueDepth}";

    type Operation = Operation;
    type Plan = Plan;

    fn plan(config: &Config) -> Result<Plan, ConfigError> {
        Ok(Plan { key_kind: config.key_generator.kind() })
    }

    fn asks(_: &Plan) -> Asks {
        Asks { targets: Vec::new(), durability: "nothing is written anywhere".to_owned() }
    }

    fn operation(_: &Plan, term: &Term) -> Option<Operation> {
        let whole = Some(Depth::Whole);
        let (name, depths) = match term {
            Term::Tuple(parts) => (parts.first()?.as_atom()?, &parts[1..]),
            other => (other.as_atom()?, &[][..]),
        };
        Some(match (name, depths) {
            ("absolutely_nothing", []) => Operation::Nothing,
            ("do_something", []) => Operation::Draw { with_value: false },
            ("do_something_else", []) => Operation::Draw { with_value: true },
            ("an_error", []) => Operation::Error,
            ("another_error", []) => Operation::AnotherError,
            ("print_key", []) => Operation::Print { key: whole, value: None },
            ("print_value", []) => Operation::Print { key: None, value: whole },
            ("print_value", [depth]) => {
                Operation::Print { key: None, value: Some(depth_of(depth)?) }
            }
            ("print_key_and_value", []) => Operation::Print { key: whole, value: whole },
            ("print_key_and_value", [key, value]) => {
                Operation::Print { key: Some(depth_of(key)?), value: Some(depth_of(value)?) }
            }
            _ => return None,
        })
    }

    fn draws_values(operation: Operation) -> bool {
        matches!(
            operation,
            Operation::Draw { with_value: true } | Operation::Print { value: Some(_), .. }
        )
    }

    async fn connect(_: &Plan, _: WorkerPlace) -> Result<Self, StartError> {
        Ok(Self)
    }

    async fn perform(&mut self, plan: &Plan, operation: Operation, inputs: &mut Inputs) -> Outcome {
        match operation {
            Operation::Nothing => Outcome::Success,
            Operation::Draw { with_value } => {
                if inputs.next_key().is_err() {
                    return Outcome::Stop;
                }
                if with_value {
                    std::hint::black_box(inputs.next_value());
                }
                Outcome::Success
            }
            Operation::Print { key, value } => {
                let mut line = String::new();
                if let Some(depth) = key {
                    match inputs.next_key() {
                        Ok(key) => line = term_of_key(plan.key_kind, key, depth).to_string(),
                        Err(_) => return Outcome::Stop,
                    }
                }
                if let Some(depth) = value {
                    let separator = if line.is_empty() { "" } else { " " };
                    line.push_str(separator);
                    line.push_str(&term_of_value(inputs.next_value(), depth).to_string());
                }
                // What nobody reads need not be printed.
                let _ = writeln!(std::io::stdout(), "{line}");
                Outcome::Success
            }
            Operation::Error | Operation::AnotherError => failure(operation),
        }
    }
}

/// The failures that tests of reports are made of.
pub(super) fn failure(operation: Operation) -> Outcome {
    Outcome::Failure(match operation {
        Operation::AnotherError => {
            Term::Tuple(["bad", "things", "happened"].map(Term::atom).into())
        }
        _ => Term::atom("went_wrong"),
    })
}

fn depth_of(term: &Term) -> Option<Depth> {
    usize::try_from(term.as_integer()?).ok().filter(|count| *count > 0).map(Depth::Elements)
}

fn term_of_key(kind: Kind, key: &Key, depth: Depth) -> Term {
    match kind {
        Kind::Integer => Term::Integer(key.integer().into()),
        Kind::String => Term::String(String::from_utf8_lossy(cut(key.bytes(), depth)).into_owned()),
        Kind::Binary => Term::Binary(cut(key.bytes(), depth).to_vec()),
    }
}

fn term_of_value(value: Value<'_>, depth: Depth) -> Term {
    match value {
        Value::Integer(integer) => Term::Integer(integer.into()),
        Value::Bytes(bytes) => Term::Binary(cut(bytes, depth).to_vec()),
    }
}

fn cut(bytes: &[u8], depth: Depth) -> &[u8] {
    match depth {
        Depth::Whole => bytes,
        Depth::Elements(count) => &bytes[..count.min(bytes.len())],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_bound_what_is_printed() {
        let value = Value::Bytes(b"abcdef");
        assert_eq!(term_of_value(value, Depth::Elements(3)).to_string(), "<<\"abc\">>");
        assert_eq!(term_of_value(value, Depth::Elements(9)).to_string(), "<<\"abcdef\">>");
        assert_eq!(term_of_value(Value::Integer(-5), Depth::Elements(1)).to_string(), "-5");
        let mut key = Key::default();
        key.replace(b"key".iter().copied());
        assert_eq!(term_of_key(Kind::String, &key, Depth::Whole).to_string(), "\"key\"");
        assert_eq!(term_of_key(Kind::Binary, &key, Depth::Elements(1)).to_string(), "<<\"k\">>");
    }

    #[test]
    fn printing_operations_take_depths() {
        let plan = Plan { key_kind: Kind::Integer };
        let operation = |text: &str| {
            let terms = crate::term::parse_terms(&format!("{text}.")).expect(text);
            Null::operation(&plan, &terms[0].term)
        };
        let (whole, two) = (Some(Depth::Whole), Some(Depth::Elements(2)));
        assert_eq!(operation("print_key"), Some(Operation::Print { key: whole, value: None }));
        assert_eq!(operation("{print_value, 2}"), Some(Operation::Print { key: None, value: two }));
        let both = operation("{print_key_and_value, 2, 2}");
        assert_eq!(both, Some(Operation::Print { key: two, value: two }));
        for text in ["{print_value, 0}", "{print_value, x}", "{print_key, 2}", "{an_error, 1}"] {
            assert_eq!(operation(text), None, "{text}");
        }
    }
}
