//! One connection, used by one caller. Listings of the pooled client use it, and so does the load
//! generator.

use crate::answer::answer;
use crate::error::Error;
use crate::layout::Layout;
use crate::login::{ClientStream, Login};
use bytes::{Bytes, BytesMut};
use quoit_wire::messages::{
    RpbGetClientIdReq, RpbGetClientIdResp, RpbGetLayoutReq, RpbGetLayoutResp, RpbPingReq,
    RpbPingResp, RpbSetClientIdReq, RpbSetClientIdResp,
};
use quoit_wire::{Body, Frame, FrameDecoder, FrameError, append_message};
use std::io;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Free space in the read buffer before each read. A longer answer takes several reads.
const READ_SIZE_BYTES: usize = 16 * 1024;

/// Maximum number of bytes to reserve for the length that a frame declares, before the bytes arrive.
const READ_AHEAD_BYTES_MAX: usize = 1024 * 1024;

/// Reserves space for the next read.
pub(crate) fn reserve(buffer: &mut BytesMut, decoder: FrameDecoder) -> Result<(), FrameError> {
    let missing_bytes = decoder.missing_bytes(buffer)?;
    buffer.reserve(missing_bytes.clamp(READ_SIZE_BYTES, READ_AHEAD_BYTES_MAX));
    Ok(())
}

async fn open(address: &str) -> Result<TcpStream, Error> {
    let connect = async {
        let stream = TcpStream::connect(address).await?;
        stream.set_nodelay(true)?;
        Ok(stream)
    };
    connect.await.map_err(|source: io::Error| Error::Connect {
        address: address.to_owned(),
        source: Arc::new(source),
    })
}

/// A TCP connection to one node, without a pool, retries or timeouts.
///
/// [`call`](Self::call) sends one request and waits for its answer. For pipelining,
/// [`queue`](Self::queue) requests, [`flush`](Self::flush) them in one write, and
/// [`receive`](Self::receive) as many answers: they come in the order of the requests. Receive answers
/// while queueing more: a server that can't send its answers stops reading.
///
/// Cost of a call: one `write`, one `read`, no allocation beyond the decoded message's lists;
/// byte fields share the read buffer, which is used again once they are dropped.
///
/// A call whose future is dropped half-way leaves an answer outstanding, and the connection refuses further
/// calls with [`Error::OutOfStep`]. Drop the connection in that case, and also when a timeout around a call
/// ends it.
#[derive(Debug)]
pub struct Connection {
    stream: ClientStream,
    address: String,
    decoder: FrameDecoder,
    to_read: BytesMut,
    to_write: Vec<u8>,
    outstanding: usize,
}

impl Connection {
    /// Connects to `host:port`, with `TCP_NODELAY` set.
    ///
    /// # Errors
    ///
    /// [`Error::Connect`].
    pub async fn connect(address: &str) -> Result<Connection, Error> {
        Ok(Connection::new(open(address).await?, address.to_owned()))
    }

    /// Has the operating system end the connection when the peer has acknowledged nothing for `within`; see
    /// [`notice_dead_peer`](crate::notice_dead_peer).
    ///
    /// # Errors
    ///
    /// The operating system's error, if it refuses an option.
    pub fn notice_dead_peer(&self, within: std::time::Duration) -> io::Result<()> {
        crate::notice_dead_peer(&self.stream, within)
    }

    /// A connection on an open stream. Error messages show `address`.
    #[must_use]
    pub fn new(stream: TcpStream, address: String) -> Connection {
        Connection::from_stream(ClientStream::Plain(stream), address)
    }

    /// Connects to `host:port`, begins TLS and logs in.
    ///
    /// # Errors
    ///
    /// [`Error::Connect`], [`Error::Tls`], [`Error::Handshake`], and [`Error::Server`] if the node refuses
    /// the login.
    pub async fn connect_as(address: &str, login: &Login) -> Result<Connection, Error> {
        let stream = login.begin(open(address).await?, address).await?;
        Ok(Connection::from_stream(stream, address.to_owned()))
    }

    pub(crate) fn from_stream(stream: ClientStream, address: String) -> Connection {
        Connection {
            stream,
            address,
            decoder: FrameDecoder::default(),
            to_read: BytesMut::with_capacity(READ_SIZE_BYTES),
            to_write: Vec::new(),
            outstanding: 0,
        }
    }

    /// Refuses answers longer than `length_bytes_max` from now on.
    #[must_use]
    pub fn with_frame_length_max(mut self, length_bytes_max: u32) -> Connection {
        self.decoder = FrameDecoder::new(length_bytes_max);
        self
    }

    /// The node's address, for error messages.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Number of requests sent or queued whose answers were not received.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server refuses the request; the connection stays usable.
    /// [`Error::OutOfStep`] if earlier answers were not received. After any other error the connection
    /// can't be used any more.
    pub async fn call<Q: Body, A: Body>(&mut self, request: &Q) -> Result<A, Error> {
        if self.outstanding > 0 {
            return Err(Error::OutOfStep {
                address: self.address.clone(),
                outstanding: self.outstanding,
            });
        }
        self.queue(request)?;
        self.flush().await?;
        let frame = self.receive().await?;
        answer(frame, &self.address)
    }

    /// Appends a request to the write buffer.
    ///
    /// # Errors
    ///
    /// [`Error::Frame`] for a request that does not fit into a frame; then nothing is appended.
    pub fn queue<Q: Body>(&mut self, request: &Q) -> Result<(), Error> {
        append_message(&mut self.to_write, request).map_err(|source| self.frame_error(source))?;
        self.outstanding += 1;
        Ok(())
    }

    /// Appends a frame that is already encoded, with its length.
    ///
    /// The caller must pass exactly one whole frame.
    pub fn queue_encoded(&mut self, frame: &[u8]) {
        self.to_write.extend_from_slice(frame);
        self.outstanding += 1;
    }

    /// Writes all queued requests, in one `write` if the socket takes it.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`].
    pub async fn flush(&mut self) -> Result<(), Error> {
        let stream = &mut self.stream;
        let written = async {
            stream.write_all(&self.to_write).await?;
            stream.flush().await
        };
        let written = written.await;
        self.to_write.clear();
        written.map_err(|source| self.lost(source))
    }

    /// Waits for the next answer, which may be a [`RpbErrorResp`] or one frame of a stream.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] and [`Error::Frame`].
    pub async fn receive(&mut self) -> Result<Frame, Error> {
        let frame = self.receive_part().await?;
        self.outstanding = self.outstanding.saturating_sub(1);
        Ok(frame)
    }

    /// Waits for the next part of an answer in several parts, such as the answer to a listing.
    /// [`call`](Self::call) returns the first part. Receive all parts before the next request, or drop the
    /// connection.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn next_part<A: Body>(&mut self) -> Result<A, Error> {
        let frame = self.receive_part().await?;
        answer(frame, &self.address)
    }

    /// Waits for the next frame, and does not count it as the answer to a request.
    pub(crate) async fn receive_part(&mut self) -> Result<Frame, Error> {
        loop {
            match self.decoder.next_frame(&mut self.to_read) {
                Ok(Some(frame)) => return Ok(frame),
                Ok(None) => {}
                Err(source) => return Err(self.frame_error(source)),
            }
            reserve(&mut self.to_read, self.decoder).map_err(|source| self.frame_error(source))?;
            match self.stream.read_buf(&mut self.to_read).await {
                Ok(0) => return Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
                Ok(_) => {}
                Err(source) => return Err(self.lost(source)),
            }
        }
    }

    /// Checks that the node answers.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn ping(&mut self) -> Result<(), Error> {
        self.call::<_, RpbPingResp>(&RpbPingReq {}).await.map(drop)
    }

    /// Asks for the cluster's layout. `None` if it is still the one that is `known`.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call); [`Error::Layout`]. Servers other than Quoit answer
    /// [`Error::Server`].
    pub async fn layout(&mut self, known: Option<&Layout>) -> Result<Option<Layout>, Error> {
        let known_tag = known.map(|layout| layout.tag().clone());
        let told: RpbGetLayoutResp = self.call(&RpbGetLayoutReq { known_tag }).await?;
        Layout::from_wire(told).map_err(|source| Error::Layout { source })
    }

    /// The connection's client id: four zero bytes, or the id that was set.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn client_id(&mut self) -> Result<Bytes, Error> {
        let answer: RpbGetClientIdResp = self.call(&RpbGetClientIdReq {}).await?;
        Ok(answer.client_id)
    }

    /// Sets the connection's client id. It belongs to this connection only and has no effect on requests. The
    /// protocol keeps it from the time when clients made the version vectors themselves.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn set_client_id(&mut self, client_id: Bytes) -> Result<(), Error> {
        let request = RpbSetClientIdReq { client_id };
        self.call::<_, RpbSetClientIdResp>(&request).await.map(drop)
    }

    fn lost(&self, source: io::Error) -> Error {
        Error::Lost { address: self.address.clone(), source: Arc::new(source) }
    }

    fn frame_error(&self, source: FrameError) -> Error {
        Error::Frame { address: self.address.clone(), source }
    }
}
