//! Replication between two clusters of one node each: bootstrap, full-sync, cost of a link, and delay until
//! a write is readable at the sink.

use crate::CommonOptions;
use crate::drive::{Load, Measured, ask, cpu_of, drive, percentile};
use crate::protocol::Exchange;
use crate::report::{median, spread};
use crate::servers::{self, Running};
use anyhow::{Context, Result, ensure};
use clap::Args;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// Number of connections of the load.
const CONNECTIONS: usize = 50;
/// Share of the maximum rate at which the delay is measured.
const LOAD_SHARE: f64 = 0.3;
/// Most full-sync runs until both sides are in sync.
const CHECK_COUNT_MAX: usize = 20;
const READABLE_LIMIT: Duration = Duration::from_secs(60);

/// Options of the measurement.
#[derive(Args, Clone, Debug)]
pub(crate) struct ReplicationOptions {
    #[command(flatten)]
    pub(crate) common: CommonOptions,
    /// Number of records that differ when full-sync is measured.
    #[arg(long, default_value_t = 1_000)]
    differing: u64,
    /// Number of writes whose delay is measured.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(1..))]
    readable: u64,
}

/// Source and sink.
struct ReplicatingNodes<'o> {
    options: &'o ReplicationOptions,
    source: Running,
    sink: Running,
}

/// Measures replication between two nodes, and prints the figures.
pub(crate) fn replication(options: &ReplicationOptions) -> Result<()> {
    let common = &options.common;
    let dir = tempfile::tempdir_in(&common.dir)?;
    let start = |name: &str, settings: &[&str]| {
        let settings = settings.iter().map(|setting| (*setting).to_owned());
        let settings: Vec<String> = settings.chain(common.set.iter().cloned()).collect();
        let data: &Path = &dir.path().join(name);
        Ok::<_, anyhow::Error>(servers::quoit(common.program_with(&settings), data)?.0)
    };
    let source = start(
        "source",
        &[
            "transfer_rate=0",
            "replrtq_enablesrc=enabled",
            "replrtq_srcqueue=to_sink:block_rtq",
            "ttaaefs_queuename=to_sink",
        ],
    )?;
    let sink = start("sink", &["transfer_rate=0"])?;
    let pair = ReplicatingNodes { options, source, sink };
    let keys = common.keys;
    let fill = Load { operations: keys, sequential: true, ..pair.puts(keys) };
    drive(&pair.source.target(), &fill)?;
    println!("{keys} records with values of {} bytes\n", common.value_bytes);
    pair.bootstrap()?;
    pair.full_sync()?;
    let rate = pair.cost_of_a_link()?;
    pair.readable(rate)
}

impl ReplicatingNodes<'_> {
    fn puts(&self, key_count: u64) -> Load {
        let CommonOptions { operations, value_bytes, .. } = self.options.common;
        Load {
            exchange: Exchange::PbPut { value_bytes, dw: None },
            connections: CONNECTIONS,
            operations,
            value_bytes,
            first_key: 0,
            key_count,
            sequential: false,
            rate: None,
            sleeps: false,
            seed: 0,
        }
    }

    /// Runs a replication command on a node, and returns its output.
    fn repl(&self, node: &Running, words: &[&str]) -> Result<String> {
        let http = node.http.context("a node serves HTTP")?;
        let url = format!("http://{http}");
        let mut command = Command::new(&self.options.common.quoit);
        let done =
            command.args(["repl", "--url", &url, "--format", "json"]).args(words).output()?;
        let said = String::from_utf8_lossy(&done.stderr);
        ensure!(done.status.success(), "quoit repl {}: {said}", words.join(" "));
        Ok(String::from_utf8(done.stdout)?)
    }

    fn status(&self, node: &Running) -> Result<Value> {
        let text = self.repl(node, &["status"])?;
        let status: Value = serde_json::from_str(text.lines().next().unwrap_or_default())?;
        Ok(status["status"].clone())
    }

    /// Copies all records into the empty sink.
    fn bootstrap(&self) -> Result<()> {
        let cpu = || Ok::<_, anyhow::Error>((cpu_of(self.source.pid())?, cpu_of(self.sink.pid())?));
        let (before, began) = (cpu()?, Instant::now());
        let peer = format!("{}:pb", self.source.address);
        self.repl(&self.sink, &["bootstrap", "start", &peer, "--wait"])?;
        let (elapsed, after) = (began.elapsed().as_secs_f64(), cpu()?);
        let copied = &self.status(&self.sink)?["bootstrap"];
        let records = copied["record_count"].as_u64().unwrap_or(0);
        ensure!(records == self.options.common.keys, "{records} records were copied");
        let megabytes = copied["byte_count"].as_f64().unwrap_or(0.0) / 1e6;
        let secs = |from: Duration, to: Duration| (to.saturating_sub(from)).as_secs_f64().max(0.01);
        let (source, sink) = (secs(before.0, after.0), secs(before.1, after.1));
        println!("| bootstrap, MB | s | MB/s | MB/s a core: source | sink | both |");
        println!("|{}", "---|".repeat(6));
        println!(
            "| {megabytes:.0} | {elapsed:.1} | {:.0} | {:.0} | {:.0} | {:.0} |\n",
            megabytes / elapsed,
            megabytes / source,
            megabytes / sink,
            megabytes / (source + sink)
        );
        Ok(())
    }

    /// Measures full-sync, first with both sides in sync and then with differing records.
    fn full_sync(&self) -> Result<()> {
        let peer = format!("{}:pb", self.sink.address);
        self.repl(&self.source, &["fullsync", "set", "--peer", &peer, "--queue", "to_sink"])?;
        let in_sync = self.check()?;
        ensure!(in_sync["differing_arc_count"] == 0, "the copy differs: {in_sync}");
        let differing = self.options.differing;
        let change =
            Load { operations: differing, sequential: true, seed: 1, ..self.puts(differing) };
        drive(&self.source.target(), &change)?;
        self.link()?;
        let (began, mut exchanged, mut checks) = (Instant::now(), 0, 0);
        loop {
            let report = self.check()?;
            exchanged += report["exchanged_bytes"].as_u64().unwrap_or(0);
            checks += 1;
            if report["differing_arc_count"] == 0 {
                break;
            }
            ensure!(checks < CHECK_COUNT_MAX, "the nodes do not become equal: {report}");
        }
        let elapsed = began.elapsed().as_secs_f64();
        let queue = &self.status(&self.source)?["source"]["queues"][0];
        let sent = queue["consumed_bytes_total"].as_u64().unwrap_or(0);
        let of_records = differing * self.options.common.value_bytes as u64;
        println!(
            "| full-sync in sync, ms | KB exchanged | {differing} differ: s until in sync | \
                  bytes compared and sent, of those of the records |"
        );
        println!("|{}", "---|".repeat(4));
        println!(
            "| {} | {:.1} | {elapsed:.1} | {:.2} |\n",
            in_sync["duration_us"].as_u64().unwrap_or(0) / 1_000,
            in_sync["exchanged_bytes"].as_f64().unwrap_or(0.0) / 1e3,
            (exchanged + sent) as f64 / of_records as f64
        );
        Ok(())
    }

    /// Runs a full-sync, and returns its report.
    fn check(&self) -> Result<Value> {
        let text = self.repl(&self.source, &["fullsync", "run", "all"])?;
        let done: Value = serde_json::from_str(text.lines().next().unwrap_or_default())?;
        let report = done["done"]["result"]["report"].clone();
        ensure!(report["fault"].is_null(), "the full-sync failed: {}", report["fault"]);
        Ok(report)
    }

    fn link(&self) -> Result<()> {
        let peer = format!("{}:pb", self.source.address);
        self.repl(&self.sink, &["sink", "add", "to_sink", &peer])?;
        Ok(())
    }

    /// Measures the source's processor time of puts with and without a link, in turns. Returns the rate
    /// with a link.
    fn cost_of_a_link(&self) -> Result<f64> {
        let (mut alone, mut linked, mut rates) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..self.options.common.rounds.max(1) as u64 {
            self.repl(&self.source, &["queue", "add", "to_sink", "block_rtq"])?;
            alone.push(self.put_all(round)?.cpu_us());
            self.repl(&self.source, &["queue", "add", "to_sink", "any"])?;
            // The processor time includes sending the entries that wait in the queue.
            let before = cpu_of(self.source.pid())?;
            let measured = self.put_all(round)?;
            self.until_nothing_waits()?;
            let spent = cpu_of(self.source.pid())?.saturating_sub(before);
            linked.push(spent.as_secs_f64() * 1e6 / measured.operations as f64);
            rates.push(measured.rate());
        }
        println!(
            "| put, processor time of the source without a link, us | with one link, us | more |"
        );
        println!("|{}", "---|".repeat(3));
        let more = (median(linked.clone()) / median(alone.clone()) - 1.0) * 100.0;
        println!(
            "| {:.2} ({}) | {:.2} ({}) | {more:+.0} % |\n",
            median(alone.clone()),
            spread(&alone),
            median(linked.clone()),
            spread(&linked)
        );
        Ok(median(rates))
    }

    fn put_all(&self, seed: u64) -> Result<Measured> {
        let load = Load { seed, ..self.puts(self.options.common.keys) };
        drive(&self.source.target(), &load)
    }

    fn until_nothing_waits(&self) -> Result<()> {
        let began = Instant::now();
        loop {
            let queue = &self.status(&self.source)?["source"]["queues"][0];
            let count = |name: &str| queue[name].as_u64().unwrap_or(0);
            if count("real_time") + count("full_sync") + count("unconfirmed") == 0 {
                return Ok(());
            }
            ensure!(began.elapsed() < READABLE_LIMIT, "{queue} is not consumed");
        }
    }

    /// Measures the delay from the answer to a put until the put is readable at the sink, beside a load.
    fn readable(&self, rate: f64) -> Result<()> {
        let CommonOptions { keys, value_bytes, .. } = self.options.common;
        let put = Exchange::PbPut { value_bytes, dw: None };
        let rate = rate * LOAD_SHARE;
        // The load lasts at least as long as the writes are expected to take.
        let expected = rate * self.options.readable as f64 / 500.0;
        let operations = quoit_number::whole(expected.max(100.0));
        let load = Load { rate: Some(rate), operations, seed: 77, ..self.puts(keys) };
        let target = self.source.target();
        let mut late_us = std::thread::scope(|scope| {
            let beside = scope.spawn(|| drive(&target, &load));
            let mut late_us = Vec::new();
            for number in 0..self.options.readable {
                ask(self.source.address, &put, keys + number, value_bytes)?;
                let answered = Instant::now();
                // Until the record arrives, the sink answers without a value, which counts as an error.
                while ask(self.sink.address, &Exchange::PbGet, keys + number, value_bytes).is_err()
                {
                    ensure!(answered.elapsed() < READABLE_LIMIT, "a write does not come across");
                }
                late_us.push(quoit_number::saturating_u64(answered.elapsed().as_micros()));
            }
            beside.join().expect("the load does not panic")?;
            Ok::<_, anyhow::Error>(late_us)
        })?;
        late_us.sort_unstable();
        let (p50_us, p99_us) = (percentile(&late_us, 0.5), percentile(&late_us, 0.99));
        println!(
            "| puts of the load, op/s | readable after the answer (dw=quorum), us: p50 | p99 |"
        );
        println!("|{}", "---|".repeat(3));
        println!("| {rate:.0} | {p50_us} | {p99_us} |");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct CommandLine {
        #[command(flatten)]
        options: ReplicationOptions,
    }

    #[test]
    fn a_delay_is_measured_with_one_write_at_least() {
        let readable = |count: &str| {
            let line = CommandLine::try_parse_from(["replication", "--readable", count]);
            line.map(|line| line.options.readable).ok()
        };
        assert_eq!((readable("0"), readable("1")), (None, Some(1)));
    }
}
