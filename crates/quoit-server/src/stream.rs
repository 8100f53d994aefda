//! Byte streams of clients: over the network, or from this machine through the socket of the data directory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

/// A client's stream.
#[derive(Debug)]
pub enum Stream {
    /// Over TCP.
    Tcp(TcpStream),
    /// Through the administration socket of the data directory, which only the node's own user may open.
    Local(UnixStream),
}

impl Stream {
    /// Whether the client came through the administration socket. Who may open it may read and change
    /// everything that the node keeps, so that such a client needs no password.
    #[must_use]
    pub const fn is_operator(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Whether the client is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp(stream) => {
                stream.peer_addr().is_ok_and(|peer| peer.ip().to_canonical().is_loopback())
            }
            Self::Local(_) => true,
        }
    }

    /// Switches Nagle's algorithm off where there is one.
    pub(crate) fn send_at_once(&self) {
        if let Self::Tcp(stream) = self {
            // A socket that refuses the option still works, with worse latency.
            let _ = stream.set_nodelay(true);
        }
    }

    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Local(stream) => stream.ready(interest).await,
        }
    }
}

impl From<TcpStream> for Stream {
    fn from(stream: TcpStream) -> Self {
        Self::Tcp(stream)
    }
}

impl From<UnixStream> for Stream {
    fn from(stream: UnixStream) -> Self {
        Self::Local(stream)
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Local(stream) => Pin::new(stream).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Local(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Local(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Local(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
