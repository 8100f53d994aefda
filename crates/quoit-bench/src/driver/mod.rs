//! Drivers: what one operation does to the system under test.
//!
//! A driver is one file that implements [`Driver`] and one line in [`run_named`]. It owns the
//! connection of one worker and performs one operation at a time; how often, how long and how it
//! is counted is the business of the run.

mod http_raw;
mod inputs;
mod null;
mod riakc_pb;

use std::future::Future;

pub use inputs::Inputs;
use thiserror::Error;

use crate::config::{Config, ConfigError};
use crate::keygen::Kind;
use crate::run::{RunError, RunReport, RunSetup, run_driver};
use crate::term::Term;
use crate::worker_place::WorkerPlace;

/// What one operation came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It succeeded; its latency counts.
    Success,
    /// It is not counted at all, and the next one starts at once.
    Silent,
    /// It failed, for this reason.
    Failure(Term),
    /// The worker has nothing left to do and ends normally.
    Stop,
}

/// Why a worker's driver cannot start.
#[derive(Debug, Error)]
pub enum StartError {
    /// The server is not to be reached.
    #[error("cannot connect to {target}: {reason}; is the server running there?")]
    Connect {
        /// Host and port.
        target: String,
        /// What connecting gave.
        reason: String,
    },
}

/// The system under test as one worker sees it.
///
/// Operations are not `Send`: a worker stays on the thread that started it.
pub trait Driver: Sized + 'static {
    /// The name in configurations, without `basho_bench_driver_`.
    const NAME: &'static str;

    /// The operations, as they are told to somebody who asked for another.
    const OPERATIONS: &'static str;

    /// An operation with its arguments, checked.
    type Operation: Copy + Send + Sync + 'static;

    /// What all workers share: the driver's settings, read once.
    type Plan: Send + Sync + 'static;

    /// Reads the driver's settings.
    ///
    /// # Errors
    ///
    /// When a setting, or a generator's kind, does not fit the driver.
    fn plan(config: &Config) -> Result<Self::Plan, ConfigError>;

    /// The operation of a term, or nothing when the driver does not have it.
    fn operation(term: &Term) -> Option<Self::Operation>;

    /// True when the operation draws values.
    fn draws_values(operation: Self::Operation) -> bool;

    /// Connects one worker.
    fn connect(
        plan: &Self::Plan,
        place: WorkerPlace,
    ) -> impl Future<Output = Result<Self, StartError>>;

    /// Performs one operation: all its requests one after the other, retries included.
    fn perform(
        &mut self,
        plan: &Self::Plan,
        operation: Self::Operation,
        inputs: &mut Inputs,
    ) -> impl Future<Output = Outcome>;
}

/// Runs a configuration with the driver that it names.
pub(crate) fn run_named(setup: RunSetup<'_>) -> Result<RunReport, RunError> {
    match setup.config.driver.as_str() {
        http_raw::HttpRaw::NAME => run_driver::<http_raw::HttpRaw>(setup),
        riakc_pb::RiakcPb::NAME => run_driver::<riakc_pb::RiakcPb>(setup),
        null::Null::NAME => run_driver::<null::Null>(setup),
        other => Err(not_offered(setup.config, other).into()),
    }
}

fn not_offered(config: &Config, name: &str) -> ConfigError {
    const OFFERED: [&str; 3] = [http_raw::HttpRaw::NAME, riakc_pb::RiakcPb::NAME, null::Null::NAME];
    let remedy = match crate::names::nearest(name, &OFFERED) {
        Some(nearest) => format!("did you mean {nearest}?"),
        None => format!("there are {}", OFFERED.join(", ")),
    };
    let place = config.settings.place("driver");
    ConfigError::Driver { place, name: name.to_owned(), remedy }
}

/// Checks that values are bytes, as drivers that store them want.
fn check_values_are_bytes(config: &Config, driver: &str) -> Result<(), ConfigError> {
    if config.value_generator.kind() == Kind::Integer {
        let expected = format!("the driver {driver} stores bytes: write for instance fixed_bin");
        return Err(config.settings.value_error("value_generator", expected));
    }
    Ok(())
}
