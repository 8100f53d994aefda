//! Reports of members to the cluster that need no decision.

use super::*;
use tokio::task::JoinSet;
use tokio::time::timeout;

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

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_gives_up_what_it_has_proposed() {
    let cluster = TestCluster::joined(3).await;
    cluster.until_equal().await;
    let leader = cluster.control(1).claimant().expect("one leads").0[0];
    for other in [1, 2, 3].into_iter().filter(|other| *other != leader) {
        for (from, to) in [(leader, other), (other, leader)] {
            cluster.network.silence(&format!("n{from}"), &format!("n{to}"));
        }
    }
    let served = cluster.state(leader).serves();
    let told = timeout(Duration::from_secs(60), cluster.control(leader).acknowledge(served)).await;
    let error = told.expect("nobody waits for ever").expect_err("nobody has agreed");
    assert!(error.to_string().contains("no leader"), "{error}");
}
