//! Structured logs on standard error.

use quoit::config::Settings;
use tracing_subscriber::EnvFilter;

/// Starts logging as configured: level and form.
pub(crate) fn start(settings: &Settings) {
    // What libraries say below a warning, of the consensus below an error, is for who debugs them.
    let filter = match settings.log_level() {
        level @ ("debug" | "trace") => level.to_owned(),
        level => {
            let trees = if level == "error" { "error" } else { "warn" };
            format!("{level},openraft=error,fjall={trees},lsm_tree={trees}")
        }
    };
    let builder = tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::new(filter))
        .with_writer(std::io::stderr)
        .with_target(false);
    // A second start in one process (tests) keeps the first one's logger.
    let _ = if settings.get("log.format") == Some("json") {
        builder.json().try_init()
    } else {
        builder.with_ansi(false).try_init()
    };
}
