//! Structured logs on standard error.

mod repeats;

use quoit::config::Settings;
use repeats::Repeats;
use std::sync::Arc;
use std::time::Duration;
use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, Registry, fmt, reload};

/// Lines that repeat are counted for so long, and then told in one.
const WINDOW: Duration = Duration::from_secs(60);

/// The log of a process.
pub(crate) struct Log {
    repeats: Arc<Repeats>,
    filter: reload::Handle<EnvFilter, Registry>,
}

/// The messages that are written, by the configured level.
fn filter_of(settings: &Settings) -> EnvFilter {
    // Messages of libraries below a warning, and of the consensus below an error, are for those who debug
    // them. The consensus warns many times a second of a peer that does not answer; the transport tells it
    // once.
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

/// Starts logging as configured: level and form.
pub(crate) fn start(settings: &Settings) -> Log {
    let (filter, handle) = reload::Layer::new(filter_of(settings));
    let repeats = Arc::new(Repeats::default());
    let filter = filter.and(repeats::Filter(Arc::clone(&repeats)));
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = if settings.get("log.format") == Some("json") {
        lines.json().with_filter(filter).boxed()
    } else {
        lines.with_ansi(false).with_filter(filter).boxed()
    };
    // A second start in one process (tests) keeps the first one's logger.
    let _ = tracing_subscriber::registry().with(lines).try_init();
    Log { repeats, filter: handle }
}

impl Log {
    /// Writes messages of the configured level from now on.
    pub(crate) fn set_level(&self, settings: &Settings) {
        // The log lives as long as the process, or was started before by another test of it.
        let _ = self.filter.reload(filter_of(settings));
    }

    /// Tells once a minute which warnings and errors were left out, for as long as it is polled.
    pub(crate) async fn tell_repeats(&self) -> ! {
        let mut windows = tokio::time::interval(WINDOW);
        loop {
            windows.tick().await;
            self.repeats.end_window();
        }
    }
}
