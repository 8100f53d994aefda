use crate::fixture::{TestCluster, id, key_in};
use quoit_cluster::StagedChange;
use quoit_core::{ExchangeSettings, PageRecordsMax, StoreSettings, TransferKind, TransferLimits};
use std::time::Duration;
use tokio::time::Instant;

const COUNT: usize = 200;

#[tokio::test(start_paused = true)]
async fn nodes_that_join_get_their_copies_and_the_others_drop_theirs() {
    let cluster = TestCluster::alone(5).await;
    cluster.put_many(1, COUNT).await;
    for number in 2..=5 {
        cluster.join(number).await;
    }
    cluster.commit(3).await;
    cluster.until_moved(4, COUNT).await;
}

/// Nodes without anti-entropy, so that records come only with the transfers of partitions.
#[tokio::test(start_paused = true)]
async fn copies_of_many_pages_come_whole() {
    let exchanges = ExchangeSettings { active: false, ..ExchangeSettings::default() };
    let page_records_max = PageRecordsMax(2);
    let settings = StoreSettings { exchanges, page_records_max, ..StoreSettings::default() };
    let cluster = TestCluster::with(2, settings).await;
    cluster.put_many(1, COUNT).await;
    cluster.join(2).await;
    cluster.commit(1).await;
    cluster.until_moved(1, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_ran_alone_brings_its_data_along() {
    let cluster = TestCluster::alone(4).await;
    cluster.put_many(4, COUNT).await;
    for number in 2..=4 {
        cluster.join(number).await;
    }
    cluster.commit(1).await;
    cluster.until_moved(2, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_hands_everything_over() {
    let cluster = TestCluster::joined(5).await;
    cluster.put_many(2, COUNT).await;
    cluster.stage(StagedChange::Leave { node: id(5) }).await;
    cluster.commit(1).await;
    cluster.until_moved(1, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn copies_of_a_removed_node_are_made_anew_from_the_others() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.put_many(2, COUNT).await;
    cluster.kill(5);
    cluster.stage(StagedChange::ForceRemove { node: id(5) }).await;
    cluster.commit(1).await;
    cluster.until_moved(1, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn a_dead_node_is_replaced_by_one_that_gets_its_copies_from_the_others() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.put_many(2, COUNT).await;
    cluster.add().await;
    cluster.join(6).await;
    cluster.kill(5);
    cluster.stage(StagedChange::ForceReplace { old: id(5), new: id(6) }).await;
    cluster.commit(1).await;
    cluster.until_moved(6, COUNT).await;
}

/// The new node has records that it would share with the absent primary, too.
#[tokio::test(start_paused = true)]
async fn copies_of_a_node_that_brings_records_along_do_not_wait_for_a_member_marked_as_down() {
    let mut cluster = TestCluster::joined(4).await;
    cluster.add().await;
    cluster.put_many(5, COUNT).await;
    cluster.kill(4);
    cluster.until("the death is seen", || !cluster.control(1).is_reachable(id(4))).await;
    cluster.control(1).mark_down(id(4)).await.unwrap();
    cluster.join(5).await;
    cluster.commit(1).await;
    cluster
        .until("all copies of the new node are complete", || {
            let state = cluster.control(1).read();
            let layouts = state.layouts();
            layouts.newest().node_index(id(5)).is_some()
                && !layouts.incomplete().any(|(_, node)| node == id(5))
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_while_it_gets_its_copies_gets_the_rest_later() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(2, COUNT).await;
    cluster.add().await;
    cluster.join(4).await;
    cluster.set_limits(TransferLimits {
        partition_count_max: 1,
        bytes_per_sec_max: 2_000,
        ..TransferLimits::default()
    });
    cluster.commit(1).await;
    let has =
        |cluster: &TestCluster, index| cluster.holders(&format!("key {index}")).contains(&id(4));
    cluster.until("some copies are made", || (0..COUNT).any(|index| has(&cluster, index))).await;
    assert!((0..COUNT).any(|index| {
        !has(&cluster, index) && cluster.primaries(1, &format!("key {index}")).contains(&id(4))
    }));
    cluster.kill(4);
    cluster.start(4).await;
    cluster.set_limits(TransferLimits::default());
    cluster.until_moved(4, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn nothing_moves_before_everybody_writes_by_the_new_layout() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(2, COUNT).await;
    cluster.add().await;
    cluster.join(4).await;
    let others = ["n1", "n2", "n4"];
    for other in others {
        cluster.network.silence("n3", other);
        cluster.network.silence(other, "n3");
    }
    cluster.commit(1).await;
    cluster.pass(Duration::from_secs(60)).await;
    let moved = |cluster: &TestCluster| {
        (0..COUNT).filter(|index| cluster.holders(&format!("key {index}")).contains(&id(4))).count()
    };
    assert_eq!(moved(&cluster), 0);
    for other in others {
        cluster.network.heal("n3", other);
        cluster.network.heal(other, "n3");
    }
    cluster.until_moved(4, COUNT).await;
    assert!(moved(&cluster) > 0);
}

#[tokio::test(start_paused = true)]
async fn a_copy_is_complete_only_when_all_its_sources_have_handed_over() {
    let mut cluster = TestCluster::joined(5).await;
    cluster.put_many(2, COUNT).await;
    cluster.kill(5);
    cluster.stage(StagedChange::ForceRemove { node: id(5) }).await;
    // Every lost copy has two sources, of which one is slow.
    let slow = TransferLimits {
        partition_count_max: 1,
        bytes_per_sec_max: 30,
        ..TransferLimits::default()
    };
    cluster.store(2).transfers().set_limits(slow);
    cluster.commit(1).await;
    cluster.pass(Duration::from_secs(20)).await;
    let incomplete_elsewhere =
        cluster.control(1).read().layouts().incomplete().filter(|(_, node)| *node != id(2)).count();
    // One of them has only the slow node as its source.
    assert!(incomplete_elsewhere > 1, "{incomplete_elsewhere}");
    cluster.store(2).transfers().set_limits(TransferLimits::default());
    cluster.until_moved(1, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn what_is_written_while_partitions_move_is_read_at_once_and_later() {
    let cluster = TestCluster::alone(5).await;
    for number in 2..=5 {
        cluster.join(number).await;
    }
    cluster.put_many(1, COUNT / 2).await;
    cluster.set_limits(TransferLimits {
        partition_count_max: 2,
        bytes_per_sec_max: 2_000,
        ..TransferLimits::default()
    });
    cluster.commit(2).await;
    let moved =
        || -> u64 { (1..=5).map(|node| cluster.store(node).transfers().stats().byte_count).sum() };
    let is_moving = || cluster.control(1).read().layouts().is_moving();
    for index in COUNT / 2..COUNT {
        let (name, value) = (format!("key {index}"), format!("value {index}"));
        let (writer, reader) = (index as u8 % 5 + 1, index as u8 % 4 + 2);
        cluster.put(writer, &name, &value).await;
        assert_eq!(cluster.get(reader, &name).await.expect("it was just written"), value);
        // Older records are readable at any time.
        let name = format!("key {}", index - COUNT / 2);
        assert!(cluster.get(reader, &name).await.is_some(), "{name}");
        let before = moved();
        cluster.until("more moves", || moved() > before || !is_moving()).await;
    }
    cluster.set_limits(TransferLimits::default());
    cluster.until_moved(3, COUNT).await;
}

#[tokio::test(start_paused = true)]
async fn transfers_tell_how_far_they_are_and_keep_their_limits() {
    let cluster = TestCluster::alone(2).await;
    for index in 0..COUNT {
        cluster.put(1, &format!("key {index}"), &"x".repeat(10_000)).await;
    }
    cluster.join(2).await;
    let limits = TransferLimits {
        partition_count_max: 3,
        bytes_per_sec_max: 100_000,
        ..TransferLimits::default()
    };
    cluster.set_limits(limits);
    cluster.commit(1).await;
    cluster
        .until("something moves", || cluster.store(1).transfers().stats().byte_count > 500_000)
        .await;
    let began = Instant::now();
    let before = cluster.store(1).transfers().stats();
    assert_eq!(before.active.len(), 3);
    let waiting = before.waiting[&id(2)];
    assert!((3..16).contains(&waiting), "{waiting} of 16 partitions wait");
    for transfer in &before.active {
        assert_eq!((transfer.kind, transfer.to), (TransferKind::Ownership, Some(id(2))));
        assert!((0.0..=1.0).contains(&transfer.fraction));
    }
    cluster
        .until("more moves", || cluster.store(1).transfers().stats().byte_count > 1_000_000)
        .await;
    let byte_count = cluster.store(1).transfers().stats().byte_count - before.byte_count;
    let rate = byte_count as f64 / began.elapsed().as_secs_f64();
    // Each transfer may have one batch under way.
    assert!((50_000.0..200_000.0).contains(&rate), "{rate} bytes a second");
    assert_eq!(cluster.store(1).transfers().limits(), limits);
}

#[tokio::test(start_paused = true)]
async fn buckets_with_fewer_replicas_keep_theirs_where_they_belong() {
    let cluster = TestCluster::alone(5).await;
    cluster.create_type("few", serde_json::json!({"n_val": 1})).await;
    cluster.create_type("many", serde_json::json!({"n_val": 5})).await;
    let names: Vec<String> = (0..50).map(|index| format!("key {index}")).collect();
    for name in &names {
        for bucket_type in ["few", "many"] {
            cluster.put_in(1, bucket_type, name, "value").await;
        }
    }
    for number in 2..=5 {
        cluster.join(number).await;
    }
    cluster.commit(1).await;
    cluster
        .until("records are on their primaries only", || {
            names.iter().all(|name| {
                [("few", 1), ("many", 5)].iter().all(|(bucket_type, n_val)| {
                    let place = key_in(bucket_type, name);
                    cluster.holders_of(place) == cluster.primaries_of(2, place, *n_val)
                })
            })
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_node_that_gets_more_votes_first_gets_what_the_others_have() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.kill(3);
    cluster.put_many(2, COUNT).await;
    cluster.start(3).await;
    cluster.until("the node is back", || cluster.control(1).is_reachable(id(3))).await;
    // Two nodes are left for three positions, so each of them has the majority of the votes for some
    // keys.
    cluster.stage(StagedChange::Leave { node: id(1) }).await;
    cluster.commit(1).await;
    let moves = |cluster: &TestCluster| cluster.control(3).read().layouts().is_moving();
    cluster.until("the layout changes", || moves(&cluster)).await;
    cluster.until("the old layout retires", || !moves(&cluster)).await;
    for index in 0..COUNT {
        let value = cluster.get(3, &format!("key {index}")).await;
        assert_eq!(value.expect("the record is there"), format!("value {index}"));
    }
}
