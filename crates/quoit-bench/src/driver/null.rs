//! The driver without a server: measures the load generator itself.

use super::{Asks, Driver, Inputs, Outcome, StartError};
use crate::config::{Config, ConfigError};
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// A worker that only draws.
#[derive(Debug)]
pub(super) struct Null;

/// What to draw and what to answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Nothing,
    Key,
    KeyAndValue,
    Error,
    AnotherError,
}

impl Driver for Null {
    const NAME: &'static str = "null";
    const OPERATIONS: &'static str =
        "absolutely_nothing, do_something, do_something_else, an_error, another_error";

    type Operation = Operation;
    type Plan = ();

    fn plan(_: &Config) -> Result<(), ConfigError> {
        Ok(())
    }

    fn asks((): &()) -> Asks {
        Asks { targets: Vec::new(), durability: "nothing is written anywhere".to_owned() }
    }

    fn operation((): &(), term: &Term) -> Option<Operation> {
        Some(match term.as_atom()? {
            "absolutely_nothing" => Operation::Nothing,
            "do_something" => Operation::Key,
            "do_something_else" => Operation::KeyAndValue,
            "an_error" => Operation::Error,
            "another_error" => Operation::AnotherError,
            _ => return None,
        })
    }

    fn draws_values(operation: Operation) -> bool {
        operation == Operation::KeyAndValue
    }

    async fn connect((): &(), _: WorkerPlace) -> Result<Self, StartError> {
        Ok(Self)
    }

    async fn perform(&mut self, (): &(), operation: Operation, inputs: &mut Inputs) -> Outcome {
        match operation {
            Operation::Nothing => Outcome::Success,
            Operation::Key | Operation::KeyAndValue => {
                if inputs.next_key().is_err() {
                    return Outcome::Stop;
                }
                if operation == Operation::KeyAndValue {
                    std::hint::black_box(inputs.next_value());
                }
                Outcome::Success
            }
            Operation::Error => Outcome::Failure(Term::atom("went_wrong")),
            Operation::AnotherError => {
                Outcome::Failure(Term::Tuple(["bad", "things", "happened"].map(Term::atom).into()))
            }
        }
    }
}
