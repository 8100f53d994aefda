//! Reasons to stop a node or cluster.

use anyhow::{Context, Result};
use std::io::Read;
use std::thread;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Waits for a reason to stop.
pub struct StopRequest {
    terminate: Signal,
    interrupt: Signal,
    /// Completes when standard input ends; `None` if that is not a reason to stop.
    stdin_closed: Option<oneshot::Receiver<()>>,
}

impl StopRequest {
    /// Installs the signal handlers. From now on the signals end the process only through an orderly stop.
    ///
    /// # Errors
    ///
    /// If a handler can't be installed.
    pub fn listen() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("listening for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listening for SIGINT")?,
            stdin_closed: None,
        })
    }

    /// Also stops when standard input ends, because the process that started this one is gone.
    #[must_use]
    pub fn and_end_of_stdin(mut self) -> Self {
        let (ended, closed) = oneshot::channel();
        // A thread of its own that ends with the process: there is no other way to wait for a file of any
        // type.
        thread::spawn(move || {
            let mut unused = [0; 64];
            while matches!(std::io::stdin().read(&mut unused), Ok(count) if count > 0) {}
            let _ = ended.send(());
        });
        self.stdin_closed = Some(closed);
        self
    }

    /// Waits, and returns the reason.
    pub async fn wait(&mut self) -> &'static str {
        let stdin_closed = async {
            match &mut self.stdin_closed {
                // The thread sends before it ends.
                Some(closed) => drop(closed.await),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
            () = stdin_closed => "end of standard input",
        }
    }
}
