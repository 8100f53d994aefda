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
use std::time::Duration;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::net::TcpStream;
use tokio::sync::Notify;
use tokio::time::sleep;
use tokio_util::io::poll_read_buf;

/// Time between two looks at a client that has sent more while it waits for an answer.
const LOOK_PAUSE: Duration = Duration::from_secs(1);

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

    /// Waits until the client has closed its side, or can't be reached any more: for work that writes nothing
    /// for long, and would not find out. Takes nothing from what has arrived.
    pub async fn gone(&self) {
        loop {
            match self.stream.ready(Interest::READABLE).await {
                Ok(ready) if ready.is_read_closed() => return,
                // Something has arrived and is read later; that its end has come is not told by itself.
                Ok(_) => sleep(LOOK_PAUSE).await,
                Err(_) => return,
            }
        }
    }

    /// Does something that takes long and writes nothing meanwhile; ends it when the client is gone. The work
    /// is boxed: inside the connection's own task it would take its room in every connection.
    ///
    /// # Errors
    ///
    /// When the client is gone before it is done.
    pub async fn unless_gone<T>(&self, work: Pin<Box<impl Future<Output = T>>>) -> io::Result<T> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.gone() => Err(io::ErrorKind::ConnectionAborted.into()),
        }
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

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::net::TcpListener;
    use tokio::time::timeout;

    /// Long enough for what a loopback connection tells, and short for who waits for nothing.
    const MOMENT: Duration = Duration::from_millis(50);

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
        assert!(timeout(MOMENT, socket.gone()).await.is_err(), "it is still there");
        drop(client);
        timeout(10 * LOOK_PAUSE, socket.gone()).await.expect("it is gone");
    }

    #[tokio::test]
    async fn a_client_that_has_sent_more_is_gone_when_it_closes_and_nothing_is_lost() {
        let (mut client, mut socket) = pair().await;
        client.write_all(b"more").await.expect("it can be written to");
        assert!(timeout(MOMENT, socket.gone()).await.is_err(), "it is still there");
        client.shutdown().await.expect("it can be closed");
        timeout(10 * LOOK_PAUSE, socket.gone()).await.expect("it is gone");
        let mut buffer = BytesMut::new();
        let read = socket.read(&mut buffer, 16).await.expect("there is something to read");
        assert_eq!((read, &buffer[..]), (Incoming::Bytes(4), &b"more"[..]));
    }
}
