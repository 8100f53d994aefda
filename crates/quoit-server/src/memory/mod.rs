//! Memory that requests and answers of all client connections may take together.
//!
//! One [`MemoryBudget`] for a node. Each connection has an [`Account`], which takes a fixed allowance from
//! the budget when the connection is accepted: small requests and answers live on it and never ask again.
//! A larger one asks its [`Room`] for more before the memory is taken, and is refused when the connection
//! would have more than its share, or all connections together more than the budget.
//! `docs/design/memory-budget.md` has the reasons and the figures.

mod account;
mod budget;

pub use account::Account;
pub(crate) use account::{Gathered, READ_COPIES, Room};
pub(crate) use budget::REQUEST_COPIES;
pub use budget::{ALLOWANCE_BYTES, MemoryBudget, MemoryFigures, MemorySettings, NoRoom};

/// Bytes of a request that has not arrived as a whole which the allowance has room for.
pub(crate) const REQUESTS_BYTES_FREE: usize = 12 << 10;
/// Bytes of answers that are not sent which the allowance has room for.
pub(crate) const ANSWERS_BYTES_FREE: usize = 40 << 10;

/// Objects above this are read in turns while there are many large requests and answers.
const LARGE_BYTES: u64 = 256 << 10;

/// Whether an object of at most so many bytes, if that is known, is a large one.
pub(crate) fn is_large(size_bytes_max: Option<u64>) -> bool {
    size_bytes_max.is_some_and(|size_bytes| size_bytes > LARGE_BYTES)
}

/// A room in a budget of its own, for tests.
#[cfg(test)]
pub(crate) fn room_of(budget_bytes: u64) -> Room {
    let settings =
        MemorySettings { budget_bytes, share_bytes: budget_bytes, request_bytes_max: 1 << 19 };
    let account = std::sync::Arc::new(MemoryBudget::new(settings)).open();
    account.expect("room for an allowance").room(0)
}
