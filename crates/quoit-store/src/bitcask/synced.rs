//! A field of each record that says how much of the log before it was durable when the record was written.
//!
//! A power failure may lose any part of the log that no sync had covered, so later writes may exist without
//! earlier ones. A start has to distinguish such a gap from damage of durable records: nothing after a gap
//! was acknowledged as durable, but everything after a damaged record may have been ([`gap`](super::gap)).
//! One byte in each record's header is enough for that.

use super::record::ALIGNMENT_BYTES;
use quoit_number::low_u8;

/// Upper bound of the distance from the durable end of a segment's log to a record in it, as one byte.
///
/// ```text
/// 0      unknown
/// 1 + d  d units of 16 bytes, for d below 8
/// else   (8 + m) << (e - 1) units, for 1 + 8 e + m with m below 8: rounded up by at most an eighth
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct SyncedDistance(u8);

impl SyncedDistance {
    /// Unknown: for records of older releases and of merges, and while nothing of the segment is durable.
    pub const UNKNOWN: Self = Self(0);

    /// The code for a distance: this many bytes before the record were not known to be durable.
    #[must_use]
    pub const fn of(unsynced_bytes: u64) -> Self {
        let units = unsynced_bytes.div_ceil(ALIGNMENT_BYTES as u64);
        if units < 8 {
            return Self(1 + low_u8(units));
        }
        // The highest set bit of `units` is bit e + 2.
        let e = 61 - units.leading_zeros();
        let m = units.div_ceil(1 << (e - 1)) - 8;
        let (e, m) = if m == 8 { (e + 1, 0) } else { (e, m) };
        debug_assert!(e > 0 && m < 8, "the code has three bits for the second number");
        let code = 1 + 8 * e as u64 + m;
        if code > u8::MAX as u64 { Self::UNKNOWN } else { Self(low_u8(code)) }
    }

    /// The byte in a record's header.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0
    }

    /// Decodes the byte in a record's header.
    #[must_use]
    pub const fn from_code(code: u8) -> Self {
        Self(code)
    }

    /// Offset up to which the log was durable when the record at `offset` was written; `None` if unknown.
    #[must_use]
    pub fn end(self, offset: u64) -> Option<u64> {
        let code = u64::from(self.0.checked_sub(1)?);
        let (e, m) = (code / 8, code % 8);
        let units = if e == 0 { m } else { (8 + m) << (e - 1) };
        Some(offset.saturating_sub(units * ALIGNMENT_BYTES as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_mark_never_says_more_than_was_durable_and_little_less(
            units in prop_oneof![0..200u64, 0..(1u64 << 28)], before in 0..1_000_000u64,
        ) {
            let unsynced_bytes = units * 16;
            let offset = unsynced_bytes + before * 16;
            let mark = SyncedDistance::of(unsynced_bytes);
            let end = SyncedDistance::from_code(mark.code()).end(offset);
            let end = end.expect("segments are shorter than what a mark can say");
            prop_assert!(end <= offset - unsynced_bytes);
            prop_assert!(end + unsynced_bytes / 8 + 16 >= offset.saturating_sub(unsynced_bytes));
        }
    }

    #[test]
    fn no_mark_says_nothing() {
        assert_eq!(SyncedDistance::UNKNOWN.end(1_000), None);
        assert_eq!(SyncedDistance::of(u64::MAX), SyncedDistance::UNKNOWN);
    }
}
