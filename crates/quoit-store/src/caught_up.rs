//! Waiting for an engine that is behind.

use crate::error::StoreError;
use std::time::Duration;

/// An engine is given so long to catch up, and that often.
const BEHIND_PAUSE: Duration = Duration::from_millis(50);
const BEHIND_COUNT_MAX: usize = 12_000;

/// Repeats what an engine refuses because it is behind, for a bounded time.
pub(crate) fn caught_up<T>(
    mut ask: impl FnMut() -> Result<T, StoreError>,
) -> Result<T, StoreError> {
    for _ in 0..BEHIND_COUNT_MAX {
        match ask() {
            Err(StoreError::Overloaded) => std::thread::sleep(BEHIND_PAUSE),
            answer => return answer,
        }
    }
    ask()
}
