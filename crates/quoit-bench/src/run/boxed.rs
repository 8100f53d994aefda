//! Futures without their type.
//!
//! A runtime's code for a task is compiled for each type of future. The futures of runs have another type for
//! each driver.

use std::pin::Pin;

/// Boxes a future that is run once in each thread or worker.
pub(super) fn boxed<'a, T>(
    future: impl Future<Output = T> + 'a,
) -> Pin<Box<dyn Future<Output = T> + 'a>> {
    Box::pin(future)
}
