//! Figures of a cell: their notation in campaigns, and their computation from the results of a run.

use super::measured::MeasuredCell;
use crate::config::file_label;
use crate::measure::Latencies;
use crate::term::Term;
use std::fmt::{self, Display, Formatter};

/// A statistic of latencies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Statistic {
    Mean,
    Median,
    P95,
    P99,
    P99_9,
    Max,
}

impl Statistic {
    fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "mean" => Self::Mean,
            "median" => Self::Median,
            "p95" => Self::P95,
            "p99" => Self::P99,
            "p99_9" => Self::P99_9,
            "max" => Self::Max,
            _ => return None,
        })
    }

    fn ms(self, latencies: &Latencies) -> f64 {
        let us = match self {
            Self::Mean => latencies.mean_us,
            Self::Median => latencies.median_us as f64,
            Self::P95 => latencies.p95_us as f64,
            Self::P99 => latencies.p99_us as f64,
            Self::P99_9 => latencies.p99_9_us as f64,
            Self::Max => latencies.max_us as f64,
        };
        us / 1000.0
    }
}

impl Display for Statistic {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::P95 => "p95",
            Self::P99 => "p99",
            Self::P99_9 => "p99.9",
            Self::Max => "max",
        })
    }
}

/// A column of the experiment with growing data types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GrowthColumn {
    Size,
    PlainRead,
    Read,
    Write,
}

impl GrowthColumn {
    fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "size" => Self::Size,
            "plain_read" => Self::PlainRead,
            "read" => Self::Read,
            "write" => Self::Write,
            _ => return None,
        })
    }
}

impl Display for GrowthColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Size => "size",
            Self::PlainRead => "plain read",
            Self::Read => "read",
            Self::Write => "write",
        })
    }
}

/// A resource of the servers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerResource {
    /// Processor time.
    Cpu,
    /// Bytes read from disks.
    Read,
    /// Bytes written to disks.
    Written,
}

impl ServerResource {
    fn of_word(word: &str) -> Option<Self> {
        Some(match word {
            "cpu" => Self::Cpu,
            "read" => Self::Read,
            "written" => Self::Written,
            _ => return None,
        })
    }
}

impl Display for ServerResource {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Cpu => "processor time",
            Self::Read => "bytes read",
            Self::Written => "bytes written",
        })
    }
}

/// One of the equal parts of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RunPart {
    /// Number of the part, from 1.
    pub(super) number: usize,
    /// Number of parts.
    pub(super) count: usize,
}

/// A figure of a cell.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum CampaignFigure {
    /// Successful operations per second.
    Rate,
    /// Successful operations per second, divided by the number of nodes.
    RateOfNode,
    /// Successful operations per second in a part of the run.
    RateInPart(RunPart),
    /// Failed operations in percent of all operations.
    Failed,
    /// A statistic of an operation's latencies, in milliseconds.
    Latency { statistic: Statistic, operation: String },
    /// The mean latency of an operation minus that of another, in milliseconds: the cost of the additional
    /// work.
    Extra { operation: String, over: String },
    /// The same difference, in percent of the other operation's mean.
    ExtraPercent { operation: String, over: String },
    /// A resource that all servers used per successful operation, including their background work.
    Server(ServerResource),
    /// The last tenth of a growing data type, as a multiple of the first tenth.
    Growth(GrowthColumn),
    /// The median of the last tenth of a growing data type, in milliseconds or bytes.
    AtEnd(GrowthColumn),
}

/// The notation of figures, for error messages.
pub(super) const FORMS: &str = "rate, rate_of_node, {rate, Part, Parts}, failed, {Statistic, Operation} with \
                                mean, median, p95, p99, p99_9 or max, {extra, Operation, Over}, \
                                {extra_percent, Operation, Over}, {server, cpu}, {server, read}, \
                                {server, written}, {growth, Column} or {at_end, Column} \
                                with size, plain_read, read or write";

impl CampaignFigure {
    /// Parses a figure.
    pub(super) fn read(term: &Term) -> Option<Self> {
        if let Some(word) = term.as_atom() {
            return match word {
                "rate" => Some(Self::Rate),
                "rate_of_node" => Some(Self::RateOfNode),
                "failed" => Some(Self::Failed),
                _ => None,
            };
        }
        let parts = term.as_tuple()?;
        let word = parts.first()?.as_atom()?;
        let argument = || parts.get(1)?.as_atom();
        let name = |index: usize| parts.get(index).map(file_label);
        let number = |index: usize| usize::try_from(parts.get(index)?.as_integer()?).ok();
        match (word, parts.len()) {
            ("rate", 3) => {
                let part = RunPart { number: number(1)?, count: number(2)? };
                let is_good = (1..=part.count).contains(&part.number) && part.count <= 1000;
                is_good.then_some(Self::RateInPart(part))
            }
            ("extra", 3) => Some(Self::Extra { operation: name(1)?, over: name(2)? }),
            ("extra_percent", 3) => {
                Some(Self::ExtraPercent { operation: name(1)?, over: name(2)? })
            }
            ("server", 2) => Some(Self::Server(ServerResource::of_word(argument()?)?)),
            ("growth", 2) => Some(Self::Growth(GrowthColumn::of_word(argument()?)?)),
            ("at_end", 2) => Some(Self::AtEnd(GrowthColumn::of_word(argument()?)?)),
            (statistic, 2) => {
                let statistic = Statistic::of_word(statistic)?;
                Some(Self::Latency { statistic, operation: name(1)? })
            }
            _ => None,
        }
    }

    /// Unit of the value; empty for a ratio.
    pub(super) fn unit(&self) -> &'static str {
        match self {
            Self::Rate | Self::RateOfNode | Self::RateInPart(_) => "op/s",
            Self::Failed | Self::ExtraPercent { .. } => "%",
            Self::Latency { .. } | Self::Extra { .. } => "ms",
            Self::Server(ServerResource::Cpu) => "us/op",
            Self::Server(ServerResource::Read | ServerResource::Written) => "bytes/op",
            Self::Growth(_) => "",
            Self::AtEnd(GrowthColumn::Size) => "bytes",
            Self::AtEnd(_) => "ms",
        }
    }

    /// Computes the figure of a cell; `None` if the cell's results do not have it.
    pub(super) fn measure(&self, cell: &MeasuredCell) -> Option<f64> {
        match self {
            Self::Rate => Some(cell.summary()?.successful_per_s),
            Self::RateOfNode => Some(cell.summary()?.successful_per_s / f64::from(cell.node_count)),
            Self::RateInPart(part) => cell.rate_in(*part),
            Self::Failed => {
                let summary = cell.summary()?;
                let all = summary.successful + summary.failed;
                (all > 0).then(|| 100.0 * summary.failed as f64 / all as f64)
            }
            Self::Latency { statistic, operation } => {
                Some(statistic.ms(cell.latencies(operation)?))
            }
            Self::Extra { operation, over } => {
                let [own, other] = cell.means_ms([operation, over])?;
                Some(own - other)
            }
            Self::ExtraPercent { operation, over } => {
                let [own, other] = cell.means_ms([operation, over])?;
                (other > 0.0).then(|| 100.0 * (own - other) / other)
            }
            Self::Server(resource) => cell.server_use(*resource),
            Self::Growth(column) => {
                let (first, last) = cell.growth_ends(*column)?;
                (first > 0.0).then(|| last / first)
            }
            Self::AtEnd(column) => Some(cell.growth_ends(*column)?.1),
        }
    }
}

impl Display for CampaignFigure {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rate => f.write_str("rate"),
            Self::RateOfNode => f.write_str("rate of a node"),
            Self::RateInPart(RunPart { number, count }) => {
                write!(f, "rate in part {number} of {count}")
            }
            Self::Failed => f.write_str("failed"),
            Self::Latency { statistic, operation } => write!(f, "{operation} {statistic}"),
            Self::Extra { operation, over } => write!(f, "{operation} beyond {over}, mean"),
            Self::ExtraPercent { operation, over } => write!(f, "{operation} beyond {over}, share"),
            Self::Server(resource) => write!(f, "servers: {resource}"),
            Self::Growth(column) => write!(f, "{column}: last tenth by the first"),
            Self::AtEnd(column) => write!(f, "{column} in the last tenth"),
        }
    }
}
