//! Tests of data types on several nodes.

use crate::cluster::fixture::{Cluster, Node, key};
use bytes::Bytes;
use quoit_core::{
    Counter, DataTypeError, DataTypeRequest, DeleteRequest, FetchedDataType, ItemSink, ReadOptions,
    RequestError, StreamOutcome, StreamedItems, WriteOptions,
};
use quoit_model::data_type::pages::ShownItem;
use quoit_model::data_type::{
    Answer, ApplyError, FieldKind, FieldName, Operation, Query, SetChange, UpdateError, Value,
};
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

pub(crate) fn one_copy(key: KeyRef<'static>, operation: Operation) -> DataTypeRequest<'static> {
    let one = Some(Quorum::One);
    let options = WriteOptions { w: one, dw: one, ..WriteOptions::default() };
    DataTypeRequest { key, operation, context: None, return_value: true, options }
}

pub(crate) async fn update(node: &Node, request: DataTypeRequest<'static>) -> FetchedDataType {
    node.store.update_data_type(request).await.unwrap().unwrap()
}

pub(crate) async fn fetch_all(node: &Node, at: KeyRef<'_>) -> Option<FetchedDataType> {
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

pub(crate) async fn cut_off_first(cluster: &Cluster) {
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
    // An element is removed on one side, and added again on the other.
    let remove = Operation::Set(vec![SetChange::Remove("before".into())]);
    let remove = DataTypeRequest { context, ..one_copy(set, remove) };
    update(&cluster.nodes[0], remove).await;
    update(&cluster.nodes[2], one_copy(set, add("before"))).await;
    cluster.reconnect(0);
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
    cluster.reconnect(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    for node in &cluster.nodes {
        assert_eq!(elements(fetch_all(node, at).await), ["unseen"]);
    }
}

pub(crate) fn numbered(numbers: std::ops::Range<u32>) -> Vec<Bytes> {
    numbers.map(|number| Bytes::from(format!("element {number:06}"))).collect()
}

pub(crate) fn add_all(elements: Vec<Bytes>) -> Operation {
    Operation::Set(elements.into_iter().map(SetChange::Add).collect())
}

pub(crate) fn sorted(found: Option<FetchedDataType>) -> Vec<Bytes> {
    let mut elements = elements(found);
    elements.sort_unstable();
    elements
}

/// Digests of all nodes' copies of a record.
async fn copies(cluster: &Cluster, at: KeyRef<'static>) -> Vec<Vec<Bytes>> {
    let mut copies = Vec::new();
    let one = Some(Quorum::One);
    let options = ReadOptions { r: one, ..ReadOptions::default() };
    for node in &cluster.nodes {
        copies.push(sorted(node.store.fetch_data_type(at, &options).await.unwrap()));
    }
    copies
}

#[tokio::test(start_paused = true)]
async fn a_delete_of_a_large_set_leaves_what_was_added_at_the_same_time() {
    let cluster = cluster_of(3).await;
    let at = key("set", "k");
    update(&cluster.nodes[0], one_copy(at, add_all(numbered(0..3_000)))).await;
    fetch_all(&cluster.nodes[1], at).await;
    cut_off_first(&cluster).await;
    update(&cluster.nodes[1], one_copy(at, add_all(numbered(2_990..3_200)))).await;
    let one = Some(Quorum::One);
    let write = WriteOptions { w: one, dw: one, ..WriteOptions::default() };
    let read = ReadOptions { r: one, ..ReadOptions::default() };
    let delete = DeleteRequest { write, read, ..DeleteRequest::of(at) };
    cluster.nodes[0].store.delete(delete).await.unwrap();
    cluster.reconnect(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    for node in &cluster.nodes {
        assert_eq!(sorted(fetch_all(node, at).await), numbered(2_990..3_200));
    }
}

/// The coordinator's copy stays in pages, so it sends only the write.
#[tokio::test(start_paused = true)]
async fn a_delete_with_an_old_context_takes_from_all_copies_what_its_client_had_read() {
    let cluster = cluster_of(3).await;
    let at = key("set", "k");
    let all = Some(Quorum::All);
    let write = WriteOptions { w: all, dw: all, ..WriteOptions::default() };
    let add = |elements| {
        let options = write;
        DataTypeRequest { options, ..one_copy(at, add_all(elements)) }
    };
    update(&cluster.nodes[0], add(numbered(0..2_000))).await;
    let read = cluster.nodes[1].store.get(at, &ReadOptions::default()).await.unwrap();
    let context = read.expect("the set").clock;
    update(&cluster.nodes[1], add(numbered(1_990..3_000))).await;
    let delete = || DeleteRequest { write, ..DeleteRequest::of(at) };
    let seen = DeleteRequest { context: Some(context), ..delete() };
    cluster.nodes[2].store.delete(seen).await.unwrap();
    for copy in copies(&cluster, at).await {
        assert_eq!(copy, numbered(1_990..3_000));
    }
    cluster.nodes[0].store.delete(delete()).await.unwrap();
    for node in &cluster.nodes {
        assert_eq!(fetch_all(node, at).await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn changes_of_large_sets_reach_all_copies_by_themselves() {
    let cluster = cluster_of(3).await;
    let at = key("set", "k");
    let all = Some(Quorum::All);
    let to_all = |operation| {
        let options =
            WriteOptions { w: all, dw: Some(Quorum::Count(0)), ..WriteOptions::default() };
        DataTypeRequest { options, ..one_copy(at, operation) }
    };
    update(&cluster.nodes[0], to_all(add_all(numbered(0..3_000)))).await;
    for (node, number) in cluster.nodes.iter().cycle().zip(0..12) {
        update(node, to_all(add_all(numbered(5_000 + number..5_001 + number)))).await;
        let gone = numbered(number..number + 1).remove(0);
        update(node, to_all(Operation::Set(vec![SetChange::Remove(gone)]))).await;
    }
    let expected: Vec<Bytes> =
        numbered(12..3_000).into_iter().chain(numbered(5_000..5_012)).collect();
    for copy in copies(&cluster, at).await {
        assert_eq!(copy, expected);
    }
    let repairs: u64 = cluster
        .nodes
        .iter()
        .map(|node| node.store.stats().snapshot().total(Counter::ReadRepairs))
        .sum();
    assert_eq!(repairs, 0, "nothing was missed");
}

#[tokio::test(start_paused = true)]
async fn copies_that_have_missed_changes_of_large_sets_learn_of_them() {
    let cluster = cluster_of(3).await;
    let at = key("set", "k");
    let all = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
    let first = DataTypeRequest { options: all, ..one_copy(at, add_all(numbered(0..2_000))) };
    update(&cluster.nodes[0], first).await;
    cut_off_first(&cluster).await;
    // Both sides change the set. Neither learns of the other's changes.
    for number in 0..5 {
        let ours = Operation::Set(vec![
            SetChange::Add(format!("left {number}").into()),
            SetChange::Remove(numbered(number..number + 1).remove(0)),
        ]);
        update(&cluster.nodes[0], one_copy(at, ours)).await;
        let theirs = Operation::Set(vec![
            SetChange::Add(format!("right {number}").into()),
            SetChange::Remove(numbered(number + 3..number + 4).remove(0)),
        ]);
        update(&cluster.nodes[1], one_copy(at, theirs)).await;
    }
    cluster.reconnect(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    // A change of one side arrives at the other before the changes that it has missed.
    update(&cluster.nodes[0], one_copy(at, add_all(vec!["after".into()]))).await;
    update(&cluster.nodes[1], one_copy(at, add_all(vec!["after too".into()]))).await;
    let mut expected = numbered(8..2_000);
    expected.extend((0..5).map(|number| Bytes::from(format!("left {number}"))));
    expected.extend((0..5).map(|number| Bytes::from(format!("right {number}"))));
    expected.extend(["after".into(), "after too".into()]);
    expected.sort_unstable();
    for node in &cluster.nodes {
        assert_eq!(sorted(fetch_all(node, at).await), expected);
    }
    for copy in copies(&cluster, at).await {
        assert_eq!(copy, expected, "repaired by the reads");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_without_a_large_set_takes_changes_of_it() {
    let mut cluster = cluster_of(5).await;
    let all = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
    for name in KEYS {
        let at = key("set", name);
        let first = DataTypeRequest { options: all, ..one_copy(at, add_all(numbered(0..500))) };
        update(&cluster.nodes[0], first).await;
    }
    // The fallback that replaces the killed node has never had these sets.
    cluster.kill(4).await;
    for name in KEYS {
        let at = key("set", name);
        for (number, node) in cluster.nodes.iter().enumerate() {
            let add = add_all(vec![format!("by {number}").into()]);
            update(node, DataTypeRequest { options: all, ..one_copy(at, add) }).await;
        }
        let mut expected = numbered(0..500);
        expected.extend((0..4).map(|number| Bytes::from(format!("by {number}"))));
        expected.sort_unstable();
        for node in &cluster.nodes {
            assert_eq!(sorted(fetch_all(node, at).await), expected, "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn any_node_answers_questions_about_parts() {
    let cluster = cluster_of(5).await;
    let options = ReadOptions::default();
    for name in KEYS {
        let at = key("set", name);
        let ask = |node: usize, query: Query| {
            let store = cluster.nodes[node].store.clone();
            async move { store.query_data_type(at, &query.into(), &options).await.unwrap() }
        };
        assert_eq!(ask(0, Query::Size).await, None);
        let all = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
        let first = DataTypeRequest { options: all, ..one_copy(at, add_all(numbered(0..1_000))) };
        update(&cluster.nodes[0], first).await;
        for node in 0..5 {
            assert_eq!(ask(node, Query::Size).await, Some(Answer::Size(1_000)));
            let element = numbered(7..8).remove(0);
            assert_eq!(ask(node, Query::Contains(element)).await, Some(Answer::Contains(true)));
            let absent = Query::Contains("absent".into());
            assert_eq!(ask(node, absent).await, Some(Answer::Contains(false)));
            let page = ask(node, Query::Page { from: 0, count: 10 }).await;
            let Some(Answer::Page { value: Value::Set(found), next: Some(_) }) = page else {
                panic!("{page:?}")
            };
            assert_eq!(found.len(), 10);
            let unsuitable = Query::Field(FieldName::new("f", FieldKind::Flag)).into();
            let refused = cluster.nodes[node].store.query_data_type(at, &unsuitable, &options);
            assert!(matches!(
                refused.await,
                Err(RequestError::DataType(DataTypeError::Query { .. }))
            ));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn copies_that_differ_are_read_whole_for_an_answer() {
    let cluster = cluster_of(3).await;
    let at = key("set", "k");
    let all = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
    let first = DataTypeRequest { options: all, ..one_copy(at, add_all(numbered(0..500))) };
    update(&cluster.nodes[0], first).await;
    cut_off_first(&cluster).await;
    update(&cluster.nodes[0], one_copy(at, add_all(vec!["left".into()]))).await;
    update(&cluster.nodes[1], one_copy(at, add_all(vec!["right".into()]))).await;
    cluster.reconnect(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    let options = ReadOptions { r: Some(Quorum::All), ..ReadOptions::default() };
    for node in &cluster.nodes {
        for (element, contains) in [("left", true), ("right", true), ("middle", false)] {
            let query = Query::Contains(element.into());
            let answer = node.store.query_data_type(at, &query.into(), &options).await.unwrap();
            assert_eq!(answer, Some(Answer::Contains(contains)), "{element}");
        }
        let size = node.store.query_data_type(at, &Query::Size.into(), &options).await.unwrap();
        assert_eq!(size, Some(Answer::Size(502)));
    }
}

/// Elements in the order in which they are streamed.
#[derive(Default)]
pub(crate) struct Streamed {
    set: Option<StreamedItems>,
    pub(crate) elements: Vec<Bytes>,
}

impl ItemSink for Streamed {
    fn begin(&mut self, set: StreamedItems) {
        self.set = Some(set);
        self.elements.clear();
    }

    fn item(&mut self, item: ShownItem<'_>) {
        match item {
            ShownItem::Element(element) => self.elements.push(Bytes::copy_from_slice(element)),
            ShownItem::Field(name, _) => self.elements.push(name.name.clone()),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn large_sets_are_streamed_where_copies_are_the_same() {
    let cluster = cluster_of(3).await;
    let at = key("set", "k");
    let stream = async |node: &Node, r: Quorum| {
        let mut sink = Streamed::default();
        let options = ReadOptions { r: Some(r), ..ReadOptions::default() };
        let outcome = node.store.stream_items(at, &options, &mut sink).await.unwrap();
        matches!(outcome, StreamOutcome::Complete).then_some(sink)
    };
    assert!(stream(&cluster.nodes[0], Quorum::All).await.is_none(), "there is none");
    let all = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
    let to_all = |elements| DataTypeRequest { options: all, ..one_copy(at, add_all(elements)) };
    update(&cluster.nodes[0], to_all(numbered(0..3))).await;
    assert!(stream(&cluster.nodes[0], Quorum::All).await.is_none(), "it is small");
    update(&cluster.nodes[0], to_all(numbered(0..2_000))).await;
    for node in &cluster.nodes {
        let mut found = stream(node, Quorum::All).await.expect("equal copies");
        found.elements.sort_unstable();
        assert_eq!(found.elements, numbered(0..2_000));
        let fetched = fetch_all(node, at).await.unwrap();
        assert_eq!(found.set.unwrap().context, fetched.context);
    }
    cut_off_first(&cluster).await;
    update(&cluster.nodes[0], one_copy(at, add_all(vec!["left".into()]))).await;
    cluster.reconnect(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    for node in &cluster.nodes {
        assert!(stream(node, Quorum::All).await.is_none(), "they differ");
        assert!(stream(node, Quorum::One).await.is_some());
    }
}
