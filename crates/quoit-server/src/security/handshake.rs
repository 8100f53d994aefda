//! TLS handshakes, off the threads that serve requests: a signature takes a millisecond of a processor.

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
