//! Requests as they arrive: how much of a frame is read into memory, and how long it may take to arrive.

use crate::arriving::{ArrivingRequest, READ_BYTES_MAX};
use crate::context::ServerContext;
use crate::memory::{
    ConnectionMemory, MemoryReservation, NoMemory, REQUEST_COPIES, REQUESTS_BYTES_FREE,
};
use crate::pace::PacedTransfer;
use crate::socket::{ReadOutcome, Socket};
use crate::spare_buffers::give_back_input;
use bytes::{Buf, BytesMut};
use quoit_wire::frame::FrameDecoder;
use std::io;
use std::sync::Arc;

/// Least buffer space for the next read of a small frame, in bytes.
const READ_BYTES: usize = 8 * 1024;
/// A large frame of which no more than this many bytes have arrived has just begun.
const BEGUN_BYTES_MAX: usize = 64 * 1024;
/// Buffer space for data that is read and discarded, in bytes.
const DROPPED_BYTES: usize = 64 * 1024;
/// A buffer is replaced by a smaller one when less than this part of it (one in 4) is needed.
const KEPT_PART: u64 = 4;

/// The outcome of waiting for a request.
pub(super) enum RequestArrival {
    Arrived,
    /// The client has closed its side, or the server is stopping.
    End,
    /// A started request did not arrive in time.
    TooSlow,
    /// There is no memory for the request that is arriving. The rest of it has to be skipped.
    NoMemory(NoMemory),
}

/// Bytes that have arrived and are not answered yet.
pub(super) struct Input {
    pub(super) decoder: FrameDecoder,
    pub(super) bytes: BytesMut,
    context: Arc<ServerContext>,
    memory: Arc<ConnectionMemory>,
    reservation: MemoryReservation,
    /// The transfer of the frame that is incomplete; set once a read had to wait for it.
    pub(super) transfer: Option<PacedTransfer>,
}

impl Input {
    pub(super) fn new(context: &Arc<ServerContext>, memory: &Arc<ConnectionMemory>) -> Self {
        let limit = context.settings.request_bytes_limit();
        Self {
            decoder: FrameDecoder::new(u32::try_from(limit).unwrap_or(u32::MAX)),
            bytes: BytesMut::new(),
            context: Arc::clone(context),
            memory: Arc::clone(memory),
            reservation: memory.reservation(REQUEST_COPIES * REQUESTS_BYTES_FREE),
            transfer: None,
        }
    }

    /// Accepts frames of at most `bytes_max` bytes from now on.
    pub(super) fn limit_frames(&mut self, bytes_max: usize) {
        self.decoder = FrameDecoder::new(u32::try_from(bytes_max).unwrap_or(u32::MAX));
    }

    /// Reads once. The caller has handled all complete frames, and has sent all answers, so that `out` is
    /// empty.
    pub(super) async fn read_more(
        &mut self,
        socket: &mut Socket,
        out: &mut Vec<u8>,
    ) -> io::Result<RequestArrival> {
        if !self.bytes.is_empty() {
            return self.read_rest(socket).await;
        }
        if self.reservation.held_bytes() > 0 {
            self.bytes = BytesMut::new();
            self.reservation.keep(0);
        }
        // Between requests a client may be idle for any time.
        self.transfer = None;
        more(socket.read_first(&mut self.bytes, out).await)
    }

    /// Gives the read buffer to other connections while a request waits, if no further request has arrived.
    pub(super) fn lend_buffer(&mut self) {
        // The buffer of a large request is freed before the next read.
        if self.reservation.held_bytes() == 0 {
            give_back_input(&mut self.bytes);
        }
    }

    /// Reads more of the frame that has begun.
    async fn read_rest(&mut self, socket: &mut Socket) -> io::Result<RequestArrival> {
        let missing = self.decoder.missing_bytes(&self.bytes).unwrap_or(READ_BYTES);
        let frame_bytes = self.bytes.len() + missing;
        let mut step = missing.max(READ_BYTES);
        if frame_bytes > REQUESTS_BYTES_FREE || self.reservation.held_bytes() > 0 {
            match self.make_room(frame_bytes) {
                Ok(Some(room)) => step = missing.min(room).min(READ_BYTES_MAX),
                Ok(None) => {}
                Err(fault) => return Ok(RequestArrival::NoMemory(fault)),
            }
        }
        more(self.read_frame(socket, step).await)
    }

    /// Reads up to `step` bytes of the frame that has begun.
    async fn read_frame(&mut self, socket: &mut Socket, step: usize) -> io::Result<ReadOutcome> {
        let pace = self.context.settings.pace;
        let transfer = self.transfer.get_or_insert_with(|| PacedTransfer::begin(pace));
        let read = socket.read_on(&mut self.bytes, step, transfer).await;
        if read.as_ref().is_err_and(|fault| fault.kind() == io::ErrorKind::TimedOut) {
            self.context.memory.note_slow_request();
        }
        read
    }

    /// Returns memory of earlier frames. If the buffer of a large frame is nearly full, asks for the memory
    /// of its next size, and grows the buffer. For a frame that has just begun, also checks that the budget
    /// can hold the whole frame, so that the node refuses it before the client sends it, and not in the
    /// middle. Returns the free space in the buffer; `None` for a frame that needs no memory of the budget.
    fn make_room(&mut self, frame_bytes: usize) -> Result<Option<usize>, NoMemory> {
        let all_bytes = REQUEST_COPIES * frame_bytes;
        if self.reservation.held_bytes() / KEPT_PART > all_bytes as u64
            || frame_bytes <= REQUESTS_BYTES_FREE
        {
            self.bytes = BytesMut::from(&self.bytes[..]);
            self.reservation.keep(REQUEST_COPIES * self.bytes.len());
        }
        if frame_bytes <= REQUESTS_BYTES_FREE {
            return Ok(None);
        }
        if self.bytes.len() <= BEGUN_BYTES_MAX {
            self.memory.check((all_bytes as u64).saturating_sub(self.reservation.held_bytes()))?;
        }
        let (arrived, room) = (self.bytes.len(), self.bytes.capacity() - self.bytes.len());
        if room < READ_BYTES.min(frame_bytes - arrived) {
            let request = ArrivingRequest { arrived_bytes: arrived, whole_bytes: frame_bytes };
            let capacity = request.next_capacity();
            self.reservation.hold(REQUEST_COPIES * capacity)?;
            self.bytes.reserve(capacity - arrived);
        }
        let capacity = self.bytes.capacity();
        self.reservation.hold(REQUEST_COPIES * capacity.min(frame_bytes))?;
        Ok(Some(capacity - arrived))
    }

    /// Discards the rest of the arriving frame as it comes.
    pub(super) async fn skip_frame(&mut self, socket: &mut Socket) -> io::Result<()> {
        let mut left =
            self.bytes.len() + self.decoder.missing_bytes(&self.bytes).unwrap_or_default();
        loop {
            let dropped = left.min(self.bytes.len());
            self.bytes.advance(dropped);
            left -= dropped;
            if left == 0 {
                break;
            }
            if dropped > 0 {
                self.bytes = BytesMut::new();
                self.reservation.keep(0);
            }
            match self.read_frame(socket, DROPPED_BYTES.min(left)).await? {
                ReadOutcome::Bytes(_) => {}
                ReadOutcome::End => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        self.transfer = None;
        Ok(())
    }
}

fn more(incoming: io::Result<ReadOutcome>) -> io::Result<RequestArrival> {
    match incoming {
        Ok(ReadOutcome::Bytes(_)) => Ok(RequestArrival::Arrived),
        Ok(ReadOutcome::End) => Ok(RequestArrival::End),
        Err(fault) if fault.kind() == io::ErrorKind::TimedOut => Ok(RequestArrival::TooSlow),
        Err(fault) => Err(fault),
    }
}
