//! Requests and answers on one connection.

use crate::fake::Fake;
use bytes::Bytes;
use quoit_client::wire::messages::*;
use quoit_client::{Connection, Error};
use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;
use tokio::join;

async fn connected() -> (Fake, Connection) {
    let fake = Fake::start().await;
    let connection = Connection::connect(&fake.address).await.unwrap();
    (fake, connection)
}

#[tokio::test]
async fn a_call_gets_its_answer_also_in_single_bytes() {
    let (mut fake, mut connection) = connected().await;
    let request = RpbGetReq {
        bucket: Bytes::from_static(b"b"),
        key: Bytes::from_static(b"k"),
        ..Default::default()
    };
    let serve = async {
        let got = fake.next().await;
        assert_eq!(got.message::<RpbGetReq>(), request);
        for byte in [0, 0, 0, 4, 10, 0x12, 1, b'c'] {
            got.answer_bytes(&[byte]).await;
            tokio::task::yield_now().await;
        }
    };
    let (answer, ()) = join!(connection.call::<_, RpbGetResp>(&request), serve);
    assert_eq!(answer.unwrap().vclock.unwrap(), "c");
    assert_eq!(connection.outstanding(), 0);
}

#[tokio::test]
async fn an_error_answer_is_an_error_and_the_connection_stays_good() {
    let (mut fake, mut connection) = connected().await;
    let serve = async {
        fake.answer_next::<RpbPingReq, _>(&crate::fake::error("overload")).await;
        fake.answer_next::<RpbPingReq, _>(&RpbPingResp {}).await;
    };
    let ask = async {
        let error = connection.ping().await.unwrap_err();
        assert!(error.server().unwrap().is_overload());
        assert_eq!(error.to_string(), "the server answered: overload");
        connection.ping().await.unwrap();
    };
    join!(ask, serve);
}

#[tokio::test]
async fn queued_requests_are_answered_in_their_order() {
    let (mut fake, mut connection) = connected().await;
    for _ in 0..3 {
        connection.queue(&RpbGetServerInfoReq {}).unwrap();
    }
    connection.queue_encoded(&[0, 0, 0, 1, 7]);
    assert_eq!(connection.outstanding(), 4);
    connection.flush().await.unwrap();
    let mut requests = Vec::new();
    for _ in 0..4 {
        requests.push(fake.next().await);
    }
    for (at, request) in requests.iter().enumerate() {
        let node = Some(Bytes::from(at.to_string()));
        request.answer(&RpbGetServerInfoResp { node, server_version: None }).await;
    }
    for at in 0..4 {
        let frame = connection.receive().await.unwrap();
        let answer: RpbGetServerInfoResp = frame.decode().unwrap();
        assert_eq!(answer.node.unwrap(), at.to_string());
    }
    assert_eq!(connection.outstanding(), 0);
}

#[tokio::test]
async fn a_connection_with_a_call_dropped_half_way_refuses_further_calls() {
    let (mut fake, mut connection) = connected().await;
    {
        let mut call = pin!(connection.ping());
        poll_fn(|context| {
            assert!(call.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
    }
    fake.next().await.answer(&RpbPingResp {}).await;
    let error = connection.client_id().await.unwrap_err();
    assert!(matches!(error, Error::OutOfStep { outstanding: 1, .. }), "{error}");
}

#[tokio::test]
async fn an_answer_of_another_kind_names_both() {
    let (mut fake, mut connection) = connected().await;
    let serve = async { fake.answer_next::<RpbPingReq, _>(&RpbDelResp {}).await };
    let (outcome, _) = join!(connection.ping(), serve);
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("expected the message PingResp (2), got message code 14"), "{text}");
}

#[tokio::test]
async fn a_connection_that_ends_or_talks_nonsense_is_an_error() {
    let (mut fake, mut connection) = connected().await;
    let serve = async { fake.next().await.hang_up().await };
    let (outcome, ()) = join!(connection.ping(), serve);
    assert!(matches!(outcome, Err(Error::Lost { .. })), "{outcome:?}");

    let (mut fake, connection) = connected().await;
    let mut connection = connection.with_frame_length_max(100);
    let serve = async { fake.next().await.answer_bytes(&[0, 0, 0, 101]).await };
    let (outcome, ()) = join!(connection.ping(), serve);
    let text = outcome.unwrap_err().to_string();
    assert!(text.contains("frame of 101 bytes is above the limit of 100"), "{text}");
}

#[tokio::test]
async fn the_client_id_goes_to_the_server_and_back() {
    let (mut fake, mut connection) = connected().await;
    let client_id = Bytes::from_static(b"me");
    let serve = async {
        let set: RpbSetClientIdReq = fake.answer_next(&RpbSetClientIdResp {}).await;
        fake.answer_next::<RpbGetClientIdReq, _>(&RpbGetClientIdResp { client_id: set.client_id })
            .await;
    };
    let ask = async {
        connection.set_client_id(client_id.clone()).await.unwrap();
        connection.client_id().await.unwrap()
    };
    assert_eq!(join!(ask, serve).0, client_id);
}
