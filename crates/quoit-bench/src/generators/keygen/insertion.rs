//! Keys that are inserted during a run. Their numbers follow those of the keys that existed before.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use super::KeyGenerator;
use super::integer::Integers;

/// The numbers of a run's insertions, shared by all workers.
#[derive(Debug, Clone)]
pub struct Insertions(Arc<Numbers>);

#[derive(Debug)]
struct Numbers {
    /// Number of the next insertion.
    next: AtomicU64,
    /// All numbers below this one were inserted, or failed to be.
    settled_count: AtomicU64,
    /// Numbers at or above `settled_count` whose insertions ended before an earlier one.
    early: Mutex<BTreeSet<u64>>,
}

impl Insertions {
    /// Creates the insertions that follow `count` existing keys.
    pub(super) fn behind(count: u64) -> Self {
        Self(Arc::new(Numbers {
            next: AtomicU64::new(count),
            settled_count: AtomicU64::new(count),
            early: Mutex::default(),
        }))
    }

    /// Number of keys to draw from. Insertions in progress are not counted, so that no operation asks for a
    /// key that does not exist yet.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.0.settled_count.load(Ordering::Relaxed)
    }

    /// Begins an insertion and returns its number.
    pub(super) fn begin(&self) -> u64 {
        self.0.next.fetch_add(1, Ordering::Relaxed)
    }

    /// Ends an insertion, whatever its outcome.
    pub(super) fn end(&self, number: u64) {
        // The set is consistent even if a thread panicked while it held the lock.
        let mut early = self.0.early.lock().unwrap_or_else(PoisonError::into_inner);
        early.insert(number);
        let mut settled_count = self.count();
        while early.remove(&settled_count) {
            settled_count += 1;
        }
        self.0.settled_count.store(settled_count, Ordering::Relaxed);
    }
}

impl KeyGenerator {
    /// A generator of the same form of keys, numbered by insertions, for operations that insert. `None` if
    /// the next number is unknown.
    pub(crate) fn inserting(&self) -> Option<Self> {
        let mut keys = self.clone();
        let integers = keys.integers_mut()?;
        let insertions = match &*integers {
            Integers::Latest { insertions, .. } => insertions.clone(),
            Integers::Zipfian { count, .. } => Insertions::behind(*count),
            Integers::Uniform { start, count } => {
                Insertions::behind(u64::try_from(*start).ok()?.checked_add(*count)?)
            }
            _ => return None,
        };
        *integers = Integers::Inserted { insertions, number: None };
        Some(keys)
    }

    /// Ends the insertion that the last key was generated for.
    pub(crate) fn end_insertion(&mut self) {
        if let Some(Integers::Inserted { insertions, number }) = self.integers_mut()
            && let Some(number) = number.take()
        {
            insertions.end(number);
        }
    }

    /// The integers that the keys are made of.
    fn integers_mut(&mut self) -> Option<&mut Integers> {
        match self {
            Self::Integers(integers) => Some(integers),
            Self::IntegerToBinary { inner, .. }
            | Self::IntegerToString(inner)
            | Self::Retyped(_, inner)
            | Self::Formatted { inner, .. }
            | Self::ExternalTerm(inner)
            | Self::Base64 { inner, .. }
            | Self::Split { inner, .. }
            | Self::Digest(_, inner) => inner.integers_mut(),
            Self::Joined { parts, .. } => match parts.0.integers_mut() {
                None => parts.1.integers_mut(),
                found => found,
            },
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_counts_when_all_before_it_are_there() {
        let insertions = Insertions::behind(10);
        let numbers = [insertions.begin(), insertions.begin(), insertions.begin()];
        assert_eq!((numbers, insertions.count()), ([10, 11, 12], 10));
        insertions.end(11);
        insertions.end(12);
        assert_eq!(insertions.count(), 10);
        insertions.end(10);
        assert_eq!(insertions.count(), 13);
    }
}
