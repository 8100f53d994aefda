//! Latency of gets, and memory of a node, beside many connections that keep the node busy: unfinished
//! frames, bodies sent byte by byte, unread answers, thousands of requests at once.

use crate::CommonOptions;
use crate::drive::{Load, ask, drive};
use crate::idle::run_at_idle_priority;
use crate::metrics::gauge;
use crate::processes::resident_bytes;
use crate::protocol::Exchange;
use crate::report::{median, spread};
use crate::servers::{self, Running};
use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use clap::Args;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::io::{ErrorKind, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::Duration;

/// Length that an unfinished frame declares, and the bytes of it that are sent.
const CLAIMED_BYTES: u32 = 20 << 20;
const FRONT_BYTES: usize = 4 << 20;
/// Size of the object that is requested and not read.
const LARGE_BYTES: usize = 10 << 20;
/// Size of a body that is sent byte by byte.
const BODY_BYTES: usize = 8 << 20;
/// Number of requests for statistics that a connection sends at once.
const PIPELINED_COUNT: usize = 2_000;
/// Most bytes that a hostile connection sends before the next one has its turn.
const TURN_BYTES: usize = 256 << 10;
/// Receive buffer of a connection that does not read, in bytes.
const UNREAD_BYTES: usize = 64 << 10;
/// Pause after each turn of all hostile connections.
const ROUND_PAUSE: Duration = Duration::from_millis(5);
/// Time for the node to close the connections of the last attack.
const REST: Duration = Duration::from_secs(1);
/// Limits of the node: memory for requests and answers of all connections, and longest stall of a
/// connection.
const BUDGET: [&str; 2] = ["request.maximum_memory=256MB", "request.stall_timeout=3s"];

/// The arguments of the comparison.
#[derive(Args, Clone, Debug)]
pub(crate) struct HostileOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// Number of hostile connections.
    #[arg(long, default_value_t = 1000)]
    hostile: usize,
    /// Gets per second of the well-behaved client.
    #[arg(long, default_value_t = 2000)]
    rate: u32,
    /// Seconds of each measurement.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Also measure beside an attack on another node of this machine. This shows how much processor time
    /// the attack takes, no matter which node it hits.
    #[arg(long)]
    control: bool,
}

impl HostileOptions {
    pub(crate) const fn common(&self) -> &CommonOptions {
        &self.common
    }
}

/// A way to keep a node busy.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Attack {
    UnfinishedFrames,
    SlowBodies,
    UnreadAnswers,
    PipelinedStatistics,
}

impl Attack {
    const ALL: [Self; 4] =
        [Self::UnfinishedFrames, Self::SlowBodies, Self::UnreadAnswers, Self::PipelinedStatistics];

    const fn name(self) -> &'static str {
        match self {
            Self::UnfinishedFrames => "frames of 20 MB that do not end",
            Self::SlowBodies => "bodies that come byte by byte",
            Self::UnreadAnswers => "answers of 10 MB that nobody reads",
            Self::PipelinedStatistics => "2000 unread statistics at once",
        }
    }

    fn address(self, node: &Running) -> Result<SocketAddr> {
        match self {
            Self::UnfinishedFrames | Self::UnreadAnswers => Ok(node.address),
            Self::SlowBodies | Self::PipelinedStatistics => node.http.context("HTTP"),
        }
    }

    /// The bytes that a connection sends as fast as the node takes them.
    fn opening(self, large_key: u64) -> Vec<u8> {
        match self {
            Self::UnfinishedFrames => {
                let mut frame = CLAIMED_BYTES.to_be_bytes().to_vec();
                frame.push(11);
                frame.resize(FRONT_BYTES, b'x');
                frame
            }
            Self::SlowBodies => format!(
                "PUT /buckets/b/keys/k HTTP/1.1\r\nHost: node\r\nContent-Type: text/plain\r\n\
                 Content-Length: {BODY_BYTES}\r\n\r\n"
            )
            .into_bytes(),
            Self::UnreadAnswers => {
                let mut get = BytesMut::new();
                Exchange::PbGet.request(large_key, &Bytes::new(), &mut get);
                get.repeat(2)
            }
            Self::PipelinedStatistics => {
                b"GET /stats HTTP/1.1\r\nHost: node\r\n\r\n".repeat(PIPELINED_COUNT)
            }
        }
    }
}

/// Measures gets alone and beside each attack.
pub(crate) fn hostile(options: &HostileOptions) -> Result<()> {
    let common = &options.common;
    let limit = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    let dir = tempfile::tempdir_in(&common.dir)?;
    let set: Vec<String> =
        BUDGET.into_iter().map(str::to_owned).chain(common.set.iter().cloned()).collect();
    let (node, _) = servers::quoit(common.program_with(&set), &dir.path().join("data"))?;
    common.fill(&node, node.address, common.put(Some(0)))?;
    put_large(options, &node)?;
    let load = Load {
        rate: Some(f64::from(options.rate)),
        operations: u64::from(options.rate) * u64::from(options.seconds),
        ..common.load(Exchange::PbGet)
    };
    drive(&node.target(), &load)?;
    let calm_bytes = resident_bytes(node.pid())?;
    let control = match options.control {
        true => Some(control(options, &dir.path().join("other"), &set)?),
        false => None,
    };
    let sides = AttackCase::all(options.control);
    let mut figures: Vec<Vec<SideFigures>> = sides.iter().map(|_| Vec::new()).collect();
    for _ in 0..common.rounds {
        for (side, figures) in sides.iter().zip(&mut figures) {
            let attacked = if side.is_control { control.as_ref() } else { Some(&node) };
            let hostile = side.attack.zip(attacked);
            let hostile =
                hostile.map(|(attack, node)| Hostile::start(attack, options, node)).transpose()?;
            let run = drive(&node.target(), &load)?;
            figures.push(SideFigures {
                p50_us: f64::from(run.percentile_us(0.5)),
                p99_us: f64::from(run.percentile_us(0.99)),
                grown_mb: (resident_bytes(node.pid())?.saturating_sub(calm_bytes) >> 20) as f64,
                opened: hostile.map_or(0, Hostile::end) as f64,
            });
            sleep(REST);
        }
    }
    print(options, &sides, &figures);
    println!(
        "memory counted at most: {} MB of 256",
        gauge(node.http.context("HTTP")?, "quoit_request_memory_used_bytes_maximum")? >> 20
    );
    Ok(())
}

/// Stores the object that is requested and not read.
fn put_large(options: &HostileOptions, node: &Running) -> Result<()> {
    let large = Exchange::PbPut { value_bytes: LARGE_BYTES, dw: Some(0) };
    ask(node.address, &large, options.common.keys, LARGE_BYTES)
        .context("putting a large object")?;
    Ok(())
}

/// Starts a node that is attacked while another one is measured.
fn control(options: &HostileOptions, data_dir: &Path, set: &[String]) -> Result<Running> {
    let (node, _) = servers::quoit(options.common.program_with(set), data_dir)?;
    put_large(options, &node)?;
    Ok(node)
}

/// One kind of measurement of gets: the attack beside it.
#[derive(Clone, Copy)]
struct AttackCase {
    attack: Option<Attack>,
    /// True if the attack is on another node.
    is_control: bool,
}

impl AttackCase {
    fn all(with_control: bool) -> Vec<Self> {
        let each = |attack| {
            let of = |is_control| Self { attack: Some(attack), is_control };
            std::iter::once(of(false)).chain(with_control.then(|| of(true)))
        };
        let nothing = Self { attack: None, is_control: false };
        std::iter::once(nothing).chain(Attack::ALL.into_iter().flat_map(each)).collect()
    }

    fn name(self) -> String {
        let attack = self.attack.map_or("nothing", Attack::name);
        if self.is_control { format!("{attack}, on another node") } else { attack.to_owned() }
    }
}

/// The results of one measurement.
struct SideFigures {
    p50_us: f64,
    p99_us: f64,
    grown_mb: f64,
    opened: f64,
}

fn print(options: &HostileOptions, sides: &[AttackCase], figures: &[Vec<SideFigures>]) {
    println!(
        "{} plain gets a second, {} hostile connections beside them, budget 256 MB",
        options.rate, options.hostile
    );
    println!("| beside | opened | p50 us | p99 us | p99 to alone | resident MB more |");
    println!("|---|---|---|---|---|---|");
    let each = |side: usize, figure: fn(&SideFigures) -> f64| -> Vec<f64> {
        figures[side].iter().map(figure).collect()
    };
    for (place, side) in sides.iter().enumerate() {
        let p99 = each(place, |figures| figures.p99_us);
        let alone = each(0, |figures| figures.p99_us);
        let ratios: Vec<f64> = p99.iter().zip(alone).map(|(mine, alone)| mine / alone).collect();
        println!(
            "| {} | {:.0} | {:.0} | {:.0} ({}) | {:.2} ({}) | {:.0} |",
            side.name(),
            median(each(place, |figures| figures.opened)),
            median(each(place, |figures| figures.p50_us)),
            median(p99.clone()),
            spread(&p99),
            median(ratios.clone()),
            spread(&ratios),
            median(each(place, |figures| figures.grown_mb)),
        );
    }
}

/// A thread with hostile connections. It opens each one again after the node has closed it.
struct Hostile {
    thread: JoinHandle<()>,
    shared: Arc<(AtomicBool, AtomicU64)>,
}

impl Hostile {
    fn start(attack: Attack, options: &HostileOptions, node: &Running) -> Result<Self> {
        let address = attack.address(node)?;
        let opening = attack.opening(options.common.keys);
        let count = options.hostile;
        let shared: Arc<(AtomicBool, AtomicU64)> = Arc::default();
        let told = Arc::clone(&shared);
        let thread = spawn(move || {
            run_at_idle_priority();
            let mut all: Vec<Option<HostileConnection>> = (0..count).map(|_| None).collect();
            while !told.0.load(Ordering::Relaxed) {
                for each in &mut all {
                    // The node may refuse the connection because of its limits.
                    if each.is_none()
                        && let Ok(opened) = HostileConnection::open(address)
                    {
                        told.1.fetch_add(1, Ordering::Relaxed);
                        *each = Some(opened);
                    }
                    if each.as_mut().is_some_and(|open| open.send(attack, &opening).is_err()) {
                        *each = None;
                    }
                }
                sleep(ROUND_PAUSE);
            }
        });
        Ok(Self { thread, shared })
    }

    /// Closes all connections. Returns the number of connections that were opened.
    fn end(self) -> u64 {
        self.shared.0.store(true, Ordering::Relaxed);
        self.thread.join().expect("a hostile client does not panic");
        self.shared.1.load(Ordering::Relaxed)
    }
}

/// A connection that never reads.
struct HostileConnection {
    stream: TcpStream,
    sent_bytes: usize,
}

impl HostileConnection {
    fn open(address: SocketAddr) -> Result<Self> {
        let stream = TcpStream::connect_timeout(&address, REST)?;
        set_socket_recv_buffer_size(&stream, UNREAD_BYTES)?;
        stream.set_nonblocking(true)?;
        Ok(Self { stream, sent_bytes: 0 })
    }

    /// Sends the bytes of one turn. An error means that the node has closed the connection.
    fn send(&mut self, attack: Attack, opening: &[u8]) -> std::io::Result<()> {
        let left = opening.get(self.sent_bytes..).unwrap_or_default();
        let turn: &[u8] = match (left, attack) {
            ([], Attack::SlowBodies) => b"x",
            ([], _) => b"",
            (left, _) => &left[..left.len().min(TURN_BYTES)],
        };
        if turn.is_empty() {
            return self.look();
        }
        match self.stream.write(turn) {
            Ok(count) => self.sent_bytes += count,
            Err(fault) if fault.kind() == ErrorKind::WouldBlock => {}
            Err(fault) => return Err(fault),
        }
        Ok(())
    }

    /// Checks if the node has closed the connection, without reading any of its data.
    fn look(&self) -> std::io::Result<()> {
        match self.stream.peek(&mut [0]) {
            Ok(0) => Err(ErrorKind::ConnectionReset.into()),
            Err(fault) if fault.kind() != ErrorKind::WouldBlock => Err(fault),
            _ => Ok(()),
        }
    }
}
