//! TLS handshakes, on a thread of their own: a signature takes about a millisecond of processor time.
//!
//! The thread has a lower priority than the threads that serve requests, so that a flood of handshakes only
//! takes the processor time that requests leave. When requests use every processor, handshakes still get
//! about a tenth of one, which is enough for some hundred logins a second.

use crate::low_priority::LowPriority;
use quoit_tls::rustls::ServerConfig;
use quoit_tls::tokio_rustls::TlsAcceptor;
use quoit_tls::tokio_rustls::server::TlsStream;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;

/// The thread for handshakes.
#[derive(Debug)]
pub(super) struct Handshakes(LowPriority);

impl Handshakes {
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self(LowPriority::start("handshakes")?))
    }

    /// Performs one handshake as the server. Dropping the returned future cancels it.
    pub(super) async fn accept(
        &self,
        config: Arc<ServerConfig>,
        stream: TcpStream,
    ) -> io::Result<Box<TlsStream<TcpStream>>> {
        let stream = self.0.run(TlsAcceptor::from(config).accept(stream)).await??;
        Ok(Box::new(stream))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_thread_of_handshakes_leaves_the_processor_to_requests() {
        let nice = || rustix::process::getpriority_process(None).expect("a priority");
        let handshakes = Handshakes::start().expect("a thread");
        let theirs = handshakes.0.run(async move { nice() }).await.expect("it runs");
        assert!(theirs > nice(), "{theirs} beside {}", nice());
    }
}
