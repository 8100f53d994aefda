//! Drives a server: many connections, one request in flight on each, and the server's processor time.

use crate::protocol::Exchange;
use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// Clock ticks a second in `/proc/PID/stat`.
const TICKS_PER_SEC: f64 = 100.0;

/// What to drive.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) exchange: Exchange,
    pub(crate) connections: usize,
    pub(crate) operations: u64,
    pub(crate) value_bytes: usize,
    /// Keys are drawn uniformly from this range.
    pub(crate) first_key: u64,
    pub(crate) key_count: u64,
    /// Whether each key is used once, in order, instead of drawn.
    pub(crate) sequential: bool,
    /// Requests a second of all connections together; `None` = as fast as they go.
    pub(crate) rate: Option<f64>,
}

/// What a run gave.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) elapsed: Duration,
    pub(crate) operations: u64,
    pub(crate) server_cpu: Duration,
    /// Microseconds, sorted.
    pub(crate) latencies_us: Vec<u32>,
}

impl Measured {
    /// Operations a second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// Processor time of the server for one operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / self.operations as f64
    }

    /// Latency below which this share of the operations stayed, in microseconds.
    pub(crate) fn percentile_us(&self, share: f64) -> u32 {
        let rank = (self.latencies_us.len() as f64 * share).ceil() as usize;
        let place = rank.clamp(1, self.latencies_us.len().max(1)) - 1;
        self.latencies_us.get(place).copied().unwrap_or(0)
    }
}

/// User and system time of a process so far.
pub(crate) fn cpu_of(pid: u32) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("reading /proc")?;
    // The name in parentheses may hold spaces; fields are counted behind it.
    let fields: Vec<&str> =
        text.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<u64>().ok());
    match (ticks(11), ticks(12)) {
        (Some(user), Some(system)) => {
            Ok(Duration::from_secs_f64((user + system) as f64 / TICKS_PER_SEC))
        }
        _ => bail!("/proc/{pid}/stat has an unknown form: {text}"),
    }
}

/// Runs a load against a server process.
pub(crate) fn drive(address: SocketAddr, pid: u32, load: &Load) -> Result<Measured> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    local.block_on(&runtime, async {
        let value = Bytes::from(incompressible(load.value_bytes));
        let next = Rc::new(Cell::new(0u64));
        let mut streams = Vec::new();
        for _ in 0..load.connections {
            let stream = TcpStream::connect(address).await.context("connecting")?;
            stream.set_nodelay(true)?;
            streams.push(stream);
        }
        let cpu_before = cpu_of(pid)?;
        let started = Instant::now();
        let mut tasks = Vec::new();
        for (seed, stream) in streams.into_iter().enumerate() {
            let (load, value, next) = (load.clone(), value.clone(), Rc::clone(&next));
            let task = client(stream, load, value, next, seed as u64, started);
            tasks.push(tokio::task::spawn_local(task));
        }
        let mut latencies_us = Vec::with_capacity(load.operations as usize);
        for task in tasks {
            latencies_us.extend(task.await.context("a client stopped")??);
        }
        let elapsed = started.elapsed();
        let server_cpu = cpu_of(pid)?.saturating_sub(cpu_before);
        latencies_us.sort_unstable();
        Ok(Measured { elapsed, operations: load.operations, server_cpu, latencies_us })
    })
}

async fn client(
    mut stream: TcpStream,
    load: Load,
    value: Bytes,
    next: Rc<Cell<u64>>,
    seed: u64,
    started: Instant,
) -> Result<Vec<u32>> {
    let mut latencies = Vec::new();
    let (mut out, mut input) = (BytesMut::new(), BytesMut::new());
    let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    loop {
        let turn = next.get();
        if turn >= load.operations {
            return Ok(latencies);
        }
        next.set(turn + 1);
        let mut due = Instant::now();
        if let Some(rate) = load.rate {
            // Open loop: the latency counts from when the request should have left.
            due = started + Duration::from_secs_f64(turn as f64 / rate);
            tokio::time::sleep_until(due.into()).await;
        }
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let offset = if load.sequential { turn } else { random % load.key_count };
        out.clear();
        load.exchange.request(load.first_key + offset, &value, &mut out);
        stream.write_all(&out).await?;
        let size = loop {
            if let Some(size) = load.exchange.response_len(&input) {
                break size;
            }
            if stream.read_buf(&mut input).await? == 0 {
                bail!("the server closed the connection");
            }
        };
        if !load.exchange.succeeded(&input[..size], load.value_bytes) {
            bail!("{:?} was answered with {:?}", load.exchange, &input[..size.min(200)]);
        }
        input.clear();
        latencies.push(due.elapsed().as_micros() as u32);
    }
}

fn incompressible(size: usize) -> Vec<u8> {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    (0..size)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}
