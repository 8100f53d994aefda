//! Waiting for what must happen.

use std::time::Duration;
use tokio::time::{Instant, sleep};

/// Waits until something has happened that must.
///
/// # Panics
///
/// When it has not happened after `patience`.
pub async fn until(patience: Duration, what: &str, mut happened: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    let pause = (patience / 2_000).max(Duration::from_millis(20));
    while !happened() {
        assert!(Instant::now() < end, "in vain: {what}");
        sleep(pause).await;
    }
}
