//! A store on the memory engine, and requests to it.

use bytes::Bytes;
use quoit_cluster::{ControlPlane, Internode, InternodeSettings, NodeId, TokioNetwork};
use quoit_core::{
    DotSequence, PutRequest, ReadOptions, ReplicatedStore, StoreBuilder, StoreSettings, Unreserved,
};
use quoit_model::clock::Actor;
use quoit_model::hash::RingSize;
use quoit_model::key::{BucketRef, KeyRef};
use quoit_model::object::Object;
use quoit_model::props::PropUpdates;
use quoit_seam::{Clock, ManualClock, RealDisk};
use quoit_store::engine::Engine;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use serde_json::Value;
use std::sync::Arc;

pub const START_US: u64 = 1_700_000_000_000_000;
pub const SECOND_US: u64 = 1_000_000;

/// A store with a clock that tests turn.
pub struct Fixture {
    pub store: Arc<ReplicatedStore>,
    pub clock: Arc<ManualClock>,
    _dir: tempfile::TempDir,
}

pub fn fixture_with(settings: StoreSettings) -> Fixture {
    fixture_on(settings, |ring_size, clock| {
        Arc::new(MemoryEngine::new(MemorySettings::default(), ring_size, clock))
    })
}

/// A store on an engine of the test's own.
pub fn fixture_on(
    settings: StoreSettings,
    engine: impl FnOnce(RingSize, Arc<dyn Clock>) -> Arc<dyn Engine>,
) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let control = ControlPlane::open(
        Arc::new(RealDisk::open(dir.path()).unwrap()),
        quoit_cluster::Settings {
            ring_size: Some(RingSize::new(8).unwrap()),
            ..quoit_cluster::Settings::new("quoit@test", NodeId([7; 16]))
        },
    )
    .unwrap();
    let clock = Arc::new(ManualClock::at(START_US));
    let engine = engine(control.ring_size(), Arc::clone(&clock) as Arc<dyn Clock>);
    let dots = DotSequence::new(Actor(b"actor-01"[..].into()), Box::new(Unreserved));
    let builder = StoreBuilder::new(
        engine,
        Arc::new(control),
        alone(),
        Arc::clone(&clock) as Arc<dyn Clock>,
        dots,
        settings,
    );
    Fixture { store: builder.build(), clock, _dir: dir }
}

/// A way to other nodes where there are none.
fn alone() -> Arc<Internode> {
    let settings = InternodeSettings::new(NodeId([7; 16]), "quoit@test", 1, 1);
    Internode::new(settings, Arc::new(TokioNetwork))
}

pub fn fixture() -> Fixture {
    fixture_with(StoreSettings::default())
}

pub fn key(bucket_type: &'static str, key: &'static str) -> KeyRef<'static> {
    BucketRef { bucket_type: bucket_type.as_bytes(), bucket: b"bucket" }.key(key.as_bytes())
}

pub fn put_of(at: KeyRef<'static>, value: &'static str) -> PutRequest<'static> {
    PutRequest::of(at, Bytes::from_static(value.as_bytes()))
}

pub fn values(object: &Object) -> Vec<&str> {
    let mut values: Vec<_> = object
        .siblings
        .iter()
        .filter(|sibling| !sibling.deleted)
        .map(|sibling| std::str::from_utf8(&sibling.value).unwrap())
        .collect();
    values.sort_unstable();
    values
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
        self.store.reaper().reap_step(Some(3_000)).await.unwrap()
    }
}
