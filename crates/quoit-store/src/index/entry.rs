//! Index entry of one record: 21 bytes.
//!
//! ```text
//! byte  0..5   tag: the highest 40 bits of the identity, big-endian
//! byte  5..11  location: 20 bits of segment, 28 bits of offset / 16, big-endian
//! byte  11     size class
//! byte  12     flags: bit 0 tombstone, 1 expires, 2 collided, 3 has index entries, 4-7 n_val class (0: a
//!              piece)
//! byte  13..21 digest, big-endian; for a record that expires, 21 bits of hour and 43 bits of digest
//! ```
//!
//! Big-endian tags make the order of the bytes the order of the tags.

use crate::compare::Leaf;
use crate::tag::Tag;
use quoit_number::{low_u8, low_u32};

/// Size of an encoded entry, in bytes.
pub const ENTRY_BYTES: usize = 21;

/// The position of a record: a segment and an offset in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Location(u64);

impl Location {
    /// The highest segment number that a location can hold.
    pub const SEGMENT_MAX: u32 = (1 << 20) - 1;

    /// Alignment of records in bytes.
    pub const ALIGNMENT_BYTES: u64 = 16;

    /// Upper bound of offsets, exclusive: 4 GiB.
    pub const OFFSET_END_BYTES: u64 = Self::ALIGNMENT_BYTES << Self::OFFSET_BITS;

    const OFFSET_BITS: u32 = 28;
    const MASK: u64 = (1 << 48) - 1;

    /// A location; `None` if the segment is above [`Location::SEGMENT_MAX`], or the offset is not below
    /// [`Location::OFFSET_END_BYTES`] or not a multiple of [`Location::ALIGNMENT_BYTES`].
    #[must_use]
    pub const fn new(segment: u32, offset_bytes: u64) -> Option<Self> {
        if segment > Self::SEGMENT_MAX
            || offset_bytes >= Self::OFFSET_END_BYTES
            || !offset_bytes.is_multiple_of(Self::ALIGNMENT_BYTES)
        {
            return None;
        }
        let unit = offset_bytes / Self::ALIGNMENT_BYTES;
        Some(Self(((segment as u64) << Self::OFFSET_BITS) | unit))
    }

    /// Number of the segment.
    #[must_use]
    pub const fn segment(self) -> u32 {
        low_u32(self.0 >> Self::OFFSET_BITS)
    }

    /// Offset of the record in the segment, in bytes.
    #[must_use]
    pub const fn offset_bytes(self) -> u64 {
        (self.0 & ((1 << Self::OFFSET_BITS) - 1)) * Self::ALIGNMENT_BYTES
    }
}

/// Upper bound of a record's size in one byte, so that one read fetches the record.
///
/// Sizes are counted in units of 16 bytes. Up to 16 units the class is exact. Above, it is a floating-point
/// number with four significant bits, rounded up: at most 1/8 more than the size in units.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct SizeClass(u8);

impl SizeClass {
    const UNIT_BYTES: u64 = Location::ALIGNMENT_BYTES;

    /// The class of a record of `size_bytes`. Sizes of 4 GiB and more, which no segment has room for, have
    /// the class of 4 GiB.
    #[must_use]
    pub const fn of(size_bytes: u64) -> Self {
        let limited = if size_bytes > Location::OFFSET_END_BYTES {
            Location::OFFSET_END_BYTES
        } else {
            size_bytes
        };
        let units = limited.div_ceil(Self::UNIT_BYTES);
        if units < 8 {
            return Self(low_u8(units));
        }
        let exponent = units.ilog2() - 3;
        let mantissa = units.div_ceil(1 << exponent);
        // A mantissa that rounds up to 16 is the first of the next exponent: the sum carries.
        let class = Self(low_u8(8 * exponent as u64 + mantissa));
        debug_assert!(
            class.size_bytes_max() >= limited,
            "a read of the class gets the whole record"
        );
        class
    }

    /// The maximum size in bytes of a record of this class.
    #[must_use]
    pub const fn size_bytes_max(self) -> u64 {
        let units = if self.0 < 8 {
            self.0 as u64
        } else {
            let exponent = (self.0 - 8) / 8;
            (8 + (self.0 % 8) as u64) << exponent
        };
        units * Self::UNIT_BYTES
    }
}

/// Index entry of one record.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct IndexEntry {
    /// The highest bits of the record's identity.
    pub tag: Tag,
    /// Location of the record.
    pub location: Location,
    /// Upper bound of the record's size.
    pub size_class: SizeClass,
    /// True if the record is a tombstone.
    pub tombstone: bool,
    /// True if the record expires. The time is only in the record itself.
    pub expires: bool,
    /// True if another entry of the partition has the same tag. The index maintains it, and ignores the
    /// value that a caller passes.
    pub collided: bool,
    /// True if the record has entries in secondary indexes.
    pub indexed: bool,
    /// n_val of the record's bucket, capped at 15; 0 for a piece of a record.
    pub n_val_class: u8,
    /// Digest of the object's causal state; for a record that expires, combined with the hour of expiry
    /// ([`compared_digest`](crate::compare::compared_digest)).
    pub digest: u64,
}

const FLAG_TOMBSTONE: u8 = 1;
const FLAG_EXPIRES: u8 = 1 << 1;
const FLAG_COLLIDED: u8 = 1 << 2;
const FLAG_INDEXED: u8 = 1 << 3;
const N_VAL_CLASS_SHIFT: u32 = 4;
const FLAGS_AT: usize = 12;

impl IndexEntry {
    /// True if the record is a piece of another record.
    #[must_use]
    pub const fn is_piece(&self) -> bool {
        self.n_val_class == 0
    }

    /// The leaf by which copies of the record are compared.
    #[must_use]
    pub const fn leaf(&self) -> Leaf {
        Leaf { tag: self.tag, digest: self.digest, tombstone: self.tombstone }
    }

    /// The entry's bytes.
    #[must_use]
    pub fn encode(&self) -> [u8; ENTRY_BYTES] {
        let mut bytes = [0; ENTRY_BYTES];
        bytes[..5].copy_from_slice(&self.tag.number().to_be_bytes()[3..]);
        bytes[5..11].copy_from_slice(&self.location.0.to_be_bytes()[2..]);
        bytes[11] = self.size_class.0;
        bytes[FLAGS_AT] = (u8::from(self.tombstone) * FLAG_TOMBSTONE)
            | (u8::from(self.expires) * FLAG_EXPIRES)
            | (u8::from(self.collided) * FLAG_COLLIDED)
            | (u8::from(self.indexed) * FLAG_INDEXED)
            | self.n_val_class.min(15) << N_VAL_CLASS_SHIFT;
        bytes[13..].copy_from_slice(&self.digest.to_be_bytes());
        bytes
    }

    /// Decodes an entry. All byte values are valid.
    #[must_use]
    pub fn decode(bytes: &[u8; ENTRY_BYTES]) -> Self {
        let head = u64_at(bytes, 0);
        let flags = bytes[FLAGS_AT];
        Self {
            tag: Tag::from_head(head),
            location: Location(u64_at(bytes, 3) & Location::MASK),
            size_class: SizeClass(bytes[11]),
            tombstone: flags & FLAG_TOMBSTONE != 0,
            expires: flags & FLAG_EXPIRES != 0,
            collided: flags & FLAG_COLLIDED != 0,
            indexed: flags & FLAG_INDEXED != 0,
            n_val_class: flags >> N_VAL_CLASS_SHIFT,
            digest: u64_at(bytes, 13),
        }
    }
}

/// Decodes only the tag.
pub(super) fn tag_of(bytes: &[u8; ENTRY_BYTES]) -> Tag {
    Tag::from_head(u64_at(bytes, 0))
}

/// Sets only the `collided` flag.
pub(super) fn set_collided(bytes: &mut [u8; ENTRY_BYTES], collided: bool) {
    bytes[FLAGS_AT] = bytes[FLAGS_AT] & !FLAG_COLLIDED | (u8::from(collided) * FLAG_COLLIDED);
}

/// Big-endian number in the eight bytes from `at` on, which is at most 13.
fn u64_at(bytes: &[u8; ENTRY_BYTES], at: usize) -> u64 {
    let mut eight = [0; 8];
    eight.copy_from_slice(&bytes[at..at + 8]);
    u64::from_be_bytes(eight)
}
