//! A bit for each item of a list, in the encoding that answers to other nodes use.

use bytes::Bytes;

/// A set of bits. Bit 0 is the lowest bit of the first byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bitmap(Vec<u8>);

impl Bitmap {
    /// Returns `count` bits that are not set.
    pub(super) fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(8)])
    }

    /// Sets a bit.
    pub(super) fn set(&mut self, index: usize) {
        self.0[index / 8] |= 1 << (index % 8);
    }

    /// True if no bit is set.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }

    /// True if a bit of an answer is set. Bits beyond its end are not set.
    pub(super) fn is_set(marks: &[u8], index: usize) -> bool {
        marks.get(index / 8).is_some_and(|byte| byte & (1 << (index % 8)) != 0)
    }
}
