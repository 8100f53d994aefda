//! Liveness: which nodes count as up.

use super::*;
use tokio::time::Instant;

#[tokio::test(start_paused = true)]
async fn an_idle_connection_stays_up_by_heartbeats() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    echo(&peer, b"x").await.unwrap();
    for _ in 0..600 {
        sleep(Duration::from_millis(100)).await;
        assert!(peer.is_up());
        assert!(peer.phi() < 3.0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stalled_node_is_avoided_soon_suspected_within_two_seconds_and_forgiven() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    for _ in 0..50 {
        echo(&peer, b"x").await.unwrap();
        sleep(Duration::from_millis(20)).await;
    }
    network.silence("n2", "n1");
    let start = Instant::now();
    let mut replies = Replies::new();
    peer.send(ECHO, &(), b"", Lane::Small, &replies, 0).unwrap();
    assert!(!peer.is_stalled());
    until("it counts as stalled", || peer.is_stalled()).await;
    assert!(start.elapsed() < Duration::from_millis(100));
    assert!(peer.is_up(), "not suspected so soon");
    until("it is suspected", || !peer.is_up()).await;
    let after = start.elapsed();
    assert!(after > Duration::from_millis(500) && after < Duration::from_secs(2), "{after:?}");
    network.heal("n2", "n1");
    assert!(replies.next().await.unwrap().1.is_ok(), "the answer comes late, and comes");
    assert!(peer.is_up() && !peer.is_stalled());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_dies_is_down_at_once_and_up_soon_after_its_return() {
    let network = MemoryNetwork::default();
    let (_one, other, peer) = two(&network).await;
    echo(&peer, b"x").await.unwrap();
    let start = Instant::now();
    network.kill("n2");
    drop(other);
    until("it is down", || !peer.is_up()).await;
    assert!(start.elapsed() < Duration::from_millis(5));
    sleep(Duration::from_secs(600)).await;
    let start = Instant::now();
    let other = node(&network, 2).await;
    other.set_peers(&members(&[1, 2]));
    until("it is up", || peer.is_up()).await;
    assert!(start.elapsed() < Duration::from_millis(50), "it has dialed, so it is dialed");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_silent_for_long_is_given_up_and_dialed_again() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    echo(&peer, b"x").await.unwrap();
    network.silence("n1", "n2");
    let mut replies = Replies::new();
    peer.send(ECHO, &(), b"", Lane::Small, &replies, 0).unwrap();
    let (_, answer) = replies.next().await.unwrap();
    assert!(matches!(answer, Err(CallError::Disconnected(_))), "{answer:?}");
    network.heal("n1", "n2");
    until("it is up", || peer.is_up()).await;
    assert_eq!(echo(&peer, b"x").await.unwrap(), "x");
}

#[tokio::test(start_paused = true)]
async fn latency_is_known() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    echo(&peer, b"x").await.unwrap();
    network.set_delay("n1", "n2", Duration::from_millis(2));
    network.set_delay("n2", "n1", Duration::from_millis(1));
    for _ in 0..300 {
        echo(&peer, b"x").await.unwrap();
    }
    let latency = peer.latency_us();
    assert!((2_900..5_000).contains(&latency.mean_us), "{latency:?}");
    assert!((2_900..6_000).contains(&latency.high_us), "{latency:?}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_has_just_started_judges_when_it_has_reached_or_missed_everybody() {
    let network = MemoryNetwork::default();
    let one = node(&network, 1).await;
    assert!(one.is_settled(), "there is nobody to judge");
    let _other = node(&network, 2).await;
    network.set_delay("n1", "n2", Duration::from_millis(20));
    one.set_peers(&members(&[1, 2, 3]));
    assert!(!one.is_settled());
    let start = Instant::now();
    one.settled(start + Duration::from_secs(60)).await;
    assert!(one.peer(id(2)).unwrap().is_up() && !one.peer(id(3)).unwrap().is_up());
    assert!(start.elapsed() < Duration::from_millis(200), "a refusal is an answer");
}

#[tokio::test(start_paused = true)]
async fn who_neither_answers_nor_refuses_is_not_waited_for_long() {
    let network = MemoryNetwork::default();
    let (one, _other) = (node(&network, 1).await, node(&network, 2).await);
    network.silence("n2", "n1");
    one.set_peers(&members(&[1, 2]));
    let start = Instant::now();
    one.settled(start + Duration::from_millis(100)).await;
    assert!(!one.is_settled() && start.elapsed() < Duration::from_millis(120));
    one.settled(start + Duration::from_secs(60)).await;
    assert!(one.is_settled() && start.elapsed() < Duration::from_secs(4));
}
