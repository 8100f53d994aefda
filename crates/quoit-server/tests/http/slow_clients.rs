//! Slow clients. The runtime's clock is paused and advances to the next deadline when all tasks are idle.

use crate::fixture::{Client, Node};
use std::thread;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::sync::oneshot;

fn paused() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_all().start_paused(true).build().unwrap()
}

/// Runs a server with a paused clock, and `client` on a thread of its own.
fn with_client<T: Send + 'static>(client: impl FnOnce(Client) -> T + Send + 'static) -> T {
    let node = Node::inside(paused());
    let (done, result) = oneshot::channel();
    let connected = node.connect();
    let thread = thread::spawn(move || done.send(client(connected)).map_err(drop));
    let result = node.run(result).expect("the client's result");
    thread.join().expect("the client").expect("somebody waits for the result");
    result
}

#[test]
fn a_head_that_does_not_end_is_given_up() {
    let (status, is_closed) = with_client(|mut client| {
        client.send(b"GET /ping HTTP/1.1\r\nHost: ");
        let status = client.read("GET").status;
        (status, client.is_closed())
    });
    assert_eq!((status, is_closed), (408, true));
}

#[test]
fn a_body_that_does_not_end_is_given_up() {
    let status = with_client(|mut client| {
        client.send(b"PUT /buckets/b/keys/k HTTP/1.1\r\nContent-Length: 10\r\n\r\nabc");
        client.read("PUT").status
    });
    assert_eq!(status, 408);
    let status = with_client(|mut client| {
        client.send(b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nab");
        client.read("PUT").status
    });
    assert_eq!(status, 408);
}

#[test]
fn an_idle_connection_is_not_given_up() {
    let texts = with_client(|mut client| {
        let mut ask = || client.request("GET", "/ping", &[], b"").text().to_owned();
        [ask(), ask()]
    });
    assert_eq!(texts, ["OK", "OK"]);
}

#[test]
fn a_client_that_does_not_take_its_answers_is_given_up() {
    let node = Node::inside(paused());
    let mut client = node.connect();
    let (sent, result) = oneshot::channel();
    let thread = thread::spawn(move || {
        // More answers than the socket buffers hold.
        client.send("GET /stats HTTP/1.1\r\n\r\n".repeat(2_000).as_bytes());
        // The connection stays open, and the client stops reading.
        sent.send(client).map_err(drop)
    });
    let client = node.run(result).expect("a client that waits");
    thread.join().expect("the client").expect("somebody waits for it");
    let has_ended = node.run(async {
        let mut seconds = tokio::time::interval(Duration::from_secs(1));
        for _ in 0..1_000 {
            seconds.tick().await;
            if node.context.http_connections.active() == 0 {
                return true;
            }
        }
        false
    });
    assert!(has_ended, "the connection is open after 1000 seconds");
    drop(client);
}
