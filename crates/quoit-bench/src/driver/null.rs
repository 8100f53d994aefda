//! The driver without a server. It measures the load generator itself, and can print drawn keys and values.

use std::io::Write as _;

use super::{Driver, Inputs, Outcome, StartError, SystemRequirements};
use crate::config::{Config, ConfigError};
use crate::keygen::{Key, KeyKind};
use crate::term::Term;
use crate::valgen::Value;
use crate::worker_place::WorkerPlace;

/// A worker that only draws keys and values.
#[derive(Debug)]
pub(super) struct Null;

/// State that all workers share.
#[derive(Debug)]
pub(super) struct NullPlan {
    key_kind: KeyKind,
    /// True if printed texts go to standard error, because standard output is JSON.
    is_json: bool,
}

/// An operation: the values that it draws, and its outcome.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NullOperation {
    Nothing,
    Draw { with_value: bool },
    Error,
    AnotherError,
    Print { key: Option<PrintLimit>, value: Option<PrintLimit> },
}

/// Amount of a term that is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum PrintLimit {
    Whole,
    /// At most this many bytes.
    Elements(usize),
}

impl Driver for Null {
    const NAME: &'static str = "null";
    const OPERATIONS: &'static str = "absolutely_nothing, do_something, do_something_else, \
         get, put, delete, an_error, another_error, print_key, print_value, {print_value, Depth}, \
         print_key_and_value, {print_key_and_value, KeyDepth, ValueDepth}";

    type Operation = NullOperation;
    type Plan = NullPlan;

    fn plan(config: &Config) -> Result<NullPlan, ConfigError> {
        Ok(NullPlan { key_kind: config.key_generator.kind(), is_json: config.is_json })
    }

    fn system_requirements(_: &NullPlan) -> SystemRequirements {
        SystemRequirements {
            targets: Vec::new(),
            additional_lists: Vec::new(),
            durability: "nothing is written anywhere".to_owned(),
        }
    }

    fn operation(_: &NullPlan, term: &Term) -> Option<NullOperation> {
        let whole = Some(PrintLimit::Whole);
        let (name, depths) = match term {
            Term::Tuple(parts) => {
                let (name, depths) = parts.split_first()?;
                (name.as_atom()?, depths)
            }
            other => (other.as_atom()?, &[][..]),
        };
        Some(match (name, depths) {
            ("absolutely_nothing", []) => NullOperation::Nothing,
            // Names of the first releases of basho_bench, which draw the same.
            ("do_something" | "get" | "delete", []) => NullOperation::Draw { with_value: false },
            ("do_something_else" | "put", []) => NullOperation::Draw { with_value: true },
            ("an_error", []) => NullOperation::Error,
            ("another_error", []) => NullOperation::AnotherError,
            ("print_key", []) => NullOperation::Print { key: whole, value: None },
            ("print_value", []) => NullOperation::Print { key: None, value: whole },
            ("print_value", [limit]) => {
                NullOperation::Print { key: None, value: Some(print_limit_of(limit)?) }
            }
            ("print_key_and_value", []) => NullOperation::Print { key: whole, value: whole },
            ("print_key_and_value", [key, value]) => NullOperation::Print {
                key: Some(print_limit_of(key)?),
                value: Some(print_limit_of(value)?),
            },
            _ => return None,
        })
    }

    fn draws_values(operation: NullOperation) -> bool {
        matches!(
            operation,
            NullOperation::Draw { with_value: true } | NullOperation::Print { value: Some(_), .. }
        )
    }

    async fn connect(_: &NullPlan, _: WorkerPlace) -> Result<Self, StartError> {
        Ok(Self)
    }

    async fn perform(
        &mut self,
        plan: &NullPlan,
        operation: NullOperation,
        inputs: &mut Inputs,
    ) -> Outcome {
        match operation {
            NullOperation::Nothing => Outcome::Success,
            NullOperation::Draw { with_value } => {
                if inputs.next_key().is_err() {
                    return Outcome::Stop;
                }
                if with_value && std::hint::black_box(inputs.next_value()).is_err() {
                    return Outcome::Stop;
                }
                Outcome::Success
            }
            NullOperation::Print { key, value } => {
                let mut line = String::new();
                if let Some(limit) = key {
                    match inputs.next_key() {
                        Ok(key) => line = term_of_key(plan.key_kind, key, limit).to_string(),
                        Err(_) => return Outcome::Stop,
                    }
                }
                if let Some(limit) = value {
                    let separator = if line.is_empty() { "" } else { " " };
                    let Ok(value) = inputs.next_value() else { return Outcome::Stop };
                    line.push_str(separator);
                    line.push_str(&term_of_value(value, limit).to_string());
                }
                // A closed output does not stop the run.
                let _ = match plan.is_json {
                    true => writeln!(std::io::stderr(), "{line}"),
                    false => writeln!(std::io::stdout(), "{line}"),
                };
                Outcome::Success
            }
            NullOperation::Error | NullOperation::AnotherError => failure(operation),
        }
    }
}

/// Failures with fixed reasons, for tests of reports.
pub(super) fn failure(operation: NullOperation) -> Outcome {
    Outcome::Failure(match operation {
        NullOperation::AnotherError => {
            Term::Tuple(["bad", "things", "happened"].map(Term::atom).into())
        }
        _ => Term::atom("went_wrong"),
    })
}

fn print_limit_of(term: &Term) -> Option<PrintLimit> {
    usize::try_from(term.as_integer()?).ok().filter(|count| *count > 0).map(PrintLimit::Elements)
}

fn term_of_key(kind: KeyKind, key: &Key, limit: PrintLimit) -> Term {
    match kind {
        KeyKind::Integer => Term::Integer(key.integer().into()),
        KeyKind::String => {
            Term::String(String::from_utf8_lossy(cut(key.bytes(), limit)).into_owned())
        }
        KeyKind::Binary => Term::Binary(cut(key.bytes(), limit).to_vec()),
    }
}

fn term_of_value(value: Value<'_>, limit: PrintLimit) -> Term {
    match value {
        Value::Integer(integer) => Term::Integer(integer.into()),
        Value::Bytes(bytes) => Term::Binary(cut(bytes, limit).to_vec()),
    }
}

fn cut(bytes: &[u8], limit: PrintLimit) -> &[u8] {
    match limit {
        PrintLimit::Whole => bytes,
        PrintLimit::Elements(count) => bytes.get(..count).unwrap_or(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depths_bound_what_is_printed() {
        let value = Value::Bytes(b"abcdef");
        assert_eq!(term_of_value(value, PrintLimit::Elements(3)).to_string(), "<<\"abc\">>");
        assert_eq!(term_of_value(value, PrintLimit::Elements(9)).to_string(), "<<\"abcdef\">>");
        assert_eq!(term_of_value(Value::Integer(-5), PrintLimit::Elements(1)).to_string(), "-5");
        let mut key = Key::default();
        key.replace(b"key".iter().copied());
        assert_eq!(term_of_key(KeyKind::String, &key, PrintLimit::Whole).to_string(), "\"key\"");
        assert_eq!(
            term_of_key(KeyKind::Binary, &key, PrintLimit::Elements(1)).to_string(),
            "<<\"k\">>"
        );
    }

    #[test]
    fn printing_operations_take_depths() {
        let plan = NullPlan { key_kind: KeyKind::Integer, is_json: false };
        let operation = |text: &str| {
            let terms = crate::term::parse_terms(&format!("{text}.")).expect(text);
            Null::operation(&plan, &terms[0].term)
        };
        let (whole, two) = (Some(PrintLimit::Whole), Some(PrintLimit::Elements(2)));
        assert_eq!(operation("print_key"), Some(NullOperation::Print { key: whole, value: None }));
        assert_eq!(
            operation("{print_value, 2}"),
            Some(NullOperation::Print { key: None, value: two })
        );
        let both = operation("{print_key_and_value, 2, 2}");
        assert_eq!(both, Some(NullOperation::Print { key: two, value: two }));
        for text in ["{print_value, 0}", "{print_value, x}", "{print_key, 2}", "{an_error, 1}"] {
            assert_eq!(operation(text), None, "{text}");
        }
    }
}
