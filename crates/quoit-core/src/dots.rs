//! The events of this store: one actor, one sequence of counters for all keys.
//!
//! The sequence never starts again for a key that was deleted and made anew, so a context that a client
//! kept from before can't cover writes that came after. Counters are reserved durably ahead of use; after
//! an unclean stop the store has a new actor, because events that were never synced can't be known.
//! Records of which the store keeps no copy for good have actors of their own, for the same reason.

use parking_lot::Mutex;
use quoit_model::clock::{Actor, Dot};
use quoit_model::hash::Partition;
use quoit_store::error::StoreError;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters reserved with one durable write.
const RESERVE_STEP: u64 = 1 << 20;

/// Makes counters up to a number durable ahead of their use.
pub trait CounterReserve: Send + Sync {
    /// The highest number made durable so far.
    fn reserved(&self) -> u64;

    /// Makes every number up to `up_to` usable, durably.
    fn reserve(&self, up_to: u64) -> Result<(), StoreError>;
}

/// Nothing is made durable: for stores that forget everything, so that nothing they issued comes back.
#[derive(Debug, Clone, Copy)]
pub struct Unreserved;

impl CounterReserve for Unreserved {
    fn reserved(&self) -> u64 {
        0
    }

    fn reserve(&self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Issues dots.
pub struct DotSequence {
    actor: Actor,
    last_issued: AtomicU64,
    reserved: AtomicU64,
    reserve: Mutex<Box<dyn CounterReserve>>,
    /// Actors of events for copies that are not kept, by partition.
    passing: Mutex<BTreeMap<Partition, Actor>>,
    /// The last counter issued when copies of a partition were last given away.
    given_away: Mutex<BTreeMap<Partition, u64>>,
}

impl DotSequence {
    /// Goes on above everything that was reserved before: some of it may have been issued.
    #[must_use]
    pub fn new(actor: Actor, reserve: Box<dyn CounterReserve>) -> Self {
        let reserved = reserve.reserved();
        Self {
            actor,
            last_issued: AtomicU64::new(reserved),
            reserved: AtomicU64::new(reserved),
            reserve: Mutex::new(reserve),
            passing: Mutex::default(),
            given_away: Mutex::default(),
        }
    }

    /// The actor of this store.
    #[must_use]
    pub const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The highest counter that may be known outside. After a start that is what was reserved before: the
    /// numbers that were not used are never issued any more, so whoever claims them claims nothing.
    #[must_use]
    pub fn last_issued(&self) -> u64 {
        self.last_issued.load(Ordering::Acquire)
    }

    /// Issues the next event. One atomic addition, and a durable write once in a million.
    ///
    /// # Errors
    ///
    /// When counters can't be made durable; nothing may be written then.
    pub fn issue(&self, time_secs: u64) -> Result<Dot, StoreError> {
        let counter = self.next_counter()?;
        Ok(Dot { actor: self.actor.clone(), counter, time_secs })
    }

    /// Issues an event for a record of which this store keeps no copy for good: it stands in for a primary,
    /// or its copy is not complete yet.
    ///
    /// Such a copy is handed over and removed. Were the store's own actor used, the next event for the
    /// same record would claim all that it made before, values included that are no longer here. So
    /// these events have an actor that lasts no longer than the copies do:
    /// [`DotSequence::forget_passing`] ends it before the first of them is removed, a restart as well.
    ///
    /// # Errors
    ///
    /// As [`DotSequence::issue`].
    pub fn issue_passing(&self, partition: Partition, time_secs: u64) -> Result<Dot, StoreError> {
        let counter = self.next_counter()?;
        let mut passing = self.passing.lock();
        let actor = passing.entry(partition).or_insert_with(|| self.passing_actor(counter)).clone();
        Ok(Dot { actor, counter, time_secs })
    }

    /// Ends the actor of a partition's passing events, before copies that have them are removed.
    /// Incarnations of data types in them end as well: copies that come back may lack their last events.
    pub fn forget_passing(&self, partition: Partition) {
        self.passing.lock().remove(&partition);
        self.given_away.lock().insert(partition, self.last_issued());
    }

    /// The last counter issued when copies of a partition were last given away; 0 = not since the start.
    #[must_use]
    pub fn given_away(&self, partition: Partition) -> u64 {
        self.given_away.lock().get(&partition).copied().unwrap_or(0)
    }

    /// An actor that was never used: an event of the store names it.
    fn passing_actor(&self, counter: u64) -> Actor {
        let mut name = self.actor.0.clone();
        name.extend_from_slice(&counter.to_be_bytes());
        Actor(name)
    }

    fn next_counter(&self) -> Result<u64, StoreError> {
        let counter = self.last_issued.fetch_add(1, Ordering::AcqRel) + 1;
        if counter > self.reserved.load(Ordering::Acquire) {
            let reserve = self.reserve.lock();
            if counter > self.reserved.load(Ordering::Acquire) {
                let up_to = counter + RESERVE_STEP;
                reserve.reserve(up_to)?;
                self.reserved.store(up_to, Ordering::Release);
            }
        }
        Ok(counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Reserved(u64);

    impl CounterReserve for Reserved {
        fn reserved(&self) -> u64 {
            self.0
        }

        fn reserve(&self, _: u64) -> Result<(), StoreError> {
            Ok(())
        }
    }

    #[test]
    fn passing_events_have_an_actor_that_ends_with_the_copies() {
        let dots = DotSequence::new(Actor(b"own"[..].into()), Box::new(Reserved(0)));
        let passing = |partition| dots.issue_passing(Partition(partition), 0).map(|dot| dot.actor);
        let first = passing(1).expect("counters are reserved");
        assert!(passing(1).is_ok_and(|actor| actor == first));
        let own = dots.issue(0).expect("counters are reserved").actor;
        assert!(first != own && passing(2).is_ok_and(|actor| actor != first));
        dots.forget_passing(Partition(1));
        assert_eq!((dots.given_away(Partition(1)), dots.given_away(Partition(2))), (4, 0));
        let second = passing(1).expect("counters are reserved");
        assert!(second != first && second != own);
    }

    #[test]
    fn no_event_is_issued_that_a_context_could_have_claimed_before() {
        let dots = DotSequence::new(Actor(b"own"[..].into()), Box::new(Reserved(1_000)));
        let claimable = dots.last_issued();
        assert_eq!(claimable, 1_000);
        assert!(dots.issue(0).is_ok_and(|dot| dot.counter > claimable));
    }
}
