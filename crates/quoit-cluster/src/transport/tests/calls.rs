//! Calls and their answers.

use super::*;
use proptest::prelude::*;

#[tokio::test(start_paused = true)]
async fn a_call_made_before_the_connection_is_there_waits_for_it() {
    let network = MemoryNetwork::default();
    network.set_delay("n1", "n2", Duration::from_millis(20));
    let (_one, _other, peer) = two(&network).await;
    assert!(!peer.is_up(), "nothing is connected yet");
    assert_eq!(echo(&peer, b"value").await.unwrap(), "value");
    assert!(peer.is_up());
    assert_eq!(peer.pending_count(), 0);
}

#[tokio::test(start_paused = true)]
async fn header_and_payload_come_back_in_both_lanes() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    for lane in [Lane::Small, Lane::Large] {
        let value = vec![7_u8; 3_000_000];
        let reply = peer.call(ECHO, &77_u32, &value, lane, Duration::from_secs(9)).await.unwrap();
        assert_eq!(reply.payload, value);
        assert!(reply.last);
        let header: Vec<u8> = prost::Message::decode(&reply.header[..]).unwrap();
        assert_eq!(<u32 as prost::Message>::decode(&header[..]).unwrap(), 77);
    }
}

#[tokio::test(start_paused = true)]
async fn answers_of_several_calls_gather_with_their_slots() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    let mut replies = Replies::new();
    for (slot, delay_ms) in [(7, 30_u64), (8, 10), (9, 20)] {
        peer.send(ECHO_LATER, &delay_ms, b"", Lane::Small, &replies, slot).unwrap();
    }
    assert_eq!((peer.pending_count(), replies.open_count()), (3, 3));
    let mut slots = Vec::new();
    while let Some((slot, answer)) = replies.next().await {
        assert!(answer.unwrap().last);
        slots.push(slot);
    }
    assert_eq!(slots, [8, 9, 7], "in the order of arrival");
    assert_eq!((peer.pending_count(), replies.open_count()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_call_may_have_several_answers() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    let mut replies = Replies::new();
    peer.send(TWICE, &(), b"", Lane::Small, &replies, 0).unwrap();
    let first = replies.next().await.unwrap().1.unwrap();
    assert_eq!((&first.payload[..], first.last), (&b"first"[..], false));
    assert_eq!(peer.pending_count(), 1);
    let last = replies.next().await.unwrap().1.unwrap();
    assert_eq!((&last.payload[..], last.last), (&b"last"[..], true));
    assert_eq!(replies.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_forgotten_refused_or_unknown_fails_with_words() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    let refusal = async |method| {
        let limit = Duration::from_secs(5);
        match peer.call(method, &(), b"", Lane::Small, limit).await.unwrap_err() {
            CallError::Refused { code, text } => (code, text.to_string()),
            other => panic!("{other}"),
        }
    };
    use quoit_wire::internode::code;
    assert_eq!(refusal(FORGET).await.0, code::NO_ANSWER);
    assert_eq!(refusal(REFUSE).await, (2000, "not today".to_owned()));
    let (unknown, text) = refusal(0x7fff).await;
    assert_eq!(unknown, code::UNKNOWN_METHOD);
    assert!(text.contains("n2 does not serve method 0x7fff"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_takes_too_long_ends_and_its_answer_is_discarded() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    let limit = Duration::from_millis(50);
    let late = peer.call(ECHO_LATER, &200_u64, b"", Lane::Small, limit).await;
    assert_eq!(late, Err(CallError::Timeout { after_ms: 50 }));
    assert_eq!(peer.pending_count(), 1, "the node is still at it");
    until("the answer came", || peer.pending_count() == 0).await;
    assert_eq!(echo(&peer, b"next").await.unwrap(), "next");
}

#[tokio::test(start_paused = true)]
async fn calls_under_way_fail_when_the_connection_breaks_and_later_ones_go_again() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    echo(&peer, b"x").await.unwrap();
    let replies = Replies::new();
    peer.send(ECHO_LATER, &5000_u64, b"", Lane::Small, &replies, 3).unwrap();
    network.reset("n1", "n2");
    let mut replies = replies;
    let (slot, answer) = replies.next().await.unwrap();
    assert_eq!(slot, 3);
    assert!(matches!(answer, Err(CallError::Disconnected(_))), "{answer:?}");
    until("connected again", || peer.is_up()).await;
    assert_eq!(echo(&peer, b"again").await.unwrap(), "again");
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_tells_calls_that_have_left_from_those_that_have_not() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    echo(&peer, b"x").await.unwrap();
    network.silence("n1", "n2");
    let mut replies = Replies::new();
    let send = |payload: &[u8], slot| {
        peer.send(ECHO, &(), payload, Lane::Small, &replies, slot).unwrap();
    };
    // The first frame leaves completely, the second in part, the third not at all.
    send(b"small", 1);
    send(&vec![0; 300_000], 2);
    send(b"small", 3);
    sleep(Duration::from_millis(10)).await;
    network.reset("n1", "n2");
    let mut ends = [None, None, None];
    for _ in 0..3 {
        let (slot, answer) = replies.next().await.unwrap();
        ends[usize::from(slot) - 1] = Some(answer.unwrap_err());
    }
    assert!(matches!(ends[0], Some(CallError::Disconnected(_))), "{ends:?}");
    assert!(matches!(ends[1], Some(CallError::Disconnected(_))), "{ends:?}");
    assert!(matches!(ends[2], Some(CallError::Unreachable(_))), "{ends:?}");
    network.heal("n1", "n2");
    until("connected again", || peer.is_up()).await;
    // Positions are right on the new connection, too.
    let mut replies = Replies::new();
    peer.send(ECHO_LATER, &5000_u64, b"", Lane::Small, &replies, 4).unwrap();
    sleep(Duration::from_millis(10)).await;
    network.reset("n1", "n2");
    let (_, answer) = replies.next().await.unwrap();
    assert!(matches!(answer, Err(CallError::Disconnected(_))), "{answer:?}");
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_node_that_is_known_to_be_down_fail_at_once() {
    let network = MemoryNetwork::default();
    let one = node(&network, 1).await;
    one.set_peers(&members(&[1, 2]));
    let peer = one.peer(id(2)).unwrap();
    let first = echo(&peer, b"x").await;
    assert!(matches!(first, Err(CallError::Unreachable(_))), "the dial was refused: {first:?}");
    let second = peer.send(ECHO, &(), b"", Lane::Small, &Replies::new(), 0);
    assert!(matches!(second, Err(CallError::Unreachable(_))));
    assert!(peer.connection_problem().unwrap().contains("refused"));
    let _other = node(&network, 2).await;
    until("connected", || peer.is_up()).await;
    assert_eq!(peer.connection_problem(), None);
}

#[tokio::test(start_paused = true)]
async fn as_much_is_under_way_as_the_window_allows_and_no_more() {
    let network = MemoryNetwork::default();
    let (one, mut narrow) = (node(&network, 1).await, settings(2));
    narrow.limits.window_calls = 10;
    narrow.limits.small_window_bytes = 1000;
    let _other = node_with(&network, "n2", narrow).await;
    one.set_peers(&members(&[1, 2]));
    let peer = one.peer(id(2)).unwrap();
    echo(&peer, b"x").await.unwrap();
    let mut replies = Replies::new();
    let send = |payload: &[u8], replies: &Replies| {
        peer.send(ECHO_LATER, &100_u64, payload, Lane::Small, replies, 0)
    };
    (0..10).for_each(|_| send(b"", &replies).unwrap());
    let busy = send(b"", &replies).unwrap_err();
    assert!(matches!(busy, CallError::TooBusy { outstanding_count: 10, .. }), "{busy}");
    while replies.next().await.is_some() {}
    send(&[0; 900], &replies).unwrap();
    let busy = send(&[0; 900], &replies).unwrap_err();
    assert!(matches!(busy, CallError::TooBusy { outstanding_count: 1, .. }), "{busy}");
    while replies.next().await.is_some() {}
    send(&[0; 5000], &replies).expect("one request is taken, however large");
    assert!(replies.next().await.unwrap().1.is_ok());
}

/// If the requester did not count the header, the other side would end the connection and all calls on it.
#[tokio::test(start_paused = true)]
async fn the_header_of_a_request_counts_towards_the_window() {
    let network = MemoryNetwork::default();
    let (one, mut narrow) = (node(&network, 1).await, settings(2));
    narrow.limits.small_window_bytes = 1000;
    let _other = node_with(&network, "n2", narrow).await;
    one.set_peers(&members(&[1, 2]));
    let peer = one.peer(id(2)).unwrap();
    echo(&peer, b"x").await.unwrap();
    let mut replies = Replies::new();
    peer.send(ECHO_LATER, &100_u64, &[0; 500], Lane::Small, &replies, 0).unwrap();
    let busy = peer.send(ECHO, &vec![0_u8; 600], b"", Lane::Small, &replies, 0).unwrap_err();
    assert!(matches!(busy, CallError::TooBusy { outstanding_count: 1, .. }), "{busy}");
    let (_, answer) = replies.next().await.unwrap();
    assert_eq!(answer.unwrap().payload.len(), 500, "the call under way goes on");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_large_for_a_frame_is_refused_on_either_way() {
    let network = MemoryNetwork::default();
    let mut small = settings(1);
    small.limits.frame_bytes_max = 10_000;
    let one = node_with(&network, "n1", small).await;
    let other = node(&network, 2).await;
    one.set_peers(&members(&[1, 2]));
    other.set_peers(&members(&[1, 2]));
    let (there, back) = (one.peer(id(2)).unwrap(), other.peer(id(1)).unwrap());
    echo(&there, b"x").await.unwrap();
    echo(&back, b"x").await.unwrap();
    for peer in [&there, &back] {
        let sent = peer.send(ECHO, &(), &[0; 10_000], Lane::Small, &Replies::new(), 0);
        assert!(matches!(sent, Err(CallError::TooLarge { size_bytes_max: 10_000, .. })));
    }
    assert_eq!(echo(&there, b"y").await.unwrap(), "y", "the connection goes on");
}

#[tokio::test(start_paused = true)]
async fn a_member_that_is_gone_fails_its_calls_and_is_found_no_more() {
    let network = MemoryNetwork::default();
    let (one, _other, peer) = two(&network).await;
    echo(&peer, b"x").await.unwrap();
    let mut replies = Replies::new();
    peer.send(ECHO_LATER, &5000_u64, b"", Lane::Small, &replies, 0).unwrap();
    one.set_peers(&members(&[1]));
    assert!(one.peer(id(2)).is_none());
    let (_, answer) = replies.next().await.unwrap();
    assert!(matches!(answer, Err(CallError::Disconnected(_))));
    let later = peer.send(ECHO, &(), b"", Lane::Small, &replies, 0);
    assert!(matches!(later, Err(CallError::Unreachable(_))));
}

/// A step of a random run between two nodes.
#[derive(Debug, Clone)]
enum Step {
    Call { delay_ms: u64, size_bytes: usize, large: bool, patience_ms: u64 },
    Stream { count: u64, taken: u64 },
    Wait { ms: u64 },
    Reset,
    Delay { ms: u64 },
    Silence { ms: u64 },
    Forget,
}

fn step() -> impl Strategy<Value = Step> {
    let call = (0_u64..40, 0_usize..100_000, any::<bool>(), 1_u64..3000).prop_map(
        |(delay_ms, size_bytes, large, patience_ms)| Step::Call {
            delay_ms,
            size_bytes,
            large,
            patience_ms,
        },
    );
    prop_oneof![
        8 => call,
        2 => (1_u64..200, 0_u64..200).prop_map(|(count, taken)| Step::Stream { count, taken }),
        4 => (0_u64..50).prop_map(|ms| Step::Wait { ms }),
        1 => Just(Step::Reset),
        1 => (0_u64..30).prop_map(|ms| Step::Delay { ms }),
        1 => (1_u64..3000).prop_map(|ms| Step::Silence { ms }),
        1 => Just(Step::Forget),
    ]
}

/// Takes some or all answers of a stream of `count`, and returns the outcome.
async fn run_stream(peer: &Arc<Peer>, count: u64, taken: u64) -> String {
    let mut replies = Replies::new();
    if let Err(fault) = peer.send_stream(COUNT, &count, b"", Lane::Large, &replies, 0) {
        return format!("stream not sent: {fault}");
    }
    for number in 1..=taken.min(count) {
        match replies.next().await.expect("answers or an error are due").1 {
            Ok(reply) => {
                assert_eq!(<u64 as prost::Message>::decode(&reply.header[..]), Ok(number));
                assert_eq!(reply.last, number == count);
            }
            Err(fault) => return format!("stream ended after {}: {fault}", number - 1),
        }
    }
    "stream was taken".to_owned()
}

/// Runs the steps, and returns the outcome of each call.
async fn run_steps(steps: &[Step]) -> Vec<String> {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    let mut kept = Vec::new();
    let mut ends = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        match *step {
            Step::Call { delay_ms, size_bytes, large, patience_ms } => {
                let payload = vec![number as u8; size_bytes];
                let lane = if large { Lane::Large } else { Lane::Small };
                let mut replies = Replies::new();
                match peer.send(ECHO_LATER, &delay_ms, &payload, lane, &replies, number as u16) {
                    Err(fault) => ends.push(format!("{number} not sent: {fault}")),
                    Ok(()) => kept.push(tokio::spawn(async move {
                        let patience = Duration::from_millis(patience_ms);
                        let Ok(first) = timeout(patience, replies.next()).await else {
                            return format!("{number} late");
                        };
                        let (slot, answer) = first.expect("one answer at least");
                        assert_eq!(slot, number as u16);
                        let end = match answer {
                            Ok(reply) => {
                                assert_eq!(reply.payload, payload, "the answer of this very call");
                                "answered".to_owned()
                            }
                            Err(fault) => fault.to_string(),
                        };
                        assert_eq!(replies.next().await, None, "one answer at most");
                        format!("{number} {end}")
                    })),
                }
            }
            Step::Stream { count, taken } => kept.push(tokio::spawn({
                let peer = Arc::clone(&peer);
                async move { format!("{number} {}", run_stream(&peer, count, taken).await) }
            })),
            Step::Wait { ms } => sleep(Duration::from_millis(ms)).await,
            Step::Reset => network.reset("n1", "n2"),
            Step::Delay { ms } => network.set_delay("n2", "n1", Duration::from_millis(ms)),
            Step::Silence { ms } => {
                network.silence("n1", "n2");
                sleep(Duration::from_millis(ms)).await;
                network.heal("n1", "n2");
            }
            Step::Forget => kept.truncate(kept.len() / 2),
        }
    }
    for task in kept {
        ends.push(task.await.unwrap());
    }
    until("no call is left over", || peer.pending_count() == 0).await;
    ends
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_call_ends_exactly_once_whatever_happens_and_the_same_way_each_time(
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let run = || {
            let runtime = tokio::runtime::Builder::new_current_thread();
            let runtime = { runtime }.enable_all().start_paused(true).build().unwrap();
            runtime.block_on(run_steps(&steps))
        };
        prop_assert_eq!(run(), run());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_waits_for_answers_that_nobody_else_waits_for() {
    let network = MemoryNetwork::default();
    let (one, _other, peer) = two(&network).await;
    echo(&peer, b"x").await.unwrap();
    peer.send(ECHO_LATER, &200_u64, b"", Lane::Small, &Replies::new(), 0).unwrap();
    let start = tokio::time::Instant::now();
    assert!(!one.answered(Duration::from_millis(100)).await);
    assert!(one.answered(Duration::from_secs(5)).await);
    let after = start.elapsed();
    assert!(after >= Duration::from_millis(200) && after < Duration::from_millis(300), "{after:?}");
}

#[derive(Default)]
struct ReceivedBodies(parking_lot::Mutex<Vec<Bytes>>);

impl LateFailureListener for ReceivedBodies {
    fn failed(&self, note: Bytes) {
        self.0.lock().push(note);
    }
}

/// Each note is delivered once, for however many calls it was left.
#[tokio::test(start_paused = true)]
async fn calls_that_fail_when_nobody_waits_any_more_are_told_once() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    assert!(echo(&peer, b"value").await.is_ok());
    let heard = Arc::new(ReceivedBodies::default());
    let leave = |methods: &[u16], note: &'static [u8]| {
        let replies = Replies::new();
        for method in methods {
            peer.send(*method, &50_u64, b"", Lane::Small, &replies, 0).unwrap();
        }
        let told = Arc::clone(&heard) as Arc<dyn LateFailureListener>;
        replies.leave(told, Bytes::from_static(note));
    };
    leave(&[ECHO], b"answered");
    leave(&[REFUSE, REFUSE], b"refused");
    leave(&[ECHO_LATER, ECHO_LATER], b"cut off");
    sleep(Duration::from_millis(10)).await;
    assert_eq!(*heard.0.lock(), [&b"refused"[..]]);
    network.reset("n1", "n2");
    sleep(Duration::from_millis(10)).await;
    assert_eq!(*heard.0.lock(), [&b"refused"[..], b"cut off"]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_that_nobody_has_looked_at_is_told_too() {
    let network = MemoryNetwork::default();
    let (_one, _other, peer) = two(&network).await;
    let heard = Arc::new(ReceivedBodies::default());
    let replies = Replies::new();
    peer.send(REFUSE, &(), b"", Lane::Small, &replies, 0).unwrap();
    sleep(Duration::from_millis(10)).await;
    assert!(heard.0.lock().is_empty());
    let told = Arc::clone(&heard) as Arc<dyn LateFailureListener>;
    replies.leave(told, Bytes::from_static(b"refused"));
    assert_eq!(*heard.0.lock(), [&b"refused"[..]]);
}

#[tokio::test(start_paused = true)]
async fn calls_that_are_given_up_at_the_end_fail_and_are_told() {
    let network = MemoryNetwork::default();
    let (one, _other, peer) = two(&network).await;
    assert!(echo(&peer, b"value").await.is_ok());
    let heard = Arc::new(ReceivedBodies::default());
    let (mut waits, left) = (Replies::new(), Replies::new());
    for replies in [&waits, &left] {
        peer.send(ECHO_LATER, &5000_u64, b"", Lane::Small, replies, 0).unwrap();
    }
    left.leave(Arc::clone(&heard) as Arc<dyn LateFailureListener>, Bytes::from_static(b"left"));
    one.give_up_calls();
    assert_eq!(*heard.0.lock(), [&b"left"[..]]);
    let (_, answer) = waits.next().await.unwrap();
    assert!(matches!(answer, Err(CallError::Disconnected(_))), "{answer:?}");
}
