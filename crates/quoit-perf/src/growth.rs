//! A cluster that grows step by step under load: what moves, for how long, and what requests notice.
//!
//! All nodes share this machine. The start of further processes takes processors from the others, which it
//! would not where each node has a machine of its own; so seconds in which new nodes start and join are told
//! apart from those in which data moves. For the same reason a larger cluster is slower here also at rest:
//! each step has a quiet time before and after it.

use crate::live::{Live, LiveLoad, LiveOptions};
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
        "| nodes | copies moved | fewest possible | MB moved | seconds: joining | moving | \
         get p99 ms: before | joining | moving | after | put p99 ms: before | joining | moving | \
         after |"
    );
    println!("|{}", "---|".repeat(14));
    let mut load = live.load_at(rate)?;
    let mut now = *first;
    load.run_for(options.live.quiet_s);
    for then in steps {
        ensure!(*then > now, "a cluster of {now} nodes does not grow to {then}");
        let (_, bytes_before) = live.moved()?;
        // Ends of before, joining, moving and after.
        let mut ends = [load.second(); 4];
        live.add_until(*then)?;
        ends[1] = load.second().max(ends[0] + 1);
        let plan = live.commit()?;
        live.settle()?;
        ends[2] = load.second().max(ends[1] + 1);
        let (_, bytes_after) = live.moved()?;
        load.run_for(options.live.quiet_s);
        ends[3] = load.second();
        println!(
            "| {now} to {then} | {} | {} | {:.1} | {} | {} | {} | {} |",
            copies_moved(&plan),
            fewest_copies(now as u64, *then as u64),
            (bytes_after - bytes_before) as f64 / 1e6,
            ends[1] - ends[0],
            ends[2] - ends[1],
            p99s(&load, "get", ends, options.live.quiet_s),
            p99s(&load, "put", ends, options.live.quiet_s),
        );
        now = *then;
    }
    let wrong = load.end()?;
    match wrong.is_empty() {
        true => println!("no error, no stale read, nothing lost"),
        false => println!("WRONG: {}", wrong.join("; ")),
    }
    ensure!(wrong.is_empty(), "requests noticed the growth");
    Ok(())
}

/// The 99th percentiles of four times that end with these seconds, the first after `quiet_s` of them.
fn p99s(load: &LiveLoad, operation: &str, ends: [u64; 4], quiet_s: u64) -> String {
    let mut from = ends[0].saturating_sub(quiet_s);
    let cell = |to| {
        let p99_ms = load.p99_ms(operation, from, to);
        from = to;
        format!("{p99_ms:.2}")
    };
    ends.map(cell).join(" | ")
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
