//! Frames between nodes: a fixed prefix, a Protocol Buffers header, and a payload that is not
//! encoded.

use crate::shared::{SHARED_BYTES_MIN, SharedParts};
use bytes::{Buf, Bytes, BytesMut};
use prost::Message;
use quoit_number::{length_u32, low_u32};
use thiserror::Error;

/// Size in bytes of the fields before the header: length (4), kind (1), flags (1), method (2), call
/// (4), length of the header (4). Numbers are big-endian.
pub const FRAME_OVERHEAD_BYTES: usize = 16;

/// Size in bytes of the length field, which the length does not count.
const LENGTH_BYTES: usize = 4;

/// Flag of an answer: it is the last one of its call.
pub const FLAG_LAST: u8 = 1;

/// Flag of a request: its answers are a stream. [`FrameKind::Window`] throttles it, and
/// [`FrameKind::Cancel`] ends it.
pub const FLAG_STREAM: u8 = 2;

/// Kind of a frame. A receiver skips kinds that it does not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FrameKind {
    /// The first frame of each side; its header is a [`Hello`](super::Hello).
    Hello = 1,
    /// A request. `method` is its method, and its answers repeat its `call`.
    Request = 2,
    /// An answer to the request with the same `call`.
    Answer = 3,
    /// The last answer to a request, or the answer to a greeting; its header is a
    /// [`Refusal`](super::Refusal).
    Refusal = 4,
    /// The requester no longer waits for answers to `call`.
    Cancel = 5,
    /// The requester has consumed this many bytes of the stream `call`; the payload is a big-endian
    /// `u32`.
    Window = 6,
    /// Asks for a [`FrameKind::Pong`].
    Ping = 7,
    /// Answers a [`FrameKind::Ping`].
    Pong = 8,
    /// The server closes the connection once the pending calls are answered; the requester must
    /// send no more.
    Goodbye = 9,
}

impl FrameKind {
    /// The kind with this number; `None` if it is unknown.
    #[must_use]
    pub const fn from_byte(byte: u8) -> Option<FrameKind> {
        Some(match byte {
            1 => FrameKind::Hello,
            2 => FrameKind::Request,
            3 => FrameKind::Answer,
            4 => FrameKind::Refusal,
            5 => FrameKind::Cancel,
            6 => FrameKind::Window,
            7 => FrameKind::Ping,
            8 => FrameKind::Pong,
            9 => FrameKind::Goodbye,
            _ => return None,
        })
    }
}

/// The fixed fields of a frame except its lengths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FramePrefix {
    /// Number of a [`FrameKind`], which may be unknown here.
    pub kind: u8,
    /// [`FLAG_LAST`] and [`FLAG_STREAM`]; other bits are ignored.
    pub flags: u8,
    /// Method of a request; 0 in other frames.
    pub method: u16,
    /// Number of the call within the connection; 0 if the frame belongs to no call.
    pub call: u32,
}

impl FramePrefix {
    /// The prefix of a frame of `kind` for `call`, without flags and method.
    #[must_use]
    pub const fn new(kind: FrameKind, call: u32) -> FramePrefix {
        FramePrefix { kind: kind as u8, flags: 0, method: 0, call }
    }
}

/// A received frame. Header and payload are slices of the read buffer and keep it alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InternodeFrame {
    /// The fixed fields.
    pub prefix: FramePrefix,
    /// An encoded message, which depends on kind and method.
    pub header: Bytes,
    /// Bytes that are not a message, mostly a stored value.
    pub payload: Bytes,
}

impl InternodeFrame {
    /// Size of the frame on the wire, in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        FRAME_OVERHEAD_BYTES + self.header.len() + self.payload.len()
    }
}

/// Error of splitting a stream of bytes into frames, or of a message that is too large for a frame.
///
/// The start of the next frame is then unknown, so the connection must be closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InternodeFrameError {
    /// The frame is too short for its fixed fields.
    #[error(
        "frame of length {length_bytes}; a frame between nodes has at least {LENGTH_MIN}: the other side \
         speaks another protocol; give the address of its listener.internode (port 8099 by default)"
    )]
    TooShort {
        /// Stated length in bytes.
        length_bytes: u32,
    },
    /// The frame exceeds the limit.
    #[error(
        "{}",
        crate::foreign::too_large(
            (*length_bytes, *length_bytes_max),
            &crate::foreign::ExpectedProtocol {
                name: "the protocol between nodes",
                port: "listener.internode (port 8099 by default)",
            },
            "raise the limit on both nodes or send smaller values",
        )
    )]
    TooLarge {
        /// Length of the frame in bytes, as stated or as required.
        length_bytes: u64,
        /// The limit in bytes.
        length_bytes_max: u32,
    },
    /// The header exceeds the frame.
    #[error(
        "header of {header_bytes} bytes in a frame of {length_bytes}: the other side speaks another \
         protocol; give the address of its listener.internode (port 8099 by default)"
    )]
    HeaderTooLong {
        /// Stated length of the header in bytes.
        header_bytes: u32,
        /// Length of the frame in bytes.
        length_bytes: u32,
    },
}

const LENGTH_MIN: u32 = length_u32(FRAME_OVERHEAD_BYTES - LENGTH_BYTES);

/// Takes frames from the front of a read buffer.
#[derive(Debug, Clone, Copy)]
pub struct InternodeDecoder {
    length_bytes_max: u32,
}

impl InternodeDecoder {
    /// A decoder that refuses frames whose length exceeds `length_bytes_max`.
    #[must_use]
    pub const fn new(length_bytes_max: u32) -> InternodeDecoder {
        InternodeDecoder { length_bytes_max }
    }

    /// Takes the next frame if it is complete, without copying.
    ///
    /// # Errors
    ///
    /// Returns an error as soon as a wrong length is there. The buffer is unchanged.
    #[inline]
    pub fn next_frame(
        &self,
        buffer: &mut BytesMut,
    ) -> Result<Option<InternodeFrame>, InternodeFrameError> {
        let Some(length_bytes) = self.next_length(buffer)? else {
            return Ok(None);
        };
        let Some(fixed) = buffer.first_chunk::<FRAME_OVERHEAD_BYTES>() else {
            return Ok(None);
        };
        let fixed = *fixed;
        let header_bytes = u32::from_be_bytes([fixed[12], fixed[13], fixed[14], fixed[15]]);
        if header_bytes > length_bytes - LENGTH_MIN {
            return Err(InternodeFrameError::HeaderTooLong { header_bytes, length_bytes });
        }
        let size_bytes = LENGTH_BYTES + length_bytes as usize;
        if buffer.len() < size_bytes {
            return Ok(None);
        }
        let mut header = buffer.split_to(size_bytes).freeze();
        header.advance(FRAME_OVERHEAD_BYTES);
        let payload = header.split_off(header_bytes as usize);
        Ok(Some(InternodeFrame {
            prefix: FramePrefix {
                kind: fixed[4],
                flags: fixed[5],
                method: u16::from_be_bytes([fixed[6], fixed[7]]),
                call: u32::from_be_bytes([fixed[8], fixed[9], fixed[10], fixed[11]]),
            },
            header,
            payload,
        }))
    }

    /// Number of bytes that the frame at the front still lacks; the size of the prefix if its
    /// length is not there yet. The length is a claim of the peer, so reserve memory for it in
    /// steps.
    ///
    /// # Errors
    ///
    /// As [`next_frame`](Self::next_frame).
    pub fn missing_bytes(&self, buffer: &[u8]) -> Result<usize, InternodeFrameError> {
        Ok(match self.next_length(buffer)? {
            Some(length) => (LENGTH_BYTES + length as usize).saturating_sub(buffer.len()),
            None => FRAME_OVERHEAD_BYTES - buffer.len(),
        })
    }

    #[inline]
    fn next_length(&self, buffer: &[u8]) -> Result<Option<u32>, InternodeFrameError> {
        let Some(length) = buffer.first_chunk::<LENGTH_BYTES>() else {
            return Ok(None);
        };
        let length_bytes = u32::from_be_bytes(*length);
        if length_bytes < LENGTH_MIN {
            return Err(InternodeFrameError::TooShort { length_bytes });
        }
        if length_bytes > self.length_bytes_max {
            return Err(InternodeFrameError::TooLarge {
                length_bytes: u64::from(length_bytes),
                length_bytes_max: self.length_bytes_max,
            });
        }
        Ok(Some(length_bytes))
    }
}

/// Bytes that follow a frame's header. They are copied once, into the write buffer, except for large ones
/// that can be shared.
pub trait Payload {
    /// Number of bytes.
    fn size_bytes(&self) -> usize;

    /// Appends the bytes to the write buffer.
    fn append_to(&self, buffer: &mut Vec<u8>);

    /// Appends the bytes to a stream: large ones to `shared` if their buffer can be shared, the others to
    /// the write buffer.
    #[inline]
    fn append_shared(&self, buffer: &mut Vec<u8>, _shared: &mut SharedParts) {
        self.append_to(buffer);
    }
}

/// Appends bytes to a stream: to `shared` if they are large, else to the write buffer.
#[inline]
pub fn append_or_share(bytes: &Bytes, buffer: &mut Vec<u8>, shared: &mut SharedParts) {
    if bytes.len() < SHARED_BYTES_MIN {
        buffer.extend_from_slice(bytes);
    } else {
        shared.push(buffer.len(), bytes.clone());
    }
}

impl Payload for [u8] {
    fn size_bytes(&self) -> usize {
        self.len()
    }

    fn append_to(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(self);
    }
}

impl<const N: usize> Payload for [u8; N] {
    fn size_bytes(&self) -> usize {
        N
    }

    fn append_to(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(self);
    }
}

impl Payload for Bytes {
    fn size_bytes(&self) -> usize {
        self.len()
    }

    fn append_to(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(self);
    }

    #[inline]
    fn append_shared(&self, buffer: &mut Vec<u8>, shared: &mut SharedParts) {
        append_or_share(self, buffer, shared);
    }
}

impl Payload for Vec<u8> {
    fn size_bytes(&self) -> usize {
        self.len()
    }

    fn append_to(&self, buffer: &mut Vec<u8>) {
        buffer.extend_from_slice(self);
    }
}

/// Several pieces, one after the other.
impl Payload for [&[u8]] {
    fn size_bytes(&self) -> usize {
        self.iter().map(|piece| piece.len()).sum()
    }

    fn append_to(&self, buffer: &mut Vec<u8>) {
        for piece in self {
            buffer.extend_from_slice(piece);
        }
    }
}

/// Appends one frame. Allocates only if the buffer has to grow.
///
/// # Errors
///
/// Returns [`InternodeFrameError::TooLarge`] if the frame would exceed 4 GiB. The buffer is then
/// unchanged.
#[inline]
pub fn append_frame(
    buffer: &mut Vec<u8>,
    prefix: FramePrefix,
    header: &impl Message,
    payload: &(impl Payload + ?Sized),
) -> Result<(), InternodeFrameError> {
    append_frame_by(buffer, prefix, header, payload.size_bytes(), |buffer| {
        payload.append_to(buffer)
    })
}

/// As [`append_frame`], but large payloads that can be shared are appended to `shared`.
///
/// # Errors
///
/// As [`append_frame`]. `shared` is then unchanged as well.
#[inline]
pub fn append_frame_shared(
    (buffer, shared): (&mut Vec<u8>, &mut SharedParts),
    prefix: FramePrefix,
    header: &impl Message,
    payload: &(impl Payload + ?Sized),
) -> Result<(), InternodeFrameError> {
    append_frame_by(buffer, prefix, header, payload.size_bytes(), |buffer| {
        payload.append_shared(buffer, shared);
    })
}

/// Appends one frame with a payload of `payload_bytes` that `append` appends.
#[inline]
#[expect(clippy::indexing_slicing, reason = "the fixed part of the frame was appended at `start`")]
fn append_frame_by(
    buffer: &mut Vec<u8>,
    prefix: FramePrefix,
    header: &impl Message,
    payload_bytes: usize,
    append: impl FnOnce(&mut Vec<u8>),
) -> Result<(), InternodeFrameError> {
    let start = buffer.len();
    let mut fixed = [0; FRAME_OVERHEAD_BYTES];
    fixed[4] = prefix.kind;
    fixed[5] = prefix.flags;
    fixed[6..8].copy_from_slice(&prefix.method.to_be_bytes());
    fixed[8..12].copy_from_slice(&prefix.call.to_be_bytes());
    buffer.extend_from_slice(&fixed);
    header.encode_raw(buffer);
    let header_bytes = buffer.len() - start - FRAME_OVERHEAD_BYTES;
    let length_bytes = LENGTH_MIN as usize + header_bytes + payload_bytes;
    let Ok(length) = u32::try_from(length_bytes) else {
        buffer.truncate(start);
        return Err(InternodeFrameError::TooLarge {
            length_bytes: length_bytes as u64,
            length_bytes_max: u32::MAX,
        });
    };
    append(buffer);
    buffer[start..start + 4].copy_from_slice(&length.to_be_bytes());
    // The header's length is below `length`, so it fits 32 bits.
    buffer[start + 12..start + 16].copy_from_slice(&low_u32(header_bytes as u64).to_be_bytes());
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn prefix() -> impl Strategy<Value = FramePrefix> {
        any::<(u8, u8, u16, u32)>().prop_map(|(kind, flags, method, call)| FramePrefix {
            kind,
            flags,
            method,
            call,
        })
    }

    proptest! {
        #[test]
        fn frames_come_back_as_sent_however_the_stream_is_cut(
            sent in prop::collection::vec((prefix(), any::<Vec<u8>>(), any::<Vec<u8>>()), 1..8),
            piece_bytes in 1_usize..40,
        ) {
            let mut stream = Vec::new();
            for (prefix, header, payload) in &sent {
                append_frame(&mut stream, *prefix, header, payload).unwrap();
            }
            let decoder = InternodeDecoder::new(4096);
            let mut buffer = BytesMut::new();
            let mut came = Vec::new();
            for piece in stream.chunks(piece_bytes) {
                let missing_bytes = decoder.missing_bytes(&buffer).unwrap();
                prop_assert!(missing_bytes > 0, "whole frames were taken before");
                buffer.extend_from_slice(piece);
                while let Some(frame) = decoder.next_frame(&mut buffer).unwrap() {
                    came.push(frame);
                }
            }
            prop_assert!(buffer.is_empty());
            prop_assert_eq!(came.len(), sent.len());
            for (came, (prefix, header, payload)) in came.iter().zip(&sent) {
                prop_assert_eq!(came.prefix, *prefix);
                prop_assert_eq!(&came.header[..], &header.encode_to_vec()[..]);
                prop_assert_eq!(&came.payload[..], &payload[..]);
            }
        }
    }

    #[test]
    fn the_layout_of_a_frame_is_fixed() {
        let mut buffer = Vec::new();
        let prefix = FramePrefix {
            kind: FrameKind::Answer as u8,
            flags: FLAG_LAST,
            method: 0x0102,
            call: 7,
        };
        append_frame(&mut buffer, prefix, &5_u32, b"xyz").unwrap();
        let layout = [0, 0, 0, 17, 3, 1, 1, 2, 0, 0, 0, 7, 0, 0, 0, 2, 8, 5, b'x', b'y', b'z'];
        assert_eq!(buffer, layout);
    }

    #[test]
    fn lengths_that_can_not_be_are_refused_before_the_frame_is_there() {
        let decoder = InternodeDecoder::new(100);
        let check = |bytes: &[u8], expected| {
            let mut buffer = BytesMut::from(bytes);
            assert_eq!(decoder.next_frame(&mut buffer), Err(expected));
            assert_eq!(&buffer[..], bytes);
        };
        check(&[0, 0, 0, 11], InternodeFrameError::TooShort { length_bytes: 11 });
        let too_large = InternodeFrameError::TooLarge { length_bytes: 101, length_bytes_max: 100 };
        check(&[0, 0, 0, 101], too_large);
        let header_too_long =
            InternodeFrameError::HeaderTooLong { header_bytes: 3, length_bytes: 14 };
        check(&[0, 0, 0, 14, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3], header_too_long);
    }

    #[test]
    fn a_frame_with_a_shared_payload_has_the_same_bytes() {
        for size_bytes in [0, 1, SHARED_BYTES_MIN - 1, SHARED_BYTES_MIN, SHARED_BYTES_MIN + 1] {
            let payload = Bytes::from(vec![7; size_bytes]);
            let prefix = FramePrefix::new(FrameKind::Request, 1);
            let (mut whole, mut buffer, mut shared) =
                (b"before".to_vec(), b"before".to_vec(), SharedParts::new());
            append_frame(&mut whole, prefix, &5_u32, &payload).unwrap();
            append_frame_shared((&mut buffer, &mut shared), prefix, &5_u32, &payload).unwrap();
            assert_eq!(shared.is_empty(), size_bytes < SHARED_BYTES_MIN, "{size_bytes}");
            append_frame(&mut whole, prefix, &6_u32, b"next").unwrap();
            append_frame_shared((&mut buffer, &mut shared), prefix, &6_u32, b"next").unwrap();
            let pieces = shared.into_pieces(buffer);
            if size_bytes >= SHARED_BYTES_MIN {
                assert_eq!(pieces[1].as_ptr(), payload.as_ptr(), "it is not copied");
            }
            assert!(Vec::from(pieces).concat() == whole, "{size_bytes}");
        }
    }

    #[test]
    fn pieces_of_a_payload_follow_each_other() {
        let pieces: [&[u8]; 2] = [b"ab", b"c"];
        let mut buffer = Vec::new();
        append_frame(&mut buffer, FramePrefix::new(FrameKind::Request, 1), &(), &pieces[..])
            .unwrap();
        assert_eq!(&buffer[FRAME_OVERHEAD_BYTES..], b"abc");
    }
}
