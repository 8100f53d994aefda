//! One run of a seed, from the start of the cluster to the verdict.

use crate::cluster::Cluster;
use crate::logs::traced;
use crate::random::Random;
use crate::settings::Settings;
use crate::trace::Trace;
use crate::violation::{Violation, ViolationKind};
use quoit_cluster::seed_elections;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Report of a run.
pub struct Report {
    /// Its seed.
    pub seed: u64,
    /// `Ok` if every check passed, otherwise the first violation that was found.
    pub verdict: Result<(), Violation>,
    /// Its story.
    pub trace: Trace,
}

/// Runs a seed. A panic of any part of the simulated world is reported as [`ViolationKind::Broken`].
#[must_use]
pub fn run(seed: u64, settings: &Settings) -> Report {
    seed_elections(Random::new(seed, "elections", 0).number());
    let mut cluster = Cluster::new(seed, &settings.with_family(seed));
    let trace = cluster.trace().clone();
    let logged = || traced(&trace, settings.log_level, || cluster.run());
    let verdict = catch_unwind(AssertUnwindSafe(logged)).unwrap_or_else(|panic| {
        let text = format!("a panic: {}", panic_text(&*panic));
        Err(Violation::new(ViolationKind::Broken, text))
    });
    Report { seed, verdict, trace }
}

fn panic_text(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("without words")
}
