//! Connections: order of answers, closing, limits, and malformed requests.

use crate::fixture::Node;
use quoit_server::ServerSettings;

#[test]
fn pipelined_requests_are_answered_in_order() {
    let node = Node::start();
    node.put("/buckets/b/keys/a", "A");
    node.put("/buckets/b/keys/b", "B");
    let mut client = node.connect();
    let get = |key: &str| format!("GET /buckets/b/keys/{key} HTTP/1.1\r\nHost: x\r\n\r\n");
    client.send([get("a"), get("none"), get("b")].concat().as_bytes());
    let bodies: Vec<_> = (0..3).map(|_| client.read("GET").text().to_owned()).collect();
    assert_eq!(bodies, ["A", "not found\n", "B"]);
}

#[test]
fn a_request_may_arrive_byte_by_byte() {
    let node = Node::start();
    let mut client = node.connect();
    for byte in
        b"PUT /buckets/b/keys/k HTTP/1.1\r\nContent-Type: a/b\r\nContent-Length: 2\r\n\r\nhi"
    {
        client.send(&[*byte]);
    }
    assert_eq!(client.read("PUT").status, 204);
    assert_eq!(node.get("/buckets/b/keys/k").text(), "hi");
}

#[test]
fn a_chunked_body_is_a_body() {
    let node = Node::start();
    let mut client = node.connect();
    client.send(
        b"PUT /buckets/b/keys/k HTTP/1.1\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n\
          2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\nGET /ping HTTP/1.1\r\n\r\n",
    );
    assert_eq!(client.read("PUT").status, 204);
    assert_eq!(client.read("GET").text(), "OK");
    assert_eq!(node.get("/buckets/b/keys/k").text(), "hello");
}

#[test]
fn a_client_that_waits_for_a_word_gets_it() {
    let node = Node::start();
    let mut client = node.connect();
    client.send(
        b"PUT /buckets/b/keys/k HTTP/1.1\r\nContent-Type: a/b\r\nExpect: 100-continue\r\n\
          Content-Length: 5\r\n\r\n",
    );
    assert_eq!(client.read("PUT").status, 100);
    client.send(b"hello");
    assert_eq!(client.read("PUT").status, 204);
}

#[test]
fn a_client_that_waits_for_a_word_is_refused_before_it_sends_its_body() {
    let node = Node::start();
    let object = "/buckets/b/keys/k";
    for (request, status) in [
        ("PUT /nonsense HTTP/1.1".to_owned(), 404),
        (format!("BREW {object} HTTP/1.1"), 501),
        ("PUT /ping HTTP/1.1".to_owned(), 405),
        (format!("PUT {object} HTTP/1.1"), 400),
        (format!("PUT {object}?r=x HTTP/1.1\r\nContent-Type: a/b"), 400),
        ("POST /types/none/buckets/b/keys HTTP/1.1\r\nContent-Type: a/b".to_owned(), 404),
        ("POST /riak/b HTTP/1.1\r\nContent-Type: banana".to_owned(), 415),
    ] {
        for length in ["Content-Length: 5", "Transfer-Encoding: chunked"] {
            let mut client = node.connect();
            let head = format!("{request}\r\nExpect: 100-continue\r\n{length}\r\n\r\n");
            client.send(head.as_bytes());
            let answer = client.read("PUT");
            assert_eq!(answer.status, status, "{head}");
            assert_eq!(answer.header("connection"), Some("close"), "{head}");
            assert!(client.is_closed(), "{head}");
        }
    }
}

#[test]
fn a_body_that_comes_without_waiting_is_read_whatever_the_head() {
    let node = Node::start();
    let mut client = node.connect();
    client.send(
        b"PUT /buckets/b/keys/k HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello\
          GET /ping HTTP/1.1\r\n\r\n",
    );
    assert_eq!(client.read("PUT").status, 400);
    assert_eq!(client.read("GET").text(), "OK");
}

#[test]
fn connections_end_as_the_client_asks() {
    let node = Node::start();
    let mut client = node.connect();
    let answer = client.request("GET", "/ping", &[("Connection", "close")], b"");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(client.is_closed());

    let mut client = node.connect();
    client.send(b"GET /ping HTTP/1.0\r\n\r\n");
    assert_eq!(client.read("GET").text(), "OK");
    assert!(client.is_closed());

    let mut client = node.connect();
    for _ in 0..2 {
        client.send(b"GET /ping HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
        assert_eq!(client.read("GET").header("connection"), Some("keep-alive"));
    }
}

#[test]
fn what_is_no_request_is_refused_and_ends_the_connection() {
    let node = Node::start();
    for (bytes, status) in [
        (&b"\x00\x00\x00\x01\x01"[..], 400),
        (b"hello there\r\n\r\n", 400),
        (b"GET / HTTP/3.0\r\n\r\n", 505),
        (b"PUT /buckets/b/keys/k HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        (
            b"PUT /buckets/b/keys/k HTTP/1.1\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\
              \r\n0\r\n\r\n",
            400,
        ),
        (b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"PUT /a HTTP/1.1\r\nTransfer-Encoding: gzip\r\n\r\n", 501),
    ] {
        let mut client = node.connect();
        client.send(bytes);
        let answer = client.read("GET");
        assert_eq!(answer.status, status, "{:?}", String::from_utf8_lossy(bytes));
        assert_eq!(answer.header("connection"), Some("close"));
        assert!(client.is_closed());
    }
    assert_eq!(node.get("/ping").status, 200, "others are not harmed");
}

#[test]
fn large_heads_and_bodies_are_refused() {
    let node = Node::with(ServerSettings { request_bytes_max: 1000, ..ServerSettings::default() });
    let mut client = node.connect();
    let headers = "a: b\r\n".repeat(1001);
    client.send(format!("GET /ping HTTP/1.1\r\n{headers}\r\n").as_bytes());
    assert_eq!(client.read("GET").status, 431);

    let mut client = node.connect();
    let name = "a".repeat(70_000);
    client.send(format!("GET /{name} HTTP/1.1\r\n\r\n").as_bytes());
    assert_eq!(client.read("GET").status, 431);

    assert_eq!(node.put("/buckets/b/keys/k", &"v".repeat(1001)).status, 413);
    assert_eq!(node.put("/buckets/b/keys/k", &"v".repeat(1000)).status, 204);

    let mut client = node.connect();
    client.send(b"PUT /a HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n3e9\r\n");
    assert_eq!(client.read("PUT").status, 413);
}

#[test]
fn an_unknown_method_and_a_wrong_one_are_told_apart() {
    let node = Node::start();
    let answer = node.connect().request("PATCH", "/buckets/b/keys/k", &[], b"");
    assert_eq!(answer.status, 501);
    let answer = node.connect().request("DELETE", "/ping", &[], b"");
    assert_eq!((answer.status, answer.header("allow")), (405, Some("GET, HEAD")));
}

#[test]
fn large_values_come_back_whole() {
    let node = Node::start();
    let value = "0123456789abcdef".repeat(200_000);
    assert_eq!(node.put("/buckets/b/keys/k", &value).status, 204);
    let mut client = node.connect();
    for _ in 0..2 {
        assert_eq!(client.request("GET", "/buckets/b/keys/k", &[], b"").text(), value);
    }
}

#[test]
fn a_stop_ends_idle_connections() {
    let mut node = Node::start();
    let mut client = node.connect();
    assert_eq!(client.request("GET", "/ping", &[], b"").status, 200);
    assert!(node.stop(), "all connections have ended");
    assert!(client.is_closed());
}

/// A refusal has a body, whatever the method of the request before it was.
#[test]
fn a_refusal_after_a_head_request_has_its_body() {
    let node = Node::start();
    for bad in [
        "PUT /buckets/b/keys/k HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n".to_owned(),
        format!("PUT /buckets/b/keys/k HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(1001)),
        "no request\r\n\r\n".to_owned(),
    ] {
        let mut client = node.connect();
        client.send(b"HEAD /ping HTTP/1.1\r\nHost: x\r\n\r\n");
        assert_eq!(client.read("HEAD").status, 200);
        client.send(bad.as_bytes());
        let refusal = client.read("PUT");
        assert!(matches!(refusal.status, 400 | 413 | 431) && !refusal.text().is_empty());
        assert!(client.is_closed());
    }
}

#[test]
fn blanks_between_the_parts_of_a_request_line_count_as_one() {
    let node = Node::start();
    let mut client = node.connect();
    client.send(b"GET  /ping  HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(client.read("GET").text(), "OK");
}

/// A client of HTTP/1.0 that asked for keep-alive must not be told that more requests may follow an answer
/// that ends with the connection.
#[test]
fn a_stream_to_a_client_of_http_1_0_says_that_the_connection_closes() {
    let node = Node::start();
    node.put("/buckets/b/keys/a", "A");
    let mut client = node.connect();
    client.send(b"GET /buckets/b/keys?keys=stream HTTP/1.0\r\nConnection: keep-alive\r\n\r\n");
    let answer = client.read("GET");
    assert_eq!(answer.header("connection"), Some("close"));
    assert!(answer.text().contains("[\"a\"]"), "{}", answer.text());
}
