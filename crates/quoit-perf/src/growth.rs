//! A cluster that grows step by step under load: the data that moves, the time it takes, and the effect on
//! requests.
//!
//! All nodes share this machine. Starting more processes takes processor time from the others, which it
//! would not if each node had a machine of its own. So the seconds in which nodes start and join are
//! reported separately from those in which data move. For the same reason a larger cluster is slower here
//! even without transfers. Each step therefore has a quiet time before and after it.

use crate::live::{LiveCluster, LiveLoad, LiveOptions, LoadSpan};
use crate::report::median;
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;

/// Number of copies of each record.
const N_VAL: u64 = 3;

/// Options of the growth.
#[derive(Args, Clone, Debug)]
pub(crate) struct GrowthOptions {
    #[command(flatten)]
    live: LiveOptions,
    /// Sizes of the cluster, in order.
    #[arg(long, value_delimiter = ',', default_value = "3,5,8,10,12,14")]
    nodes: Vec<usize>,
    /// Number of times that a cluster grows from the first size to the last, at the same rate. Medians are
    /// printed at the end of several.
    #[arg(long, default_value_t = 1)]
    rounds: usize,
}

/// Grows clusters, prints a row for each step, and prints the medians of all rounds.
pub(crate) fn growth(options: &GrowthOptions) -> Result<()> {
    ensure!(options.rounds > 0, "at least one round");
    let (first, steps) = options.nodes.split_first().context("a size to begin with")?;
    let rate = match options.live.rate {
        Some(rate) => rate,
        None => {
            // On shared processors, the largest cluster has the lowest maximum rate.
            let largest = options.nodes.iter().max().copied().unwrap_or(*first);
            let dir = tempfile::tempdir_in(&options.live.dir)?;
            LiveCluster::start(&options.live, dir.path(), largest)?.rate()?
        }
    };
    println!("get 4 : put 4 : delete 1 at {rate:.0} op/s, n_val=3, r=w=2, every read verified");
    let rounds: Vec<Vec<LatencyGrowth>> =
        (0..options.rounds).map(|_| grow(options, rate, *first, steps)).collect::<Result<_>>()?;
    if rounds.len() > 1 {
        print_medians(&options.nodes, &rounds);
    }
    Ok(())
}

/// The factor by which the 99th percentiles of latency grew while data moved.
#[derive(Clone, Copy)]
struct LatencyGrowth {
    get: f64,
    put: f64,
}

/// Grows one cluster.
fn grow(
    options: &GrowthOptions,
    rate: f64,
    first: usize,
    steps: &[usize],
) -> Result<Vec<LatencyGrowth>> {
    let dir = tempfile::tempdir_in(&options.live.dir)?;
    let mut live = LiveCluster::start(&options.live, dir.path(), first)?;
    let ring_size = live.ring_size()?;
    println!(
        "\n| nodes | copies moved | fewest possible | MB moved | seconds: joining | moving | \
         get p99 ms: before | joining | moving | after | put p99 ms: before | joining | moving | \
         after |"
    );
    println!("|{}", "---|".repeat(14));
    let mut load = live.load_at(rate)?;
    let mut now = first;
    let mut noticed = Vec::new();
    load.run_for(options.live.quiet_s);
    for then in steps {
        ensure!(*then > now, "a cluster of {now} nodes does not grow to {then}");
        let (_, bytes_before) = live.moved()?;
        // The seconds at which the phases end: before, joining, moving, after.
        let mut ends = [load.second(); 4];
        live.add_until(*then)?;
        ends[1] = load.second().max(ends[0] + 1);
        let plan = live.commit()?;
        live.settle()?;
        ends[2] = load.second().max(ends[1] + 1);
        let (_, bytes_after) = live.moved()?;
        load.run_for(options.live.quiet_s);
        ends[3] = load.second();
        let gets = p99s_ms(&load, "get", ends, options.live.quiet_s);
        let puts = p99s_ms(&load, "put", ends, options.live.quiet_s);
        println!(
            "| {now} to {then} | {} | {} | {:.1} | {} | {} | {} | {} |",
            copies_moved(&plan),
            fewest_copies(ring_size, GrowthStep { now: now as u64, then: *then as u64 }),
            (bytes_after - bytes_before) as f64 / 1e6,
            ends[1] - ends[0],
            ends[2] - ends[1],
            cells(gets),
            cells(puts),
        );
        let times = |[before, _, moving, _]: [f64; 4]| moving / before;
        noticed.push(LatencyGrowth { get: times(gets), put: times(puts) });
        now = *then;
    }
    let wrong = load.end()?;
    match wrong.is_empty() {
        true => println!("no error, no stale read, nothing lost"),
        false => println!("WRONG: {}", wrong.join("; ")),
    }
    ensure!(wrong.is_empty(), "requests noticed the growth");
    Ok(noticed)
}

fn print_medians(nodes: &[usize], rounds: &[Vec<LatencyGrowth>]) {
    println!("\nMedians of {} rounds, and all, in order:\n", rounds.len());
    println!("| nodes | get p99, moving / before | all | put p99, moving / before | all |");
    println!("|{}", "---|".repeat(5));
    for (step, sizes) in nodes.windows(2).enumerate() {
        let of = |which: fn(&LatencyGrowth) -> f64| {
            let mut times: Vec<f64> = rounds.iter().map(|round| which(&round[step])).collect();
            times.sort_by(f64::total_cmp);
            let all: Vec<String> = times.iter().map(|times| format!("{times:.2}")).collect();
            format!("{:.2} | {}", median(times.clone()), all.join(" "))
        };
        let (get, put) = (of(|noticed| noticed.get), of(|noticed| noticed.put));
        println!("| {} to {} | {get} | {put} |", sizes[0], sizes[1]);
    }
}

/// The 99th percentiles of four phases that end at these seconds. The first phase has `quiet_s` seconds.
fn p99s_ms(load: &LiveLoad, operation: &str, ends: [u64; 4], quiet_s: u64) -> [f64; 4] {
    let mut after_s = ends[0].saturating_sub(quiet_s);
    ends.map(|until_s| {
        let p99_ms = load.p99_ms(operation, LoadSpan { after_s, until_s });
        after_s = until_s;
        p99_ms
    })
}

fn cells(times_ms: [f64; 4]) -> String {
    times_ms.map(|time_ms| format!("{time_ms:.2}")).join(" | ")
}

/// The number of partition copies that a plan moves to other nodes.
fn copies_moved(plan: &Value) -> u64 {
    let transfers = plan["transitions"][0]["transfers"].as_array().into_iter().flatten();
    transfers.filter_map(|each| each["partitions"].as_u64()).sum()
}

/// Numbers of nodes before and after a step of the growth.
#[derive(Clone, Copy)]
struct GrowthStep {
    now: u64,
    then: u64,
}

/// The lowest number of copies that must move to give the new nodes fair shares.
fn fewest_copies(ring_size: u64, step: GrowthStep) -> u64 {
    let GrowthStep { now, then } = step;
    (ring_size * N_VAL.min(then) / then) * (then - now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fewest_copies_are_the_whole_shares_of_the_new_nodes() {
        let two_more = GrowthStep { now: 3, then: 5 };
        assert_eq!(fewest_copies(64, two_more), 2 * 38);
        assert_eq!(fewest_copies(256, two_more), 2 * 153);
        assert_eq!(fewest_copies(64, GrowthStep { now: 1, then: 2 }), 64);
    }
}
