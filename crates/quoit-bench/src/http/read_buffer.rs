//! The buffer of bytes that were read from a connection.

/// Initial size of the buffer, enough for a response with a value of a few kilobytes.
const BUFFER_BYTES: usize = 16 << 10;

/// Bytes that were read and not consumed, followed by free space for more.
#[derive(Debug)]
pub(super) struct ReadBuffer {
    bytes: Vec<u8>,
    /// Number of bytes at the front that were read and not consumed.
    filled: usize,
}

#[expect(clippy::indexing_slicing, reason = "at most all bytes of the buffer are filled")]
impl ReadBuffer {
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; BUFFER_BYTES], filled: 0 }
    }

    /// The bytes that were read and not consumed.
    #[inline]
    pub(super) fn filled(&self) -> &[u8] {
        &self.bytes[..self.filled]
    }

    /// The free space after these bytes, which is never empty.
    pub(super) fn room(&mut self) -> &mut [u8] {
        if self.filled == self.bytes.len() {
            self.bytes.resize(self.bytes.len() * 2, 0);
        }
        &mut self.bytes[self.filled..]
    }

    /// Notes that bytes were read into the front of the free space.
    pub(super) fn note_read(&mut self, count: usize) {
        debug_assert!(
            self.filled + count <= self.bytes.len(),
            "bytes are read into the buffer's room"
        );
        self.filled += count;
    }

    /// Consumes bytes from the front.
    pub(super) fn drop_front(&mut self, count: usize) {
        if count < self.filled {
            self.bytes.copy_within(count..self.filled, 0);
        }
        self.filled -= count;
    }
}
