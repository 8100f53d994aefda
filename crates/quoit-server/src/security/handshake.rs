//! TLS handshakes, off the threads that serve requests: a signature takes a millisecond of a processor.
//!
//! The thread that makes them has a lower priority than those of requests, so that a flood of handshakes
//! takes what requests leave. Where requests want every processor, handshakes still get a tenth of one: some
//! hundred logins a second.

use crate::low_priority::LowPriority;
use quoit_tls::rustls::ServerConfig;
use quoit_tls::tokio_rustls::TlsAcceptor;
use quoit_tls::tokio_rustls::server::TlsStream;
use std::io;
use std::sync::Arc;
use tokio::net::TcpStream;

/// Threads for handshakes alone.
#[derive(Debug)]
pub(super) struct Handshakes(LowPriority);

impl Handshakes {
    pub(super) fn start() -> io::Result<Self> {
        Ok(Self(LowPriority::start("handshakes")?))
    }

    /// Does one handshake as the server. It ends when the returned future is dropped.
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
