//! Requests as they arrive: how much of a request is read into memory, and how long it may take to arrive.

use super::chunked::ChunkedBody;
use super::connection::{ConnectionEnd, HttpConnection, Request};
use super::head::{BodyFraming, HEAD_BYTES_MAX, Head, HeadFault, take_head};
use super::response::ReplyForm;
use crate::arriving::{ArrivingRequest, READ_BYTES_MAX};
use crate::memory::{NoMemory, REQUEST_COPIES};
use crate::pace::PacedTransfer;
use crate::socket::ReadOutcome;
use bytes::{Bytes, BytesMut};
use std::io;

/// Buffer space, in bytes, for a read of the rest of a head, and minimum buffer space for a read of chunks.
const READ_BYTES: usize = 4 * 1024;
/// Largest buffer space, in bytes, for the first read of a large body, and for reads of chunks.
const STEP_BYTES_MAX: usize = 64 * 1024;
/// The rest of a chunk is read directly into the body if it has at least this many bytes. A shorter one
/// would cost more in system calls than in copies.
const DIRECT_BYTES_MIN: usize = 16 * 1024;
/// Buffers larger than this are freed after the request that needed them, in bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024;

/// A read of a part of a request.
#[derive(Clone, Copy)]
struct ReadStep {
    /// Buffer space for the read, in bytes.
    bytes: usize,
    /// Bytes of the request that are kept in other buffers.
    elsewhere_bytes: usize,
}

impl HttpConnection {
    /// The next request, from the buffer or from the socket. Writes the gathered answers before it waits.
    pub(super) async fn next_request(&mut self) -> Result<Request, ConnectionEnd> {
        self.give_back_input();
        // A malformed head is answered as if it were a GET.
        self.form = ReplyForm { head_only: false, keep_alive: true, is_http_11: true };
        let head = loop {
            if !self.input.is_empty()
                && let Some(head) = take_head(&mut self.input)?
            {
                break head;
            }
            self.await_line().await?;
        };
        self.form = self.form_for(&head);
        let framing = head.framing(self.context.settings.request_bytes_limit())?;
        let before_login_max = self.context.security.settings.bytes_before_login_max;
        let is_small = matches!(&framing, BodyFraming::Length(size) if *size <= before_login_max);
        if !is_small && !self.session.is_open() {
            self.admit_body(&head).await.map_err(ConnectionEnd::Denied)?;
        }
        let body = match framing {
            BodyFraming::Length(size) => self.take_body(&head, size).await?,
            BodyFraming::Chunked => self.take_chunks(&head).await?,
        };
        self.transfer = None;
        Ok(Request { head, body })
    }

    /// Reads until another line has arrived. Without a new line, an incomplete head is still incomplete,
    /// and parsing it again for each byte would let a client waste the server's time.
    async fn await_line(&mut self) -> Result<(), ConnectionEnd> {
        loop {
            let known = self.input.len();
            self.fill(ReadStep { bytes: READ_BYTES, elsewhere_bytes: 0 }).await?;
            let fresh = self.input.get(known..).unwrap_or_default();
            let is_first = known == 0;
            if is_first
                || memchr::memchr(b'\n', fresh).is_some()
                || self.input.len() > HEAD_BYTES_MAX
            {
                return Ok(());
            }
        }
    }

    async fn take_body(&mut self, head: &Head, size: usize) -> Result<Bytes, ConnectionEnd> {
        if self.input.len() < size {
            let all_bytes = (REQUEST_COPIES * size) as u64;
            // Checked before the client sends the body, and not in the middle of it.
            if size > STEP_BYTES_MAX {
                self.memory.check(all_bytes.saturating_sub(self.input_reservation.held_bytes()))?;
            }
            self.invite_body(head)?;
            while self.input.len() < size {
                let missing = size - self.input.len();
                let room = self.make_room(size)?;
                self.fill(ReadStep { bytes: missing.min(room), elsewhere_bytes: 0 }).await?;
            }
        }
        Ok(self.input.split_to(size).freeze())
    }

    async fn take_chunks(&mut self, head: &Head) -> Result<Bytes, ConnectionEnd> {
        let mut body = ChunkedBody::new(self.context.settings.request_bytes_limit());
        if self.input.is_empty() {
            self.invite_body(head)?;
        }
        loop {
            if let Some(body) = body.take(&mut self.input)? {
                return Ok(body);
            }
            self.begin_transfer();
            let received = body.received_bytes();
            match body.missing_bytes() {
                missing if missing >= DIRECT_BYTES_MIN && self.input.is_empty() => {
                    self.fill_chunk(&mut body, missing.min(READ_BYTES_MAX)).await?;
                }
                _ => {
                    let bytes = received.clamp(READ_BYTES, STEP_BYTES_MAX);
                    self.fill(ReadStep { bytes, elsewhere_bytes: received }).await?;
                }
            }
        }
    }

    /// Reserves buffer space for the next read of a body of `size` bytes. Returns the number of bytes that it
    /// may take.
    fn make_room(&mut self, size: usize) -> Result<usize, NoMemory> {
        let (arrived, room) = (self.input.len(), self.input.capacity() - self.input.len());
        if arrived == 0 {
            return Ok(STEP_BYTES_MAX);
        }
        if room < READ_BYTES.min(size - arrived) {
            let request = ArrivingRequest { arrived_bytes: arrived, whole_bytes: size };
            let capacity = request.next_capacity();
            self.input_reservation.hold(REQUEST_COPIES * capacity)?;
            self.input.reserve(capacity - arrived);
        }
        let capacity = self.input.capacity();
        self.input_reservation.hold(REQUEST_COPIES * capacity.min(size))?;
        Ok((capacity - arrived).min(READ_BYTES_MAX))
    }

    /// Reads a part of the current chunk of a body, of which nothing is in the input.
    async fn fill_chunk(
        &mut self,
        body: &mut ChunkedBody,
        step: usize,
    ) -> Result<(), ConnectionEnd> {
        self.flush().await?;
        self.input_reservation.hold(REQUEST_COPIES * (body.received_bytes() + step))?;
        let pace = self.context.settings.pace;
        let transfer = self.transfer.get_or_insert_with(|| PacedTransfer::begin(pace));
        let read = self.socket.read_on(body.buffer(), step, transfer).await;
        if let Ok(ReadOutcome::Bytes(count)) = read {
            body.received(count);
        }
        self.arrived(read)
    }

    /// Tells a client to send its body if it waits for permission, unless the node refuses the request
    /// because of its head.
    fn invite_body(&mut self, head: &Head) -> Result<(), ConnectionEnd> {
        if head.expects_continue() {
            self.form = self.form_for(head);
            self.check_head(head).map_err(ConnectionEnd::Denied)?;
            self.out.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
        }
        self.begin_transfer();
        Ok(())
    }

    fn begin_transfer(&mut self) {
        let pace = self.context.settings.pace;
        self.transfer.get_or_insert_with(|| PacedTransfer::begin(pace));
    }

    /// Writes the gathered answers, then reads once.
    async fn fill(&mut self, step: ReadStep) -> Result<(), ConnectionEnd> {
        self.flush().await?;
        if self.input.is_empty() {
            if self.input.capacity() > KEPT_BYTES_MAX {
                self.input = BytesMut::new();
            }
        } else {
            self.begin_transfer();
        }
        let kept_bytes = step.elsewhere_bytes + self.input.len();
        self.input_reservation.hold(REQUEST_COPIES * (kept_bytes + step.bytes))?;
        let read = match &mut self.transfer {
            // Between requests a client may be idle for any time.
            None => self.socket.read_first(&mut self.input, &mut self.out).await,
            Some(transfer) => self.socket.read_on(&mut self.input, step.bytes, transfer).await,
        };
        self.arrived(read)
    }

    /// The end of the connection if a read has not brought bytes.
    fn arrived(&self, read: io::Result<ReadOutcome>) -> Result<(), ConnectionEnd> {
        match read {
            Ok(ReadOutcome::Bytes(_)) => Ok(()),
            Ok(ReadOutcome::End) => Err(ConnectionEnd::Closed),
            Err(fault) if fault.kind() == io::ErrorKind::TimedOut => {
                self.context.memory.note_slow_request();
                Err(ConnectionEnd::Refused(HeadFault::TooSlow))
            }
            Err(fault) => Err(fault.into()),
        }
    }

    /// Returns the memory of a large request that was answered.
    pub(super) fn give_back_input(&mut self) {
        if self.input_reservation.held_bytes() > 0 {
            self.input = BytesMut::from(&self.input[..]);
            self.input_reservation.keep(REQUEST_COPIES * self.input.len());
        }
    }
}
