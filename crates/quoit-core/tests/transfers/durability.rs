//! Tests of acknowledged writes, and of the disks that have them.

use crate::fixture::{TestCluster, id, key};
use quoit_cluster::Lane;
use quoit_core::{DeleteRequest, PutRequest};
use quoit_testkit::put_of;
use quoit_wire::internode::transfer::{METHOD_OFFER, Offer};
use std::sync::Arc;
use std::time::Duration;

/// `dw` is a quorum: two of three. One disk is not enough, whether it is the coordinator's or not, and
/// replicas that have accepted the value without syncing it do not count.
#[tokio::test(start_paused = true)]
async fn a_put_is_acknowledged_when_as_many_disks_as_dw_wants_have_it() {
    let cluster = TestCluster::joined_on_strict_disks(3).await;
    for (name, [first, second]) in [("own first", [1, 2]), ("own last", [2, 1]), ("others", [3, 2])]
    {
        let store = Arc::clone(cluster.store(1));
        let put = tokio::spawn(async move { store.put(put_of(key(name), "value")).await });
        cluster.until("all replicas have it", || cluster.holders(name).len() == 3).await;
        cluster.sync_log(first);
        cluster.pass(Duration::from_secs(1)).await;
        assert!(!put.is_finished(), "{name}: acknowledged with one disk");
        cluster.sync_log(second);
        put.await.unwrap().unwrap();
        (1..=3).for_each(|number| cluster.sync(number));
    }
}

/// The disk of a node that has come back syncs late. The hint stays until that disk has the record,
/// because a power cut would lose it before.
#[tokio::test(start_paused = true)]
async fn a_hint_goes_when_the_disk_of_its_node_has_the_record() {
    let mut cluster = TestCluster::joined_on_strict_disks(3).await;
    cluster.kill(3);
    let store = Arc::clone(cluster.store(1));
    let put = tokio::spawn(async move { store.put(put_of(key("k"), "value")).await });
    cluster.until("the others have it", || cluster.holders("k").len() == 2).await;
    (1..=2).for_each(|number| cluster.sync_log(number));
    put.await.unwrap().unwrap();
    cluster.until("a hint is kept", || cluster.hint_counts(1).0 == 1).await;
    cluster.start(3).await;
    cluster.until("the record is delivered", || cluster.holders("k").len() == 3).await;
    cluster.pass(Duration::from_secs(1)).await;
    assert_eq!(cluster.hint_counts(1).0, 1, "the record is on no disk of the node yet");
    cluster
        .until("the hint goes", || {
            cluster.sync_log(3);
            cluster.hint_counts(1).0 == 0
        })
        .await;
}

/// The node that offers records removes its own copies when the others say that they have them.
#[tokio::test(start_paused = true)]
async fn an_offered_record_that_a_node_has_already_is_on_its_disk_when_it_answers() {
    const COUNT: usize = 30;
    let mut cluster = TestCluster::joined_on_disks(3).await;
    cluster.put_many(1, COUNT).await;
    cluster.until_moved(1, COUNT).await;
    let layout_version = cluster.control(1).read().layouts().newest().version();
    for (partition, key, record) in cluster.records(1) {
        let offer = Offer {
            partition: u32::from(partition.0),
            layout_version,
            keys: vec![key],
            digests: vec![record.meta.digest],
            ..Offer::default()
        };
        let peer = cluster.internode(1).peer(id(2)).expect("they know each other");
        let second = Duration::from_secs(1);
        peer.call(METHOD_OFFER, &offer, b"", Lane::Large, second).await.unwrap();
    }
    cluster.lose_power(2);
    for index in 0..COUNT {
        assert!(cluster.holders(&format!("key {index}")).contains(&id(2)), "{index} is lost");
    }
}

/// The disk of one of three primaries syncs late. The tombstones are reaped only once that disk has
/// them, too. After a power cut it then has the tombstones or reap records, but not the values from
/// before the deletes.
#[tokio::test(start_paused = true)]
async fn a_tombstone_is_reaped_when_the_disk_of_each_primary_has_it() {
    const COUNT: usize = 20;
    let mut cluster = TestCluster::joined_on_strict_disks(3).await;
    let names: Vec<String> = (0..COUNT).map(|index| format!("key {index}")).collect();
    for name in &names {
        let (store, of_put) = (Arc::clone(cluster.store(1)), name.clone());
        let put = tokio::spawn(async move {
            store.put(PutRequest::of(key(&of_put), "value".into())).await.map(drop)
        });
        cluster.until("all replicas have it", || cluster.holders(name).len() == 3).await;
        (1..=3).for_each(|number| {
            cluster.sync_log(number);
            cluster.sync(number);
        });
        put.await.unwrap().unwrap();
    }
    let is_deleted = |cluster: &TestCluster, number, name: &str| {
        cluster.stored(number, key(name)).is_none_or(|object| object.is_tombstone())
    };
    for name in &names {
        let (store, of_delete) = (Arc::clone(cluster.store(1)), name.clone());
        let delete = tokio::spawn(async move {
            store.delete(DeleteRequest::of(key(&of_delete))).await.map(drop)
        });
        cluster
            .until("all replicas have the tombstone", || {
                (1..=3).all(|number| is_deleted(&cluster, number, name))
            })
            .await;
        (1..=2).for_each(|number| cluster.sync_log(number));
        delete.await.unwrap().unwrap();
    }
    let is_reaped =
        |name: &String| (1..=3).all(|number| cluster.stored(number, key(name)).is_none());
    for _ in 0..120 {
        if names.iter().all(is_reaped) {
            break;
        }
        cluster.pass(Duration::from_secs(1)).await;
    }
    assert!(names.iter().all(is_reaped), "tombstones stay");
    cluster.lose_power(3);
    for name in &names {
        assert!(is_deleted(&cluster, 3, name), "{name}");
    }
}
