//! The abstraction of the network: connections as boxed byte streams.
//!
//! All traffic between nodes runs over the connections of a [`Network`]: TCP in production, memory in
//! tests and in the simulation. TLS is a layer above it (`security.rs`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes connections and listens for them.
pub trait Network: Send + Sync {
    /// Connects to `address`, `host:port`.
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Stream>>;

    /// Listens at `address`, `host:port`. Port 0 takes a free port.
    fn bind<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;
}

/// Accepts connections.
pub trait Listener: Send {
    /// Accepts the next connection. Also returns the address that it comes from.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Stream, String)>>;

    /// Returns the address at which it listens, with the port that was taken.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    fn local_address(&self) -> io::Result<String>;
}

/// A connection. Its two directions are separate, because different tasks use them at the same time.
pub struct Stream {
    /// Bytes from the peer.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Bytes to the peer. Dropping it tells the peer that no more bytes follow.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Stream {
    /// Creates a stream from two halves.
    pub fn from_halves(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Stream {
        Stream { reader: Box::new(reader), writer: Box::new(writer) }
    }

    /// Creates a stream from an object that cannot be split cheaply: each use of a half takes a lock.
    pub fn from_whole(whole: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Stream {
        let (reader, writer) = tokio::io::split(whole);
        Stream::from_halves(reader, writer)
    }
}

/// TCP over the machine's network.
#[derive(Debug, Clone, Copy, Default)]
pub struct TokioNetwork;

impl Network for TokioNetwork {
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Stream>> {
        Box::pin(async move { Ok(tcp_stream(TcpStream::connect(address).await?)) })
    }

    fn bind<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>> {
        Box::pin(async move {
            let listener = TcpListener::bind(address).await?;
            Ok(Box::new(listener) as Box<dyn Listener>)
        })
    }
}

impl Listener for TcpListener {
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Stream, String)>> {
        Box::pin(async move {
            let (stream, remote) = TcpListener::accept(self).await?;
            Ok((tcp_stream(stream), remote.to_string()))
        })
    }

    fn local_address(&self) -> io::Result<String> {
        Ok(self.local_addr()?.to_string())
    }
}

fn tcp_stream(stream: TcpStream) -> Stream {
    // A socket that refuses the option works, too, with worse latency.
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    Stream::from_halves(reader, writer)
}
