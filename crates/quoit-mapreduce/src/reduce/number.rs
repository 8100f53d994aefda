//! Numbers that reduce functions add up.

use crate::value::datum::Datum;
use quoit_model::etf::Term;

/// A sum: an integer as long as only integers have been added, else a float.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    pub(crate) const ZERO: Self = Self::Integer(0);

    pub(crate) fn of(input: &Datum) -> Result<Self, String> {
        match input {
            Datum::Term(term) => Self::of_term(term),
            other => Err(no_number(&other.to_term())),
        }
    }

    pub(crate) fn of_term(term: &Term) -> Result<Self, String> {
        match term {
            Term::Integer(integer) => Ok(Self::Integer(*integer)),
            Term::Float(float) => Ok(Self::Float(*float)),
            other => Err(no_number(other)),
        }
    }

    pub(crate) fn add(self, other: Self) -> Result<Self, String> {
        match (self, other) {
            (Self::Integer(one), Self::Integer(other)) => {
                let sum = one.checked_add(other);
                sum.map(Self::Integer).ok_or_else(|| "the sum has more than 128 bits".into())
            }
            (one, other) => Ok(Self::Float(one.as_float() + other.as_float())),
        }
    }

    pub(crate) const fn to_term(self) -> Term {
        match self {
            Self::Integer(integer) => Term::Integer(integer),
            Self::Float(float) => Term::Float(float),
        }
    }

    const fn as_float(self) -> f64 {
        match self {
            Self::Integer(integer) => integer as f64,
            Self::Float(float) => float,
        }
    }
}

fn no_number(term: &Term) -> String {
    format!(
        "badarith: {} is not a number of up to 128 bits; reduce_string_to_integer makes numbers of decimal \
         text",
        crate::print_term(term)
    )
}
