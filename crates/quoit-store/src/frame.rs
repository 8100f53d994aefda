//! The frame around a compressed value.
//!
//! ```text
//!  0        mark 0xC7
//!  1        method: 0 as it is, 1 LZ4
//! method 0: the value
//! method 1:
//!  2..4     size of the front
//!  4..8     size of the value
//!  8..      the front: the value's first bytes, as they are
//!  then     an LZ4 block of all that follows the front
//! ```
//!
//! Numbers are little-endian. A value without a frame begins with another byte than the mark; one that begins
//! with it has a frame of method 0 where it is not compressed. The front is there for changes that look at
//! clock and description of an object and not at its value: they need not have it decompressed.

use crate::engine::FRONT_BYTES;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use std::borrow::Cow;
use std::cell::Cell;
use thiserror::Error;

/// First byte of a frame. No value that the store writes by itself begins with it.
const MARK: u8 = 0xC7;

const AS_IT_IS: u8 = 0;
const LZ4: u8 = 1;

/// Bytes before a value as it is.
const PLAIN_HEADER_BYTES: usize = 2;

/// Bytes before the front.
pub const HEADER_BYTES: usize = 8;

/// Values of fewer bytes are not worth compressing: their front is most of them.
pub const COMPRESSED_BYTES_MIN: usize = 512;

/// A frame is kept if it saves at least one byte in so many: less is not worth decompressing it.
const SAVED_PART: usize = 16;

/// No byte of an LZ4 block stands for more bytes than this.
const RATIO_MAX: usize = 255;

/// A thread keeps its buffer unless it has grown beyond this.
const SCRATCH_BYTES_MAX: usize = 1 << 20;

/// From so many bytes on a block needs a large table.
const LARGE_BLOCK_BYTES: usize = u16::MAX as usize;

/// Buffers of a thread for compressing: 24 KiB of tables, and an output buffer.
struct CompressionBuffers {
    small: CompressTable,
    large: CompressTable,
    /// Output buffer; the compressed bytes are at its beginning.
    scratch: Vec<u8>,
}

thread_local! {
    static KEPT: Cell<Option<Box<CompressionBuffers>>> = const { Cell::new(None) };
}

/// Why a frame can't be read.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FrameError {
    /// It ends before its front does.
    #[error("a compressed value of {size_bytes} bytes ends within its front")]
    Short {
        /// Its size.
        size_bytes: usize,
    },
    /// Its method is not known.
    #[error("a value is compressed by method {method}, which this version does not know")]
    UnknownMethod {
        /// The method.
        method: u8,
    },
    /// It says a size that it can't have.
    #[error(
        "a compressed value of {size_bytes} bytes claims {told_bytes} bytes without compression"
    )]
    Size {
        /// Bytes that are there.
        size_bytes: usize,
        /// Size in the frame's header.
        told_bytes: usize,
    },
    /// Its block is damaged.
    #[error("a compressed value is damaged: {reason}")]
    Block {
        /// Description of the fault.
        reason: String,
    },
}

/// Whether a stored value has a frame.
#[must_use]
pub fn is_framed(stored: &[u8]) -> bool {
    stored.first() == Some(&MARK)
}

/// Whether a value would be stored otherwise than it is, and it has to be asked whether it shall be
/// compressed.
pub(crate) const fn may_be_framed(value: &[u8]) -> bool {
    value.len() >= COMPRESSED_BYTES_MIN || matches!(value, [MARK, ..])
}

/// Gives the value at the end of a buffer, from `start` on, a frame if it needs one or is smaller so. Costs
/// the compression, and a copy of what came out. A thread that compresses keeps about a megabyte for that.
pub fn pack(out: &mut Vec<u8>, start: usize, compresses: bool) {
    let size_bytes = out.len() - start;
    let is_packed = compresses
        && can_be_compressed(size_bytes)
        && with_kept(|kept| {
            let Some(block_bytes) = kept.compress(&out[start..]) else { return false };
            // The value was longer than its frame is, so there is room.
            out.copy_within(start..start + FRONT_BYTES, start + HEADER_BYTES);
            out[start..start + HEADER_BYTES].copy_from_slice(&header_of(size_bytes));
            out.truncate(start + HEADER_BYTES + FRONT_BYTES);
            out.extend_from_slice(&kept.scratch[..block_bytes]);
            true
        });
    if !is_packed && is_framed(&out[start..]) {
        out.splice(start..start, [MARK, AS_IT_IS]);
    }
}

/// A value in its frame, if it needs one or is smaller so; `None` where it is stored as it is. Costs as
/// [`pack`]; what comes out is in bytes of just its size.
#[must_use]
pub fn packed(value: &[u8], compresses: bool) -> Option<Vec<u8>> {
    let in_frame = |kept: &mut CompressionBuffers| {
        let block_bytes = kept.compress(value)?;
        let parts =
            [&header_of(value.len())[..], &value[..FRONT_BYTES], &kept.scratch[..block_bytes]];
        Some(parts.concat())
    };
    let compressed =
        if compresses && can_be_compressed(value.len()) { with_kept(in_frame) } else { None };
    compressed.or_else(|| is_framed(value).then(|| [&[MARK, AS_IT_IS], value].concat()))
}

/// Whether a value has a size that is worth compressing, and that a frame can say.
fn can_be_compressed(size_bytes: usize) -> bool {
    size_bytes >= COMPRESSED_BYTES_MIN && u32::try_from(size_bytes).is_ok()
}

/// The header that stands before the compressed bytes of a value that [`can_be_compressed`].
fn header_of(size_bytes: usize) -> [u8; HEADER_BYTES] {
    let [a, b] = (FRONT_BYTES as u16).to_le_bytes();
    let [c, d, e, f] = (size_bytes as u32).to_le_bytes();
    [MARK, LZ4, a, b, c, d, e, f]
}

/// Works with what the thread keeps for compressing.
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
    /// Compresses what follows a value's front into the front of the buffer. Says how many bytes it came to,
    /// unless a frame would save too little.
    fn compress(&mut self, value: &[u8]) -> Option<usize> {
        let Self { small, large, scratch } = self;
        let bytes = &value[FRONT_BYTES..];
        grow(scratch, get_maximum_output_size(bytes.len()));
        let table = if bytes.len() < LARGE_BLOCK_BYTES { small } else { large };
        let block_bytes = compress_into_with_table(bytes, scratch, table)
            .expect("there is room for the worst case");
        let frame_bytes = HEADER_BYTES + FRONT_BYTES + block_bytes;
        (frame_bytes <= value.len() - value.len() / SAVED_PART).then_some(block_bytes)
    }
}

/// Makes a buffer at least so long. It takes no more memory than that: buffers are kept up to a size, and
/// must not grow beyond it by themselves.
pub(crate) fn grow(buffer: &mut Vec<u8>, size_bytes: usize) {
    let missing_bytes = size_bytes.saturating_sub(buffer.len());
    buffer.reserve_exact(missing_bytes);
    buffer.resize(buffer.len() + missing_bytes, 0);
}

/// A frame, taken apart.
enum Parts<'f> {
    Plain(&'f [u8]),
    Compressed {
        front: &'f [u8],
        /// Bytes that the block stands for.
        rest_bytes: usize,
        block: &'f [u8],
    },
}

/// Takes a frame apart whose end may be missing.
fn parts(frame: &[u8]) -> Result<Parts<'_>, FrameError> {
    let short = || FrameError::Short { size_bytes: frame.len() };
    let method = *frame.get(1).ok_or_else(short)?;
    match method {
        AS_IT_IS => Ok(Parts::Plain(&frame[PLAIN_HEADER_BYTES..])),
        LZ4 => {
            let (header, rest) = frame.split_first_chunk::<HEADER_BYTES>().ok_or_else(short)?;
            let [_, _, front @ .., a, b, c, d] = header;
            let front_bytes = usize::from(u16::from_le_bytes(*front));
            let told_bytes = u32::from_le_bytes([*a, *b, *c, *d]) as usize;
            let (front, block) = rest.split_at_checked(front_bytes).ok_or_else(short)?;
            let rest_bytes = told_bytes
                .checked_sub(front_bytes)
                .ok_or(FrameError::Size { size_bytes: frame.len(), told_bytes })?;
            Ok(Parts::Compressed { front, rest_bytes, block })
        }
        method => Err(FrameError::UnknownMethod { method }),
    }
}

/// The front of a value whose frame may be cut off behind the front's end; all that is there of one that is
/// framed as it is.
///
/// # Errors
///
/// When it ends before, or its method is not known.
pub(crate) fn front_of(frame: &[u8]) -> Result<&[u8], FrameError> {
    match parts(frame)? {
        Parts::Plain(value) | Parts::Compressed { front: value, .. } => Ok(value),
    }
}

/// The value in a frame ([`is_framed`]), in the front of a buffer that grows as it has to; its size. What the
/// buffer has behind it is of no meaning. Takes no more memory than 255 times the frame, whatever that says.
///
/// # Errors
///
/// When the frame is damaged.
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
                return Err(FrameError::Size { size_bytes: frame.len(), told_bytes: size_bytes });
            }
            grow(buffer, size_bytes);
            buffer[..front.len()].copy_from_slice(front);
            let decompressed = decompress_into(block, &mut buffer[front.len()..size_bytes]);
            match decompressed {
                Ok(count) if count == rest_bytes => Ok(size_bytes),
                Ok(count) => Err(FrameError::Block {
                    reason: format!("it stands for {count} bytes and not for {rest_bytes}"),
                }),
                Err(error) => Err(FrameError::Block { reason: error.to_string() }),
            }
        }
    }
}

/// A stored value as it was given: without its frame, if it has one.
///
/// # Errors
///
/// When the frame is damaged.
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
