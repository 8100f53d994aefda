//! A bit for each item of a list, in the encoding that answers to other nodes use.

use bytes::Bytes;

/// A set of bits. Bit 0 is the lowest bit of the first byte.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Bitmap(Vec<u8>);

impl Bitmap {
    /// Returns `count` bits that are not set.
    pub(crate) fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(8)])
    }

    /// Sets a bit.
    ///
    /// # Panics
    ///
    /// If there is no such bit.
    #[expect(
        clippy::indexing_slicing,
        reason = "callers set bits of the list; others panic, as documented"
    )]
    pub(crate) fn set(&mut self, index: usize) {
        self.0[index / 8] |= 1 << (index % 8);
    }

    /// Number of bits that are set.
    pub(crate) fn count(&self) -> u32 {
        self.0.iter().map(|byte| byte.count_ones()).sum()
    }

    /// True if no bit is set.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    pub(crate) fn into_bytes(self) -> Bytes {
        self.0.into()
    }

    /// True if a bit of an answer is set. Bits beyond its end are not set.
    pub(crate) fn is_set(bits: &[u8], index: usize) -> bool {
        bits.get(index / 8).is_some_and(|byte| byte & (1 << (index % 8)) != 0)
    }
}
