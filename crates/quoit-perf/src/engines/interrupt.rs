//! SIGINT and SIGTERM: they end the running measurement, so that data and control groups are removed.

use anyhow::{Result, bail};
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::signal::unix::{SignalKind, signal};

static IS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Notes the signals from now on, instead of dying from the first one.
pub(super) fn watch() -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let (mut interrupt, mut terminate) = {
        let _entered = runtime.enter();
        (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?)
    };
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        runtime.block_on(async {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
        });
        IS_INTERRUPTED.store(true, Ordering::Release);
    })?;
    Ok(())
}

/// Fails once a signal has arrived.
pub(super) fn check() -> Result<()> {
    if IS_INTERRUPTED.load(Ordering::Acquire) {
        bail!("interrupted; what was measured so far is above");
    }
    Ok(())
}
