//! Comparison of runs: the difference between two sides, and a test of its significance.
//!
//! A side is one run or several. Each figure is compared by its typical second. The verdict follows the
//! rate in a closed loop, and the median latency if the rate was given, unless another figure differs
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
use verdict::SideEstimates;

/// Assumed standard deviation of rates and medians from run to run, as a share of the value.
pub const USUAL_SPREAD: f64 = 0.03;
/// Factor on that deviation for the 99th percentile, which varies more.
const TAIL_SPREADS: f64 = 3.0;

/// A side fails more than another if its share of failed operations exceeds this multiple of the other's
/// plus [`FAILED_SHARE_MIN`]. Single failures are not a difference between servers.
const FAILED_RATIO: f64 = 2.0;
/// See [`FAILED_RATIO`].
const FAILED_SHARE_MIN: f64 = 0.001;

/// Reasons why runs can't be compared.
#[derive(Debug, Error)]
pub enum CompareError {
    /// A directory can't be read.
    #[error("{} can't be read: {error}", .path.display())]
    Unreadable {
        /// Path of the directory.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
    /// A directory is not the directory of a run and contains no such directory.
    #[error(
        "{} holds no results of a run, nor directories that do; name the directory of a run, such as \
         tests/current, or configurations with --repeat",
        .0.display()
    )]
    NoRuns(PathBuf),
    /// A run can't be read.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// The histograms of a run's intervals can't be read.
    #[error(transparent)]
    Intervals(#[from] IntervalError),
    /// A run of `--repeat` failed.
    #[error("the run {name} failed: {error}")]
    Run {
        /// Name of the run.
        name: String,
        /// Error of the run.
        error: RunError,
    },
    /// A configuration without `--repeat`, or a directory with it.
    #[error("{} is {}", .path.display(), .problem)]
    Kind {
        /// Path of the argument.
        path: PathBuf,
        /// The fault, and the alternative.
        problem: &'static str,
    },
    /// No figure has enough seconds on both sides.
    #[error(
        "there is nothing to compare: no figure has a success in five seconds (of a run of basho_bench: in \
         five rows) of the runs of both sides"
    )]
    Nothing,
    /// The page can't be written.
    #[error("{} can't be written: {error}", .path.display())]
    Unwritable {
        /// Path of the page.
        path: PathBuf,
        /// The I/O error.
        error: io::Error,
    },
}

/// The kind of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FigureKind {
    /// Successful operations per second; more is better.
    Rate,
    /// The median latency in microseconds; less is better.
    Median,
    /// The 99th percentile of the latency in microseconds; less is better.
    P99,
}

/// A figure of both sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedFigure {
    /// The operation; `None` for all together.
    pub operation: Option<String>,
    /// Kind of the figure.
    pub kind: FigureKind,
    /// True if the figure can decide the verdict.
    pub decides: bool,
    /// True if both sides are within the noise of their load generators. A difference is then one of the
    /// load generators.
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
    /// The second side is faster by one figure and slower by another.
    Mixed,
    /// More operations of the second side fail, however fast the others are.
    FailsMore,
}

impl SideVerdict {
    /// True if the second side is worse by some figure, certainly or probably, or fails more.
    fn is_worse(self) -> bool {
        matches!(self, Self::Slower | Self::ProbablySlower | Self::Mixed | Self::FailsMore)
    }
}

/// One side of a comparison, in the answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedSide {
    /// Directories of its runs.
    pub runs: Vec<PathBuf>,
    /// Seconds, over all runs, in which hardly anything was done.
    pub stalled_s: u64,
    /// Number of failed operations of all runs.
    pub errors: u64,
    /// Share of all operations that failed, from 0 to 1.
    pub failed_share: f64,
    /// Number of runs in which the load generator was the limit. They say little about the server.
    pub client_bound_runs: usize,
    /// File labels of operations that not every run of the other side has, so that they are not compared.
    pub unmatched_operations: Vec<String>,
}

/// The comparison of two sides.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedSides {
    /// The side that the other one is compared with.
    pub base: ComparedSide,
    /// The side that is compared.
    pub other: ComparedSide,
    /// The figures, the rate first.
    pub figures: Vec<ComparedFigure>,
    /// The verdict on the figures.
    pub verdict: SideVerdict,
}

/// A figure that both sides have: operation, kind, and the estimates from the runs of each side.
type Wanted<'a> = (Option<&'a str>, FigureKind, [Vec<Estimate>; 2]);

/// The figures of both sides.
struct Sides {
    base: Vec<RunFigures>,
    other: Vec<RunFigures>,
}

/// The figures of the runs in a directory.
fn read_runs(directory: &Path) -> Result<Vec<RunFigures>, CompareError> {
    runs_in(directory)?.iter().map(|run| RunFigures::read(run)).collect()
}

impl Sides {
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
                let compared =
                    SideEstimates { base, other }.compare(usual_spread * tail, figure_count);
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

    /// True if a latency is within the noise in every run of both sides. `estimates` are those of the runs.
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
    /// True if failures alone make this side the worse one.
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
        stalled_s: quoit_number::rounded(runs.iter().map(stalled_s).sum()),
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

/// The verdict on all figures. Certain differences of any figure count, probable ones only if the figure
/// decides.
fn verdict_of(figures: &[ComparedFigure]) -> SideVerdict {
    let (mut probably_slower, mut slower) = (false, false);
    let (mut probably_faster, mut faster) = (false, false);
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
            let found = match (is_better, is_certain) {
                (false, false) => &mut probably_slower,
                (false, true) => &mut slower,
                (true, false) => &mut probably_faster,
                (true, true) => &mut faster,
            };
            *found = true;
        }
    }
    match (slower || probably_slower, faster || probably_faster) {
        (true, true) => SideVerdict::Mixed,
        (true, false) if slower => SideVerdict::Slower,
        (true, false) => SideVerdict::ProbablySlower,
        (false, true) if faster => SideVerdict::Faster,
        (false, true) => SideVerdict::ProbablyFaster,
        (false, false) => SideVerdict::Same,
    }
}
