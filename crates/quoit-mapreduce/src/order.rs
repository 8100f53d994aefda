//! The order of Erlang terms: numbers < atoms < tuples < maps < lists < binaries.

use crate::value::datum::Datum;
use quoit_model::etf::Term;
use quoit_number::whole_i128;
use std::cmp::Ordering;

/// 2^127: the floats from `-INTEGERS_END` to below it have integral parts of 128 bits. Larger integers are
/// `BigInteger`s.
const INTEGERS_END: f64 = -(i128::MIN as f64);
/// Number of stored bits of a float's fraction.
const FRACTION_BITS: u32 = 52;
/// Stored exponent of the floats whose last bit stands for one: 1023 + 52.
const EXPONENT_OF_ONE_ULP: u64 = 1_075;

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

/// Compares numbers by their exact values, so that the order of integers and floats is total. A NaN is above
/// or below all other numbers, by its sign.
fn compare_numbers(one: &Term, other: &Term) -> Ordering {
    match (one, other) {
        (Term::Integer(one), Term::Integer(other)) => one.cmp(other),
        (Term::Float(one), Term::Float(other)) => {
            with_one_zero(*one).total_cmp(&with_one_zero(*other))
        }
        (Term::Integer(integer), Term::Float(float)) => compare_to_float(*integer, *float),
        (Term::Float(float), Term::Integer(integer)) => {
            compare_to_float(*integer, *float).reverse()
        }
        (Term::BigInteger { negative, magnitude }, Term::Float(float)) => {
            compare_big_to_float(*negative, magnitude, *float)
        }
        (Term::Float(float), Term::BigInteger { negative, magnitude }) => {
            compare_big_to_float(*negative, magnitude, *float).reverse()
        }
        (Term::BigInteger { .. }, Term::BigInteger { .. }) => compare_big(one, other),
        (Term::BigInteger { negative, .. }, _) => sign(*negative),
        (_, Term::BigInteger { negative, .. }) => sign(*negative).reverse(),
        _ => Ordering::Equal,
    }
}

fn compare_to_float(integer: i128, float: f64) -> Ordering {
    if !(-INTEGERS_END..INTEGERS_END).contains(&float) {
        return sign(float.is_sign_negative()).reverse();
    }
    let whole = integer.cmp(&whole_i128(float));
    whole.then_with(|| 0.0f64.total_cmp(&with_one_zero(float.fract())))
}

/// The float, and 0.0 for -0.0, which has the same value.
fn with_one_zero(float: f64) -> f64 {
    if float == 0.0 { 0.0 } else { float }
}

fn compare_big_to_float(negative: bool, magnitude: &[u8], float: f64) -> Ordering {
    if (-INTEGERS_END..INTEGERS_END).contains(&float) {
        return sign(negative);
    }
    if !float.is_finite() || negative != float.is_sign_negative() {
        return sign(float.is_sign_negative()).reverse();
    }
    let larger = compare_magnitudes(magnitude, &magnitude_of(float));
    if negative { larger.reverse() } else { larger }
}

/// Magnitude of a finite float of 2^52 or more in magnitude, which is a whole number: lowest byte first,
/// without zero bytes at the end.
fn magnitude_of(float: f64) -> Vec<u8> {
    let bits = float.to_bits();
    let shift = ((bits >> FRACTION_BITS) & 0x7ff).saturating_sub(EXPONENT_OF_ONE_ULP) as usize;
    let implied = 1u64 << FRACTION_BITS;
    let fraction = (bits & (implied - 1)) | implied;
    let mut magnitude = vec![0; shift / 8];
    magnitude.extend_from_slice(&(fraction << (shift % 8)).to_le_bytes());
    while magnitude.last() == Some(&0) {
        magnitude.pop();
    }
    magnitude
}

/// The order of numbers in which an integer is below a float of the same value.
fn compare_by_kind(one: &Term, other: &Term) -> Ordering {
    let is_float = |number: &Term| matches!(number, Term::Float(_));
    compare_numbers(one, other).then_with(|| is_float(one).cmp(&is_float(other)))
}

const fn sign(negative: bool) -> Ordering {
    if negative { Ordering::Less } else { Ordering::Greater }
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
    let larger = compare_magnitudes(magnitude, other);
    if *negative { larger.reverse() } else { larger }
}

fn compare_magnitudes(one: &[u8], other: &[u8]) -> Ordering {
    one.len().cmp(&other.len()).then_with(|| one.iter().rev().cmp(other.iter().rev()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use proptest::prelude::*;

    /// The integer 2^`power` + `offset`, or its negation, which has more than 128 bits.
    fn big(negative: bool, power: usize, offset: u8) -> Term {
        let mut magnitude = vec![0; power / 8];
        magnitude.push(1u8 << (power % 8));
        magnitude[0] = offset;
        Term::BigInteger { negative, magnitude: magnitude.into() }
    }

    /// Numbers beside powers of two from which on floats or integers get coarser or larger.
    fn number() -> impl Strategy<Value = Term> {
        let power = prop::sample::select(vec![0u32, 1, 53, 63, 64, 126]);
        let integer = (power, -3i128..=3, any::<bool>()).prop_map(|(power, offset, negative)| {
            let number = (1i128 << power) + offset;
            if negative { -number } else { number }
        });
        let float = (integer.clone(), prop::sample::select(vec![0.0f64, 0.5, -0.5]));
        let odd = vec![f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e300, -1e300];
        let beyond = vec![INTEGERS_END, -INTEGERS_END, 2f64.powi(130), -(2f64.powi(130))];
        prop_oneof![
            4 => integer.prop_map(Term::Integer),
            4 => float.prop_map(|(integer, part)| Term::Float(integer as f64 + part)),
            1 => prop::sample::select([odd, beyond].concat()).prop_map(Term::Float),
            1 => prop::sample::select(vec![i128::MIN, i128::MAX]).prop_map(Term::Integer),
            1 => (any::<bool>(), 129usize..=131, 0u8..2)
                .prop_map(|(negative, power, offset)| big(negative, power, offset)),
        ]
    }

    fn output() -> impl Strategy<Value = Datum> {
        let list = prop::collection::vec(number(), 0..3).prop_map(Term::List);
        prop_oneof![3 => number(), 2 => list].prop_map(Datum::Term)
    }

    proptest! {
        #[test]
        fn the_orders_are_total(one in output(), two in output(), three in output()) {
            for order in [compare, compare_exactly] {
                prop_assert_eq!(order(&one, &one), Ordering::Equal);
                prop_assert_eq!(order(&one, &two), order(&two, &one).reverse());
                if order(&one, &two).is_le() && order(&two, &three).is_le() {
                    prop_assert!(order(&one, &three).is_le(), "{one:?} {two:?} {three:?}");
                }
            }
            if compare(&one, &two).is_ne() {
                prop_assert_eq!(compare(&one, &two), compare_exactly(&one, &two));
            }
        }

        #[test]
        fn any_outputs_can_be_sorted(mut outputs in prop::collection::vec(output(), 0..100)) {
            for order in [compare, compare_exactly] {
                outputs.sort_by(order);
                prop_assert!(outputs.is_sorted_by(|one, other| order(one, other).is_le()));
            }
        }
    }

    #[test]
    fn numbers_are_compared_by_their_exact_values() {
        let (limit, end) = (1i128 << 53, 1i128 << 64);
        let sorted = [
            Term::Float(-1e300),
            big(true, 130, 0),
            Term::Integer(i128::MIN),
            Term::Float(-0.5),
            Term::Integer(0),
            Term::Float(limit as f64),
            Term::Integer(limit + 1),
            Term::Float(end as f64),
            Term::Integer(end + 1),
            Term::Integer(i128::MAX),
            Term::Float(INTEGERS_END),
            Term::Float(2f64.powi(130)),
            big(false, 130, 1),
            Term::Float(1e300),
            Term::Float(f64::INFINITY),
        ];
        for (place, one) in sorted.iter().enumerate() {
            for (other_place, other) in sorted.iter().enumerate() {
                assert_eq!(compare_terms(one, other), place.cmp(&other_place), "{one:?} {other:?}");
            }
        }
        for (one, other) in [
            (big(false, 130, 0), Term::Float(2f64.powi(130))),
            (Term::Integer(i128::MIN), Term::Float(-INTEGERS_END)),
            (Term::Integer(0), Term::Float(-0.0)),
        ] {
            assert_eq!(compare_terms(&one, &other), Ordering::Equal, "{one:?} {other:?}");
        }
    }

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
