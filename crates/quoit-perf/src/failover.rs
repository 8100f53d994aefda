//! Latencies of requests when a node of a cluster is killed under load.

use crate::live::{LiveCluster, LiveOptions, LoadSpan};
use crate::report::median;
use anyhow::{Result, ensure};
use clap::Args;

/// Number of seconds after the kill that are shown one by one.
const SHOWN_S: u64 = 5;

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct FailoverOptions {
    #[command(flatten)]
    live: LiveOptions,
    /// Number of nodes in the cluster.
    #[arg(long, default_value_t = 5)]
    nodes: usize,
    /// Rounds, each with a cluster of its own; medians are printed at the end.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
}

/// Kills a node of a cluster under load, and prints the latencies of each second around the kill.
pub(crate) fn failover(options: &FailoverOptions) -> Result<()> {
    println!("one of {} nodes killed; 99th percentiles, get / put in ms, by second", options.nodes);
    let heading: Vec<String> = (1..=SHOWN_S).map(|second| format!("second {second}")).collect();
    println!("| round | op/s | before | {} | wrong |", heading.join(" | "));
    println!("|{}", "---|".repeat(heading.len() + 4));
    let mut all: Vec<Vec<(f64, f64)>> = Vec::new();
    for round in 1..=options.rounds {
        let dir = tempfile::tempdir_in(&options.live.dir)?;
        let mut live = LiveCluster::start(&options.live, dir.path(), options.nodes)?;
        let rate = live.rate()?;
        let mut load = live.load_at(rate)?;
        load.run_for(options.live.quiet_s);
        let died = load.second();
        live.kill(options.nodes)?;
        load.run_for(options.live.quiet_s.max(SHOWN_S + 1));
        let wrong = load.end()?;
        let p99 = |span| (load.p99_ms("get", span), load.p99_ms("put", span));
        let quiet_from = died.saturating_sub(options.live.quiet_s);
        let mut row = vec![p99(LoadSpan { after_s: quiet_from, until_s: died })];
        row.extend(
            (died..died + SHOWN_S)
                .map(|second| p99(LoadSpan { after_s: second, until_s: second + 1 })),
        );
        let wrong = if wrong.is_empty() { "nothing".to_owned() } else { wrong.join("; ") };
        println!("| {round} | {rate:.0} | {} | {wrong} |", cells(&row));
        all.push(row);
    }
    ensure!(!all.is_empty(), "at least one round");
    let column = |place: usize| {
        let of = |part: fn(&(f64, f64)) -> f64| {
            median(all.iter().map(|row| part(&row[place])).collect())
        };
        (of(|both| both.0), of(|both| both.1))
    };
    let medians: Vec<_> = (0..all[0].len()).map(column).collect();
    println!("| median | | {} | |", cells(&medians));
    Ok(())
}

fn cells(row: &[(f64, f64)]) -> String {
    let cells: Vec<_> = row.iter().map(|(get, put)| format!("{get:.2} / {put:.2}")).collect();
    cells.join(" | ")
}
