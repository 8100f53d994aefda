//! The profiles there are.

use super::{EngineName, EngineOptions, beyond, heads};
use anyhow::Result;
use clap::ValueEnum;
use std::time::Duration;

/// Runs that end by themselves may take so many times the length of others.
const FILL_LIMIT_FACTOR: u64 = 10;

/// A profile of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Profile {
    /// Heads and whole records of 8 kB at the engine, cold and cached.
    Heads,
    /// 4 GiB of 5 kB values on a node with 1 GiB, keys uniform.
    BeyondUniform,
    /// The same, keys Pareto-distributed.
    BeyondPareto,
}

impl Profile {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Heads => "heads",
            Self::BeyondUniform => "beyond-uniform",
            Self::BeyondPareto => "beyond-pareto",
        }
    }

    pub(super) const fn about(self) -> &'static str {
        match self {
            Self::Heads => "heads beside whole records of 8 kB, at the engine",
            Self::BeyondUniform => "4 GiB of 5 kB values in 1 GiB of memory, uniform",
            Self::BeyondPareto => "4 GiB of 5 kB values in 1 GiB of memory, Pareto",
        }
    }

    /// The engines that it is about.
    pub(super) const fn engines(self) -> &'static [EngineName] {
        match self {
            Self::Heads => &[
                EngineName::Bitcask,
                EngineName::Leveled,
                EngineName::Leveldb,
                EngineName::Innostore,
            ],
            _ => &EngineName::ALL,
        }
    }

    /// About how long an engine takes, in seconds: most without a length are from a machine with two
    /// processors, the slowest engine counts.
    pub(super) fn seconds(self, options: &EngineOptions) -> u64 {
        let scaled = |seconds: u64| (seconds as f64 * options.scale).ceil() as u64;
        let each = options.duration_s;
        match self {
            Self::Heads => scaled(60),
            Self::BeyondUniform | Self::BeyondPareto => scaled(300) + 3 * each + 90,
        }
    }

    /// Runs it; gives its table.
    pub(super) fn run(self, options: &EngineOptions) -> Result<String> {
        match self {
            Self::Heads => heads::run(options, &options.engines(self)),
            Self::BeyondUniform | Self::BeyondPareto => beyond::run(self, options),
        }
    }
}

/// The length of a run that has one.
pub(super) const fn length(options: &EngineOptions) -> Duration {
    Duration::from_secs(options.duration_s)
}

/// The longest that a run may take which ends by itself.
pub(super) const fn fill_limit(options: &EngineOptions) -> Duration {
    Duration::from_secs(options.duration_s * FILL_LIMIT_FACTOR)
}
