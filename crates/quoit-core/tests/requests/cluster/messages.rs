//! Tests that gets, puts and deletes send the fewest messages between nodes that can answer them, counted.
//!
//! The nodes that clients ask and the keys are chosen at random, from a fixed seed. A request and its answer
//! are two messages. With `-- --nocapture` the tests print the counts; the fewest possible are derived in
//! `docs/design/coordination.md`.
#![allow(clippy::print_stdout, reason = "shown with --nocapture")]

use crate::cluster::fixture::{Cluster, Node, host};
use quoit_core::{
    Confirmation, DeleteOutcome, DeleteRequest, PlainWrite, PreflistEntry, PutRequest, ReadInPlace,
    ReadOptions, ReplicatedStore, WriteOptions,
};
use quoit_model::clock::VersionVector;
use quoit_model::key::{BucketRef, KeyRef};
use quoit_wire::internode::data::{METHOD_FETCH, METHOD_FORWARD, METHOD_JOIN, METHOD_STORE};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep};

const REQUEST_COUNT: u64 = 1000;
const VALUE: [u8; 1000] = [b'v'; 1000];
/// Number of clients of each node that send requests at the same time, where nodes are to be saturated.
const CLIENTS_PER_NODE: u64 = 64;
/// Requests of each of these clients.
const REQUESTS_PER_CLIENT: u64 = 10;

/// Counts of the traffic between the nodes of a cluster.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// Requests of coordinators to replicas.
    requests: u64,
    /// Messages of any kind.
    sent: u64,
    bytes: u64,
    writes: u64,
    reads: u64,
}

impl Counts {
    /// Counts since the start of the nodes, after all requests were answered.
    async fn settled(cluster: &Cluster) -> Self {
        // Paused time passes only when no task can run, so all messages have arrived afterwards.
        sleep(Duration::from_millis(1)).await;
        Self::of(cluster)
    }

    fn of(cluster: &Cluster) -> Self {
        let zero = Self { requests: 0, sent: 0, bytes: 0, writes: 0, reads: 0 };
        cluster.nodes.iter().fold(zero, |all, node| {
            let internode = node.store.internode();
            let (asked, served) = (internode.peer_statistics(), internode.statistics());
            let methods = [METHOD_FETCH, METHOD_STORE, METHOD_FORWARD, METHOD_JOIN];
            let requests: u64 = methods.iter().map(|method| asked.calls.of(*method)).sum();
            let (own, of_others) = (asked.traffic, served.traffic);
            Self {
                requests: all.requests + requests,
                sent: all.sent + own.sent_frames + of_others.sent_frames,
                bytes: all.bytes + own.sent_bytes + of_others.sent_bytes,
                writes: all.writes + own.write_count + of_others.write_count,
                reads: all.reads + own.read_count + of_others.read_count,
            }
        })
    }

    fn since(self, earlier: Self) -> Self {
        Self {
            requests: self.requests - earlier.requests,
            sent: self.sent - earlier.sent,
            bytes: self.bytes - earlier.bytes,
            writes: self.writes - earlier.writes,
            reads: self.reads - earlier.reads,
        }
    }

    /// Prints the counts of an operation: nodes, name, fewest messages, messages, bytes, writes, reads.
    fn print(&self, name: &str, node_count: usize, operation_count: u64, fewest: u64) {
        let of = |count: u64| count as f64 / operation_count as f64;
        println!(
            "| {node_count} | {name} | {:.3} | {:.3} | {:.0} | {:.2} | {:.2} |",
            of(fewest),
            of(self.sent),
            of(self.bytes),
            of(self.writes),
            of(self.reads),
        );
    }
}

/// A sequence of pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 33) as usize % bound
    }
}

fn name(number: u64) -> String {
    format!("key {number}")
}

fn key(name: &str) -> KeyRef<'_> {
    BucketRef::untyped(b"bucket").key(name.as_bytes())
}

/// Reads a key on the store's fast path if possible, as the client protocols do.
async fn get(store: &ReplicatedStore, at: KeyRef<'_>) {
    let options = ReadOptions::default();
    let is_found = match store.get_in_place(at, &options, |found| found.is_some()).unwrap() {
        None => store.get(at, &options).await.unwrap().is_some(),
        Some(ReadInPlace::Answer(is_found)) => is_found,
        Some(ReadInPlace::Started(started)) => store.finish_get(*started).await.unwrap().is_some(),
        Some(ReadInPlace::IfConfirmed(is_found, unconfirmed)) => {
            match store.confirm_read(unconfirmed).await.unwrap() {
                Confirmation::Same => is_found,
                Confirmation::Other(found) => found.is_some(),
            }
        }
    };
    assert!(is_found, "{at:?}");
}

/// Writes a key on the store's fast path if possible, as the client protocols do.
async fn put(store: &ReplicatedStore, at: KeyRef<'_>) {
    let write = PlainWrite {
        key: at,
        context: VersionVector::default(),
        content_type: None,
        value: &VALUE,
        shared: None,
        options: WriteOptions::default(),
    };
    match store.put_in_place(&write).unwrap() {
        Some(pending) => store.finish(pending).await.unwrap(),
        None => {
            store.put(PutRequest::of(at, VALUE.to_vec().into())).await.unwrap();
        }
    }
}

/// A kind of request of a client, with the default quorums.
#[derive(Clone, Copy, Debug)]
enum RequestType {
    Put,
    Get,
    /// A delete without a context, which reads first.
    Delete,
}

impl RequestType {
    async fn send(self, store: &ReplicatedStore, at: KeyRef<'_>) {
        match self {
            Self::Put => put(store, at).await,
            Self::Get => get(store, at).await,
            Self::Delete => {
                let deleted = store.delete(DeleteRequest::of(at)).await.unwrap();
                assert_eq!(deleted, DeleteOutcome::Done);
            }
        }
    }

    /// Fewest messages of a request that this node is asked.
    fn fewest_messages(self, node: &Node, at: KeyRef<'_>) -> u64 {
        let preflist = node.store.preflist(at).unwrap();
        let is_own = |entry: &PreflistEntry| entry.primary && entry.node == node.name();
        let at_primary = match self {
            Self::Put => 4,
            Self::Get => 2,
            Self::Delete => 6,
        };
        at_primary + if preflist.iter().any(is_own) { 0 } else { 2 }
    }
}

async fn requests_send_the_fewest_messages(node_count: usize) {
    let cluster = Cluster::of(node_count).await;
    let mut numbers = Numbers(node_count as u64);
    let mut before = Counts::settled(&cluster).await;
    for kind in [RequestType::Put, RequestType::Get, RequestType::Delete] {
        let mut fewest = 0;
        for number in 0..REQUEST_COUNT {
            let (name, node) = (name(number), &cluster.nodes[numbers.below(node_count)]);
            fewest += kind.fewest_messages(node, key(&name));
            kind.send(&node.store, key(&name)).await;
        }
        let after = Counts::settled(&cluster).await;
        let counts = after.since(before);
        counts.print(&format!("{kind:?}"), node_count, REQUEST_COUNT, fewest);
        assert_eq!(2 * counts.requests, fewest, "{kind:?}: {counts:?}");
        // Nodes also send messages of their own.
        assert!(counts.sent * 100 <= fewest * 103, "{kind:?}: {counts:?}, at least {fewest}");
        before = after;
    }
}

#[tokio::test(start_paused = true)]
async fn requests_to_three_nodes_send_the_fewest_messages() {
    requests_send_the_fewest_messages(3).await;
}

#[tokio::test(start_paused = true)]
async fn requests_to_five_nodes_send_the_fewest_messages() {
    requests_send_the_fewest_messages(5).await;
}

#[tokio::test(start_paused = true)]
async fn requests_to_nine_nodes_send_the_fewest_messages() {
    requests_send_the_fewest_messages(9).await;
}

#[tokio::test(start_paused = true)]
async fn requests_to_fourteen_nodes_send_the_fewest_messages() {
    requests_send_the_fewest_messages(14).await;
}

/// Starts clients of all nodes at once, and waits until each has made its requests. No two clients use the
/// same key.
async fn saturate(cluster: &Cluster, kind: RequestType) {
    let mut clients = Vec::new();
    for (number, node) in (0..).zip(&cluster.nodes) {
        for client in 0..CLIENTS_PER_NODE {
            let first = (number * CLIENTS_PER_NODE + client) * REQUESTS_PER_CLIENT;
            let store = Arc::clone(&node.store);
            clients.push(tokio::spawn(async move {
                for number in first..first + REQUESTS_PER_CLIENT {
                    let name = name(number);
                    kind.send(&store, key(&name)).await;
                }
            }));
        }
    }
    for client in clients {
        client.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn messages_of_saturated_nodes_share_writes() {
    let cluster = Cluster::of(14).await;
    let request_count = 14 * CLIENTS_PER_NODE * REQUESTS_PER_CLIENT;
    let mut before = Counts::settled(&cluster).await;
    for kind in [RequestType::Put, RequestType::Get] {
        saturate(&cluster, kind).await;
        let after = Counts::settled(&cluster).await;
        let counts = after.since(before);
        counts.print(&format!("{kind:?}, saturated"), 14, request_count, 2 * counts.requests);
        assert!(counts.writes * 10 <= counts.sent * 6, "{kind:?}: {counts:?}");
        before = after;
    }
}

/// Latencies of reads through nodes other than the slow one, in order.
async fn read_all(cluster: &Cluster, slow: usize) -> Vec<Duration> {
    let mut numbers = Numbers(5);
    let mut latencies = Vec::new();
    while latencies.len() < REQUEST_COUNT as usize {
        let asked = numbers.below(cluster.nodes.len());
        if asked != slow {
            let name = name(numbers.below(REQUEST_COUNT as usize) as u64);
            let began = Instant::now();
            get(&cluster.nodes[asked].store, key(&name)).await;
            latencies.push(began.elapsed());
        }
    }
    latencies.sort_unstable();
    latencies
}

/// The network takes no time except from the slow node, so the latencies are those that the slow node adds.
/// The reads' first digests come from it until its peers have learned that it is slow.
#[tokio::test(start_paused = true)]
async fn a_slow_replica_delays_a_quorum_read_by_the_observed_percentile() {
    let cluster = Cluster::of(5).await;
    for number in 0..REQUEST_COUNT {
        put(&cluster.nodes[0].store, key(&name(number))).await;
    }
    Counts::settled(&cluster).await;
    let slow = 4;
    let usual = *read_all(&cluster, slow).await.last().unwrap();
    for other in 0..slow {
        cluster.network.set_delay(&host(slow), &host(other), Duration::from_millis(100));
    }
    let latencies = read_all(&cluster, slow).await;
    let delayed = latencies.iter().filter(|latency| **latency > usual).count();
    let (p99, last) = (latencies[latencies.len() * 99 / 100], latencies[latencies.len() - 1]);
    println!("with a slow replica: {delayed} of 1000 reads delayed, p99 {p99:?}, all {last:?}");
    assert!(delayed > 0, "no read has asked the slow replica");
    // The shortest time after which another replica is asked, and the steps of the timer.
    assert!(last <= usual + Duration::from_millis(8), "{last:?}, usually {usual:?}");
}
