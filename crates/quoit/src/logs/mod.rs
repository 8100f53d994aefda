//! Structured logs on standard error.

mod repeats;

use quoit::config::Settings;
use repeats::Repeats;
use std::sync::Arc;
use std::time::Duration;
use tracing_subscriber::filter::FilterExt as _;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{EnvFilter, Layer as _, fmt};

/// Lines that repeat are counted for so long, and then told in one.
const WINDOW: Duration = Duration::from_secs(60);

/// The log of a process.
pub(crate) struct Log {
    repeats: Arc<Repeats>,
}

/// Starts logging as configured: level and form.
pub(crate) fn start(settings: &Settings) -> Log {
    // What libraries say below a warning, of the consensus below an error, is for who debugs them.
    let filter = match settings.log_level() {
        level @ ("debug" | "trace") => level.to_owned(),
        level => {
            let trees = if level == "error" { "error" } else { "warn" };
            format!("{level},openraft=error,fjall={trees},lsm_tree={trees}")
        }
    };
    let repeats = Arc::new(Repeats::default());
    let filter = EnvFilter::new(filter).and(repeats::Filter(Arc::clone(&repeats)));
    let lines = fmt::layer().with_writer(std::io::stderr).with_target(false);
    let lines = if settings.get("log.format") == Some("json") {
        lines.json().with_filter(filter).boxed()
    } else {
        lines.with_ansi(false).with_filter(filter).boxed()
    };
    // A second start in one process (tests) keeps the first one's logger.
    let _ = tracing_subscriber::registry().with(lines).try_init();
    Log { repeats }
}

impl Log {
    /// Tells once a minute which warnings and errors were left out, for as long as it is polled.
    pub(crate) async fn tell_repeats(self) -> ! {
        let mut windows = tokio::time::interval(WINDOW);
        loop {
            windows.tick().await;
            self.repeats.end_window();
        }
    }
}
