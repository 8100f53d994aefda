//! The command `quoit bench crdt-growth`: it prints each row once it is measured, and writes a directory with
//! a table and a report.

use std::io::Write;
use std::path::PathBuf;

use crate::config::Target;
use crate::exit_status::{ExitStatus, failed};
use crate::growth::{
    COLUMNS, Experiment, GrowthError, GrowthItem, GrowthKind, GrowthRow, TIMES, TimeColumn, ends,
};
use crate::output::text::ms_text;
use crate::output::{GROWTH_FILE, OutputError, ResultFile, RunDirectory};
use crate::report::{ReportOptions, write_reports};
use crate::run::Signals;

/// Default parent directory of the results.
const RESULTS_DIR: &str = "tests";

/// Options of the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrowthOptions {
    /// The kind of container that grows.
    pub kind: GrowthKind,
    /// Number of items that each container gets.
    pub item_count: u64,
    /// Number of containers, which grow in turn by one item.
    pub container_count: u64,
    /// The server, as `host:port` of its Protocol Buffers interface.
    pub target: String,
    /// Parent directory of the results (`-d`). Default: `tests`.
    pub results_dir: Option<PathBuf>,
    /// Name of the run's directory (`-n`). Default: the local time.
    pub name: Option<String>,
}

/// Report of an experiment, complete or not.
#[derive(Debug)]
pub struct GrowthReport {
    /// Directory of its files.
    pub directory: PathBuf,
    /// The measured rows.
    pub rows: Vec<GrowthRow>,
    /// The failure that ended it early, if there was one.
    pub failure: Option<GrowthError>,
}

/// Runs the command. Rows go to standard output, everything else to standard error.
///
/// SIGINT and SIGTERM end the experiment early; the results up to then are kept.
pub fn crdt_growth(options: &GrowthOptions) -> ExitStatus {
    let report = match grow_on(options, &mut std::io::stdout().lock()) {
        Ok(report) => report,
        Err(error) => return failed(&error),
    };
    let mut told = String::new();
    for TimeColumn { name, seconds } in TIMES {
        if let Some((first_s, last_s)) = ends(&report.rows, seconds) {
            let ms = |time_s: f64| ms_text(time_s * 1e6);
            told.push_str(&format!("{name:<12} {:>8} {:>8}\n", ms(first_s), ms(last_s)));
        }
    }
    let heading = format!("{:<12} {:>8} {:>8}  ms, median of a tenth", "", "first", "last");
    let mut status = ExitStatus::Success;
    let drawn = write_reports(&ReportOptions {
        directory: report.directory.clone(),
        ..ReportOptions::default()
    });
    let files = match (&drawn, report.rows.is_empty()) {
        (Ok(written), _) => {
            let files = written.files.iter().map(|file| file.display().to_string());
            format!("Report: {}", files.collect::<Vec<_>>().join(", "))
        }
        // An experiment that ended before its first item has no report.
        (Err(_), true) => String::new(),
        (Err(error), false) => {
            status = ExitStatus::Failure;
            format!("warning: there is no report: {error}")
        }
    };
    // A closed standard error does not change the exit status.
    let _ = writeln!(
        std::io::stderr(),
        "{heading}\n{told}Results in {}\n{files}",
        report.directory.display()
    );
    match &report.failure {
        Some(error) => failed(error),
        None => status,
    }
}

/// Runs the experiment and also writes its rows to `out`; for programs that embed benchmarks.
///
/// # Errors
///
/// When the experiment can't start, or `out` or the table can't be written. A request that fails later ends
/// the experiment with the rows up to then.
pub fn grow_on(options: &GrowthOptions, out: &mut dyn Write) -> Result<GrowthReport, GrowthError> {
    let target = Target::parse(&options.target)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(GrowthError::System)?.block_on(grow(options, &target, out))
}

async fn grow(
    options: &GrowthOptions,
    target: &Target,
    out: &mut dyn Write,
) -> Result<GrowthReport, GrowthError> {
    let bucket = format!("crdt-growth-{:016x}", rand::random::<u64>());
    let mut signals = Signals::listen().map_err(GrowthError::System)?;
    // Prepare first, so that an experiment that can't start leaves no directory behind.
    let experiment = Experiment::prepare(&target.to_string(), options.kind, &bucket).await?;
    let base = options.results_dir.clone().unwrap_or_else(|| RESULTS_DIR.into());
    let directory = RunDirectory::create(&base, options.name.as_deref())?.path().to_owned();
    let path = directory.join(GROWTH_FILE);
    let header = COLUMNS.join(", ") + "\n";
    let mut file =
        ResultFile::create(path.clone(), header.as_bytes()).map_err(OutputError::write(&path))?;
    out.write_all(header.as_bytes()).map_err(GrowthError::Rows)?;
    let mut report = GrowthReport { directory, rows: Vec::new(), failure: None };
    'items: for number in 1..=options.item_count {
        for container in 1..=options.container_count {
            let added = tokio::select! {
                biased;
                () = signals.next() => break 'items,
                added = experiment.add(GrowthItem { number, container }) => added,
            };
            let row = match added {
                Ok(row) => row,
                Err(error) => {
                    report.failure = Some(error);
                    break 'items;
                }
            };
            let line = format!("{row}\n");
            out.write_all(line.as_bytes()).map_err(GrowthError::Rows)?;
            file.append(line.as_bytes(), 1).map_err(OutputError::write(&path))?;
            report.rows.push(row);
        }
    }
    out.flush().map_err(GrowthError::Rows)?;
    Ok(report)
}
