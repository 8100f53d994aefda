//! A cluster that grows step by step under load: what moves, for how long, and what requests notice.

use crate::live::{Live, LiveOptions};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

/// Copies of each record.
const N_VAL: u64 = 3;
/// Partitions of a cluster that is not told another number.
const RING_SIZE: u64 = 64;

/// What the growth needs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    #[command(flatten)]
    live: LiveOptions,
    /// Sizes of the cluster, one after the other.
    #[arg(long, value_delimiter = ',', default_value = "3,5,8,10,12,14")]
    nodes: Vec<usize>,
}

/// Lets a cluster grow and prints a row for each step.
pub(crate) fn growth(options: &Options) -> Result<()> {
    let (first, steps) = options.nodes.split_first().context("a size to begin with")?;
    let rate = match options.live.rate {
        Some(rate) => rate,
        None => {
            // On shared processors the largest cluster does least.
            let largest = options.nodes.iter().max().copied().unwrap_or(*first);
            let dir = tempfile::tempdir_in(&options.live.dir)?;
            Live::start(&options.live, dir.path(), largest)?.rate()?
        }
    };
    let dir = tempfile::tempdir_in(&options.live.dir)?;
    let mut live = Live::start(&options.live, dir.path(), *first)?;
    println!("get 4 : put 4 : delete 1 at {rate:.0} op/s, n_val=3, r=w=2, every read verified");
    println!(
        "| nodes | copies moved | fewest possible | MB moved | seconds | get p99 ms before | \
         moving | put p99 ms before | moving |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut load = live.load_at(rate)?;
    let mut now = *first;
    for then in steps {
        ensure!(*then > now, "a cluster of {now} nodes does not grow to {then}");
        load.run_for(options.live.quiet_s);
        let before = load.second();
        let (_, bytes_before) = live.moved()?;
        let plan = live.grow(*then)?;
        live.settle()?;
        let after = load.second().max(before + 1);
        let (_, bytes_after) = live.moved()?;
        let quiet = before.saturating_sub(options.live.quiet_s);
        println!(
            "| {now} -> {then} | {} | {} | {:.1} | {} | {:.2} | {:.2} | {:.2} | {:.2} |",
            copies_moved(&plan),
            fewest_copies(now as u64, *then as u64),
            (bytes_after - bytes_before) as f64 / 1e6,
            after - before,
            load.p99_ms("get", quiet, before),
            load.p99_ms("get", before, after),
            load.p99_ms("put", quiet, before),
            load.p99_ms("put", before, after),
        );
        now = *then;
    }
    load.run_for(options.live.quiet_s);
    let wrong = load.end()?;
    match wrong.is_empty() {
        true => println!("no error, no stale read, nothing lost"),
        false => println!("WRONG: {}", wrong.join("; ")),
    }
    ensure!(wrong.is_empty(), "requests noticed the growth");
    Ok(())
}

/// Copies of partitions that a plan gives to other nodes.
fn copies_moved(plan: &Value) -> u64 {
    let transfers = plan["transitions"][0]["transfers"].as_array().into_iter().flatten();
    transfers.filter_map(|each| each["partitions"].as_u64()).sum()
}

/// Copies that new nodes need at least to have their fair shares.
fn fewest_copies(now: u64, then: u64) -> u64 {
    (RING_SIZE * N_VAL.min(then) / then) * (then - now)
}
