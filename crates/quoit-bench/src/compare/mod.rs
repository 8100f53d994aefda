//! Comparison of runs: by how much two sides differ, and whether that is more than chance.
//!
//! A side is one run or several. Each figure is compared by its typical second; the verdict is that of the
//! rate of a closed loop, or of the median latency where the rate was given, unless another figure differs
//! beyond doubt. `docs/design/bench-compare.md` has the method and its limits.

mod command;
mod estimate;
mod sides;
#[cfg(test)]
mod tests;
mod text;
mod verdict;
#[cfg(test)]
mod whole_tests;

pub use command::{CompareOptions, EXIT_SLOWER, compare_command};
pub use verdict::{Comparison, Verdict};

use crate::measure::NOISE_FACTOR;
use crate::measure::intervals::IntervalError;
use crate::report::ReportError;
use crate::run::RunError;
use estimate::{Estimate, stalled_count};
use serde::Serialize;
use sides::{OperationSeconds, RunFigures, runs_in};
use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Usual standard deviation from run to run of rates and medians, as a part of them.
pub const USUAL_SPREAD: f64 = 0.03;
/// The slowest hundredth varies more.
const TAIL_SPREADS: f64 = 3.0;

/// A side fails more than another when its share of failed operations is more than so many times the other's
/// and [`FAILED_SHARE_MIN`]: single failures are no difference between servers.
const FAILED_RATIO: f64 = 2.0;
/// See [`FAILED_RATIO`].
const FAILED_SHARE_MIN: f64 = 0.001;

/// Why runs can't be compared.
#[derive(Debug, Error)]
pub enum CompareError {
    /// A directory can't be read.
    #[error("{} can't be read: {error}", .path.display())]
    Unreadable {
        /// The directory.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
    /// A directory is neither a run nor holds any.
    #[error(
        "{} holds no results of a run, nor directories that do; name the directory of a run, such as \
         tests/current, or configurations with --repeat",
        .0.display()
    )]
    NoRuns(PathBuf),
    /// A run can't be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The distribution of its seconds can't be read.
    #[error(transparent)]
    Intervals(#[from] IntervalError),
    /// A run of `--repeat` failed.
    #[error("the run {name} failed: {error}")]
    Run {
        /// The run.
        name: String,
        /// Its error.
        error: RunError,
    },
    /// A configuration without `--repeat`, or a directory with it.
    #[error("{} is {}", .path.display(), .problem)]
    Kind {
        /// The argument.
        path: PathBuf,
        /// The fault, and what to give instead.
        problem: &'static str,
    },
    /// The sides have too few seconds with a figure.
    #[error(
        "there is nothing to compare: no figure has a success in five seconds (of a run of basho_bench: in \
         five rows) of the runs of both sides"
    )]
    Nothing,
    /// The page can't be written.
    #[error("{} can't be written: {error}", .path.display())]
    Unwritable {
        /// The page.
        path: PathBuf,
        /// Error of the system.
        error: io::Error,
    },
}

/// Kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureKind {
    /// Successful operations a second: more is better.
    Rate,
    /// The median latency in microseconds: less is better.
    Median,
    /// The 99th percentile of the latency in microseconds: less is better.
    P99,
}

/// A figure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// The operation; nothing for all together.
    pub operation: Option<String>,
    /// Kind of the figure.
    pub kind: FigureKind,
    /// Whether it decides the verdict.
    pub decides: bool,
    /// Whether both sides are within the noise of their load generators, which then differ, if anything.
    pub within_noise: bool,
    /// The comparison.
    #[serde(flatten)]
    pub compared: Comparison,
}

/// The verdict on two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SideVerdict {
    /// No difference was found.
    Same,
    /// The second side is faster.
    Faster,
    /// The second side is faster, with less certainty.
    ProbablyFaster,
    /// The second side is slower.
    Slower,
    /// The second side is slower, with less certainty.
    ProbablySlower,
    /// It is faster by one figure and slower by another.
    Mixed,
    /// More of its operations fail, however fast the others are.
    FailsMore,
}

/// A side as the answer names it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedSide {
    /// Directories of its runs.
    pub runs: Vec<PathBuf>,
    /// Seconds of all runs in which next to nothing was done.
    pub stalled_s: usize,
    /// Failed operations of all runs.
    pub errors: u64,
    /// The share of all operations that failed.
    pub failed_share: f64,
    /// Runs in which the load generator was the limit: they say little about the server.
    pub client_bound_runs: usize,
    /// Operations, as files name them, that not every run of the other side has: they are not compared.
    pub unmatched_operations: Vec<String>,
}

/// The comparison of two sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedSides {
    /// The side that the other is compared with.
    pub base: ComparedSide,
    /// The side that is compared.
    pub other: ComparedSide,
    /// The figures, the rate first.
    pub figures: Vec<ComparedFigure>,
    /// The verdict that they give.
    pub verdict: SideVerdict,
}

/// A figure that both sides have: its operation and kind, and the estimates of the runs of each side.
type Wanted<'a> = (Option<&'a str>, FigureKind, [Vec<Estimate>; 2]);

/// Both sides as they were read.
struct Sides {
    base: Vec<RunFigures>,
    other: Vec<RunFigures>,
}

impl Sides {
    fn read(base: &Path, other: &Path) -> Result<Self, CompareError> {
        let read = |directory: &Path| -> Result<Vec<RunFigures>, CompareError> {
            runs_in(directory)?.iter().map(|run| RunFigures::read(run)).collect()
        };
        Ok(Self { base: read(base)?, other: read(other)? })
    }

    fn compare(&self, usual_spread: f64) -> Result<ComparedSides, CompareError> {
        let is_paced = self.base.iter().chain(&self.other).any(|run| run.is_paced);
        let mut wanted: Vec<Wanted<'_>> = Vec::new();
        let mut want = |operation, kind, of: &dyn Fn(&RunFigures) -> Option<Estimate>| {
            let estimates =
                |runs: &[RunFigures]| -> Option<Vec<Estimate>> { runs.iter().map(of).collect() };
            if let Some((base, other)) = estimates(&self.base).zip(estimates(&self.other)) {
                wanted.push((operation, kind, [base, other]));
            }
        };
        want(None, FigureKind::Rate, &|run| Estimate::of(&run.rates));
        for operation in self.base.iter().take(1).flat_map(|run| run.operations.keys()) {
            type Seconds = fn(&OperationSeconds) -> &Vec<f64>;
            let kinds: [(FigureKind, Seconds); 2] =
                [(FigureKind::Median, |of| &of.median_us), (FigureKind::P99, |of| &of.p99_us)];
            for (kind, seconds) in kinds {
                want(Some(operation.as_str()), kind, &|run| {
                    let of = run.operations.get(operation)?;
                    Some(Estimate::of(seconds(of))?.rounded_to(of.step_us))
                });
            }
        }
        let decides = |kind| (kind == FigureKind::Median) == is_paced && kind != FigureKind::P99;
        let deciding_count = wanted.iter().filter(|(_, kind, _)| decides(*kind)).count();
        let figures: Vec<ComparedFigure> = wanted
            .iter()
            .map(|(operation, kind, [base, other])| {
                let tail = if *kind == FigureKind::P99 { TAIL_SPREADS } else { 1.0 };
                let within_noise = self.are_within_noise(*kind, [base, other]);
                let decides = decides(*kind) && !within_noise;
                let figure_count = if decides { deciding_count } else { wanted.len() };
                let compared = verdict::compare(base, other, usual_spread * tail, figure_count);
                let operation = operation.map(str::to_owned);
                ComparedFigure { operation, kind: *kind, decides, within_noise, compared }
            })
            .collect();
        if figures.is_empty() {
            return Err(CompareError::Nothing);
        }
        let (base, other) = (side(&self.base, &self.other), side(&self.other, &self.base));
        let verdict = match other.fails_more_than(&base) {
            true => SideVerdict::FailsMore,
            false => verdict_of(&figures),
        };
        Ok(ComparedSides { base, other, figures, verdict })
    }

    /// Whether a latency is within the noise in each run of both sides, of which `estimates` are.
    fn are_within_noise(&self, kind: FigureKind, estimates: [&Vec<Estimate>; 2]) -> bool {
        let floor = |run: &RunFigures| match kind {
            FigureKind::Rate => 0,
            FigureKind::Median => run.noise_floor.median_us,
            FigureKind::P99 => run.noise_floor.p99_us,
        };
        let runs = self.base.iter().chain(&self.other);
        let mut values = estimates.into_iter().flatten().map(|estimate| estimate.log.exp());
        runs.zip(&mut values).all(|(run, us)| us < (NOISE_FACTOR * floor(run)) as f64)
    }
}

impl ComparedSide {
    /// Whether failures alone make this side the worse one.
    pub(super) fn fails_more_than(&self, other: &Self) -> bool {
        self.failed_share > FAILED_RATIO * other.failed_share + FAILED_SHARE_MIN
    }
}

fn side(runs: &[RunFigures], others: &[RunFigures]) -> ComparedSide {
    let operations: BTreeSet<&String> = runs.iter().flat_map(|run| run.operations.keys()).collect();
    let is_unmatched = |operation: &&&String| {
        !others.iter().all(|run| run.operations.contains_key(operation.as_str()))
    };
    let errors: u64 = runs.iter().map(|run| run.error_count).sum();
    let all = errors as f64 + runs.iter().map(|run| run.success_count).sum::<f64>();
    let stalled_s = |run: &RunFigures| stalled_count(&run.rates) as f64 * run.span_s;
    ComparedSide {
        runs: runs.iter().map(|run| run.directory.clone()).collect(),
        stalled_s: runs.iter().map(stalled_s).sum::<f64>().round() as usize,
        errors,
        failed_share: errors as f64 / all.max(1.0),
        client_bound_runs: runs.iter().filter(|run| run.is_client_bound).count(),
        unmatched_operations: operations
            .iter()
            .filter(is_unmatched)
            .map(ToString::to_string)
            .collect(),
    }
}

/// Certain differences of any figure, and probable ones of those that decide.
fn verdict_of(figures: &[ComparedFigure]) -> SideVerdict {
    let mut found = [false; 4];
    for figure in figures.iter().filter(|figure| !figure.within_noise) {
        let more_is_better = figure.kind == FigureKind::Rate;
        let (is_better, is_certain) = match figure.compared.verdict {
            Verdict::Same => continue,
            Verdict::Higher => (more_is_better, true),
            Verdict::ProbablyHigher => (more_is_better, false),
            Verdict::Lower => (!more_is_better, true),
            Verdict::ProbablyLower => (!more_is_better, false),
        };
        if is_certain || figure.decides {
            found[usize::from(is_better) * 2 + usize::from(is_certain)] = true;
        }
    }
    let [probably_slower, slower, probably_faster, faster] = found;
    match (slower || probably_slower, faster || probably_faster) {
        (true, true) => SideVerdict::Mixed,
        (true, false) if slower => SideVerdict::Slower,
        (true, false) => SideVerdict::ProbablySlower,
        (false, true) if faster => SideVerdict::Faster,
        (false, true) => SideVerdict::ProbablyFaster,
        (false, false) => SideVerdict::Same,
    }
}
