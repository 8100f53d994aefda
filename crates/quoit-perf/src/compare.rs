//! Comparisons of a node with the echo server, the log writer and Redis.

use crate::CommonOptions;
use crate::drive::{Load, Measured, Target, ask, drive};
use crate::echo::Sizes;
use crate::link::Transport;
use crate::protocol::Exchange;
use crate::report::{Row, interleave, median, print, spread};
use crate::servers::{self, NodeProgram, Running};
use anyhow::{Context, Result};
use bytes::{Bytes, BytesMut};
use std::net::SocketAddr;
use std::path::Path;

const CONNECTIONS: usize = 50;
const DURABLE_CONNECTIONS: usize = 64;

impl CommonOptions {
    /// The measured program with the settings of the command line.
    pub(crate) fn program(&self) -> NodeProgram<'_> {
        self.program_with(&self.set)
    }

    /// The measured program with these settings instead of those of the command line.
    pub(crate) fn program_with<'a>(&'a self, set: &'a [String]) -> NodeProgram<'a> {
        NodeProgram { binary: &self.quoit, set }
    }

    pub(crate) fn load(&self, exchange: Exchange) -> Load {
        Load {
            exchange,
            connections: CONNECTIONS,
            operations: self.operations,
            value_bytes: self.value_bytes,
            first_key: 0,
            key_count: self.keys,
            sequential: false,
            rate: None,
            sleeps: self.sleeping_driver,
            seed: 0,
        }
    }

    /// Stores every key once.
    pub(crate) fn fill(&self, server: &Running, address: SocketAddr, put: Exchange) -> Result<()> {
        let mut load = self.load(put);
        load.operations = self.keys;
        load.sequential = true;
        drive(&server.at(address), &load).context("filling the store")?;
        Ok(())
    }

    pub(crate) fn put(&self, dw: Option<u32>) -> Exchange {
        Exchange::PbPut { value_bytes: self.value_bytes, dw }
    }

    /// The sizes of request and answer of an exchange, as the server answers it now.
    fn sizes(&self, address: SocketAddr, exchange: &Exchange) -> Result<Sizes> {
        let mut request = BytesMut::new();
        exchange.request(0, &Bytes::from(vec![0; self.value_bytes]), &mut request);
        let answer = ask(address, exchange, 0, self.value_bytes)?;
        Ok(Sizes { request: request.len(), response: answer.len() })
    }
}

const fn echo_of(sizes: Sizes) -> Exchange {
    Exchange::Echo { request: sizes.request, response: sizes.response }
}

/// An exchange that can be driven by itself.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub(crate) enum NamedExchange {
    /// Puts of every key, once and in order, without waiting for a sync.
    Fill,
    PbGet,
    /// Puts without waiting for a sync.
    PbPut,
    PbPutSynced,
    HttpGet,
    RedisGet,
    RedisSet,
    /// Echo with the sizes of a get.
    Echo,
}

/// Drives one exchange and prints its figures.
pub(crate) fn one(
    common: &CommonOptions,
    address: SocketAddr,
    pid: u32,
    named: NamedExchange,
) -> Result<()> {
    let exchange = match named {
        NamedExchange::Fill | NamedExchange::PbPut => common.put(Some(0)),
        NamedExchange::PbPutSynced => common.put(None),
        NamedExchange::PbGet => Exchange::PbGet,
        NamedExchange::HttpGet => Exchange::HttpGet,
        NamedExchange::RedisGet => Exchange::RedisGet,
        NamedExchange::RedisSet => Exchange::RedisSet { value_bytes: common.value_bytes },
        NamedExchange::Echo => Exchange::Echo { request: 29, response: 1113 },
    };
    let sequential = matches!(named, NamedExchange::Fill);
    let operations = if sequential { common.keys } else { common.operations };
    let load = Load { sequential, operations, ..common.load(exchange) };
    let target = Target { addresses: vec![address], pids: vec![pid], transport: Transport::Plain };
    let run = drive(&target, &load)?;
    println!(
        "{:.2} us/op, {:.0} op/s, p50 {} us, p99 {} us",
        run.cpu_us(),
        run.rate(),
        run.percentile_us(0.5),
        run.percentile_us(0.99)
    );
    Ok(())
}

/// Prints the processor time per operation, compared with the echo server and Redis.
pub(crate) fn cpu(common: &CommonOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let (node, _) = servers::quoit(common.program(), &dir.path().join("data"))?;
    common.fill(&node, node.address, common.put(Some(0)))?;
    let redis = servers::redis(dir.path())?;
    if redis.is_none() {
        println!("redis-server is not installed: its rows are left out");
    }
    if let Some(redis) = &redis {
        let set = Exchange::RedisSet { value_bytes: common.value_bytes };
        common.fill(redis, redis.address, set)?;
    }
    gets(common, &node, redis.as_ref())?;
    println!();
    http_gets(common, &node)?;
    println!();
    puts(common, &node, redis.as_ref())
}

fn gets(common: &CommonOptions, node: &Running, redis: Option<&Running>) -> Result<()> {
    let sizes = common.sizes(node.address, &Exchange::PbGet)?;
    let echo = servers::echo(sizes, None)?;
    let mut rows = vec![
        Row::new("echo", echo.target(), common.load(echo_of(sizes))),
        Row::new("PB get", node.target(), common.load(Exchange::PbGet)),
    ];
    if let Some(redis) = redis {
        rows.push(Row::new("Redis GET", redis.target(), common.load(Exchange::RedisGet)));
    }
    println!("request {} bytes, answer {} bytes", sizes.request, sizes.response);
    interleave(&mut rows, common.rounds)?;
    print(&rows, &["echo", "Redis GET"]);
    Ok(())
}

fn http_gets(common: &CommonOptions, node: &Running) -> Result<()> {
    let address = node.http.context("the node's HTTP address")?;
    let sizes = common.sizes(address, &Exchange::HttpGet)?;
    let echo = servers::echo(sizes, None)?;
    let mut rows = vec![
        Row::new("echo", echo.target(), common.load(echo_of(sizes))),
        Row::new("HTTP get", node.at(address), common.load(Exchange::HttpGet)),
    ];
    println!("request {} bytes, answer {} bytes", sizes.request, sizes.response);
    interleave(&mut rows, common.rounds)?;
    print(&rows, &["echo"]);
    Ok(())
}

fn puts(common: &CommonOptions, node: &Running, redis: Option<&Running>) -> Result<()> {
    let put = common.put(Some(0));
    let sizes = common.sizes(node.address, &put)?;
    let echo = servers::echo(sizes, None)?;
    let mut new_keys = common.load(put.clone());
    new_keys.sequential = true;
    new_keys.first_key = common.keys;
    // Untyped buckets have allow_mult = false, so a put without a context replaces the value.
    let replacing = common.load(put);
    let mut rows = vec![
        Row::new("echo", echo.target(), common.load(echo_of(sizes))),
        Row::new("PB put dw=0, existing keys", node.target(), replacing),
        Row::new("PB put dw=0, new keys", node.target(), new_keys),
    ];
    if let Some(redis) = redis {
        let set = Exchange::RedisSet { value_bytes: common.value_bytes };
        rows.push(Row::new("Redis SET", redis.target(), common.load(set)));
    }
    println!("request {} bytes, answer {} bytes", sizes.request, sizes.response);
    interleave(&mut rows, common.rounds)?;
    print(&rows, &["echo", "Redis SET"]);
    Ok(())
}

/// Prints the rate of synced puts, compared with a bare log writer on the same disk.
pub(crate) fn durable(common: &CommonOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let (node, _) = servers::quoit(common.program(), &dir.path().join("data"))?;
    let put = common.put(None);
    let sizes = common.sizes(node.address, &put)?;
    let writer = servers::echo(sizes, Some(dir.path().join("bare.log")))?;
    let load = |exchange| Load { connections: DURABLE_CONNECTIONS, ..common.load(exchange) };
    let mut rows = vec![
        Row::new("log writer", writer.target(), load(echo_of(sizes))),
        Row::new("PB put, synced", node.target(), load(put)),
    ];
    interleave(&mut rows, common.rounds)?;
    print(&rows, &["log writer"]);
    let ratios = rows[1].ratios(&rows[0], Measured::rate);
    println!(
        "\nrate of synced puts / rate of the log writer: {:.2} ({})",
        median(ratios.clone()),
        spread(&ratios)
    );
    Ok(())
}

/// Prints the latency at half the maximum rate, with and without a running merge.
pub(crate) fn merge(common: &CommonOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let calm = prepare(common, &dir.path().join("calm"), "never")?;
    let merging = prepare(common, &dir.path().join("merging"), "always")?;
    let put = common.put(Some(0));
    println!("| what | rate op/s | p99 us | p99.9 us | vs. calm p99 | vs. calm p99.9 |");
    println!("|---|---|---|---|---|---|");
    for (name, exchange) in [("PB get", Exchange::PbGet), ("PB put dw=0", put.clone())] {
        let top = drive(&calm.target(), &common.load(exchange.clone()))?.rate();
        let paced = Load { rate: Some(top / 2.0), ..common.load(exchange) };
        let mut figures = [Vec::new(), Vec::new()];
        for _ in 0..common.rounds {
            for (side, node) in [&calm, &merging].into_iter().enumerate() {
                figures[side].push(drive(&node.target(), &paced)?);
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

/// Starts a node whose log consists mostly of dead records. Merges, if allowed, then have work for the
/// whole run.
fn prepare(common: &CommonOptions, data: &Path, policy: &str) -> Result<Running> {
    let mut set = common.set.clone();
    set.push(format!("bitcask.merge.policy={policy}"));
    set.push("bitcask.max_file_size=32MB".into());
    set.push("bitcask.merge_check_interval=1s".into());
    set.push("bitcask.merge.triggers.fragmentation=10".into());
    set.push("bitcask.merge.thresholds.fragmentation=5".into());
    let (node, _) = servers::quoit(common.program_with(&set), data)?;
    common.fill(&node, node.address, common.put(Some(0)))?;
    let mut overwrite = common.load(common.put(Some(0)));
    overwrite.operations = common.keys * 3;
    drive(&node.target(), &overwrite).context("overwriting keys")?;
    Ok(node)
}
