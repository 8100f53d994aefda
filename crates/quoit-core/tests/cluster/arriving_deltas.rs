//! Changes of large sets that come from another cluster.

use crate::data_types::{fetch_all, numbered, one_copy, update};
use crate::fixture::{Cluster, key};
use bytes::Bytes;
use quoit_core::{
    Arrival, ArrivedDelta, BatchBounds, DeltaOutcome, Lease, Patience, QueuedObject, QueuedValue,
    ReplicatedStore, VisitedCluster,
};
use quoit_model::data_type::{Operation, SetChange, Value};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use quoit_wire::internode::{VERSION_ARRIVING_DELTAS, VersionRange};
use serde_json::json;
use std::time::Duration;

const SINK: VisitedCluster = [9; 16];

/// A cluster that has a set of 2000 elements, and one that has what has come of it.
struct Pair {
    source: Cluster,
    sink: Cluster,
    at: KeyRef<'static>,
}

impl Pair {
    async fn new(sink: Cluster) -> Self {
        let source = Cluster::source().await;
        for cluster in [&source, &sink] {
            cluster.create_type("set", json!({"datatype": "set", "allow_mult": true})).await;
        }
        let pair = Self { source, sink, at: key("set", "k") };
        pair.add(numbered(0..2_000)).await;
        for entry in pair.take(true).await {
            pair.store(0, entry).await;
        }
        pair
    }

    fn source(&self) -> &ReplicatedStore {
        &self.source.nodes[0].store
    }

    async fn add(&self, elements: Vec<Bytes>) {
        let add = Operation::Set(elements.into_iter().map(SetChange::Add).collect());
        update(&self.source.nodes[0], one_copy(self.at, add)).await;
    }

    async fn take_leased(&self, lease: &Lease, takes_deltas: bool) -> Vec<QueuedObject> {
        let bounds =
            BatchBounds { count_max: 100, bytes_max: 1 << 20, sink: Some(SINK), takes_deltas };
        let patience = Patience::UpTo(Duration::ZERO);
        self.source().take_queued("out", lease, bounds, patience).await.unwrap()
    }

    /// Entries of the source, taken for good.
    async fn take(&self, takes_deltas: bool) -> Vec<QueuedObject> {
        let queues = self.source().source_queues();
        let lease = queues.lease();
        let batch = self.take_leased(&lease, takes_deltas).await;
        let sequences: Vec<_> = batch.iter().map(|queued| queued.sequence).collect();
        queues.confirm("out", &lease, &sequences);
        batch
    }

    /// Has a node of the sink store an entry.
    async fn store(&self, node: usize, entry: QueuedObject) -> DeltaOutcome {
        let store = &self.sink.nodes[node].store;
        let arrival = Arrival { visited: None, may_be_again: false, dw: Quorum::Quorum };
        match entry.value {
            QueuedValue::Delta { delta, last_modified_us } => {
                let arrived = ArrivedDelta { delta, last_modified_us };
                store.join_arrived(&entry.key, &arrived, &arrival).await.unwrap()
            }
            value => {
                let object = value.object().unwrap().expect("an object");
                store.store_arrived(&entry.key, &object, &arrival).await.unwrap();
                DeltaOutcome::Joined
            }
        }
    }

    /// The set, and that all replicas have it alike.
    async fn set(&self, cluster: &Cluster) -> Vec<Bytes> {
        let fetched = fetch_all(&cluster.nodes[0], self.at).await.expect("a set");
        let Value::Set(mut elements) = fetched.value else { panic!("{:?}", fetched.value) };
        elements.sort_unstable();
        elements
    }

    async fn assert_equal(&self) {
        assert_eq!(self.set(&self.sink).await, self.set(&self.source).await);
    }
}

fn is_delta(entry: &QueuedObject) -> bool {
    matches!(entry.value, QueuedValue::Delta { .. })
}

#[tokio::test(start_paused = true)]
async fn any_node_takes_a_delta_and_all_replicas_get_it() {
    let pair = Pair::new(Cluster::of(5).await).await;
    // Two of the five have no copy.
    for node in 0..5 {
        pair.add(numbered(3_000 + node..3_001 + node)).await;
        let taken = pair.take(true).await;
        assert!(taken.len() == 1 && is_delta(&taken[0]), "{taken:?}");
        assert!(taken[0].value.size_bytes() < 200, "{} bytes", taken[0].value.size_bytes());
        let again = taken[0].clone();
        for entry in [taken[0].clone(), again] {
            assert_eq!(pair.store(node as usize, entry).await, DeltaOutcome::Joined);
        }
        pair.assert_equal().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_delta_behind_a_gap_is_refused_by_any_node_until_the_object_comes() {
    let pair = Pair::new(Cluster::of(5).await).await;
    pair.add(numbered(3_000..3_001)).await;
    let dropped = pair.take(true).await;
    pair.add(numbered(4_000..4_001)).await;
    let queues = pair.source().source_queues();
    let lease = queues.lease();
    let later = pair.take_leased(&lease, true).await.remove(0);
    let before = pair.set(&pair.sink).await;
    for node in 0..5 {
        assert_eq!(pair.store(node, later.clone()).await, DeltaOutcome::LacksEarlier, "{node}");
    }
    assert_eq!(pair.set(&pair.sink).await, before, "no part of it is there");

    queues.want_whole("out", &lease, &[later.sequence]);
    drop(lease);
    let whole = pair.take(true).await;
    assert!(whole.len() == 1 && !is_delta(&whole[0]) && whole[0].is_again, "{whole:?}");
    pair.store(1, whole[0].clone()).await;
    pair.assert_equal().await;
    // What was late is known by now.
    assert_eq!(pair.store(2, dropped[0].clone()).await, DeltaOutcome::Joined);
    pair.assert_equal().await;
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_record_wants_it_whole() {
    let pair = Pair::new(Cluster::of(3).await).await;
    let fresh = Cluster::of(3).await;
    fresh.create_type("set", json!({"datatype": "set", "allow_mult": true})).await;
    pair.add(numbered(3_000..3_001)).await;
    let entry = pair.take(true).await.remove(0);
    let fresh = Pair { sink: fresh, ..pair };
    assert_eq!(fresh.store(0, entry).await, DeltaOutcome::LacksEarlier);
    assert!(fetch_all(&fresh.sink.nodes[0], fresh.at).await.is_none());
}

#[tokio::test(start_paused = true)]
async fn a_sink_that_takes_no_deltas_gets_the_object() {
    let pair = Pair::new(Cluster::of(3).await).await;
    pair.add(numbered(3_000..3_001)).await;
    let taken = pair.take(false).await;
    assert!(taken.len() == 1 && !is_delta(&taken[0]), "{taken:?}");
    pair.store(0, taken[0].clone()).await;
    pair.assert_equal().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_copy_asks_for_objects_while_replicas_are_of_an_older_version() {
    let older = VersionRange::up_to(VERSION_ARRIVING_DELTAS - 1);
    let newest = VersionRange::CURRENT;
    let pair = Pair::new(Cluster::of_versions(&[older, older, older, newest, newest]).await).await;
    pair.add(numbered(3_000..3_001)).await;
    let entry = pair.take(true).await.remove(0);
    let mut outcomes = Vec::new();
    for node in 0..5 {
        outcomes.push(pair.store(node, entry.clone()).await);
    }
    assert!(outcomes.contains(&DeltaOutcome::Joined), "replicas look at their own copies");
    pair.assert_equal().await;
}
