//! Tests of checks of a whole node with a peer that answers from a script.

use super::*;
use crate::test_peer::{frame_of, start_peer, unknown_request};
use bytes::{Bytes, BytesMut};
use quoit_core::{
    ArcRange, ClusterQuestion, ComparedRecord, MachineBoot, PutRequest, SourceQueueSettings,
    SourceQueues,
};
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::context::{decode_context, encode_context};
use quoit_model::hash::RingSize;
use quoit_model::key::BucketRef;
use quoit_model::props::PropUpdates;
use quoit_seam::{Disk, FaultyDisk, SystemClock};
use quoit_testkit::{TestNode, key};
use quoit_wire::Frame;
use quoit_wire::messages::{
    RpbAaeFoldMergeRootNValReq, RpbAaeFoldTreeResp, RpbClusterDigestsReq, RpbClusterDigestsResp,
    RpbComparedRecord, RpbQueuePutReq, RpbQueuePutResp,
};
use serde_json::Map;

const RECORD_COUNT: u64 = 100;
/// A number of records for which a check compares 16 ranges of each arc, a quarter of them in a request.
const TOLD_COUNT: u64 = 64 * 16 * 16;

/// Records of the other cluster.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Records {
    /// As they are here.
    Equal,
    /// Each with one event more.
    Newer,
    /// As they are here, except that those of one arc can't be reported.
    Missing,
}

/// A node with some records, whose source queues are on `disk`.
async fn store(disk: &FaultyDisk) -> Arc<ReplicatedStore> {
    let settings = SourceQueueSettings { is_enabled: true, ..SourceQueueSettings::default() };
    let queues =
        SourceQueues::open(Arc::new(disk.clone()), settings, MachineBoot(1)).expect("it opens");
    let mut node = TestNode::new(1, "a", Arc::<SystemClock>::default());
    node.ring_size = RingSize::new(64).expect("a power of two");
    node.auxiliary.source_queues = Some(queues);
    let store = node.assemble().expect("a node").store;
    for number in 0..RECORD_COUNT {
        let name = number.to_string();
        let put = PutRequest::of(key(&name), Bytes::from_static(b"v"));
        store.put(put).await.expect("it is stored");
    }
    store
}

/// Full-sync of a node with a cluster that has these records.
async fn full_sync(
    store: &Arc<ReplicatedStore>,
    records: Records,
    settings: FullSyncSettings,
) -> FullSync {
    let there = Arc::clone(store);
    let peer = start_peer(move |frame| answer(Arc::clone(&there), records, frame)).await;
    let settings = FullSyncSettings { peer: Some(peer), ..settings };
    FullSync::new(Arc::clone(store), settings, PeerDialer::default())
}

/// Answer of the other cluster: the one that this cluster would give, with a change.
async fn answer(store: Arc<ReplicatedStore>, records: Records, frame: Frame) -> BytesMut {
    let unknown = unknown_request(&frame);
    if frame.clone().decode::<RpbQueuePutReq>().is_ok() {
        return frame_of(&RpbQueuePutResp { queue_exists: true, waiting: None });
    }
    let Ok(request) = frame.decode::<RpbClusterDigestsReq>() else { return unknown };
    let pairs = request.arcs.iter().zip(&request.ranges);
    let range = |(arc, range): (&u32, &u64)| ArcRange { arc: *arc as u16, range: *range };
    let ranges: Vec<ArcRange> = pairs.map(range).collect();
    let question = ClusterQuestion {
        arc_count: request.arc_count as u16,
        hour_min: request.hour_min,
        ranges: &ranges,
        wants_records: request.records == Some(true),
        other: None,
        is_rebase: false,
    };
    let told = store.replication().cluster_digests(question).await.expect("digests");
    let change = u64::from(records == Records::Newer);
    let digests = told.digests.iter().flat_map(|digest| (digest ^ change).to_le_bytes());
    let record = |record: ComparedRecord| RpbComparedRecord {
        clock: if records == Records::Newer { with_event(&record.clock) } else { record.clock },
        key: record.key,
        digest: record.digest ^ change,
        tombstone: record.is_tombstone,
        modified_us: record.modified_us + change,
    };
    frame_of(&RpbClusterDigestsResp {
        cluster: Bytes::from_static(&[9; 16]),
        ring_size: 64,
        digests: Some(digests.collect::<Vec<u8>>().into()),
        records: told.records.into_iter().map(record).collect(),
        missing_arcs: if records == Records::Missing { vec![0] } else { Vec::new() },
        key_count: Some(TOLD_COUNT),
    })
}

fn with_event(clock: &[u8]) -> Bytes {
    let mut clock = decode_context(clock).expect("a clock");
    let actor = Actor([9; 8].into_iter().collect());
    clock.merge(&VersionVector::from_entries([Dot { actor, counter: 1, time_secs: 0 }]));
    encode_context(&clock)
}

#[tokio::test]
async fn a_check_that_ends_at_its_maximum_does_not_say_that_the_other_cluster_lacks_nothing() {
    let store = store(&FaultyDisk::new(1)).await;
    let check = async |repair_count_max, peer_queue: Option<&str>| {
        let settings = FullSyncSettings {
            repair_count_max,
            peer_queue: peer_queue.map(str::to_owned),
            ..FullSyncSettings::default()
        };
        full_sync(&store, Records::Newer, settings).await.check(CheckKind::All).await
    };
    // Without a queue there, the records are queued nowhere and do not count.
    for (repair_count_max, queue) in [(1_000_000, Some("q")), (1, None)] {
        let whole = check(repair_count_max, queue).await;
        assert_eq!((whole.fault.as_deref(), whole.source_ahead), (None, 0));
        assert_eq!((whole.sink_ahead, whole.left_range_count), (RECORD_COUNT, 0));
        assert!(whole.is_sink_complete());
    }
    let cut = check(1, Some("q")).await;
    assert_eq!((cut.fault.as_deref(), cut.source_ahead), (None, 0));
    assert!(cut.sink_ahead < RECORD_COUNT && cut.left_range_count > 0, "{cut:?}");
    assert!(!cut.is_sink_complete());
}

#[tokio::test]
async fn only_a_check_of_all_buckets_settles_losses() {
    for (scope, is_settled) in [(FullSyncScope::All, true), (FullSyncScope::Bucket, false)] {
        let disk = FaultyDisk::new(1);
        let store = store(&disk).await;
        let bucket = Some(("default".to_owned(), "bucket".to_owned()));
        let settings = FullSyncSettings { scope, bucket, ..FullSyncSettings::default() };
        let full_sync = full_sync(&store, Records::Equal, settings).await;
        assert!(store.source_queues().take_loss(), "the disk is new");
        let report = full_sync.check(CheckKind::All).await;
        assert_eq!(report.state(), FullSyncState::InSync);
        full_sync.settle_losses(&report);
        store.source_queues().flush().expect("the disk is well");
        let is_complete = disk.list().expect("names").iter().any(|name| name == "COMPLETE");
        assert_eq!(is_complete, is_settled, "{scope:?}");
    }
}

#[tokio::test]
async fn a_loss_wants_further_checks_while_some_records_could_not_be_compared() {
    let settings = || FullSyncSettings { scope: FullSyncScope::All, ..FullSyncSettings::default() };
    let bucket = Some(("default".to_owned(), "bucket".to_owned()));
    let of_bucket = FullSyncSettings { scope: FullSyncScope::Bucket, bucket, ..settings() };
    let store = store(&FaultyDisk::new(1)).await;
    assert!(store.source_queues().take_loss(), "the disk is new");
    for (records, settings, wants_more) in [
        (Records::Missing, of_bucket, false),
        (Records::Missing, settings(), true),
        (Records::Equal, settings(), false),
        // The loss is settled now.
        (Records::Missing, settings(), false),
    ] {
        let full_sync = full_sync(&store, records, settings).await;
        let report = full_sync.check(CheckKind::All).await;
        assert_eq!((report.fault.as_deref(), report.has_repaired()), (None, false));
        assert_eq!(full_sync.wants_more_after(&report, true), wants_more, "{report:?}");
    }
}

async fn set_n_val(store: &ReplicatedStore, n_val: u32) {
    let updates = PropUpdates::from(Map::from_iter([("n_val".to_owned(), n_val.into())]));
    let bucket = BucketRef::untyped(b"other");
    store.control().set_bucket_props(bucket, &updates).await.expect("a good n_val");
}

/// Answer of a Riak cluster with the same records. Before it, the `n_val` of a bucket is set here.
async fn answer_of_riak(store: Arc<ReplicatedStore>, n_val: u32, frame: Frame) -> BytesMut {
    let unknown = unknown_request(&frame);
    let Ok(request) = frame.decode::<RpbAaeFoldMergeRootNValReq>() else { return unknown };
    let root = store.riak_trees().root(request.n_val).await.expect("a root");
    set_n_val(&store, n_val).await;
    frame_of(&RpbAaeFoldTreeResp { size: 3, level_one: Some(root), level_two: Vec::new() })
}

#[tokio::test]
async fn a_check_with_a_riak_settles_losses_only_if_all_buckets_have_its_n_val_all_the_time() {
    for (before, after, settles) in [(3, 3, true), (2, 2, false), (2, 3, false), (3, 2, false)] {
        let store = store(&FaultyDisk::new(1)).await;
        set_n_val(&store, before).await;
        let there = Arc::clone(&store);
        let peer = start_peer(move |frame| answer_of_riak(Arc::clone(&there), after, frame)).await;
        let (scope, peer) = (FullSyncScope::All, Some(peer));
        let settings = FullSyncSettings { scope, peer, ..FullSyncSettings::default() };
        let full_sync = FullSync::new(Arc::clone(&store), settings, PeerDialer::default());
        let report = full_sync.check(CheckKind::All).await;
        assert_eq!((report.fault.as_deref(), report.state()), (None, FullSyncState::InSync));
        assert_eq!(report.settles(), settles, "{before}, then {after}");
    }
}
