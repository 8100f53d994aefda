//! Cost of idle connections, and fairness among active ones.
//!
//! A node of each protocol first rests with many idle connections, each of which has made one request. Then
//! many further connections make requests beside them, with one request in flight on each.

use crate::CommonOptions;
use crate::drive::{Load, Measured, ask_on, drive, percentile};
use crate::processes::{allocated_bytes, resident_bytes, running_time};
use crate::protocol::Exchange;
use crate::report::{median, spread};
use crate::servers::{self, Running};
use anyhow::{Context, Result, ensure};
use clap::Args;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::Duration;

/// Connections that are opened first, and pay for what all connections share.
const FIRST_COUNT: usize = 100;
/// Descriptors of a process besides those of its connections.
const OTHER_DESCRIPTORS: usize = 500;
/// Time after which the memory of an idle node is read.
const SETTLING: Duration = Duration::from_secs(3);
/// Time during which the processor time of an idle node is measured.
const IDLING: Duration = Duration::from_secs(10);
/// Requests of each active connection of a run that finds out the rate.
const TRIAL_COUNT: u64 = 20;
/// Memory of the node's budget for each connection, in KiB: twice the allowance.
const BUDGET_KIB: usize = 128;
/// Memory of the node's budget besides that, in MiB.
const BUDGET_MIB: usize = 256;

/// Options of this benchmark.
#[derive(Args, Clone, Debug)]
pub(crate) struct ConnectionOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// Number of idle connections.
    #[arg(long, default_value_t = 10_000)]
    idle: usize,
    /// Number of active connections, with one request in flight on each.
    #[arg(long, default_value_t = 1000)]
    active: usize,
    /// Seconds of each measurement of active connections.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
}

impl ConnectionOptions {
    pub(crate) const fn common(&self) -> &CommonOptions {
        &self.common
    }

    /// The options, with as many idle connections as the limit of open files permits.
    fn within_limit(&self) -> Result<Self> {
        let besides = self.active + OTHER_DESCRIPTORS;
        let limit = raise_descriptor_limit((self.idle + besides) as u64)?;
        let idle = self.idle.min(quoit_number::index(limit).saturating_sub(besides));
        ensure!(idle > FIRST_COUNT, "a process may open only {limit} files");
        if idle < self.idle {
            println!("a process may open only {limit} files: {idle} idle connections\n");
        }
        Ok(Self { idle, ..self.clone() })
    }

    /// Settings of the node. A small machine has a budget that is too small for so many connections.
    fn settings(&self) -> Vec<String> {
        let budget_mib = (self.idle + self.active) * BUDGET_KIB / 1024 + BUDGET_MIB;
        let budget = format!("request.maximum_memory={budget_mib}MB");
        std::iter::once(budget).chain(self.common.set.iter().cloned()).collect()
    }
}

/// A protocol with the exchanges of its active connections. Idle connections have made the first one.
struct Protocol {
    name: &'static str,
    exchanges: Vec<(&'static str, Exchange)>,
}

impl Protocol {
    fn all(common: &CommonOptions) -> [Self; 2] {
        let put = common.put(Some(0));
        let exchanges = vec![("PB get", Exchange::PbGet), ("PB put `dw=0`", put)];
        [
            Self { name: "Protocol Buffers", exchanges },
            Self { name: "HTTP", exchanges: vec![("HTTP get", Exchange::HttpGet)] },
        ]
    }

    fn address(&self, node: &Running) -> Result<SocketAddr> {
        match self.exchanges[0].1 {
            Exchange::HttpGet => node.http.context("HTTP"),
            _ => Ok(node.address),
        }
    }
}

/// Measures nodes with idle connections, and active connections beside them.
pub(crate) fn connections(options: &ConnectionOptions) -> Result<()> {
    let options = &options.within_limit()?;
    let common = &options.common;
    let dir = tempfile::tempdir_in(&common.dir)?;
    let (mut idle_rows, mut active_rows) = (Vec::new(), Vec::new());
    for protocol in Protocol::all(common) {
        let data_dir = dir.path().join(protocol.name.replace(' ', "-"));
        let (node, _) = servers::quoit(common.program_with(&options.settings()), &data_dir)?;
        common.fill(&node, node.address, common.put(Some(0)))?;
        let address = protocol.address(&node)?;
        let mut idle = IdleConnections::default();
        idle_rows.push(idle.measure(options, &protocol, &node, address)?);
        for (name, exchange) in &protocol.exchanges {
            let runs = active(options, &node, address, exchange)?;
            active_rows.push(ActiveRow { name, runs });
        }
    }
    print_idle(&idle_rows);
    print_active(options, &active_rows);
    Ok(())
}

/// Raises the limit of open files of this process, which the node inherits, to `wanted`. The maximum is
/// raised too if the process may do that. Returns the limit that holds then.
fn raise_descriptor_limit(wanted: u64) -> Result<u64> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.current.map(|current| current.max(wanted)),
        maximum: limit.maximum.map(|maximum| maximum.max(wanted)),
    };
    if setrlimit(Resource::Nofile, raised).is_err() {
        setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit })?;
    }
    Ok(getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX))
}

/// Figures of a node that rests with idle connections.
struct IdleRow {
    protocol: &'static str,
    count: usize,
    resident_bytes: u64,
    allocated_bytes: u64,
    allocated_bytes_of_connection: f64,
    /// Processor time while the node rests without connections, and with them.
    cpu_without: Duration,
    cpu_with: Duration,
}

/// Connections that have made one request each.
#[derive(Default)]
struct IdleConnections(Vec<TcpStream>);

impl IdleConnections {
    fn measure(
        &mut self,
        options: &ConnectionOptions,
        protocol: &Protocol,
        node: &Running,
        address: SocketAddr,
    ) -> Result<IdleRow> {
        let pid = node.pid();
        self.open(FIRST_COUNT, options, protocol, address)?;
        sleep(SETTLING);
        let first_bytes = allocated_bytes(pid)?;
        let cpu_without = cpu_of_rest(pid)?;
        self.open(options.idle, options, protocol, address)?;
        sleep(SETTLING);
        let allocated_bytes = allocated_bytes(pid)?;
        let more_count = (options.idle - FIRST_COUNT) as f64;
        Ok(IdleRow {
            protocol: protocol.name,
            count: options.idle,
            resident_bytes: resident_bytes(pid)?,
            allocated_bytes,
            allocated_bytes_of_connection: (allocated_bytes as f64 - first_bytes as f64)
                / more_count,
            cpu_without,
            cpu_with: cpu_of_rest(pid)?,
        })
    }

    /// Opens connections until there are `count`, and makes a request on each new one.
    fn open(
        &mut self,
        count: usize,
        options: &ConnectionOptions,
        protocol: &Protocol,
        address: SocketAddr,
    ) -> Result<()> {
        let CommonOptions { keys, value_bytes, .. } = options.common;
        let exchange = &protocol.exchanges[0].1;
        while self.0.len() < count {
            let mut stream = TcpStream::connect(address).context("opening an idle connection")?;
            ask_on(&mut stream, exchange, self.0.len() as u64 % keys, value_bytes)?;
            self.0.push(stream);
        }
        Ok(())
    }
}

/// Processor time of a process that is left alone for [`IDLING`].
fn cpu_of_rest(pid: u32) -> Result<Duration> {
    let before = running_time(pid)?;
    sleep(IDLING);
    Ok(running_time(pid)?.saturating_sub(before))
}

/// Runs requests on all active connections, as many as the node answers in the time, for each round.
fn active(
    options: &ConnectionOptions,
    node: &Running,
    address: SocketAddr,
    exchange: &Exchange,
) -> Result<Vec<Measured>> {
    let target = node.at(address);
    let load = Load { connections: options.active, ..options.common.load(exchange.clone()) };
    let operations = TRIAL_COUNT * options.active as u64;
    let trial = drive(&target, &Load { operations, ..load.clone() })?;
    let operations = quoit_number::whole(trial.rate() * f64::from(options.seconds));
    (1..=options.common.rounds as u64)
        .map(|seed| drive(&target, &Load { operations, seed, ..load.clone() }))
        .collect()
}

/// Figures of all rounds of one exchange.
struct ActiveRow<'a> {
    name: &'a str,
    runs: Vec<Measured>,
}

impl ActiveRow<'_> {
    fn each(&self, figure: impl Fn(&Measured) -> f64) -> Vec<f64> {
        self.runs.iter().map(figure).collect()
    }

    /// The median of the rounds.
    fn middle(&self, figure: impl Fn(&Measured) -> f64) -> f64 {
        median(self.each(figure))
    }
}

/// Number of operations that this share of the connections did not exceed.
fn operations_at(run: &Measured, share: f64) -> f64 {
    percentile(&run.operations_of_connections, share) as f64
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

fn print_idle(rows: &[IdleRow]) {
    println!(
        "| idle connections | resident MiB | allocated MiB | KiB a connection | CPU ms in {} s | \
         with {FIRST_COUNT} connections |",
        IDLING.as_secs()
    );
    println!("|---|---|---|---|---|---|");
    for row in rows {
        println!(
            "| {}, {} | {:.1} | {:.1} | {:.2} | {:.1} | {:.1} |",
            row.count,
            row.protocol,
            mib(row.resident_bytes),
            mib(row.allocated_bytes),
            row.allocated_bytes_of_connection / 1024.0,
            row.cpu_with.as_secs_f64() * 1e3,
            row.cpu_without.as_secs_f64() * 1e3,
        );
    }
}

fn print_active(options: &ConnectionOptions, rows: &[ActiveRow<'_>]) {
    println!(
        "\n{} active connections beside {} idle ones, {} s, operations of a connection:\n",
        options.active, options.idle, options.seconds
    );
    println!("| exchange | op/s | p50 | p99 | least | p99/p50 | latency p50 us | p99 us |");
    println!("|---|---|---|---|---|---|---|---|");
    for row in rows {
        let ratios = row.each(|run| operations_at(run, 0.99) / operations_at(run, 0.5));
        println!(
            "| {} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} ({}) | {:.0} | {:.0} |",
            row.name,
            row.middle(Measured::rate),
            row.middle(|run| operations_at(run, 0.5)),
            row.middle(|run| operations_at(run, 0.99)),
            row.middle(|run| operations_at(run, 0.0)),
            median(ratios.clone()),
            spread(&ratios),
            row.middle(|run| f64::from(run.percentile_us(0.5))),
            row.middle(|run| f64::from(run.percentile_us(0.99))),
        );
    }
}
