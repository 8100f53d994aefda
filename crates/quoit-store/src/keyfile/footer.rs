//! Footer of a key file.
//!
//! ```text
//! bytes 0..4    segment number
//! bytes 4..12   number of entries
//! bytes 12..20  number of removals among them
//! bytes 20..28  lowest sequence
//! bytes 28..36  highest sequence
//! bytes 36..44  base of the entries' sequences
//! bytes 44..52  offset at which the blocks of entries end
//! bytes 52..60  offset of the root block
//! bytes 60..64  size of the root block, header included
//! bytes 64..68  number of levels of blocks above the entries
//! bytes 68..72  format version
//! bytes 72..80  XXH3-64 of bytes 0..72
//! bytes 80..88  magic
//! ```
//!
//! All numbers are big-endian. In a file without entries, the number of levels and the root's offset and
//! size are 0.

use super::block::{BLOCK_BYTES_MAX, BlockAt};
use quoit_number::length_u32;
use xxhash_rust::xxh3::xxh3_64;

/// Size of a footer in bytes.
pub(super) const FOOTER_BYTES: usize = 88;

/// First and last bytes of every key file.
pub(super) const MAGIC: [u8; 8] = *b"\x8bQUOITK\n";

const VERSION: u32 = 1;
const CHECKED_BYTES: usize = 72;

/// Maximum number of levels: each has at most half as many blocks as the one below, rounded up.
const LEVELS_MAX: u32 = 64;

/// Footer of a key file: its counts and bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KeyFileFooter {
    /// The segment of the keys.
    pub segment: u32,
    /// Number of entries.
    pub entry_count: u64,
    /// Number of entries that are removals.
    pub remove_count: u64,
    /// Lowest sequence of an entry; the writer's base if there are no entries.
    pub sequence_min: u64,
    /// Highest sequence of an entry; the writer's base if there are no entries.
    pub sequence_max: u64,
    /// Base that is added to the sequences of entries.
    pub(super) sequence_base: u64,
    /// Offset at which the blocks of entries end. They begin after the magic.
    pub(super) entries_end: u64,
    /// The topmost block.
    pub(super) root: BlockAt,
    /// Number of levels above the blocks of entries.
    pub(super) level_count: u32,
}

impl KeyFileFooter {
    pub(super) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut bytes = Vec::with_capacity(FOOTER_BYTES);
        bytes.extend(self.segment.to_be_bytes());
        let numbers = [
            self.entry_count,
            self.remove_count,
            self.sequence_min,
            self.sequence_max,
            self.sequence_base,
            self.entries_end,
            self.root.offset,
        ];
        numbers.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        let small = [length_u32(self.root.size), self.level_count, VERSION];
        small.iter().for_each(|number| bytes.extend(number.to_be_bytes()));
        bytes.extend(xxh3_64(&bytes).to_be_bytes());
        bytes.extend(MAGIC);
        bytes.try_into().expect("a footer has 88 bytes")
    }

    /// Decodes and checks the footer of a file of `size_bytes`.
    #[expect(clippy::indexing_slicing, reason = "fields are within the footer")]
    pub(super) fn decode(bytes: &[u8; FOOTER_BYTES], size_bytes: u64) -> Result<Self, String> {
        let u64_at = |at: usize| {
            let eight = bytes[at..at + 8].try_into().expect("eight bytes are eight bytes");
            u64::from_be_bytes(eight)
        };
        let u32_at = |at: usize| (u64_at(at) >> 32) as u32;
        if bytes[80..] != MAGIC {
            return Err("not a key file, or its end is cut off".into());
        }
        if u64_at(CHECKED_BYTES) != xxh3_64(&bytes[..CHECKED_BYTES]) {
            return Err("the checksum of the footer is wrong".into());
        }
        let version = u32_at(68);
        if version != VERSION {
            return Err(format!(
                "key file of version {version}, this release reads {VERSION}: start the newer one"
            ));
        }
        let footer = Self {
            segment: u32_at(0),
            entry_count: u64_at(4),
            remove_count: u64_at(12),
            sequence_min: u64_at(20),
            sequence_max: u64_at(28),
            sequence_base: u64_at(36),
            entries_end: u64_at(44),
            root: BlockAt { offset: u64_at(52), size: u32_at(60) as usize },
            level_count: u32_at(64),
        };
        let inner_end = size_bytes.saturating_sub(FOOTER_BYTES as u64);
        if footer.entries_end < MAGIC.len() as u64
            || footer.entries_end > inner_end
            || footer.root.offset > inner_end
            || footer.root.size > BLOCK_BYTES_MAX
            || footer.level_count > LEVELS_MAX
        {
            return Err("the footer contradicts the file's size".into());
        }
        Ok(footer)
    }
}
