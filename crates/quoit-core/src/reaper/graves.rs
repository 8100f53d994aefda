//! Tombstones that were reaped a moment ago.
//!
//! When all primaries hold a tombstone, what it deleted may still be on its way: on a link that has
//! stalled, with a reader that is about to repair, on a stand-in that could not be reached. Arriving where
//! nothing is left it would be stored as new. So each primary remembers what it has reaped until nothing
//! that old can arrive any more, and what a remembered tombstone has seen is not taken.

use crate::replica::{Replicated, merge};
use crate::store::decode;
use bytes::Bytes;
use parking_lot::Mutex;
use quoit_model::data_type::CausalClock;
use quoit_model::hash::{Identity, Partition};
use quoit_model::object::Object;
use quoit_store::engine::RecordAt;
use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How long a reaped tombstone is remembered. An object that was read or written before does not arrive
/// later: nobody sends what he has had in hand for longer than [`SENT_FOR`], and a connection that is silent
/// for half a minute ends.
const REMEMBERED_US: u64 = 120_000_000;
/// How long after its beginning a request may still send to further replicas what it has read or written.
pub(crate) const SENT_FOR: Duration = Duration::from_secs(60);
/// Tombstones that are remembered at most. Further ones are reaped later.
const COUNT_MAX: usize = 250_000;
/// Bytes of them, with the names of their records.
const BYTES_MAX: usize = 64 << 20;

/// What a node remembers of the tombstones that it has reaped lately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReapedMemory {
    /// How many; a tombstone that was reaped twice counts twice. 250 000 at most.
    pub count: usize,
    /// Bytes of their names and of the tombstones. Nothing is added above 64 MB.
    pub size_bytes: usize,
}

type Place = (Partition, Identity);

struct Grave {
    key: Box<[u8]>,
    tombstone: Box<[u8]>,
    until_us: u64,
}

impl Grave {
    fn size_bytes(&self) -> usize {
        self.key.len() + self.tombstone.len()
    }
}

#[derive(Default)]
struct State {
    graves: HashMap<Place, Grave>,
    /// In the order in which they are forgotten.
    order: VecDeque<(u64, Place)>,
    size_bytes: usize,
}

impl State {
    fn forget_until(&mut self, now_us: u64) {
        while let Some((until_us, place)) = self.order.front().copied()
            && until_us <= now_us
        {
            self.order.pop_front();
            // One that was reaped again meanwhile is remembered for longer.
            if self.graves.get(&place).is_some_and(|grave| grave.until_us <= until_us)
                && let Some(grave) = self.graves.remove(&place)
            {
                self.size_bytes -= grave.size_bytes();
            }
        }
    }
}

/// Remembers reaped tombstones.
#[derive(Default)]
pub(crate) struct Graves {
    /// As many as there are: most of the time none, and nobody has to take the lock.
    count: AtomicUsize,
    state: Mutex<State>,
}

impl Graves {
    /// Remembers a tombstone that is about to be reaped. False when there is no room: it must stay then.
    pub(crate) fn bury(&self, at: &RecordAt<'_>, tombstone: &[u8], now_us: u64) -> bool {
        let mut state = self.state.lock();
        state.forget_until(now_us);
        if state.order.len() >= COUNT_MAX || state.size_bytes >= BYTES_MAX {
            return false;
        }
        let until_us = now_us + REMEMBERED_US;
        let grave = Grave { key: at.encoded.into(), tombstone: tombstone.into(), until_us };
        let place = (at.partition, at.identity);
        state.size_bytes += grave.size_bytes();
        if let Some(former) = state.graves.insert(place, grave) {
            state.size_bytes -= former.size_bytes();
        }
        state.order.push_back((until_us, place));
        self.count.store(state.graves.len(), Ordering::Release);
        true
    }

    /// How much is remembered now.
    pub(super) fn memory(&self) -> ReapedMemory {
        let state = self.state.lock();
        ReapedMemory { count: state.order.len(), size_bytes: state.size_bytes }
    }

    /// Forgets what nobody can ask for any more.
    pub(super) fn forget(&self, now_us: u64) {
        if self.count.load(Ordering::Acquire) > 0 {
            let mut state = self.state.lock();
            state.forget_until(now_us);
            self.count.store(state.graves.len(), Ordering::Release);
        }
    }

    /// The tombstone of a record that was reaped, if it is remembered.
    fn tombstone_of(&self, at: &RecordAt<'_>) -> Option<Object> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let state = self.state.lock();
        let grave = state.graves.get(&(at.partition, at.identity))?;
        if *grave.key != *at.encoded {
            return None;
        }
        let tombstone = Bytes::copy_from_slice(&grave.tombstone);
        drop(state);
        decode(&tombstone).ok()
    }

    /// As [`Graves::keeps_out`], of a data type of which only the clock is at hand: what has seen all of it
    /// has no need of the rest.
    pub(crate) fn keeps_out_clock(&self, at: &RecordAt<'_>, clock: &CausalClock) -> bool {
        let tombstone = self.tombstone_of(at).map(|tombstone| tombstone.causal_clock());
        tombstone.is_some_and(|seen| seen.is_ok_and(|seen| seen.covers(clock)))
    }

    /// Whether an object that comes where nothing is stored was deleted, and the tombstone reaped.
    pub(crate) fn keeps_out(&self, at: &RecordAt<'_>, incoming: &Replicated) -> bool {
        let Some(tombstone) = self.tombstone_of(at) else { return false };
        let Ok(object) = decode(&incoming.object) else { return false };
        merge(&tombstone, &object, incoming.rule).digest() == tombstone.digest()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replica;
    use quoit_model::clock::{Actor, Dot, VersionVector};
    use quoit_model::key::BucketRef;
    use quoit_model::merge::{NewValue, WritePolicy};
    use quoit_model::object::{Metadata, Object};
    use quoit_wire::internode::data::MergeRule;

    fn written(stored: Option<&Object>, counter: u64, deleted: bool) -> Object {
        let new = NewValue {
            meta: Metadata::default(),
            value: Bytes::from_static(b"value"),
            deleted,
            last_modified_us: counter,
            vtag: Bytes::from_static(b"tag"),
        };
        let dot = Dot { actor: Actor(b"node"[..].into()), counter, time_secs: 0 };
        let context = stored.map_or_else(VersionVector::default, |object| object.clock.clone());
        Object::write(stored, &context, new, dot, WritePolicy::Siblings)
    }

    fn on_its_way(object: &Object) -> Replicated {
        Replicated::new(object, MergeRule::Causal, 3)
    }

    #[test]
    fn only_what_a_reaped_tombstone_has_seen_is_kept_out_and_only_for_a_while() {
        let key = BucketRef { bucket_type: b"default", bucket: b"bucket" }.key(b"key");
        let encoded = key.encoded();
        let place = replica::Place::new(&encoded, Partition(1)).expect("it is a good name");
        let at = place.at();
        let graves = Graves::default();
        let value = written(None, 1, false);
        let tombstone = written(Some(&value), 2, true);
        let later = written(Some(&tombstone), 3, false);
        let (value, later) = (on_its_way(&value), on_its_way(&later));
        assert!(!graves.keeps_out(&at, &value));
        assert!(graves.bury(&at, &on_its_way(&tombstone).object, 1_000));
        assert!(graves.keeps_out(&at, &value));
        assert!(graves.keeps_out(&at, &on_its_way(&tombstone)));
        assert!(!graves.keeps_out(&at, &later));
        let other = replica::Place::new(&encoded, Partition(2)).expect("it is a good name");
        assert!(!graves.keeps_out(&other.at(), &value));
        graves.forget(1_000 + REMEMBERED_US - 1);
        assert!(graves.keeps_out(&at, &value));
        graves.forget(1_000 + REMEMBERED_US);
        assert!(!graves.keeps_out(&at, &value));
        assert_eq!(graves.state.lock().size_bytes, 0);
    }

    #[test]
    fn what_was_reaped_twice_is_remembered_from_the_second_time_on() {
        let key = BucketRef { bucket_type: b"default", bucket: b"bucket" }.key(b"key");
        let encoded = key.encoded();
        let place = replica::Place::new(&encoded, Partition(1)).expect("it is a good name");
        let graves = Graves::default();
        let value = written(None, 1, false);
        let tombstone = on_its_way(&written(Some(&value), 2, true));
        assert!(graves.bury(&place.at(), &tombstone.object, 0));
        assert!(graves.bury(&place.at(), &tombstone.object, 500));
        graves.forget(REMEMBERED_US);
        assert!(graves.keeps_out(&place.at(), &on_its_way(&value)));
        graves.forget(REMEMBERED_US + 500);
        assert!(!graves.keeps_out(&place.at(), &on_its_way(&value)));
    }
}
