//! The frame around a compressed value.
//!
//! ```text
//!  0        mark 0xC7
//!  1        method: 0 uncompressed, 1 LZ4
//! method 0: the value
//! method 1:
//!  2..4     size of the front
//!  4..8     size of the value
//!  8..      the front: the first bytes of the value, uncompressed
//!  then     an LZ4 block of the rest of the value
//! ```
//!
//! Numbers are little-endian. A value that does not begin with the mark may be stored without a frame. A
//! value that begins with the mark and is not compressed gets a frame of method 0. The front serves changes
//! that look only at the clock and the description of an object: they need not decompress the value.

use crate::engine::FRONT_BYTES;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use quoit_number::{length_u32, low_u16};
use std::borrow::Cow;
use std::cell::Cell;
use thiserror::Error;

/// First byte of a frame. No value that Quoit encodes itself begins with it.
const MARK: u8 = 0xC7;

const UNCOMPRESSED: u8 = 0;
const LZ4: u8 = 1;

/// Size in bytes of the header of an uncompressed value.
const PLAIN_HEADER_BYTES: usize = 2;

/// Size in bytes of the header of a compressed value, which the front follows.
pub const HEADER_BYTES: usize = 8;

/// Minimum size in bytes of values to compress. The front would be most of a smaller value.
pub const COMPRESSED_BYTES_MIN: usize = 512;

/// A value is stored compressed if that saves at least one byte in this many. A smaller saving is not worth
/// the time of decompression.
const SAVED_PART: usize = 16;

/// Maximum compression ratio of LZ4: no byte of a block decompresses to more bytes than this.
const RATIO_MAX: usize = 255;

/// A thread keeps its buffer unless it has grown beyond this size in bytes.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// Blocks of this size in bytes and larger need the large table.
const LARGE_BLOCK_BYTES: usize = u16::MAX as usize;

/// Buffers that a thread keeps for compression: 24 KiB of tables, and an output buffer.
struct CompressionBuffers {
    small: CompressTable,
    large: CompressTable,
    /// Output buffer; the compressed bytes are at its beginning.
    scratch: Vec<u8>,
}

thread_local! {
    static KEPT: Cell<Option<Box<CompressionBuffers>>> = const { Cell::new(None) };
}

/// Error in reading a frame.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    /// The frame ends within its header or front.
    #[error("a compressed value of {size_bytes} bytes ends within its front")]
    Short {
        /// Size of the frame in bytes.
        size_bytes: usize,
    },
    /// The compression method is unknown.
    #[error("a value is compressed by method {method}, which this version does not know")]
    UnknownMethod {
        /// The method.
        method: u8,
    },
    /// The size in the header is impossible for the size of the frame.
    #[error(
        "a compressed value of {size_bytes} bytes claims {claimed_bytes} bytes without compression"
    )]
    Size {
        /// Size of the frame in bytes.
        size_bytes: usize,
        /// Size in the frame's header.
        claimed_bytes: usize,
    },
    /// The compressed block is damaged.
    #[error("a compressed value is damaged: {reason}")]
    Block {
        /// Description of the fault.
        reason: String,
    },
}

/// True if a stored value has a frame.
#[must_use]
pub fn is_framed(stored: &[u8]) -> bool {
    stored.first() == Some(&MARK)
}

/// True if the stored form of a value may differ from the value, so that the caller has to ask if the
/// value's bucket type compresses.
pub(crate) const fn may_be_framed(value: &[u8]) -> bool {
    value.len() >= COMPRESSED_BYTES_MIN || matches!(value, [MARK, ..])
}

/// Puts the value in `out[start..]` into a frame, in place, if it needs one or becomes smaller. Costs the
/// compression and a copy of its output. A thread that compresses keeps up to about a megabyte for it.
#[expect(clippy::indexing_slicing, reason = "a value that is compressed is longer than its frame")]
pub fn pack(out: &mut Vec<u8>, start: usize, compresses: bool) {
    let size_bytes = out.len() - start;
    let is_packed = compresses
        && can_be_compressed(size_bytes)
        && with_kept(|kept| {
            let Some(block_bytes) = kept.compress(&out[start..]) else { return false };
            // The value was longer than its frame, so there is room.
            out.copy_within(start..start + FRONT_BYTES, start + HEADER_BYTES);
            out[start..start + HEADER_BYTES].copy_from_slice(&header_of(size_bytes));
            out.truncate(start + HEADER_BYTES + FRONT_BYTES);
            out.extend_from_slice(&kept.scratch[..block_bytes]);
            true
        });
    if !is_packed && is_framed(&out[start..]) {
        out.splice(start..start, [MARK, UNCOMPRESSED]);
    }
}

/// Returns the framed form of a value if it needs a frame or becomes smaller; `None` if the value is stored
/// without a frame. Costs as much as [`pack`]; the result has no spare capacity.
#[must_use]
#[expect(clippy::indexing_slicing, reason = "a value that is compressed is longer than its frame")]
pub fn packed(value: &[u8], compresses: bool) -> Option<Vec<u8>> {
    let in_frame = |kept: &mut CompressionBuffers| {
        let block_bytes = kept.compress(value)?;
        let parts =
            [&header_of(value.len())[..], &value[..FRONT_BYTES], &kept.scratch[..block_bytes]];
        Some(parts.concat())
    };
    let compressed =
        if compresses && can_be_compressed(value.len()) { with_kept(in_frame) } else { None };
    compressed.or_else(|| is_framed(value).then(|| [&[MARK, UNCOMPRESSED], value].concat()))
}

/// True if a value is large enough to be worth compressing, and small enough for the size field of the
/// header.
fn can_be_compressed(size_bytes: usize) -> bool {
    size_bytes >= COMPRESSED_BYTES_MIN && u32::try_from(size_bytes).is_ok()
}

const _: () = assert!(FRONT_BYTES <= u16::MAX as usize, "the size of the front has 16 bits");

/// The header of a compressed value; the caller has checked the size with [`can_be_compressed`].
fn header_of(size_bytes: usize) -> [u8; HEADER_BYTES] {
    let [a, b] = low_u16(FRONT_BYTES as u64).to_le_bytes();
    let [c, d, e, f] = length_u32(size_bytes).to_le_bytes();
    [MARK, LZ4, a, b, c, d, e, f]
}

/// Runs a function with the thread's compression buffers.
fn with_kept<T>(work: impl FnOnce(&mut CompressionBuffers) -> T) -> T {
    let mut kept = KEPT.take().unwrap_or_else(|| {
        let (small, large) = (CompressTable::small(), CompressTable::large());
        Box::new(CompressionBuffers { small, large, scratch: Vec::new() })
    });
    let done = work(&mut kept);
    if kept.scratch.capacity() > SCRATCH_BYTES_MAX {
        kept.scratch = Vec::new();
    }
    KEPT.set(Some(kept));
    done
}

impl CompressionBuffers {
    /// Compresses the value behind its front into the beginning of the output buffer. Returns the size of
    /// the block in bytes; `None` if a frame would save too little.
    fn compress(&mut self, value: &[u8]) -> Option<usize> {
        let Self { small, large, scratch } = self;
        let (_, bytes) = value.split_at_checked(FRONT_BYTES)?;
        grow(scratch, get_maximum_output_size(bytes.len()));
        let table = if bytes.len() < LARGE_BLOCK_BYTES { small } else { large };
        let block_bytes = compress_into_with_table(bytes, scratch, table)
            .expect("there is room for the worst case");
        let frame_bytes = HEADER_BYTES + FRONT_BYTES + block_bytes;
        (frame_bytes <= value.len() - value.len() / SAVED_PART).then_some(block_bytes)
    }
}

/// Grows a buffer to at least the given size, without spare capacity: buffers are kept up to a bound, so
/// they must not grow beyond what was asked for.
pub(crate) fn grow(buffer: &mut Vec<u8>, size_bytes: usize) {
    let missing_bytes = size_bytes.saturating_sub(buffer.len());
    buffer.reserve_exact(missing_bytes);
    buffer.resize(buffer.len() + missing_bytes, 0);
}

/// The parts of a frame.
enum Parts<'f> {
    Plain(&'f [u8]),
    Compressed {
        front: &'f [u8],
        /// Size in bytes of the decompressed block.
        rest_bytes: usize,
        block: &'f [u8],
    },
}

/// Splits a frame into its parts. The end of the block may be missing.
fn parts(frame: &[u8]) -> Result<Parts<'_>, FrameError> {
    let short = || FrameError::Short { size_bytes: frame.len() };
    let ([_, method], value) = frame.split_first_chunk::<PLAIN_HEADER_BYTES>().ok_or_else(short)?;
    match *method {
        UNCOMPRESSED => Ok(Parts::Plain(value)),
        LZ4 => {
            let (header, rest) = frame.split_first_chunk::<HEADER_BYTES>().ok_or_else(short)?;
            let [_, _, front @ .., a, b, c, d] = header;
            let front_bytes = usize::from(u16::from_le_bytes(*front));
            let claimed_bytes = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
            let (front, block) = rest.split_at_checked(front_bytes).ok_or_else(short)?;
            let rest_bytes = claimed_bytes
                .checked_sub(front_bytes)
                .ok_or(FrameError::Size { size_bytes: frame.len(), claimed_bytes })?;
            Ok(Parts::Compressed { front, rest_bytes, block })
        }
        method => Err(FrameError::UnknownMethod { method }),
    }
}

/// The front of a value whose frame may be cut off after the front; for an uncompressed frame, all bytes of
/// the value that are there.
///
/// # Errors
///
/// If the frame ends before the end of the front, or its method is unknown.
pub(crate) fn front_of(frame: &[u8]) -> Result<&[u8], FrameError> {
    match parts(frame)? {
        Parts::Plain(value) | Parts::Compressed { front: value, .. } => Ok(value),
    }
}

/// Decodes a frame ([`is_framed`]) into the beginning of a buffer, which grows as needed, and returns the
/// size of the value. Bytes of the buffer beyond that size are meaningless. Allocates at most 255 times the
/// size of the frame, whatever size the header claims.
///
/// # Errors
///
/// If the frame is damaged.
#[expect(clippy::indexing_slicing, reason = "`grow` has made room for the value")]
pub fn unpack_into(frame: &[u8], buffer: &mut Vec<u8>) -> Result<usize, FrameError> {
    match parts(frame)? {
        Parts::Plain(value) => {
            grow(buffer, value.len());
            buffer[..value.len()].copy_from_slice(value);
            Ok(value.len())
        }
        Parts::Compressed { front, rest_bytes, block } => {
            let size_bytes = front.len() + rest_bytes;
            if rest_bytes > block.len().saturating_mul(RATIO_MAX) {
                return Err(FrameError::Size {
                    size_bytes: frame.len(),
                    claimed_bytes: size_bytes,
                });
            }
            grow(buffer, size_bytes);
            buffer[..front.len()].copy_from_slice(front);
            let decompressed = decompress_into(block, &mut buffer[front.len()..size_bytes]);
            match decompressed {
                Ok(count) if count == rest_bytes => Ok(size_bytes),
                Ok(count) => Err(FrameError::Block {
                    reason: format!("it decompresses to {count} bytes and not to {rest_bytes}"),
                }),
                Err(error) => Err(FrameError::Block { reason: error.to_string() }),
            }
        }
    }
}

/// A stored value without its frame, if it has one.
///
/// # Errors
///
/// If the frame is damaged.
pub fn unpack(stored: &[u8]) -> Result<Cow<'_, [u8]>, FrameError> {
    if !is_framed(stored) {
        return Ok(Cow::Borrowed(stored));
    }
    let mut value = Vec::new();
    let size_bytes = unpack_into(stored, &mut value)?;
    value.truncate(size_bytes);
    Ok(Cow::Owned(value))
}

#[cfg(test)]
mod tests;
