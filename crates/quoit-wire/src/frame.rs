//! Frames of the client protocol: a length of 4 bytes (big-endian), the message code (1 byte), and
//! the body.
//!
//! The length counts the code and the body. Bodies are slices of the read buffer; messages are
//! encoded directly into the write buffer.

use crate::code::MessageCode;
use crate::error::{DecodeError, FrameError};
use crate::messages::Body;
use crate::plain::FrameRef;
use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Size of a frame's length field, in bytes.
pub const LENGTH_SIZE_BYTES: usize = 4;

/// Default of the maximum frame length in bytes. A frame of this length holds twice the siblings of an object
/// of Riak's maximum size, 50 MiB.
pub const FRAME_LENGTH_BYTES_MAX_DEFAULT: u32 = 128 * 1024 * 1024;

/// A received frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The message code, known or not.
    pub code: u8,
    /// The encoded message; empty if no field is set.
    pub body: Bytes,
}

impl Frame {
    /// Decodes the body as the message `M`.
    ///
    /// # Errors
    ///
    /// Returns an error if the frame has another code than `M`, or its body is not a valid `M`.
    pub fn decode<M: Body>(self) -> Result<M, DecodeError> {
        if self.code != M::CODE as u8 {
            return Err(DecodeError::UnexpectedCode { expected: M::CODE, got: self.code });
        }
        M::decode_body(self.body)
    }
}

/// Takes frames from the front of a read buffer.
#[derive(Debug, Clone, Copy)]
pub struct FrameDecoder {
    length_bytes_max: u32,
}

impl FrameDecoder {
    /// A decoder that refuses frames whose length (code and body) exceeds `length_bytes_max`.
    pub const fn new(length_bytes_max: u32) -> FrameDecoder {
        FrameDecoder { length_bytes_max }
    }

    /// Takes the next frame if it is complete.
    ///
    /// The body shares the buffer's memory: no copy, and no allocation once the buffer is shared.
    /// `reserve` reuses the buffer's space after all bodies taken from it were dropped.
    ///
    /// # Errors
    ///
    /// Returns a [`FrameError`] as soon as a wrong length is there. The buffer is unchanged; close
    /// the connection, since no later frame can be found.
    #[inline]
    pub fn next_frame(&self, buffer: &mut BytesMut) -> Result<Option<Frame>, FrameError> {
        let Some(length_bytes) = self.next_length(buffer)? else {
            return Ok(None);
        };
        if buffer.len() - LENGTH_SIZE_BYTES < length_bytes {
            return Ok(None);
        }
        buffer.advance(LENGTH_SIZE_BYTES);
        let mut body = buffer.split_to(length_bytes).freeze();
        let code = body.get_u8();
        Ok(Some(Frame { code, body }))
    }

    /// Looks at the next frame without taking it. Returns `None` if the frame is not complete, or
    /// its length is wrong. After handling the frame, remove its `size_bytes` from the buffer.
    #[inline]
    #[must_use]
    pub fn peek_frame<'a>(&self, buffer: &'a [u8]) -> Option<FrameRef<'a>> {
        let length_bytes = self.next_length(buffer).ok()??;
        let body = buffer.get(LENGTH_SIZE_BYTES..LENGTH_SIZE_BYTES + length_bytes)?;
        let (code, body) = body.split_first()?;
        Some(FrameRef { code: *code, body, size_bytes: LENGTH_SIZE_BYTES + length_bytes })
    }

    /// Number of bytes that the frame at the front of the buffer still lacks: 0 if it is complete,
    /// at most 4 if its length is not there yet.
    ///
    /// Use it as a hint for the size of the next read. The length is a claim of the peer, up to the
    /// decoder's limit, so reserve memory for it in steps.
    ///
    /// # Errors
    ///
    /// As [`next_frame`](Self::next_frame).
    pub fn missing_bytes(&self, buffer: &[u8]) -> Result<usize, FrameError> {
        Ok(match self.next_length(buffer)? {
            Some(length_bytes) => (LENGTH_SIZE_BYTES + length_bytes).saturating_sub(buffer.len()),
            None => LENGTH_SIZE_BYTES - buffer.len(),
        })
    }

    #[inline]
    fn next_length(&self, buffer: &[u8]) -> Result<Option<usize>, FrameError> {
        let Some(prefix) = buffer.first_chunk::<LENGTH_SIZE_BYTES>() else {
            return Ok(None);
        };
        let length_bytes = u32::from_be_bytes(*prefix);
        if length_bytes == 0 {
            return Err(FrameError::ZeroLength);
        }
        if length_bytes > self.length_bytes_max {
            return Err(FrameError::TooLarge {
                length_bytes: u64::from(length_bytes),
                length_bytes_max: self.length_bytes_max,
            });
        }
        Ok(Some(length_bytes as usize))
    }
}

impl Default for FrameDecoder {
    fn default() -> FrameDecoder {
        FrameDecoder::new(FRAME_LENGTH_BYTES_MAX_DEFAULT)
    }
}

/// A write buffer: `Vec<u8>` or [`BytesMut`].
pub trait WriteBuffer: BufMut + AsRef<[u8]> + AsMut<[u8]> {
    /// Truncates the buffer to its first `length_bytes` bytes.
    fn shorten(&mut self, length_bytes: usize);
}

impl WriteBuffer for Vec<u8> {
    fn shorten(&mut self, length_bytes: usize) {
        self.truncate(length_bytes);
    }
}

impl WriteBuffer for BytesMut {
    fn shorten(&mut self, length_bytes: usize) {
        self.truncate(length_bytes);
    }
}

/// Appends a message as one frame. Allocates only if the buffer has to grow.
///
/// # Errors
///
/// Returns [`FrameError::TooLarge`] if the frame would reach 4 GiB. The buffer is then unchanged.
#[inline]
pub fn append_message<M: Body>(
    buffer: &mut impl WriteBuffer,
    message: &M,
) -> Result<(), FrameError> {
    append_frame(buffer, M::CODE, |buffer| message.encode_raw(buffer))
}

/// Encodes a message as one frame.
///
/// # Errors
///
/// Returns [`FrameError::TooLarge`] if the frame would reach 4 GiB, before anything is allocated.
pub fn encode_message<M: Body>(message: &M) -> Result<Vec<u8>, FrameError> {
    let code_and_body_bytes = 1 + message.encoded_len();
    length_field(code_and_body_bytes)?;
    let mut frame = Vec::with_capacity(LENGTH_SIZE_BYTES + code_and_body_bytes);
    append_message(&mut frame, message)?;
    Ok(frame)
}

/// Appends a frame with an empty body: 4 bytes of length and the code.
#[inline]
pub fn append_empty(buffer: &mut impl BufMut, code: MessageCode) {
    buffer.put_slice(&[0, 0, 0, 1, code as u8]);
}

/// Appends a frame whose body `write_body` appends.
///
/// # Errors
///
/// As [`append_message`].
#[inline]
pub fn append_frame<B: WriteBuffer>(
    buffer: &mut B,
    code: MessageCode,
    write_body: impl FnOnce(&mut B),
) -> Result<(), FrameError> {
    let start = buffer.as_ref().len();
    append_empty(buffer, code);
    write_body(buffer);
    let length_bytes = buffer.as_ref().len() - start - LENGTH_SIZE_BYTES;
    let length = length_field(length_bytes).inspect_err(|_| buffer.shorten(start))?;
    set_length(buffer.as_mut(), start, length);
    Ok(())
}

/// Sets the length field of the frame at `start`, to which [`append_empty`] gave the length 1.
#[inline]
#[expect(clippy::indexing_slicing, reason = "`append_empty` appended the field at `start`")]
pub(crate) fn set_length(buffer: &mut [u8], start: usize, length: u32) {
    buffer[start..start + LENGTH_SIZE_BYTES].copy_from_slice(&length.to_be_bytes());
}

/// The length field of a frame whose code and body have this length.
pub(crate) fn length_field(length_bytes: usize) -> Result<u32, FrameError> {
    u32::try_from(length_bytes).map_err(|_| FrameError::TooLarge {
        length_bytes: length_bytes as u64,
        length_bytes_max: u32::MAX,
    })
}
