//! One direction of a connection in memory.

use parking_lot::Mutex;
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::Notify;
use tokio::time::{Instant, Sleep, sleep, sleep_until};

/// Maximum number of bytes under way in one direction of a connection, like the buffers of a socket.
pub(super) const CAPACITY_BYTES: usize = 256 * 1024;

/// The link from one host to another, which all connections between them share.
#[derive(Default)]
pub(super) struct HostLink {
    state: Mutex<LinkState>,
    healed: Notify,
}

#[derive(Default)]
struct LinkState {
    delay: Duration,
    silent: bool,
    pipes: Vec<Weak<Mutex<Pipe>>>,
}

impl HostLink {
    pub(super) fn set_delay(&self, delay: Duration) {
        self.state.lock().delay = delay;
    }

    pub(super) fn set_silent(&self, silent: bool) {
        let mut state = self.state.lock();
        state.silent = silent;
        if !silent {
            self.healed.notify_waiters();
            state.for_each_pipe(Pipe::wake_reader);
        }
    }

    /// Resets every connection on the link.
    pub(super) fn reset(&self) {
        let mut state = self.state.lock();
        state.for_each_pipe(Pipe::reset);
        state.pipes.clear();
    }

    /// Waits for as long as bytes sent now would take.
    pub(super) async fn delivered(&self) {
        let delay = self.state.lock().delay;
        sleep(delay).await;
        loop {
            let healed = self.healed.notified();
            if !self.state.lock().silent {
                return;
            }
            healed.await;
        }
    }
}

impl LinkState {
    fn for_each_pipe(&mut self, mut act: impl FnMut(&mut Pipe)) {
        self.pipes.retain(|pipe| match pipe.upgrade() {
            Some(pipe) => {
                act(&mut pipe.lock());
                true
            }
            None => false,
        });
    }
}

#[derive(Default)]
struct Pipe {
    /// Bytes under way, with their times of arrival.
    pieces: VecDeque<(Instant, VecDeque<u8>)>,
    size_bytes: usize,
    end: Option<PipeEnd>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy, PartialEq)]
enum PipeEnd {
    /// The writer is gone. Bytes under way still arrive.
    Closed,
    Reset,
}

impl Pipe {
    fn wake_reader(&mut self) {
        if let Some(reader) = self.reader.take() {
            reader.wake();
        }
    }

    fn wake_writer(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.wake();
        }
    }

    fn reset(&mut self) {
        self.end = Some(PipeEnd::Reset);
        self.pieces.clear();
        self.size_bytes = 0;
        self.wake_reader();
        self.wake_writer();
    }
}

/// Creates one direction of a new connection.
pub(super) fn pipe(link: &Arc<HostLink>) -> (PipeReader, PipeWriter) {
    let pipe = Arc::default();
    let mut state = link.state.lock();
    state.pipes.retain(|pipe| pipe.strong_count() > 0);
    state.pipes.push(Arc::downgrade(&pipe));
    drop(state);
    let reader = PipeReader { pipe: Arc::clone(&pipe), link: Arc::clone(link), arrival: None };
    (reader, PipeWriter { pipe, link: Arc::clone(link) })
}

pub(super) struct PipeReader {
    pipe: Arc<Mutex<Pipe>>,
    link: Arc<HostLink>,
    arrival: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for PipeReader {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let silent = this.link.state.lock().silent;
        let mut pipe = this.pipe.lock();
        if pipe.end == Some(PipeEnd::Reset) {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        pipe.reader = Some(context.waker().clone());
        if silent {
            return Poll::Pending;
        }
        let Some((arrives_at, _)) = pipe.pieces.front() else {
            return if pipe.end.is_some() { Poll::Ready(Ok(())) } else { Poll::Pending };
        };
        if *arrives_at > Instant::now() {
            let arrival = this.arrival.insert(Box::pin(sleep_until(*arrives_at)));
            if arrival.as_mut().poll(context).is_pending() {
                return Poll::Pending;
            }
        }
        this.arrival = None;
        if let Some((_, bytes)) = pipe.pieces.front_mut() {
            let piece = bytes.as_slices().0;
            let piece = piece.get(..into.remaining()).unwrap_or(piece);
            let taken = piece.len();
            into.put_slice(piece);
            bytes.drain(..taken);
            let is_empty = bytes.is_empty();
            pipe.size_bytes -= taken;
            if is_empty {
                pipe.pieces.pop_front();
            }
        }
        pipe.wake_writer();
        Poll::Ready(Ok(()))
    }
}

impl Drop for PipeReader {
    fn drop(&mut self) {
        self.pipe.lock().reset();
    }
}

pub(super) struct PipeWriter {
    pipe: Arc<Mutex<Pipe>>,
    link: Arc<HostLink>,
}

impl AsyncWrite for PipeWriter {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let delay = self.link.state.lock().delay;
        let mut pipe = self.pipe.lock();
        if pipe.end.is_some() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        let taken = bytes.len().min(CAPACITY_BYTES - pipe.size_bytes);
        if taken == 0 && !bytes.is_empty() {
            pipe.writer = Some(context.waker().clone());
            return Poll::Pending;
        }
        let last_arrival = pipe.pieces.back().map(|(arrives_at, _)| *arrives_at);
        let arrives_at = (Instant::now() + delay).max(last_arrival.unwrap_or_else(Instant::now));
        pipe.pieces.push_back((arrives_at, bytes.iter().take(taken).copied().collect()));
        pipe.size_bytes += taken;
        pipe.wake_reader();
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut pipe = self.pipe.lock();
        if pipe.end.is_none() {
            pipe.end = Some(PipeEnd::Closed);
        }
        pipe.wake_reader();
        Poll::Ready(Ok(()))
    }
}

impl Drop for PipeWriter {
    fn drop(&mut self) {
        let mut pipe = self.pipe.lock();
        if pipe.end.is_none() {
            pipe.end = Some(PipeEnd::Closed);
        }
        pipe.wake_reader();
    }
}
