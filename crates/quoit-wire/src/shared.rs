//! Large byte strings that are sent from the buffers that they are in, between the bytes of a write
//! buffer.

use bytes::Bytes;
use std::collections::VecDeque;
use std::io::IoSlice;

/// Size in bytes from which on a byte string is sent from its own buffer. Sharing a buffer costs an atomic
/// counter, an allocation and a further piece of each write, about as much as a copy of some kilobytes. But
/// a part of a buffer keeps all of it in memory, and small messages are sent together in one piece, so the
/// limit is where a copy costs several microseconds.
pub const SHARED_BYTES_MIN: usize = 64 * 1024;

/// The large byte strings of a stream of bytes. The other bytes of the stream are in a write buffer, and
/// each large string has its place between two of them.
#[derive(Debug, Default)]
pub struct SharedParts {
    /// The strings in their order, with the number of bytes of the write buffer before each.
    parts: Vec<(usize, Bytes)>,
    /// Bytes of all strings.
    bytes: usize,
}

impl SharedParts {
    /// No strings. Allocates nothing.
    #[must_use]
    pub const fn new() -> SharedParts {
        SharedParts { parts: Vec::new(), bytes: 0 }
    }

    /// Adds a string behind the first `at` bytes of the write buffer.
    ///
    /// # Panics
    ///
    /// Panics if an earlier string has a later place.
    pub fn push(&mut self, at: usize, part: Bytes) {
        let is_next = self.parts.last().is_none_or(|(before, _)| *before <= at);
        assert!(is_next, "strings are added in the order of the stream");
        self.bytes += part.len();
        self.parts.push((at, part));
    }

    /// True if there is no string.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Number of bytes of all strings.
    #[must_use]
    pub const fn size_bytes(&self) -> usize {
        self.bytes
    }

    /// Removes the strings that were added after the first `count`.
    pub fn truncate(&mut self, count: usize) {
        let removed = self.parts.drain(count.min(self.parts.len())..);
        self.bytes -= removed.map(|(_, part)| part.len()).sum::<usize>();
    }

    /// Number of strings.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.parts.len()
    }

    /// The pieces of the stream: the strings, and the bytes of the write buffer between them.
    #[expect(
        clippy::indexing_slicing,
        reason = "`push` keeps the places in order, and they are places of this write buffer"
    )]
    fn pieces<'a>(&'a self, buffer: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let before = |place: usize| place.checked_sub(1).map_or(0, |last| self.parts[last].0);
        let own = move |place: usize| {
            let (at, part) = &self.parts[place];
            [&buffer[before(place)..*at], &part[..]]
        };
        let pieces = (0..self.parts.len()).flat_map(own);
        pieces.chain([&buffer[before(self.parts.len())..]]).filter(|piece| !piece.is_empty())
    }

    /// Fills `slices` with the pieces of the stream from its byte `from` on, for a vectored write. Returns
    /// the number of slices.
    pub fn fill_slices<'a>(
        &'a self,
        buffer: &'a [u8],
        from: usize,
        slices: &mut [IoSlice<'a>],
    ) -> usize {
        let (mut skipped, mut count) = (from, 0);
        let mut free = slices.iter_mut();
        for piece in self.pieces(buffer) {
            let Some(left) = piece.get(skipped..).filter(|left| !left.is_empty()) else {
                skipped -= piece.len();
                continue;
            };
            let Some(slice) = free.next() else {
                break;
            };
            *slice = IoSlice::new(left);
            (skipped, count) = (0, count + 1);
        }
        count
    }

    /// The pieces of the stream as buffers. Copies nothing.
    #[must_use]
    pub fn into_pieces(self, buffer: Vec<u8>) -> VecDeque<Bytes> {
        let (mut left, mut taken) = (Bytes::from(buffer), 0);
        let mut pieces = VecDeque::with_capacity(2 * self.parts.len() + 1);
        for (at, part) in self.parts {
            pieces.push_back(left.split_to(at - taken));
            pieces.push_back(part);
            taken = at;
        }
        pieces.push_back(left);
        pieces.retain(|piece| !piece.is_empty());
        pieces
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stream_is_the_same_in_slices_and_in_pieces(
            gaps in prop::collection::vec((0..20usize, prop::collection::vec(any::<u8>(), 0..30)), 0..6),
            end in 0..20usize,
            from in any::<prop::sample::Index>(),
            room in 1..5usize,
        ) {
            let (mut buffer, mut parts, mut stream) = (Vec::new(), SharedParts::new(), Vec::new());
            for (gap, part) in &gaps {
                let filling = vec![buffer.len() as u8; *gap];
                buffer.extend_from_slice(&filling);
                stream.extend_from_slice(&filling);
                parts.push(buffer.len(), Bytes::copy_from_slice(part));
                stream.extend_from_slice(part);
            }
            let filling = vec![b'e'; end];
            buffer.extend_from_slice(&filling);
            stream.extend_from_slice(&filling);
            prop_assert_eq!(parts.size_bytes() + buffer.len(), stream.len());
            // Writes that take one byte less than they are offered.
            let mut at = from.index(stream.len() + 1);
            let (start, mut written) = (at, Vec::new());
            while at < stream.len() {
                let mut slices = vec![IoSlice::new(&[]); room];
                let count = parts.fill_slices(&buffer, at, &mut slices);
                let offered = slices[..count].iter().flat_map(|slice| slice.iter().copied());
                let offered: Vec<u8> = offered.collect();
                prop_assert!(!offered.is_empty());
                let taken = (offered.len() - 1).max(1);
                written.extend_from_slice(&offered[..taken]);
                at += taken;
            }
            prop_assert_eq!(&written[..], &stream[start..]);
            prop_assert_eq!(parts.fill_slices(&buffer, at, &mut [IoSlice::new(&[])]), 0);
            let pieces = parts.into_pieces(buffer);
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
            prop_assert_eq!(Vec::from(pieces).concat(), stream);
        }
    }

    #[test]
    fn strings_that_were_added_last_can_be_removed() {
        let mut parts = SharedParts::new();
        parts.push(1, Bytes::from_static(b"abc"));
        parts.push(1, Bytes::from_static(b"de"));
        parts.truncate(1);
        assert_eq!((parts.count(), parts.size_bytes()), (1, 3));
        assert_eq!(parts.into_pieces(b"xy".to_vec()), ["x", "abc", "y"]);
    }
}
