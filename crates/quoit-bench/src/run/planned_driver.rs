//! The interface between a run and its driver, independent of the driver's type.
//!
//! Each driver has types of its own for its settings and operations. If the run were generic over them, the
//! compiler would compile it once for each driver. So only the loops of workers and of the read-back know the
//! driver's type. Everything else calls the driver through this interface, and never once for each operation.

use std::pin::Pin;
use std::sync::Arc;

use super::key_reader::KeyReader;
use super::mix::OperationNumber;
use super::shared::WorkerTask;
use crate::driver::SystemRequirements;

/// The future of a worker. It stays on the thread that started it.
pub(crate) type WorkerFuture = Pin<Box<dyn Future<Output = ()>>>;

/// The future of a driver's preparations. Its output is the notices to print.
pub(crate) type PreparationFuture<'a> = Pin<Box<dyn Future<Output = Vec<String>> + 'a>>;

/// A driver whose settings have been read, with the operations of the configuration.
pub(crate) trait PlannedDriver: Send + Sync {
    /// Name of the driver in configurations, without `basho_bench_driver_`.
    fn name(&self) -> &'static str;

    /// Names of the server lists that `--target LIST=HOST:PORT` selects.
    fn target_lists(&self) -> &'static [&'static str];

    /// Requirements of the settings on the system under test.
    fn system_requirements(&self) -> SystemRequirements;

    /// Notices about the settings, to be printed before a run.
    fn notices(&self) -> Vec<String>;

    /// True if the operation draws values.
    fn draws_values(&self, operation: OperationNumber) -> bool;

    /// Prepares the system under test, once, before the workers connect.
    fn prepare(&self) -> PreparationFuture<'_>;

    /// The work of one worker, from its connection to the end of the run. Costs one allocation for each
    /// worker.
    fn work(self: Arc<Self>, task: WorkerTask) -> WorkerFuture;

    /// The work of one reader of the read-back: it connects and reads keys until all are read. Costs one
    /// allocation for each reader.
    fn read_back(self: Arc<Self>, reader: KeyReader) -> WorkerFuture;
}
