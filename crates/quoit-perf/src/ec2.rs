//! The HTTP configuration of a published measurement of Riak, run against a fresh node, beside the
//! published figures.

use crate::drive::cpu_of;
use crate::servers;
use crate::start::resident_bytes;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options of the comparison.
#[derive(Args, Clone, Debug)]
pub(crate) struct Ec2Options {
    /// The quoit binary, a release build [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::beside("quoit"), hide_default_value = true)]
    quoit: PathBuf,
    /// Directory for data; a temporary folder is made in it [default: where this program is].
    #[arg(long, default_value_os_t = crate::beside("."), hide_default_value = true)]
    dir: PathBuf,
    /// Seconds to run.
    #[arg(long, default_value_t = 60)]
    duration_s: u64,
    /// The configuration of the load generator.
    #[arg(long, default_value = "crates/quoit-bench/configs/ec2-http.config")]
    config: PathBuf,
    /// Settings of the node.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
}

/// Figures of others for the same configuration, as `docs/benchmarks.md` tells where they are from.
const PUBLISHED: [&str; 2] = [
    "| Riak 3.2, a machine like ours | 1400 | p99 35 | p99 87 | 1137 |",
    "| published in 2010, other hardware | 620 | mean 20 | mean 115 | - |",
];

/// The part of the load generator's `summary.json` that is printed.
#[derive(Deserialize)]
pub(crate) struct RunSummary {
    pub(crate) successful: u64,
    pub(crate) failed: u64,
    pub(crate) successful_per_s: f64,
    operations: Vec<OperationSummary>,
}

#[derive(Deserialize)]
pub(crate) struct OperationSummary {
    name: String,
    latencies: LatencySummary,
}

#[derive(Deserialize)]
pub(crate) struct LatencySummary {
    mean_us: f64,
    median_us: u64,
    p95_us: u64,
    p99_us: u64,
    p99_9_us: u64,
}

impl RunSummary {
    pub(crate) fn read(run: &Path) -> Result<Self> {
        let path = run.join("summary.json");
        let bytes = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        Ok(serde_json::from_slice(&bytes)?)
    }

    /// Mean and percentiles of an operation in milliseconds.
    fn latencies(&self, name: &str) -> Result<String> {
        let found = self.operations.iter().find(|operation| operation.name == name);
        let found = &found.with_context(|| format!("no operation {name} in the run"))?.latencies;
        let ms = |us: u64| us as f64 / 1e3;
        Ok(format!(
            "mean {:.2}, p50 {:.2}, p95 {:.2}, p99 {:.2}, p99.9 {:.2}",
            found.mean_us / 1e3,
            ms(found.median_us),
            ms(found.p95_us),
            ms(found.p99_us),
            ms(found.p99_9_us)
        ))
    }
}

/// Runs the configuration once and prints its figures beside the published ones.
pub(crate) fn ec2(options: &Ec2Options) -> Result<()> {
    let dir = tempfile::tempdir_in(&options.dir)?;
    let (node, _) = servers::quoit(&options.quoit, &dir.path().join("data"), &options.set)?;
    let address = node.http.context("the node's HTTP address")?.to_string();
    let cpu_before = cpu_of(node.pid())?;
    let status = Command::new(&options.quoit)
        .arg("bench")
        .arg(&options.config)
        .args(["--duration", &format!("{}s", options.duration_s), "--target", &address])
        .args(["--bench-name", "ec2", "--results-dir"])
        .arg(dir.path())
        .status()
        .context("starting the load generator")?;
    ensure!(status.success(), "the load generator ended with {status}");
    let cpu = cpu_of(node.pid())?.saturating_sub(cpu_before);
    let summary = RunSummary::read(&dir.path().join("ec2"))?;
    let cpu_us = cpu.as_secs_f64() * 1e6 / (summary.successful + summary.failed).max(1) as f64;
    println!("\n| | operations a second | get, ms | update, ms | server CPU us/op |");
    println!("|---|---|---|---|---|");
    println!(
        "| this node | {:.0} | {} | {} | {cpu_us:.1} |",
        summary.successful_per_s,
        summary.latencies("get")?,
        summary.latencies("update")?,
    );
    PUBLISHED.iter().for_each(|row| println!("{row}"));
    println!(
        "\n{} operations, {} failed; resident {} MiB at the end",
        summary.successful,
        summary.failed,
        resident_bytes(node.pid())? >> 20
    );
    Ok(())
}
