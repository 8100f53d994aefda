//! A store on the memory engine, and requests to it.

use quoit_core::{PutRequest, ReadOptions, ReplicatedStore, StoreSettings};
use quoit_model::hash::RingSize;
use quoit_model::key::KeyRef;
use quoit_model::object::Object;
use quoit_model::props::PropUpdates;
use quoit_node::NodeEngine;
use quoit_seam::{Clock, ManualClock};
use quoit_store::engine::Engine;
use quoit_testkit::{TestNode, events, memory_engine};
use serde_json::Value;
use std::sync::Arc;

pub use quoit_testkit::{key_in as key, put_of, values};

pub const START_US: u64 = 1_700_000_000_000_000;
pub const SECOND_US: u64 = 1_000_000;

/// A store with a clock that tests control.
pub struct Fixture {
    pub store: Arc<ReplicatedStore>,
    pub clock: Arc<ManualClock>,
}

pub fn fixture_with(settings: StoreSettings) -> Fixture {
    fixture_on(settings, |ring_size, clock| memory_engine(ring_size, &clock))
}

/// A store on a given engine.
pub fn fixture_on(
    settings: StoreSettings,
    engine: impl FnOnce(RingSize, Arc<dyn Clock>) -> Arc<dyn Engine>,
) -> Fixture {
    let clock = Arc::new(ManualClock::at(START_US));
    let node = TestNode::new(7, "quoit", Arc::clone(&clock) as Arc<dyn Clock>);
    let engine = engine(node.ring_size, Arc::clone(&node.clock));
    let engine = Some(NodeEngine { engine, dots: events(*b"actor-01"), loss: None });
    let node = TestNode { settings, engine, ..node }.assemble().unwrap();
    Fixture { store: node.store, clock }
}

pub fn fixture() -> Fixture {
    fixture_with(StoreSettings::default())
}

impl Fixture {
    pub async fn create_type(&self, name: &str, props: Value) {
        let Value::Object(props) = props else { panic!("properties are an object") };
        let control = self.store.control();
        control.create_type(name.as_bytes(), &PropUpdates::from(props)).await.unwrap();
        control.activate_type(name.as_bytes()).await.unwrap();
    }

    pub async fn get(&self, at: KeyRef<'_>) -> Option<Object> {
        self.store.get(at, &ReadOptions::default()).await.unwrap()
    }

    pub async fn put(&self, at: KeyRef<'static>, value: &'static str) {
        self.store.put(put_of(at, value)).await.unwrap();
    }

    /// Writes as a client that has read what is stored.
    pub async fn update(&self, at: KeyRef<'static>, value: &'static str) {
        let context = self.get(at).await.unwrap().clock;
        self.store.put(PutRequest { context, ..put_of(at, value) }).await.unwrap();
    }

    pub async fn reap(&self) -> usize {
        self.store.reaper().reap_step(Some(3_000)).await.unwrap().reaped_count
    }
}
