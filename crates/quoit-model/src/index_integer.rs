//! Integers of secondary index entries. As in Riak, they have no fixed width.

use num_bigint::{BigInt, Sign};
use quoit_number::index;
use std::cmp::Ordering;
use std::fmt;

/// Maximum size of an integer's magnitude, in bytes (at most 9 865 decimal digits). The size of an
/// index entry as a whole is bounded too, but converting an integer to or from decimal text takes
/// time that grows with the square of its digits.
pub const INTEGER_BYTES_MAX: usize = 4096;

/// Maximum number of decimal digits of an integer of [`INTEGER_BYTES_MAX`] bytes.
const DIGITS_MAX: usize = INTEGER_BYTES_MAX * 8 * 30103 / 100_000 + 1;

/// An integer of an index entry, ordered by value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexInteger(Repr);

#[derive(Clone, PartialEq, Eq, Debug)]
enum Repr {
    Small(i128),
    /// A number outside the range of `i128`.
    Large(Box<BigInt>),
}

impl IndexInteger {
    /// Reads decimal text with an optional sign. Returns `None` for other text, and for integers
    /// with a magnitude of more than [`INTEGER_BYTES_MAX`] bytes.
    #[must_use]
    pub fn parse(text: &[u8]) -> Option<Self> {
        let digits = match text {
            [b'-' | b'+', digits @ ..] | digits => digits,
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return None;
        }
        let text = std::str::from_utf8(text).ok()?;
        if let Ok(small) = text.parse() {
            return Some(Self(Repr::Small(small)));
        }
        let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
        if digits.len() - zeros > DIGITS_MAX {
            return None;
        }
        Self::bounded(text.parse().ok()?)
    }

    /// The integer as an `i128`; `None` if it is outside that range.
    #[must_use]
    pub const fn to_i128(&self) -> Option<i128> {
        match self.0 {
            Repr::Small(small) => Some(small),
            Repr::Large(_) => None,
        }
    }

    /// Approximate size in bytes of the memory that the integer takes on the heap.
    #[must_use]
    pub fn large_bytes(&self) -> usize {
        match &self.0 {
            Repr::Small(_) => 0,
            Repr::Large(large) => index(large.bits()) / 8 + size_of::<BigInt>(),
        }
    }

    /// The sign, which is true for negative integers, and the magnitude, lowest byte first, without
    /// zero bytes at the end.
    #[must_use]
    pub fn sign_and_magnitude(&self) -> (bool, Vec<u8>) {
        match &self.0 {
            Repr::Small(small) => {
                let mut magnitude = small.unsigned_abs().to_le_bytes().to_vec();
                let significant = magnitude.iter().rposition(|byte| *byte != 0);
                magnitude.truncate(significant.map_or(0, |last| last + 1));
                (*small < 0, magnitude)
            }
            Repr::Large(large) => {
                let (sign, magnitude) = large.to_bytes_le();
                (sign == Sign::Minus, magnitude)
            }
        }
    }

    /// Makes an integer from a sign and a magnitude, lowest byte first. Returns `None` for more than
    /// [`INTEGER_BYTES_MAX`] significant bytes.
    #[must_use]
    pub fn from_sign_and_magnitude(is_negative: bool, magnitude: &[u8]) -> Option<Self> {
        let last = magnitude.iter().rposition(|byte| *byte != 0);
        let significant = magnitude.get(..last.map_or(0, |last| last + 1))?;
        if significant.len() > INTEGER_BYTES_MAX {
            return None;
        }
        let sign = if is_negative { Sign::Minus } else { Sign::Plus };
        Self::bounded(BigInt::from_bytes_le(sign, significant))
    }

    fn bounded(number: BigInt) -> Option<Self> {
        if number.bits() > 8 * INTEGER_BYTES_MAX as u64 {
            return None;
        }
        Some(Self(match i128::try_from(&number) {
            Ok(small) => Repr::Small(small),
            Err(_) => Repr::Large(Box::new(number)),
        }))
    }
}

impl From<i128> for IndexInteger {
    fn from(number: i128) -> Self {
        Self(Repr::Small(number))
    }
}

impl Ord for IndexInteger {
    fn cmp(&self, other: &Self) -> Ordering {
        let sign = |number: &BigInt| number.sign().cmp(&Sign::NoSign);
        match (&self.0, &other.0) {
            (Repr::Small(own), Repr::Small(other)) => own.cmp(other),
            (Repr::Large(own), Repr::Large(other)) => own.cmp(other),
            (Repr::Large(own), Repr::Small(_)) => sign(own),
            (Repr::Small(_), Repr::Large(other)) => sign(other).reverse(),
        }
    }
}

impl PartialOrd for IndexInteger {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for IndexInteger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Repr::Small(small) => small.fmt(f),
            Repr::Large(large) => large.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_decimal_with_an_optional_sign() {
        for (text, shown) in [
            ("0", "0"),
            ("-0", "0"),
            ("+007", "7"),
            ("170141183460469231731687303715884105727", "170141183460469231731687303715884105727"),
            ("170141183460469231731687303715884105728", "170141183460469231731687303715884105728"),
            (
                "-170141183460469231731687303715884105729",
                "-170141183460469231731687303715884105729",
            ),
            (
                "000340282366920938463463374607431768211456",
                "340282366920938463463374607431768211456",
            ),
        ] {
            let read = IndexInteger::parse(text.as_bytes()).expect(text);
            assert_eq!(read.to_string(), shown);
        }
        for text in ["", "-", "+", "1_000", " 1", "1 ", "0x10", "1.0", "--1", "\u{0661}"] {
            assert_eq!(IndexInteger::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn integers_end_at_their_largest_size() {
        let largest = IndexInteger::from_sign_and_magnitude(true, &[0xff; INTEGER_BYTES_MAX]);
        let text = largest.clone().expect("an integer of the largest size").to_string();
        assert_eq!(IndexInteger::parse(text.as_bytes()), largest);
        let mut above = vec![0; INTEGER_BYTES_MAX];
        above.push(1);
        assert_eq!(IndexInteger::from_sign_and_magnitude(true, &above), None);
        assert_eq!(IndexInteger::parse(&[b'9'; DIGITS_MAX]), None);
        assert_eq!(IndexInteger::parse(&[b'9'; 100_000]), None);
        // Leading zeros do not count as digits of the number.
        assert!(IndexInteger::parse(&[b'0'; 100_000]).is_some());
    }

    fn any_integer() -> impl Strategy<Value = IndexInteger> {
        (any::<bool>(), prop::collection::vec(any::<u8>(), 0..40)).prop_map(|(sign, magnitude)| {
            IndexInteger::from_sign_and_magnitude(sign, &magnitude).expect("at most 40 bytes")
        })
    }

    proptest! {
        #[test]
        fn integers_are_ordered_by_value(left in any_integer(), right in any_integer()) {
            let number = |of: &IndexInteger| of.to_string().parse::<BigInt>().expect("decimal text");
            prop_assert_eq!(left.cmp(&right), number(&left).cmp(&number(&right)));
        }

        #[test]
        fn text_and_magnitude_read_back(number in any_integer()) {
            prop_assert_eq!(IndexInteger::parse(number.to_string().as_bytes()), Some(number.clone()));
            let (is_negative, magnitude) = number.sign_and_magnitude();
            prop_assert_eq!(
                IndexInteger::from_sign_and_magnitude(is_negative, &magnitude),
                Some(number)
            );
        }
    }
}
