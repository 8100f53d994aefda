//! A cluster that changes while a verified load runs on it, and what each second of the load was like.

use crate::drive::Target;
use crate::link::Transport;
use crate::report::median;
use crate::servers::{self, Running};
use crate::summary::RunSummary;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long the cluster may take for a change.
const CHANGE_LIMIT: Duration = Duration::from_secs(600);
/// How long the load generator may take for its last check of everything that it wrote.
const END_LIMIT: Duration = Duration::from_secs(300);
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// How often nodes are asked, each time by a process of its own: more often would be a load, too.
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
    /// Operations a second [default: half of what the cluster does at most].
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// Seconds in which the highest rate is found out.
    #[arg(long, default_value_t = 10)]
    max_s: u64,
    /// Seconds of load before a change and after it.
    #[arg(long, default_value_t = 10)]
    pub(crate) quiet_s: u64,
    /// Keys.
    #[arg(long, default_value_t = 20_000)]
    keys: u64,
    /// Bytes of a value.
    #[arg(long, default_value_t = 1000)]
    pub(crate) value_bytes: usize,
    /// Workers of the load generator.
    #[arg(long, default_value_t = 32)]
    workers: usize,
    /// Let clients ask any node, not one that holds the key.
    #[arg(long)]
    any_node: bool,
    /// Settings of the nodes. Without others, nothing waits for the disk.
    #[arg(long = "set", value_name = "KEY=VALUE", default_value = "buckets.default.dw=0")]
    set: Vec<String>,
}

/// Totals of comparing copies since the start of each node.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Exchanged {
    /// Exchanges that found no difference.
    pub(crate) in_sync: u64,
    /// Records that were repaired.
    pub(crate) keys_repaired: u64,
}

/// Nodes on this machine.
pub(crate) struct Live<'o> {
    options: &'o LiveOptions,
    dir: &'o Path,
    /// Those that run, by number.
    nodes: Vec<Option<Running>>,
}

impl<'o> Live<'o> {
    /// A cluster of so many nodes, with data below `dir`.
    pub(crate) fn start(options: &'o LiveOptions, dir: &'o Path, count: usize) -> Result<Self> {
        let mut live = Self { options, dir, nodes: Vec::new() };
        live.add_until(count)?;
        if count > 1 {
            live.commit()?;
        }
        live.settle()?;
        Ok(live)
    }

    /// Starts nodes until there are so many, and has them join: members that hold nothing yet.
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

    /// Commits that all nodes that joined get partitions; gives the plan. With it data begins to move.
    pub(crate) fn commit(&self) -> Result<Value> {
        let plan = self.admin(1, &["cluster", "plan"])?;
        self.admin(1, &["cluster", "commit"])?;
        Ok(plan)
    }

    /// Starts a node, on what it had before.
    pub(crate) fn run(&mut self, number: usize) -> Result<()> {
        let mut set = self.options.set.clone();
        set.extend([format!("nodename=live{number}@127.0.0.1"), "log.level=error".to_owned()]);
        let data = self.dir.join(format!("live{number}"));
        let (node, _) = servers::quoit(&self.options.quoit, &data, &set)?;
        self.nodes[number - 1] = Some(node);
        Ok(())
    }

    /// Kills a node.
    pub(crate) fn kill(&mut self, number: usize) -> Result<()> {
        self.take(number)?.kill()
    }

    /// Stops a node in good order.
    pub(crate) fn stop(&mut self, number: usize) -> Result<()> {
        self.take(number)?.stop()
    }

    fn take(&mut self, number: usize) -> Result<Running> {
        self.nodes[number - 1].take().context("the node runs")
    }

    /// Waits until the first node reaches all members.
    pub(crate) fn until_all_are_up(&self) -> Result<()> {
        self.until("all members to be reached", |live| {
            let status = live.admin(1, &["cluster", "status"])?;
            let members = status["members"].as_array().cloned().unwrap_or_default();
            Ok(members.iter().all(|member| member["availability"] == "up"))
        })
    }

    /// Records that nodes have missed and that were not yet delivered: hints, not fallbacks' copies.
    pub(crate) fn hinted_records(&self) -> Result<u64> {
        let transfers = self.admin(1, &["transfers"])?;
        let hints = transfers["hints"].as_array().into_iter().flatten();
        Ok(hints.filter_map(|each| each["records"].as_u64()).sum())
    }

    /// Has all nodes that run compare all copies, and waits until they have. Gives how many exchanges were in
    /// sync at once since the start of each node, and how many records were repaired by any.
    pub(crate) fn compare(&self) -> Result<Exchanged> {
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

    /// The totals of comparing copies on all running nodes.
    pub(crate) fn exchanged(&self) -> Result<Exchanged> {
        let mut exchanged = Exchanged::default();
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

    /// Waits until all agree and nothing is left to be handed over.
    pub(crate) fn settle(&self) -> Result<()> {
        self.until("the cluster to settle", |live| {
            let transfers = live.admin(1, &["transfers"])?;
            let is_quiet = |name: &str| transfers[name].as_array().is_some_and(Vec::is_empty);
            let ring = live.admin(1, &["ring-status"])?;
            let is_ready = ring["ring_ready"] == true && ring["pending"] == Value::Array(vec![]);
            Ok(is_ready && is_quiet("waiting") && is_quiet("active"))
        })
    }

    /// Copies that lost records and are not whole again.
    pub(crate) fn lost_copies(&self) -> Result<u64> {
        let status = self.admin(1, &["status"])?;
        let copies = status["losses"]["incomplete_copies"].as_array().into_iter().flatten();
        Ok(copies.filter_map(|each| each["partition_count"].as_u64()).sum())
    }

    /// All nodes that run, to be driven.
    pub(crate) fn target(&self) -> Target {
        let nodes = || self.nodes.iter().flatten();
        Target {
            addresses: nodes().map(|node| node.address).collect(),
            pids: nodes().map(Running::pid).collect(),
            transport: Transport::Plain,
        }
    }

    /// Records and bytes that all nodes have handed over since their start.
    pub(crate) fn moved(&self) -> Result<(u64, u64)> {
        let transfers = self.admin(1, &["transfers"])?;
        let total = |name: &str| transfers[name].as_u64().with_context(|| name.to_owned());
        Ok((total("records_total")?, total("bytes_total")?))
    }

    /// The output of an administration command, as JSON.
    fn admin(&self, number: usize, arguments: &[&str]) -> Result<Value> {
        let node = self.nodes[number - 1].as_ref().context("the node runs")?;
        let url = format!("http://{}", node.http.context("the node's HTTP address")?);
        let mut command = Command::new(&self.options.quoit);
        command.args(["admin", "--url", &url, "--format", "json"]).args(arguments);
        let done = command.output().context("starting quoit admin")?;
        // `ring-status` and others tell by their status, too.
        serde_json::from_slice(&done.stdout).with_context(|| {
            format!("quoit admin {arguments:?}: {}", String::from_utf8_lossy(&done.stderr))
        })
    }

    /// Waits for something that must come true.
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

    /// Operations a second for the load: as given, or half of what the cluster does.
    pub(crate) fn rate(&self) -> Result<f64> {
        if let Some(rate) = self.options.rate {
            return Ok(rate);
        }
        let mut load = self.load("max", "max")?;
        sleep(Duration::from_secs(self.options.max_s));
        load.end()?;
        Ok(RunSummary::read(&load.results)?.successful_per_s / 2.0)
    }

    /// Starts the load at a rate, its arrivals independent of the answers.
    pub(crate) fn load_at(&self, rate: f64) -> Result<LiveLoad> {
        self.load("load", &format!("{{open_rate, {}}}", rate.round().max(1.0)))
    }

    fn load(&self, name: &str, mode: &str) -> Result<LiveLoad> {
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

/// A load that runs. It is killed when it is dropped before its end.
pub(crate) struct LiveLoad {
    child: Child,
    results: PathBuf,
}

/// One second of one operation.
#[derive(Clone, Copy, Debug)]
struct Second {
    second: u64,
    p99_us: f64,
}

impl LiveLoad {
    /// The last whole second of the load that is over.
    pub(crate) fn second(&self) -> u64 {
        self.seconds("get").last().map_or(0, |last| last.second)
    }

    /// Lets the load run for so long.
    pub(crate) fn run_for(&self, secs: u64) {
        let end = self.second() + secs;
        while self.second() < end {
            sleep(POLL_INTERVAL);
        }
    }

    /// Ends the load, and checks that everything that was written is there. Gives what went wrong.
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
            Some(Second { second: elapsed.round() as u64, p99_us: *p99_us })
        });
        rows.collect()
    }

    /// The median of the 99th percentiles of the seconds after `from` up to `to`, in milliseconds.
    pub(crate) fn p99_ms(&self, operation: &str, from: u64, to: u64) -> f64 {
        let seconds = self.seconds(operation).into_iter();
        let within = seconds.filter(|each| each.second > from && each.second <= to);
        median(within.map(|each| each.p99_us / 1e3).collect())
    }
}

impl Drop for LiveLoad {
    fn drop(&mut self) {
        // Ended already is as good.
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
