//! The canary of a thread: operations that ask no server, and so show the delay of the load generator
//! itself.
//!
//! A canary operation does what a worker's operation does, without the server. In an open loop it is due at
//! a time and waits for that time on the same timer. It sends a byte over a socket pair of its own and
//! waits for the byte on the same event loop, among the same tasks. The byte is available at once, so the
//! latency of a canary operation is the delay of the load generator: its noise floor. Latencies of that
//! size say nothing about a server.

use std::io;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::net::UnixStream;

use super::control::{ending, released};
use super::shared::{Shared, ThreadState};

/// Time from one operation of the canary to the next: rare compared with those of workers, but enough of
/// them for a percentile.
const PERIOD: Duration = Duration::from_millis(10);

/// Runs the canary of a thread until the workers have to stop.
pub(super) async fn run_canary(shared: Arc<Shared>, local: Rc<ThreadState>) {
    // If the socket can't be created, the run continues without a noise floor.
    let Ok(echo) = Echo::new() else { return };
    let mut phases = shared.control.phases();
    let Some(release) = released(&mut phases).await else { return };
    let recorder = local.recorder(&shared, release);
    let is_open = shared.schedule.is_some();
    let singing = async {
        let mut due = release.at;
        loop {
            due = (due + PERIOD).max(Instant::now());
            local.alarm.sleep_until(due).await;
            let start = if is_open { due } else { Instant::now() };
            if echo.ask().await.is_err() {
                return;
            }
            let end = Instant::now();
            recorder.borrow_mut().record_canary(end.duration_since(start), end);
        }
    };
    tokio::select! {
        () = singing => {}
        () = ending(&mut phases) => {}
    }
}

/// A pair of connected sockets, both held by one task.
struct Echo {
    near: UnixStream,
    far: UnixStream,
}

impl Echo {
    fn new() -> io::Result<Self> {
        let (near, far) = UnixStream::pair()?;
        Ok(Self { near, far })
    }

    /// Sends a byte and receives it again, through the event loop.
    async fn ask(&self) -> io::Result<()> {
        let mut byte = [0];
        // Read until the socket is empty. Otherwise `readable` could return from remembered readiness,
        // without a pass through the event loop.
        while matches!(self.far.try_read(&mut byte), Ok(1..)) {}
        self.near.try_write(&byte)?;
        loop {
            self.far.readable().await?;
            match self.far.try_read(&mut byte) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_thread_delays_the_canary() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build_local(tokio::runtime::LocalOptions::default())
            .expect("an event loop");
        runtime.block_on(async {
            let echo = Echo::new().expect("a socket");
            for _ in 0..3 {
                let busy = tokio::task::spawn_local(async {
                    let until = Instant::now() + Duration::from_millis(30);
                    while Instant::now() < until {
                        std::hint::spin_loop();
                    }
                });
                let start = Instant::now();
                echo.ask().await.expect("an echo");
                assert!(start.elapsed() >= Duration::from_millis(30), "{:?}", start.elapsed());
                busy.await.expect("no panic");
            }
        });
    }
}
