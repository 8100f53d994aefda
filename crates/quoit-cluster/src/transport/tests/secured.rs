//! Connections with and without a proof of membership.

use super::*;
use crate::transport::{InternodeTlsMode, JoinProof, LinkKeys, LinkSecurity, PeerProof};
use quoit_tls::Instant as Time;
use quoit_tls::nodes::{Authority, JoinToken, LinkTrust, NodeSubject};
use quoit_wire::internode::code;
use std::sync::OnceLock;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const LIMIT: Duration = Duration::from_secs(5);

fn authority() -> &'static Authority {
    static AUTHORITY: OnceLock<Authority> = OnceLock::new();
    AUTHORITY.get_or_init(|| Authority::make("test", Time::now()).unwrap())
}

fn trust() -> LinkTrust {
    let authorities = vec![authority().certificate().clone()];
    LinkTrust { authorities, ..LinkTrust::default() }
}

/// Returns the security of a node with the certificate of node `number`.
fn security(mode: InternodeTlsMode, number: u8, trust: LinkTrust) -> Arc<LinkSecurity> {
    let (node, name) = (id(number).to_string(), name(number));
    let subject = NodeSubject { node: &node, name: &name };
    let identity = authority().issue(subject, Time::now()).unwrap();
    let security = LinkSecurity::new(mode, None);
    security.set_keys(LinkKeys::new(identity, trust).unwrap());
    Arc::new(security)
}

fn secured(mode: InternodeTlsMode, number: u8) -> InternodeSettings {
    InternodeSettings { security: security(mode, number, trust()), ..settings(number) }
}

async fn secured_node(
    network: &MemoryNetwork,
    mode: InternodeTlsMode,
    number: u8,
) -> Arc<Internode> {
    node_with(network, &name(number), secured(mode, number)).await
}

#[tokio::test(start_paused = true)]
async fn members_with_certificates_talk_and_all_others_are_not_heard() {
    let network = MemoryNetwork::default();
    let one = secured_node(&network, InternodeTlsMode::Required, 1).await;
    let two = secured_node(&network, InternodeTlsMode::Required, 2).await;
    let plain = node(&network, 3).await;
    for each in [&one, &two, &plain] {
        each.set_peers(&members(&[1, 2, 3]));
    }
    let peer = one.peer(id(2)).unwrap();
    assert_eq!(echo(&peer, b"x").await.unwrap(), "x");
    assert!(!peer.is_plain());
    let of_plain = plain.peer(id(1)).unwrap();
    until("the plain node is turned away", || of_plain.connection_problem().is_some()).await;
    assert!(!of_plain.is_up());
    let of_one = one.peer(id(3)).unwrap();
    until("the plain node is not trusted", || of_one.connection_problem().is_some()).await;
    assert!(
        of_one.connection_problem().unwrap().contains("no proof of membership"),
        "{:?}",
        of_one.connection_problem()
    );
    assert!(one.security().plain_links().is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_shows_the_certificate_of_another_is_refused() {
    let network = MemoryNetwork::default();
    let one = secured_node(&network, InternodeTlsMode::Required, 1).await;
    let false_two = InternodeSettings {
        security: security(InternodeTlsMode::Required, 3, trust()),
        ..settings(2)
    };
    let two = node_with(&network, "n2", false_two).await;
    two.set_peers(&members(&[1, 2]));
    let peer = two.peer(id(1)).unwrap();
    until("it is refused", || peer.connection_problem().is_some()).await;
    let trouble = peer.connection_problem().unwrap();
    assert!(trouble.contains("the certificate is that of node 0303"), "{trouble}");
    // In the other direction, the node that is dialed as n2 proves to be n3.
    one.set_peers(&members(&[1, 2]));
    let peer = one.peer(id(2)).unwrap();
    until("it is found out", || peer.connection_problem().is_some()).await;
    assert!(
        peer.connection_problem().unwrap().contains("is 0303"),
        "{:?}",
        peer.connection_problem()
    );
}

#[tokio::test(start_paused = true)]
async fn both_serves_plain_nodes_counts_them_and_required_ends_them() {
    let network = MemoryNetwork::default();
    let one = secured_node(&network, InternodeTlsMode::Both, 1).await;
    let two = secured_node(&network, InternodeTlsMode::Both, 2).await;
    let plain = node(&network, 3).await;
    for each in [&one, &two, &plain] {
        each.set_peers(&members(&[1, 2, 3]));
    }
    let (secured, open) = (one.peer(id(2)).unwrap(), one.peer(id(3)).unwrap());
    assert_eq!(echo(&secured, b"x").await.unwrap(), "x");
    assert_eq!(echo(&open, b"x").await.unwrap(), "x");
    assert!(!secured.is_plain() && open.is_plain());
    let of_plain = plain.peer(id(1)).unwrap();
    assert_eq!(echo(&of_plain, b"x").await.unwrap(), "x");
    let links = one.security().plain_links();
    assert_eq!(links.keys().collect::<Vec<_>>(), ["n3"]);
    let to_end = || {
        one.inbound_nodes()
            .into_iter()
            .filter(|(_, inbound)| inbound.is_to_end)
            .map(|(node, _)| node)
    };
    assert_eq!(to_end().count(), 0, "it is allowed");
    one.outdate_plain_inbound();
    assert_eq!(to_end().collect::<Vec<_>>(), [id(3)], "it was made before the mode has changed");
    one.security().set_mode(InternodeTlsMode::Required);
    one.hang_up_inbound(id(3));
    open.close_connections();
    until("the plain node is shut out", || !of_plain.is_up() && !open.is_up()).await;
    assert_eq!(echo(&secured, b"still").await.unwrap(), "still");
}

/// Starts two nodes whose lanes were connected without TLS in the mode `plain`, and which support TLS now.
async fn two_in_clear(network: &MemoryNetwork) -> (Arc<Internode>, Arc<Internode>, Arc<Peer>) {
    let one = secured_node(network, InternodeTlsMode::Plain, 1).await;
    let two = secured_node(network, InternodeTlsMode::Plain, 2).await;
    for each in [&one, &two] {
        each.set_peers(&members(&[1, 2]));
    }
    let peer = one.peer(id(2)).unwrap();
    for lane in [Lane::Small, Lane::Large] {
        peer.call(ECHO, &(), b"x", lane, LIMIT).await.unwrap();
    }
    assert!(peer.is_plain());
    one.security().set_mode(InternodeTlsMode::Both);
    two.security().set_mode(InternodeTlsMode::Both);
    (one, two, peer)
}

/// Calls are made all the time, each takes as long as a handshake or longer, and none of them fails.
#[tokio::test(start_paused = true)]
async fn connections_get_tls_while_calls_are_under_way_and_none_fails() {
    let network = MemoryNetwork::default();
    let (_one, _two, peer) = two_in_clear(&network).await;
    for (from, to) in [("n1", "n2"), ("n2", "n1")] {
        network.set_delay(from, to, Duration::from_millis(7));
    }
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..400_u64 {
        if number == 100 {
            peer.renew_plain();
        }
        let (called, lane) = (Arc::clone(&peer), [Lane::Small, Lane::Large][number as usize % 2]);
        calls.spawn(async move {
            let limit = Duration::from_secs(3);
            called.call(ECHO_LATER, &(number % 90), b"x", lane, limit).await
        });
        assert!(peer.is_up(), "the other node is never away");
        sleep(Duration::from_millis(1)).await;
    }
    while let Some(outcome) = calls.join_next().await {
        outcome.unwrap().unwrap();
    }
    assert!(!peer.is_plain());
    assert_eq!(peer.pending_count(), 0);
    assert_eq!(peer.statistics().connected_count, 4, "two lanes, each connected twice");
}

/// An unanswered call does not keep the old connection: the connection ends, and later calls use the new one.
#[tokio::test(start_paused = true)]
async fn a_connection_that_does_not_fall_silent_is_replaced_after_a_time() {
    let network = MemoryNetwork::default();
    let (_one, _two, peer) = two_in_clear(&network).await;
    let long = {
        let peer = Arc::clone(&peer);
        let minute = Duration::from_secs(60);
        tokio::spawn(
            async move { peer.call(ECHO_LATER, &30_000_u64, b"", Lane::Small, minute).await },
        )
    };
    until("the call is under way", || peer.pending_count() == 1).await;
    peer.renew_plain();
    let waiting = {
        let peer = Arc::clone(&peer);
        until("calls wait for the new connection", || peer.lane(Lane::Small).is_held()).await;
        tokio::spawn(async move { echo(&peer, b"waits").await })
    };
    let fault = long.await.unwrap().unwrap_err();
    assert!(matches!(fault, CallError::Disconnected(_)), "{fault}");
    assert_eq!(waiting.await.unwrap().unwrap(), "waits");
    until("it has TLS", || !peer.is_plain()).await;
}

#[tokio::test(start_paused = true)]
async fn a_member_that_leaves_while_its_connection_is_replaced_keeps_none() {
    let network = MemoryNetwork::default();
    let (one, two, peer) = two_in_clear(&network).await;
    let replies = Replies::new();
    peer.send(ECHO_LATER, &30_000_u64, b"", Lane::Small, &replies, 0).unwrap();
    peer.renew_plain();
    until("calls wait for the new connection", || peer.lane(Lane::Small).is_held()).await;
    one.set_peers(&members(&[1]));
    until("no connection is left", || two.inbound_nodes().is_empty()).await;
    sleep(LIMIT).await;
    assert!(!peer.is_up() && two.inbound_nodes().is_empty());
}

/// One side has a certificate, and the other one does not speak TLS. The connection stays, and
/// the reason is recorded.
#[tokio::test(start_paused = true)]
async fn a_connection_stays_where_the_other_side_takes_no_tls() {
    let network = MemoryNetwork::default();
    let (one, two, peer) = two_in_clear(&network).await;
    two.security().set_mode(InternodeTlsMode::Plain);
    one.security().note_dialed_plain("n2:1", None);
    peer.renew_plain();
    let is_explained = || one.security().plain_links()["n2"].reason.is_some();
    until("the reason is told", is_explained).await;
    assert!(peer.is_plain() && peer.is_up());
    assert_eq!(echo(&peer, b"still").await.unwrap(), "still");
    two.security().set_mode(InternodeTlsMode::Both);
    peer.renew_plain();
    until("it has TLS", || !peer.is_plain()).await;
    assert_eq!(echo(&peer, b"still").await.unwrap(), "still");
}

/// A node with a token may ask for a certificate, and call no method for members or guests.
#[tokio::test(start_paused = true)]
async fn a_token_opens_one_method_alone() {
    let network = MemoryNetwork::default();
    let token = JoinToken::make(authority().fingerprint()).unwrap();
    let mut known = trust();
    known.tokens.insert(token.id().unwrap(), Time::now().plus_secs(60));
    let of_two = InternodeSettings {
        security: security(InternodeTlsMode::Required, 2, known),
        ..settings(2)
    };
    let two = node_with(&network, "n2", of_two).await;
    two.register_for_guests(ECHO..=ECHO, Arc::new(TestService));
    two.register_for_joiners(60..=60, Arc::new(ProofService));
    let joins = InternodeSettings {
        security: Arc::new(LinkSecurity::new(InternodeTlsMode::Required, None)),
        ..settings(1)
    };
    let one = node_with(&network, "n1", joins).await;
    let proof = JoinProof::Token(token);
    let ask = |method| one.call_address_by(Some(&proof), "n2:1", method, &(), b"", LIMIT);
    let (from, answer) = ask(60).await.unwrap();
    assert_eq!((from, &answer.payload[..]), (id(2), &b"by a token"[..]));
    for method in [ECHO, 1, 7] {
        let refused = ask(method).await.unwrap_err().to_string();
        assert!(refused.contains("does not serve method"), "{refused}");
    }
    let without = one.call_address("n2:1", ECHO, &(), b"", LIMIT).await.unwrap_err().to_string();
    assert!(without.contains("has no certificate of a cluster yet"), "{without}");
    let other = JoinProof::Token(JoinToken::make(authority().fingerprint()).unwrap());
    let refused = one.call_address_by(Some(&other), "n2:1", 60, &(), b"", LIMIT).await;
    let Err(CallError::Refused { code, text }) = refused else { panic!("{refused:?}") };
    assert!(code == code::PROOF && text.contains("has refused the handshake"), "{text}");
}

/// Answers with the proof of the request.
struct ProofService;

impl Service for ProofService {
    fn serve(&self, request: IncomingRequest, reply: Responder) {
        let proof =
            if matches!(request.proven, PeerProof::Token(_)) { "by a token" } else { "else" };
        reply.send(&(), proof.as_bytes());
    }
}

/// All first bytes that do not begin a handshake, and handshakes with a damaged byte at the beginning, end
/// the connection without an answer of the internode protocol. The node keeps running.
#[tokio::test(start_paused = true)]
async fn prodding_before_the_handshake_is_answered_with_nothing_but_alerts() {
    let network = MemoryNetwork::default();
    let one = secured_node(&network, InternodeTlsMode::Required, 1).await;
    let two = secured_node(&network, InternodeTlsMode::Required, 2).await;
    let stranger = network.host("stranger");
    let hello = [0x16, 3, 1, 0, 5, 1, 0, 0, 1, 3];
    let firsts = (0..=255).map(|byte| vec![byte; 64]);
    let cut = (0..hello.len()).flat_map(|at| {
        [0, 0x7f, 0xff].map(|value| {
            let mut damaged = hello.to_vec();
            damaged[at] = value;
            damaged
        })
    });
    for prod in firsts.chain(cut) {
        let mut stream = stranger.connect("n1:1").await.unwrap();
        stream.writer.write_all(&prod).await.unwrap();
        stream.writer.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let read = timeout(Duration::from_secs(30), stream.reader.read_to_end(&mut answer)).await;
        assert!(read.is_ok(), "the connection ends: {prod:?}");
        // An alert is a record of type 21 with a body of two bytes.
        let is_alert = answer.is_empty() || (answer[0] == 21 && answer.len() == 7);
        assert!(is_alert, "{prod:?} was answered with {answer:?}");
    }
    two.set_peers(&members(&[1, 2]));
    assert_eq!(echo(&two.peer(id(1)).unwrap(), b"on").await.unwrap(), "on");
    drop(one);
}
