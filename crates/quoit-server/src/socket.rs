//! A client's socket: reads that a graceful stop can end, writes that return their memory to the budget,
//! and time limits for clients that are slow in the middle of a request or an answer.

use crate::memory::MemoryReservation;
use crate::pace::{PaceSettings, PacedTransfer};
use crate::pieces::YieldQueue;
use crate::spare_buffers::{
    give_back_answer_buffer, give_back_input, make_room, take_answer_buffer,
};
use crate::stream::Stream;
use atomic_waker::AtomicWaker;
use bytes::{BufMut, BytesMut};
use parking_lot::Mutex;
use slab::Slab;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt, Interest};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until, timeout_at};
use tokio_util::io::poll_read_buf;

/// Interval between checks of a client that has sent more data while it waits for an answer.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

/// Buffers larger than this are freed after the answer that needed them, in bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024;
/// Smallest rest of an answer, in bytes, that is moved to a smaller buffer when at least half of the answer
/// is sent.
pub(crate) const MOVED_BYTES_MIN: usize = 1024 * 1024;
/// Time and bytes that a client has to read its last answer before the connection is closed.
const LINGER_LIMIT: Duration = Duration::from_secs(2);
const LINGER_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Size in bytes of the buffer for data that is read and discarded.
const DROPPED_BYTES: usize = 16 * 1024;

/// Bytes of a large request or answer that are read or written before other tasks get a turn.
pub(crate) const PIECE_BYTES: usize = 128 * 1024;

/// Ends the reads of all sockets of a server, and orders the pieces of their long work.
#[derive(Default)]
pub struct StopSignal {
    pieces: YieldQueue,
    stopping: AtomicBool,
    stopped: Notify,
    waiting: Mutex<Slab<Arc<AtomicWaker>>>,
}

impl StopSignal {
    /// Lets every connection finish the requests that it has read, and stops further reads.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.stopped.notify_waiters();
        for (_, waker) in self.waiting.lock().iter() {
            waker.wake();
        }
    }

    /// Waits for [`StopSignal::stop`].
    pub async fn stopped(&self) {
        let stopped = self.stopped.notified();
        if !self.is_stopping() {
            stopped.await;
        }
    }

    /// True if [`StopSignal::stop`] was called.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// A connected socket under a [`StopSignal`].
pub struct Socket {
    stream: Stream,
    signal: Arc<StopSignal>,
    waker: Arc<AtomicWaker>,
    place: usize,
    /// Moment from which reads fail with `TimedOut`.
    deadline: Option<Instant>,
    /// Bytes of large requests and answers since the last yield to other tasks.
    piece_bytes: usize,
    /// True if a read had to wait since the last call of [`Socket::take_has_waited`].
    has_waited: bool,
}

/// The outcome of a read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReadOutcome {
    /// Number of bytes that arrived, at least one.
    Bytes(usize),
    /// The client has closed its side, or the server is stopping.
    End,
}

impl Socket {
    /// Registers a connected stream and switches Nagle's algorithm off.
    pub fn new(stream: impl Into<Stream>, signal: Arc<StopSignal>) -> Self {
        let stream = stream.into();
        stream.send_at_once();
        let waker = Arc::new(AtomicWaker::new());
        let place = signal.waiting.lock().insert(Arc::clone(&waker));
        Self { stream, signal, waker, place, deadline: None, piece_bytes: 0, has_waited: false }
    }

    /// Makes reads fail with `TimedOut` from `moment` on; `None` removes the limit.
    pub(crate) const fn set_deadline(&mut self, moment: Option<Instant>) {
        self.deadline = moment;
    }

    /// Appends the bytes that have arrived to `buffer`, after reserving space for at least `room` bytes.
    /// Costs one system call when bytes are waiting.
    pub async fn read(&mut self, buffer: &mut BytesMut, room: usize) -> io::Result<ReadOutcome> {
        buffer.reserve(room);
        match self.deadline {
            None => poll_fn(|context| self.poll_read(context, buffer)).await,
            Some(deadline) => self.read_before(buffer, deadline).await,
        }
    }

    /// Reads the first bytes of a request into `input`. Both `input` and `out` are empty, and hold no memory
    /// while no bytes are waiting, because a client may be idle for any time between its requests. Clients
    /// that have not logged in keep their buffers: they are few, and have a deadline.
    pub(crate) async fn read_first(
        &mut self,
        input: &mut BytesMut,
        out: &mut Vec<u8>,
    ) -> io::Result<ReadOutcome> {
        debug_assert!(out.is_empty(), "answers are sent before the connection waits");
        if let Some(deadline) = self.deadline {
            make_room(input);
            return self.read_before(input, deadline).await;
        }
        poll_fn(|context| {
            make_room(input);
            let incoming = self.poll_read(context, input);
            match incoming {
                Poll::Ready(_) => take_answer_buffer(out),
                Poll::Pending => {
                    give_back_input(input);
                    give_back_answer_buffer(out);
                }
            }
            incoming
        })
        .await
    }

    /// Reads the rest of a request whose first bytes have arrived. Takes at most `room` bytes even if the
    /// buffer has more space, because the caller asked the memory budget for no more. Creates a timer only
    /// if no bytes are waiting.
    ///
    /// # Errors
    ///
    /// `TimedOut` when the client is too slow.
    pub async fn read_on(
        &mut self,
        buffer: &mut BytesMut,
        room: usize,
        transfer: &mut PacedTransfer,
    ) -> io::Result<ReadOutcome> {
        buffer.reserve(room);
        let mut part = buffer.limit(room);
        let at_once = poll_fn(|context| Poll::Ready(self.poll_read(context, &mut part))).await;
        let incoming = match at_once {
            Poll::Ready(incoming) => incoming?,
            Poll::Pending => {
                let deadline = self
                    .deadline
                    .map_or(transfer.deadline(), |deadline| deadline.min(transfer.deadline()));
                self.read_before(&mut part, deadline).await?
            }
        };
        if let ReadOutcome::Bytes(count) = incoming {
            transfer.moved(count);
            self.spend(count).await;
        }
        Ok(incoming)
    }

    async fn read_before(
        &mut self,
        buffer: &mut impl BufMut,
        deadline: Instant,
    ) -> io::Result<ReadOutcome> {
        let mut late = pin!(sleep_until(deadline));
        poll_fn(|context| match self.poll_read(context, buffer) {
            Poll::Ready(incoming) => Poll::Ready(incoming),
            Poll::Pending => {
                late.as_mut().poll(context).map(|()| Err(io::ErrorKind::TimedOut.into()))
            }
        })
        .await
    }

    #[inline(always)]
    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        buffer: &mut impl BufMut,
    ) -> Poll<io::Result<ReadOutcome>> {
        if let Poll::Ready(read) = poll_read_buf(Pin::new(&mut self.stream), context, buffer) {
            return Poll::Ready(read.map(|count| match count {
                0 => ReadOutcome::End,
                count => ReadOutcome::Bytes(count),
            }));
        }
        self.has_waited = true;
        self.waker.register(context.waker());
        if self.signal.stopping.load(Ordering::SeqCst) {
            return Poll::Ready(Ok(ReadOutcome::End));
        }
        Poll::Pending
    }

    /// Writes `out` and empties it if the system takes all of it at once, which is the usual case. Returns
    /// false if bytes remain; [`Socket::write_out`] must write them. Always returns false over TLS and for
    /// answers of more than one piece, without writing.
    #[inline]
    pub(crate) fn write_now(
        &self,
        out: &mut Vec<u8>,
        reservation: &mut MemoryReservation,
    ) -> io::Result<bool> {
        if out.len() > PIECE_BYTES || self.stream.is_tls() {
            return Ok(false);
        }
        if !out.is_empty() {
            let sent = self.stream.try_write(out)?;
            if sent < out.len() {
                out.drain(..sent);
                return Ok(false);
            }
        }
        empty(out);
        reservation.keep(0);
        Ok(true)
    }

    /// Writes all of `out` and empties it. A large answer gives the memory of `reservation` back in halves:
    /// when half is sent, the rest moves to a buffer of its own size.
    ///
    /// # Errors
    ///
    /// `TimedOut` when the client does not read.
    pub async fn write_out(
        &mut self,
        out: &mut Vec<u8>,
        reservation: &mut MemoryReservation,
        pace: PaceSettings,
    ) -> io::Result<()> {
        if self.write_now(out, reservation)? {
            return Ok(());
        }
        self.write_slowly(out, reservation, pace).await?;
        empty(out);
        reservation.keep(0);
        Ok(())
    }

    /// Writes all of `out` at the rate at which the client takes it.
    #[expect(
        clippy::indexing_slicing,
        reason = "`sent` is at most the number of bytes of the buffer"
    )]
    async fn write_slowly(
        &mut self,
        out: &mut Vec<u8>,
        reservation: &mut MemoryReservation,
        pace: PaceSettings,
    ) -> io::Result<()> {
        let (mut sent, mut transfer) = (0, None);
        let is_large = out.len() > PIECE_BYTES;
        while sent < out.len() {
            let piece = &out[sent..out.len().min(sent + PIECE_BYTES)];
            let count = match self.poll_write_once(piece).await {
                Poll::Ready(count) => count?,
                Poll::Pending => {
                    let transfer = transfer.get_or_insert_with(|| PacedTransfer::begin(pace));
                    within(transfer.deadline(), self.stream.write(piece)).await?
                }
            };
            if is_large {
                self.spend(count).await;
            }
            if count == 0 {
                return Err(io::ErrorKind::WriteZero.into());
            }
            sent += count;
            if let Some(transfer) = &mut transfer {
                transfer.moved(count);
            }
            let left = out.len() - sent;
            if left >= MOVED_BYTES_MIN && left <= sent {
                *out = out[sent..].to_vec();
                reservation.keep(left);
                sent = 0;
            }
        }
        match self.stream.is_tls() {
            true => self.flush_tls(&mut transfer, pace).await,
            false => Ok(()),
        }
    }

    /// Counts bytes of a large request or answer, and yields to other tasks after each piece.
    pub(crate) async fn spend(&mut self, bytes: usize) {
        self.piece_bytes += bytes;
        if self.piece_bytes >= PIECE_BYTES {
            self.piece_bytes = 0;
            self.yield_to_ready_tasks().await;
        }
    }

    /// True if a read had to wait since the last call, so that other tasks have had their turns.
    #[inline]
    pub(crate) const fn take_has_waited(&mut self) -> bool {
        std::mem::replace(&mut self.has_waited, false)
    }

    /// Yields until all tasks that are ready have run, before a piece of long work.
    pub(crate) async fn yield_to_ready_tasks(&self) {
        self.signal.pieces.next().await;
    }

    /// Flushes the last TLS records to the system.
    pub(crate) async fn flush_tls(
        &mut self,
        transfer: &mut Option<PacedTransfer>,
        pace: PaceSettings,
    ) -> io::Result<()> {
        let stream = &mut self.stream;
        let flushed =
            poll_fn(|context| Poll::Ready(Pin::new(&mut *stream).poll_flush(context))).await;
        match flushed {
            Poll::Ready(flushed) => flushed,
            Poll::Pending => {
                let transfer = transfer.get_or_insert_with(|| PacedTransfer::begin(pace));
                within(transfer.deadline(), self.stream.flush()).await
            }
        }
    }

    /// Takes the stream out for a handshake.
    pub(crate) fn take_stream(&mut self) -> Stream {
        std::mem::replace(&mut self.stream, Stream::Closed)
    }

    /// Puts the stream back after a handshake.
    pub(crate) fn put_stream(&mut self, stream: Stream) {
        self.stream = stream;
    }

    /// True if the client uses TLS.
    pub(crate) const fn is_tls(&self) -> bool {
        self.stream.is_tls()
    }

    /// The common name of the client's certificate, if it presented one.
    pub(crate) fn certificate_name(&self) -> Option<String> {
        self.stream.certificate_name()
    }

    /// Sleeps until `moment`, unless the client disconnects or the server stops first.
    ///
    /// # Errors
    ///
    /// `ConnectionAborted` when the client is gone or the server stops.
    pub(crate) async fn rest_until(&self, moment: Instant) -> io::Result<()> {
        tokio::select! {
            biased;
            () = sleep_until(moment) => Ok(()),
            () = self.disconnected() => Err(io::ErrorKind::ConnectionAborted.into()),
            () = self.signal.stopped() => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// Writes as much as the system takes at once; `Pending` if it takes nothing.
    async fn poll_write_once(&mut self, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let stream = &mut self.stream;
        poll_fn(|context| Poll::Ready(Pin::new(&mut *stream).poll_write(context, bytes))).await
    }

    /// Writes pieces of an answer with one call, as much as the system takes.
    pub(crate) fn poll_write_slices(
        &mut self,
        context: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    /// Closes the write side, and reads and discards what the client still sends, within limits, so that it
    /// can read its last answer. Closing a socket with unread bytes would make the system discard the
    /// answer.
    pub async fn linger(&mut self) -> io::Result<()> {
        self.shutdown().await?;
        let deadline = Instant::now() + LINGER_LIMIT;
        let (mut dropped, mut dropped_bytes) = (BytesMut::new(), 0);
        while dropped_bytes < LINGER_BYTES_MAX {
            dropped.clear();
            match within(deadline, self.read(&mut dropped, DROPPED_BYTES)).await {
                Ok(ReadOutcome::Bytes(count)) => dropped_bytes += count,
                Ok(ReadOutcome::End) | Err(_) => break,
            }
        }
        Ok(())
    }

    /// Waits until the client has closed its side or is unreachable. For work that writes nothing for a
    /// long time and would not notice otherwise. Consumes no received bytes.
    ///
    /// A client that has only half-closed its connection counts as gone at once. Otherwise its waiting
    /// request could take an entry of a queue from clients that are still connected.
    pub async fn disconnected(&self) {
        loop {
            match self.stream.ready(Interest::READABLE).await {
                Ok(ready) if ready.is_read_closed() => return,
                // Bytes have arrived that are read later. While they wait, readiness does not change again
                // when the client closes, so the loop polls.
                Ok(_) => sleep(LOOK_PAUSE).await,
                Err(_) => return,
            }
        }
    }

    /// Does work that takes long and writes nothing meanwhile, and drops it when the client is gone. The
    /// work is boxed, because the task of every connection would reserve space for it otherwise.
    ///
    /// # Errors
    ///
    /// `ConnectionAborted` when the client is gone before the work is done.
    pub async fn unless_disconnected<T>(
        &self,
        work: Pin<Box<impl Future<Output = T>>>,
    ) -> io::Result<T> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.disconnected() => Err(io::ErrorKind::ConnectionAborted.into()),
        }
    }

    /// True if the server is stopping. The answer should then say that it is the last one of the
    /// connection.
    pub fn is_stopping(&self) -> bool {
        self.signal.is_stopping()
    }

    /// Closes the write side: tells the client that nothing more will come.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }
}

/// Empties a buffer of answers, and frees it if a large answer has grown it.
#[inline]
fn empty(out: &mut Vec<u8>) {
    if out.capacity() > KEPT_BYTES_MAX {
        *out = Vec::new();
    } else {
        out.clear();
    }
}

pub(crate) async fn within<T>(
    deadline: Instant,
    transfer: impl Future<Output = io::Result<T>>,
) -> io::Result<T> {
    timeout_at(deadline, transfer).await?
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.signal.waiting.lock().remove(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::reservation_of;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};
    use tokio::task::yield_now;
    use tokio::time::timeout;

    /// Long enough for an event of a loopback connection to arrive; short, because some tests wait for all
    /// of it.
    const MOMENT: Duration = Duration::from_millis(50);
    /// Longer than any time limit, for paused clocks.
    const LONG: Duration = Duration::from_secs(10_000);

    async fn pair() -> (TcpStream, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it has an address");
        let client = TcpStream::connect(address).await.expect("it listens");
        let (stream, _) = listener.accept().await.expect("somebody connects");
        (client, Socket::new(stream, Arc::default()))
    }

    #[tokio::test]
    async fn a_client_is_gone_when_it_closes_and_not_before() {
        let (client, socket) = pair().await;
        assert!(timeout(MOMENT, socket.disconnected()).await.is_err(), "it is still there");
        drop(client);
        timeout(10 * LOOK_PAUSE, socket.disconnected()).await.expect("it is gone");
    }

    #[tokio::test]
    async fn a_client_that_is_gone_ends_work_of_many_short_steps() {
        let (client, socket) = pair().await;
        drop(client);
        let work =
            async { while socket.unless_disconnected(Box::pin(sleep(MOMENT))).await.is_ok() {} };
        timeout(10 * LOOK_PAUSE, work).await.expect("it ends");
    }

    #[tokio::test]
    async fn a_client_that_has_sent_more_is_gone_when_it_closes_and_nothing_is_lost() {
        let (mut client, mut socket) = pair().await;
        client.write_all(b"more").await.expect("it can be written to");
        assert!(timeout(MOMENT, socket.disconnected()).await.is_err(), "it is still there");
        client.shutdown().await.expect("it can be closed");
        timeout(10 * LOOK_PAUSE, socket.disconnected()).await.expect("it is gone");
        let mut buffer = BytesMut::new();
        let read = socket.read(&mut buffer, 16).await.expect("there is something to read");
        assert_eq!((read, &buffer[..]), (ReadOutcome::Bytes(4), &b"more"[..]));
    }

    #[tokio::test]
    async fn a_connection_holds_buffers_only_while_it_has_a_request() {
        let (mut client, mut socket) = pair().await;
        let (mut input, mut out) = (BytesMut::with_capacity(8192), Vec::with_capacity(4096));
        tokio::select! {
            biased;
            read = socket.read_first(&mut input, &mut out) => panic!("nothing was sent: {read:?}"),
            () = yield_now() => {}
        }
        assert_eq!((input.capacity(), out.capacity()), (0, 0));
        client.write_all(b"request").await.expect("it can be written to");
        let read = socket.read_first(&mut input, &mut out).await.expect("there is a request");
        assert_eq!((read, &input[..]), (ReadOutcome::Bytes(7), &b"request"[..]));
        assert_eq!(out.capacity(), 4096, "the thread's buffer is used again");
    }

    #[tokio::test]
    async fn memory_of_an_answer_goes_back_as_it_is_sent() {
        const ANSWER_BYTES: usize = 32 << 20;
        let (mut client, mut socket) = pair().await;
        let (mut out, mut reservation) = (vec![7; ANSWER_BYTES], reservation_of(1 << 30));
        reservation.hold(out.len()).expect("there is room");
        let mut first = vec![0; ANSWER_BYTES * 3 / 4];
        tokio::select! {
            biased;
            written = socket.write_out(&mut out, &mut reservation, PaceSettings::default()) => {
                panic!("nobody has read all of it: {written:?}");
            }
            read = client.read_exact(&mut first) => drop(read.expect("it is sent")),
        }
        // Three quarters are with the client: the rest has moved twice, or the last part is not noticed
        // yet.
        let held_bytes = reservation.held_bytes();
        assert!(held_bytes <= ANSWER_BYTES as u64 / 2, "{held_bytes}");
        assert_eq!(held_bytes, out.len() as u64);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_read_is_given_up() {
        let (client, mut socket) = pair().await;
        let (mut out, mut reservation) = (vec![7; 32 << 20], reservation_of(1 << 30));
        let written = socket.write_out(&mut out, &mut reservation, PaceSettings::default());
        let written = timeout(LONG, written).await.expect("it has a time limit");
        assert_eq!(written.expect_err("nobody reads").kind(), io::ErrorKind::TimedOut);
        drop(client);
    }

    #[tokio::test(start_paused = true)]
    async fn a_request_that_stands_still_is_given_up() {
        let (mut client, mut socket) = pair().await;
        client.write_all(b"half").await.expect("it can be written to");
        let mut transfer = PacedTransfer::begin(PaceSettings::default());
        let mut buffer = BytesMut::new();
        let read = socket.read_on(&mut buffer, 16, &mut transfer).await;
        assert_eq!(read.expect("it has arrived"), ReadOutcome::Bytes(4));
        let read = timeout(LONG, socket.read_on(&mut buffer, 16, &mut transfer)).await;
        let read = read.expect("it has a time limit");
        assert_eq!(read.expect_err("nothing more comes").kind(), io::ErrorKind::TimedOut);
    }
}
