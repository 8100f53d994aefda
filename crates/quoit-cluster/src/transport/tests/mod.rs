//! Behaviour of the transport as a whole, over the network in memory and in paused time.

mod calls;
mod greetings;
mod liveness;
mod raw_connections;
mod secured;
mod streams;
mod tcp;

use super::memory_network::MemoryNetwork;
use super::*;
use crate::{ClusterId, NodeId};
use bytes::Bytes;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{sleep, timeout};

pub(super) const CLUSTER: ClusterId = ClusterId(*b"the test cluster");
/// Echoes header and payload.
pub(super) const ECHO: u16 = 1;
/// Echoes the payload after the number of milliseconds in the header.
pub(super) const ECHO_LATER: u16 = 2;
/// Answers with `first`, then with `last`.
pub(super) const TWICE: u16 = 3;
/// Gives no answer.
pub(super) const FORGET: u16 = 4;
/// Answers with the numbers from 1 to that in the header, each with 1000 bytes.
pub(super) const COUNT: u16 = 6;
/// Answers with 100 000 bytes, and then with an empty answer.
pub(super) const LARGE_MORE: u16 = 7;
/// Refuses.
pub(super) const REFUSE: u16 = 5;

struct TestService;

impl Service for TestService {
    fn serve(&self, request: IncomingRequest, reply: Responder) {
        match request.method {
            ECHO => reply.send(&request.header.to_vec(), &request.payload),
            ECHO_LATER => {
                let delay_ms: u64 = prost::Message::decode(&request.header[..]).unwrap();
                tokio::spawn(async move {
                    sleep(Duration::from_millis(delay_ms)).await;
                    reply.send(&delay_ms, &request.payload);
                });
            }
            COUNT => {
                let count: u64 = prost::Message::decode(&request.header[..]).unwrap();
                tokio::spawn(async move {
                    for number in 1..count {
                        if !reply.ready().await {
                            return;
                        }
                        reply.send_more(&number, &[0; 1000]);
                    }
                    reply.send(&count, &[0; 1000]);
                });
            }
            LARGE_MORE => {
                reply.send_more(&(), &[0; 100_000]);
                reply.send(&(), b"");
            }
            TWICE => {
                reply.send_more(&(), b"first");
                tokio::spawn(async move {
                    sleep(Duration::from_millis(5)).await;
                    reply.send(&(), b"last");
                });
            }
            FORGET => {}
            _ => reply.refuse(2000, "not today"),
        }
    }
}

pub(super) fn id(number: u8) -> NodeId {
    NodeId([number; 16])
}

pub(super) fn name(number: u8) -> String {
    format!("n{number}")
}

/// Settings of the node with this number.
pub(super) fn settings(number: u8) -> InternodeSettings {
    InternodeSettings::new(id(number), name(number), number.into(), JitterSeed(number.into()))
}

/// Starts a node of the test cluster at `HOST:1`. It serves and knows no peers.
pub(super) async fn node_with(
    network: &MemoryNetwork,
    host: &str,
    settings: InternodeSettings,
) -> Arc<Internode> {
    let network = network.host(host);
    let listener = network.bind(&format!("{host}:1")).await.unwrap();
    let node = Internode::new(settings, network);
    node.set_cluster(Some(CLUSTER));
    node.register(1..=99, Arc::new(TestService));
    node.serve(listener).unwrap();
    node
}

pub(super) async fn node(network: &MemoryNetwork, number: u8) -> Arc<Internode> {
    node_with(network, &name(number), settings(number)).await
}

/// Returns the argument of [`Internode::set_peers`] for the nodes with these numbers.
pub(super) fn members(numbers: &[u8]) -> Vec<(NodeId, Arc<str>, Arc<str>)> {
    let member = |&number| (id(number), format!("n{number}:1").into(), name(number).into());
    numbers.iter().map(member).collect()
}

/// Starts two nodes that know each other. Also returns the second one as a peer of the first.
pub(super) async fn two(network: &MemoryNetwork) -> (Arc<Internode>, Arc<Internode>, Arc<Peer>) {
    let (one, other) = (node(network, 1).await, node(network, 2).await);
    one.set_peers(&members(&[1, 2]));
    other.set_peers(&members(&[1, 2]));
    let peer = one.peer(id(2)).unwrap();
    (one, other, peer)
}

/// Waits in paused time until `condition` holds.
pub(super) async fn until(what: &str, mut condition: impl FnMut() -> bool) {
    let waiting = async {
        while !condition() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    assert!(timeout(Duration::from_secs(60), waiting).await.is_ok(), "not within a minute: {what}");
}

/// Makes a call on the small lane that is echoed.
pub(super) async fn echo(peer: &Peer, payload: &'static [u8]) -> Result<Bytes, CallError> {
    let reply = peer.call(ECHO, &(), payload, Lane::Small, Duration::from_secs(10)).await?;
    Ok(reply.payload)
}
