//! Streams of answers, statistics, and stopping.

use super::*;
use quoit_wire::internode::code;
use tokio::task::yield_now;

/// Starts two nodes. The first one accepts 10 answers of a stream before it uses them.
async fn two_with_narrow_streams(network: &MemoryNetwork) -> (Arc<Internode>, Arc<Internode>) {
    let mut narrow = settings(1);
    narrow.limits.stream_window_bytes = 10_000;
    let (one, other) = (node_with(network, "n1", narrow).await, node(network, 2).await);
    one.set_peers(&members(&[1, 2]));
    (one, other)
}

fn received_frames(peer: &Peer) -> u64 {
    peer.statistics().traffic.received_frames
}

#[tokio::test(start_paused = true)]
async fn a_stream_goes_on_only_as_it_is_taken() {
    let network = MemoryNetwork::default();
    let (one, _other) = two_with_narrow_streams(&network).await;
    let peer = one.peer(id(2)).unwrap();
    echo(&peer, b"x").await.unwrap();
    let before = received_frames(&peer);
    let mut replies = Replies::new();
    peer.send_stream(COUNT, &100_u64, b"", Lane::Large, &replies, 4).unwrap();
    sleep(Duration::from_millis(200)).await;
    let ahead = received_frames(&peer) - before;
    assert!((9..=12).contains(&ahead), "{ahead} answers came, nobody has taken one");
    assert_eq!(echo(&peer, b"other calls go on").await.unwrap(), "other calls go on");
    for number in 1..=100_u64 {
        let (slot, answer) = replies.next().await.unwrap();
        let reply = answer.unwrap();
        assert_eq!((slot, reply.last), (4, number == 100));
        assert_eq!(<u64 as prost::Message>::decode(&reply.header[..]), Ok(number));
    }
    assert_eq!(replies.next().await, None);
    assert_eq!(peer.pending_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_abandoned_is_cancelled_at_its_source() {
    let network = MemoryNetwork::default();
    let (one, other) = two_with_narrow_streams(&network).await;
    let peer = one.peer(id(2)).unwrap();
    let mut replies = Replies::new();
    peer.send_stream(COUNT, &1_000_000_u64, b"", Lane::Large, &replies, 0).unwrap();
    replies.next().await.unwrap().1.unwrap();
    assert_eq!(peer.pending_count(), 1);
    drop(replies);
    until("the call is over", || peer.pending_count() == 0).await;
    yield_now().await;
    let sent_frames = other.statistics().traffic.sent_frames;
    assert!(sent_frames < 40, "{sent_frames} frames were sent");
    assert!(other.stop(Duration::ZERO).await, "nothing is under way");
}

#[tokio::test(start_paused = true)]
async fn a_stream_ends_with_its_connection_on_both_sides() {
    let network = MemoryNetwork::default();
    let (one, other) = two_with_narrow_streams(&network).await;
    let peer = one.peer(id(2)).unwrap();
    let mut replies = Replies::new();
    peer.send_stream(COUNT, &1_000_000_u64, b"", Lane::Large, &replies, 0).unwrap();
    replies.next().await.unwrap().1.unwrap();
    network.reset("n1", "n2");
    let end = loop {
        match replies.next().await.unwrap().1 {
            Ok(reply) => assert!(!reply.last),
            Err(fault) => break fault,
        }
    };
    assert!(matches!(end, CallError::Disconnected(_)), "{end}");
    assert_eq!(replies.next().await, None);
    assert!(other.stop(Duration::from_secs(1)).await, "the service has stopped");
}

#[tokio::test(start_paused = true)]
async fn an_answer_above_the_limit_of_the_requester_is_refused_once() {
    let network = MemoryNetwork::default();
    let mut small = settings(1);
    small.limits.frame_bytes_max = 10_000;
    let one = node_with(&network, "n1", small).await;
    let _other = node(&network, 2).await;
    one.set_peers(&members(&[1, 2]));
    let peer = one.peer(id(2)).unwrap();
    let mut replies = Replies::new();
    peer.send(LARGE_MORE, &(), b"", Lane::Small, &replies, 0).unwrap();
    let refused = replies.next().await.unwrap().1;
    assert!(matches!(refused, Err(CallError::Refused { code: code::TOO_LARGE, .. })));
    assert_eq!(replies.next().await, None);
    assert_eq!(echo(&peer, b"y").await.unwrap(), "y", "the connection goes on");
}

#[tokio::test(start_paused = true)]
async fn what_passes_is_counted_on_both_sides() {
    let network = MemoryNetwork::default();
    let (one, other, peer) = two(&network).await;
    for _ in 0..7 {
        echo(&peer, b"0123456789").await.unwrap();
    }
    let asked = peer.statistics();
    assert_eq!((asked.calls.of(ECHO), asked.calls.of(TWICE)), (7, 0));
    assert_eq!((asked.connected_count, asked.too_busy_count, asked.discarded_count), (1, 0, 0));
    assert_eq!((asked.traffic.sent_frames, asked.traffic.sent_bytes), (7, 7 * 26));
    assert_eq!((asked.traffic.received_frames, asked.traffic.received_bytes), (7, 7 * 26));
    assert_eq!((asked.traffic.write_count, asked.traffic.read_count), (7, 7));
    let served = other.statistics();
    assert_eq!(served.requests.by_method(), [(ECHO, 7)].into());
    assert_eq!(served.traffic.received_bytes, asked.traffic.sent_bytes);
    assert_eq!((served.traffic.write_count, served.traffic.read_count), (7, 7));
    peer.send(ECHO, &(), b"", Lane::Small, &Replies::new(), 0).unwrap();
    until("the answer came", || peer.pending_count() == 0).await;
    assert_eq!(peer.statistics().discarded_count, 1);
    drop(one);
    sleep(Duration::from_millis(1)).await;
    let later = other.statistics();
    assert_eq!(later.requests.of(ECHO), 8, "ended connections count on");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_answers_what_is_under_way_and_gets_no_more() {
    let network = MemoryNetwork::default();
    let (_one, other, peer) = two(&network).await;
    echo(&peer, b"x").await.unwrap();
    let mut replies = Replies::new();
    peer.send(ECHO_LATER, &300_u64, b"late", Lane::Small, &replies, 0).unwrap();
    sleep(Duration::from_millis(10)).await;
    let stopping = tokio::spawn({
        let other = Arc::clone(&other);
        async move { other.stop(Duration::from_secs(5)).await }
    });
    until("it is not asked any more", || !peer.is_up()).await;
    assert!(peer.connection_problem().unwrap().contains("stopping"));
    let refused = peer.send(ECHO, &(), b"", Lane::Small, &replies, 1);
    assert!(matches!(refused, Err(CallError::Unreachable(_))));
    assert_eq!(replies.next().await.unwrap().1.unwrap().payload, "late");
    assert!(stopping.await.unwrap(), "all was answered");
}
