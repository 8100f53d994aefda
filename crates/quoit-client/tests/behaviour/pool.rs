//! Nodes, shared connections, timeouts and repeated attempts.

use crate::fake::Fake;
use bytes::Bytes;
use quoit_client::wire::messages::*;
use quoit_client::{Bucket, Client, ClientBuilder, Content, Error, Fetched, GetOptions, Location};
use std::collections::HashMap;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::{join, select};

/// A pause that no test outlasts.
const HOUR: Duration = Duration::from_secs(3600);

fn builder(fake: &Fake) -> ClientBuilder {
    Client::builder().node(fake.address.clone())
}

fn location(key: usize) -> Location {
    Bucket::new("b").key(key.to_string())
}

/// Answers a get with the requested key as the value.
fn echo(request: &RpbGetReq) -> RpbGetResp {
    let content = RpbContent { value: request.key.clone(), ..Default::default() };
    let vclock = Some(Bytes::from_static(b"c"));
    RpbGetResp { content: vec![content], vclock, unchanged: None }
}

/// Starts `count` concurrent reads of different keys. Each checks that it gets its own answer.
fn reads(client: &Client, count: usize) -> JoinSet<()> {
    (0..count)
        .map(|key| {
            let client = client.clone();
            async move {
                let object = client.get(&location(key)).await.unwrap().unwrap();
                assert_eq!(object.single().unwrap().value, key.to_string());
            }
        })
        .collect()
}

#[tokio::test]
async fn requests_in_flight_on_one_connection_get_their_own_answers() {
    let mut fake = Fake::start().await;
    let client =
        builder(&fake).connections_per_node_max(1).in_flight_per_connection_max(5).build().unwrap();
    let reads = reads(&client, 5);
    let mut requests = Vec::new();
    for _ in 0..5 {
        let request = fake.next().await;
        assert_eq!(request.connection, 0);
        requests.push(request);
    }
    for request in requests {
        request.answer(&echo(&request.message())).await;
    }
    reads.join_all().await;
}

#[tokio::test]
async fn connections_and_requests_in_flight_keep_to_their_bounds() {
    let mut fake = Fake::start().await;
    let client =
        builder(&fake).connections_per_node_max(2).in_flight_per_connection_max(3).build().unwrap();
    let reads = reads(&client, 20);
    let mut in_flight: HashMap<usize, Vec<_>> = HashMap::new();
    for arrived in 0..20 {
        let request = fake.next().await;
        in_flight.entry(request.connection).or_default().push(request);
        assert!(in_flight.len() <= 2);
        assert!(in_flight.values().all(|requests| requests.len() <= 3));
        // Once all slots are taken no further request comes, so the test must answer one.
        if in_flight.values().map(Vec::len).sum::<usize>() == 6 || arrived >= 14 {
            let requests = in_flight.values_mut().max_by_key(|requests| requests.len()).unwrap();
            let request = requests.remove(0);
            request.answer(&echo(&request.message())).await;
        }
    }
    for request in in_flight.into_values().flatten() {
        request.answer(&echo(&request.message())).await;
    }
    reads.join_all().await;
}

#[tokio::test]
async fn one_request_at_a_time_needs_one_connection() {
    let (mut fake, client) = Fake::with_client().await;
    for key in 0..10 {
        let serve = async {
            let request = fake.next().await;
            assert_eq!(request.connection, 0);
            request.answer(&echo(&request.message())).await;
        };
        let location = location(key);
        let (object, ()) = join!(client.get(&location), serve);
        assert!(object.unwrap().is_some());
    }
}

#[tokio::test]
async fn a_request_without_an_answer_times_out_and_its_connection_is_not_used_again() {
    let mut fake = Fake::start().await;
    let client = builder(&fake).request_timeout(Duration::from_millis(400)).build().unwrap();
    let location = location(1);
    let (outcome, late) = join!(client.get(&location), fake.next());
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::Timeout { operation: "GetReq", .. }), "{error}");
    assert_eq!(late.connection, 0);
    assert_eq!(fake.closed().await, 0);
    let serve = async {
        let request = fake.next().await;
        assert_eq!(request.connection, 1);
        request.answer(&echo(&request.message())).await;
    };
    let options = GetOptions { timeout: Some(Duration::from_secs(60)), ..Default::default() };
    let (object, ()) = join!(client.get_with(&location, &options), serve);
    assert!(matches!(object, Ok(Fetched::Found(_))));
}

#[tokio::test]
async fn a_read_moves_on_from_a_node_that_stalls() {
    let mut stalled = Fake::start().await;
    let mut other = Fake::start().await;
    let client = Client::builder()
        .nodes([stalled.address.clone(), other.address.clone()])
        .attempt_timeout(Duration::from_millis(200))
        .backoff(HOUR..=HOUR)
        .build()
        .unwrap();
    let location = location(1);
    let move_on = async {
        let unanswered = stalled.next().await;
        let request = other.next().await;
        request.answer(&echo(&request.message())).await;
        drop(unanswered);
    };
    let (object, ()) = join!(client.get(&location), move_on);
    assert!(object.unwrap().is_some());
    assert_eq!(stalled.closed().await, 0);
    for _ in 0..3 {
        let serve = other.answer_next::<RpbPingReq, _>(&RpbPingResp {});
        join!(client.ping(), serve).0.unwrap();
    }
    assert!(stalled.is_quiet(), "it is left alone");
}

#[tokio::test]
async fn a_write_waits_for_its_node_longer_than_a_read_would() {
    let (mut slow, mut other) = (Fake::start().await, Fake::start().await);
    let client = Client::builder()
        .nodes([slow.address.clone(), other.address.clone()])
        // The second attempt is the last one, so the attempt timeout does not apply to it.
        .attempts_max(2)
        .attempt_timeout(Duration::from_millis(200))
        .build()
        .unwrap();
    let location = location(1);
    let serve = async {
        let write = slow.next().await;
        // A read that starts after the write is sent to another node when its attempt times out.
        let moves_on = async {
            other.next().await;
            let read = slow.next().await;
            read.answer(&echo(&read.message())).await;
        };
        let (object, ()) = join!(client.get(&location), moves_on);
        assert!(object.unwrap().is_some());
        write.answer(&RpbPutResp::default()).await;
    };
    let (outcome, ()) = join!(client.put(&location, Content::new("v")), serve);
    outcome.unwrap();
    assert_eq!(other.closed().await, 0);
    assert!(other.is_quiet(), "it did not get the write");
}

#[tokio::test]
async fn a_dropped_request_leaves_the_connection_in_step() {
    let mut fake = Fake::start().await;
    let client = builder(&fake).connections_per_node_max(1).build().unwrap();
    let first = select! {
        outcome = client.ping() => panic!("{outcome:?}"),
        request = fake.next() => request,
    };
    let serve = async {
        let second = fake.next().await;
        assert_eq!(second.connection, 0);
        first.answer(&RpbPingResp {}).await;
        second.answer(&echo(&second.message())).await;
    };
    let location = location(7);
    let (object, ()) = join!(client.get(&location), serve);
    assert_eq!(object.unwrap().unwrap().single().unwrap().value, "7");
}

#[tokio::test]
async fn a_read_is_tried_again_when_its_connection_breaks() {
    let (mut fake, client) = Fake::with_client().await;
    let serve = async {
        fake.next().await.hang_up().await;
        assert_eq!(fake.closed().await, 0);
        let request = fake.next().await;
        assert_eq!(request.connection, 1);
        request.answer(&echo(&request.message())).await;
    };
    let location = location(1);
    let (object, ()) = join!(client.get(&location), serve);
    assert!(object.unwrap().is_some());
}

#[tokio::test]
async fn a_read_that_always_breaks_ends_with_its_last_attempt() {
    let mut fake = Fake::start().await;
    let client = builder(&fake).attempts_max(2).build().unwrap();
    let location = location(1);
    let breaks = async {
        for connection in 0..2 {
            fake.next().await.hang_up().await;
            assert_eq!(fake.closed().await, connection);
        }
    };
    let (outcome, ()) = join!(client.get(&location), breaks);
    assert!(matches!(outcome, Err(Error::Lost { .. })), "{outcome:?}");
    assert!(fake.is_quiet());
}

#[tokio::test]
async fn an_answer_longer_than_the_limit_is_an_error() {
    let mut fake = Fake::start().await;
    let client = builder(&fake).frame_length_bytes_max(20).attempts_max(1).build().unwrap();
    let location = Bucket::new("b").key("a key of more than twenty bytes");
    let (outcome, request) = join!(client.get(&location), async {
        let request = fake.next().await;
        request.answer(&echo(&request.message())).await;
        request
    });
    assert!(matches!(outcome, Err(Error::Frame { .. })), "{outcome:?}");
    assert_eq!(fake.closed().await, request.connection);
}

#[tokio::test]
async fn a_write_is_never_sent_twice() {
    let (mut fake, client) = Fake::with_client().await;
    let location = location(1);
    let (outcome, ()) = join!(client.put(&location, Content::new("v")), async {
        fake.next().await.hang_up().await;
    });
    assert!(matches!(outcome, Err(Error::Lost { .. })), "{outcome:?}");
    let (outcome, ()) = join!(client.delete(&location), async {
        assert_eq!(fake.closed().await, 0);
        fake.next().await.hang_up().await;
    });
    assert!(matches!(outcome, Err(Error::Lost { .. })), "{outcome:?}");
    assert_eq!(fake.closed().await, 1);
    assert!(fake.is_quiet());
}

#[tokio::test]
async fn an_answer_that_nobody_asked_for_ends_the_connection() {
    let (mut fake, client) = Fake::with_client().await;
    let serve = async {
        fake.next().await.answer_bytes(&[0, 0, 0, 1, 2, 0, 0, 0, 1, 2]).await;
        assert_eq!(fake.closed().await, 0);
    };
    let (outcome, ()) = join!(client.ping(), serve);
    outcome.unwrap();
}

#[tokio::test]
async fn requests_take_turns_among_the_nodes() {
    let mut one = Fake::start().await;
    let mut other = Fake::start().await;
    let client =
        Client::builder().nodes([one.address.clone(), other.address.clone()]).build().unwrap();
    for _ in 0..3 {
        for fake in [&mut one, &mut other] {
            let serve = fake.answer_next::<RpbPingReq, _>(&RpbPingResp {});
            join!(client.ping(), serve).0.unwrap();
        }
    }
}

/// An address where no server listens.
fn nowhere() -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().to_string()
}

#[tokio::test]
async fn a_node_that_is_down_is_passed_over_until_its_time_has_come() {
    let mut up = Fake::start().await;
    let down = nowhere();
    let client = Client::builder()
        .nodes([down.clone(), up.address.clone()])
        .backoff(HOUR..=HOUR)
        .build()
        .unwrap();
    let serve = up.answer_next::<RpbPingReq, _>(&RpbPingResp {});
    join!(client.ping(), serve).0.unwrap();
    let mut back = Fake::start_at(&down).await;
    for _ in 0..4 {
        let serve = up.answer_next::<RpbPingReq, _>(&RpbPingResp {});
        join!(client.ping(), serve).0.unwrap();
    }
    assert!(back.is_quiet(), "the hour is not over");
}

#[tokio::test]
async fn a_write_and_a_list_begin_at_a_node_that_is_up() {
    let mut up = Fake::start().await;
    // Each client finds the first of its nodes down.
    let client = || Client::builder().nodes([nowhere(), up.address.clone()]).build().unwrap();
    let (writer, reader) = (client(), client());
    let location = location(1);
    let stored = RpbPutResp::default();
    let serve = up.answer_next::<RpbPutReq, _>(&stored);
    join!(writer.put(&location, Content::new("v")), serve).0.unwrap();
    let last = RpbListKeysResp { keys: Vec::new(), done: Some(true) };
    let serve = up.answer_next::<RpbListKeysReq, _>(&last);
    join!(reader.list_keys(&location.bucket, None), serve).0.unwrap();
}

#[tokio::test]
async fn a_node_that_is_down_is_an_error_and_used_again_when_it_is_up() {
    let address = nowhere();
    let client = Client::builder()
        .node(address.clone())
        .backoff(Duration::from_millis(1)..=Duration::from_millis(1))
        .build()
        .unwrap();
    let error = client.ping().await.unwrap_err();
    assert!(matches!(&error, Error::Connect { address: at, .. } if *at == address), "{error}");
    let mut fake = Fake::start_at(&address).await;
    let serve = fake.answer_next::<RpbPingReq, _>(&RpbPingResp {});
    join!(client.ping(), serve).0.unwrap();
}

#[tokio::test]
async fn times_beyond_all_clocks_are_as_good_as_for_ever() {
    let mut fake = Fake::start().await;
    let client = builder(&fake)
        .request_timeout(Duration::MAX)
        .connect_timeout(Duration::MAX)
        .backoff(Duration::MAX..=Duration::MAX)
        .build()
        .unwrap();
    let serve = fake.answer_next::<RpbPingReq, _>(&RpbPingResp {});
    join!(client.ping(), serve).0.unwrap();
}

#[tokio::test]
async fn settings_that_cannot_work_are_refused() {
    let text = |builder: ClientBuilder| builder.build().unwrap_err().to_string();
    assert_eq!(text(Client::builder()), "nodes is empty; name at least one host:port");
    let builder = Client::builder().node("localhost:8087");
    assert_eq!(
        text(builder.clone().connections_per_node_max(0)),
        "connections_per_node_max is 0; choose 1 to 10000"
    );
    assert_eq!(
        text(builder.in_flight_per_connection_max(10_001)),
        "in_flight_per_connection_max is 10001; choose 1 to 10000"
    );
}
