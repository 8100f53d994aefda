//! One run: a cluster, its clients, what goes wrong, and the verdict.

use crate::check::{self, Violation};
use crate::cluster::Cluster;
use crate::planted::Planted;
use crate::random::Random;
use crate::trace::{LINE_COUNT_DEFAULT, Trace};
use quoit_cluster::seed_elections;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// How a run is made. The seed decides everything that is not said here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Machines of the cluster.
    pub machine_count: usize,
    /// Clients.
    pub client_count: u64,
    /// Requests of each client.
    pub operation_count: u64,
    /// Keys that they ask for.
    pub key_count: u64,
    /// A bug to plant, for tests of the checkers.
    pub planted: Option<Planted>,
    /// Lines of the trace that are kept.
    pub line_count_max: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            machine_count: 1,
            client_count: 4,
            operation_count: 60,
            key_count: 12,
            planted: None,
            line_count_max: LINE_COUNT_DEFAULT,
        }
    }
}

/// What came of a run.
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// What went wrong, if anything.
    pub verdict: Result<(), Violation>,
    /// Its story.
    pub trace: Trace,
}

/// Runs a seed.
#[must_use]
pub fn run(seed: u64, settings: &Settings) -> Report {
    seed_elections(Random::new(seed, "elections", 0).number());
    let mut cluster = Cluster::new(seed, settings);
    let trace = cluster.trace().clone();
    let verdict = catch_unwind(AssertUnwindSafe(|| cluster.run())).unwrap_or_else(|panic| {
        let text = format!("a panic: {}", panic_text(&*panic));
        Err(Violation::new(check::Fault::Broken, text))
    });
    Report { seed, verdict, trace }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}
