//! Byte streams of clients: over the network, or from this machine through the socket of the data directory.

use quoit_tls::peer_certificate;
use quoit_tls::tokio_rustls::server::TlsStream;
use std::io;
use std::net::{IpAddr, Ipv4Addr};
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
    /// Over TLS.
    Tls(Box<TlsStream<TcpStream>>),
    /// None: it was taken for a handshake, and has not come back.
    Closed,
}

impl Stream {
    /// Whether the client came through the administration socket. A user who may open it may read and change
    /// everything that the node keeps, so that such a client needs no password.
    #[must_use]
    pub const fn is_operator(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// Whether the client is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Local(_) => true,
            _ => self.address().is_loopback(),
        }
    }

    /// The client's address; that of the loopback for a client of the administration socket, and the
    /// unspecified one for a client that is gone.
    #[must_use]
    pub fn address(&self) -> IpAddr {
        let stream = match self {
            Self::Tcp(stream) => stream,
            Self::Tls(stream) => stream.get_ref().0,
            Self::Local(_) => return Ipv4Addr::LOCALHOST.into(),
            Self::Closed => return Ipv4Addr::UNSPECIFIED.into(),
        };
        let unknown = Ipv4Addr::UNSPECIFIED.into();
        stream.peer_addr().map_or(unknown, |peer| peer.ip().to_canonical())
    }

    /// Whether the client speaks TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The common name of the certificate that the client has proved to have.
    #[must_use]
    pub fn certificate_name(&self) -> Option<String> {
        let Self::Tls(stream) = self else { return None };
        peer_certificate(stream.get_ref().1.peer_certificates())?.common_name
    }

    /// Switches Nagle's algorithm off where there is one.
    pub(crate) fn send_at_once(&self) {
        if let Self::Tcp(stream) = self {
            // A socket that refuses the option still works, with worse latency.
            let _ = stream.set_nodelay(true);
        }
    }

    /// Writes as much as the system takes at once, and without a look at the task's budget of operations; 0
    /// over TLS, whose records are made when there is room for them.
    ///
    /// # Errors
    ///
    /// Those of the system, but for a buffer that is full.
    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        let written = match self {
            Self::Tcp(stream) => stream.try_write(bytes),
            Self::Local(stream) => stream.try_write(bytes),
            Self::Tls(_) => Ok(0),
            Self::Closed => Err(io::ErrorKind::NotConnected.into()),
        };
        match written {
            Err(fault) if fault.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    pub(crate) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        match self {
            Self::Tcp(stream) => stream.ready(interest).await,
            Self::Local(stream) => stream.ready(interest).await,
            Self::Tls(stream) => stream.get_ref().0.ready(interest).await,
            Self::Closed => Err(io::ErrorKind::NotConnected.into()),
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
            Self::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
            Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
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
            Self::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
            Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Self::Local(stream) => Pin::new(stream).poll_flush(context),
            Self::Tls(stream) => Pin::new(stream).poll_flush(context),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Local(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(context),
            Self::Closed => Poll::Ready(Ok(())),
        }
    }
}
