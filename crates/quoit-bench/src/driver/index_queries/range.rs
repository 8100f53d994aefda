//! A queried range, and the number of results that it should have.

use crate::term::Term;

/// A range of numbers that is queried.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueriedRange {
    /// The first number.
    pub(super) first: i64,
    /// Number of numbers, at least 1.
    pub(super) count: u64,
}

/// A wrong number of results, and the right one.
pub(super) struct WrongCount {
    pub(super) found: u64,
    pub(super) expected: u64,
}

impl QueriedRange {
    /// The last number.
    pub(super) fn last(self) -> i128 {
        i128::from(self.first) + i128::from(self.count) - 1
    }

    /// Checks that the number of keys found is the number of stored keys in the range. `key_max` is the
    /// greatest stored key, if it is known.
    pub(super) fn check(self, found: u64, key_max: Option<i128>) -> Result<(), WrongCount> {
        let last = key_max.map_or(self.last(), |key_max| self.last().min(key_max));
        let expected = u64::try_from(last - i128::from(self.first) + 1).unwrap_or(0);
        if found == expected { Ok(()) } else { Err(WrongCount { found, expected }) }
    }
}

impl WrongCount {
    /// The reason `{wrong_count, Expected, Found}`.
    pub(super) fn reason(&self) -> Term {
        let numbers = [self.expected, self.found].map(|count| Term::Integer(count.into()));
        let [expected, found] = numbers;
        Term::Tuple(vec![Term::atom("wrong_count"), expected, found])
    }
}
