//! Ranges of keys of a bucket.

use bytes::Bytes;

/// A range of keys, from an inclusive lower bound to an exclusive upper bound.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeyBounds {
    /// Inclusive lower bound; empty if the range has none.
    pub from: Bytes,
    /// Exclusive upper bound; `None` if the range has none.
    pub end: Option<Bytes>,
}

impl KeyBounds {
    /// All keys.
    pub const ALL: Self = Self { from: Bytes::new(), end: None };

    /// The keys from `first` to `last`, both inclusive.
    #[must_use]
    pub fn between(first: Bytes, last: &[u8]) -> Self {
        // The least key above `last` is `last` with a zero byte appended.
        Self { from: first, end: Some([last, &[0]].concat().into()) }
    }

    /// The keys that begin with a prefix.
    #[must_use]
    pub fn of_prefix(prefix: Bytes) -> Self {
        let mut end = prefix.to_vec();
        while end.pop_if(|byte| *byte == u8::MAX).is_some() {}
        let end = end.pop().map(|last| {
            end.push(last + 1);
            Bytes::from(end)
        });
        Self { from: prefix, end }
    }

    /// The intersection of two ranges.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let end = match (self.end, other.end) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        };
        Self { from: self.from.max(other.from), end }
    }

    /// True if the key is in the range.
    #[must_use]
    pub fn has(&self, key: &[u8]) -> bool {
        *key >= self.from[..] && self.end.as_deref().is_none_or(|end| key < end)
    }

    /// True if the range contains no key.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.end.as_ref().is_some_and(|end| *end <= self.from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn key() -> impl Strategy<Value = Vec<u8>> {
        prop::collection::vec(prop_oneof![Just(0), Just(1), Just(254), Just(255)], 0..4)
    }

    proptest! {
        #[test]
        fn bounds_have_the_keys_that_they_say(key in key(), one in key(), other in key()) {
            let prefix = KeyBounds::of_prefix(Bytes::copy_from_slice(&one));
            prop_assert_eq!(prefix.has(&key), key.starts_with(&one));
            let between = KeyBounds::between(Bytes::copy_from_slice(&one), &other);
            prop_assert_eq!(between.has(&key), one <= key && key <= other);
            prop_assert_eq!(between.is_empty(), one > other);
            let both = prefix.clone().and(between.clone());
            prop_assert_eq!(both.has(&key), prefix.has(&key) && between.has(&key));
        }
    }
}
