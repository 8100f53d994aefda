//! Limits for log lines that unknown nodes could cause at will.

use parking_lot::Mutex;
use std::collections::HashMap;
use std::time::Duration;
use tokio::time::Instant;

/// Maximum number of lines in each period. Further lines are counted, and the count is logged in a later
/// period.
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(10);

/// Time for which a line with the same words is not written again.
const SAME_PERIOD: Duration = Duration::from_secs(3_600);
/// Maximum number of different words that are remembered.
const SAME_COUNT_MAX: usize = 64;

/// Limits the rate of log lines.
pub(super) struct LogLimiter {
    state: Mutex<LogLimiterState>,
    /// Last time at which words were written.
    written: Mutex<HashMap<String, Instant>>,
}

struct LogLimiterState {
    period_start: Instant,
    said_count: u32,
    kept_back_count: u64,
}

impl Default for LogLimiter {
    fn default() -> LogLimiter {
        let state =
            LogLimiterState { period_start: Instant::now(), said_count: 0, kept_back_count: 0 };
        LogLimiter { state: Mutex::new(state), written: Mutex::default() }
    }
}

impl LogLimiter {
    /// Calls `line` unless the same words were written recently, or too many lines. Returns true if it was
    /// called.
    pub(super) fn log_if_new(&self, words: &str, line: impl FnOnce()) -> bool {
        let now = Instant::now();
        let mut written = self.written.lock();
        written.retain(|_, at| now.saturating_duration_since(*at) < SAME_PERIOD);
        if written.contains_key(words) || !self.say(line) {
            return false;
        }
        if written.len() < SAME_COUNT_MAX {
            written.insert(words.to_owned(), now);
        }
        true
    }

    /// Calls `line` unless too many lines were written recently. Returns true if it was called.
    pub(super) fn say(&self, line: impl FnOnce()) -> bool {
        let mut state = self.state.lock();
        let now = Instant::now();
        if now.saturating_duration_since(state.period_start) >= PERIOD {
            let kept_back_count = std::mem::take(&mut state.kept_back_count);
            if kept_back_count > 0 {
                tracing::warn!(kept_back_count, "kept back lines about connections of strangers");
            }
            state.period_start = now;
            state.said_count = 0;
        }
        if state.said_count >= LINES_MAX {
            state.kept_back_count += 1;
            return false;
        }
        state.said_count += 1;
        drop(state);
        line();
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_same_words_are_said_once_in_a_long_while() {
        let log_limiter = LogLimiter::default();
        assert!(log_limiter.log_if_new("a", || {}) && log_limiter.log_if_new("b", || {}));
        assert!(!log_limiter.log_if_new("a", || {}));
        tokio::time::advance(SAME_PERIOD).await;
        assert!(log_limiter.log_if_new("a", || {}));
    }

    #[tokio::test(start_paused = true)]
    async fn words_that_were_kept_back_are_said_as_soon_as_there_is_room() {
        let log_limiter = LogLimiter::default();
        while log_limiter.say(|| {}) {}
        assert!(!log_limiter.log_if_new("a", || {}));
        tokio::time::advance(PERIOD).await;
        assert!(log_limiter.log_if_new("a", || {}));
    }

    #[tokio::test(start_paused = true)]
    async fn few_lines_are_said_in_each_period() {
        let log_limiter = LogLimiter::default();
        let said_count = || (0..1000).filter(|_| log_limiter.say(|| {})).count();
        assert_eq!(said_count(), LINES_MAX as usize);
        tokio::time::advance(PERIOD).await;
        assert_eq!(said_count(), LINES_MAX as usize);
    }
}
