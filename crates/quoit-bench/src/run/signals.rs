//! The signals that end a run early.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals SIGINT and SIGTERM as events of an event loop.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Replaces the default action of both signals, for the life of the process.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for the next signal.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Ends the run of this process as an interrupt does, for the view's quit key.
pub(super) fn interrupt() {
    use rustix::process::{Signal, getpid, kill_process};
    // Can't fail: the process exists and belongs to this user.
    let _ = kill_process(getpid(), Signal::INT);
}
