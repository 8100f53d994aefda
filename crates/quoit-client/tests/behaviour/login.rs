//! Logins that are refused, and TLS handshakes that fail.

use crate::fake::Fake;
use bytes::BytesMut;
use quoit_client::wire::messages::*;
use quoit_client::wire::{FrameDecoder, append_message};
use quoit_client::{Bucket, Client, ClientBuilder, Credentials, Error, Login, TlsSettings};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::timeout;
use tokio::{join, select};

/// A login that trusts no certificate of these tests.
fn login() -> Login {
    let folder = tempfile::tempdir().unwrap();
    let authorities = folder.path().join("authority.pem");
    let mut certificate = CertificateParams::new(["authority".to_owned()]).unwrap();
    certificate.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = certificate.self_signed(&KeyPair::generate().unwrap()).unwrap();
    std::fs::write(&authorities, certificate.pem()).unwrap();
    let credentials = Credentials { user: "alice", password: "secret" };
    Login::new(credentials, &TlsSettings { authorities, ..TlsSettings::default() }).unwrap()
}

/// Builder of a client that logs in. If the client can't connect to a node, it does not use that node for an
/// hour.
fn builder<T: Into<String>>(nodes: impl IntoIterator<Item = T>) -> ClientBuilder {
    let pause = Duration::from_secs(3600);
    Client::builder().nodes(nodes).login(login()).backoff(pause..=pause)
}

/// Refuses the login that comes next.
async fn refuse(fake: &mut Fake) {
    let request = fake.next().await;
    request.message::<RpbStartTls>();
    request.refuse("Security not enabled; STARTTLS not allowed.").await;
}

#[tokio::test]
async fn a_refused_login_ends_the_request() {
    let (mut one, mut other) = (Fake::start().await, Fake::start().await);
    let client = builder([one.address.clone(), other.address.clone()]).build().unwrap();
    let error = select! {
        (outcome, ()) = async { join!(client.ping(), refuse(&mut one)) } => outcome.unwrap_err(),
        _ = other.next() => panic!("the other node is asked, too"),
    };
    assert!(error.server().unwrap().message.contains("not allowed"), "{error}");
}

#[tokio::test]
async fn a_refused_login_ends_a_listing() {
    let (mut one, mut other) = (Fake::start().await, Fake::start().await);
    let client = builder([one.address.clone(), other.address.clone()]).build().unwrap();
    let bucket = Bucket::new("b");
    let error = select! {
        (outcome, ()) = async { join!(client.list_keys(&bucket, None), refuse(&mut one)) } =>
            outcome.unwrap_err(),
        _ = other.next() => panic!("the other node is asked, too"),
    };
    assert!(error.server().unwrap().message.contains("not allowed"), "{error}");
}

#[tokio::test]
async fn a_node_that_refuses_a_login_is_asked_again_at_once() {
    let mut fake = Fake::start().await;
    let client = builder([fake.address.clone()]).build().unwrap();
    for connection in 0..2 {
        let (outcome, ()) = join!(client.ping(), refuse(&mut fake));
        assert!(outcome.unwrap_err().server().is_some());
        assert_eq!(fake.closed().await, connection);
    }
}

#[tokio::test]
async fn a_refused_login_ends_a_request_before_which_the_layout_is_asked_for() {
    let mut fake = Fake::start().await;
    let client = builder([fake.address.clone()]).replica_aware(true).build().unwrap();
    let location = Bucket::new("b").key("k");
    let (outcome, ()) = join!(client.get(&location), refuse(&mut fake));
    let error = outcome.unwrap_err();
    assert!(error.server().unwrap().message.contains("not allowed"), "{error}");
    assert_eq!(fake.closed().await, 0);
    assert!(fake.is_quiet(), "the login is tried once");
}

/// A node that agrees to begin TLS on its next connection, and sends `rest` at once.
async fn agree_to_tls(node: &TcpListener, rest: &[u8]) -> TcpStream {
    let (mut stream, _) = node.accept().await.unwrap();
    let (decoder, mut read) = (FrameDecoder::default(), BytesMut::new());
    while decoder.next_frame(&mut read).unwrap().is_none() {
        assert!(stream.read_buf(&mut read).await.unwrap() > 0);
    }
    let mut answer = Vec::new();
    append_message(&mut answer, &RpbStartTls::default()).unwrap();
    answer.extend_from_slice(rest);
    stream.write_all(&answer).await.unwrap();
    stream
}

/// A node that agrees to begin TLS and then does not speak it. Returns when the client has given up.
async fn break_handshake(node: &TcpListener) {
    let mut stream = agree_to_tls(node, b"HTTP/1.1 400 Bad Request\r\n\r\n").await;
    // Reads what the client sends, so that no reset of the connection discards the bytes sent above.
    let _ = stream.read_to_end(&mut Vec::new()).await;
}

#[tokio::test]
async fn a_connection_that_breaks_within_the_handshake_is_made_again() {
    let node = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let pause = Duration::from_millis(1);
    let client = builder([node.local_addr().unwrap().to_string()])
        .backoff(pause..=pause)
        .attempts_max(2)
        .build()
        .unwrap();
    let handshakes = async {
        drop(agree_to_tls(&node, &[]).await);
        break_handshake(&node).await;
    };
    let both = async { join!(client.ping(), handshakes) };
    let (outcome, ()) = timeout(Duration::from_secs(30), both).await.expect("two connections");
    let error = outcome.unwrap_err();
    assert!(matches!(&error, Error::Handshake { .. }), "{error}");
}

#[tokio::test]
async fn after_a_failed_handshake_each_other_node_is_tried_once() {
    let one = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let other = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let nodes = [&one, &other].map(|node| node.local_addr().unwrap().to_string());
    let client = builder(nodes.clone()).attempts_max(10).build().unwrap();
    let handshakes = async {
        break_handshake(&one).await;
        break_handshake(&other).await;
    };
    let both = async { join!(client.ping(), handshakes) };
    let (outcome, ()) =
        timeout(Duration::from_secs(30), both).await.expect("no wait for a back-off");
    let error = outcome.unwrap_err();
    assert!(matches!(&error, Error::Handshake { address, .. } if *address == nodes[1]), "{error}");
}
