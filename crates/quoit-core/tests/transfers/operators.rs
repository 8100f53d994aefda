use crate::fixture::{TestCluster, id};
use quoit_core::{LimitChange, TransferLimits};
use std::time::Duration;

const COUNT: usize = 100;

#[tokio::test(start_paused = true)]
async fn any_node_tells_what_all_store_and_hand_over() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.put_many(1, COUNT).await;
    let told = cluster.store(2).transfers().reports().await;
    assert_eq!(told.keys().copied().collect::<Vec<_>>(), [id(1), id(2), id(3)]);
    for node in told.values() {
        assert!(node.live_bytes > 0);
        assert_eq!(node.limits, TransferLimits::default());
    }
    cluster.kill(3);
    let told = cluster.store(2).transfers().reports().await;
    assert!(!told.contains_key(&id(3)) && told.len() == 2, "the dead do not answer");
}

#[tokio::test(start_paused = true)]
async fn a_plan_tells_how_much_moves_and_how_long_it_takes() {
    let cluster = TestCluster::alone(4).await;
    for number in 2..=3 {
        cluster.join(number).await;
    }
    cluster.commit(1).await;
    cluster.until_moved(1, 0).await;
    cluster.put_many(1, COUNT).await;
    cluster.set_limits(TransferLimits { bytes_per_sec_max: 100, ..TransferLimits::default() });
    cluster.join(4).await;
    let plan = cluster.control(1).plan().unwrap();
    let estimate = cluster.store(1).transfers().estimate(&plan).await;
    let stored = cluster.store(1).transfers().reports().await[&id(1)].live_bytes as f64;
    let moved = estimate.byte_count.unwrap() as f64;
    // The fourth node gets three quarters of the amount that each of the other three has; afterwards
    // all have equal amounts.
    assert!((moved / stored - 0.75).abs() < 0.1, "{moved} of {stored}");
    assert!(estimate.transfers.iter().all(|each| each.transfer.to == id(4)));
    let longest = estimate.secs.unwrap();
    assert!(longest > 0.0 && longest < moved / 100.0, "they send at the same time");
}

#[tokio::test(start_paused = true)]
async fn limits_of_all_nodes_change_through_one() {
    let cluster = TestCluster::joined(3).await;
    let change = LimitChange { partition_count_max: Some(7), ..LimitChange::default() };
    let told = cluster.store(1).transfers().change_limits(&[id(1), id(3)], change).await;
    assert_eq!(told.len(), 2);
    assert!(told.values().all(|node| node.limits.partition_count_max == 7));
    let limits = |number| cluster.store(number).transfers().limits().partition_count_max;
    assert_eq!([limits(1), limits(2), limits(3)], [7, 2, 7]);
}

#[tokio::test(start_paused = true)]
async fn what_is_switched_off_at_either_end_waits_until_it_is_switched_on() {
    for off in [
        LimitChange { inbound: Some(false), ..LimitChange::default() },
        LimitChange { outbound: Some(false), ..LimitChange::default() },
    ] {
        let mut cluster = TestCluster::joined(3).await;
        cluster.put_many(2, COUNT).await;
        cluster.add().await;
        cluster.join(4).await;
        let all: Vec<_> = (1..=4).map(id).collect();
        cluster.store(1).transfers().change_limits(&all, off).await;
        cluster.commit(1).await;
        cluster.pass(Duration::from_secs(30)).await;
        let has = |index| cluster.holders(&format!("key {index}")).contains(&id(4));
        assert!((0..COUNT).all(|index| !has(index)), "{off:?}");
        let on = LimitChange {
            inbound: off.inbound.map(|_| true),
            outbound: off.outbound.map(|_| true),
            ..LimitChange::default()
        };
        cluster.store(4).transfers().change_limits(&all, on).await;
        cluster.until_moved(4, COUNT).await;
    }
}
