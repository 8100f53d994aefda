//! The signals that end a run early.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGINT and SIGTERM, as an event loop sees them.
pub(crate) struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Takes the signals from the system's default action, for as long as the process lives.
    pub(crate) fn listen() -> std::io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        })
    }

    /// Waits for one of them.
    pub(crate) async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Has this process end its run as an interrupt does.
pub(super) fn interrupt() {
    use rustix::process::{Signal, getpid, kill_process};
    // The process is there and is this user's.
    let _ = kill_process(getpid(), Signal::INT);
}
