//! Cost of reaping many tombstones: time, processor time, and latency of concurrent gets.

use crate::CommonOptions;
use crate::dev_cluster::DevCluster;
use crate::drive::{Load, Measured, Target, drive, percentile};
use crate::link::Transport;
use crate::metrics::gauge;
use crate::protocol::Exchange;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Gets per second, before and while the reaper works.
const GET_RATE: f64 = 3_000.0;
const GET_CONNECTIONS: usize = 8;
/// Length of a measurement without tombstones.
const CALM: Duration = Duration::from_secs(10);
/// Time limit for the partitions of a new cluster to move.
const SETTLING_LIMIT: Duration = Duration::from_secs(600);
/// Time limit for reaping.
const REAPING_LIMIT: Duration = Duration::from_secs(1_200);

/// The arguments of the benchmark.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReapingOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// Number of nodes in the cluster.
    #[arg(long, default_value_t = 3)]
    nodes: usize,
    /// Number of nodes to kill before the deletes.
    #[arg(long, default_value_t = 0)]
    away: usize,
    /// Number of keys to delete, for each round.
    #[arg(long, value_delimiter = ',', default_value = "100000,300000,1000000")]
    tombstones: Vec<u64>,
}

impl ReapingOptions {
    pub(crate) const fn common(&self) -> &CommonOptions {
        &self.common
    }
}

/// Figures of gets over some time.
#[derive(Default)]
struct Gets {
    latencies_us: Vec<u32>,
    cpu: Duration,
    elapsed: Duration,
}

impl Gets {
    fn add(&mut self, run: Measured) {
        self.latencies_us.extend(run.latencies_us);
        self.cpu += run.server_cpu;
        self.elapsed += run.elapsed;
    }

    fn percentile_us(&mut self, share: f64) -> u32 {
        self.latencies_us.sort_unstable();
        percentile(&self.latencies_us, share)
    }

    /// Processor time of all nodes per second.
    fn cpu_share(&self) -> f64 {
        self.cpu.as_secs_f64() / self.elapsed.as_secs_f64()
    }
}

/// Deletes keys, and measures gets of other keys until no node has tombstones.
pub(crate) fn reaping(options: &ReapingOptions) -> Result<()> {
    let common = &options.common;
    ensure!(options.away < options.nodes, "one node at least has to stay");
    let dir = tempfile::tempdir_in(&common.dir)?;
    let cluster = DevCluster::start(common.program(), dir.path(), options.nodes)?;
    let mut live = common.load(common.put(Some(0)));
    live.sequential = true;
    live.operations = common.keys;
    drive(&cluster.target(), &live).context("storing the keys that stay")?;
    settle(&common.quoit, cluster.nodes[0].http)?;
    let (away, here) = cluster.nodes.split_at(options.away);
    for node in away {
        let number = i32::try_from(node.pid).context("a process id")?;
        let pid = rustix::process::Pid::from_raw(number).context("a process id")?;
        rustix::process::kill_process(pid, rustix::process::Signal::KILL)?;
    }
    let target = Target {
        addresses: here.iter().map(|node| node.pb).collect(),
        pids: here.iter().map(|node| node.pid).collect(),
        transport: Transport::Plain,
    };
    let http: Vec<SocketAddr> = here.iter().map(|node| node.http).collect();
    println!("{} nodes, {} of them away, {GET_RATE} gets a second", options.nodes, options.away);
    println!(
        "| tombstones | reaped in s | left | CPU a tombstone, us | p99 calm, us | p99 meanwhile, us | ratio |"
    );
    println!("|---|---|---|---|---|---|---|");
    let mut first_key = common.keys;
    for count in &options.tombstones {
        let keys = first_key..first_key + count;
        first_key = keys.end;
        round(common, &target, &http, keys)?;
    }
    Ok(())
}

/// Waits until no partition moves, since no tombstone is reaped before that.
fn settle(quoit: &Path, node: SocketAddr) -> Result<()> {
    let begun = Instant::now();
    loop {
        let asked = Command::new(quoit)
            .args(["admin", "--url", &format!("http://{node}"), "--format", "json", "transfers"])
            .output()
            .context("asking for the transfers")?;
        let transfers: Value =
            serde_json::from_slice(&asked.stdout).context("reading the transfers")?;
        if transfers["waiting"].as_array().is_some_and(Vec::is_empty) {
            return Ok(());
        }
        ensure!(begun.elapsed() < SETTLING_LIMIT, "partitions still move after {SETTLING_LIMIT:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn round(
    common: &CommonOptions,
    target: &Target,
    http: &[SocketAddr],
    keys: std::ops::Range<u64>,
) -> Result<()> {
    let count = keys.end - keys.start;
    let on_keys = |exchange| Load {
        first_key: keys.start,
        operations: count,
        sequential: true,
        value_bytes: 16,
        ..common.load(exchange)
    };
    let put = Exchange::PbPut { value_bytes: 16, dw: Some(0) };
    drive(target, &on_keys(put)).context("storing the keys that go")?;
    let gets = Load {
        connections: GET_CONNECTIONS,
        rate: Some(GET_RATE),
        operations: quoit_number::whole(GET_RATE),
        ..common.load(Exchange::PbGet)
    };
    let mut calm = Gets::default();
    while calm.elapsed < CALM {
        calm.add(drive(target, &gets)?);
    }
    drive(target, &on_keys(Exchange::PbDelete)).context("deleting")?;
    let deleted = Instant::now();
    let (mut meanwhile, mut before, mut reaped, mut still) =
        (Gets::default(), tombstone_count(http)?, Duration::ZERO, 0);
    let begun_with = before;
    loop {
        meanwhile.add(drive(target, &gets)?);
        let left = tombstone_count(http)?;
        if left != before {
            (reaped, still) = (deleted.elapsed(), 0);
        }
        still += 1;
        // Tombstones that wait for a node that is down are not reaped.
        if left == 0 || still == 60 {
            before = left;
            break;
        }
        before = left;
        if deleted.elapsed() > REAPING_LIMIT {
            bail!("{left} tombstones were left after {REAPING_LIMIT:?}");
        }
    }
    let extra = (meanwhile.cpu_share() - calm.cpu_share()) * meanwhile.elapsed.as_secs_f64();
    let (calm_us, meanwhile_us) = (calm.percentile_us(0.99), meanwhile.percentile_us(0.99));
    println!(
        "| {count} | {:.1} | {before} | {:.1} | {calm_us} | {meanwhile_us} | {:.2} |",
        reaped.as_secs_f64(),
        extra * 1e6 / (begun_with.saturating_sub(before)).max(1) as f64,
        f64::from(meanwhile_us) / f64::from(calm_us),
    );
    Ok(())
}

/// The number of tombstones on all nodes together.
fn tombstone_count(nodes: &[SocketAddr]) -> Result<u64> {
    nodes.iter().map(|node| gauge(*node, "quoit_tombstones")).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_other_measurements() {
        let mut gets = Gets { latencies_us: (1..=100).rev().collect(), ..Gets::default() };
        assert_eq!(gets.percentile_us(0.99), 99);
    }
}
