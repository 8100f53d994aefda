//! The command `quoit bench compare`.

use super::text::{sentence, text};
use super::{CompareError, ComparedSides, Sides, USUAL_SPREAD, read_runs};
use crate::cli::{BenchOptions, failed, run_on};
use crate::measure::OperationStats;
use crate::output::{RunDirectory, Terminal};
use crate::report::{ComparisonPage, draw_comparison_page};
use crate::run::RunError;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

/// Exit status if a side is slower than the first one, probably slower, slower by some figure, or fails
/// more.
pub const EXIT_SLOWER: u8 = 4;
const EXIT_SAME: u8 = 0;
const EXIT_FAILED: u8 = 1;

/// The runs to compare.
#[derive(Debug, Clone, PartialEq)]
pub struct CompareOptions {
    /// The first side, then the sides to compare with it: directories of runs, or configurations if
    /// `repeat` is set.
    pub sides: Vec<PathBuf>,
    /// Number of runs of each configuration, which take turns; `None` to compare directories.
    pub repeat: Option<u32>,
    /// A duration that replaces the durations of the configurations.
    pub duration: Option<String>,
    /// Parent directory of the runs of `repeat`.
    pub results_dir: Option<PathBuf>,
    /// Assumed standard deviation from run to run, in percent. Default: [`USUAL_SPREAD`].
    pub spread_percent: Option<f64>,
    /// Path of the page to write.
    pub output: Option<PathBuf>,
    /// True for an answer in JSON.
    pub json: bool,
}

/// Compares runs, prints the answer to standard output, and returns the exit status. It is 0 if no side is
/// worse than the first one; [`EXIT_SLOWER`] if a side is slower, probably slower, mixed, or fails more;
/// and 1 if nothing could be compared.
pub fn compare_command(options: &CompareOptions) -> u8 {
    match compare_on(options, &mut Terminal::stdout()) {
        Ok(compared) => {
            let is_worse = compared.iter().any(|one| one.verdict.is_worse());
            if is_worse { EXIT_SLOWER } else { EXIT_SAME }
        }
        Err(error) => {
            failed(&error);
            EXIT_FAILED
        }
    }
}

pub(super) fn compare_on(
    options: &CompareOptions,
    terminal: &mut Terminal,
) -> Result<Vec<ComparedSides>, CompareError> {
    for side in &options.sides {
        match (side.is_dir(), options.repeat) {
            (false, None) if side.is_file() => {
                let problem =
                    "a configuration: --repeat N runs it; without, name directories of runs";
                return Err(CompareError::Kind { path: side.clone(), problem });
            }
            (true, Some(_)) => {
                let problem = "a directory: --repeat takes configurations";
                return Err(CompareError::Kind { path: side.clone(), problem });
            }
            _ => {}
        }
    }
    let sides = match options.repeat {
        // Standard output is reserved for the answer.
        Some(count) if options.json => {
            run_in_turn(options, count, &mut Terminal::to(Box::new(io::stderr()), false))?
        }
        Some(count) => run_in_turn(options, count, terminal)?,
        None => options.sides.clone(),
    };
    let spread = options.spread_percent.map_or(USUAL_SPREAD, |percent| percent / 100.0);
    let mut compared = Vec::new();
    let Some((base, others)) = sides.split_first() else { return Ok(compared) };
    for (place, other) in others.iter().enumerate() {
        let read = Sides { base: read_runs(base)?, other: read_runs(other)? };
        let found = read.compare(spread)?;
        if !options.json {
            let gap = if compared.is_empty() { "" } else { "\n" };
            terminal.line(&format!("{gap}{}", text(&found)));
        }
        if let Some(output) = &options.output {
            let output =
                if others.len() == 1 { output.clone() } else { numbered(output, place + 1) };
            write_page(&output, (base, other), read, &found)?;
        }
        compared.push(found);
    }
    if options.json {
        let json = serde_json::to_string_pretty(&compared).expect("it has no map with other keys");
        terminal.line(&json);
    }
    Ok(compared)
}

/// Runs each configuration `count` times. The configurations take turns, so that changes on the machine
/// affect all of them alike. Returns the directories that hold the runs of each.
fn run_in_turn(
    options: &CompareOptions,
    count: u32,
    terminal: &mut Terminal,
) -> Result<Vec<PathBuf>, CompareError> {
    let base = options.results_dir.clone().unwrap_or_else(|| "tests".into());
    let run_error = |name: &str| {
        let name = name.to_owned();
        move |error: RunError| CompareError::Run { name, error }
    };
    let directory = RunDirectory::create(&base, None)
        .map_err(|error| run_error("directory")(error.into()))?
        .path()
        .to_owned();
    let sides: Vec<PathBuf> =
        (1..=options.sides.len()).map(|number| directory.join(format!("side-{number}"))).collect();
    for turn in 1..=count {
        for (config, side) in options.sides.iter().zip(&sides) {
            let name = format!("run-{turn:02}");
            terminal.line(&format!("{} {turn} of {count}", config.display()));
            let of_run = BenchOptions {
                config_paths: vec![config.clone()],
                results_dir: Some(side.clone()),
                name: Some(name.clone()),
                duration: options.duration.clone(),
                ..BenchOptions::default()
            };
            run_on(&of_run, terminal).map_err(run_error(&side.join(name).display().to_string()))?;
        }
    }
    Ok(sides)
}

/// The path of the page of one of several sides: `page.html` becomes `page-1.html`.
fn numbered(output: &Path, number: usize) -> PathBuf {
    let stem = output.file_stem().unwrap_or_default().to_string_lossy();
    let extension =
        output.extension().map_or("html".into(), |extension| extension.to_string_lossy());
    output.with_file_name(format!("{stem}-{number}.{extension}"))
}

/// Writes the page of a comparison.
fn write_page(
    output: &Path,
    (base, other): (&Path, &Path),
    read: Sides,
    found: &ComparedSides,
) -> Result<(), CompareError> {
    let mut latencies: BTreeMap<(String, usize), OperationStats> = BTreeMap::new();
    for (place, runs) in [read.base, read.other].into_iter().enumerate() {
        for run in runs {
            for (name, seconds) in run.operations {
                if let Some(all) = seconds.all {
                    latencies.entry((name, place)).or_default().add(&all);
                }
            }
        }
    }
    let side = |place: usize| if place == 0 { "base" } else { "other" };
    let page = draw_comparison_page(ComparisonPage {
        title: &format!("{} and {}", base.display(), other.display()),
        sentence: &sentence(found),
        is_worse: found.verdict.is_worse(),
        table: &text(found),
        latencies: latencies
            .into_iter()
            .map(|((name, place), stats)| (format!("{name}, {}", side(place)), stats))
            .collect(),
    });
    let unwritable = |error| CompareError::Unwritable { path: output.to_owned(), error };
    std::fs::write(output, page).map_err(unwritable)
}
