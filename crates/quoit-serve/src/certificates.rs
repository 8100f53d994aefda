//! Certificates for clients: loaded at the start, and again when they change.

use anyhow::{Context, Result};
use quoit_config::Settings;
use quoit_server::{ConnectionSecurity, ServerContext};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::signal::unix::{SignalKind, signal};

/// Interval between checks of the files.
const LOOK_INTERVAL: Duration = Duration::from_secs(10);
/// Interval after which an unchanged warning is repeated.
const WARNING_INTERVAL: Duration = Duration::from_secs(24 * 3600);

/// Loads the certificates that the settings name.
pub(crate) fn open(settings: &Settings) -> Result<ConnectionSecurity> {
    ConnectionSecurity::open(settings.security()).context("loading certificates for clients")
}

/// Sizes and modification times of the files, and the list of ciphers. They differ after a change.
type Stamps = (Vec<Option<(SystemTime, u64)>>, Option<String>);

fn stamps(files: &[PathBuf], context: &ServerContext) -> Stamps {
    let stamp = |path: &PathBuf| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.modified().ok()?, found.len()))
    };
    let state = context.store.control().read();
    let ciphers = state.security().ciphers().map(str::to_owned);
    (files.iter().map(stamp).collect(), ciphers)
}

/// Reloads certificates when a file or the list of ciphers has changed, and at SIGHUP. Logs warnings about
/// expiring certificates and open listeners. Never returns while the control plane exists.
pub(crate) async fn keep(context: Arc<ServerContext>) {
    let files = context.security.tls_files();
    let mut news = context.store.control().watch();
    let mut ticks = tokio::time::interval(LOOK_INTERVAL);
    let Ok(mut hangup) = signal(SignalKind::hangup()) else { return };
    let mut seen = (stamps(&files, &context).0, None);
    let mut warned: Option<(tokio::time::Instant, Vec<String>)> = None;
    loop {
        let is_told = tokio::select! {
            _ = ticks.tick() => false,
            told = hangup.recv() => told.is_some(),
            changed = news.changed() => match changed {
                Ok(()) => false,
                Err(_) => return,
            },
        };
        let now = stamps(&files, &context);
        if context.security.has_tls() && (is_told || now != seen) {
            reload(&context, now.1.as_deref());
        }
        seen = now;
        let warnings = context.security_warnings();
        let is_news = warned
            .as_ref()
            .is_none_or(|(at, told)| *told != warnings || at.elapsed() >= WARNING_INTERVAL);
        if is_news {
            warnings.iter().for_each(|warning| tracing::warn!("{warning}"));
            warned = Some((tokio::time::Instant::now(), warnings));
        }
    }
}

fn reload(context: &ServerContext, ciphers: Option<&str>) {
    match context.security.reload(ciphers) {
        Ok(()) => tracing::info!("certificates for clients were loaded again"),
        Err(fault) => {
            tracing::error!("certificates for clients stay as they are: {fault}");
        }
    }
}
