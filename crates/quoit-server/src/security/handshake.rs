//! TLS handshakes, off the threads that serve requests: a signature takes a millisecond of a processor.
//!
//! The thread that makes them has a lower priority than those of requests, so that a flood of handshakes
//! takes what requests leave. Where requests want every processor, handshakes still get a tenth of one: some
//! hundred logins a second.

use quoit_tls::rustls::ServerConfig;
use quoit_tls::tokio_rustls::TlsAcceptor;
use quoit_tls::tokio_rustls::server::TlsStream;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};

/// Threads that do handshakes.
const THREAD_COUNT: usize = 1;

/// Threads for handshakes alone.
#[derive(Debug)]
pub(super) struct Handshakes {
    runtime: Option<Runtime>,
}

impl Handshakes {
    pub(super) fn start() -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(THREAD_COUNT)
            .thread_name("handshakes")
            .on_thread_start(quoit_core::lower_thread_priority)
            .build()?;
        Ok(Self { runtime: Some(runtime) })
    }

    /// Does one handshake as the server. It ends when the returned future is dropped.
    pub(super) async fn accept(
        &self,
        config: Arc<ServerConfig>,
        stream: TcpStream,
    ) -> io::Result<Box<TlsStream<TcpStream>>> {
        let runtime = self.runtime.as_ref().ok_or_else(|| io::Error::other("stopped"))?;
        let accepting = runtime.spawn(TlsAcceptor::from(config).accept(stream));
        let mut ended = AbortOnDrop(accepting);
        let stream = (&mut ended.0).await.map_err(io::Error::other)??;
        Ok(Box::new(stream))
    }
}

struct AbortOnDrop<T>(tokio::task::JoinHandle<T>);

impl<T> Drop for AbortOnDrop<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Drop for Handshakes {
    fn drop(&mut self) {
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_thread_of_handshakes_leaves_the_processor_to_requests() {
        let nice = || rustix::process::getpriority_process(None).expect("a priority");
        let handshakes = Handshakes::start().expect("a thread");
        let runtime = handshakes.runtime.as_ref().expect("it has not stopped");
        let theirs = runtime.spawn(async move { nice() }).await.expect("the task ends");
        assert!(theirs > nice(), "{theirs} beside {}", nice());
    }
}
