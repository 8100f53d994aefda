//! The events of a store: whose they are, and counters that are never given out twice.

use quoit_core::{CounterReserve, DotSequence};
use quoit_model::clock::Actor;
use quoit_store::bitcask::BitcaskEngine;
use quoit_store::error::StoreError;
use quoit_store::multi::MultiEngine;
use quoit_store::ordered::OrderedEngine;
use std::sync::Arc;

/// Identity of a store, over restarts.
pub(super) trait Identified: Send + Sync + 'static {
    fn store_id(&self) -> u64;
    fn incarnation(&self) -> u64;
    fn reserved_counter(&self) -> u64;
    fn reserve_counter(&self, up_to: u64) -> Result<(), StoreError>;
    fn given_away_counter(&self) -> u64;
    fn note_given_away(&self, up_to: u64) -> Result<(), StoreError>;
}

/// The events of a store in its present incarnation.
pub(super) fn dots<E: Identified>(engine: &Arc<E>) -> DotSequence {
    let actor = actor(engine.store_id(), engine.incarnation());
    DotSequence::new(actor, Box::new(EngineCounter(Arc::clone(engine))))
}

/// The actor of a store in one of its incarnations: 8 bytes. Incarnations of a store never share one, and
/// different stores only by a chance of 2^-64.
pub(super) fn actor(store_id: u64, incarnation: u64) -> Actor {
    // An odd factor spreads the incarnations of a store over all values without a collision.
    const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;
    let id = store_id.wrapping_add(incarnation.wrapping_mul(SPREAD));
    Actor(id.to_be_bytes()[..].into())
}

/// Counters made durable by the engine.
struct EngineCounter<E>(Arc<E>);

impl<E: Identified> CounterReserve for EngineCounter<E> {
    fn reserved(&self) -> u64 {
        self.0.reserved_counter()
    }

    fn reserve(&self, up_to: u64) -> Result<(), StoreError> {
        self.0.reserve_counter(up_to)
    }

    fn given_away(&self) -> u64 {
        self.0.given_away_counter()
    }

    fn note_given_away(&self, up_to: u64) -> Result<(), StoreError> {
        self.0.note_given_away(up_to)
    }
}

impl Identified for BitcaskEngine {
    fn store_id(&self) -> u64 {
        self.store_id()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation()
    }

    fn reserved_counter(&self) -> u64 {
        self.reserved_counter()
    }

    fn reserve_counter(&self, up_to: u64) -> Result<(), StoreError> {
        self.reserve_counter(up_to)
    }

    fn given_away_counter(&self) -> u64 {
        self.given_away_counter()
    }

    fn note_given_away(&self, up_to: u64) -> Result<(), StoreError> {
        self.note_given_away(up_to)
    }
}

impl Identified for MultiEngine {
    fn store_id(&self) -> u64 {
        self.store_id()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation()
    }

    fn reserved_counter(&self) -> u64 {
        self.reserved_counter()
    }

    fn reserve_counter(&self, up_to: u64) -> Result<(), StoreError> {
        self.reserve_counter(up_to)
    }

    fn given_away_counter(&self) -> u64 {
        self.given_away_counter()
    }

    fn note_given_away(&self, up_to: u64) -> Result<(), StoreError> {
        self.note_given_away(up_to)
    }
}

impl Identified for OrderedEngine {
    fn store_id(&self) -> u64 {
        self.store_id()
    }

    fn incarnation(&self) -> u64 {
        self.incarnation()
    }

    fn reserved_counter(&self) -> u64 {
        self.reserved_counter()
    }

    fn reserve_counter(&self, up_to: u64) -> Result<(), StoreError> {
        self.reserve_counter(up_to)
    }

    fn given_away_counter(&self) -> u64 {
        self.given_away_counter()
    }

    fn note_given_away(&self, up_to: u64) -> Result<(), StoreError> {
        self.note_given_away(up_to)
    }
}
