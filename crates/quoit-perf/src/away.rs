//! Healing of a node that was down under load: how much hinted handoff delivers at its return, and how much
//! is left to anti-entropy.

use crate::live::{LiveCluster, LiveOptions, LoadSpan};
use anyhow::{Result, ensure};
use clap::Args;

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct AwayOptions {
    #[command(flatten)]
    live: LiveOptions,
    /// Number of nodes in the cluster; the last one goes down.
    #[arg(long, default_value_t = 5)]
    nodes: usize,
    /// Seconds for which it is down.
    #[arg(long, default_value_t = 60)]
    away_s: u64,
}

/// Stops a node under load and starts it again. Prints how many records the other nodes noted for it, how
/// long their delivery takes, and how many differences a comparison of all copies finds afterwards.
pub(crate) fn away(options: &AwayOptions) -> Result<()> {
    let LiveOptions { dir, quiet_s, .. } = &options.live;
    let dir = tempfile::tempdir_in(dir)?;
    let mut live = LiveCluster::start(&options.live, dir.path(), options.nodes)?;
    let rate = live.rate()?;
    let mut load = live.load_at(rate)?;
    load.run_for(*quiet_s);
    let left = load.second();
    live.stop(options.nodes)?;
    load.run_for(options.away_s);
    let missed_records = live.hinted_records()?;
    let (handed_before, _) = live.moved()?;
    let before = live.exchanged()?;
    let returned = load.second();
    live.run(options.nodes)?;
    live.until_all_are_up()?;
    live.until("hints to be delivered", |live| Ok(live.hinted_records()? == 0))?;
    live.settle()?;
    let healed = load.second().max(returned + 1);
    load.run_for(*quiet_s);
    let (handed_after, _) = live.moved()?;
    let after = live.compare()?;
    let wrong = load.end()?;
    println!(
        "one of {} nodes away for {} s at {rate:.0} op/s; 99th percentiles are medians of seconds",
        options.nodes,
        returned - left
    );
    println!(
        "| records with hints | records handed over | seconds until all was | exchanges in sync | \
         records repaired by exchanges | get / put p99 ms: before | away | healing | after |"
    );
    println!("|{}", "---|".repeat(9));
    let p99s = |after_s: u64, until_s: u64| {
        let span = LoadSpan { after_s, until_s };
        format!("{:.2} / {:.2}", load.p99_ms("get", span), load.p99_ms("put", span))
    };
    let repaired = after.keys_repaired - before.keys_repaired;
    println!(
        "| {missed_records} | {} | {} | {} | {repaired} | {} | {} | {} | {} |",
        handed_after - handed_before,
        healed - returned,
        after.in_sync - before.in_sync,
        p99s(left.saturating_sub(*quiet_s), left),
        p99s(left, returned),
        p99s(returned, healed),
        p99s(healed, healed + quiet_s),
    );
    ensure!(wrong.is_empty(), "requests noticed: {}", wrong.join("; "));
    ensure!(repaired == 0, "{repaired} records were left to anti-entropy");
    println!("no error, no stale read, nothing lost, nothing left to anti-entropy");
    Ok(())
}
