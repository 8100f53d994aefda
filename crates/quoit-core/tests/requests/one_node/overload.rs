//! Tests of more requests than a slow disk can serve: requests above the limit are refused at once, and
//! the others succeed.

use crate::one_node::fixture::{Fixture, fixture_on, key, put_of, values};
use crate::slow_disk::{Gate, SlowDisk, bitcask_on};
use quoit_core::{AdmittedRequests, Counter, Limits, ReadOptions, RequestError, StoreSettings};
use quoit_seam::FaultyDisk;
use std::sync::Arc;
use tokio::task::JoinSet;

const LIMIT: usize = 100;
const REQUEST_COUNT: usize = 1000;

/// A store on a disk that answers only while the gate is open.
fn slow_store() -> (Fixture, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let limits = Limits { concurrent_request_count_max: LIMIT as u32, ..Limits::default() };
    let settings = StoreSettings { limits, ..StoreSettings::default() };
    let disk = Arc::new(SlowDisk { disk: FaultyDisk::new(1), watch: Arc::clone(&gate) });
    let fixture = fixture_on(settings, |ring_size, clock| bitcask_on(disk, ring_size, clock));
    (fixture, gate)
}

/// Starts requests, waits until all above the limit are refused, and returns the others.
async fn until_refused<T: 'static>(
    mut requests: JoinSet<Result<T, RequestError>>,
) -> JoinSet<Result<T, RequestError>> {
    for _ in 0..REQUEST_COUNT - LIMIT {
        let refused = requests.join_next().await.unwrap().unwrap();
        assert!(matches!(refused, Err(RequestError::Overload)));
    }
    assert!(requests.try_join_next().is_none(), "the others wait for the disk");
    requests
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_above_the_limit_are_refused_at_once_and_the_others_answered() {
    let (fixture, gate) = slow_store();
    let at = key("default", "k");
    fixture.put(at, "v").await;
    gate.close();
    let mut requests = JoinSet::new();
    for _ in 0..REQUEST_COUNT {
        let store = Arc::clone(&fixture.store);
        requests.spawn(async move { store.get(at, &ReadOptions::default()).await });
    }
    let mut admitted = until_refused(requests).await;
    assert_eq!(fixture.store.active(), AdmittedRequests { gets: LIMIT as u32, puts: 0 });
    let refused_in_place = fixture.store.get_in_place(at, &ReadOptions::default(), |_| ());
    assert!(matches!(refused_in_place, Err(RequestError::Overload)));
    let refused = fixture.store.stats().snapshot().total(Counter::GetsRejected);
    assert_eq!(refused, (REQUEST_COUNT - LIMIT) as u64 + 1);
    gate.open();
    while let Some(answer) = admitted.join_next().await {
        assert_eq!(values(&answer.unwrap().unwrap().unwrap()), ["v"]);
    }
    assert_eq!(fixture.store.active(), AdmittedRequests { gets: 0, puts: 0 });
    assert_eq!(values(&fixture.get(at).await.unwrap()), ["v"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_above_the_limit_are_refused_and_leave_nothing_behind() {
    let (fixture, gate) = slow_store();
    let name = |number: usize| -> &'static str { Box::leak(format!("k{number}").into_boxed_str()) };
    let names: Vec<_> = (0..REQUEST_COUNT).map(name).collect();
    gate.close();
    let mut requests = JoinSet::new();
    for name in &names {
        let (store, put) = (Arc::clone(&fixture.store), put_of(key("default", name), "v"));
        requests.spawn(async move { store.put(put).await });
    }
    let mut admitted = until_refused(requests).await;
    assert_eq!(fixture.store.active(), AdmittedRequests { gets: 0, puts: LIMIT as u32 });
    gate.open();
    while let Some(answer) = admitted.join_next().await {
        assert!(answer.unwrap().is_ok());
    }
    let mut stored = 0;
    for name in &names {
        stored += usize::from(fixture.get(key("default", name)).await.is_some());
    }
    assert_eq!(stored, LIMIT);
    fixture.put(key("default", "later"), "v").await;
}
