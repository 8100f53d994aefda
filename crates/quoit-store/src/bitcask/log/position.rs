//! Positions in the log.

use crate::bitcask::record::ALIGNMENT_BYTES;

/// A position in the log: everything before it was appended earlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::bitcask) struct LogPosition {
    /// Next sequence.
    pub(in crate::bitcask) sequence: u64,
    /// The active segment.
    pub(in crate::bitcask) segment: u32,
    /// Offset of the next record.
    pub(in crate::bitcask) offset: u64,
}

/// The position at which a log continues when a store is opened.
#[derive(Clone, Copy, Debug)]
pub(in crate::bitcask) struct LogStart {
    /// The last segment number that was used.
    pub(in crate::bitcask) last_number: u32,
    /// The next unused sequence; at least 1.
    pub(in crate::bitcask) next_sequence: u64,
}

/// A position in the log as one number: the segment in the high 32 bits, the offset in units of 16 bytes
/// below.
pub(super) const fn packed(segment: u32, offset: u64) -> u64 {
    ((segment as u64) << 32) | (offset / ALIGNMENT_BYTES as u64)
}
