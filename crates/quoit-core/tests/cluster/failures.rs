//! Requests while nodes are down.

use crate::fixture::{Cluster, key, put_of, r};
use quoit_core::{
    DeleteRequest, Deleted, Precondition, PutRequest, QuorumKind, ReadOptions, RequestError,
    WriteOptions,
};
use quoit_model::props::Quorum;

const ALL: Option<Quorum> = Some(Quorum::All);

#[tokio::test(start_paused = true)]
async fn with_two_of_three_nodes_down_requests_go_on_and_strict_ones_fail_at_once() {
    let mut cluster = Cluster::of(3).await;
    let at = key("default", "k");
    cluster.nodes[0].put(at, "three up").await;
    cluster.kill(2).await;
    cluster.nodes[1].put(at, "two up").await;
    assert_eq!(cluster.nodes[0].values(at).await, ["two up"]);
    cluster.kill(1).await;
    let last = &cluster.nodes[0];
    last.put(at, "one up").await;
    assert_eq!(last.values(at).await, ["one up"]);

    let asked = tokio::time::Instant::now();
    let pr = ReadOptions { pr: Some(Quorum::Count(2)), ..r(1) };
    let failed = last.read(at, pr).await;
    assert!(
        matches!(
            failed,
            Err(RequestError::Unsatisfied { kind: QuorumKind::Pr, wanted: 2, got: 1 })
        ),
        "{failed:?}"
    );
    let strict = ReadOptions { sloppy_quorum: Some(false), ..r(2) };
    let failed = last.read(at, strict).await;
    assert!(
        matches!(failed, Err(RequestError::InsufficientVnodes { have: 1, wanted: 2 })),
        "{failed:?}"
    );
    let options = WriteOptions { pw: ALL, ..WriteOptions::default() };
    let failed = last.store.put(PutRequest { options, ..put_of(at, "no") }).await;
    assert!(
        matches!(
            failed,
            Err(RequestError::Unsatisfied { kind: QuorumKind::Pw, wanted: 3, got: 1 })
        ),
        "{failed:?}"
    );
    let options = WriteOptions { sloppy_quorum: Some(false), ..WriteOptions::default() };
    let failed = last.store.put(PutRequest { options, ..put_of(at, "no") }).await;
    assert!(
        matches!(failed, Err(RequestError::InsufficientVnodes { have: 1, wanted: 2 })),
        "{failed:?}"
    );
    assert_eq!(asked.elapsed(), std::time::Duration::ZERO, "nobody is waited for");
    assert_eq!(last.values(at).await, ["one up"], "what was refused was not written");
}

#[tokio::test(start_paused = true)]
async fn node_confirms_counts_nodes_and_not_votes() {
    let mut cluster = Cluster::of(3).await;
    let at = key("default", "k");
    cluster.kill(2).await;
    let confirms = |count| WriteOptions {
        node_confirms: Some(Quorum::Count(count)),
        ..WriteOptions::default()
    };
    let put = |count| PutRequest { options: confirms(count), ..put_of(at, "v") };
    cluster.nodes[0].store.put(put(2)).await.unwrap();
    let failed = cluster.nodes[0].store.put(put(3)).await;
    assert!(
        matches!(
            failed,
            Err(RequestError::Unsatisfied { kind: QuorumKind::NodeConfirms, wanted: 3, got: 2 })
        ),
        "{failed:?}"
    );
    let read = ReadOptions { node_confirms: Some(Quorum::Count(3)), ..r(1) };
    let failed = cluster.nodes[0].read(at, read).await;
    assert!(
        matches!(failed, Err(RequestError::InsufficientNodes { have: 2, wanted: 3 })),
        "{failed:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_fallback_stands_in_for_a_dead_primary() {
    let mut cluster = Cluster::of(5).await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    cluster.kill(3).await;
    for name in names {
        let at = key("default", name);
        let options = WriteOptions {
            w: ALL,
            node_confirms: Some(Quorum::Count(3)),
            ..WriteOptions::default()
        };
        cluster.nodes[0].store.put(PutRequest { options, ..put_of(at, "v") }).await.unwrap();
        let preflist = cluster.nodes[1].store.preflist(at).unwrap();
        assert_eq!(preflist.len(), 3);
        assert!(preflist.iter().all(|place| place.node != "n3@test"));
    }
    let stand_ins = |name: &&'static str| {
        let preflist = cluster.nodes[1].store.preflist(key("default", name)).unwrap();
        preflist.iter().any(|place| !place.primary)
    };
    assert!(names.iter().any(stand_ins), "the dead node was a primary of something");
}

#[tokio::test(start_paused = true)]
async fn a_stand_in_deletes_what_the_primaries_have() {
    let mut cluster = Cluster::of(5).await;
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for name in names {
        let options = WriteOptions { w: ALL, ..WriteOptions::default() };
        let put = PutRequest { options, ..put_of(key("default", name), "v") };
        cluster.nodes[0].store.put(put).await.unwrap();
    }
    cluster.kill(3).await;
    let mut stand_in_count = 0;
    for name in names {
        let at = key("default", name);
        let preflist = cluster.nodes[0].store.preflist(at).unwrap();
        let Some(place) = preflist.iter().find(|place| !place.primary) else { continue };
        let stand_in = cluster.nodes.iter().find(|node| node.name() == place.node).unwrap();
        stand_in_count += 1;
        // It has nothing of its own yet.
        let precondition = Precondition { not_exists: true, ..Precondition::default() };
        let put = PutRequest { precondition, ..put_of(at, "no") };
        let refused = stand_in.store.put(put).await;
        assert!(matches!(refused, Err(RequestError::Unmet(_))), "{refused:?}");
        assert_eq!(stand_in.store.delete(DeleteRequest::of(at)).await.unwrap(), Deleted::Done);
        for node in &cluster.nodes {
            assert!(node.values(at).await.is_empty(), "{name} is still there");
        }
    }
    assert!(stand_in_count > 0, "the dead node was a primary of something");
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_write_finds_another_coordinator_when_one_dies() {
    let mut cluster = Cluster::of(5).await;
    for (name, dead) in [("a", 4), ("b", 3)] {
        let at = key("default", name);
        // The connections break while the others still believe that the node is up.
        cluster.network.kill(&crate::fixture::host(dead));
        for node in &cluster.nodes[..dead] {
            node.put(at, "v").await;
            assert_eq!(node.values(at).await, ["v"]);
        }
        cluster.nodes.truncate(dead);
    }
}
