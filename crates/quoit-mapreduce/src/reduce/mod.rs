//! Functions of reduce phases, each with the state that it keeps of its inputs.
//!
//! Riak calls such a function repeatedly with its last result and some new inputs. The results of the
//! functions here do not depend on how inputs are divided into batches, so they take one input at a time.

mod number;
mod pairs;

use crate::order::{compare, compare_exactly};
use crate::script::Script;
use crate::value::datum::Datum;
use bytes::Bytes;
use number::Number;
use pairs::PairSums;
use quoit_model::etf::Term;
use std::cmp::Ordering;
use std::collections::BTreeSet;

/// Function of a reduce phase.
#[derive(Clone, PartialEq, Debug)]
pub enum ReduceFunction {
    /// Returns its inputs, which must be keys, without key data.
    Identity,
    /// Returns the distinct inputs.
    SetUnion,
    /// Returns the sum of numbers; `not_found` markers are skipped.
    Sum,
    /// Returns the sums of numbers by name.
    PlistSum,
    /// Returns its inputs in the order of Erlang terms.
    Sort,
    /// Returns the number of inputs. An input that is an integer counts as a partial count.
    CountInputs,
    /// Converts decimal texts to integers.
    StringToInteger,
    /// Calls a script with the values.
    Script {
        /// The script.
        script: Script,
        /// Number of inputs in one call; `None` means that one call gets all inputs.
        batch_count: Option<usize>,
    },
}

impl ReduceFunction {
    /// True if the function usually has far fewer outputs than inputs.
    #[must_use]
    pub const fn shrinks(&self) -> bool {
        matches!(self, Self::SetUnion | Self::Sum | Self::PlistSum | Self::CountInputs)
    }

    /// Starts to reduce part of the inputs on the node that produces them. Returns `None` for scripts.
    #[must_use]
    pub fn begin(&self) -> Option<Reduction> {
        Some(Reduction { reducer: Reducer::of(self)?, outputs: Vec::new() })
    }
}

/// A running reduction of part of a phase's inputs. Its outputs take the place of these inputs.
#[derive(Debug)]
pub struct Reduction {
    reducer: Reducer,
    outputs: Vec<Datum>,
}

impl Reduction {
    /// Takes an input.
    ///
    /// # Errors
    ///
    /// Text of the error with which the phase fails.
    pub fn push(&mut self, input: Datum) -> Result<(), String> {
        self.outputs.extend(self.reducer.push(input)?);
        Ok(())
    }

    /// Takes an input that is a binary. If the function only counts its inputs, the bytes are not copied.
    ///
    /// # Errors
    ///
    /// Like [`Reduction::push`].
    pub fn push_binary(&mut self, input: &[u8]) -> Result<(), String> {
        match &mut self.reducer {
            Reducer::Count(count) => {
                *count += 1;
                Ok(())
            }
            _ => self.push(Datum::binary(Bytes::copy_from_slice(input))),
        }
    }

    /// Returns the outputs.
    #[must_use]
    pub fn finish(mut self) -> Vec<Datum> {
        self.outputs.extend(self.reducer.finish());
        self.outputs
    }
}

/// State of a built-in function.
#[derive(Debug)]
pub(crate) enum Reducer {
    Identity,
    StringToInteger,
    SetUnion(BTreeSet<OrderedDatum>, usize),
    Sum(Number),
    PlistSum(PairSums),
    Sort(Vec<Datum>, usize),
    Count(i128),
}

/// An output with a total order, for sets of outputs. As in Riak's sets, an integer differs from a
/// float of the same value.
#[derive(Debug)]
pub(crate) struct OrderedDatum(Datum);

impl Ord for OrderedDatum {
    fn cmp(&self, other: &Self) -> Ordering {
        compare_exactly(&self.0, &other.0)
    }
}

impl PartialOrd for OrderedDatum {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for OrderedDatum {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for OrderedDatum {}

impl Reducer {
    /// Creates the initial state of a function; `None` for scripts.
    pub(crate) fn of(function: &ReduceFunction) -> Option<Self> {
        Some(match function {
            ReduceFunction::Identity => Self::Identity,
            ReduceFunction::SetUnion => Self::SetUnion(BTreeSet::new(), 0),
            ReduceFunction::Sum => Self::Sum(Number::ZERO),
            ReduceFunction::PlistSum => Self::PlistSum(PairSums::default()),
            ReduceFunction::Sort => Self::Sort(Vec::new(), 0),
            ReduceFunction::CountInputs => Self::Count(0),
            ReduceFunction::StringToInteger => Self::StringToInteger,
            ReduceFunction::Script { .. } => return None,
        })
    }

    /// Takes an input, and returns the output if it is known immediately.
    ///
    /// # Errors
    ///
    /// Text of the error with which the phase fails.
    pub(crate) fn push(&mut self, input: Datum) -> Result<Option<Datum>, String> {
        match self {
            Self::Identity => return identity(input).map(Some),
            Self::StringToInteger => return string_to_integer(input),
            Self::SetUnion(set, bytes) => {
                let size_bytes = input.size_bytes();
                if set.insert(OrderedDatum(input)) {
                    *bytes += size_bytes;
                }
            }
            Self::Sum(sum) => {
                if !input.is_not_found() {
                    *sum = sum.add(Number::of(&input)?)?;
                }
            }
            Self::PlistSum(sums) => sums.add(&input.to_term())?,
            Self::Sort(inputs, bytes) => {
                *bytes += input.size_bytes();
                inputs.push(input);
            }
            Self::Count(count) => {
                let more = match &input {
                    Datum::Term(Term::Integer(partial)) => *partial,
                    _ => 1,
                };
                let sum = count.checked_add(more);
                *count = sum.ok_or("the count has more than 128 bits")?;
            }
        }
        Ok(None)
    }

    /// Returns the outputs after the last input.
    pub(crate) fn finish(&mut self) -> Vec<Datum> {
        match self {
            Self::Identity | Self::StringToInteger => Vec::new(),
            Self::SetUnion(set, bytes) => {
                *bytes = 0;
                std::mem::take(set).into_iter().map(|ordered| ordered.0).collect()
            }
            Self::Sum(sum) => vec![Datum::Term(sum.to_term())],
            Self::PlistSum(sums) => sums.finish(),
            Self::Sort(inputs, bytes) => {
                *bytes = 0;
                let mut sorted = std::mem::take(inputs);
                sorted.sort_by(compare);
                sorted
            }
            Self::Count(count) => vec![Datum::Term(Term::Integer(*count))],
        }
    }

    /// Approximate memory of the state in bytes.
    pub(crate) fn held_bytes(&self) -> usize {
        match self {
            Self::SetUnion(_, bytes) | Self::Sort(_, bytes) => *bytes,
            Self::PlistSum(sums) => sums.held_bytes(),
            _ => 0,
        }
    }
}

/// Returns a key without its key data.
fn identity(input: Datum) -> Result<Datum, String> {
    match input {
        Datum::Key(mut key) => {
            key.key_data = None;
            Ok(Datum::Key(key))
        }
        Datum::Term(term) => match crate::Input::from_term(&term) {
            Some(mut key) => {
                key.key_data = None;
                Ok(Datum::Key(Box::new(key)))
            }
            None => Err(format!(
                "function_clause: reduce_identity takes keys, and not {}",
                crate::print_term(&term)
            )),
        },
        Datum::Object(_) => {
            Err("function_clause: reduce_identity takes keys, and not objects".into())
        }
    }
}

fn string_to_integer(input: Datum) -> Result<Option<Datum>, String> {
    if input.is_not_found() {
        return Ok(None);
    }
    let digits = match &input {
        Datum::Term(Term::Integer(_) | Term::BigInteger { .. }) => return Ok(Some(input)),
        Datum::Term(Term::Binary(text) | Term::Text(text)) => std::str::from_utf8(text).ok(),
        _ => None,
    };
    let number = digits.and_then(|digits| digits.parse().ok());
    match number {
        Some(number) => Ok(Some(Datum::Term(Term::Integer(number)))),
        None => Err(format!(
            "badarg: reduce_string_to_integer takes decimal text of up to 128 bits, and not {}",
            crate::print_term(&input.to_term())
        )),
    }
}

#[cfg(test)]
mod tests;
