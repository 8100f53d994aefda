//! The driver: it keeps many connections with one request in flight on each, and measures latencies and the
//! server's processor time.
//!
//! It has one thread and one epoll instance, and does not sleep unless told to. Due times are thus kept to
//! microseconds, and the server does not pay for waking the driver. With a sleeping driver, a server that
//! is faster than the driver would be spared that cost and a slower one would not; on a virtual machine the
//! cost exceeds that of the exchange itself.

use crate::link::{DriverConnection, Transport};
use crate::processors;
use crate::protocol::Exchange;
use anyhow::{Context, Result, bail};
use bytes::{Bytes, BytesMut};
use rustix::event::{Timespec, epoll};
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Clock ticks per second in `/proc/PID/stat`.
const TICKS_PER_SEC: f64 = 100.0;
/// Time without any answer after which the server counts as failed.
const SILENCE_LIMIT: Duration = Duration::from_secs(60);
const A_WHILE: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };
const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };
/// Size of the read buffer for answers, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// A load to drive.
#[derive(Clone, Debug)]
pub(crate) struct Load {
    pub(crate) exchange: Exchange,
    pub(crate) connections: usize,
    pub(crate) operations: u64,
    pub(crate) value_bytes: usize,
    /// Start of the range of keys; keys are drawn uniformly from the range.
    pub(crate) first_key: u64,
    pub(crate) key_count: u64,
    /// True if keys are used in order, once each, instead of drawn.
    pub(crate) sequential: bool,
    /// Requests per second over all connections; `None` for as many as possible.
    pub(crate) rate: Option<f64>,
    /// True if the driver sleeps while it waits; only without a rate.
    pub(crate) sleeps: bool,
    /// Seed of the drawn keys, which differs between the rounds of a comparison.
    pub(crate) seed: u64,
}

/// Measurement of a run.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) elapsed: Duration,
    pub(crate) operations: u64,
    pub(crate) server_cpu: Duration,
    /// Latencies in microseconds, sorted.
    pub(crate) latencies_us: Vec<u32>,
    /// Number of operations of each connection, sorted.
    pub(crate) operations_of_connections: Vec<u64>,
}

impl Measured {
    /// Operations per second.
    pub(crate) fn rate(&self) -> f64 {
        self.operations as f64 / self.elapsed.as_secs_f64()
    }

    /// Processor time of the server per operation, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.server_cpu.as_secs_f64() * 1e6 / self.operations as f64
    }

    /// The latency that this share of the operations did not exceed, in microseconds.
    pub(crate) fn percentile_us(&self, share: f64) -> u32 {
        percentile(&self.latencies_us, share)
    }
}

/// The least of the sorted numbers that this share of them does not exceed; 0 if there are none.
pub(crate) fn percentile<T: Copy + Default>(sorted: &[T], share: f64) -> T {
    let rank = quoit_number::index(quoit_number::whole((sorted.len() as f64 * share).ceil()));
    let place = rank.clamp(1, sorted.len().max(1)) - 1;
    sorted.get(place).copied().unwrap_or_default()
}

/// User and system time of a process so far. The kernel counts nanoseconds but shows clock ticks.
pub(crate) fn cpu_of(pid: u32) -> Result<Duration> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).context("reading /proc")?;
    // The name in parentheses may contain spaces, so the fields are counted from its end.
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

/// Servers to drive. Connections are distributed over the addresses in turn; the processor time of all
/// processes is summed.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) addresses: Vec<SocketAddr>,
    pub(crate) pids: Vec<u32>,
    pub(crate) transport: Transport,
}

impl Target {
    /// User and system time of all processes so far.
    pub(crate) fn cpu(&self) -> Result<Duration> {
        self.pids.iter().map(|pid| cpu_of(*pid)).sum()
    }
}

/// Runs a load against a server.
pub(crate) fn drive(target: &Target, load: &Load) -> Result<Measured> {
    let mut driver = Driver::connect(target, load)?;
    let cpu_before = target.cpu()?;
    let started = Instant::now();
    std::thread::scope(|scope| {
        let run = scope.spawn(|| {
            processors::pin_to_driver_cpu()?;
            driver.run(started)
        });
        run.join().expect("the driver does not panic")
    })?;
    let elapsed = started.elapsed();
    let server_cpu = target.cpu()?.saturating_sub(cpu_before);
    let mut operations_of_connections: Vec<u64> =
        driver.clients.iter().map(|client| client.answered).collect();
    operations_of_connections.sort_unstable();
    let mut latencies_us = driver.latencies_us;
    latencies_us.sort_unstable();
    let operations = load.operations;
    Ok(Measured { elapsed, operations, server_cpu, latencies_us, operations_of_connections })
}

/// Sends one request and returns the whole answer.
pub(crate) fn ask(
    address: SocketAddr,
    exchange: &Exchange,
    key: u64,
    value_bytes: usize,
) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).context("connecting")?;
    ask_on(&mut stream, exchange, key, value_bytes)
}

/// Sends one request on a connection and returns the whole answer.
pub(crate) fn ask_on(
    stream: &mut TcpStream,
    exchange: &Exchange,
    key: u64,
    value_bytes: usize,
) -> Result<Vec<u8>> {
    stream.set_read_timeout(Some(SILENCE_LIMIT))?;
    let mut request = BytesMut::new();
    exchange.request(key, &incompressible(value_bytes), &mut request);
    stream.write_all(&request)?;
    let mut answer = Vec::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        let count = stream.read(&mut buffer).context("reading the answer")?;
        answer.extend_from_slice(&buffer[..count]);
        if let Some(size) = exchange.response_len(&answer) {
            check(exchange, &answer[..size], value_bytes)?;
            return Ok(answer);
        }
        if count == 0 {
            bail!("the server closed the connection");
        }
    }
}

fn check(exchange: &Exchange, answer: &[u8], value_bytes: usize) -> Result<()> {
    if !exchange.succeeded(answer, value_bytes) {
        let shown = String::from_utf8_lossy(&answer[..answer.len().min(200)]);
        bail!("{exchange:?} was answered with {shown:?}");
    }
    Ok(())
}

struct DrivenClient {
    link: DriverConnection,
    input: Vec<u8>,
    /// Time at which the request in flight was due.
    due: Instant,
    /// Number of requests that were answered.
    answered: u64,
}

struct Driver<'a> {
    load: &'a Load,
    poll: rustix::fd::OwnedFd,
    clients: Vec<DrivenClient>,
    idle: Vec<usize>,
    value: Bytes,
    out: BytesMut,
    random: u64,
    sent: u64,
    latencies_us: Vec<u32>,
}

impl<'a> Driver<'a> {
    fn connect(target: &Target, load: &'a Load) -> Result<Self> {
        let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let mut clients = Vec::new();
        for (id, address) in (0..load.connections).zip(target.addresses.iter().cycle()) {
            let link = DriverConnection::connect(*address, &target.transport)?;
            let data = epoll::EventData::new_u64(id as u64);
            epoll::add(&poll, link.socket(), data, epoll::EventFlags::IN)?;
            let due = Instant::now();
            clients.push(DrivenClient { link, input: Vec::new(), due, answered: 0 });
        }
        Ok(Self {
            load,
            poll,
            idle: (0..clients.len()).rev().collect(),
            clients,
            value: incompressible(load.value_bytes),
            out: BytesMut::new(),
            random: load.seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            sent: 0,
            latencies_us: Vec::with_capacity(quoit_number::index(load.operations)),
        })
    }

    fn run(&mut self, started: Instant) -> Result<()> {
        let mut events = Vec::with_capacity(128);
        let mut buffer = vec![0; READ_BYTES];
        let mut answered = started;
        while (self.latencies_us.len() as u64) < self.load.operations {
            self.send_due(started)?;
            events.clear();
            let room = rustix::buffer::spare_capacity(&mut events);
            let wait = if self.load.sleeps { &A_WHILE } else { &AT_ONCE };
            if epoll::wait(&self.poll, room, Some(wait))? > 0 {
                answered = Instant::now();
            } else if answered.elapsed() > SILENCE_LIMIT {
                bail!("the server answered nothing for {SILENCE_LIMIT:?}");
            }
            for event in &events {
                let id = quoit_number::index(event.data.u64());
                if self.receive(id, &mut buffer)? {
                    // Without a rate, the next request is sent at once on the same connection.
                    match self.load.rate {
                        None if self.sent < self.load.operations => {
                            self.send(id, Instant::now())?
                        }
                        _ => self.idle.push(id),
                    }
                }
            }
        }
        Ok(())
    }

    /// Sends the requests that are due, on idle connections.
    fn send_due(&mut self, started: Instant) -> Result<()> {
        while self.sent < self.load.operations
            && let Some(id) = self.idle.pop()
        {
            let now = Instant::now();
            let due = match self.load.rate {
                None => now,
                // Open loop: the latency counts from the time at which the request was due.
                Some(rate) => started + Duration::from_secs_f64(self.sent as f64 / rate),
            };
            if due > now {
                self.idle.push(id);
                break;
            }
            self.send(id, due)?;
        }
        Ok(())
    }

    fn send(&mut self, id: usize, due: Instant) -> Result<()> {
        let load = self.load;
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let offset = if load.sequential { self.sent } else { self.random % load.key_count };
        self.out.clear();
        load.exchange.request(load.first_key + offset, &self.value, &mut self.out);
        let client = &mut self.clients[id];
        client.due = due;
        // The connection was idle, so the request fits into the socket's buffer.
        client.link.send(&self.out).context("sending a request")?;
        self.sent += 1;
        Ok(())
    }

    /// Reads the bytes that have arrived. Returns true if the answer is complete.
    fn receive(&mut self, id: usize, buffer: &mut [u8]) -> Result<bool> {
        let client = &mut self.clients[id];
        let count = match client.link.receive(buffer) {
            Ok(0) => bail!("the server closed the connection"),
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error).context("reading an answer"),
        };
        let exchange = &self.load.exchange;
        let received = if client.input.is_empty() {
            &buffer[..count]
        } else {
            client.input.extend_from_slice(&buffer[..count]);
            &client.input
        };
        let Some(size) = exchange.response_len(received) else {
            if client.input.is_empty() {
                client.input.extend_from_slice(&buffer[..count]);
            }
            return Ok(false);
        };
        check(exchange, &received[..size], self.load.value_bytes)?;
        client.input.clear();
        client.answered += 1;
        let latency_us = client.due.elapsed().as_micros();
        self.latencies_us.push(u32::try_from(latency_us).unwrap_or(u32::MAX));
        Ok(true)
    }
}

/// A value that does not compress.
pub(crate) fn incompressible(size: usize) -> Bytes {
    let mut state = 0x2545_F491_4F6C_DD1Du64;
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        quoit_number::low_u8(state)
    };
    (0..size).map(next).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_number_at_the_nearest_rank() {
        let hundred: Vec<u32> = (1..=100).collect();
        assert_eq!(
            [0.0, 0.5, 0.99, 1.0].map(|share| percentile(&hundred, share)),
            [1, 50, 99, 100]
        );
        assert_eq!(percentile(&[7_u64], 0.5), 7);
        assert_eq!(percentile::<u32>(&[], 0.99), 0);
    }
}
