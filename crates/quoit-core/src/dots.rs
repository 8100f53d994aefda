//! The events of this store: one actor, and one sequence of counters for all keys.
//!
//! The sequence never starts again, not even for a key that was deleted and created anew. Otherwise a causal
//! context that a client has kept could claim events that were made after it. Counters are reserved on disk
//! ahead of use. After an unclean stop the store gets a new actor, because events that were issued and never
//! synced are not known. Records of which this store keeps only a temporary copy have passing actors, for the
//! same reason.

use parking_lot::Mutex;
use quoit_model::clock::{Actor, Dot};
use quoit_model::hash::Partition;
use quoit_planted::planted;
use quoit_store::StoreIdentity;
use quoit_store::error::StoreError;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counters reserved with one durable write.
const RESERVE_STEP: u64 = 1 << 20;

/// Durable storage for the counters that a [`DotSequence`] may use.
pub trait CounterReserve: Send + Sync {
    /// The highest counter that was reserved.
    fn reserved(&self) -> u64;

    /// Reserves every counter up to `up_to`, durably.
    fn reserve(&self, up_to: u64) -> Result<(), StoreError>;

    /// Upper bound, as last noted, of the counters in copies that were handed over and removed.
    fn given_away(&self) -> u64;

    /// Notes durably that copies with counters up to `up_to` may be handed over and removed.
    fn note_exported(&self, up_to: u64) -> Result<(), StoreError>;
}

impl CounterReserve for Arc<StoreIdentity> {
    fn reserved(&self) -> u64 {
        self.reserved_counter()
    }

    fn reserve(&self, up_to: u64) -> Result<(), StoreError> {
        self.reserve_counter(up_to)
    }

    fn given_away(&self) -> u64 {
        self.exported_counter()
    }

    fn note_exported(&self, up_to: u64) -> Result<(), StoreError> {
        StoreIdentity::note_exported(self, up_to)
    }
}

/// Makes nothing durable. For stores in memory, whose events can't come back after a restart.
#[derive(Debug, Clone, Copy)]
pub struct VolatileCounters;

impl CounterReserve for VolatileCounters {
    fn reserved(&self) -> u64 {
        0
    }

    fn reserve(&self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }

    fn given_away(&self) -> u64 {
        0
    }

    fn note_exported(&self, _: u64) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Issues dots.
pub struct DotSequence {
    actor: Actor,
    last_issued: AtomicU64,
    reserved: AtomicU64,
    reserve: Mutex<Box<dyn CounterReserve>>,
    /// Passing actors, by partition: for events in copies that this node does not keep.
    passing: Mutex<BTreeMap<Partition, Actor>>,
    /// Last counter that was issued when copies of a partition were last given away.
    given_away: Mutex<BTreeMap<Partition, u64>>,
    /// The same for any partition before the process started.
    given_away_before: u64,
    /// Highest counter for which it is durable that copies were given away.
    given_away_noted: AtomicU64,
}

impl DotSequence {
    /// Continues above all counters that were reserved before, because some of them may have been issued.
    #[must_use]
    pub fn new(actor: Actor, reserve: Box<dyn CounterReserve>) -> Self {
        let reserved = reserve.reserved();
        let given_away = reserve.given_away();
        Self {
            actor,
            last_issued: AtomicU64::new(match planted!(ReissuesCounters) {
                true => reserved.saturating_sub(RESERVE_STEP),
                false => reserved,
            }),
            reserved: AtomicU64::new(reserved),
            reserve: Mutex::new(reserve),
            passing: Mutex::default(),
            given_away: Mutex::default(),
            given_away_before: given_away,
            given_away_noted: AtomicU64::new(given_away),
        }
    }

    /// The events of a store under its present actor.
    #[must_use]
    pub fn of_store(identity: &Arc<StoreIdentity>) -> Self {
        Self::new(identity.actor(), Box::new(Arc::clone(identity)))
    }

    /// The actor of this store.
    #[must_use]
    pub const fn actor(&self) -> &Actor {
        &self.actor
    }

    /// The highest counter that another node or a client may know. After a start this is the highest
    /// counter that was reserved before. The counters below it that were not issued are never issued, so
    /// a context that names them claims nothing.
    #[must_use]
    pub fn last_issued(&self) -> u64 {
        self.last_issued.load(Ordering::Acquire)
    }

    /// Issues the next event. Costs one atomic addition, and a durable write once in a million events.
    ///
    /// # Errors
    ///
    /// Failures of the disk to reserve counters. The caller must not write anything then.
    pub fn issue(&self, time_secs: u64) -> Result<Dot, StoreError> {
        let counter = self.next_counter()?;
        Ok(Dot { actor: self.actor.clone(), counter, time_secs })
    }

    /// Issues an event for a record of which this store keeps only a temporary copy, because the node is a
    /// fallback or its copy is not complete yet.
    ///
    /// Such a copy is handed over and removed. If its events were the store's own, the next event for the
    /// record would claim all earlier ones, including those whose values are no longer here. So these
    /// events have a passing actor, which ends before the copies do: [`DotSequence::give_away`] ends it
    /// before the first of them is removed, and a restart ends it too.
    ///
    /// # Errors
    ///
    /// As for [`DotSequence::issue`].
    pub fn issue_passing(&self, partition: Partition, time_secs: u64) -> Result<Dot, StoreError> {
        if planted!(ReusesActor) {
            return self.issue(time_secs);
        }
        let counter = self.next_counter()?;
        let mut passing = self.passing.lock();
        let actor = passing.entry(partition).or_insert_with(|| self.passing_actor(counter)).clone();
        debug_assert!(actor != self.actor, "an event in a copy that goes is not the store's own");
        Ok(Dot { actor, counter, time_secs })
    }

    /// Ends the passing actor of a partition. Called before copies with its events are removed.
    /// Incarnations of data types in such copies end as well, even across a restart, because copies that
    /// come back may lack their last events. Costs a durable write once in a million counters.
    ///
    /// # Errors
    ///
    /// Failures of the disk. The caller must not remove a copy then.
    pub fn give_away(&self, partition: Partition) -> Result<(), StoreError> {
        // The reserved counters include all issued ones, so later calls need no further write for a long
        // time.
        let up_to = self.reserved.load(Ordering::Acquire);
        if self.given_away_noted.load(Ordering::Acquire) < up_to {
            self.reserve.lock().note_exported(up_to)?;
            self.given_away_noted.fetch_max(up_to, Ordering::AcqRel);
        }
        if !planted!(GivesAwaySilently) {
            self.passing.lock().remove(&partition);
        }
        self.given_away.lock().insert(partition, self.last_issued());
        Ok(())
    }

    /// Last counter that was issued when copies of a partition were last given away. For copies that were
    /// given away before the process started the partition is not known, so they count for every
    /// partition.
    #[must_use]
    pub fn given_away(&self, partition: Partition) -> u64 {
        let since = self.given_away.lock().get(&partition).copied();
        since.unwrap_or(self.given_away_before)
    }

    /// Makes an actor that was never used, named after an event of the store.
    fn passing_actor(&self, counter: u64) -> Actor {
        let mut name = self.actor.0.clone();
        name.extend_from_slice(&counter.to_be_bytes());
        Actor(name)
    }

    fn next_counter(&self) -> Result<u64, StoreError> {
        let counter = self.last_issued.fetch_add(1, Ordering::AcqRel) + 1;
        if counter > self.reserved.load(Ordering::Acquire) {
            let reserve = self.reserve.lock();
            // Another thread may have reserved more while this one waited for the lock.
            if counter > self.reserved.load(Ordering::Acquire) {
                let up_to = counter + RESERVE_STEP;
                reserve.reserve(up_to)?;
                self.reserved.store(up_to, Ordering::Release);
            }
        }
        // A counter above the reserved ones would be issued again after an unclean stop.
        debug_assert!(
            counter <= self.reserved.load(Ordering::Acquire),
            "an event is issued after its counter was reserved on disk"
        );
        Ok(counter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// A disk with the reserved counter, the given-away counter, and a switch that makes it refuse
    /// writes.
    #[derive(Clone, Default)]
    struct TestReserve(Arc<Mutex<(u64, u64, bool)>>);

    impl CounterReserve for TestReserve {
        fn reserved(&self) -> u64 {
            self.0.lock().0
        }

        fn reserve(&self, up_to: u64) -> Result<(), StoreError> {
            self.0.lock().0 = up_to;
            Ok(())
        }

        fn given_away(&self) -> u64 {
            self.0.lock().1
        }

        fn note_exported(&self, up_to: u64) -> Result<(), StoreError> {
            let mut kept = self.0.lock();
            if kept.2 {
                return Err(StoreError::Closed);
            }
            kept.1 = up_to;
            Ok(())
        }
    }

    fn start(kept: &TestReserve) -> DotSequence {
        DotSequence::new(Actor(b"own"[..].into()), Box::new(kept.clone()))
    }

    #[test]
    fn passing_events_have_an_actor_that_ends_with_the_copies() {
        let dots = start(&TestReserve::default());
        let passing = |partition| dots.issue_passing(Partition(partition), 0).map(|dot| dot.actor);
        let first = passing(1).expect("counters are reserved");
        assert!(passing(1).is_ok_and(|actor| actor == first));
        let own = dots.issue(0).expect("counters are reserved").actor;
        assert!(first != own && passing(2).is_ok_and(|actor| actor != first));
        dots.give_away(Partition(1)).expect("it is noted");
        assert_eq!((dots.given_away(Partition(1)), dots.given_away(Partition(2))), (4, 0));
        let second = passing(1).expect("counters are reserved");
        assert!(second != first && second != own);
    }

    #[test]
    fn no_event_is_issued_that_a_context_could_have_claimed_before() {
        let kept = TestReserve::default();
        kept.0.lock().0 = 1_000;
        let dots = start(&kept);
        let claimable = dots.last_issued();
        assert_eq!(claimable, 1_000);
        assert!(dots.issue(0).is_ok_and(|dot| dot.counter > claimable));
    }

    #[test]
    fn after_a_restart_all_events_up_to_the_last_copies_given_away_count_as_gone() {
        let kept = TestReserve::default();
        let dots = start(&kept);
        let gone = dots.issue(0).expect("counters are reserved").counter;
        assert_eq!(start(&kept).given_away(Partition(1)), 0, "nothing was given away");
        dots.give_away(Partition(1)).expect("it is noted");
        for _ in 0..2 {
            let dots = start(&kept);
            for partition in [1, 2] {
                assert!(dots.given_away(Partition(partition)) >= gone);
            }
            let next = dots.issue(0).expect("counters are reserved").counter;
            assert!(next > dots.given_away(Partition(1)), "what is issued now is not given away");
        }
    }

    #[test]
    fn no_copy_may_go_whose_events_could_come_again() {
        let kept = TestReserve::default();
        let dots = start(&kept);
        dots.issue(0).expect("counters are reserved");
        kept.0.lock().2 = true;
        assert!(dots.give_away(Partition(1)).is_err());
        assert_eq!(dots.given_away(Partition(1)), 0);
        kept.0.lock().2 = false;
        dots.give_away(Partition(1)).expect("it is noted");
    }
}
