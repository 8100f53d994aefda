//! A cluster that changes while a verified load runs on it, with the load's latencies in each second.

use crate::admin::{admin, is_settled};
use crate::drive::Target;
use crate::link::Transport;
use crate::report::median;
use crate::servers::{self, NodeProgram, Running};
use crate::summary::RunSummary;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time limit for a change of the cluster.
const CHANGE_LIMIT: Duration = Duration::from_secs(600);
/// Time limit for the load generator's final check of everything that it wrote.
const END_LIMIT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Interval between two status requests. Each one starts a process, so shorter intervals would be a load
/// themselves.
const ASK_INTERVAL: Duration = Duration::from_millis(500);

/// Options of these benchmarks.
#[derive(Args, Clone, Debug)]
pub(crate) struct LiveOptions {
    /// The quoit binary, a release build [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::beside("quoit"), hide_default_value = true)]
    quoit: PathBuf,
    /// Directory for data; a temporary folder is made in it [default: where this program is].
    #[arg(long, default_value_os_t = crate::beside("."), hide_default_value = true)]
    pub(crate) dir: PathBuf,
    /// Operations per second [default: half of the cluster's maximum].
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Length of the measurement of the maximum rate, in seconds.
    #[arg(long, default_value_t = 10)]
    max_s: u64,
    /// Length of the load before and after a change, in seconds.
    #[arg(long, default_value_t = 10)]
    pub(crate) quiet_s: u64,
    /// Number of keys.
    #[arg(long, default_value_t = 20_000)]
    keys: u64,
    /// Size of a value, in bytes.
    #[arg(long, default_value_t = 1000)]
    pub(crate) value_bytes: usize,
    /// Number of workers of the load generator.
    #[arg(long, default_value_t = 32)]
    workers: usize,
    /// Let clients send requests to any node, not to a replica of the key.
    #[arg(long)]
    any_node: bool,
    /// Settings of the nodes. By default no write waits for the disk.
    #[arg(long = "set", value_name = "KEY=VALUE", default_value = "buckets.default.dw=0")]
    set: Vec<String>,
}

/// Totals of anti-entropy since the start of each node.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct AntiEntropyTotals {
    /// Exchanges that found no difference.
    pub(crate) in_sync: u64,
    /// Records that were repaired.
    pub(crate) keys_repaired: u64,
}

/// A cluster of nodes on this machine.
pub(crate) struct LiveCluster<'o> {
    options: &'o LiveOptions,
    dir: &'o Path,
    /// The running nodes; node number n is at index n - 1.
    nodes: Vec<Option<Running>>,
}

impl<'o> LiveCluster<'o> {
    /// Starts a cluster of that many nodes, with data below `dir`.
    pub(crate) fn start(options: &'o LiveOptions, dir: &'o Path, count: usize) -> Result<Self> {
        let mut live = Self { options, dir, nodes: Vec::new() };
        live.add_until(count)?;
        if count > 1 {
            live.commit()?;
        }
        live.settle()?;
        Ok(live)
    }

    /// Starts nodes up to that number and has them join. They hold no partitions before
    /// [`commit`](Self::commit).
    pub(crate) fn add_until(&mut self, count: usize) -> Result<()> {
        while self.nodes.len() < count {
            self.nodes.push(None);
            let number = self.nodes.len();
            self.run(number)?;
            if number > 1 {
                let members = self.admin(1, &["cluster", "status"])?;
                let address = &members["members"][0]["addresses"]["node"];
                let address = address.as_str().context("the address of a member")?;
                self.admin(number, &["cluster", "join", address])?;
            }
        }
        self.until_all_are_up()
    }

    /// Commits a layout that gives partitions to all joined nodes, and returns the plan. Transfers begin.
    pub(crate) fn commit(&self) -> Result<Value> {
        let plan = self.admin(1, &["cluster", "plan"])?;
        self.admin(1, &["cluster", "commit"])?;
        Ok(plan)
    }

    /// Starts a node with the data that it had before.
    pub(crate) fn run(&mut self, number: usize) -> Result<()> {
        let mut set = self.options.set.clone();
        set.extend([format!("nodename=live{number}@127.0.0.1"), "log.level=error".to_owned()]);
        let data = self.dir.join(format!("live{number}"));
        let program = NodeProgram { binary: &self.options.quoit, set: &set };
        let (node, _) = servers::quoit(program, &data)?;
        self.nodes[number - 1] = Some(node);
        Ok(())
    }

    /// Kills a node.
    pub(crate) fn kill(&mut self, number: usize) -> Result<()> {
        self.take(number)?.kill()
    }

    /// Stops a node cleanly.
    pub(crate) fn stop(&mut self, number: usize) -> Result<()> {
        self.take(number)?.stop()
    }

    fn take(&mut self, number: usize) -> Result<Running> {
        self.nodes[number - 1].take().context("the node runs")
    }

    /// Waits until the first node can reach all members.
    pub(crate) fn until_all_are_up(&self) -> Result<()> {
        self.until("all members to be reached", |live| {
            let status = live.admin(1, &["cluster", "status"])?;
            let members = status["members"].as_array().cloned().unwrap_or_default();
            Ok(members.iter().all(|member| member["availability"] == "up"))
        })
    }

    /// Number of records that nodes have missed and that are not yet delivered: hints, not fallback copies.
    pub(crate) fn hinted_records(&self) -> Result<u64> {
        let transfers = self.admin(1, &["transfers"])?;
        let hints = transfers["hints"].as_array().into_iter().flatten();
        Ok(hints.filter_map(|each| each["records"].as_u64()).sum())
    }

    /// Has all running nodes compare all copies, and waits until they have done so. Returns the totals of
    /// anti-entropy.
    pub(crate) fn compare(&self) -> Result<AntiEntropyTotals> {
        for number in self.running() {
            self.admin(number, &["aae-exchange"])?;
        }
        let asked = Instant::now();
        self.until("all copies to be compared", |live| {
            let since_secs = asked.elapsed().as_secs_f64();
            live.running().iter().try_fold(true, |done, number| {
                let status = live.admin(*number, &["aae-status"])?;
                let partitions = status["partitions"].as_array().cloned().unwrap_or_default();
                let is_new = |each: &Value| {
                    each["all_ago_secs"].as_f64().is_some_and(|ago_secs| ago_secs < since_secs)
                };
                Ok(done && partitions.iter().all(is_new))
            })
        })?;
        self.exchanged()
    }

    /// The totals of anti-entropy over all running nodes.
    pub(crate) fn exchanged(&self) -> Result<AntiEntropyTotals> {
        let mut exchanged = AntiEntropyTotals::default();
        for number in self.running() {
            let status = self.admin(number, &["aae-status"])?;
            let total = |name: &str| status[name].as_u64().with_context(|| name.to_owned());
            exchanged.in_sync += total("in_sync_total")?;
            exchanged.keys_repaired += total("keys_repaired_total")?;
        }
        Ok(exchanged)
    }

    fn running(&self) -> Vec<usize> {
        let numbers = self.nodes.iter().enumerate();
        numbers.filter(|(_, node)| node.is_some()).map(|(place, _)| place + 1).collect()
    }

    /// Waits until all nodes agree on the layout and no transfer is left.
    pub(crate) fn settle(&self) -> Result<()> {
        self.until("the cluster to settle", |live| {
            is_settled(&live.options.quoit, live.http_address(1)?)
        })
    }

    /// Number of copies that lost records and are not complete again.
    pub(crate) fn lost_copies(&self) -> Result<u64> {
        let status = self.admin(1, &["status"])?;
        let copies = status["losses"]["incomplete_copies"].as_array().into_iter().flatten();
        Ok(copies.filter_map(|each| each["partition_count"].as_u64()).sum())
    }

    /// All running nodes, as a target of the driver.
    pub(crate) fn target(&self) -> Target {
        let nodes = || self.nodes.iter().flatten();
        Target {
            addresses: nodes().map(|node| node.address).collect(),
            pids: nodes().map(Running::pid).collect(),
            transport: Transport::Plain,
        }
    }

    /// Number of partitions of the cluster.
    pub(crate) fn ring_size(&self) -> Result<u64> {
        let cluster = self.admin(1, &["cluster", "status"])?;
        cluster["ring_size"].as_u64().context("the number of partitions")
    }

    /// Records and bytes that all nodes have transferred since their start.
    pub(crate) fn moved(&self) -> Result<(u64, u64)> {
        let transfers = self.admin(1, &["transfers"])?;
        let total = |name: &str| transfers[name].as_u64().with_context(|| name.to_owned());
        Ok((total("records_total")?, total("bytes_total")?))
    }

    /// Runs an administration command, and returns its output as JSON.
    fn admin(&self, number: usize, arguments: &[&str]) -> Result<Value> {
        admin(&self.options.quoit, self.http_address(number)?, arguments)
    }

    fn http_address(&self, number: usize) -> Result<SocketAddr> {
        let node = self.nodes[number - 1].as_ref().context("the node runs")?;
        node.http.context("the node's HTTP address")
    }

    /// Waits until a condition holds.
    pub(crate) fn until(
        &self,
        what: &str,
        mut done: impl FnMut(&Self) -> Result<bool>,
    ) -> Result<()> {
        let began = Instant::now();
        while !done(self)? {
            ensure!(began.elapsed() < CHANGE_LIMIT, "waited {CHANGE_LIMIT:?} for {what}");
            sleep(ASK_INTERVAL);
        }
        Ok(())
    }

    /// Operations per second for the load: the given rate, or half of the cluster's maximum.
    pub(crate) fn rate(&self) -> Result<f64> {
        if let Some(rate) = self.options.rate {
            return Ok(rate);
        }
        let mut load = self.load(None)?;
        sleep(Duration::from_secs(self.options.max_s));
        load.end()?;
        Ok(RunSummary::read(&load.results)?.successful_per_s / 2.0)
    }

    /// Starts the load in an open loop.
    pub(crate) fn load_at(&self, rate: f64) -> Result<LiveLoad> {
        self.load(Some(rate))
    }

    /// Starts the load in an open loop of this many operations per second, or as fast as possible.
    fn load(&self, rate: Option<f64>) -> Result<LiveLoad> {
        let (name, mode) = match rate {
            Some(rate) => ("load", format!("{{open_rate, {}}}", rate.round().max(1.0))),
            None => ("max", "max".to_owned()),
        };
        let LiveOptions { workers, keys, value_bytes, any_node, .. } = self.options;
        let config = self.dir.join(format!("{name}.config"));
        let text = format!(
            "{{mode, {mode}}}.\n{{duration, 600}}.\n{{report_interval, 1}}.\n{{concurrent, {workers}}}.\n\
             {{driver, basho_bench_driver_riakc_pb}}.\n{{verify, true}}.\n\
             {{key_generator, {{int_to_bin_bigendian, {{uniform_int, {keys}}}}}}}.\n\
             {{value_generator, {{fixed_bin, {value_bytes}}}}}.\n{{riakc_pb_ips, [{{127,0,0,1}}]}}.\n\
             {{riakc_pb_replies, 2}}.\n{{riakc_pb_dw, 0}}.\n{{riakc_pb_replica_aware, {}}}.\n\
             {{operations, [{{get, 4}}, {{put, 4}}, {{delete, 1}}]}}.\n",
            !any_node
        );
        std::fs::write(&config, text)?;
        let mut command = Command::new(&self.options.quoit);
        command.arg("bench").arg(&config);
        command.args(["--bench-name", name, "--results-dir"]).arg(self.dir);
        for node in self.nodes.iter().flatten() {
            command.args(["--target", &node.address.to_string()]);
        }
        let child = command.stdout(Stdio::null()).spawn().context("starting the load generator")?;
        let load = LiveLoad { child, results: self.dir.join(name) };
        self.until("the load to begin", |_| Ok(load.second() >= 2))?;
        Ok(load)
    }
}

/// A running load. Dropping it kills it.
pub(crate) struct LiveLoad {
    child: Child,
    results: PathBuf,
}

/// Consecutive seconds of a load.
#[derive(Clone, Copy)]
pub(crate) struct LoadSpan {
    /// The second before the first one.
    pub(crate) after_s: u64,
    /// The last second.
    pub(crate) until_s: u64,
}

/// One second of one operation.
#[derive(Clone, Copy, Debug)]
struct Second {
    second: u64,
    p99_us: f64,
}

impl LiveLoad {
    /// The last complete second of the load.
    pub(crate) fn second(&self) -> u64 {
        self.seconds("get").last().map_or(0, |last| last.second)
    }

    /// Waits while the load runs for that many seconds.
    pub(crate) fn run_for(&self, secs: u64) {
        let end = self.second() + secs;
        while self.second() < end {
            sleep(POLL_INTERVAL);
        }
    }

    /// Ends the load, which then checks that everything written is there. Returns the errors and faults.
    pub(crate) fn end(&mut self) -> Result<Vec<String>> {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::INT)?;
        let began = Instant::now();
        while self.child.try_wait()?.is_none() {
            ensure!(began.elapsed() < END_LIMIT, "the load generator did not end");
            sleep(POLL_INTERVAL);
        }
        let path = self.results.join("summary.json");
        let text = std::fs::read(&path).with_context(|| format!("reading {}", path.display()))?;
        let summary: Value = serde_json::from_slice(&text)?;
        let mut wrong = Vec::new();
        for error in summary["errors"].as_array().into_iter().flatten() {
            wrong.push(format!("{} {}: {}", error["operation"], error["reason"], error["count"]));
        }
        match summary["verification"].as_object() {
            None => bail!("the load was not verified"),
            Some(report) => wrong.extend(faults(report)),
        }
        Ok(wrong)
    }

    fn seconds(&self, operation: &str) -> Vec<Second> {
        let path = self.results.join(format!("{operation}_latencies.csv"));
        let text = std::fs::read_to_string(path).unwrap_or_default();
        let rows = text.lines().skip(1).filter_map(|row| {
            let cells: Vec<f64> =
                row.split(',').filter_map(|cell| cell.trim().parse().ok()).collect();
            let (elapsed, p99_us) = (cells.first()?, cells.get(7)?);
            Some(Second { second: quoit_number::rounded(*elapsed), p99_us: *p99_us })
        });
        rows.collect()
    }

    /// The median of the 99th percentiles of these seconds, in milliseconds.
    pub(crate) fn p99_ms(&self, operation: &str, span: LoadSpan) -> f64 {
        let seconds = self.seconds(operation).into_iter();
        let within =
            seconds.filter(|each| each.second > span.after_s && each.second <= span.until_s);
        median(within.map(|each| each.p99_us / 1e3).collect())
    }
}

impl Drop for LiveLoad {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The faults that the verification found.
fn faults(report: &serde_json::Map<String, Value>) -> impl Iterator<Item = String> + '_ {
    let kinds = report.get("faults").and_then(Value::as_object).into_iter().flatten();
    let unread = report.get("keys_unread").and_then(Value::as_u64).filter(|count| *count > 0);
    let kinds = kinds.map(|(kind, count)| format!("{kind}: {count}"));
    kinds.chain(unread.map(|count| format!("keys not read back: {count}")))
}
