//! The profiles.

use super::{EngineName, EngineOptions, beyond_memory, heads};
use anyhow::Result;
use clap::ValueEnum;
use std::time::Duration;

/// Factor by which runs with a fixed number of records may take longer than others.
const FILL_LIMIT_FACTOR: u64 = 10;

/// A profile of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(crate) enum Profile {
    /// Heads and whole records of 8 kB, read from the engine, uncached and cached.
    Heads,
    /// 4 GiB of 5 kB values on a node with 1 GiB of memory, uniformly distributed keys.
    BeyondUniform,
    /// 4 GiB of 5 kB values on a node with 1 GiB of memory, Pareto-distributed keys.
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

    /// The engines that the profile compares.
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

    /// Estimated time for one engine, in seconds. The parts without a fixed length were measured on a
    /// machine with two processors, with the slowest engine.
    pub(super) fn seconds(self, options: &EngineOptions) -> u64 {
        let scaled = |seconds: u64| quoit_number::whole((seconds as f64 * options.scale).ceil());
        let each = options.duration_s;
        match self {
            Self::Heads => scaled(60),
            Self::BeyondUniform | Self::BeyondPareto => scaled(300) + 3 * each + 90,
        }
    }

    /// Runs the profile, and returns its table.
    pub(super) fn run(self, options: &EngineOptions) -> Result<String> {
        match self {
            Self::Heads => heads::run(options, &options.engines(self)),
            Self::BeyondUniform | Self::BeyondPareto => beyond_memory::run(self, options),
        }
    }
}

/// The length of a run with a fixed length.
pub(super) const fn length(options: &EngineOptions) -> Duration {
    Duration::from_secs(options.duration_s)
}

/// The longest time for a run with a fixed number of records.
pub(super) const fn fill_limit(options: &EngineOptions) -> Duration {
    Duration::from_secs(options.duration_s * FILL_LIMIT_FACTOR)
}
