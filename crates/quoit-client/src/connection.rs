//! One connection, used by one caller: the ground of the pooled client, and what a load
//! generator wants.

use crate::answer::answer;
use crate::error::Error;
use crate::layout::Layout;
use crate::secure::{ClientStream, Login};
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

/// Room in the read buffer before each read; an answer above it takes several reads.
const READ_SIZE_BYTES: usize = 16 * 1024;

/// The most that is reserved on the word of a frame's length alone.
const READ_AHEAD_BYTES_MAX: usize = 1024 * 1024;

/// Reserves what the next read should have room for.
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
/// [`receive`](Self::receive) as many answers: they come in the order of the requests. Don't
/// queue without receiving: a server that can't send its answers stops reading.
///
/// Cost of a call: one `write`, one `read`, no allocation beyond the decoded message's lists;
/// byte fields share the read buffer, which is used again once they are dropped.
///
/// A call whose future is dropped half way leaves the connection out of step; it then refuses
/// further calls with [`Error::OutOfStep`]. Drop the connection in that case, also after a
/// timeout around a call.
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

    /// Has the connection end when its peer's machine is gone for `within`; see
    /// [`notice_dead_peer`](crate::notice_dead_peer).
    ///
    /// # Errors
    ///
    /// When the system refuses an option.
    pub fn notice_dead_peer(&self, within: std::time::Duration) -> io::Result<()> {
        crate::notice_dead_peer(&self.stream, within)
    }

    /// A connection on a stream that is there already; `address` is for messages.
    #[must_use]
    pub fn new(stream: TcpStream, address: String) -> Connection {
        Connection::on(ClientStream::Plain(stream), address)
    }

    /// Connects to `host:port`, begins TLS and logs in.
    ///
    /// # Errors
    ///
    /// [`Error::Connect`], [`Error::Handshake`], and [`Error::Server`] for a login that is refused.
    pub async fn connect_as(address: &str, login: &Login) -> Result<Connection, Error> {
        let stream = login.begin(open(address).await?, address).await?;
        Ok(Connection::on(stream, address.to_owned()))
    }

    pub(crate) fn on(stream: ClientStream, address: String) -> Connection {
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

    /// The address given to [`connect`](Self::connect).
    #[must_use]
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Requests sent or queued whose answers were not received.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.outstanding
    }

    /// Sends a request and waits for its answer.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server says so, with the connection still good;
    /// [`Error::OutOfStep`] if earlier answers were not received; otherwise the connection is of
    /// no use any more.
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
    /// [`Error::Frame`] for a request that no frame can hold; nothing is appended then.
    pub fn queue<Q: Body>(&mut self, request: &Q) -> Result<(), Error> {
        append_message(&mut self.to_write, request).map_err(|source| self.frame_error(source))?;
        self.outstanding += 1;
        Ok(())
    }

    /// Appends a frame that is encoded already, its length included.
    ///
    /// The caller sees to it that it is exactly one whole frame.
    pub fn queue_encoded(&mut self, frame: &[u8]) {
        self.to_write.extend_from_slice(frame);
        self.outstanding += 1;
    }

    /// Writes what is queued, in one `write` if the socket takes it.
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

    /// Waits for the next part of an answer that comes in parts, as those to listings do.
    /// [`call`](Self::call) gives the first part; take all before the next request, or drop the
    /// connection.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn next_part<A: Body>(&mut self) -> Result<A, Error> {
        let frame = self.receive_part().await?;
        answer(frame, &self.address)
    }

    /// Waits for a frame of an answer that has more than one.
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

    /// Asks whether the node is there.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn ping(&mut self) -> Result<(), Error> {
        self.call::<_, RpbPingResp>(&RpbPingReq {}).await.map(drop)
    }

    /// The cluster's layout; `None` if it is still the one that is `known`.
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

    /// The connection's client id: four zero bytes, or what was set.
    ///
    /// # Errors
    ///
    /// As [`call`](Self::call).
    pub async fn client_id(&mut self) -> Result<Bytes, Error> {
        let answer: RpbGetClientIdResp = self.call(&RpbGetClientIdReq {}).await?;
        Ok(answer.client_id)
    }

    /// Sets the connection's client id. It belongs to this connection only and has no effect on
    /// requests; it is a relic of clocks that clients made themselves.
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
