//! Little-endian numbers in encoded bytes.

/// The number of 4 bytes at an offset; `None` if the bytes end before.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|number| u32::from_le_bytes(*number))
}

/// The number of 8 bytes at an offset; `None` if the bytes end before.
pub(crate) fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|number| u64::from_le_bytes(*number))
}
