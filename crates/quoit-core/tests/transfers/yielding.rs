//! Transfers that yield to clients' requests.

use crate::fixture::*;
use quoit_core::{StoreSettings, TransferLimits};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const COUNT: usize = 200;

/// Reads from node 1 for some seconds, while messages to and from it take `delay`.
async fn read_for(cluster: &TestCluster, delay: Duration, seconds: u64) {
    for other in ["n2", "n3", "n4"] {
        cluster.network.set_delay("n1", other, delay);
        cluster.network.set_delay(other, "n1", delay);
    }
    let end = Instant::now() + Duration::from_secs(seconds);
    while Instant::now() < end {
        cluster.get(1, "key 0").await;
        // A read may end without waiting, and the paused time would then stand still.
        sleep(Duration::from_millis(1)).await;
    }
}

fn share(cluster: &TestCluster, number: u8) -> f64 {
    cluster.store(number).transfers().stats().share
}

#[tokio::test(start_paused = true)]
async fn a_sender_rests_while_requests_are_slow_and_ends_all_the_same() {
    // So slow that transfers are still running when requests become slow.
    let limits = TransferLimits { bytes_per_sec_max: 50, ..TransferLimits::default() };
    let settings = StoreSettings { transfer_limits: limits, ..StoreSettings::default() };
    let mut cluster = TestCluster::joined_with(3, settings).await;
    let clock = Arc::clone(&cluster.clock);
    // The nodes' clock advances with the network's.
    tokio::spawn(async move {
        loop {
            sleep(Duration::from_millis(1)).await;
            clock.advance_us(1_000);
        }
    });
    cluster.put_many(1, COUNT).await;
    read_for(&cluster, Duration::from_millis(2), 15).await;
    assert_eq!(share(&cluster, 1), 1.0);
    cluster.add().await;
    cluster.join(4).await;
    cluster.commit(1).await;
    cluster.until("it moves", || !cluster.store(1).transfers().stats().active.is_empty()).await;
    read_for(&cluster, Duration::from_millis(2), 5).await;
    assert_eq!(share(&cluster, 1), 1.0, "requests are as usual");
    let mut least: f64 = 1.0;
    for _ in 0..10 {
        read_for(&cluster, Duration::from_millis(10), 1).await;
        least = least.min(share(&cluster, 1));
        assert!(!cluster.store(1).transfers().stats().active.is_empty(), "it lasts");
    }
    assert!(least < 0.3, "{least}");
    cluster.set_limits(TransferLimits::default());
    cluster.until_moved(4, COUNT).await;
    cluster.until("nothing moves any more", || share(&cluster, 1) == 1.0).await;
}
