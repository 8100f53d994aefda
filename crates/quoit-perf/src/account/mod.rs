//! A breakdown of the cost of a request: instructions and cache misses of each part of the program, system
//! calls, and context switches.
//!
//! Callgrind counts instructions and misses, for one connection with one request in flight: this is the
//! cost of an isolated request. The misses are those of simulated caches with the machine's sizes. System
//! calls (counted by `strace`) and switches (counted by the kernel) cover all threads of the node under
//! many connections, where one wakeup may bring several requests.

mod profile;

use crate::CommonOptions;
use crate::drive::{Load, drive};
use crate::instructions::CountedLoad;
use crate::protocol::Exchange;
use crate::servers::{self, Running};
use anyhow::{Context, Result, ensure};
use profile::{Part, PartCost, ThreadCosts, costs_of, total};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Number of connections while system calls and switches are counted.
const CONNECTIONS: usize = 50;
/// Factor by which these runs have more operations than those under callgrind, since they are faster.
const MORE_OPERATIONS: u64 = 10;
/// Time limit for `strace` to attach.
const TRACING_LIMIT: Duration = Duration::from_secs(10);

/// A request to break down.
struct AccountedRequest {
    name: &'static str,
    exchange: Exchange,
    /// True if each request names a new key.
    on_new_keys: bool,
}

impl AccountedRequest {
    fn load(&self, common: &CommonOptions) -> Load {
        Load {
            first_key: if self.on_new_keys { common.keys } else { 0 },
            sequential: self.on_new_keys,
            ..common.load(self.exchange.clone())
        }
    }
}

/// Prints the breakdown of a get and of puts, synced and unsynced, of existing and new keys.
pub(crate) fn account(common: &CommonOptions) -> Result<()> {
    let (quick, synced) = (common.put(Some(0)), common.put(None));
    let requests = [
        AccountedRequest { name: "get", exchange: Exchange::PbGet, on_new_keys: false },
        AccountedRequest {
            name: "put dw=0, a key that is there",
            exchange: quick.clone(),
            on_new_keys: false,
        },
        AccountedRequest { name: "put dw=0, a new key", exchange: quick, on_new_keys: true },
        AccountedRequest {
            name: "put, synced, a key that is there",
            exchange: synced.clone(),
            on_new_keys: false,
        },
        AccountedRequest { name: "put, synced, a new key", exchange: synced, on_new_keys: true },
    ];
    for request in &requests {
        print_parts(common, request).context(request.name)?;
    }
    println!(
        "System calls and switches of a request, {CONNECTIONS} connections, all threads of the node"
    );
    println!("| request | threads | switches | system calls | of these |\n|---|---|---|---|---|");
    for request in &requests {
        for threads in [1, 2] {
            print_calls(common, request, threads).context(request.name)?;
        }
    }
    Ok(())
}

/// Costs of the thread that serves requests, and of all other threads together.
struct Spent {
    serving: ThreadCosts,
    others: PartCost,
}

fn print_parts(common: &CommonOptions, request: &AccountedRequest) -> Result<()> {
    let operations = common.operations;
    let (once, twice) =
        (spent(common, request, operations)?, spent(common, request, 2 * operations)?);
    let each = |more: PartCost, fewer: PartCost| {
        let PartCost { instructions, first_misses, last_misses } = more - fewer;
        let by = operations as f64;
        [instructions / by, first_misses / by, last_misses / by]
    };
    let [whole, ..] = each(total(&twice.serving), total(&once.serving));
    println!("A {} ({} operations, {} keys)", request.name, operations, common.keys);
    println!(
        "| part | instructions | share | misses, first caches | last |\n|---|---|---|---|---|"
    );
    let print = |name: &str, [instructions, first, last]: [f64; 3]| {
        let share = instructions / whole * 100.0;
        println!("| {name} | {instructions:.0} | {share:.0} % | {first:.1} | {last:.2} |");
    };
    let of = |costs: &ThreadCosts, part: Part| costs.get(&part).copied().unwrap_or_default();
    for part in twice.serving.keys() {
        print(part.name(), each(of(&twice.serving, *part), of(&once.serving, *part)));
    }
    print("the thread that serves requests", each(total(&twice.serving), total(&once.serving)));
    print("all other threads", each(twice.others, once.others));
    println!();
    Ok(())
}

/// The costs of a node while it serves that many requests.
fn spent(common: &CommonOptions, request: &AccountedRequest, operations: u64) -> Result<Spent> {
    let target_of = |node: &Running, _: &Path| Ok(node.target());
    let (binary, set) = (&common.quoit, common.set.clone());
    let load = request.load(common);
    let counted = CountedLoad { binary, set, filled: None, load, target_of: &target_of };
    let mut threads: Vec<ThreadCosts> = counted
        .profiles(common, operations, &["--cache-sim=yes"])?
        .iter()
        .map(|text| costs_of(text))
        .collect();
    threads.sort_by(|a, b| total(a).instructions.total_cmp(&total(b).instructions));
    let serving = threads.pop().context("callgrind has written no file")?;
    let mut others = PartCost::default();
    threads.iter().for_each(|costs| others += total(costs));
    Ok(Spent { serving, others })
}

fn print_calls(common: &CommonOptions, request: &AccountedRequest, threads: u32) -> Result<()> {
    let dir = tempfile::tempdir_in(&common.dir)?;
    let mut set = common.set.clone();
    set.push(format!("worker_threads={threads}"));
    let (node, _) = servers::quoit(common.program_with(&set), &dir.path().join("data"))?;
    common.fill(&node, node.address, common.put(Some(0)))?;
    let operations = common.operations * MORE_OPERATIONS;
    let mut load = Load { connections: CONNECTIONS, operations, ..request.load(common) };
    let before = switches(node.pid())?;
    drive(&node.target(), &load)?;
    let switched = switches(node.pid())? - before;
    // The second run must use new keys too.
    load.first_key += if request.on_new_keys { operations } else { 0 };
    let calls =
        traced(node.pid(), &dir.path().join("calls"), || drive(&node.target(), &load).map(drop))?;
    node.stop()?;
    let each = |count: u64| count as f64 / operations as f64;
    let mut by_count: Vec<(&String, &u64)> = calls.iter().collect();
    by_count.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
    let most = by_count.iter().take(5).map(|(name, count)| format!("{name} {:.2}", each(**count)));
    println!(
        "| {} | {threads} | {:.2} | {:.2} | {} |",
        request.name,
        each(switched),
        each(calls.values().sum()),
        most.collect::<Vec<_>>().join(", "),
    );
    Ok(())
}

/// The number of context switches of all threads of a process so far.
fn switches(pid: u32) -> Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // Threads may end while they are counted.
        let Ok(status) = std::fs::read_to_string(thread?.path().join("status")) else { continue };
        let counts = status.lines().filter(|line| line.contains("ctxt_switches:"));
        sum += counts
            .filter_map(|line| line.split_whitespace().last()?.parse::<u64>().ok())
            .sum::<u64>();
    }
    Ok(sum)
}

/// Counts the system calls of a process during `work`.
fn traced(
    pid: u32,
    file: &Path,
    work: impl FnOnce() -> Result<()>,
) -> Result<BTreeMap<String, u64>> {
    let mut strace = Command::new("strace")
        .args(["-f", "-c", "-o"])
        .arg(file)
        .args(["-p", &pid.to_string()])
        .stderr(Stdio::null())
        .spawn()
        .context("is strace installed?")?;
    let begun = Instant::now();
    while !is_traced(pid)? {
        ensure!(begun.elapsed() < TRACING_LIMIT, "strace does not attach to process {pid}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let worked = work();
    let tracer = rustix::process::Pid::from_child(&strace);
    rustix::process::kill_process(tracer, rustix::process::Signal::INT)?;
    strace.wait()?;
    worked?;
    Ok(calls_of(&std::fs::read_to_string(file).context("reading the counts of strace")?))
}

/// True if every thread of a process is traced.
fn is_traced(pid: u32) -> Result<bool> {
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = std::fs::read_to_string(thread?.path().join("status")).unwrap_or_default();
        let tracer = status.lines().find_map(|line| line.strip_prefix("TracerPid:"));
        if tracer.is_some_and(|tracer| tracer.trim() == "0") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Parses the table that `strace -c` writes. Its columns are: share, seconds, microseconds per call, calls,
/// errors (if any), name. Returns the number of calls by name.
fn calls_of(table: &str) -> BTreeMap<String, u64> {
    let row = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (count, name) = (fields.get(3)?.parse().ok()?, (*fields.last()?).to_owned());
        (name != "total").then_some((name, count))
    };
    table.lines().filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader, Write};

    #[test]
    fn the_table_of_system_calls_is_read_with_and_without_errors() {
        let table = "% time     seconds  usecs/call     calls    errors syscall\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            42.36    0.079142        2638        30         7 futex\n\
            14.96    0.027945          16      1653           pwrite64\n\
            ------ ----------- ----------- --------- --------- ----------------\n\
            100.00    0.186820          99      1683         7 total\n";
        let calls = calls_of(table);
        assert_eq!(calls.len(), 2);
        assert_eq!((calls["futex"], calls["pwrite64"]), (30, 1653));
    }

    /// The process counted is one with a single thread that waits for each line: a thread that ends takes
    /// its counts with it, and other tests in this process end threads at any time.
    #[test]
    fn switches_of_a_process_are_counted() {
        let mut echo = Command::new("cat")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("cat is everywhere");
        let mut sent = echo.stdin.take().expect("a pipe");
        let mut answers = BufReader::new(echo.stdout.take().expect("a pipe")).lines();
        let mut exchange = || {
            sent.write_all(b"line\n").expect("cat reads");
            answers.next().expect("cat answers").expect("a line")
        };
        assert_eq!(exchange(), "line");
        let before = switches(echo.id()).expect("counts");
        // A process that finds the next line at once does not wait, which cannot happen each time.
        let switched = (0..1000).any(|_| {
            exchange();
            switches(echo.id()).expect("counts") > before
        });
        drop(sent);
        echo.wait().expect("cat ends with its input");
        assert!(switched, "1000 lines without a switch");
    }
}
