mod cases;
mod histories;
mod model;
mod objects;
mod strategies;

use super::*;
use crate::clock::Dot;
use crate::data_type::FieldName;
use crate::hll::Precision;
use crate::test_objects::actor;
use bytes::Bytes;

pub(super) const PRECISION: Precision = Precision::MIN;

/// A replica that coordinates operations under its own name.
#[derive(Clone, Debug)]
struct Replica {
    actor: Actor,
    state: State,
    clock: CausalClock,
    now_us: u64,
}

impl Replica {
    fn new(name: &str, datatype: Datatype) -> Self {
        let state = State::empty(datatype);
        let clock = CausalClock::default();
        Self { actor: actor(name.as_bytes()), state, clock, now_us: 1 }
    }

    /// Actor of the replica's events other than operations.
    fn plain(&self) -> Actor {
        actor(&[b"plain", self.actor.0.as_slice()].concat())
    }

    fn try_apply(
        &mut self,
        operation: &Operation,
        context: Option<&CausalClock>,
    ) -> Result<Delta, ApplyError> {
        let (actor, now_us) = (&self.actor, self.now_us);
        let coordinator = EventOrigin { actor, time_secs: 0, now_us, hll_precision: PRECISION };
        self.state.apply(&mut self.clock, operation, context, coordinator)
    }

    fn join(&mut self, delta: &Delta) {
        self.state.join(&mut self.clock, delta).expect("deltas of the same type");
    }

    fn merge(&mut self, other: &Self) {
        self.state.merge(&mut self.clock, &other.state, &other.clock);
    }

    /// Deletes the record: merges a tombstone that has seen the whole state.
    fn delete(&mut self, plain_counter: u64) {
        let dot = Dot { actor: self.plain(), counter: plain_counter, time_secs: 0 };
        let mut vector = self.clock.vector().clone();
        vector.advance(&dot);
        self.clock = CausalClock::new(vector, self.clock.cloud().clone());
        let tombstone = State::empty(self.state.datatype());
        let clock = self.clock.clone();
        self.state.merge(&mut self.clock, &tombstone, &clock);
    }
}
