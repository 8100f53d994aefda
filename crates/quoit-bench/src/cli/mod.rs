//! Entry points of `quoit bench` and its subcommands.

mod agents;
mod check;
mod convert;

pub use crate::exit_status::ExitStatus;
pub(crate) use crate::exit_status::failed;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::Serialize;

use crate::config::{
    Config, ConfigError, ConfigText, Expectation, LINE_FILE, LoadOptions, LoadOptionsError,
    LogLevel, RunEvent, RunLength, SettingPlace, Target, TargetOverride,
};
use crate::notices::Notices;
use crate::output::environment::Environment;
use crate::output::text::size_text;
use crate::output::{RunDirectory, RunLog, Terminal};
use crate::report::write_after_run;
use crate::run::{
    KNEE_FILE, RunError, RunReport, RunSetup, RunSummary, find_knee, plan_driver, run_driver,
};

pub use agents::AgentSecurity;
use agents::plan_agents;
pub use check::{check, check_on};
pub use convert::convert;

/// Files that the process opens in addition to connections: logs, tables, event loops.
const FILES_BESIDES: u64 = 100;

/// Options of the command line.
#[derive(Debug, Clone, Default)]
pub struct BenchOptions {
    /// Paths of the configuration files. If two files set one key, the later file wins.
    pub config_paths: Vec<PathBuf>,
    /// Servers as URLs, given instead of configuration files. The load is the one that `line` describes.
    pub urls: Vec<String>,
    /// The load for the servers in `urls`.
    pub line: LoadOptions,
    /// Parent directory of the results (`-d`). Default: the configuration's `test_dir`, else `tests`.
    pub results_dir: Option<PathBuf>,
    /// Name of the run's directory (`-n`). Default: the local time.
    pub name: Option<String>,
    /// A duration that replaces the configuration's: `500ms`, `60s`, `2m`, `1.5h`, `infinity`, or a number
    /// of minutes.
    pub duration: Option<String>,
    /// Expectations in addition to those of the configuration.
    pub expectations: Vec<String>,
    /// Stop the run as soon as its first part misses an expectation.
    pub aborts_early: bool,
    /// Servers to watch, as `host:port` of their HTTP listeners, in addition to those of the configuration.
    pub watched: Vec<String>,
    /// Events in addition to those of the configuration.
    pub events: Vec<RunEvent>,
    /// Servers as `host:port` or `list=host:port`, which replace the configuration's.
    pub targets: Vec<String>,
    /// Options of basho_bench that were given and have no effect here.
    pub ignored_options: Vec<&'static str>,
    /// Write the rows, and at the end the summary, to standard output as lines of JSON, and everything else
    /// to standard error.
    pub is_json: bool,
    /// Show the run as a full-screen view.
    pub has_view: bool,
    /// A file in the OpenMetrics format that is rewritten for each row.
    pub metrics_file: Option<PathBuf>,
    /// Agents that run the workers, as `host` or `host:port`, which replace the configuration's.
    pub agents: Vec<String>,
    /// How agents and this process authenticate each other.
    pub agent_security: AgentSecurity,
    /// Ask each server for its version and settings before the run, for the report: one request to each
    /// server.
    pub asks_servers: bool,
}

/// Runs the command. Progress and summary go to standard output, errors to standard error.
///
/// Blocks until the run is over. SIGINT and SIGTERM end it early; the results up to then are kept.
pub fn run(options: &BenchOptions) -> ExitStatus {
    let terminal = match options.is_json {
        true => Terminal::to(Box::new(io::stderr()), false).with_rows(Box::new(io::stdout())),
        false => Terminal::stdout(),
    };
    let terminal = match options.has_view {
        true => terminal.with_view(),
        false => Ok(terminal),
    };
    let mut terminal = match terminal {
        Ok(terminal) => terminal.with_metrics(options.metrics_file.clone()),
        Err(error) => return failed(&error),
    };
    let ran = run_on(options, &mut terminal);
    terminal.close_view();
    match ran {
        Ok(report) => {
            if options.is_json {
                print_summary(&report);
            }
            status_of(&report)
        }
        Err(error) => failed(&error),
    }
}

/// Prints the summary of a run as the last line of JSON.
fn print_summary(report: &RunReport) {
    use std::io::Write as _;
    let summary = RunSummary::read(&report.directory).map_err(|error| error.to_string());
    let line = summary.and_then(|summary| {
        let document = SummaryDocument { r#type: "summary", summary: &summary };
        serde_json::to_string(&document).map_err(|error| error.to_string())
    });
    match line {
        // A failed write means that the reader has closed the pipe and wants no more.
        Ok(line) => drop(writeln!(io::stdout(), "{line}")),
        Err(error) => drop(failed(&error)),
    }
}

/// The summary of a run, marked with its type because lines of other types precede it.
#[derive(Serialize)]
struct SummaryDocument<'a> {
    r#type: &'static str,
    #[serde(flatten)]
    summary: &'a RunSummary,
}

/// The exit status of a run. If results are missing, also reports them on standard error.
pub fn status_of(report: &RunReport) -> ExitStatus {
    let has_faults = report.verification.as_ref().is_some_and(|found| !found.is_clean());
    let status = match report.end.into() {
        _ if has_faults => ExitStatus::Faults,
        ExitStatus::Success if report.all_operations_failed() => ExitStatus::Failure,
        ExitStatus::Success if report.misses_expectations() => ExitStatus::Missed,
        status => status,
    };
    if report.lost.is_empty() {
        return status;
    }
    let missing = report.lost.join(", ");
    let failure = failed(&format!("the results are incomplete, missing: {missing}"));
    if status == ExitStatus::Success { failure } else { status }
}

/// A run of at most this `--duration` has rows of [`SHORT_RUN_INTERVAL`], unless its configuration sets the
/// interval. With the default of ten seconds, its plots would have only a handful of points.
const SHORT_RUN: Duration = Duration::from_secs(300);
const SHORT_RUN_INTERVAL: Duration = Duration::from_secs(1);

/// The configuration that the URLs of the command line stand for, if the command line has URLs.
fn text_of_line(options: &BenchOptions) -> Result<Option<String>, ConfigError> {
    match (options.urls.first(), options.config_paths.first()) {
        (Some(url), Some(file)) => {
            let file = file.display().to_string();
            Err(ConfigError::Line(LoadOptionsError::Mixed { url: url.clone(), file }))
        }
        (None, _) if options.line != LoadOptions::default() => {
            Err(ConfigError::Line(LoadOptionsError::OptionsOfFiles))
        }
        (None, _) => Ok(None),
        (Some(_), None) => Config::text_of_line(&options.urls, &options.line).map(Some),
    }
}

/// Reads the configuration and applies the options of the command line to it.
fn load(options: &BenchOptions) -> Result<Config, ConfigError> {
    let text = text_of_line(options)?;
    let mut config = match &text {
        Some(text) => Config::of_text(ConfigText { name: LINE_FILE, text })?,
        None => Config::load(&options.config_paths)?,
    };
    if let Some(duration) = &options.duration {
        config.length = RunLength::parse(duration)?;
        let is_short = matches!(config.length, RunLength::For(length) if length <= SHORT_RUN);
        if is_short && config.settings.get("report_interval").is_none() {
            config.report_interval = SHORT_RUN_INTERVAL;
        }
    }
    for text in &options.targets {
        config.target_overrides.push(TargetOverride::parse(text)?);
    }
    let place = SettingPlace::Option("--expect");
    for text in &options.expectations {
        let fault =
            |error| ConfigError::Expectation { place: place.clone(), error: Box::new(error) };
        config.expectations.push(Expectation::parse(text, place.clone()).map_err(fault)?);
    }
    config.events.extend(options.events.iter().cloned());
    for server in &options.watched {
        config.watched.push(Target::parse(server)?);
    }
    plan_agents(&mut config, options, text.as_deref())?;
    config.is_json = options.is_json;
    config.aborts_early |= options.aborts_early;
    if config.aborts_early && config.expectations.is_empty() {
        let told =
            "the run has no conditions, so that none ends it early: add --expect or `expect`";
        config.warnings.push(told.to_owned());
    }
    let told = |option| format!("{option} has no effect: there are no Erlang nodes here");
    config.warnings.extend(options.ignored_options.iter().map(told));
    Ok(config)
}

/// Checks that a configuration given as text can be run.
///
/// # Errors
///
/// When it can't be run.
pub(crate) fn check_text(text: ConfigText<'_>) -> Result<(), ConfigError> {
    check::look(&Config::of_text(text)?).map(drop)
}

/// Runs the command and returns what it measured; for programs that embed benchmarks.
///
/// # Errors
///
/// When the configuration cannot be run, a worker cannot connect, or results cannot be kept.
pub fn run_on(options: &BenchOptions, terminal: &mut Terminal) -> Result<RunReport, RunError> {
    let mut config = load(options)?;
    // Check first, so that a configuration that cannot be run leaves no directory behind.
    let check::CheckedConfig { system_requirements, warnings, .. } = check::look(&config)?;
    // Resolve links now: a path through the link `current` points elsewhere once the run has its directory.
    let config_paths: Vec<PathBuf> = options
        .config_paths
        .iter()
        .chain(&config.script_paths)
        .map(|path| through_links(path))
        .collect();
    let base = options.results_dir.as_ref().unwrap_or(&config.results_dir);
    let directory = RunDirectory::create(base, options.name.as_deref())?;
    directory.path().clone_into(&mut config.run_directory);
    let log = Arc::new(RunLog::create(directory.path(), config.log_level)?);
    let configurations = match text_of_line(options)? {
        Some(text) => vec![directory.write_config(ConfigText { name: LINE_FILE, text: &text })?],
        None => directory.copy_configs(&config_paths)?,
    };
    for warning in config.warnings.iter().chain(&warnings) {
        log.warning(warning);
        terminal.line(&format!("warning: {warning}"));
    }
    if let Some(size_bytes) = config.estimated_size_bytes() {
        log.info(&format!("Est. data size: {}", size_text(size_bytes)));
    }
    let told = log.clone();
    config.notices = Notices::to(move |level, text| told.write(level, text));
    config.key_generator.set_notices(&config.notices);
    raise_file_limit(u64::from(config.worker_count), &log);
    terminal.line(&format!("Results in {}", directory.path().display()));
    let (driver, workers) = (&config.driver, config.worker_count);
    terminal.set_title(format!("{driver}: {workers} workers, {}", config.pacing));
    config.hooks.run_before(directory.path())?;
    let mut environment =
        Environment::look(check::plan(&config, &system_requirements), configurations);
    if options.asks_servers {
        environment.ask_servers(&config.driver, &system_requirements.targets);
    }
    if let Err(error) = environment.write(directory.path()) {
        log.warning(&format!("the report will not show the setup of the run: {error}"));
    }
    let run = |setup: RunSetup<'_>| run_driver(plan_driver(setup.config)?, setup);
    let (of_run, shown) = (log.clone(), &mut *terminal);
    let mut ran = match config.knee {
        Some(plan) => find_knee(plan, &config, &directory, &of_run, shown, run),
        None => {
            run(RunSetup { config: &config, directory: &directory, log: of_run, terminal: shown })
        }
    };
    match &mut ran {
        Ok(report) => {
            let of_run = report.directory.clone();
            write_after_run(&of_run, report, terminal);
            // A search that judged no rate wrote no table, so its directory has nothing to draw.
            if of_run != directory.path() && directory.path().join(KNEE_FILE).is_file() {
                write_after_run(directory.path(), report, terminal);
            }
            // A failure is only reported, because the results already exist.
            if let Err(error) = config.hooks.run_after(directory.path()) {
                log.warning(&error.to_string());
                terminal.line(&format!("warning: {error}"));
            }
        }
        Err(error) => log.write(LogLevel::Error, &error.to_string()),
    }
    ran
}

/// Resolves the symbolic links in the directory part of a path. The file name stays as it is.
fn through_links(path: &Path) -> PathBuf {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let resolved = parent.and_then(|parent| parent.canonicalize().ok());
    resolved
        .zip(path.file_name())
        .map_or_else(|| path.to_owned(), |(parent, name)| parent.join(name))
}

/// Raises the limit on open files to what the connections need, as far as the system permits.
pub(crate) fn raise_file_limit(connection_count: u64, log: &RunLog) {
    let wanted = connection_count.saturating_mul(2) + FILES_BESIDES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= wanted) {
        return;
    }
    let current = limit.maximum.map_or(wanted, |maximum| wanted.min(maximum));
    let raised = Rlimit { current: Some(current), maximum: limit.maximum };
    if setrlimit(Resource::Nofile, raised).is_err() || current < wanted {
        log.warning(&format!(
            "the system allows {current} open files, which {connection_count} workers may exceed; \
             raise the limit (ulimit -n)"
        ));
    }
}
