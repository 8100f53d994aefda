//! Clients that try to make the node exceed its memory budget.

use crate::binary::Binary;
use crate::fixture::Node;
use bytes::Bytes;
use quoit_core::Counter;
use quoit_server::{ALLOWANCE_BYTES, MemorySettings, ServerSettings};
use quoit_wire::frame::append_message;
use quoit_wire::messages::{
    Body, RpbContent, RpbErrorResp, RpbGetReq, RpbGetResp, RpbListKeysReq, RpbPutReq, RpbPutResp,
};
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::time::{Instant, interval};

const MIB: u64 = 1 << 20;
/// Each listener holds an allowance for its next connection.
const LISTENER_COUNT: u64 = 2;

fn settings(budget_mib: u64, share_mib: u64, request_mib: usize) -> ServerSettings {
    let request_bytes_max = request_mib << 20;
    let (budget_bytes, share_bytes) = (budget_mib * MIB, share_mib * MIB);
    let memory = MemorySettings { budget_bytes, share_bytes, request_bytes_max };
    ServerSettings { memory, request_bytes_max, ..ServerSettings::default() }
}

fn put_of(key: &'static str, value_bytes: usize) -> RpbPutReq {
    let value = Bytes::from(vec![b'v'; value_bytes]);
    RpbPutReq {
        bucket: "b".into(),
        key: Some(key.into()),
        content: RpbContent { value, ..RpbContent::default() },
        ..RpbPutReq::default()
    }
}

fn get_of(key: &'static str) -> RpbGetReq {
    RpbGetReq { bucket: "b".into(), key: key.into(), ..RpbGetReq::default() }
}

fn frame_of(message: &impl Body) -> Vec<u8> {
    let mut frame = Vec::new();
    append_message(&mut frame, message).unwrap();
    frame
}

/// Waits until a condition holds.
fn await_that(node: &Node, what: &str, holds: impl FnMut() -> bool) {
    await_within(Duration::from_secs(20), node, what, holds);
}

/// Waits until a condition holds, within `limit`.
fn await_within(limit: Duration, node: &Node, what: &str, mut holds: impl FnMut() -> bool) {
    node.run(async {
        let end = Instant::now() + limit;
        let mut looks = interval(Duration::from_millis(5));
        while !holds() {
            assert!(Instant::now() < end, "{what}: {:?}", node.context.memory.figures());
            looks.tick().await;
        }
    });
}

fn used_beside_allowances(node: &Node, connection_count: u64) -> u64 {
    let allowances = (connection_count + LISTENER_COUNT) * ALLOWANCE_BYTES;
    node.context.memory.figures().used_bytes - allowances
}

#[test]
fn a_frame_that_is_never_accepted_is_answered_before_it_is_sent() {
    let node = Node::with(settings(64, 32, 2));
    for length_bytes in [2 * MIB as u32 + 1, u32::MAX] {
        let mut client = Binary::connect(&node);
        assert!(client.send(&length_bytes.to_be_bytes()));
        assert!(client.error().contains("Invalid message packet"));
        assert!(client.is_closed());
    }
    let figures = node.context.memory.figures();
    assert!(figures.used_bytes_max <= 4 * ALLOWANCE_BYTES, "{figures:?}");
}

#[test]
fn a_frame_of_half_a_connection_s_share_is_the_largest() {
    let node = Node::with(settings(64, 2, 50));
    let mut client = Binary::connect(&node);
    client.ask::<RpbPutResp>(&put_of("k", 1_000_000));
    let mut client = Binary::connect(&node);
    client.send(&(MIB as u32 + 1).to_be_bytes());
    assert!(client.error().contains("Invalid message packet"));
}

#[test]
fn frames_that_stop_in_the_middle_leave_room_for_others_and_stay_within_the_budget() {
    let node = Node::with(settings(8, 4, 2));
    let frame = frame_of(&put_of("k", 1_900_000));
    let (first, rest) = frame.split_at(1_500_000);
    let mut clients: Vec<_> = (0..6).map(|_| Binary::connect(&node)).collect();
    clients.iter_mut().for_each(|client| assert!(client.send(first)));
    // Two requests that arrive at the same time may refuse each other.
    await_that(&node, "five are refused", || node.context.memory.figures().refused_count >= 5);
    let mut small = Binary::connect(&node);
    small.ask::<RpbPutResp>(&put_of("small", 1_000));
    assert_eq!(small.ask::<RpbGetResp>(&get_of("small")).content.len(), 1);
    let mut refused_count = 0;
    for client in &mut clients {
        // A refused request is skipped, and the connection continues.
        assert!(client.send(rest));
        match client.frame().decode::<RpbErrorResp>() {
            Ok(fault) => {
                assert!(fault.errmsg.windows(8).any(|word| word == b"overload"), "{fault:?}");
                refused_count += 1;
            }
            Err(_) => assert_eq!(client.ask::<RpbGetResp>(&get_of("k")).content.len(), 1),
        }
        client.ask::<RpbPutResp>(&put_of("small", 1_000));
    }
    assert_eq!(refused_count, node.context.memory.figures().refused_count);
    let figures = node.context.memory.figures();
    assert!(figures.used_bytes_max <= figures.budget_bytes, "{figures:?}");
    assert!(figures.used_bytes_max > 3 * MIB, "a request counts twice: {figures:?}");
}

#[test]
fn memory_of_a_large_request_goes_back_when_it_is_answered() {
    let node = Node::with(settings(64, 32, 8));
    let mut client = Binary::connect(&node);
    client.ask::<RpbPutResp>(&put_of("k", 7_000_000));
    client.ask::<RpbGetResp>(&get_of("k"));
    client.ask::<RpbGetResp>(&get_of("none"));
    await_that(&node, "nothing is used", || used_beside_allowances(&node, 1) == 0);
    let mut client = node.connect();
    let headers = [("Content-Type", "a/b")];
    let body = vec![b'v'; 7_000_000];
    assert_eq!(client.request("PUT", "/buckets/b/keys/k", &headers, &body).status, 204);
    assert_eq!(client.request("GET", "/buckets/b/keys/k", &[], b"").body.len(), body.len());
    assert_eq!(client.request("GET", "/ping", &[], b"").status, 200);
    await_that(&node, "nothing is used", || used_beside_allowances(&node, 2) == 0);
    assert!(node.context.memory.figures().used_bytes_max > 14_000_000);
}

#[test]
fn small_requests_and_answers_ask_for_nothing() {
    let node = Node::with(settings(64, 32, 8));
    let mut binary = Binary::connect(&node);
    let mut http = node.connect();
    for _ in 0..20 {
        binary.ask::<RpbPutResp>(&put_of("k", 4_000));
        binary.ask::<RpbGetResp>(&get_of("k"));
        assert_eq!(http.request("GET", "/buckets/b/keys/k", &[], b"").status, 200);
        assert_eq!(http.request("GET", "/stats", &[], b"").status, 200);
    }
    let figures = node.context.memory.figures();
    assert_eq!(figures.used_bytes_max, (2 + LISTENER_COUNT) * ALLOWANCE_BYTES);
}

#[test]
fn bodies_are_refused_before_they_are_sent() {
    let node = Node::with(settings(16, 8, 3));
    let head = |size: u64| {
        format!(
            "PUT /buckets/b/keys/k HTTP/1.1\r\nContent-Type: a/b\r\nContent-Length: {size}\r\n\
             Expect: 100-continue\r\n\r\n"
        )
    };
    let mut client = node.connect();
    client.send(head(3 * MIB + 1).as_bytes());
    assert_eq!(client.read("PUT").status, 413, "it can never fit");
    let mut holders: Vec<_> = (0..2).map(|_| node.connect()).collect();
    for holder in &mut holders {
        holder.send(head(3 * MIB).as_bytes());
        assert_eq!(holder.read("PUT").status, 100);
        holder.send(&vec![b'v'; 3 * MIB as usize - 1]);
    }
    let held = || node.context.memory.figures().used_bytes > 12 * MIB;
    await_that(&node, "two bodies are held", held);
    let mut client = node.connect();
    client.send(head(3 * MIB).as_bytes());
    let answer = client.read("PUT");
    assert_eq!((answer.status, answer.header("connection")), (503, Some("close")));
    assert!(answer.text().contains("overload"), "{}", answer.text());
    for holder in &mut holders {
        holder.send(b"v");
        assert_eq!(holder.read("PUT").status, 204);
    }
}

#[test]
fn objects_that_there_is_no_memory_for_are_not_read() {
    let node = Node::with(settings(16, 8, 3));
    let mut binary = Binary::connect(&node);
    binary.ask::<RpbPutResp>(&put_of("large", 3_000_000));
    let mut holders: Vec<_> = (0..2).map(|_| node.connect()).collect();
    for holder in &mut holders {
        let head = "PUT /buckets/b/keys/k HTTP/1.1\r\nContent-Type: a/b\r\nContent-Length: 3145728\r\n\r\n";
        holder.send(head.as_bytes());
        holder.send(&vec![b'v'; 3 * MIB as usize - 1]);
    }
    let held = || node.context.memory.figures().used_bytes > 12 * MIB;
    await_that(&node, "two bodies are held", held);
    let read_count = || node.context.store.figures().total(Counter::Gets);
    let before = read_count();
    assert!(binary.refusal(&get_of("large")).contains("overload"));
    assert_eq!(node.get("/buckets/b/keys/large").status, 503);
    assert_eq!(read_count(), before);
    binary.ask::<RpbPutResp>(&put_of("small", 1_000));
    assert_eq!(binary.ask::<RpbGetResp>(&get_of("small")).content.len(), 1);
}

#[test]
fn a_document_counts_as_often_as_it_grows_when_it_is_read() {
    let node = Node::with(settings(64, 16, 8));
    let job = |count: usize| {
        let inputs = vec!["[\"b\",\"k\"]"; count].join(",");
        format!("{{\"inputs\":[{inputs}],\"query\":[]}}")
    };
    let answer = node.send_json("POST", "/mapred", &job(100_000));
    assert_eq!(answer.status, 413);
    assert!(answer.text().contains("per_connection"), "{}", answer.text());
    assert_eq!(node.send_json("POST", "/mapred", &job(1)).status, 200);
}

#[test]
fn a_listing_that_there_is_no_memory_for_is_refused_before_it_begins() {
    let node = Node::with(settings(64, 1, 1));
    let mut client = Binary::connect(&node);
    let list = RpbListKeysReq { bucket: "b".into(), ..RpbListKeysReq::default() };
    assert!(client.refusal(&list).contains("per_connection"));
    assert_eq!(node.get("/buckets/b/keys?keys=stream").status, 503);
    assert_eq!(node.get("/buckets/b/index/f_bin/x").status, 503);
    client.ask::<RpbPutResp>(&put_of("k", 1_000));
}

fn paused() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

#[test]
fn answers_that_nobody_reads_stay_within_the_budget_and_end() {
    const CLIENT_COUNT: usize = 12;
    let node = Node::with(settings(64, 32, 12));
    Binary::connect(&node).ask::<RpbPutResp>(&put_of("k", 11 << 20));
    let get = frame_of(&get_of("k"));
    let mut clients: Vec<_> = (0..CLIENT_COUNT).map(|_| Binary::connect(&node)).collect();
    for client in &mut clients {
        // Two answers for one client are never in memory at the same time.
        assert!(client.send(&get) && client.send(&get));
    }
    await_that(&node, "some are refused", || node.context.memory.figures().refused_count > 0);
    let figures = node.context.memory.figures();
    assert!(figures.used_bytes_max <= figures.budget_bytes, "{figures:?}");
    // A well-behaved client is served meanwhile.
    let mut good = Binary::connect(&node);
    good.ask::<RpbPutResp>(&put_of("small", 1_000));
    assert_eq!(good.ask::<RpbGetResp>(&get_of("small")).content.len(), 1);
}

/// Starts clients of a node, and advances its clock to the next time limit until all connections are
/// closed.
fn until_closed(connections: u64, clients: impl FnOnce(&Node) -> Vec<Binary>) -> Node {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let node = Node::inside_with(settings(64, 32, 12), runtime);
    let clients = clients(&node);
    node.run(async { tokio::time::pause() });
    let counts = &node.context.pb_connections;
    // Paused clock time.
    let limit = Duration::from_secs(600);
    await_within(limit, &node, "all are closed", || {
        (counts.total(), counts.active()) == (connections, 0)
    });
    assert_eq!(used_beside_allowances(&node, 0), 0);
    drop(clients);
    node
}

#[test]
fn a_frame_that_does_not_end_is_given_up() {
    let frame = frame_of(&put_of("k", 100_000));
    let node = until_closed(3, |node| {
        let started = |bytes: &[u8]| {
            let mut client = Binary::connect(node);
            assert!(client.send(bytes));
            client
        };
        vec![started(&frame[..3]), started(&frame[..1_000]), started(&frame[..99_000])]
    });
    assert_eq!(node.context.memory.figures().slow_request_count, 3);
}

#[test]
fn a_client_that_does_not_take_its_answer_is_given_up() {
    let node = until_closed(2, |node| {
        let (sent, client) = std::sync::mpsc::channel();
        let mut setup = Binary::connect(node);
        let frame = frame_of(&put_of("k", 11 << 20));
        let mut hostile = Binary::connect(node);
        std::thread::spawn(move || {
            assert!(setup.send(&frame));
            setup.frame().decode::<RpbPutResp>().map_or_else(|_| drop(setup), |_| ());
            assert!(hostile.send(&frame_of(&get_of("k"))));
            let _ = sent.send(hostile);
        });
        let mut hostile = None;
        await_that(node, "it is sent", || {
            hostile = client.try_recv().ok();
            hostile.is_some()
        });
        vec![hostile.expect("it was sent")]
    });
    assert_eq!(node.context.memory.figures().slow_answer_count, 1);
}

#[test]
fn a_connection_rests_between_requests_as_long_as_it_wants() {
    let node = Node::inside_with(settings(64, 32, 12), paused());
    let idle = Binary::connect(&node);
    let counts = &node.context.pb_connections;
    await_that(&node, "it is accepted", || counts.active() == 1);
    node.run(async { tokio::time::sleep(Duration::from_secs(3_600)).await });
    assert_eq!(counts.active(), 1);
    drop(idle);
}
