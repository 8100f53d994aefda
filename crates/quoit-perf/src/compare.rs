//! The comparisons, and how they are printed.

#![expect(clippy::print_stdout, reason = "the benchmark's output")]

use crate::Common;
use crate::drive::{Load, Measured, drive};
use crate::echo::Sizes;
use crate::protocol::Exchange;
use crate::servers::{self, Running};
use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use std::net::SocketAddr;
use std::path::Path;

const CONNECTIONS: usize = 50;
const DURABLE_CONNECTIONS: usize = 64;
/// Bytes of a get's answer around its value: framing, content type, clock, tag, times.
const ANSWER_OVERHEAD: usize = 120;

/// Middle value.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn spread(values: &[f64]) -> String {
    let low = values.iter().copied().fold(f64::INFINITY, f64::min);
    let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    format!("{low:.2}..{high:.2}")
}

/// One contender of a comparison.
struct Row<'a> {
    name: &'static str,
    address: SocketAddr,
    server: &'a Running,
    load: Load,
    runs: Vec<Measured>,
}

impl Common {
    fn load(&self, exchange: Exchange) -> Load {
        Load {
            exchange,
            connections: CONNECTIONS,
            operations: self.operations,
            value_bytes: self.value_bytes,
            first_key: 0,
            key_count: self.keys,
            sequential: false,
            rate: None,
        }
    }

    /// Stores every key once.
    pub(crate) fn fill(&self, server: &Running, address: SocketAddr, put: Exchange) -> Result<()> {
        let mut load = self.load(put);
        load.operations = self.keys;
        load.sequential = true;
        drive(address, server.pid(), &load).context("filling the store")?;
        Ok(())
    }

    pub(crate) fn put(&self, dw: Option<u32>) -> Exchange {
        Exchange::PbPut { value_bytes: self.value_bytes, dw }
    }
}

fn request_size(exchange: &Exchange, value_bytes: usize) -> usize {
    let mut out = BytesMut::new();
    exchange.request(0, &Bytes::from(vec![0; value_bytes]), &mut out);
    out.len()
}

/// Runs all rows in turn, `rounds` times; new keys of every round come after those of the last.
fn interleave(rows: &mut [Row<'_>], rounds: usize) -> Result<()> {
    for round in 0..rounds {
        for row in rows.iter_mut() {
            let mut load = row.load.clone();
            if load.sequential {
                load.first_key += round as u64 * load.operations;
            }
            let run = drive(row.address, row.server.pid(), &load).context(row.name)?;
            row.runs.push(run);
        }
    }
    Ok(())
}

fn print(rows: &[Row<'_>], against: &[&str]) {
    println!("| what | CPU us/op (median, spread) | op/s | p50 us | p99 us | {} |", {
        let heads: Vec<String> = against.iter().map(|name| format!("CPU vs. {name}")).collect();
        heads.join(" | ")
    });
    println!("|---|---|---|---|---|{}", "---|".repeat(against.len()));
    let cpu = |row: &Row<'_>| median(row.runs.iter().map(Measured::cpu_us).collect());
    for row in rows {
        let each: Vec<f64> = row.runs.iter().map(Measured::cpu_us).collect();
        let rate = median(row.runs.iter().map(Measured::rate).collect());
        let at = |share: f64| {
            median(row.runs.iter().map(|run| f64::from(run.percentile_us(share))).collect())
        };
        let ratios: Vec<String> = against
            .iter()
            .map(|name| {
                rows.iter()
                    .find(|other| other.name == *name)
                    .map_or_else(|| "-".to_owned(), |other| format!("{:.2}", cpu(row) / cpu(other)))
            })
            .collect();
        println!(
            "| {} | {:.2} ({}) | {rate:.0} | {:.0} | {:.0} | {} |",
            row.name,
            cpu(row),
            spread(&each),
            at(0.50),
            at(0.99),
            ratios.join(" | ")
        );
    }
}

/// Processor time an operation beside the echo and Redis.
pub(crate) fn cpu(common: &Common) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let (node, _) = servers::quoit(&common.quoit, &dir.path().join("data"), &common.set)?;
    common.fill(&node, node.address, common.put(Some(0)))?;
    let redis = servers::redis(dir.path())?;
    if redis.is_none() {
        println!("redis-server is not installed: its rows are left out");
    }
    let set = Exchange::RedisSet { value_bytes: common.value_bytes };
    if let Some(redis) = &redis {
        common.fill(redis, redis.address, set.clone())?;
    }
    let put = common.put(Some(0));
    let get_sizes = Sizes {
        request: request_size(&Exchange::PbGet, common.value_bytes),
        response: common.value_bytes + ANSWER_OVERHEAD,
    };
    let put_sizes = Sizes { request: request_size(&put, common.value_bytes), response: 5 };
    let get_echo = servers::echo(get_sizes, None)?;
    let put_echo = servers::echo(put_sizes, None)?;
    let echo_of =
        |sizes: Sizes| Exchange::Echo { request: sizes.request, response: sizes.response };
    let http = node.http.context("the node's HTTP address")?;
    let mut gets = vec![
        new_row("echo", &get_echo, get_echo.address, common.load(echo_of(get_sizes))),
        new_row("PB get", &node, node.address, common.load(Exchange::PbGet)),
        new_row("HTTP get", &node, http, common.load(Exchange::HttpGet)),
    ];
    let mut new_keys = common.load(put.clone());
    new_keys.sequential = true;
    new_keys.first_key = common.keys;
    let mut puts = vec![
        new_row("echo", &put_echo, put_echo.address, common.load(echo_of(put_sizes))),
        new_row("PB put dw=0, existing keys", &node, node.address, common.load(put)),
        new_row("PB put dw=0, new keys", &node, node.address, new_keys),
    ];
    if let Some(redis) = &redis {
        gets.push(new_row("Redis GET", redis, redis.address, common.load(Exchange::RedisGet)));
        puts.push(new_row("Redis SET", redis, redis.address, common.load(set)));
    }
    interleave(&mut gets, common.rounds)?;
    print(&gets, &["echo", "Redis GET"]);
    println!();
    interleave(&mut puts, common.rounds)?;
    print(&puts, &["echo", "Redis SET"]);
    Ok(())
}

fn new_row<'a>(
    name: &'static str,
    server: &'a Running,
    address: SocketAddr,
    load: Load,
) -> Row<'a> {
    Row { name, address, server, load, runs: Vec::new() }
}

/// Rate of synced puts beside a bare log writer on the same disk.
pub(crate) fn durable(common: &Common) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let (node, _) = servers::quoit(&common.quoit, &dir.path().join("data"), &common.set)?;
    let put = common.put(None);
    let sizes = Sizes { request: request_size(&put, common.value_bytes), response: 5 };
    let writer = servers::echo(sizes, Some(dir.path().join("bare.log")))?;
    let load = |exchange| Load { connections: DURABLE_CONNECTIONS, ..common.load(exchange) };
    let echo = Exchange::Echo { request: sizes.request, response: sizes.response };
    let mut rows = vec![
        new_row("log writer", &writer, writer.address, load(echo)),
        new_row("PB put, synced", &node, node.address, load(put)),
    ];
    interleave(&mut rows, common.rounds)?;
    print(&rows, &["log writer"]);
    let rate = |row: &Row<'_>| median(row.runs.iter().map(Measured::rate).collect());
    println!(
        "\nrate of synced puts / rate of the log writer: {:.2}",
        rate(&rows[1]) / rate(&rows[0])
    );
    Ok(())
}

/// Latency at half the maximum rate, with and without a merge running.
pub(crate) fn merge(common: &Common) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let calm = prepare(common, &dir.path().join("calm"), "never")?;
    let merging = prepare(common, &dir.path().join("merging"), "always")?;
    let put = common.put(Some(0));
    println!("| what | rate op/s | p99 us | p99.9 us | vs. calm p99 | vs. calm p99.9 |");
    println!("|---|---|---|---|---|---|");
    for (name, exchange) in [("PB get", Exchange::PbGet), ("PB put dw=0", put.clone())] {
        let top = drive(calm.address, calm.pid(), &common.load(exchange.clone()))?.rate();
        let paced = Load { rate: Some(top / 2.0), ..common.load(exchange) };
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..common.rounds {
            for (side, node) in [&calm, &merging].into_iter().enumerate() {
                figures[side].push(drive(node.address, node.pid(), &paced)?);
            }
        }
        let at = |side: usize, share: f64| {
            median(figures[side].iter().map(|run| f64::from(run.percentile_us(share))).collect())
        };
        for (side, label) in ["calm", "merging"].into_iter().enumerate() {
            println!(
                "| {name}, {label} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} |",
                top / 2.0,
                at(side, 0.99),
                at(side, 0.999),
                at(side, 0.99) / at(0, 0.99),
                at(side, 0.999) / at(0, 0.999),
            );
        }
    }
    Ok(())
}

/// A node whose log is mostly dead, so that merges (if allowed) have work for as long as the run takes.
fn prepare(common: &Common, data: &Path, policy: &str) -> Result<Running> {
    let mut set = common.set.clone();
    set.push(format!("bitcask.merge.policy={policy}"));
    set.push("bitcask.max_file_size=32MB".into());
    set.push("bitcask.merge_check_interval=1s".into());
    set.push("bitcask.merge.triggers.fragmentation=10".into());
    set.push("bitcask.merge.thresholds.fragmentation=5".into());
    let (node, _) = servers::quoit(&common.quoit, data, &set)?;
    common.fill(&node, node.address, common.put(Some(0)))?;
    let mut overwrite = common.load(common.put(Some(0)));
    overwrite.operations = common.keys * 3;
    drive(node.address, node.pid(), &overwrite).context("overwriting keys")?;
    Ok(node)
}
