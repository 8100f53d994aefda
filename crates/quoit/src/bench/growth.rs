//! `quoit bench crdt-growth`: the cost of a set or a map while it grows.

use clap::{Args, ValueEnum};
use quoit_bench::growth::GrowthKind;
use quoit_bench::growth_command::GrowthOptions;
use std::path::PathBuf;

/// Containers to grow, and the server that stores them.
#[derive(Args, Debug)]
pub(super) struct GrowthArgs {
    /// Type of container that grows; also the name of the bucket type.
    #[arg(long = "type", value_name = "TYPE")]
    kind: GrowthType,
    /// Number of items that each container gets.
    #[arg(long, value_name = "N", default_value_t = 15_000)]
    pub(super) items: u64,
    /// Number of containers that grow side by side; their keys are 1, 2, 3...
    #[arg(long, value_name = "M", default_value_t = 1)]
    pub(super) containers: u64,
    /// Host and port of the server's Protocol Buffers interface.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8087")]
    pub(super) target: String,
    /// Directory in which each run gets a directory of its own [default: ./tests].
    #[arg(short = 'd', long, value_name = "DIR")]
    results_dir: Option<PathBuf>,
    /// Name of the run's directory [default: the local time].
    #[arg(short = 'n', long = "bench-name", value_name = "NAME")]
    name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum GrowthType {
    /// Maps with one field each: a set.
    Maps,
    /// Sets.
    Sets,
}

impl GrowthArgs {
    pub(super) fn options(&self) -> GrowthOptions {
        GrowthOptions {
            kind: match self.kind {
                GrowthType::Maps => GrowthKind::Maps,
                GrowthType::Sets => GrowthKind::Sets,
            },
            item_count: self.items,
            container_count: self.containers,
            target: self.target.clone(),
            results_dir: self.results_dir.clone(),
            name: self.name.clone(),
        }
    }
}
