//! Readers and writers of the primitives of Quoit's own formats: varints, counted byte strings and
//! fixed-size integers.

use bytes::Bytes;
use quoit_number::low_u8;

/// The input ends too early, or a length in it exceeds the bytes that follow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Truncated {
    /// Offset in bytes of the piece that did not fit.
    pub(crate) at: usize,
}

/// Reads pieces from the front of a buffer.
pub(crate) struct Cursor<'a> {
    input: &'a [u8],
    /// The buffer that returned byte strings share; without one they are copied.
    owner: Option<&'a Bytes>,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(input: &'a Bytes) -> Self {
        Self { input, owner: Some(input), at: 0 }
    }

    pub(crate) fn borrowing(input: &'a [u8]) -> Self {
        Self { input, owner: None, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// Moves back to an earlier offset.
    pub(crate) fn go_to(&mut self, at: usize) {
        debug_assert!(at <= self.at, "not passed yet");
        self.at = at;
    }

    pub(crate) fn remaining(&self) -> usize {
        self.input.len() - self.at
    }

    #[inline]
    pub(crate) fn u8(&mut self) -> Result<u8, Truncated> {
        let byte = *self.input.get(self.at).ok_or(Truncated { at: self.at })?;
        self.at += 1;
        Ok(byte)
    }

    #[inline]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Truncated> {
        let rest = self.input.get(self.at..).ok_or(Truncated { at: self.at })?;
        let array = rest.first_chunk::<N>().ok_or(Truncated { at: self.at })?;
        self.at += N;
        Ok(*array)
    }

    #[inline]
    pub(crate) fn slice(&mut self, len: usize) -> Result<&'a [u8], Truncated> {
        let rest = self.input.get(self.at..).ok_or(Truncated { at: self.at })?;
        let slice = rest.get(..len).ok_or(Truncated { at: self.at })?;
        self.at += len;
        Ok(slice)
    }

    #[inline]
    pub(crate) fn bytes(&mut self, len: usize) -> Result<Bytes, Truncated> {
        let start = self.at;
        let slice = self.slice(len)?;
        Ok(match self.owner {
            Some(owner) => owner.slice(start..self.at),
            None => Bytes::copy_from_slice(slice),
        })
    }

    /// Reads an unsigned number of up to 64 bits in groups of seven bits, lowest group first.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<u64, Truncated> {
        match self.input.get(self.at) {
            Some(&byte) if byte < 0x80 => {
                self.at += 1;
                Ok(u64::from(byte))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Truncated> {
        let start = Truncated { at: self.at };
        let rest = self.input.get(self.at..).ok_or(start)?;
        let mut value = 0u64;
        for (place, &byte) in rest.iter().enumerate() {
            // The tenth byte can hold one bit.
            if place == 9 && byte > 1 {
                return Err(start);
            }
            value |= u64::from(byte & 0x7f) << (7 * place);
            if byte < 0x80 {
                self.at += place + 1;
                return Ok(value);
            }
        }
        Err(Truncated { at: self.input.len() })
    }

    /// Reads a varint that counts bytes, or pieces of at least one byte each. A count above the
    /// remaining bytes is an error.
    #[inline]
    pub(crate) fn count(&mut self) -> Result<usize, Truncated> {
        let at = self.at;
        let count = self.varint()?;
        match usize::try_from(count) {
            Ok(count) if count <= self.remaining() => Ok(count),
            _ => Err(Truncated { at }),
        }
    }

    /// Reads a varint length and that many bytes.
    #[inline]
    pub(crate) fn counted_bytes(&mut self) -> Result<Bytes, Truncated> {
        let len = self.count()?;
        self.bytes(len)
    }

    /// As [`Cursor::counted_bytes`], but borrows the bytes.
    #[inline]
    pub(crate) fn counted_slice(&mut self) -> Result<&'a [u8], Truncated> {
        let len = self.count()?;
        self.slice(len)
    }
}

/// Appends a number as [`Cursor::varint`] reads it.
#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(low_u8(value) | 0x80);
        value >>= 7;
    }
    out.push(low_u8(value));
}

/// Appends a varint length and the bytes.
#[inline]
pub(crate) fn put_counted(out: &mut Vec<u8>, bytes: &[u8]) {
    put_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
