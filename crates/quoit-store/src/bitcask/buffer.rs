//! The buffer into which a thread reads records. The thread keeps it between reads.

use crate::frame::grow;
use std::cell::Cell;

/// A thread keeps its buffer unless it has grown beyond this size in bytes.
const KEPT_BYTES_MAX: usize = 64 * 1024;

thread_local! {
    static KEPT: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// A buffer for one record. Dropping it gives it back to its thread.
pub(super) struct ReadBuffer(Vec<u8>);

impl ReadBuffer {
    /// A buffer of at least `size_bytes`. Its contents are meaningless.
    pub(super) fn take(size_bytes: usize) -> Self {
        // The thread would not keep it, so its own buffer stays for the next small record. Zeroed memory is
        // mostly fresh from the system, so no pass over it is needed, as it is to lengthen a buffer.
        if size_bytes > KEPT_BYTES_MAX {
            return Self(vec![0; size_bytes]);
        }
        // The buffer is taken out, not borrowed: a nested read gets another buffer.
        let mut bytes = KEPT.take();
        grow(&mut bytes, size_bytes);
        Self(bytes)
    }

    /// True if the thread keeps the buffer for its next read.
    pub(super) fn is_kept(&self) -> bool {
        self.0.capacity() <= KEPT_BYTES_MAX
    }

    /// The first `size_bytes` of the buffer as an owned vector: a copy if the thread keeps the buffer.
    #[expect(clippy::indexing_slicing, reason = "the buffer was taken with room for these bytes")]
    pub(super) fn into_vec(mut self, size_bytes: usize) -> Vec<u8> {
        if self.is_kept() {
            return self.0[..size_bytes].to_vec();
        }
        let mut bytes = std::mem::take(&mut self.0);
        bytes.truncate(size_bytes);
        bytes
    }
}

impl std::ops::Deref for ReadBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl std::ops::DerefMut for ReadBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl Drop for ReadBuffer {
    fn drop(&mut self) {
        if self.is_kept() {
            KEPT.set(std::mem::take(&mut self.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_that_grows_within_the_bound_is_kept() {
        for size_bytes in [KEPT_BYTES_MAX / 2 + 1, KEPT_BYTES_MAX - 1, KEPT_BYTES_MAX] {
            let buffer = ReadBuffer::take(size_bytes);
            assert!(buffer.len() >= size_bytes && buffer.is_kept(), "{size_bytes}");
        }
        assert!(!ReadBuffer::take(KEPT_BYTES_MAX + 1).is_kept());
        let next = ReadBuffer::take(10);
        assert!(next.is_kept());
        assert_eq!(next.len(), KEPT_BYTES_MAX, "a large buffer does not replace the kept one");
    }
}
