//! Structured logs on standard error.

mod repeats;

use quoit_config::Settings;
use repeats::EventCounts;
use std::sync::Arc;
use std::time::Duration;
use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

/// Period for which repeated lines are counted before their number is logged.
const WINDOW: Duration = Duration::from_secs(60);

/// The log of this process.
pub(crate) struct Log {
    repeats: Arc<EventCounts>,
    filter: reload::Handle<EnvFilter, Registry>,
}

/// The filter for the configured level.
fn filter_of(settings: &Settings) -> EnvFilter {
    // Library messages below a warning, and Raft messages below an error, only help in debugging. Raft
    // warns many times a second about a peer that does not answer; the transport reports it once.
    EnvFilter::new(match settings.log_level() {
        level @ ("debug" | "trace") => level.to_owned(),
        level => {
            let trees = if level == "error" { "error" } else { "warn" };
            format!(
                "{level},openraft=error,openraft::replication=off,fjall={trees},lsm_tree={trees}"
            )
        }
    })
}

/// Starts logging with the configured level and format.
pub(crate) fn start(settings: &Settings) -> Log {
    let (filter, handle) = reload::Layer::new(filter_of(settings));
    let repeats = Arc::new(EventCounts::default());
    let filter = filter.and(repeats::Filter(Arc::clone(&repeats)));
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = if settings.get("log.format") == Some("json") {
        lines.json().with_filter(filter).boxed()
    } else {
        lines.with_ansi(false).with_filter(filter).boxed()
    };
    // A second start in the same process (in tests) keeps the first logger.
    let _ = tracing_subscriber::registry().with(lines).try_init();
    Log { repeats, filter: handle }
}

impl Log {
    /// Changes the level from now on.
    pub(crate) fn set_level(&self, settings: &Settings) {
        // An error means that the subscriber is gone. The subscriber of a node lives as long as the process;
        // in tests, another test may own it.
        let _ = self.filter.reload(filter_of(settings));
    }

    /// Reports once a minute which warnings and errors were suppressed. Never returns.
    pub(crate) async fn log_repeats(&self) -> ! {
        let mut windows = tokio::time::interval(WINDOW);
        loop {
            windows.tick().await;
            self.repeats.end_window();
        }
    }
}
