//! A yes or no for each item of a list, as it goes over the network.

use bytes::Bytes;

/// Bits, the lowest of the first byte first.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Marks(Vec<u8>);

impl Marks {
    /// A no for each of so many.
    pub(super) fn none(count: usize) -> Self {
        Self(vec![0; count.div_ceil(8)])
    }

    /// Says yes to one.
    pub(super) fn set(&mut self, index: usize) {
        self.0[index / 8] |= 1 << (index % 8);
    }

    /// Whether there is no yes.
    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(|byte| *byte == 0)
    }

    pub(super) fn into_bytes(self) -> Bytes {
        self.0.into()
    }

    /// Whether marks that came over the network say yes to one; what they say nothing of is a no.
    pub(super) fn is_set(marks: &[u8], index: usize) -> bool {
        marks.get(index / 8).is_some_and(|byte| byte & (1 << (index % 8)) != 0)
    }
}
