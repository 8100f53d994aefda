//! The bytes that were appended to a buffer.

/// The bytes of a buffer that were appended since it ended at `start`.
///
/// # Panics
///
/// If the buffer is shorter.
#[inline]
#[expect(clippy::indexing_slicing, reason = "the buffer has not become shorter, as documented")]
pub(crate) fn appended(out: &[u8], start: usize) -> &[u8] {
    &out[start..]
}
