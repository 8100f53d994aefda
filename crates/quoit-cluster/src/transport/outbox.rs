//! Output of a connection: a buffer to which many tasks append and which one task writes.
//!
//! Each connection has one task, its driver. A task that appends either writes at once, if no other task is
//! writing ([`Urgency::Now`]), or leaves the write to the driver. The driver writes when all tasks that are
//! ready to run have appended ([`Urgency::Soon`]), so that one system call carries the messages of many
//! tasks.
//!
//! Large payloads are not copied into the buffer: they stay in their own buffers ([`SharedParts`]), and
//! vectored writes send both in order.

use super::statistics::Traffic;
use parking_lot::{Mutex, MutexGuard};
use prost::Message;
use quoit_wire::SharedParts;
use quoit_wire::internode::{FramePrefix, Payload, append_frame_shared};
use std::future::Future;
use std::io::{self, IoSlice};
use std::mem;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};
use tokio::io::AsyncWrite;

/// Maximum capacity of an empty buffer that is kept for reuse, in bytes.
const KEPT_BYTES_MAX: usize = 256 * 1024;

/// Maximum number of pieces of one vectored write.
const SLICE_COUNT_MAX: usize = 16;

pub(super) type BoxWriter = Box<dyn AsyncWrite + Send + Unpin>;

/// Time at which appended bytes are to be written.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Urgency {
    /// After the tasks that are ready to run have appended theirs.
    Soon,
    /// At once.
    Now,
}

/// Whether some of the bytes last given to a writer may have left when it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FailedWrite {
    /// None of them have left: a system call that fails sends nothing.
    SendsNothing,
    /// Some may have left: TLS may have sent some records.
    MaySend,
}

/// The buffer of a connection, and other state under the same lock.
pub(super) struct Outbox<T> {
    inner: Mutex<Inner<T>>,
}

pub(super) struct Inner<T> {
    /// Other state that the lock guards.
    pub(super) state: T,
    /// Frames of which no byte was given to the writer.
    pending: Frames,
    /// An empty buffer, to swap with `pending`.
    spare: Vec<u8>,
    writer: Writer,
    /// Number of connections so far. A task that was writing to an earlier connection must
    /// not put its writer back.
    epoch: u64,
    driver: Option<Waker>,
    asked: Option<Urgency>,
    /// True while appended frames are held back, by the driver while it serves requests or until
    /// there is another connection.
    corked: bool,
    pub(super) traffic: Traffic,
    /// Position in the stream of all frames up to which bytes have left, or may have left.
    left_bytes: u64,
    failed_write: FailedWrite,
}

enum Writer {
    /// There is no connection.
    Absent,
    Free(BoxWriter),
    /// A task is writing, and will check `pending` afterwards.
    Busy,
    /// The peer accepts no more at the moment. The driver continues at `from`.
    Blocked {
        writer: BoxWriter,
        bytes: Frames,
        from: usize,
    },
    Broken(io::Error),
}

/// Encoded frames.
#[derive(Default)]
struct Frames {
    /// All bytes except for large payloads.
    gathered: Vec<u8>,
    /// Large payloads, by their positions in `gathered`.
    shared: SharedParts,
}

impl Frames {
    fn len(&self) -> usize {
        self.gathered.len() + self.shared.size_bytes()
    }

    fn is_empty(&self) -> bool {
        self.gathered.is_empty() && self.shared.is_empty()
    }
}

impl<T> Outbox<T> {
    pub(super) fn new(state: T) -> Outbox<T> {
        Outbox {
            inner: Mutex::new(Inner {
                state,
                pending: Frames::default(),
                spare: Vec::new(),
                writer: Writer::Absent,
                epoch: 0,
                driver: None,
                asked: None,
                corked: false,
                traffic: Traffic::default(),
                left_bytes: 0,
                failed_write: FailedWrite::SendsNothing,
            }),
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner<T>> {
        self.inner.lock()
    }

    /// Makes sure that appended frames are written.
    pub(super) fn flush(&self, mut inner: MutexGuard<'_, Inner<T>>, urgency: Urgency) {
        if inner.corked || inner.pending.is_empty() || !matches!(inner.writer, Writer::Free(_)) {
            return;
        }
        match urgency {
            Urgency::Now if inner.asked.is_none() => {
                let inner = self.write(inner, &mut Context::from_waker(Waker::noop()));
                if matches!(inner.writer, Writer::Blocked { .. }) {
                    inner.wake_driver();
                }
            }
            _ => inner.ask(urgency),
        }
    }

    /// The driver's part: continues a blocked write, and writes appended frames if asked to. Returns the
    /// number of unwritten bytes.
    ///
    /// # Errors
    ///
    /// If the connection broke, or was closed on this side.
    pub(super) fn poll_drive(
        &self,
        context: &mut Context<'_>,
        is_deferred: &mut bool,
    ) -> io::Result<usize> {
        let mut inner = self.inner.lock();
        inner.set_driver(context.waker());
        loop {
            match (&inner.writer, inner.asked) {
                (Writer::Broken(fault), _) => return Err(fault.kind().into()),
                (Writer::Absent, _) => return Err(io::ErrorKind::ConnectionAborted.into()),
                (Writer::Blocked { .. }, _) => {}
                (Writer::Free(_), Some(_)) if inner.pending.is_empty() => {
                    inner.asked = None;
                    return Ok(0);
                }
                (Writer::Free(_), Some(Urgency::Now)) => {}
                (Writer::Free(_), Some(Urgency::Soon)) => {
                    if !mem::replace(is_deferred, true) {
                        defer(context);
                        return Ok(inner.unwritten_bytes());
                    }
                }
                _ => return Ok(inner.unwritten_bytes()),
            }
            *is_deferred = false;
            inner = self.write(inner, context);
            if matches!(inner.writer, Writer::Blocked { .. }) {
                return Ok(inner.unwritten_bytes());
            }
        }
    }

    /// Writes the pending frames, or continues a blocked write. The lock is released meanwhile.
    fn write<'a>(
        &'a self,
        mut inner: MutexGuard<'a, Inner<T>>,
        context: &mut Context<'_>,
    ) -> MutexGuard<'a, Inner<T>> {
        let (mut writer, bytes, mut from) = match mem::replace(&mut inner.writer, Writer::Busy) {
            Writer::Free(writer) => {
                let spare = Frames { gathered: mem::take(&mut inner.spare), ..Frames::default() };
                inner.asked = None;
                (writer, mem::replace(&mut inner.pending, spare), 0)
            }
            Writer::Blocked { writer, bytes, from } => (writer, bytes, from),
            other => {
                inner.writer = other;
                return inner;
            }
        };
        let epoch = inner.epoch;
        // Count all bytes as left before releasing the lock: if the connection is closed during the write,
        // the part that was written is not known.
        inner.left_bytes += (bytes.len() - from) as u64;
        drop(inner);
        let mut write_count = 0;
        let outcome = poll_write_all(&mut writer, context, &bytes, &mut from, &mut write_count);
        let mut inner = self.inner.lock();
        inner.traffic.write_count += write_count;
        if inner.epoch != epoch {
            return inner;
        }
        let is_failed = matches!(outcome, Poll::Ready(Err(_)));
        if !is_failed || inner.failed_write == FailedWrite::SendsNothing {
            inner.left_bytes -= (bytes.len() - from) as u64;
        }
        match outcome {
            Poll::Ready(Ok(())) => {
                let Frames { gathered: mut spare, .. } = bytes;
                spare.clear();
                if spare.capacity() <= KEPT_BYTES_MAX {
                    inner.spare = spare;
                }
                inner.writer = Writer::Free(writer);
                if !inner.pending.is_empty() && !inner.corked {
                    inner.ask(Urgency::Soon);
                }
            }
            Poll::Ready(Err(fault)) => {
                inner.writer = Writer::Broken(fault);
                inner.wake_driver();
            }
            Poll::Pending => {
                inner.writer = Writer::Blocked { writer, bytes, from };
            }
        }
        inner.assert_positions();
        inner
    }
}

impl<T> Inner<T> {
    /// Takes a new connection into use. Pending frames are written to it.
    pub(super) fn open(&mut self, writer: BoxWriter, failed_write: FailedWrite) {
        self.epoch += 1;
        self.failed_write = failed_write;
        // Frames that the previous connection never wrote were dropped with it.
        self.left_bytes = self.waits_from();
        self.writer = Writer::Free(writer);
        self.assert_positions();
        self.corked = false;
        if !self.pending.is_empty() {
            self.ask(Urgency::Now);
        }
    }

    /// Drops the connection and the unwritten frames.
    pub(super) fn close(&mut self) {
        self.epoch += 1;
        self.writer = Writer::Absent;
        self.asked = None;
        self.pending = Frames::default();
        self.assert_positions();
        self.wake_driver();
    }

    /// In debug builds, asserts that the stream of all frames has no gap: after the bytes that have left
    /// come those that the writer has, and then those that wait. A call whose frame is past the first part
    /// may be sent again elsewhere.
    fn assert_positions(&self) {
        let waits_from = self.waits_from();
        let writer_bytes = match &self.writer {
            Writer::Blocked { bytes, from, .. } => (bytes.len() - from) as u64,
            Writer::Free(_) | Writer::Busy => 0,
            // Frames that were never written are gone.
            Writer::Absent | Writer::Broken(_) => waits_from.saturating_sub(self.left_bytes),
        };
        debug_assert_eq!(
            self.left_bytes + writer_bytes,
            waits_from,
            "frames have left, are being written or wait"
        );
    }

    /// Returns true if there is a connection.
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.writer, Writer::Absent)
    }

    /// Returns the position after the last frame, in the stream of all frames ever appended.
    pub(super) fn appended_bytes(&self) -> u64 {
        self.traffic.sent_bytes
    }

    /// Returns the position from which no byte was given to the writer, in the stream of all frames ever
    /// appended.
    pub(super) fn waits_from(&self) -> u64 {
        self.appended_bytes() - self.pending.len() as u64
    }

    /// Returns true if nothing of a frame that begins at this position has left; false if that is not
    /// known.
    pub(super) fn is_unsent(&self, position: u64) -> bool {
        position >= self.left_bytes
    }

    /// Appends a frame and returns its size in bytes. If it is larger than `frame_bytes_max`, the error is
    /// the size that it would have had, or that of the payload alone.
    pub(super) fn append(
        &mut self,
        prefix: FramePrefix,
        header: &impl Message,
        payload: &(impl Payload + ?Sized),
        frame_bytes_max: u32,
    ) -> Result<u64, u64> {
        let payload_bytes = payload.size_bytes() as u64;
        if payload_bytes > u64::from(frame_bytes_max) {
            return Err(payload_bytes);
        }
        let start = self.pending.len();
        let Frames { gathered, shared } = &mut self.pending;
        let (gathered_bytes, shared_count) = (gathered.len(), shared.count());
        append_frame_shared((gathered, shared), prefix, header, payload)
            .map_err(|_| payload_bytes)?;
        let size_bytes = (self.pending.len() - start) as u64;
        if size_bytes > u64::from(frame_bytes_max) {
            self.pending.gathered.truncate(gathered_bytes);
            self.pending.shared.truncate(shared_count);
            return Err(size_bytes);
        }
        self.traffic.sent(size_bytes);
        self.assert_positions();
        Ok(size_bytes)
    }

    /// Appends a frame that is known to be short.
    pub(super) fn append_small(
        &mut self,
        prefix: FramePrefix,
        header: &impl Message,
        payload: &[u8],
    ) {
        let appended = self.append(prefix, header, payload, u32::MAX);
        appended.expect("a short frame fits in 4 GiB");
    }

    /// Returns the number of bytes that wait to be written.
    pub(super) fn unwritten_bytes(&self) -> usize {
        let blocked_bytes = match &self.writer {
            Writer::Blocked { bytes, from, .. } => bytes.len() - from,
            _ => 0,
        };
        self.pending.len() + blocked_bytes
    }

    /// Holds appended frames back until [`uncork`](Self::uncork), or until there is another
    /// connection. Called by the driver.
    pub(super) fn cork(&mut self) {
        self.corked = true;
    }

    #[cfg(test)]
    pub(super) fn is_corked(&self) -> bool {
        self.corked
    }

    /// Stops holding frames back. Called by the driver before [`Outbox::poll_drive`], which then writes.
    pub(super) fn uncork(&mut self) {
        self.corked = false;
        if !self.pending.is_empty() {
            self.asked = Some(Urgency::Now);
        }
    }

    /// Wakes the connection's task.
    pub(super) fn wake_driver(&self) {
        if let Some(driver) = &self.driver {
            driver.wake_by_ref();
        }
    }

    fn set_driver(&mut self, waker: &Waker) {
        match &mut self.driver {
            Some(driver) => driver.clone_from(waker),
            None => self.driver = Some(waker.clone()),
        }
    }

    fn ask(&mut self, urgency: Urgency) {
        if self.asked.is_none_or(|asked| asked < urgency) {
            self.asked = Some(urgency);
            self.wake_driver();
        }
    }
}

/// Has the task polled again after the other tasks that are ready have run.
fn defer(context: &mut Context<'_>) {
    let _ = pin!(tokio::task::yield_now()).poll(context);
}

/// Writes the bytes from `from` on, and adds the number of accepted writes to `write_count`.
#[expect(
    clippy::indexing_slicing,
    reason = "`from` and `count` are at most the numbers of bytes and of slices"
)]
fn poll_write_all(
    writer: &mut BoxWriter,
    context: &mut Context<'_>,
    bytes: &Frames,
    from: &mut usize,
    write_count: &mut u64,
) -> Poll<io::Result<()>> {
    let Frames { gathered, shared } = bytes;
    while *from < bytes.len() {
        let written = if shared.is_empty() {
            Pin::new(&mut *writer).poll_write(context, &gathered[*from..])
        } else {
            let mut slices = [IoSlice::new(&[]); SLICE_COUNT_MAX];
            let count = shared.fill_slices(gathered, *from, &mut slices);
            Pin::new(&mut *writer).poll_write_vectored(context, &slices[..count])
        };
        match written {
            Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Poll::Ready(Ok(written)) => {
                *from += written;
                *write_count += 1;
            }
            Poll::Ready(Err(fault)) => return Poll::Ready(Err(fault)),
            Poll::Pending => return Poll::Pending,
        }
    }
    Pin::new(writer).poll_flush(context)
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quoit_wire::SHARED_BYTES_MIN;
    use quoit_wire::internode::{FrameKind, append_frame};
    use std::sync::Arc;

    /// A writer that accepts nothing and fails.
    struct Broken;

    impl AsyncWrite for Broken {
        fn poll_write(
            self: Pin<&mut Self>,
            _: &mut Context<'_>,
            _: &[u8],
        ) -> Poll<io::Result<usize>> {
            Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn a_frame_given_to_tls_that_fails_may_have_left() {
        for (failed_write, is_unsent) in
            [(FailedWrite::SendsNothing, true), (FailedWrite::MaySend, false)]
        {
            let outbox = Outbox::new(());
            let mut inner = outbox.lock();
            inner.open(Box::new(Broken), failed_write);
            let begins_at = inner.appended_bytes();
            inner.append_small(FramePrefix::new(FrameKind::Ping, 0), &(), &[]);
            outbox.flush(inner, Urgency::Now);
            assert_eq!(outbox.lock().is_unsent(begins_at), is_unsent, "{failed_write:?}");
        }
    }

    /// A writer that takes a few bytes of every second call.
    struct Slow {
        taken: Arc<Mutex<Vec<u8>>>,
        room_bytes: usize,
        is_blocked: bool,
    }

    impl AsyncWrite for Slow {
        fn poll_write(
            self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            self.poll_write_vectored(context, &[IoSlice::new(bytes)])
        }

        fn poll_write_vectored(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            slices: &[IoSlice<'_>],
        ) -> Poll<io::Result<usize>> {
            self.is_blocked = !self.is_blocked;
            if self.is_blocked {
                return Poll::Pending;
            }
            let offered = slices.iter().flat_map(|slice| slice.iter().copied());
            let taken: Vec<u8> = offered.take(self.room_bytes).collect();
            self.taken.lock().extend_from_slice(&taken);
            Poll::Ready(Ok(taken.len()))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn frames_with_large_payloads_leave_in_order_however_slow_the_writer_is() {
        let prefix = FramePrefix::new(FrameKind::Request, 1);
        for room_bytes in [1_000, 70_000, 10_000_000] {
            let (outbox, taken) = (Outbox::new(()), Arc::new(Mutex::new(Vec::new())));
            let writer = Slow { taken: Arc::clone(&taken), room_bytes, is_blocked: false };
            let mut expected = Vec::new();
            let mut inner = outbox.lock();
            inner.open(Box::new(writer), FailedWrite::SendsNothing);
            for size_bytes in [1, SHARED_BYTES_MIN - 1, SHARED_BYTES_MIN, 5, 300_000, 300_001, 0] {
                let payload = Bytes::from(vec![(size_bytes % 251) as u8; size_bytes]);
                inner.append(prefix, &5_u32, &payload, u32::MAX).expect("it fits");
                append_frame(&mut expected, prefix, &5_u32, &payload).expect("it fits");
            }
            assert_eq!(inner.unwritten_bytes(), expected.len());
            outbox.flush(inner, Urgency::Now);
            let mut context = Context::from_waker(Waker::noop());
            while outbox.poll_drive(&mut context, &mut true).expect("it does not break") > 0 {
                let inner = outbox.lock();
                let left_bytes = expected.len() - taken.lock().len();
                assert_eq!(inner.unwritten_bytes(), left_bytes);
                assert!(inner.is_unsent(inner.appended_bytes()));
                assert_eq!(inner.is_unsent(0), taken.lock().is_empty());
            }
            assert!(*taken.lock() == expected, "writes of {room_bytes} bytes");
        }
    }

    #[test]
    fn a_frame_above_the_limit_leaves_nothing_of_its_payload() {
        let prefix = FramePrefix::new(FrameKind::Request, 1);
        let outbox = Outbox::new(());
        let mut inner = outbox.lock();
        let payload = Bytes::from(vec![7; SHARED_BYTES_MIN]);
        let limit = u32::try_from(payload.len()).expect("it is small");
        let size_bytes = inner.append(prefix, &5_u32, &payload, limit).expect_err("it is too long");
        assert!(size_bytes > u64::from(limit));
        assert_eq!((inner.unwritten_bytes(), inner.appended_bytes()), (0, 0));
        inner.append(prefix, &5_u32, &payload, limit + 100).expect("it fits");
        assert_eq!(inner.unwritten_bytes() as u64, size_bytes);
    }
}
