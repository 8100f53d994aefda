//! The order of Erlang terms: numbers < atoms < tuples < maps < lists < binaries.

use crate::value::datum::Datum;
use quoit_model::etf::Term;
use std::cmp::Ordering;

/// Compares outputs by the order of their Erlang terms.
pub(crate) fn compare(one: &Datum, other: &Datum) -> Ordering {
    match (one, other) {
        (Datum::Term(one), Datum::Term(other)) => compare_terms(one, other),
        (one, other) => compare_terms(&one.to_term(), &other.to_term()),
    }
}

/// Compares outputs like [`compare`], and then tells an integer from a float of the same value, also within
/// lists, tuples and maps: the outputs are equal if they match (`=:=`).
pub(crate) fn compare_exactly(one: &Datum, other: &Datum) -> Ordering {
    compare(one, other).then_with(|| match (one, other) {
        (Datum::Term(one), Datum::Term(other)) => compare_by(one, other, compare_by_kind),
        (one, other) => compare_by(&one.to_term(), &other.to_term(), compare_by_kind),
    })
}

/// An order of numbers.
type NumberOrder = fn(&Term, &Term) -> Ordering;

/// Rank of the term's type in the order of types.
const fn rank(term: &Term) -> u8 {
    match term {
        Term::Integer(_) | Term::BigInteger { .. } | Term::Float(_) => 0,
        Term::Atom(_) => 1,
        Term::Tuple(_) => 2,
        Term::Map(_) => 3,
        Term::List(_) | Term::Text(_) | Term::ImproperList(..) => 4,
        Term::Binary(_) => 5,
    }
}

/// Compares terms in Erlang's order. An integer equals a float of the same value.
pub(crate) fn compare_terms(one: &Term, other: &Term) -> Ordering {
    compare_by(one, other, compare_numbers)
}

fn compare_by(one: &Term, other: &Term, numbers: NumberOrder) -> Ordering {
    rank(one).cmp(&rank(other)).then_with(|| match (one, other) {
        (Term::Atom(one), Term::Atom(other)) | (Term::Binary(one), Term::Binary(other)) => {
            one.cmp(other)
        }
        (Term::Tuple(one), Term::Tuple(other)) => {
            one.len().cmp(&other.len()).then_with(|| compare_all(one, other, numbers))
        }
        (Term::Map(one), Term::Map(other)) => {
            let parts = |pairs: &[(Term, Term)]| {
                pairs.iter().flat_map(|(name, value)| [name.clone(), value.clone()]).collect()
            };
            let (one_parts, other_parts): (Vec<Term>, Vec<Term>) = (parts(one), parts(other));
            one.len().cmp(&other.len()).then_with(|| compare_all(&one_parts, &other_parts, numbers))
        }
        (one, other) if rank(one) == 0 => numbers(one, other),
        (one, other) => compare_all(&elements(one), &elements(other), numbers),
    })
}

fn compare_all(one: &[Term], other: &[Term], numbers: NumberOrder) -> Ordering {
    let pairs = one.iter().zip(other);
    let mut orders = pairs.map(|(one, other)| compare_by(one, other, numbers));
    let differing = orders.find(|found| found.is_ne());
    differing.unwrap_or_else(|| one.len().cmp(&other.len()))
}

/// Elements of a list in any of its representations; the tail of an improper list is the last element.
fn elements(list: &Term) -> Vec<Term> {
    match list {
        Term::List(elements) => elements.clone(),
        Term::Text(text) => text.iter().map(|byte| Term::Integer((*byte).into())).collect(),
        Term::ImproperList(elements, tail) => {
            elements.iter().cloned().chain([(**tail).clone()]).collect()
        }
        _ => Vec::new(),
    }
}

fn compare_numbers(one: &Term, other: &Term) -> Ordering {
    match (one, other) {
        (Term::Integer(one), Term::Integer(other)) => one.cmp(other),
        (Term::BigInteger { .. }, Term::BigInteger { .. }) => compare_big(one, other),
        (Term::BigInteger { negative, .. }, _) => sign(*negative),
        (_, Term::BigInteger { negative, .. }) => sign(*negative).reverse(),
        (one, other) => as_float(one).total_cmp(&as_float(other)),
    }
}

/// The order of numbers in which an integer is below a float of the same value.
fn compare_by_kind(one: &Term, other: &Term) -> Ordering {
    let is_float = |number: &Term| matches!(number, Term::Float(_));
    compare_numbers(one, other).then_with(|| is_float(one).cmp(&is_float(other)))
}

const fn sign(negative: bool) -> Ordering {
    if negative { Ordering::Less } else { Ordering::Greater }
}

fn as_float(number: &Term) -> f64 {
    match number {
        Term::Integer(integer) => *integer as f64,
        // Adding zero turns -0.0 into 0.0.
        Term::Float(float) => *float + 0.0,
        _ => 0.0,
    }
}

fn compare_big(one: &Term, other: &Term) -> Ordering {
    let (
        Term::BigInteger { negative, magnitude },
        Term::BigInteger { negative: other_negative, magnitude: other },
    ) = (one, other)
    else {
        return Ordering::Equal;
    };
    if negative != other_negative {
        return sign(*negative);
    }
    let larger = magnitude.len().cmp(&other.len());
    let larger = larger.then_with(|| magnitude.iter().rev().cmp(other.iter().rev()));
    if *negative { larger.reverse() } else { larger }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn kinds_of_terms_come_in_the_order_of_erlang() {
        let list = |elements: &[i128]| {
            Term::List(elements.iter().map(|number| Term::Integer(*number)).collect())
        };
        let sorted = [
            Term::BigInteger { negative: true, magnitude: Bytes::from_static(&[1; 20]) },
            Term::Integer(-1),
            Term::Float(0.5),
            Term::Integer(2),
            Term::BigInteger { negative: false, magnitude: Bytes::from_static(&[1; 20]) },
            Term::Atom(Bytes::from_static(b"a")),
            Term::Tuple(vec![Term::Integer(9)]),
            Term::Tuple(vec![Term::Integer(1), Term::Integer(1)]),
            Term::Map(vec![]),
            list(&[]),
            list(&[1, 2]),
            list(&[1, 2, 0]),
            Term::Text(Bytes::from_static(b"a")),
            Term::Binary(Bytes::new()),
            Term::Binary(Bytes::from_static(b"10")),
            Term::Binary(Bytes::from_static(b"9")),
        ];
        for (place, one) in sorted.iter().enumerate() {
            for (other_place, other) in sorted.iter().enumerate() {
                assert_eq!(compare_terms(one, other), place.cmp(&other_place), "{one:?} {other:?}");
            }
        }
        assert_eq!(compare_terms(&Term::Integer(1), &Term::Float(1.0)), Ordering::Equal);
    }
}
