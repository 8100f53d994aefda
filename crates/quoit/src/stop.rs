//! Causes that stop a node.

use anyhow::{Context, Result};
use std::io::Read;
use std::thread;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

/// Waits to be told to stop.
pub(crate) struct StopRequest {
    terminate: Signal,
    interrupt: Signal,
    /// Answers when standard input has ended; `None` = it does not matter.
    stdin_closed: Option<oneshot::Receiver<()>>,
}

impl StopRequest {
    /// From now on the signals end the process in good order only.
    pub(crate) fn listen() -> Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("listening for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("listening for SIGINT")?,
            stdin_closed: None,
        })
    }

    /// Stops when standard input ends, too: when whoever started this process is gone.
    pub(crate) fn and_end_of_stdin(mut self) -> Self {
        let (ended, closed) = oneshot::channel();
        // A thread of its own, which the end of the process takes along: nothing else can wait for a
        // file that may be of any kind.
        thread::spawn(move || {
            let mut unused = [0; 64];
            while matches!(std::io::stdin().read(&mut unused), Ok(count) if count > 0) {}
            let _ = ended.send(());
        });
        self.stdin_closed = Some(closed);
        self
    }

    /// Waits; gives the reason.
    pub(crate) async fn wait(&mut self) -> &'static str {
        let stdin_closed = async {
            match &mut self.stdin_closed {
                // The thread answers before it ends.
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
