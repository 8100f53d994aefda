//! Data types on several nodes.

use crate::fixture::{Cluster, Node, key};
use bytes::Bytes;
use quoit_core::{
    DataTypeError, DataTypeRequest, DeleteRequest, FetchedDataType, ReadOptions, RequestError,
    WriteOptions,
};
use quoit_model::data_type::{ApplyError, Operation, SetChange, UpdateError, Value};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use serde_json::json;

const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

async fn cluster_of(count: usize) -> Cluster {
    let cluster = Cluster::of(count).await;
    for datatype in ["counter", "set"] {
        cluster.create_type(datatype, json!({"datatype": datatype, "allow_mult": true})).await;
    }
    cluster
}

fn one_copy(key: KeyRef<'static>, operation: Operation) -> DataTypeRequest<'static> {
    let one = Some(Quorum::One);
    let options = WriteOptions { w: one, dw: one, ..WriteOptions::default() };
    DataTypeRequest { key, operation, context: None, return_value: true, options }
}

async fn update(node: &Node, request: DataTypeRequest<'static>) -> FetchedDataType {
    node.store.update_data_type(request).await.unwrap().unwrap()
}

async fn fetch_all(node: &Node, at: KeyRef<'_>) -> Option<FetchedDataType> {
    let options = ReadOptions { r: Some(Quorum::All), ..ReadOptions::default() };
    node.store.fetch_data_type(at, &options).await.unwrap()
}

fn elements(found: Option<FetchedDataType>) -> Vec<Bytes> {
    match found.map(|found| found.value) {
        Some(Value::Set(elements)) => elements,
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn what_any_node_counts_any_node_reads() {
    for count in [2, 3, 5] {
        let cluster = cluster_of(count).await;
        for name in KEYS {
            let at = key("counter", name);
            for node in &cluster.nodes {
                update(node, one_copy(at, Operation::Counter(2))).await;
            }
            let total = Value::Counter(2 * i128::from(count as u32));
            for node in &cluster.nodes {
                let found = fetch_all(node, at).await.unwrap();
                assert_eq!(found.value, total, "{name} of {count} nodes");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn contexts_and_faults_are_the_same_wherever_an_update_is_coordinated() {
    let cluster = cluster_of(5).await;
    for name in KEYS {
        let at = key("set", name);
        let add = |element: &'static str| Operation::Set(vec![SetChange::Add(element.into())]);
        let remove =
            |element: &'static str| Operation::Set(vec![SetChange::Remove(element.into())]);
        update(&cluster.nodes[0], one_copy(at, add("x"))).await;
        let context = fetch_all(&cluster.nodes[1], at).await.unwrap().context;
        update(&cluster.nodes[2], one_copy(at, add("y"))).await;
        for node in &cluster.nodes {
            let seen = DataTypeRequest { context: context.clone(), ..one_copy(at, remove("x")) };
            update(node, seen).await;
            let absent = node.store.update_data_type(one_copy(at, remove("absent"))).await;
            let Err(RequestError::DataType(DataTypeError::Update(UpdateError::Apply(
                ApplyError::NoSuchElement { element },
            )))) = absent
            else {
                panic!("{absent:?}")
            };
            assert_eq!(element, "absent");
        }
        assert_eq!(elements(fetch_all(&cluster.nodes[4], at).await), ["y"]);
    }
}

async fn cut_off_first(cluster: &Cluster) {
    cluster.cut_off(0);
    let up_counts = [1, 2, 2];
    let noticed = || cluster.nodes.iter().map(Node::up_count).eq(up_counts);
    cluster.until(noticed).await;
}

#[tokio::test(start_paused = true)]
async fn both_sides_of_a_cut_count_and_meet_again() {
    let cluster = cluster_of(3).await;
    let (counter, set) = (key("counter", "k"), key("set", "k"));
    let add = |element: &'static str| Operation::Set(vec![SetChange::Add(element.into())]);
    update(&cluster.nodes[0], one_copy(set, add("before"))).await;
    let context = fetch_all(&cluster.nodes[0], set).await.unwrap().context;
    cut_off_first(&cluster).await;
    for (node, element) in cluster.nodes.iter().zip(["left", "right", "right"]) {
        update(node, one_copy(counter, Operation::Counter(5))).await;
        update(node, one_copy(set, add(element))).await;
    }
    // Removed on one side, added once more on the other.
    let remove = Operation::Set(vec![SetChange::Remove("before".into())]);
    let remove = DataTypeRequest { context, ..one_copy(set, remove) };
    update(&cluster.nodes[0], remove).await;
    update(&cluster.nodes[2], one_copy(set, add("before"))).await;
    cluster.mend(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    for node in &cluster.nodes {
        assert_eq!(fetch_all(node, counter).await.unwrap().value, Value::Counter(15));
        assert_eq!(elements(fetch_all(node, set).await), ["before", "left", "right"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_delete_leaves_what_was_added_at_the_same_time() {
    let cluster = cluster_of(3).await;
    let at = key("set", "k");
    let add = |element: &'static str| Operation::Set(vec![SetChange::Add(element.into())]);
    update(&cluster.nodes[0], one_copy(at, add("seen"))).await;
    fetch_all(&cluster.nodes[1], at).await;
    cut_off_first(&cluster).await;
    update(&cluster.nodes[1], one_copy(at, add("unseen"))).await;
    let one = Some(Quorum::One);
    let write = WriteOptions { w: one, dw: one, ..WriteOptions::default() };
    let read = ReadOptions { r: one, ..ReadOptions::default() };
    let delete = DeleteRequest { write, read, ..DeleteRequest::of(at) };
    cluster.nodes[0].store.delete(delete).await.unwrap();
    cluster.mend(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    for node in &cluster.nodes {
        assert_eq!(elements(fetch_all(node, at).await), ["unseen"]);
    }
}
