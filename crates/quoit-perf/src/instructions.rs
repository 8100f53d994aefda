//! Instructions of a node per request, counted by callgrind, compared with another build.
//!
//! Counts of user-space instructions are reproducible; times on a shared machine are not. A load and one of
//! twice its size run on fresh nodes with the same keys. The difference of their counts, divided by the
//! difference of their operations, is the cost of a request without connection setup. One connection has
//! one request in flight, so that each request is a wakeup of its own. Only the thread that serves requests
//! counts: the work of the others depends on the length of the run.

use crate::CommonOptions;
use crate::drive::{Load, Target, drive};
use crate::protocol::Exchange;
use crate::servers::{self, NodeProgram, Running};
use anyhow::{Context, Result};
use clap::Args;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Prefix of the names of callgrind's files.
const COUNTS: &str = "counts";
/// Part of a function's name that occurs only in threads that serve requests.
const SERVING: &str = "PbConnection";

/// The arguments of the comparison.
#[derive(Args, Clone, Debug)]
pub(crate) struct InstructionOptions {
    #[command(flatten)]
    common: CommonOptions,
    /// The quoit binary of another build, to compare with.
    #[arg(long)]
    against: Option<PathBuf>,
}

impl InstructionOptions {
    pub(crate) const fn common(&self) -> &CommonOptions {
        &self.common
    }
}

/// A request to measure.
struct Request {
    name: &'static str,
    exchange: Exchange,
    /// True if each request names a new key.
    on_new_keys: bool,
}

/// Counts the instructions of gets and puts.
pub(crate) fn instructions(options: &InstructionOptions) -> Result<()> {
    let common = &options.common;
    let put = common.put(Some(0));
    let requests = [
        Request { name: "PB get", exchange: Exchange::PbGet, on_new_keys: false },
        Request { name: "HTTP get", exchange: Exchange::HttpGet, on_new_keys: false },
        Request { name: "PB put dw=0, existing keys", exchange: put.clone(), on_new_keys: false },
        Request { name: "PB put dw=0, new keys", exchange: put, on_new_keys: true },
    ];
    println!("instructions a request, {} requests on {} keys", common.operations, common.keys);
    println!("| request | this build | the other | ratio |\n|---|---|---|---|");
    for request in &requests {
        let mine = count(common, &common.quoit, request)?;
        match &options.against {
            Some(other) => {
                let theirs = count(common, other, request)?;
                println!("| {} | {mine:.0} | {theirs:.0} | {:.3} |", request.name, mine / theirs);
            }
            None => println!("| {} | {mine:.0} | | |", request.name),
        }
    }
    Ok(())
}

/// A load whose instructions are counted.
pub(crate) struct CountedLoad<'a> {
    pub(crate) binary: &'a Path,
    /// Settings of the node, in addition to those that counting needs.
    pub(crate) set: Vec<String>,
    /// The data directory of a stopped node. Each count starts from a copy of it. With `None` each count
    /// fills a node of its own, whose version vectors may differ in length, so that encrypting them costs
    /// more or less.
    pub(crate) filled: Option<&'a Path>,
    /// The load of one connection. The count chooses its number of operations.
    pub(crate) load: Load,
    /// Prepares a filled node, and returns how to reach it. The path is the node's data directory.
    pub(crate) target_of: &'a dyn Fn(&Running, &Path) -> Result<Target>,
}

impl CountedLoad<'_> {
    /// Returns the instructions of one request.
    pub(crate) fn count(&self, common: &CommonOptions) -> Result<f64> {
        let once = self.count_of(common, common.operations)?;
        let twice = self.count_of(common, 2 * common.operations)?;
        Ok((twice as f64 - once as f64) / common.operations as f64)
    }

    /// Returns the instructions of the thread that serves requests during that many requests. Counting is
    /// off while the node starts and is prepared.
    fn count_of(&self, common: &CommonOptions, operations: u64) -> Result<u64> {
        let dir = self.run(common, operations, &[])?;
        // The thread that serves the requests is the busiest one.
        busiest(dir.path(), "")
    }

    /// Runs a node with that many requests, and returns callgrind's files, one for each thread. `options`
    /// are further options of callgrind.
    pub(crate) fn profiles(
        &self,
        common: &CommonOptions,
        operations: u64,
        options: &[&str],
    ) -> Result<Vec<String>> {
        texts(self.run(common, operations, options)?.path())
    }

    /// Prepares a node, and counts while it serves requests. The directory contains callgrind's files.
    fn run(&self, common: &CommonOptions, operations: u64, options: &[&str]) -> Result<TempDir> {
        let dir = tempfile::tempdir_in(&common.dir)?;
        let (counts, data) = (dir.path().join(COUNTS), dir.path().join("data"));
        let set = of_one_thread(&self.set);
        if let Some(filled) = self.filled {
            DirectoryCopy { from: filled, to: &data }.make()?;
        }
        let mut callgrind = vec!["--instr-atstart=no"];
        callgrind.extend(options);
        let program = NodeProgram { binary: self.binary, set: &set };
        let node = servers::quoit_counted(program, &data, &callgrind, &counts)?;
        if self.filled.is_none() {
            common.fill(&node, node.address, common.put(Some(0)))?;
        }
        let target = (self.target_of)(&node, &data)?;
        node.switch_counting("on")?;
        drive(&target, &Load { connections: 1, operations, ..self.load.clone() })?;
        node.switch_counting("off")?;
        node.stop()?;
        Ok(dir)
    }
}

/// A copy of a directory with its subdirectories. Sockets are left out.
struct DirectoryCopy<'a> {
    from: &'a Path,
    to: &'a Path,
}

impl DirectoryCopy<'_> {
    fn make(&self) -> Result<()> {
        let Self { from, to } = self;
        std::fs::create_dir_all(to)?;
        let entries =
            std::fs::read_dir(from).with_context(|| format!("reading {}", from.display()))?;
        for entry in entries {
            let entry = entry?;
            let (kind, copied) = (entry.file_type()?, to.join(entry.file_name()));
            if kind.is_dir() {
                DirectoryCopy { from: &entry.path(), to: &copied }.make()?;
            } else if kind.is_file() {
                std::fs::copy(entry.path(), copied)?;
            }
        }
        Ok(())
    }
}

/// Settings of a node with one thread that serves requests.
fn of_one_thread(set: &[String]) -> Vec<String> {
    let more = ["worker_threads=1", "log.level=error"].map(str::to_owned);
    set.iter().cloned().chain(more).collect()
}

/// Instructions of the thread that serves requests, for a node that is filled, does `work` and stops.
pub(crate) fn count_work(
    common: &CommonOptions,
    binary: &Path,
    set: &[String],
    work: &dyn Fn(&Running, &Path) -> Result<()>,
) -> Result<u64> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let (counts, data) = (dir.path().join(COUNTS), dir.path().join("data"));
    let program = NodeProgram { binary, set: &of_one_thread(set) };
    let node = servers::quoit_counted(program, &data, &[], &counts)?;
    common.fill(&node, node.address, common.put(Some(0)))?;
    work(&node, &data)?;
    node.stop()?;
    busiest(dir.path(), SERVING)
}

/// The instructions of one request.
fn count(common: &CommonOptions, binary: &Path, request: &Request) -> Result<f64> {
    let load = Load {
        first_key: if request.on_new_keys { common.keys } else { 0 },
        sequential: request.on_new_keys,
        ..common.load(request.exchange.clone())
    };
    let target_of = |node: &Running, _: &Path| match request.exchange {
        Exchange::HttpGet => Ok(node.at(node.http.context("the address for HTTP")?)),
        _ => Ok(node.target()),
    };
    let set = common.set.clone();
    let counted = CountedLoad { binary, set, filled: None, load, target_of: &target_of };
    counted.count(common).context(request.name)
}

/// The total in a file of callgrind. If counting was switched on and off, one of its two forms is 0.
fn total(text: &str) -> Option<u64> {
    let sum = |line: &str| {
        let sum = line.strip_prefix("summary:").or_else(|| line.strip_prefix("totals:"))?;
        sum.trim().parse().ok()
    };
    text.lines().filter_map(sum).max()
}

/// The instructions of the busiest thread among those that ran this code.
fn busiest(dir: &Path, code: &str) -> Result<u64> {
    let texts = texts(dir)?;
    let counts = texts.iter().filter(|text| text.contains(code)).filter_map(|text| total(text));
    counts.max().context("a sum in callgrind's files")
}

/// Reads callgrind's files in a directory.
fn texts(dir: &Path) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for entry in std::fs::read_dir(dir).context("looking for callgrind's files")? {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(COUNTS) {
            texts.push(std::fs::read_to_string(entry.path()).context("reading callgrind's file")?);
        }
    }
    Ok(texts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_of_a_file_is_read_whether_counting_was_switched_or_not() {
        assert_eq!(total("events: Ir\nsummary: 12\ntotals: 12\n"), Some(12));
        assert_eq!(total("events: Ir\nsummary: 0\ntotals: 7\n"), Some(7));
        assert_eq!(total("events: Ir\n"), None);
    }
}
