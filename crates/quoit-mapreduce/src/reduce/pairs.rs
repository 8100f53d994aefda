//! Sums of numbers by name.

use super::OrderedDatum;
use super::number::Number;
use crate::value::datum::{Datum, term_bytes};
use crate::value::json::members;
use quoit_model::etf::Term;
use std::collections::BTreeMap;

/// Names with the sums of their numbers.
#[derive(Debug, Default)]
pub(crate) struct PairSums {
    sums: BTreeMap<OrderedDatum, Number>,
    held_bytes: usize,
}

impl PairSums {
    /// Adds a pair `{name, number}` or `[name, number]`, or each pair of a list or object.
    pub(crate) fn add(&mut self, term: &Term) -> Result<(), String> {
        if let Some((name, number)) = pair(term) {
            return self.add_pair(name, number);
        }
        let pairs = members(term).or_else(|| term.as_list());
        let refused = || {
            let printed = crate::print_term(term);
            format!(
                "function_clause: reduce_plist_sum takes pairs of a name and a number, and not {printed}"
            )
        };
        for each in pairs.ok_or_else(refused)? {
            let (name, number) = pair(each).ok_or_else(refused)?;
            self.add_pair(name, number)?;
        }
        Ok(())
    }

    fn add_pair(&mut self, name: &Term, number: Number) -> Result<(), String> {
        let name = OrderedDatum(Datum::Term(name.clone()));
        match self.sums.get_mut(&name) {
            Some(sum) => *sum = sum.add(number)?,
            None => {
                self.held_bytes += name.0.size_bytes() + term_bytes(&number.to_term());
                self.sums.insert(name, number);
            }
        }
        Ok(())
    }

    pub(crate) fn finish(&mut self) -> Vec<Datum> {
        self.held_bytes = 0;
        let sums = std::mem::take(&mut self.sums).into_iter();
        sums.map(|(name, sum)| Datum::Term(Term::Tuple(vec![name.0.to_term(), sum.to_term()])))
            .collect()
    }

    pub(crate) const fn held_bytes(&self) -> usize {
        self.held_bytes
    }
}

fn pair(term: &Term) -> Option<(&Term, Number)> {
    let (Term::Tuple(parts) | Term::List(parts)) = term else { return None };
    match parts.as_slice() {
        [name, number] => Some((name, Number::of_term(number).ok()?)),
        _ => None,
    }
}
