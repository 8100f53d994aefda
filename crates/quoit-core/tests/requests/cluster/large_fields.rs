//! Tests of large sets in maps, on several nodes.

use crate::cluster::data_types::{cut_off_first, fetch_all, numbered, one_copy, update};
use crate::cluster::fixture::{Cluster, key};
use bytes::Bytes;
use quoit_core::{DataTypeError, DataTypeRequest, ReadOptions, RequestError, WriteOptions};
use quoit_model::data_type::{
    Answer, FieldKind, FieldName, FieldOperation, FieldUpdate, MapOperation, Operation, Query,
    QueryError, Question, SetChange, Value,
};
use quoit_model::props::Quorum;
use serde_json::json;
use std::collections::BTreeSet;

async fn with_maps(node_count: usize) -> Cluster {
    let cluster = Cluster::of(node_count).await;
    cluster.create_type("map", json!({"datatype": "map", "allow_mult": true})).await;
    cluster
}

#[tokio::test(start_paused = true)]
async fn a_large_field_removed_on_one_side_of_a_cut_keeps_what_the_other_side_adds() {
    let cluster = with_maps(3).await;
    let at = key("map", "k");
    let tags = |changes: Vec<SetChange>| FieldUpdate::new("tags", FieldOperation::Set(changes));
    let kept = |changes: Vec<SetChange>| FieldUpdate::new("kept", FieldOperation::Set(changes));
    let added = |range| numbered(range).into_iter().map(SetChange::Add).collect::<Vec<_>>();
    let map = |removes, updates| Operation::Map(MapOperation { removes, updates });
    let all = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
    let first = map(Vec::new(), vec![tags(added(0..2_000)), kept(added(0..2_000))]);
    update(&cluster.nodes[0], DataTypeRequest { options: all, ..one_copy(at, first) }).await;
    let context = fetch_all(&cluster.nodes[0], at).await.unwrap().context;
    cut_off_first(&cluster).await;
    let name = FieldName::new("tags", FieldKind::Set);
    let removal = map(vec![name.clone()], Vec::new());
    let removal = DataTypeRequest { context: context.clone(), ..one_copy(at, removal) };
    update(&cluster.nodes[0], removal).await;
    let gone = numbered(7..8).remove(0);
    let theirs = vec![tags(added(5_000..5_003)), kept(vec![SetChange::Remove(gone)])];
    let theirs = DataTypeRequest { context, ..one_copy(at, map(Vec::new(), theirs)) };
    update(&cluster.nodes[1], theirs).await;
    cluster.reconnect(0);
    cluster.until(|| cluster.nodes.iter().all(|node| node.up_count() == 3)).await;
    // A change that arrives at copies which have missed earlier ones.
    for node in &cluster.nodes {
        let more = map(Vec::new(), vec![kept(added(6_000..6_001))]);
        update(node, one_copy(at, more)).await;
    }
    let mut left: Vec<Bytes> =
        numbered(0..2_000).into_iter().chain(numbered(6_000..6_001)).collect();
    left.remove(7);
    let expected = Value::Map(vec![
        (FieldName::new("kept", FieldKind::Set), Value::Set(left)),
        (name, Value::Set(numbered(5_000..5_003))),
    ]);
    for node in &cluster.nodes {
        assert_eq!(fetch_all(node, at).await.unwrap().value, expected);
    }
    let one = ReadOptions { r: Some(Quorum::One), ..ReadOptions::default() };
    for node in &cluster.nodes {
        let copy = node.store.fetch_data_type(at, &one).await.unwrap().unwrap();
        assert_eq!(copy.value, expected, "repaired by the reads");
    }
}

/// Reads a set in a map in a map from every node.
#[tokio::test(start_paused = true)]
async fn any_node_answers_questions_about_large_fields() {
    let cluster = with_maps(5).await;
    let at = key("map", "k");
    let options = ReadOptions::default();
    let path = [FieldName::new("inner", FieldKind::Map), FieldName::new("tags", FieldKind::Set)];
    let ask = async |node: usize, path: &[FieldName], query: Query| {
        let question = Question { path: path.to_vec(), query };
        cluster.nodes[node].store.query_data_type(at, &question, &options).await
    };
    assert_eq!(ask(0, &path, Query::Size).await.unwrap(), None, "there is no record");
    let added = numbered(0..1_000).into_iter().map(SetChange::Add).collect();
    let map = |update| MapOperation { updates: vec![update], ..MapOperation::default() };
    let inner = map(FieldUpdate::new("tags", FieldOperation::Set(added)));
    let operation = Operation::Map(map(FieldUpdate::new("inner", FieldOperation::Map(inner))));
    let all = WriteOptions { w: Some(Quorum::All), ..WriteOptions::default() };
    let request = DataTypeRequest { options: all, ..one_copy(at, operation) };
    update(&cluster.nodes[0], request).await;
    for node in 0..cluster.nodes.len() {
        let answer = async |query| ask(node, &path, query).await.unwrap().unwrap();
        assert_eq!(answer(Query::Size).await, Answer::Size(1_000));
        let contains = Query::Contains(numbered(7..8).remove(0));
        assert_eq!(answer(contains).await, Answer::Contains(true));
        assert_eq!(answer(Query::Contains("x".into())).await, Answer::Contains(false));
        let (mut found, mut next) = (BTreeSet::new(), Some(0));
        while let Some(from) = next {
            let page = answer(Query::Page { from, count: 300 }).await;
            let Answer::Page { value: Value::Set(elements), next: after } = page else {
                panic!("{page:?}")
            };
            assert!(elements.len() <= 300);
            found.extend(elements);
            next = after;
        }
        assert_eq!(found, numbered(0..1_000).into_iter().collect());
        let fields = ask(node, &path[..1], Query::Size).await.unwrap();
        assert_eq!(fields, Some(Answer::Size(1)));
        assert_eq!(ask(node, &path[1..], Query::Size).await.unwrap(), None, "no such field");
        let flag = FieldName::new("f", FieldKind::Flag);
        let refused = ask(node, std::slice::from_ref(&flag), Query::Size).await.unwrap_err();
        let RequestError::DataType(DataTypeError::Query(refused)) = refused else {
            panic!("{refused}")
        };
        assert_eq!(refused, QueryError::NoItems { field: flag });
    }
}

#[tokio::test(start_paused = true)]
async fn a_question_about_a_field_costs_a_part_of_the_field() {
    let cluster = Cluster::of(4).await;
    let props = json!({"datatype": "map", "allow_mult": true, "n_val": 1});
    cluster.create_type("one", props).await;
    let at = key("one", "k");
    let added = numbered(0..2_000).into_iter().map(SetChange::Add).collect();
    let tags = FieldUpdate::new("tags", FieldOperation::Set(added));
    let map = MapOperation { updates: vec![tags], ..MapOperation::default() };
    update(&cluster.nodes[0], one_copy(at, Operation::Map(map))).await;
    let path = vec![FieldName::new("tags", FieldKind::Set)];
    let question = Question { path, query: Query::Size };
    let mut asked_count = 0;
    for node in &cluster.nodes {
        let (fetches, bytes) = node.fetched();
        let answer = node.store.query_data_type(at, &question, &ReadOptions::default()).await;
        assert_eq!(answer.unwrap(), Some(Answer::Size(2_000)));
        let after = node.fetched();
        assert!(after.1 - bytes < 2_000, "{} bytes were sent", after.1 - bytes);
        asked_count += usize::from(after.0 > fetches);
    }
    assert_eq!(asked_count, 3, "all but the node with the copy ask it");
}
