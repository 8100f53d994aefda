//! A node with one engine, and the runs against it.

use super::load::{BenchLoad, Stage};
use super::memory_group::MemoryGroup;
use super::stage::{Figures, StageSummary, curve};
use super::usage::{IoBytes, device_reads, disk_bytes, peak_resident_bytes};
use super::{EngineName, EngineOptions, interrupt, settle};
use crate::drive::cpu_of;
use crate::servers::{self, NodeProgram, Running};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Time that a run may take beyond its length, for connecting and for writing results.
const GRACE: Duration = Duration::from_secs(120);

const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// An engine with settings: one line of a table.
#[derive(Clone, Debug)]
pub(super) struct Variant {
    pub(super) label: String,
    pub(super) set: Vec<String>,
}

impl Variant {
    /// The engine with its defaults, except that Bitcask checks for merges often, so that the figures of a
    /// short run include the cost of merging.
    pub(super) fn of(engine: EngineName) -> Self {
        let mut set = vec![format!("storage_backend={}", engine.name())];
        if engine == EngineName::Bitcask {
            set.push("bitcask.merge_check_interval=5s".to_owned());
        }
        Self { label: engine.name().to_owned(), set }
    }

    /// Adds settings.
    pub(super) fn with(mut self, label: &str, set: &[&str]) -> Self {
        self.label = format!("{} {label}", self.label).trim().to_owned();
        self.set.extend(set.iter().map(|setting| (*setting).to_owned()));
        self
    }
}

/// A node to measure. Dropping it removes its data.
pub(super) struct Trial<'o> {
    options: &'o EngineOptions,
    profile: &'static str,
    label: String,
    // The fields are dropped in this order.
    node: Running,
    _group: Option<MemoryGroup>,
    directory: tempfile::TempDir,
}

impl<'o> Trial<'o> {
    /// Starts a node of a variant, in a control group if there is one.
    pub(super) fn start(
        options: &'o EngineOptions,
        profile: &'static str,
        variant: &Variant,
        group: Option<MemoryGroup>,
    ) -> Result<Self> {
        interrupt::check()?;
        let directory = tempfile::Builder::new()
            .prefix("quoit-engines-")
            .tempdir_in(&options.dir)
            .with_context(|| format!("making a folder in {}", options.dir.display()))?;
        let mut set = variant.set.clone();
        set.push("log.level=error".to_owned());
        set.extend(options.set.iter().cloned());
        let cgroup_procs = group.as_ref().map(MemoryGroup::cgroup_procs);
        let data = directory.path().join("data");
        let program = NodeProgram { binary: &options.quoit, set: &set };
        let (node, _) = servers::quoit_in(program, &data, cgroup_procs.as_deref())?;
        Ok(Self { options, profile, label: variant.label.clone(), node, _group: group, directory })
    }

    pub(super) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Runs a stage, and waits until the node has finished its background writes.
    pub(super) fn run(&self, stage: &Stage) -> Result<Figures> {
        self.run_beside(stage, || Ok(()))
    }

    /// Runs a stage as [`run`](Self::run), and starts something else beside it.
    pub(super) fn run_beside(
        &self,
        stage: &Stage,
        beside: impl FnOnce() -> Result<()>,
    ) -> Result<Figures> {
        let pid = self.node.pid();
        let data = self.data();
        let (cpu_before, moved_before) = (cpu_of(pid)?, IoBytes::of(Some(pid))?);
        let reads_before = device_reads(&data);
        let mut bench = self.bench(stage)?;
        beside()?;
        let run = bench.wait()?;
        let cpu = cpu_of(pid)?.saturating_sub(cpu_before);
        let reads_after = device_reads(&data);
        settle::settle(pid)?;
        let figures = Figures {
            summary: StageSummary::read(&run)?,
            cpu,
            moved: IoBytes::of(Some(pid))?.since(moved_before),
            device_reads: reads_before.zip(reads_after).map(|(before, after)| after - before),
            disk_bytes: disk_bytes(&data),
            peak_resident_bytes: peak_resident_bytes(pid)?,
            curve: curve(&run),
            value_bytes: stage.value_bytes,
            live_bytes: stage.live_bytes,
        };
        self.keep(&run)?;
        println!(
            "{}, {}, {}: {:.0} op/s, {} failed",
            self.profile,
            self.label,
            stage.name,
            figures.rate(),
            figures.summary.failed
        );
        for failure in &figures.summary.errors {
            println!("  {} failed {} times: {}", failure.operation, failure.count, failure.reason);
        }
        Ok(figures)
    }

    /// Starts a run of the load generator.
    pub(super) fn bench(&self, stage: &Stage) -> Result<Bench> {
        interrupt::check()?;
        let base = self.directory.path();
        let name = stage.name.replace(", ", "-").replace(' ', "-");
        let (config, target) = (write_config(base, &name, &stage.load)?, self.node.address);
        // The later file wins, so that the results have a row for each second.
        let by_seconds = base.join(format!("{name}-by-seconds.config"));
        std::fs::write(&by_seconds, "{report_interval, 1}.\n")
            .context("writing a configuration")?;
        let mut command = Command::new(&self.options.quoit);
        command.arg("bench").args([&config, &by_seconds]).args(["--target", &target.to_string()]);
        command.args(["--duration", &format!("{}ms", stage.limit.as_millis())]);
        command.args(["--bench-name", &name, "--results-dir"]).arg(base);
        let child = command.stdout(Stdio::null()).spawn().context("starting quoit bench")?;
        let deadline = Instant::now() + stage.limit + GRACE;
        Ok(Bench { child, run: base.join(name), deadline })
    }

    /// Stops the node cleanly.
    pub(super) fn stop(self) -> Result<()> {
        self.node.stop()
    }

    fn keep(&self, run: &Path) -> Result<()> {
        let Some(keep) = &self.options.keep else { return Ok(()) };
        let run_name = run.file_name().unwrap_or_default().to_string_lossy();
        let label = self.label.replace(' ', "-");
        let name = format!("{}-{label}-{run_name}", self.profile);
        let into = keep.join(name);
        std::fs::create_dir_all(&into).with_context(|| format!("making {}", into.display()))?;
        for entry in std::fs::read_dir(run)? {
            let entry = entry?;
            if entry.file_type()?.is_file() {
                std::fs::copy(entry.path(), into.join(entry.file_name()))?;
            }
        }
        Ok(())
    }
}

fn write_config(base: &Path, name: &str, load: &BenchLoad) -> Result<PathBuf> {
    let path = base.join(format!("{name}.config"));
    std::fs::write(&path, load.config()).with_context(|| format!("writing {}", path.display()))?;
    Ok(path)
}

/// A running load generator. Dropping it kills it.
pub(super) struct Bench {
    child: Child,
    run: PathBuf,
    deadline: Instant,
}

impl Bench {
    /// Waits for the end of the run. Returns the directory with its results.
    pub(super) fn wait(&mut self) -> Result<PathBuf> {
        loop {
            if let Some(status) = self.child.try_wait()? {
                ensure!(status.success(), "quoit bench ended with {status}");
                return Ok(self.run.clone());
            }
            interrupt::check()?;
            ensure!(Instant::now() < self.deadline, "quoit bench did not end in time");
            sleep(POLL_INTERVAL);
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
