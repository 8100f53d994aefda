//! Keys that are inserted while a run goes on: the numbers behind those that were there before.

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
    /// The number of the next insertion.
    next: AtomicU64,
    /// All numbers below this one are there, or could not be inserted.
    settled_count: AtomicU64,
    /// Numbers above that, of insertions that ended before earlier ones.
    early: Mutex<BTreeSet<u64>>,
}

impl Insertions {
    /// Insertions behind so many keys.
    pub(super) fn behind(count: u64) -> Self {
        Self(Arc::new(Numbers {
            next: AtomicU64::new(count),
            settled_count: AtomicU64::new(count),
            early: Mutex::default(),
        }))
    }

    /// How many keys there are: numbers of insertions under way are not counted, so that nobody asks for a
    /// key that is not there yet.
    #[inline]
    pub(super) fn count(&self) -> u64 {
        self.0.settled_count.load(Ordering::Relaxed)
    }

    /// The number of an insertion that begins.
    pub(super) fn begin(&self) -> u64 {
        self.0.next.fetch_add(1, Ordering::Relaxed)
    }

    /// An insertion has ended, however it did.
    pub(super) fn end(&self, number: u64) {
        // A set of numbers is whole whatever has happened to a thread that held it.
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
    /// The same keys with the numbers of insertions, for operations that add keys; `None` where it is not
    /// known which number comes next.
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

    /// The insertion that the last key was for has ended.
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
