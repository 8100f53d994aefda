//! Waiting for an engine whose background work is behind.

use crate::error::StoreError;
use std::time::Duration;

/// Pause between two attempts, and maximum number of pauses: ten minutes in all.
const BEHIND_PAUSE: Duration = Duration::from_millis(50);
const BEHIND_COUNT_MAX: usize = 12_000;

/// Repeats a call while the engine returns [`StoreError::Overloaded`], for at most ten minutes.
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
