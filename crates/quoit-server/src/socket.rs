//! A client's socket: reads that a graceful stop can end, and nothing else on the path of a request.

use atomic_waker::AtomicWaker;
use bytes::BytesMut;
use parking_lot::Mutex;
use slab::Slab;
use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio_util::io::poll_read_buf;

/// Ends the reads of all sockets of a server.
#[derive(Default)]
pub struct StopSignal {
    stopping: AtomicBool,
    stopped: Notify,
    waiting: Mutex<Slab<Arc<AtomicWaker>>>,
}

impl StopSignal {
    /// Lets every connection finish the requests that it has read, and read no more.
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

    /// Whether [`StopSignal::stop`] was called.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
}

/// A connected socket under a [`StopSignal`].
pub struct Socket {
    stream: TcpStream,
    signal: Arc<StopSignal>,
    waker: Arc<AtomicWaker>,
    place: usize,
}

/// What a read brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// So many bytes, at least one.
    Bytes(usize),
    /// The client has closed its side, or the server stops.
    End,
}

impl Socket {
    /// Registers a connected stream; Nagle's algorithm is switched off.
    pub fn new(stream: TcpStream, signal: Arc<StopSignal>) -> Self {
        // A socket that refuses the option still works, with worse latency.
        let _ = stream.set_nodelay(true);
        let waker = Arc::new(AtomicWaker::new());
        let place = signal.waiting.lock().insert(Arc::clone(&waker));
        Self { stream, signal, waker, place }
    }

    /// Appends what has arrived to `buffer`, after room for at least `room` bytes was made. One system call
    /// when bytes are waiting.
    pub async fn read(&mut self, buffer: &mut BytesMut, room: usize) -> io::Result<Incoming> {
        buffer.reserve(room);
        poll_fn(|context| {
            if let Poll::Ready(read) = poll_read_buf(Pin::new(&mut self.stream), context, buffer) {
                return Poll::Ready(read.map(|count| match count {
                    0 => Incoming::End,
                    count => Incoming::Bytes(count),
                }));
            }
            self.waker.register(context.waker());
            if self.signal.stopping.load(Ordering::SeqCst) {
                return Poll::Ready(Ok(Incoming::End));
            }
            Poll::Pending
        })
        .await
    }

    /// Writes all of `bytes`.
    pub async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.stream.write_all(bytes).await
    }

    /// Whether the server stops: then this answer should say that it is the last.
    pub fn is_stopping(&self) -> bool {
        self.signal.is_stopping()
    }

    /// Tells the client that nothing more will come.
    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.signal.waiting.lock().remove(self.place);
    }
}
