//! Drivers as the run sees them, made from a driver's type and a configuration.

use std::sync::Arc;

use super::key_reader::{KeyReader, read_keys};
use super::mix::OperationNumber;
use super::planned_driver::{PlannedDriver, PreparationFuture, WorkerFuture};
use super::shared::WorkerTask;
use super::worker::work;
use crate::config::{Config, ConfigError, OperationEntry};
use crate::driver::{Driver, DriverTask, SystemRequirements, check_verifies, with_named};
use crate::term::Term;

/// Reads the settings of the driver that the configuration names, and checks its operations.
///
/// # Errors
///
/// When no driver has the configured name, or the driver rejects a setting or lacks an operation.
pub(crate) fn plan_driver(config: &Config) -> Result<Arc<dyn PlannedDriver>, ConfigError> {
    with_named(config, PlanTask(config))?
}

struct PlanTask<'a>(&'a Config);

impl DriverTask for PlanTask<'_> {
    type Output = Result<Arc<dyn PlannedDriver>, ConfigError>;

    fn with<D: Driver>(self) -> Self::Output {
        Ok(Arc::new(TypedDriver::<D>::plan(self.0)?))
    }
}

/// A driver of one type, with its settings and the operations of the configuration.
pub(super) struct TypedDriver<D: Driver> {
    plan: D::Plan,
    /// The operation of each entry of the configuration, in that order.
    operations: Vec<D::Operation>,
}

impl<D: Driver> TypedDriver<D> {
    /// Reads the driver's settings and the configured operations.
    ///
    /// # Errors
    ///
    /// When the driver rejects a setting, cannot verify a run that verifies, or lacks an operation.
    pub(super) fn plan(config: &Config) -> Result<Self, ConfigError> {
        let plan = D::plan(config)?;
        check_verifies::<D>(config)?;
        let operation_of = |entry: &OperationEntry| {
            D::operation(&plan, &entry.operation)
                .ok_or_else(|| no_operation(entry, D::NAME, D::OPERATIONS, D::missing))
        };
        let operations = config.operations.iter().map(operation_of).collect::<Result<_, _>>()?;
        Ok(Self { plan, operations })
    }
}

impl<D: Driver> PlannedDriver for TypedDriver<D> {
    fn name(&self) -> &'static str {
        D::NAME
    }

    fn target_lists(&self) -> &'static [&'static str] {
        D::TARGET_LISTS
    }

    fn system_requirements(&self) -> SystemRequirements {
        D::system_requirements(&self.plan)
    }

    fn notices(&self) -> Vec<String> {
        D::notices(&self.plan)
    }

    fn draws_values(&self, operation: OperationNumber) -> bool {
        D::draws_values(operation.of(&self.operations))
    }

    fn prepare(&self) -> PreparationFuture<'_> {
        Box::pin(D::prepare(&self.plan))
    }

    fn work(self: Arc<Self>, task: WorkerTask) -> WorkerFuture {
        Box::pin(async move { work::<D>(&self.plan, &self.operations, task).await })
    }

    fn read_back(self: Arc<Self>, reader: KeyReader) -> WorkerFuture {
        Box::pin(async move { read_keys::<D>(&self.plan, &reader).await })
    }
}

/// The error for an operation that the driver `driver` does not have. `missing` has the reasons why
/// operations of basho_bench's driver are not offered.
fn no_operation(
    entry: &OperationEntry,
    driver: &'static str,
    known: &str,
    missing: fn(&Term) -> Option<&'static str>,
) -> ConfigError {
    let (place, operation) = (entry.place.clone(), Box::new(entry.operation.clone()));
    match missing(&entry.operation) {
        Some(reason) => ConfigError::OperationMissing { place, driver, operation, reason },
        None => ConfigError::Operation { place, driver, operation, known: known.to_owned() },
    }
}
