//! Progress of opening a store: a bar on a terminal, otherwise log lines. Also extends the start timeout of
//! systemd.

use quoit_progress::{Progress, Unit, WorkAmount};
use quoit_store::OpeningWatch;
use sd_notify::NotifyState;
use std::io::IsTerminal;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Interval of log lines and of extensions of systemd's timeout.
const LOGGED_INTERVAL: Duration = Duration::from_secs(10);
/// Time in microseconds by which systemd's timeout is extended.
const EXTENSION_US: u32 = 60_000_000;

/// The progress display for the stores that this process opens, one after the other.
pub(super) static OPENING: OpeningProgress = OpeningProgress { shown: Mutex::new(None) };

/// Shows the progress of opening stores.
#[derive(Debug)]
pub(super) struct OpeningProgress {
    shown: Mutex<Option<ProgressDisplay>>,
}

#[derive(Debug)]
struct ProgressDisplay {
    work: &'static str,
    /// The line on the terminal, if standard error is one.
    line: Option<Progress>,
    reported_at: Instant,
}

impl ProgressDisplay {
    fn begin(work: &'static str, unit: Unit, total: u64) -> Self {
        let line = std::io::stderr().is_terminal();
        let line = line.then(|| Progress::on_stderr(work, unit, Some(total)));
        Self { work, line, reported_at: Instant::now() }
    }
}

impl OpeningProgress {
    fn show(&self, work: &'static str, unit: Unit, amount: WorkAmount) {
        let WorkAmount { done, total } = amount;
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        if done >= total {
            // The line is removed before the next log line is written.
            *shown = None;
            return;
        }
        let current = shown.take().filter(|shown| shown.work == work);
        let current =
            shown.insert(current.unwrap_or_else(|| ProgressDisplay::begin(work, unit, total)));
        if let Some(line) = &mut current.line {
            line.show(done, String::new);
        }
        if current.reported_at.elapsed() >= LOGGED_INTERVAL {
            current.reported_at = Instant::now();
            let percent = u128::from(done) * 100 / u128::from(total);
            if current.line.is_none() {
                tracing::info!(percent, "{work} of the store that is opened");
            }
            let states = [
                NotifyState::ExtendTimeoutUsec(EXTENSION_US),
                NotifyState::Status(&format!("{work}: {percent} %")),
            ];
            if let Err(fault) = sd_notify::notify(&states) {
                tracing::debug!(%fault, "systemd could not be notified");
            }
        }
    }
}

impl OpeningWatch for OpeningProgress {
    fn log_read(&self, done_bytes: u64, total_bytes: u64) {
        let amount = WorkAmount { done: done_bytes, total: total_bytes };
        self.show("reading the log", Unit::Bytes, amount);
    }

    fn partitions_rebuilt(&self, done_count: u64, total_count: u64) {
        let amount = WorkAmount { done: done_count, total: total_count };
        self.show("making the indexes again", Unit::Items("partitions"), amount);
    }
}
