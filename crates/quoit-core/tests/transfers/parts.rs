//! Tests of requests for data types whose copies by the newest layout are still being filled.

use crate::data_types::{add, add_in_map};
use crate::fixture::{TestCluster, id, key_in};
use bytes::Bytes;
use prost::Message;
use quoit_cluster::{CallError, Lane};
use quoit_core::{ReadOptions, TransferLimits};
use quoit_model::data_type::{Answer, FieldKind, FieldName, Query, Question, Value};
use quoit_model::key::KeyRef;
use quoit_model::props::Quorum;
use quoit_wire::internode::data::{
    Fetch, Fetched, FetchedPart, METHOD_FETCH, REFUSED_STALE_LAYOUT,
};
use serde_json::json;
use std::collections::BTreeSet;
use std::time::Duration;

/// The node that gets copies.
const NEW: u8 = 4;
const SIZE: u64 = 1_000;
const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

fn element(number: u64) -> Bytes {
    format!("{number:0100}").into()
}

/// Three nodes with large sets, and with maps of the same names that have such a set in a map.
async fn with_records() -> TestCluster {
    let cluster = TestCluster::joined(3).await;
    for datatype in ["set", "map"] {
        cluster.create_type(datatype, json!({"datatype": datatype, "allow_mult": true})).await;
    }
    let elements: Vec<Bytes> = (0..SIZE).map(element).collect();
    for name in NAMES {
        add(&cluster, 1, key_in("set", name), elements.clone(), Quorum::All).await;
        add_in_map(&cluster, 1, key_in("map", name), elements.clone(), Quorum::All).await;
    }
    cluster
}

/// Lets a fourth node join the cluster.
async fn grow(cluster: &mut TestCluster) {
    cluster.add().await;
    cluster.join(NEW).await;
    cluster.commit(1).await;
}

/// A name of which the fourth node is a primary for the set and for the map.
fn name_of_new(cluster: &TestCluster) -> &'static str {
    let is_of_new = |bucket_type: &str, name: &str| {
        cluster.primaries_of(1, key_in(bucket_type, name), 3).contains(&id(NEW))
    };
    let mut names = NAMES.into_iter();
    names.find(|name| is_of_new("set", name) && is_of_new("map", name)).expect("it gets copies")
}

fn field(name: &'static str, kind: FieldKind) -> FieldName {
    FieldName::new(name, kind)
}

/// The question about the set of a record, or about the set in the map of a map.
fn question(bucket_type: &str, query: Query) -> Question {
    let path = match bucket_type {
        "map" => vec![field("inner", FieldKind::Map), field("tags", FieldKind::Set)],
        _ => Vec::new(),
    };
    Question { path, query }
}

async fn ask(cluster: &TestCluster, number: u8, key: KeyRef<'_>, question: &Question) -> Answer {
    let options = ReadOptions::default();
    let answer = cluster.store(number).query_data_type(key, question, &options).await;
    answer.unwrap().expect("the record is there")
}

/// Checks that a node answers questions about all elements.
async fn check_answers(
    cluster: &TestCluster,
    number: u8,
    bucket_type: &str,
    name: &str,
    size: u64,
) {
    let key = key_in(bucket_type, name);
    let answer = async |query| ask(cluster, number, key, &question(bucket_type, query)).await;
    assert_eq!(answer(Query::Size).await, Answer::Size(size), "{bucket_type} at node {number}");
    for wanted in [0, SIZE - 1, size - 1] {
        assert_eq!(answer(Query::Contains(element(wanted))).await, Answer::Contains(true));
    }
    let (mut found, mut next) = (BTreeSet::new(), Some(0));
    while let Some(from) = next {
        let Answer::Page { value: Value::Set(elements), next: after } =
            answer(Query::Page { from, count: 300 }).await
        else {
            panic!("a page of a set")
        };
        found.extend(elements);
        next = after;
    }
    assert_eq!(found, (0..size).map(element).collect(), "{bucket_type} at node {number}");
}

/// Number of elements of a set in a node's copy, as the first node receives it in a request under this
/// layout. An error is the code of a refusal.
async fn size_in_copy(
    cluster: &TestCluster,
    number: u8,
    key: KeyRef<'_>,
    layout_version: u64,
) -> Result<u64, u32> {
    let fetch = Fetch {
        key: key.encoded().to_vec().into(),
        partition: u32::from(cluster.partition_of(key).0),
        layout_version,
        want: FetchedPart::Part.into(),
        part_size_only: true,
        ..Fetch::default()
    };
    let peer = cluster.internode(1).peer(id(number)).expect("they know each other");
    match peer.call(METHOD_FETCH, &fetch, b"", Lane::Small, Duration::from_secs(1)).await {
        Ok(reply) => Ok(Fetched::decode(reply.header).unwrap().part_size),
        Err(CallError::Refused { code, .. }) => Err(code),
        Err(fault) => panic!("{fault}"),
    }
}

#[tokio::test(start_paused = true)]
async fn questions_about_parts_are_answered_by_copies_that_are_complete() {
    let mut cluster = with_records().await;
    cluster.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    grow(&mut cluster).await;
    let is_moving = |number: u8| cluster.control(number).read().layouts().is_moving();
    let running = cluster.running();
    cluster.until("all know both layouts", || running.iter().all(|each| is_moving(*each))).await;
    let name = name_of_new(&cluster);
    for number in 1..=NEW {
        check_answers(&cluster, number, "set", name, SIZE).await;
        check_answers(&cluster, number, "map", name, SIZE).await;
    }
    // A copy that is still being filled joins what is added meanwhile, and nothing else.
    for (number, added) in (1..=NEW).zip(SIZE..) {
        let (set, map) = (key_in("set", name), key_in("map", name));
        add(&cluster, number, set, vec![element(added)], Quorum::All).await;
        add_in_map(&cluster, number, map, vec![element(added)], Quorum::All).await;
        for reader in 1..=NEW {
            check_answers(&cluster, reader, "set", name, added + 1).await;
            check_answers(&cluster, reader, "map", name, added + 1).await;
        }
    }
    let newest = cluster.control(1).read().layouts().newest().version();
    let of_new = size_in_copy(&cluster, NEW, key_in("set", name), newest).await;
    assert_eq!(of_new, Ok(u64::from(NEW)), "the new copy has what was added alone");
    cluster.set_limits(TransferLimits::default());
    cluster.until("the copies are complete", || running.iter().all(|each| !is_moving(*each))).await;
    let of_new = size_in_copy(&cluster, NEW, key_in("set", name), newest).await;
    assert_eq!(of_new, Ok(SIZE + u64::from(NEW)));
}

/// By the newest layout the node has nothing of the record, which is no reason to refuse.
#[tokio::test(start_paused = true)]
async fn a_node_without_its_former_copy_refuses_questions_by_the_layout_of_that_copy() {
    let mut cluster = with_records().await;
    let before = cluster.control(1).read().layouts().newest().version();
    let lacks_second = |cluster: &TestCluster, name: &&'static str| {
        !cluster.primaries_of(1, key_in("set", name), 3).contains(&id(2))
    };
    for name in NAMES {
        let of_second = size_in_copy(&cluster, 2, key_in("set", name), before).await;
        assert_eq!(of_second, Ok(SIZE));
    }
    grow(&mut cluster).await;
    cluster.until_moved(1, 0).await;
    let now = cluster.control(1).read().layouts().newest().version();
    let name = NAMES.iter().find(|name| lacks_second(&cluster, name)).expect("it gives some away");
    let key = key_in("set", name);
    cluster.until("the copy is removed", || cluster.record(2, key).is_none()).await;
    assert_eq!(size_in_copy(&cluster, 2, key, now).await, Ok(0));
    assert_eq!(size_in_copy(&cluster, 2, key, before).await, Err(REFUSED_STALE_LAYOUT));
}
