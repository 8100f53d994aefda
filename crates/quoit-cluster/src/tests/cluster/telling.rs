//! Reports of members to the cluster that need no decision.

use super::*;
use tokio::task::JoinSet;

const TOLD_COUNT: u8 = 30;

#[tokio::test(start_paused = true)]
async fn what_many_tell_at_once_becomes_few_entries() {
    let cluster = TestCluster::joined(3).await;
    cluster.until_equal().await;
    let before = cluster.state(1).version();
    let served = cluster.state(1).serves();
    let mut telling = JoinSet::new();
    for number in 0..TOLD_COUNT {
        let control = Arc::clone(cluster.control(number % 3 + 1));
        telling.spawn(async move { control.acknowledge(served).await });
    }
    for told in telling.join_all().await {
        told.unwrap();
    }
    let entry_count = cluster.state(1).version() - before;
    assert!((1..=5).contains(&entry_count), "{entry_count} entries");
}

#[tokio::test(start_paused = true)]
async fn what_is_told_together_takes_effect_as_if_told_alone() {
    let mut cluster = TestCluster::joined(3).await;
    cluster.nodes.push(Node { number: 4, disk: FaultyDisk::new(4), process: None });
    cluster.start(4).await;
    cluster.join(4, 1).await.unwrap();
    cluster.commit(1).await;
    cluster.until_equal().await;
    let state = cluster.state(1);
    let missing: Vec<(Partition, NodeId)> = state.layouts().incomplete().collect();
    assert!(missing.len() > 4);
    let mut telling = JoinSet::new();
    for (partition, node) in missing {
        let number = (1..=4).find(|number| id(*number) == node).expect("it is one of the four");
        let control = Arc::clone(cluster.control(number));
        telling.spawn(async move { control.report_moved(&[partition]).await });
    }
    for told in telling.join_all().await {
        told.unwrap();
    }
    cluster.until("the old layout retires", || !cluster.state(1).layouts().is_moving()).await;
}
