//! The seam to the network: connections as boxed byte streams.
//!
//! Everything between nodes runs over what a [`Network`] makes: TCP in production, something in memory
//! in tests and in simulation. TLS comes over what it makes (`security.rs`).

use std::future::Future;
use std::io;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};

/// A future on the heap.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Makes connections and listens for them.
pub trait Network: Send + Sync {
    /// Connects to `address`, `host:port`.
    fn connect<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Stream>>;

    /// Listens at `address`, `host:port`; port 0 takes a free one.
    fn bind<'a>(&'a self, address: &'a str) -> BoxFuture<'a, io::Result<Box<dyn Listener>>>;
}

/// Takes connections.
pub trait Listener: Send {
    /// The next connection, and the address that it comes from.
    fn accept(&mut self) -> BoxFuture<'_, io::Result<(Stream, String)>>;

    /// Where it listens, the port that was taken included.
    ///
    /// # Errors
    ///
    /// Returns the error of the system.
    fn local_address(&self) -> io::Result<String>;
}

/// A connection, its two directions apart: they are used by different tasks at the same time.
pub struct Stream {
    /// Bytes from the peer.
    pub reader: Box<dyn AsyncRead + Send + Unpin>,
    /// Bytes to the peer. Dropping it tells the peer that nothing more comes.
    pub writer: Box<dyn AsyncWrite + Send + Unpin>,
}

impl Stream {
    /// A stream of two halves.
    pub fn from_halves(
        reader: impl AsyncRead + Send + Unpin + 'static,
        writer: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Stream {
        Stream { reader: Box::new(reader), writer: Box::new(writer) }
    }

    /// A stream of something that can't be taken apart cheaply: each use of a half takes a lock.
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
    // A socket that refuses the option still works, with worse latency.
    let _ = stream.set_nodelay(true);
    let (reader, writer) = stream.into_split();
    Stream::from_halves(reader, writer)
}
