//! Waiting for an event that must happen.

use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Waits until `happened` returns true.
///
/// # Panics
///
/// If it does not within `patience`.
pub async fn until(patience: Duration, what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    let pause = (patience / 2_000).max(Duration::from_millis(20));
    while !happened() {
        assert!(Instant::now() < end, "in vain: {what}");
        sleep(pause).await;
    }
}
