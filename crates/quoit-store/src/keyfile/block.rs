//! A block: the unit in which key files are read and verified.
//!
//! ```text
//! bytes 0..8    XXH3-64 of all bytes after it, seeded with the block's offset in the file, big-endian
//! bytes 8..12   size of the content in bytes, big-endian
//! then          the content: entries of keys, or of the blocks of the level below
//! ```

use super::entry::{KeyBefore, push_varint, read_suffix, read_varint};
use quoit_number::length_u32;
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Size of the content in bytes at which a block is closed.
pub(super) const CONTENT_BYTES_AIM: usize = 8 * 1024;

/// Maximum size of the content: the aim is exceeded by one entry at most, or two entries for blocks below
/// are larger than the aim.
const CONTENT_BYTES_MAX: usize = CONTENT_BYTES_AIM + 2 * (65_535 + 64);

/// Size of the header in bytes.
pub(super) const HEADER_BYTES: usize = 12;

/// Maximum size of a block in bytes, header included.
pub(super) const BLOCK_BYTES_MAX: usize = HEADER_BYTES + CONTENT_BYTES_MAX;

const CHECKSUM_BYTES: usize = 8;

/// Position of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct BlockAt {
    pub(super) offset: u64,
    /// Size in bytes, header included.
    pub(super) size: usize,
}

/// Completes a block that will be written at `offset`. `block` has room for the header in its first
/// [`HEADER_BYTES`], and then the content.
#[expect(clippy::indexing_slicing, reason = "the block has room for its header")]
pub(super) fn seal(block: &mut [u8], offset: u64) {
    let size = length_u32(block.len() - HEADER_BYTES);
    block[CHECKSUM_BYTES..HEADER_BYTES].copy_from_slice(&size.to_be_bytes());
    let checksum = xxh3_64_with_seed(&block[CHECKSUM_BYTES..], offset);
    block[..CHECKSUM_BYTES].copy_from_slice(&checksum.to_be_bytes());
}

/// Size in bytes of the block that starts with these bytes, header included. An error if the size is
/// impossible.
pub(super) fn size_of_block(bytes: &[u8]) -> Result<usize, &'static str> {
    let size = bytes.get(CHECKSUM_BYTES..HEADER_BYTES).and_then(|size| size.first_chunk::<4>());
    let size = size.ok_or("the file ends within a block")?;
    let content_size = u32::from_be_bytes(*size) as usize;
    if content_size > CONTENT_BYTES_MAX {
        return Err("a block has an impossible size");
    }
    Ok(HEADER_BYTES + content_size)
}

/// Verifies the block at the start of `bytes`, which is at `offset` in the file, and returns its content.
pub(super) fn open(bytes: &[u8], offset: u64) -> Result<&[u8], &'static str> {
    let size = size_of_block(bytes)?;
    let block = bytes.get(..size).ok_or("the file ends within a block")?;
    let (checksum, covered) =
        block.split_first_chunk::<CHECKSUM_BYTES>().ok_or("the file ends within a block")?;
    if *checksum != xxh3_64_with_seed(covered, offset).to_be_bytes() {
        return Err("the checksum of a block is wrong");
    }
    block.get(HEADER_BYTES..).ok_or("the file ends within a block")
}

/// Appends an entry of an inner block: the first key and the position of a block below.
#[expect(clippy::indexing_slicing, reason = "`shared` counts bytes of the key")]
pub(super) fn push_child(first_key: &[u8], at: BlockAt, before: KeyBefore<'_>, out: &mut Vec<u8>) {
    let shared = first_key.iter().zip(before.0).take_while(|(one, other)| one == other).count();
    push_varint(shared as u64, out);
    push_varint((first_key.len() - shared) as u64, out);
    out.extend_from_slice(&first_key[shared..]);
    push_varint(at.offset, out);
    push_varint(at.size as u64, out);
}

/// Reads an entry that [`push_child`] wrote from the front of `input`. Returns `None` if the bytes are not
/// an entry.
pub(super) fn read_child(input: &mut &[u8], key: &mut Vec<u8>) -> Option<BlockAt> {
    read_suffix(input, key)?;
    let offset = read_varint(input)?;
    let size = usize::try_from(read_varint(input)?).ok()?;
    (HEADER_BYTES..=BLOCK_BYTES_MAX).contains(&size).then_some(BlockAt { offset, size })
}
