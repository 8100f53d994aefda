//! Rate of `quoit import run` for directories in Riak's formats.
//!
//! For each engine and value size, a directory is written, and the program imports it into a new node. The
//! table has the rate over all copies in the files, and the processor time of importer and node. The
//! verifying second pass is left out.

mod directories;
mod leveldb;
mod leveled;

use crate::drive::cpu_of;
use crate::processes::resident_bytes;
use crate::report::median;
use crate::servers::{self, NodeProgram};
use anyhow::{Context, Result, ensure};
use clap::Args;
use directories::{COPIES, Engine, RecordSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Interval between two readings of the memory of both processes.
const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// Options of the benchmark.
#[derive(Args, Clone, Debug)]
pub(crate) struct ImportOptions {
    /// The quoit binary, a release build [default: the one beside this program].
    #[arg(long, default_value_os_t = crate::beside("quoit"), hide_default_value = true)]
    quoit: PathBuf,
    /// Directory for data; temporary folders are made in it [default: where this program is].
    #[arg(long, default_value_os_t = crate::beside("."), hide_default_value = true)]
    dir: PathBuf,
    /// Engines of Riak [default: all].
    #[arg(long, value_enum, value_delimiter = ',')]
    engines: Vec<Engine>,
    /// Sizes of values in bytes.
    #[arg(long, value_delimiter = ',', default_value = "100,1024,65536")]
    value_bytes: Vec<usize>,
    /// Total size of the values of each measurement, in megabytes. The files hold three copies of each
    /// value.
    #[arg(long, default_value_t = 100)]
    megabytes: usize,
    /// Most records of a measurement.
    #[arg(long, default_value_t = 500_000)]
    records_max: usize,
    /// Rounds; medians are printed.
    #[arg(long, default_value_t = 3)]
    rounds: usize,
    /// Settings of the node.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Only write the directories, each into a folder ENGINE-BYTES of this directory.
    #[arg(long, value_name = "DIR")]
    only_write: Option<PathBuf>,
    /// Further options of quoit import run.
    #[arg(long = "import", value_name = "OPTION")]
    import: Vec<String>,
}

impl ImportOptions {
    /// The records of a measurement with values of this size.
    fn records(&self, value_bytes: usize) -> RecordSet {
        let count = (self.megabytes * 1_000_000 / value_bytes.max(1)).min(self.records_max);
        RecordSet { count, value_bytes }
    }
}

/// Results of one import.
struct Run {
    elapsed: Duration,
    importer_cpu: Duration,
    node_cpu: Duration,
    importer_bytes_max: u64,
    node_bytes_max: u64,
}

pub(crate) fn import(options: &ImportOptions) -> Result<()> {
    let engines = if options.engines.is_empty() { &Engine::ALL[..] } else { &options.engines };
    if let Some(folder) = &options.only_write {
        for engine in engines {
            for value_bytes in &options.value_bytes {
                let source = folder.join(format!("{}-{value_bytes}", engine.as_str()));
                std::fs::create_dir_all(&source)?;
                directories::write(*engine, &source, options.records(*value_bytes))?;
            }
        }
        return Ok(());
    }
    println!(
        "| directory | value | records | files MB | MB/s | copies/s | records/s | importer CPU us/copy | \
         node CPU us/record | copies/s a core of the importer | importer MiB | node MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    for engine in engines {
        for value_bytes in &options.value_bytes {
            measure(options, *engine, *value_bytes)?;
        }
    }
    Ok(())
}

fn measure(options: &ImportOptions, engine: Engine, value_bytes: usize) -> Result<()> {
    let record_set = options.records(value_bytes);
    let records = record_set.count;
    let folder = tempfile::tempdir_in(&options.dir)?;
    let source = folder.path().join("riak");
    std::fs::create_dir(&source)?;
    let file_bytes = directories::write(engine, &source, record_set)?;
    let mut runs = Vec::new();
    for round in 0..options.rounds {
        let data = folder.path().join(format!("data-{round}"));
        runs.push(run(&source, options, &data)?);
        std::fs::remove_dir_all(&data)?;
    }
    let middle = |figure: &dyn Fn(&Run) -> f64| median(runs.iter().map(figure).collect());
    let copies = (records * COPIES) as f64;
    let secs = middle(&|run| run.elapsed.as_secs_f64());
    let importer = middle(&|run| run.importer_cpu.as_secs_f64());
    let node = middle(&|run| run.node_cpu.as_secs_f64());
    println!(
        "| {} | {value_bytes} | {records} | {:.0} | {:.0} | {:.0} | {:.0} | {:.2} | {:.2} | {:.0} | {:.0} \
         | {:.0} |",
        engine.as_str(),
        file_bytes as f64 / 1e6,
        file_bytes as f64 / 1e6 / secs,
        copies / secs,
        records as f64 / secs,
        importer * 1e6 / copies,
        node * 1e6 / records as f64,
        copies / importer,
        middle(&|run| run.importer_bytes_max as f64 / f64::from(1 << 20)),
        middle(&|run| run.node_bytes_max as f64 / f64::from(1 << 20)),
    );
    Ok(())
}

/// Imports the directory `source` into a new node whose data directory is `data`.
fn run(source: &Path, options: &ImportOptions, data: &Path) -> Result<Run> {
    let program = NodeProgram { binary: &options.quoit, set: &options.set };
    let (node, _) = servers::quoit(program, data)?;
    let http = node.http.context("the node serves HTTP")?;
    let node_cpu = cpu_of(node.pid())?;
    let began = Instant::now();
    let mut importer = Command::new(&options.quoit)
        .args(["import", "run"])
        .arg(source)
        .arg("--to")
        .arg(format!("http://{http}"))
        .arg("--journal")
        .arg(data.with_extension("journal"))
        .args(["--no-verify", "--format", "json"])
        .args(&options.import)
        .stdout(Stdio::null())
        .spawn()?;
    let mut run = Run {
        elapsed: Duration::ZERO,
        importer_cpu: Duration::ZERO,
        node_cpu: Duration::ZERO,
        importer_bytes_max: 0,
        node_bytes_max: 0,
    };
    let status = loop {
        // A process that ends in between has no figures any more.
        if let (Ok(cpu), Ok(bytes)) = (cpu_of(importer.id()), resident_bytes(importer.id())) {
            run.importer_cpu = run.importer_cpu.max(cpu);
            run.importer_bytes_max = run.importer_bytes_max.max(bytes);
        }
        run.node_bytes_max = run.node_bytes_max.max(resident_bytes(node.pid()).unwrap_or(0));
        if let Some(status) = importer.try_wait()? {
            break status;
        }
        std::thread::sleep(LOOK_INTERVAL);
    };
    run.elapsed = began.elapsed();
    ensure!(status.success(), "quoit import run ended with {status}");
    run.node_cpu = cpu_of(node.pid())?.saturating_sub(node_cpu);
    node.stop()?;
    Ok(run)
}
