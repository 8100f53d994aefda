//! Handshakes: processor time of full and resumed ones, the effect of many on other requests, and the time
//! for which one occupies the thread that serves requests.

use super::files::TlsFiles;
use crate::CommonOptions;
use crate::drive::{Load, Target, drive};
use crate::idle::run_at_idle_priority;
use crate::instructions::count_work;
use crate::link::shake_hands;
use crate::protocol::Exchange;
use crate::report::{median, spread};
use crate::servers::{self, Running};
use anyhow::{Context, Result, ensure};
use clap::Args;
use quoit_tls::rustls::ClientConfig;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

/// Handshakes per second beside the measured requests.
const PACED_RATE: u32 = 200;
/// Number of threads that make these handshakes.
const PACED_THREADS: u32 = 4;
/// Number of handshakes whose instructions are counted.
const COUNTED_HANDSHAKES: u64 = 200;

/// The arguments of the comparison.
#[derive(Args, Clone, Debug)]
pub(crate) struct HandshakeOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// Number of handshakes in each measurement of their processor time.
    #[arg(long, default_value_t = 2000)]
    handshakes: u64,
    /// Gets per second beside the handshakes.
    #[arg(long, default_value_t = 2000)]
    rate: u32,
    /// Length of each measurement of latencies, in seconds.
    #[arg(long, default_value_t = 10)]
    seconds: u32,
    /// Number of threads that flood the node with handshakes.
    #[arg(long, default_value_t = 16)]
    flood: u32,
}

impl HandshakeOptions {
    pub(crate) const fn common(&self) -> &CommonOptions {
        &self.common
    }
}

/// Measures the processor time of handshakes, and latencies of unencrypted gets beside them.
pub(crate) fn handshakes(options: &HandshakeOptions) -> Result<()> {
    let common = &options.common;
    let dir = tempfile::tempdir_in(&common.dir)?;
    let files = TlsFiles::make(dir.path())?;
    let mut set = common.set.clone();
    set.extend(files.node_settings());
    let (node, _) = servers::quoit(common.program_with(&set), &dir.path().join("data"))?;
    common.fill(&node, node.address, common.put(Some(0)))?;
    let (full, resumed) = (files.client(false)?, files.client(true)?);
    cost(options, &node, &full, &resumed)?;
    println!();
    latencies(options, &node, &full)?;
    drop(node);
    println!();
    held(options, &files)
}

/// Counts the instructions of a handshake on the thread that serves requests, for which other requests may
/// have to wait. Instruction counts are reproducible; latencies on a shared machine are not. A get is
/// counted for comparison.
fn held(options: &HandshakeOptions, files: &TlsFiles) -> Result<()> {
    let common = &options.common;
    let mut set = common.set.clone();
    set.extend(files.node_settings());
    let count = |config: &Arc<ClientConfig>, handshakes: u64, gets: u64| {
        count_work(common, &common.quoit, &set, &|node, _| {
            let address = node.pb_tls.context("the address for TLS")?;
            (0..handshakes).try_for_each(|_| shake_hands(address, config).map(drop))?;
            if gets > 0 {
                let load =
                    Load { connections: 1, operations: gets, ..common.load(Exchange::PbGet) };
                drive(&node.target(), &load)?;
            }
            Ok(())
        })
    };
    let each = |more: u64, fewer: u64, by: u64| (more as f64 - fewer as f64) / by as f64;
    let many = COUNTED_HANDSHAKES;
    println!("| on the thread that serves requests | instructions |\n|---|---|");
    for (name, resumes) in [("full handshake", false), ("resumed handshake", true)] {
        let config = files.client(resumes)?;
        let held = each(count(&config, 2 * many, 0)?, count(&config, many, 0)?, many);
        println!("| {name} | {held:.0} |");
    }
    let config = files.client(false)?;
    let gets = common.operations;
    let get = each(count(&config, 0, 2 * gets)?, count(&config, 0, gets)?, gets);
    println!("| get in clear | {get:.0} |");
    Ok(())
}

/// Measures the node's processor time of a handshake, including accepting and closing the connection.
fn cost(
    options: &HandshakeOptions,
    node: &Running,
    full: &Arc<ClientConfig>,
    resumed: &Arc<ClientConfig>,
) -> Result<()> {
    let (address, target) = (node.pb_tls.context("the address for TLS")?, node.target());
    let mut figures = [Vec::new(), Vec::new()];
    for _ in 0..options.common.rounds {
        for (side, config) in [full, resumed].into_iter().enumerate() {
            let (us, resumed) = one_after_the_other(&target, address, config, options.handshakes)?;
            ensure!(resumed == if side == 0 { 0 } else { options.handshakes }, "{resumed} resumed");
            figures[side].push(us);
        }
    }
    println!("| handshake, TLS 1.3 | CPU us | spread | a second and core |\n|---|---|---|---|");
    for (name, figures) in ["full, ECDSA P-256", "resumed"].into_iter().zip(figures) {
        let (us, spread) = (median(figures.clone()), spread(&figures));
        println!("| {name} | {us:.0} | {spread} | {:.0} |", 1e6 / us);
    }
    Ok(())
}

/// The node's processor time for each of that many handshakes in microseconds, and the number of resumed
/// ones.
fn one_after_the_other(
    target: &Target,
    address: SocketAddr,
    config: &Arc<ClientConfig>,
    count: u64,
) -> Result<(f64, u64)> {
    // The first handshake of a resuming client is a full one.
    shake_hands(address, config)?;
    let before = target.cpu()?;
    let mut resumed = 0;
    for _ in 0..count {
        resumed += u64::from(shake_hands(address, config)?);
    }
    Ok(((target.cpu()? - before).as_secs_f64() * 1e6 / count as f64, resumed))
}

/// Measures latencies of unencrypted gets alone, beside handshakes at a fixed rate, and beside a flood of
/// handshakes.
fn latencies(options: &HandshakeOptions, node: &Running, config: &Arc<ClientConfig>) -> Result<()> {
    let address = node.pb_tls.context("the address for TLS")?;
    let load = Load {
        rate: Some(f64::from(options.rate)),
        operations: u64::from(options.rate) * u64::from(options.seconds),
        ..options.common.load(Exchange::PbGet)
    };
    let paced = Some(Duration::from_secs(1) * PACED_THREADS / PACED_RATE);
    let sides = [
        ("alone", 0, None),
        ("200 a second", PACED_THREADS, paced),
        ("a flood", options.flood, None),
    ];
    let mut figures = sides.map(|_| Vec::new());
    for _ in 0..options.common.rounds {
        for (side, (_, threads, pause)) in sides.into_iter().enumerate() {
            let began = Instant::now();
            let others = Handshakers::start(threads, pause, address, config);
            let run = drive(&node.target(), &load)?;
            let count = others.end() as f64 / began.elapsed().as_secs_f64();
            figures[side].push((run.percentile_us(0.5), run.percentile_us(0.99), count));
        }
    }
    println!("{} plain gets a second, full handshakes beside them", options.rate);
    println!("| handshakes | a second | p50 us | p99 us | p99 to alone |\n|---|---|---|---|---|");
    let alone: Vec<f64> = figures[0].iter().map(|figure| f64::from(figure.1)).collect();
    for ((name, ..), figures) in sides.into_iter().zip(&figures) {
        let p99: Vec<f64> = figures.iter().map(|figure| f64::from(figure.1)).collect();
        let ratios: Vec<f64> = p99.iter().zip(&alone).map(|(mine, alone)| mine / alone).collect();
        println!(
            "| {name} | {:.0} | {:.0} | {:.0} ({}) | {:.2} ({}) |",
            median(figures.iter().map(|figure| figure.2).collect()),
            median(figures.iter().map(|figure| f64::from(figure.0)).collect()),
            median(p99.clone()),
            spread(&p99),
            median(ratios.clone()),
            spread(&ratios),
        );
    }
    Ok(())
}

/// Threads that make handshakes until they are told to end.
struct Handshakers {
    threads: Vec<JoinHandle<()>>,
    shared: Arc<(AtomicBool, AtomicU64)>,
}

impl Handshakers {
    /// Starts the threads. `pause` is the interval between two handshakes of a thread; `None` for no pause.
    fn start(
        count: u32,
        pause: Option<Duration>,
        address: SocketAddr,
        config: &Arc<ClientConfig>,
    ) -> Self {
        let shared: Arc<(AtomicBool, AtomicU64)> = Arc::default();
        let start = |_| {
            let (shared, config) = (Arc::clone(&shared), Arc::clone(config));
            spawn(move || {
                run_at_idle_priority();
                let mut due = Instant::now();
                while !shared.0.load(Ordering::Relaxed) {
                    // The node may refuse handshakes of a flood because of its limits.
                    if shake_hands(address, &config).is_ok() {
                        shared.1.fetch_add(1, Ordering::Relaxed);
                    }
                    if let Some(pause) = pause {
                        due += pause;
                        sleep(due.saturating_duration_since(Instant::now()));
                    }
                }
            })
        };
        let threads = (0..count).map(start).collect();
        Self { threads, shared }
    }

    /// Ends the threads. Returns the number of successful handshakes.
    fn end(self) -> u64 {
        self.shared.0.store(true, Ordering::Relaxed);
        for thread in self.threads {
            thread.join().expect("a handshake does not panic");
        }
        self.shared.1.load(Ordering::Relaxed)
    }
}
