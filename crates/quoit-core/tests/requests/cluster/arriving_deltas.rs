//! Tests of changes of large sets that arrive from another cluster.

use crate::cluster::data_types::{fetch_all, numbered, one_copy, update};
use crate::cluster::fixture::{Cluster, key};
use bytes::Bytes;
use quoit_core::{
    Arrival, ArrivedDelta, BatchBounds, DataTypeRequest, DeltaOutcome, Lease, OtherClusterCopy,
    QueueWait, QueuedObject, QueuedValue, RangesAnswer, RangesQuestion, ReplicatedStore,
    StoreSettings, VisitedCluster,
};
use quoit_model::data_type::{Operation, SetChange, Value};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use serde_json::json;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

const SINK: VisitedCluster = [9; 16];

/// A cluster with a set of 2000 elements, and a cluster that has received the set.
struct Pair {
    source: Cluster,
    sink: Cluster,
    at: KeyRef<'static>,
}

impl Pair {
    async fn new(sink: Cluster) -> Self {
        let source = Cluster::of_sources(1, StoreSettings::default()).await;
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
        let patience = QueueWait::UpTo(Duration::ZERO);
        self.source().replication().take_queued("out", lease, bounds, patience).await.unwrap()
    }

    /// Takes entries of the source for good.
    async fn take(&self, takes_deltas: bool) -> Vec<QueuedObject> {
        let queues = self.source().source_queues();
        let lease = queues.lease();
        let batch = self.take_leased(&lease, takes_deltas).await;
        let sequences: Vec<_> = batch.iter().map(|queued| queued.sequence).collect();
        queues.confirm("out", &lease, &sequences);
        batch
    }

    /// Stores an entry at a node of the sink.
    async fn store(&self, node: usize, entry: QueuedObject) -> DeltaOutcome {
        let store = &self.sink.nodes[node].store;
        let arrival = Arrival { visited: None, may_be_redelivery: false, dw: Quorum::Quorum };
        match entry.value {
            QueuedValue::Delta { delta, last_modified_us } => {
                let arrived = ArrivedDelta { delta, last_modified_us };
                store.replication().join_arrived(&entry.key, &arrived, &arrival).await.unwrap()
            }
            value => {
                let object = value.object().unwrap().expect("an object");
                store.replication().store_arrived(&entry.key, &object, &arrival).await.unwrap();
                DeltaOutcome::Joined
            }
        }
    }

    /// The elements of the set. Checks that all replicas have equal copies.
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
    // Two of the five nodes are no replicas of the set.
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

    queues.request_whole("out", &lease, &[later.sequence]);
    drop(lease);
    let whole = pair.take(true).await;
    assert!(whole.len() == 1 && !is_delta(&whole[0]) && whole[0].may_be_redelivery, "{whole:?}");
    pair.store(1, whole[0].clone()).await;
    pair.assert_equal().await;
    // The late deltas are covered by the object, so they join without an effect.
    assert_eq!(pair.store(2, dropped[0].clone()).await, DeltaOutcome::Joined);
    pair.assert_equal().await;
}

/// A copy in the source, asked as over a connection.
struct SourceCopy {
    store: Arc<ReplicatedStore>,
    byte_count: usize,
}

impl OtherClusterCopy for SourceCopy {
    fn ask<'a>(
        &'a mut self,
        question: RangesQuestion,
        asked: Bytes,
    ) -> Pin<Box<dyn Future<Output = RangesAnswer> + Send + 'a>> {
        Box::pin(async move {
            let (answer, items) =
                self.store.anti_entropy().answer_ranges_question(question, asked).await.unwrap()?;
            self.byte_count += answer.len() + items.len();
            Some((answer, items))
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_behind_a_gap_fetches_the_ranges_that_differ() {
    let pair = Pair::new(Cluster::of(5).await).await;
    pair.add(numbered(3_000..3_001)).await;
    let entry = pair.take(true).await.remove(0);
    // The sink has an element that the source lacks, and keeps it.
    let add = Operation::Set(vec![SetChange::Add(Bytes::from_static(b"own"))]);
    update(&pair.sink.nodes[0], one_copy(pair.at, add)).await;
    let arrival = Arrival { visited: None, may_be_redelivery: false, dw: Quorum::Quorum };
    let mut united = Vec::new();
    for node in &pair.sink.nodes {
        let mut copy = SourceCopy { store: Arc::clone(&pair.source.nodes[0].store), byte_count: 0 };
        let done = node.store.replication().merge_with_remote_copy(&entry.key, &mut copy, &arrival);
        if done.await.unwrap() {
            assert!(copy.byte_count < 8_000, "{} bytes", copy.byte_count);
            united.push(copy.byte_count);
        }
    }
    assert_eq!(united.len(), 3, "the primaries");
    let mut expected = pair.set(&pair.source).await;
    expected.push(Bytes::from_static(b"own"));
    expected.sort_unstable();
    assert_eq!(pair.set(&pair.sink).await, expected);
    assert_eq!(pair.store(0, entry).await, DeltaOutcome::Joined);
}

#[tokio::test(start_paused = true)]
async fn what_no_node_has_in_pages_is_not_fetched_by_ranges() {
    let pair = Pair::new(Cluster::of(3).await).await;
    let fresh = Cluster::of(3).await;
    fresh.create_type("set", json!({"datatype": "set", "allow_mult": true})).await;
    let name = Bytes::from(pair.at.encoded().to_vec());
    let arrival = Arrival { visited: None, may_be_redelivery: false, dw: Quorum::Quorum };
    let copy = |cluster: &Cluster| SourceCopy {
        store: Arc::clone(&cluster.nodes[0].store),
        byte_count: 0,
    };
    for (from, to) in [(&pair.sink, &fresh), (&fresh, &pair.sink)] {
        let store = &to.nodes[1].store;
        let united =
            store.replication().merge_with_remote_copy(&name, &mut copy(from), &arrival).await;
        assert!(!united.unwrap());
    }
    assert_eq!(pair.set(&pair.sink).await, numbered(0..2_000));
}

#[tokio::test(start_paused = true)]
async fn a_remove_in_the_other_cluster_waits_for_the_delta_that_it_has_seen() {
    let pair = Pair::new(Cluster::of(3).await).await;
    let late = numbered(3_000..3_001).remove(0);
    pair.add(vec![late.clone()]).await;
    // A client that has read from the source removes the element at the sink, which has not received it
    // yet.
    let context = fetch_all(&pair.source.nodes[0], pair.at).await.expect("a set").context;
    let remove = Operation::Set(vec![SetChange::Remove(late.clone())]);
    update(&pair.sink.nodes[1], DataTypeRequest { context, ..one_copy(pair.at, remove) }).await;
    let delta = pair.take(true).await.remove(0);
    assert!(is_delta(&delta));
    assert_eq!(pair.store(0, delta).await, DeltaOutcome::Joined);
    assert!(!pair.set(&pair.sink).await.contains(&late), "it was removed before it came");
    assert_eq!(pair.set(&pair.sink).await, numbered(0..2_000));
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
