//! The events of this store: one actor, one sequence of counters for all keys.
//!
//! The sequence never starts again for a key that was deleted and made anew, so a context that a client
//! kept from before can't cover writes that came after. Counters are reserved durably ahead of use; after
//! an unclean stop the store has a new actor, because events that were never synced can't be known.

use parking_lot::Mutex;
use quoit_model::clock::{Actor, Dot};
use quoit_store::error::StoreError;
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

/// Issues dots.
pub struct DotSequence {
    actor: Actor,
    last_issued: AtomicU64,
    reserved: AtomicU64,
    reserve: Mutex<Box<dyn CounterReserve>>,
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
        let counter = self.last_issued.fetch_add(1, Ordering::AcqRel) + 1;
        if counter > self.reserved.load(Ordering::Acquire) {
            let reserve = self.reserve.lock();
            if counter > self.reserved.load(Ordering::Acquire) {
                let up_to = counter + RESERVE_STEP;
                reserve.reserve(up_to)?;
                self.reserved.store(up_to, Ordering::Release);
            }
        }
        Ok(Dot { actor: self.actor.clone(), counter, time_secs })
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
    fn no_event_is_issued_that_a_context_could_have_claimed_before() {
        let dots = DotSequence::new(Actor(b"own"[..].into()), Box::new(Reserved(1_000)));
        let claimable = dots.last_issued();
        assert_eq!(claimable, 1_000);
        assert!(dots.issue(0).is_ok_and(|dot| dot.counter > claimable));
    }
}
