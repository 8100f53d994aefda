//! A connection shared by many callers, with several requests in flight on it.
//!
//! A task of its own owns the socket. It reads and writes concurrently. If the client stopped reading while
//! it writes, and the server did the same, each would wait for the other for ever.
//!
//! The protocol has no request ids: the server answers in the order of the requests. The writer therefore
//! puts a request's waiter into the queue of waiters before it writes the request, and the reader gives each
//! answer to the first waiter. A caller that gives up leaves its waiter in the queue, so that its answer is
//! dropped and later answers still reach their callers. When the connection ends, a request whose waiter is
//! in the queue fails as [`Failure::Lost`], since it may have been written. Every other request fails as
//! [`Failure::NotSent`].

use crate::connection::reserve;
use crate::error::Error;
use crate::login::ClientStream;
use bytes::BytesMut;
use quoit_wire::{Frame, FrameDecoder, FrameError};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{OwnedSemaphorePermit, mpsc, oneshot};

/// Outcome of a request without an answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The server has not seen the request.
    NotSent(Error),
    /// The server may have carried the request out.
    Lost(Error),
}

/// A slot for one request in flight on a connection. Dropping it frees the slot.
#[derive(Debug)]
pub(crate) struct Slot {
    in_flight: Arc<AtomicUsize>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A caller that waits for an answer. The slot stays taken until the answer comes, even if the caller has
/// given up.
#[derive(Debug)]
struct Waiter {
    reply: oneshot::Sender<Result<Frame, Failure>>,
    slot: Slot,
}

impl Waiter {
    /// Frees the slot and then sends the answer, so that a caller that has its answer finds the connection
    /// idle. The answer to a caller that gave up is dropped.
    fn answer(self, outcome: Result<Frame, Failure>) {
        drop(self.slot);
        let _ = self.reply.send(outcome);
    }
}

#[derive(Debug)]
struct QueuedRequest {
    frame: Vec<u8>,
    waiter: Waiter,
}

/// A caller's handle to a shared connection. The connection closes when the last handle is dropped; every
/// caller that waits for an answer holds one.
#[derive(Debug)]
pub(crate) struct Pipeline {
    address: Arc<str>,
    jobs: mpsc::Sender<QueuedRequest>,
    in_flight: Arc<AtomicUsize>,
}

impl Pipeline {
    /// Starts the task that owns the stream; at most `depth` requests will be in flight.
    pub(crate) fn start(
        stream: ClientStream,
        address: Arc<str>,
        depth: usize,
        decoder: FrameDecoder,
    ) -> Pipeline {
        let (jobs, queued) = mpsc::channel(depth);
        let driver = Driver { address: address.clone(), depth, decoder };
        tokio::spawn(driver.run(stream, queued));
        Pipeline { address, jobs, in_flight: Arc::default() }
    }

    /// True if the connection has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.jobs.is_closed()
    }

    /// Number of requests in flight, including those whose callers gave up.
    pub(crate) fn in_flight(&self) -> usize {
        self.in_flight.load(Ordering::Relaxed)
    }

    /// Takes a slot for a request in flight.
    pub(crate) fn slot(&self, permit: OwnedSemaphorePermit) -> Slot {
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        Slot { in_flight: self.in_flight.clone(), _permit: permit }
    }

    /// Sends a frame and waits for its answer. If the future is dropped after the frame was queued, the
    /// server still carries the request out, and its answer is dropped.
    pub(crate) async fn call(&self, frame: Vec<u8>, slot: Slot) -> Result<Frame, Failure> {
        let (reply, answer) = oneshot::channel();
        let job = QueuedRequest { frame, waiter: Waiter { reply, slot } };
        if self.jobs.send(job).await.is_err() {
            return Err(Failure::NotSent(lost(&self.address, io::ErrorKind::NotConnected.into())));
        }
        // The driver answers every job that it takes. A dropped sender means that it never took this job.
        answer.await.unwrap_or_else(|_| {
            let source = io::ErrorKind::NotConnected.into();
            Err(Failure::NotSent(lost(&self.address, source)))
        })
    }
}

fn lost(address: &str, source: io::Error) -> Error {
    Error::Lost { address: address.to_owned(), source: Arc::new(source) }
}

/// The task that owns the socket.
struct Driver {
    address: Arc<str>,
    depth: usize,
    decoder: FrameDecoder,
}

impl Driver {
    async fn run(self, stream: ClientStream, queued: mpsc::Receiver<QueuedRequest>) {
        match stream {
            ClientStream::Plain(mut stream) => {
                let (reader, writer) = stream.split();
                self.drive(reader, writer, queued).await;
            }
            ClientStream::Tls(stream) => {
                let (reader, writer) = tokio::io::split(stream);
                self.drive(reader, writer, queued).await;
            }
        }
    }

    async fn drive(
        self,
        reader: impl AsyncRead + Unpin,
        writer: impl AsyncWrite + Unpin,
        mut queued: mpsc::Receiver<QueuedRequest>,
    ) {
        let (sent, mut waiters) = mpsc::channel(self.depth);
        let end = tokio::select! {
            biased;
            error = self.read(reader, &mut waiters) => Some(error),
            ended = self.write(writer, &mut queued, sent) => ended.err(),
        };
        let Some(error) = end else {
            return;
        };
        waiters.close();
        while let Ok(waiter) = waiters.try_recv() {
            waiter.answer(Err(Failure::Lost(error.clone())));
        }
        queued.close();
        while let Ok(job) = queued.try_recv() {
            job.waiter.answer(Err(Failure::NotSent(error.clone())));
        }
    }

    /// Writes the queued frames, all that are there in one write. Returns `Ok` when no caller is left.
    async fn write(
        &self,
        mut writer: impl AsyncWrite + Unpin,
        queued: &mut mpsc::Receiver<QueuedRequest>,
        sent: mpsc::Sender<Waiter>,
    ) -> Result<(), Error> {
        let mut jobs = Vec::with_capacity(self.depth);
        let mut to_write = Vec::new();
        while queued.recv_many(&mut jobs, self.depth).await > 0 {
            to_write.clear();
            for job in jobs.drain(..) {
                to_write.extend_from_slice(&job.frame);
                // At most `depth` requests are in flight, so the channel has capacity. If two callers have
                // taken the last slot at the same time, the answers to requests already written free
                // capacity.
                if sent.send(job.waiter).await.is_err() {
                    return Ok(());
                }
            }
            let written = async {
                writer.write_all(&to_write).await?;
                writer.flush().await
            };
            written.await.map_err(|source| lost(&self.address, source))?;
        }
        Ok(())
    }

    /// Gives the answers to the callers in the order of the requests, until the connection ends.
    async fn read(
        &self,
        mut reader: impl AsyncRead + Unpin,
        waiters: &mut mpsc::Receiver<Waiter>,
    ) -> Error {
        let mut buffer = BytesMut::new();
        loop {
            if let Err(source) = reserve(&mut buffer, self.decoder) {
                return self.frame_error(source);
            }
            match reader.read_buf(&mut buffer).await {
                Ok(0) => return lost(&self.address, io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(source) => return lost(&self.address, source),
            }
            loop {
                match self.decoder.next_frame(&mut buffer) {
                    Ok(None) => break,
                    Err(source) => return self.frame_error(source),
                    Ok(Some(frame)) => match waiters.try_recv() {
                        Ok(waiter) => waiter.answer(Ok(frame)),
                        Err(_) => {
                            let unasked = "an answer came that no request asked for";
                            return lost(&self.address, io::Error::other(unasked));
                        }
                    },
                }
            }
        }
    }

    fn frame_error(&self, source: FrameError) -> Error {
        Error::Frame { address: self.address.to_string(), source }
    }
}
