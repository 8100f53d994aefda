//! Data larger than memory: the behaviour of a node that can cache only a fraction of its data.
//!
//! For each engine there are two nodes with the same amount of memory: one whose data fit into memory, and
//! one with four times as much data. Both run the same load. Beside it runs a trickle of gets of a few
//! records, which stay cached; it shows how gets of cached records suffer from gets of uncached ones.
//! Finally the node with more data serves gets alone, and the device's reads are counted.

use super::load::{BenchLoad, LoadGenerators, Stage};
use super::memory_group::MemoryGroup;
use super::profile::{Profile, fill_limit, length};
use super::stage::{Figures, StageSummary, mean};
use super::tables::{FigureRow, curves, main_table, ms, none};
use super::trial::{Trial, Variant};
use super::usage::forget_cached;
use super::{EngineName, EngineOptions, interrupt};
use anyhow::Result;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Memory of a node, including its page cache.
const MEMORY_BYTES: u64 = 1 << 30;

/// Values have at least 2 KiB, and 5 KiB on average.
const VALUES: &str = "{exponential_bin, 2048, 3072}";
const VALUE_BYTES: f64 = 5120.0;

/// Number of keys: 4 GiB of values.
const KEY_COUNT: u64 = 838_860;

/// Factor by which the data set that fits into memory has fewer keys.
const CACHED_KEY_DIVISOR: u64 = 20;

/// Number of records of the trickle, and its gets per second.
const PROBE_KEY_COUNT: u64 = 100;
const PROBE_RATE: u32 = 200;

/// Results of one engine.
struct Outcome {
    label: String,
    fill: Figures,
    mixed: Figures,
    reads: Figures,
    /// 99th percentile of the trickle when all data are cached, and beside the load on the large data set.
    probe_cached_us: u64,
    probe_beside_us: u64,
}

/// Runs the profile on all engines.
pub(super) fn run(profile: Profile, options: &EngineOptions) -> Result<String> {
    let mut outcomes = Vec::new();
    let mut reports = Vec::new();
    for engine in options.engines(profile) {
        let variant = variant_of(engine);
        let held = LimitedNode::start(profile, options, &variant)?;
        reports.push(held.limit_report(&variant, "data that fit"));
        let small = cached_run(&held.trial, profile, options)?;
        held.stop()?;
        let held = LimitedNode::start(profile, options, &variant)?;
        reports.push(held.limit_report(&variant, "data beyond memory"));
        outcomes.push(large_run(&held.trial, profile, options, variant.label, small)?);
        held.stop()?;
    }
    Ok(format!("{}\n{}", limit_notes(&reports), tables(&outcomes)))
}

/// The way in which one node's memory was limited.
struct LimitReport {
    /// The engine, and which of its two nodes this is.
    node: String,
    method: MemoryLimitMethod,
}

/// Means by which a node's memory is limited.
#[derive(Clone, PartialEq, Eq, Debug)]
enum MemoryLimitMethod {
    Bounded,
    /// A control group that does not limit swap.
    BoundedWithSwap,
    /// Dropping of cached pages, because a control group is not possible for this reason.
    Dropping(String),
}

/// Notes above the table about nodes whose memory was not limited as intended.
fn limit_notes(reports: &[LimitReport]) -> String {
    let mib = MEMORY_BYTES >> 20;
    let mut text = String::new();
    if reports.iter().any(|report| report.method == MemoryLimitMethod::Bounded) {
        text.push_str(&format!(
            "Held to {mib} MiB by a control group of each node's own, without swap"
        ));
        let is_all = reports.iter().all(|report| report.method == MemoryLimitMethod::Bounded);
        text.push_str(if is_all { ".\n" } else { ", but for these:\n" });
    }
    for LimitReport { node, method } in reports {
        match method {
            MemoryLimitMethod::Bounded => {}
            MemoryLimitMethod::BoundedWithSwap => text.push_str(&format!(
                "- {node}: held to {mib} MiB by a control group, but swap is not bounded by it, so that the \
                 node may have had more.\n"
            )),
            MemoryLimitMethod::Dropping(reason) => text.push_str(&format!(
                "- {node}: not held by a control group ({reason}). Instead the pages of the data files were \
                 dropped from the page cache every second, which is harsher than {mib} MiB to what is read, \
                 and no bound for what the node takes for itself.\n"
            )),
        }
    }
    text
}

/// The engine with its defaults. Memory that the engine itself takes must leave room for the rest of the
/// node.
fn variant_of(engine: EngineName) -> Variant {
    let variant = Variant::of(engine);
    match engine {
        // The engine evicts records beyond this size.
        EngineName::Memory => variant.with("", &["memory_backend.max_memory_per_vnode=8MB"]),
        _ => variant,
    }
}

/// A node with limited memory.
struct LimitedNode<'o> {
    trial: Trial<'o>,
    method: MemoryLimitMethod,
    dropping: Option<Dropping>,
}

impl<'o> LimitedNode<'o> {
    fn start(profile: Profile, options: &'o EngineOptions, variant: &Variant) -> Result<Self> {
        let (group, method) = match MemoryGroup::of(MEMORY_BYTES) {
            Ok(group) if group.is_swap_bound() || !has_swap() => {
                (Some(group), MemoryLimitMethod::Bounded)
            }
            Ok(group) => (Some(group), MemoryLimitMethod::BoundedWithSwap),
            Err(error) => (None, MemoryLimitMethod::Dropping(format!("{error:#}"))),
        };
        let is_bounded = group.is_some();
        let trial = Trial::start(options, profile.name(), variant, group)?;
        let dropping = (!is_bounded).then(|| Dropping::start(trial.data()));
        Ok(Self { trial, method, dropping })
    }

    /// The way in which the node is limited. A deviation is also printed at once, because a run takes long.
    fn limit_report(&self, variant: &Variant, which: &str) -> LimitReport {
        let report = LimitReport {
            node: format!("`{}`, {which}", variant.label),
            method: self.method.clone(),
        };
        if self.method != MemoryLimitMethod::Bounded {
            print!("{}", limit_notes(std::slice::from_ref(&report)));
        }
        report
    }

    fn stop(self) -> Result<()> {
        drop(self.dropping);
        self.trial.stop()
    }
}

/// True if the machine has swap, or if this can't be found out.
fn has_swap() -> bool {
    // The file has a heading, and one line for each swap area.
    std::fs::read_to_string("/proc/swaps").map_or(true, |table| table.lines().count() > 1)
}

/// A thread that drops the cached pages of files once a second.
struct Dropping {
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Dropping {
    fn start(data: PathBuf) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&is_over);
        let thread = std::thread::spawn(move || {
            while !told.load(Ordering::Acquire) {
                forget_cached(&data);
                std::thread::park_timeout(Duration::from_secs(1));
            }
        });
        Self { is_over, thread: Some(thread) }
    }
}

impl Drop for Dropping {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread's state does not matter any more, even after a panic.
            let _ = thread.join();
        }
    }
}

fn generators(profile: Profile, count: u64) -> LoadGenerators {
    let keys = match profile {
        Profile::BeyondPareto => format!("{{pareto_int, {count}}}"),
        _ => format!("{{uniform_int, {count}}}"),
    };
    LoadGenerators { keys, values: VALUES.to_owned() }
}

fn stage(name: &'static str, load: BenchLoad, limit: Duration, count: u64) -> Stage {
    let live_bytes = Some(count as f64 * VALUE_BYTES);
    Stage { name, load, limit, value_bytes: VALUE_BYTES, live_bytes }
}

fn fill(options: &EngineOptions, count: u64) -> Stage {
    stage("load", BenchLoad::prepare(count, VALUES.to_owned()), fill_limit(options), count)
}

fn mixed(profile: Profile, options: &EngineOptions, count: u64) -> Stage {
    let load = BenchLoad::new(generators(profile, count), "{get, 1}, {put, 1}");
    stage("get 1, put 1", load, length(options), count)
}

/// Stores the records of the trickle.
fn fill_probe(options: &EngineOptions) -> Stage {
    let mut load = BenchLoad::prepare(PROBE_KEY_COUNT, "{fixed_bin, 5120}".to_owned());
    load.bucket = "probe";
    stage("load probe", load, fill_limit(options), PROBE_KEY_COUNT)
}

fn probe(options: &EngineOptions) -> Stage {
    let generators = LoadGenerators {
        keys: format!("{{uniform_int, {PROBE_KEY_COUNT}}}"),
        values: "{fixed_bin, 5120}".to_owned(),
    };
    let mut load = BenchLoad::new(generators, "{get, 1}");
    (load.bucket, load.rate, load.workers) = ("probe", Some(PROBE_RATE), 4);
    stage("probe", load, length(options), PROBE_KEY_COUNT)
}

/// Runs the mixed load with the trickle beside it. Returns the figures and the trickle's 99th percentile.
fn mixed_beside_probe(
    trial: &Trial<'_>,
    profile: Profile,
    options: &EngineOptions,
    count: u64,
) -> Result<(Figures, u64)> {
    interrupt::check()?;
    let mut probing = None;
    let figures = trial.run_beside(&mixed(profile, options, count), || {
        probing = Some(trial.bench(&probe(options))?);
        Ok(())
    })?;
    let probed = match &mut probing {
        Some(probing) => StageSummary::read(&probing.wait()?)?,
        None => unreachable!("the trickle was started beside the run"),
    };
    Ok((figures, probed.latencies("get").map_or(0, |latencies| latencies.p99_us)))
}

/// Returns the 99th percentile of the trickle when all data are cached.
fn cached_run(trial: &Trial<'_>, profile: Profile, options: &EngineOptions) -> Result<u64> {
    let count = (options.scaled(KEY_COUNT) / CACHED_KEY_DIVISOR).max(PROBE_KEY_COUNT);
    trial.run(&fill_probe(options))?;
    trial.run(&fill(options, count))?;
    Ok(mixed_beside_probe(trial, profile, options, count)?.1)
}

fn large_run(
    trial: &Trial<'_>,
    profile: Profile,
    options: &EngineOptions,
    label: String,
    probe_cached_us: u64,
) -> Result<Outcome> {
    let count = options.scaled(KEY_COUNT);
    trial.run(&fill_probe(options))?;
    let fill = trial.run(&fill(options, count))?;
    let (mixed, probe_beside_us) = mixed_beside_probe(trial, profile, options, count)?;
    let gets = BenchLoad::new(generators(profile, count), "{get, 1}");
    let reads = trial.run(&stage("get", gets, length(options), count))?;
    Ok(Outcome { label, fill, mixed, reads, probe_cached_us, probe_beside_us })
}

fn tables(outcomes: &[Outcome]) -> String {
    let row = |outcome: &Outcome, stage: &str, figures: &Figures| FigureRow {
        engine: outcome.label.clone(),
        stage: stage.to_owned(),
        figures: figures.clone(),
    };
    let rows: Vec<FigureRow> = outcomes
        .iter()
        .flat_map(|outcome| {
            [
                row(outcome, "load", &outcome.fill),
                row(outcome, "get 1, put 1", &outcome.mixed),
                row(outcome, "get", &outcome.reads),
            ]
        })
        .collect();
    let mut text = String::from(
        "| engine | first tenth, op/s | last three tenths, op/s | least and most of those \
         | device reads a get \
         | p99 of cached gets, ms: all cached / beside | ratio |\n|---|---|---|---|---|---|---|\n",
    );
    for outcome in outcomes {
        text.push_str(&format!("| {} |\n", steadiness(outcome).join(" | ")));
    }
    format!("{}\n{}\n{text}", main_table(&rows), curves(&rows))
}

fn steadiness(outcome: &Outcome) -> [String; 7] {
    let tenths = outcome.mixed.tenths();
    let last = &tenths[tenths.len().saturating_sub(3)..];
    let least = last.iter().copied().fold(f64::INFINITY, f64::min);
    let most = last.iter().copied().fold(0.0, f64::max);
    let reads = outcome.reads.device_reads_per_operation();
    [
        outcome.label.clone(),
        format!("{:.0}", tenths.first().copied().unwrap_or_default()),
        format!("{:.0}", mean(last)),
        format!("{least:.0} to {most:.0}"),
        reads.map_or_else(none, |reads| format!("{reads:.2}")),
        format!("{} / {}", ms(outcome.probe_cached_us), ms(outcome.probe_beside_us)),
        format!("{:.2}", outcome.probe_beside_us as f64 / outcome.probe_cached_us.max(1) as f64),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(node: &str, method: MemoryLimitMethod) -> LimitReport {
        LimitReport { node: node.to_owned(), method }
    }

    #[test]
    fn a_table_says_which_of_its_nodes_were_not_bounded_and_why() {
        let reports = [
            report("`leveled`, data that fit", MemoryLimitMethod::Bounded),
            report(
                "`leveled`, data beyond memory",
                MemoryLimitMethod::Dropping("no right".to_owned()),
            ),
            report("`memory`, data that fit", MemoryLimitMethod::BoundedWithSwap),
        ];
        let text = limit_notes(&reports);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 3, "{text}");
        assert!(lines[0].contains("without swap, but for these"), "{text}");
        assert!(
            lines[1].starts_with(
                "- `leveled`, data beyond memory: not held by a control group (no right)"
            ),
            "{text}"
        );
        assert!(
            lines[2].starts_with("- `memory`, data that fit") && lines[2].contains("swap"),
            "{text}"
        );
    }

    #[test]
    fn a_table_says_that_all_its_nodes_were_bounded_only_if_they_were() {
        let bounded = || report("`bitcask`, data that fit", MemoryLimitMethod::Bounded);
        assert!(limit_notes(&[bounded(), bounded()]).ends_with("without swap.\n"));
        let unbounded = [report(
            "`bitcask`, data that fit",
            MemoryLimitMethod::Dropping("no right".to_owned()),
        )];
        assert!(!limit_notes(&unbounded).contains("without swap"));
    }
}
