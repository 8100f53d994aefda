//! Cost of a small call between two nodes: processor time of both sides together, and latency.
//!
//! `cargo bench -p quoit-cluster`. Both nodes live in this process, each on a thread of its own, and talk
//! over TCP on the loopback interface. A call sends 48 bytes and gets 64, as a read of a digest does. For
//! comparison, an echo server moves the same bytes with one write and one read on each side for each call.

#![allow(clippy::print_stdout, clippy::unwrap_used, reason = "a tool that prints figures")]

use quoit_cluster::{
    ClusterId, IncomingRequest, Internode, InternodeSettings, JitterSeed, Lane, Network, NodeId,
    Replies, Responder, Service, TokioNetwork,
};
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Runtime};

const CALLS: u32 = 100_000;
const ROUNDS: u32 = 5;
const METHOD: u16 = 0x0100;
const REQUEST: [u8; 48] = [1; 48];
const ANSWER: [u8; 64] = [2; 64];

struct Digest;

impl Service for Digest {
    fn serve(&self, _: IncomingRequest, reply: Responder) {
        reply.send(&(), &ANSWER);
    }
}

/// Returns the processor time of this process.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// Runs the calls in rounds and prints the medians.
fn measure(name: &str, mut round: impl FnMut()) {
    round();
    let mut figures: Vec<(u64, u64)> = (0..ROUNDS)
        .map(|_| {
            let (start, cpu_start) = (Instant::now(), cpu_time());
            round();
            let per_call_ns = |time: Duration| time.as_nanos() as u64 / u64::from(CALLS);
            (per_call_ns(cpu_time() - cpu_start), per_call_ns(start.elapsed()))
        })
        .collect();
    figures.sort_unstable();
    let (cpu_ns, wall_ns) = figures[figures.len() / 2];
    let (least_ns, most_ns) = (figures[0].0, figures[figures.len() - 1].0);
    println!(
        "{name:<28} {:>6.2} us of CPU a call ({:.2}..{:.2}), {:>6.2} us of time",
        cpu_ns as f64 / 1e3,
        least_ns as f64 / 1e3,
        most_ns as f64 / 1e3,
        wall_ns as f64 / 1e3,
    );
}

/// Two nodes, each on a runtime of its own.
struct Pair {
    asking: Runtime,
    _answering: Runtime,
    nodes: [Arc<Internode>; 2],
}

fn pair() -> Pair {
    let (asking, answering) = (runtime(), runtime());
    let mut members = Vec::new();
    let mut nodes = Vec::new();
    for (number, runtime) in [(1, &asking), (2, &answering)] {
        let node_id = NodeId([number; 16]);
        let _inside = runtime.enter();
        let seed = JitterSeed(number.into());
        let settings = InternodeSettings::new(node_id, "n", number.into(), seed);
        let node = Internode::new(settings, Arc::new(TokioNetwork));
        node.set_cluster(Some(ClusterId([9; 16])));
        node.register(METHOD..=METHOD, Arc::new(Digest));
        let listener = runtime.block_on(TokioNetwork.bind("127.0.0.1:0")).unwrap();
        members.push((node_id, listener.local_address().unwrap().into(), "n".into()));
        node.serve(listener).unwrap();
        nodes.push(node);
    }
    for (node, runtime) in nodes.iter().zip([&asking, &answering]) {
        let _inside = runtime.enter();
        node.set_peers(&members);
    }
    let nodes = [Arc::clone(&nodes[0]), Arc::clone(&nodes[1])];
    Pair { asking, _answering: answering, nodes }
}

fn measure_calls(pair: &Pair, in_flight: u32) {
    let peer = pair.nodes[0].peer(NodeId([2; 16])).unwrap();
    measure(&format!("call, {in_flight} in flight"), || {
        let tasks: Vec<_> = (0..in_flight)
            .map(|_| {
                let peer = Arc::clone(&peer);
                pair.asking.spawn(async move {
                    for _ in 0..CALLS / in_flight {
                        let mut replies = Replies::new();
                        peer.send(METHOD, &(), &REQUEST, Lane::Small, &replies, 0).unwrap();
                        replies.next().await.unwrap().1.unwrap();
                    }
                })
            })
            .collect();
        pair.asking.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

fn measure_echo(in_flight: u32) {
    let (asking, answering) = (runtime(), runtime());
    let listener = answering.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
    let address = listener.local_addr().unwrap();
    answering.spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            stream.set_nodelay(true).unwrap();
            tokio::spawn(async move {
                let mut buffer = [0; 1024];
                while let Ok(1..) = stream.read(&mut buffer).await {
                    stream.write_all(&[2; 80]).await.unwrap();
                }
            });
        }
    });
    measure(&format!("echo, {in_flight} connections"), || {
        let tasks: Vec<_> = (0..in_flight)
            .map(|_| {
                asking.spawn(async move {
                    let mut stream = TcpStream::connect(address).await.unwrap();
                    stream.set_nodelay(true).unwrap();
                    let mut buffer = [0; 1024];
                    for _ in 0..CALLS / in_flight {
                        stream.write_all(&[1; 64]).await.unwrap();
                        stream.read_exact(&mut buffer[..80]).await.unwrap();
                    }
                })
            })
            .collect();
        asking.block_on(async {
            for task in tasks {
                task.await.unwrap();
            }
        });
    });
}

fn main() {
    let pair = pair();
    for in_flight in [1, 4, 16, 64] {
        measure_echo(in_flight);
        measure_calls(&pair, in_flight);
    }
}
