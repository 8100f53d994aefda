//! Memory that requests and answers of all client connections may take together.
//!
//! A node has one [`MemoryBudget`]. Each connection has a [`ConnectionMemory`], which takes a fixed
//! allowance from the budget when the connection is accepted. Small requests and answers fit into the
//! allowance and never ask again. A larger one asks its [`MemoryReservation`] for more before it takes the
//! memory. It is refused if the connection would exceed its share, or if all connections together would
//! exceed the budget. `docs/design/memory-budget.md` has the reasons and the figures.

mod budget;
mod connection;

pub(crate) use budget::REQUEST_COPIES;
pub use budget::{ALLOWANCE_BYTES, MemoryBudget, MemoryFigures, MemorySettings, NoMemory};
pub use connection::ConnectionMemory;
pub(crate) use connection::{GatheredMemory, MemoryReservation, READ_COPIES};

/// Bytes of incomplete requests that the allowance covers.
pub(crate) const REQUESTS_BYTES_FREE: usize = 12 << 10;
/// Bytes of unsent answers that the allowance covers.
pub(crate) const ANSWERS_BYTES_FREE: usize = 40 << 10;

/// Size in bytes above which an object is large. Large objects are read on a thread of low priority while
/// many large requests and answers are in progress.
const LARGE_BYTES: u64 = 256 << 10;

/// True if `size_bytes_max`, the upper bound of an object's size, is known and above the limit of large
/// objects.
pub(crate) fn is_large(size_bytes_max: Option<u64>) -> bool {
    size_bytes_max.is_some_and(|size_bytes| size_bytes > LARGE_BYTES)
}

/// Creates a reservation in a budget of its own, for tests.
#[cfg(test)]
pub(crate) fn reservation_of(budget_bytes: u64) -> MemoryReservation {
    let settings =
        MemorySettings { budget_bytes, share_bytes: budget_bytes, request_bytes_max: 1 << 19 };
    let memory = std::sync::Arc::new(MemoryBudget::new(settings)).open();
    memory.expect("room for an allowance").reservation(0)
}
