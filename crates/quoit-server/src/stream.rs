//! Byte streams of clients: over the network, or from this machine through the socket in the data
//! directory.

use quoit_tls::peer_certificate;
use quoit_tls::tokio_rustls::server::TlsStream;
use std::io::{self, IoSlice};
use std::net::{IpAddr, Ipv4Addr};
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::{TcpStream, UnixStream};

/// A client's stream.
#[derive(Debug)]
pub enum Stream {
    /// TCP.
    Tcp(TcpStream),
    /// The administration socket of the data directory, which only the user of the node may open.
    Local(UnixStream),
    /// TLS over TCP.
    Tls(Box<TlsStream<TcpStream>>),
    /// No stream: a handshake has taken it and has not returned it.
    Closed,
}

impl Stream {
    /// True if the client came through the administration socket. A user who may open that socket may also
    /// read and change all files of the node, so such a client needs no password.
    #[must_use]
    pub const fn is_operator(&self) -> bool {
        matches!(self, Self::Local(_))
    }

    /// True if the client is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        match self {
            Self::Local(_) => true,
            _ => self.address().is_loopback(),
        }
    }

    /// The client's address. The loopback address for a client of the administration socket, and the
    /// unspecified address if the system does not know the peer any more.
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

    /// True if the client uses TLS.
    #[must_use]
    pub const fn is_tls(&self) -> bool {
        matches!(self, Self::Tls(_))
    }

    /// The common name of the client's certificate, if it presented one.
    #[must_use]
    pub fn certificate_name(&self) -> Option<String> {
        let Self::Tls(stream) = self else { return None };
        peer_certificate(stream.get_ref().1.peer_certificates())?.common_name
    }

    /// Switches Nagle's algorithm off on a TCP stream.
    pub(crate) fn send_at_once(&self) {
        if let Self::Tcp(stream) = self {
            // A socket that refuses the option still works, with worse latency.
            let _ = stream.set_nodelay(true);
        }
    }

    /// Writes as much as the system takes at once, without charging the task's cooperative budget. Returns 0
    /// over TLS, because a TLS record can only be made when the system can take it.
    ///
    /// # Errors
    ///
    /// Errors of the system, except for a full buffer, for which the result is 0.
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

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Local(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Self::Closed => Poll::Ready(Err(io::ErrorKind::NotConnected.into())),
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
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
