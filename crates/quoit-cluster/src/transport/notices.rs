//! Log lines that strangers could cause at will, a few at a time.

use parking_lot::Mutex;
use std::time::Duration;
use tokio::time::Instant;

/// So many lines in each period; the rest is counted and told with the next.
const LINES_MAX: u32 = 10;
const PERIOD: Duration = Duration::from_secs(10);

/// Lets few lines through.
pub(super) struct Notices {
    state: Mutex<State>,
}

struct State {
    period_start: Instant,
    said_count: u32,
    kept_back_count: u64,
}

impl Default for Notices {
    fn default() -> Notices {
        let state = State { period_start: Instant::now(), said_count: 0, kept_back_count: 0 };
        Notices { state: Mutex::new(state) }
    }
}

impl Notices {
    /// Calls `line` unless too many were said lately. Whether it did.
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
    async fn few_lines_are_said_in_each_period() {
        let notices = Notices::default();
        let said_count = || (0..1000).filter(|_| notices.say(|| {})).count();
        assert_eq!(said_count(), LINES_MAX as usize);
        tokio::time::advance(PERIOD).await;
        assert_eq!(said_count(), LINES_MAX as usize);
    }
}
