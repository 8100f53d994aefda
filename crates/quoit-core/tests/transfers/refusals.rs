use crate::fixture::{TestCluster, id, key};
use prost::Message;
use quoit_cluster::{CallError, Lane};
use quoit_core::TransferLimits;
use quoit_wire::internode::data::{REFUSED_MALFORMED, REFUSED_STALE_LAYOUT};
use quoit_wire::internode::reap::{
    HeldTombstones, HoldTombstones, METHOD_HOLD, METHOD_REAP, Reap, Tombstone,
};
use quoit_wire::internode::transfer::{
    Complete, Completed, Deliver, DeliveredRecord, METHOD_COMPLETE, METHOD_DELIVER, METHOD_OFFER,
    Offer,
};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(5);

async fn call(
    cluster: &TestCluster,
    method: u16,
    header: &impl Message,
) -> Result<bytes::Bytes, u32> {
    let peer = cluster.internode(1).peer(id(2)).expect("they know each other");
    match peer.call(method, header, b"short", Lane::Large, TIMEOUT).await {
        Ok(reply) => Ok(reply.header),
        Err(CallError::Refused { code, .. }) => Err(code),
        Err(fault) => panic!("{fault}"),
    }
}

fn record(size_bytes: u32) -> DeliveredRecord {
    let key = key("key").encoded().to_vec().into();
    DeliveredRecord { key, size_bytes, ..DeliveredRecord::default() }
}

#[tokio::test(start_paused = true)]
async fn messages_that_make_no_sense_are_refused() {
    let cluster = TestCluster::joined(2).await;
    let layout_version = cluster.control(1).read().layouts().oldest_version();
    let offer = Offer { layout_version, ..Offer::default() };
    let no_digest = Offer { keys: vec![record(0).key], ..offer.clone() };
    let no_name =
        Offer { keys: vec![b"\xff".as_slice().into()], digests: vec![1], ..offer.clone() };
    let no_partition =
        Offer { partition: 16, keys: vec![record(0).key], digests: vec![1], ..offer };
    for offer in [no_digest, no_name, no_partition] {
        assert_eq!(call(&cluster, METHOD_OFFER, &offer).await, Err(REFUSED_MALFORMED));
    }
    let records = vec![record(6)];
    let cut_off = Deliver { partition: 0, layout_version, records, is_minimum_rate: false };
    assert_eq!(call(&cluster, METHOD_DELIVER, &cut_off).await, Err(REFUSED_MALFORMED));
}

#[tokio::test(start_paused = true)]
async fn who_knows_no_live_layout_is_refused() {
    let cluster = TestCluster::joined(2).await;
    let layout_version = cluster.control(1).read().layouts().oldest_version() - 1;
    let offer = Offer { layout_version, ..Offer::default() };
    assert_eq!(call(&cluster, METHOD_OFFER, &offer).await, Err(REFUSED_STALE_LAYOUT));
}

#[tokio::test(start_paused = true)]
async fn tombstones_are_neither_held_nor_reaped_while_layouts_change() {
    let mut cluster = TestCluster::joined(2).await;
    let settled = cluster.control(1).read().layouts().oldest_version();
    assert_eq!(tombstones_by(&cluster, settled).await, [true, true]);
    cluster.set_limits(TransferLimits { outbound: false, ..TransferLimits::default() });
    cluster.add().await;
    cluster.join(3).await;
    cluster.commit(1).await;
    let is_moving = || cluster.control(2).read().layouts().is_moving();
    cluster.until("the second node knows it", is_moving).await;
    assert_eq!(tombstones_by(&cluster, settled).await, [false, false]);
}

/// A client has written the record since all primaries held its tombstone.
#[tokio::test(start_paused = true)]
async fn a_record_that_was_written_again_is_not_reaped_and_gets_no_reap_record() {
    let cluster = TestCluster::joined(2).await;
    cluster.put_many(1, 1).await;
    cluster.until_moved(1, 1).await;
    let at = key("key 0");
    let layout_version = cluster.control(1).read().layouts().oldest_version();
    let tombstone = Tombstone {
        key: at.encoded().to_vec().into(),
        partition: cluster.partition_of(at).0.into(),
        digest: 7,
        ..Tombstone::default()
    };
    let reap = Reap { layout_version, tombstones: vec![tombstone] };
    let answer = call(&cluster, METHOD_REAP, &reap).await.unwrap();
    let agreed = HeldTombstones::decode(answer).unwrap().agreed;
    assert_eq!(agreed[0], 0, "the tombstone is not gone, but replaced");
    assert_eq!(cluster.store(2).reap_record_stats().count, 0);
    assert!(cluster.holders("key 0").contains(&id(2)));
}

/// Whether the second node agrees to hold, and to reap, tombstones under a layout.
async fn tombstones_by(cluster: &TestCluster, layout_version: u64) -> [bool; 2] {
    let (hold, reap) = (
        HoldTombstones { layout_version, ..HoldTombstones::default() },
        Reap { layout_version, ..Reap::default() },
    );
    let answers =
        [call(cluster, METHOD_HOLD, &hold).await, call(cluster, METHOD_REAP, &reap).await];
    answers.map(|answer| match answer {
        Ok(_) => true,
        Err(code) => {
            assert_eq!(code, REFUSED_STALE_LAYOUT);
            false
        }
    })
}

#[tokio::test(start_paused = true)]
async fn completion_for_another_layout_is_not_noted() {
    let cluster = TestCluster::joined(2).await;
    let newest = cluster.control(1).read().layouts().newest().version();
    for (partition, layout_version, noted) in
        [(0, newest, true), (0, newest + 1, false), (0, newest - 1, false), (16, newest, false)]
    {
        let complete = Complete { partition, layout_version, loss: 0 };
        let answer = call(&cluster, METHOD_COMPLETE, &complete).await.unwrap();
        assert_eq!(Completed::decode(answer), Ok(Completed { noted }));
    }
}
