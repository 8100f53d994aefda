//! Cost of a get for the load generator, over Protocol Buffers and over HTTP, compared with
//! redis-benchmark: processor time of the client on one thread, with 50 connections and one request in
//! flight on each.

use crate::report::{median, spread};
use crate::servers::{self, NodeProgram, Running};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const CONNECTIONS: u32 = 50;
const VALUE_BYTES: u32 = 1024;

/// Clock ticks per second in `/proc/self/stat`.
const TICKS_PER_S: f64 = 100.0;

/// A driver of the load generator, and the address of its server.
#[derive(Clone, Copy)]
struct DriverAt {
    name: &'static str,
    address: SocketAddr,
}

/// A run of the load generator.
#[derive(Clone, Copy)]
struct ClientLoad<'a> {
    /// Name of the run and of its files.
    name: &'a str,
    /// Generator of the keys' integers, without its end.
    keys: &'static str,
    /// The only operation, as the driver calls it.
    operation: &'static str,
}

/// Options of the comparison.
#[derive(Args, Clone, Debug)]
pub(crate) struct ClientOptions {
    /// The quoit binary, a release build [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::beside("quoit"), hide_default_value = true)]
    quoit: PathBuf,
    /// Directory for data; a temporary folder is made in it [default: where this program is].
    #[arg(long, default_value_os_t = crate::beside("."), hide_default_value = true)]
    dir: PathBuf,
    /// Interleaved rounds; medians are printed.
    #[arg(long, default_value_t = 5)]
    rounds: u32,
    /// Length of each round of the load generator, in seconds.
    #[arg(long, default_value_t = 4)]
    duration_s: u32,
    /// Number of gets in each round of redis-benchmark.
    #[arg(long, default_value_t = 300_000)]
    operations: u32,
    /// Number of keys.
    #[arg(long, default_value_t = 10_000)]
    keys: u32,
}

/// The fields of the load generator's `summary.json` that this benchmark reads.
#[derive(Deserialize)]
struct ClientSummary {
    successful: u64,
    failed: u64,
    client: SummaryClient,
}

#[derive(Deserialize)]
struct SummaryClient {
    process_cpu_s: f64,
}

impl ClientOptions {
    /// Runs the load generator, and returns its processor time per operation, in microseconds.
    fn bench(&self, dir: &Path, at: DriverAt, load: ClientLoad<'_>) -> Result<f64> {
        let ClientLoad { name, keys, operation } = load;
        let config = dir.join(format!("{name}.config"));
        let text = format!(
            "{{mode, max}}. {{concurrent, {CONNECTIONS}}}. {{client_threads, 1}}.
             {{driver, {}}}. {{value_generator, {{fixed_bin, {VALUE_BYTES}}}}}.
             {{key_generator, {{int_to_bin_bigendian, {{{keys}, {}}}}}}}.
             {{operations, [{{{operation}, 1}}]}}.",
            at.name, self.keys
        );
        std::fs::write(&config, text)?;
        let status = Command::new(&self.quoit)
            .arg("bench")
            .arg(&config)
            .args(["--duration", &format!("{}s", self.duration_s)])
            .args(["--target", &at.address.to_string(), "--bench-name", name])
            .arg("--results-dir")
            .arg(dir)
            .stdout(Stdio::null())
            .status()
            .context("starting the load generator")?;
        ensure!(status.success(), "the load generator ended with {status}");
        let bytes = std::fs::read(dir.join(name).join("summary.json"))?;
        let summary: ClientSummary = serde_json::from_slice(&bytes)?;
        ensure!(summary.failed == 0, "{} operations failed", summary.failed);
        Ok(summary.client.process_cpu_s * 1e6 / summary.successful.max(1) as f64)
    }

    /// Runs redis-benchmark, and returns its processor time per operation, in microseconds.
    fn redis_benchmark(&self, redis: &Running, test: &str, operations: u32) -> Result<f64> {
        let before = children_cpu_s()?;
        let status = Command::new("redis-benchmark")
            .args(["-p", &redis.address.port().to_string(), "-q", "-t", test])
            .args(["-c", &CONNECTIONS.to_string(), "-n", &operations.to_string()])
            .args(["-d", &VALUE_BYTES.to_string(), "-r", &self.keys.to_string()])
            .stdout(Stdio::null())
            .status()
            .context("starting redis-benchmark; is redis-tools installed?")?;
        ensure!(status.success(), "redis-benchmark ended with {status}");
        Ok((children_cpu_s()? - before) * 1e6 / f64::from(operations))
    }
}

/// Processor time of all child processes that have ended, in seconds.
fn children_cpu_s() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The fields are counted from the end of the name, which is in parentheses and may contain spaces.
    // Field 3 follows.
    let (_, fields) = stat.rsplit_once(") ").context("a line of /proc/self/stat")?;
    let mut ticks = fields.split(' ').skip(13).map(str::parse::<f64>);
    let mut next = || ticks.next().context("fields 16 and 17")?.context("a number of ticks");
    Ok((next()? + next()?) / TICKS_PER_S)
}

/// Runs the comparison round by round, and prints the ratio.
pub(crate) fn client(options: &ClientOptions) -> Result<()> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let program = NodeProgram { binary: &options.quoit, set: &[] };
    let (node, _) = servers::quoit(program, &dir.path().join("data"))?;
    let redis = servers::redis(dir.path())?.context("redis-server is not installed")?;
    let path = dir.path();
    let pb = DriverAt { name: "riakc_pb", address: node.address };
    let http = DriverAt { name: "http_raw", address: node.http.context("a node without HTTP")? };
    let fill = ClientLoad { name: "fill", keys: "partitioned_sequential_int, 1", operation: "put" };
    options.bench(path, pb, fill)?;
    // The two drivers store the same key under different record names.
    options.bench(path, http, ClientLoad { name: "fill-http", operation: "update", ..fill })?;
    options.redis_benchmark(&redis, "set", options.keys * 10)?;
    let (mut ours, mut over_http, mut theirs) = (Vec::new(), Vec::new(), Vec::new());
    for round in 0..options.rounds {
        let (pb_name, http_name) = (format!("get-{round}"), format!("http-{round}"));
        let gets = ClientLoad { name: &pb_name, keys: "uniform_int", operation: "get" };
        ours.push(options.bench(path, pb, gets)?);
        over_http.push(options.bench(path, http, ClientLoad { name: &http_name, ..gets })?);
        theirs.push(options.redis_benchmark(&redis, "get", options.operations)?);
    }
    let ratios: Vec<f64> = ours.iter().zip(&theirs).map(|(ours, theirs)| ours / theirs).collect();
    println!("| client | CPU us/get | spread |\n|---|---|---|");
    println!("| quoit bench, riakc_pb | {:.2} | {} |", median(ours.clone()), spread(&ours));
    println!(
        "| quoit bench, http_raw | {:.2} | {} |",
        median(over_http.clone()),
        spread(&over_http)
    );
    println!("| redis-benchmark | {:.2} | {} |", median(theirs.clone()), spread(&theirs));
    println!("\nratio over Protocol Buffers {:.2} ({})", median(ratios.clone()), spread(&ratios));
    Ok(())
}
