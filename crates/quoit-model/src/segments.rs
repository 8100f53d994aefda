//! Segments of the hash trees by which Riak compares replicas. A tree divides all records into
//! thousands of segments by the MD5 of their names. Operators and tools select parts of a bucket by
//! segment.
//!
//! Source: the tictac trees of `leveled`, as Riak 3 uses them.

use crate::key::{BucketRef, DEFAULT_BUCKET_TYPE};
use md5::{Digest, Md5};
use std::fmt;
use std::str::FromStr;

/// Number of leaves (segments) of each branch of a tree.
pub const BRANCH_LEAVES: u32 = 256;

/// Size of a tree. Each size has four times the segments of the size before it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TreeSize {
    /// 4096 segments.
    XxSmall,
    /// 16 384 segments.
    XSmall,
    /// 65 536 segments.
    Small,
    /// 262 144 segments.
    Medium,
    /// 1 048 576 segments.
    Large,
    /// 4 194 304 segments.
    XLarge,
}

/// Error of a text or number that is not a size of trees.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0} is not a size of trees: use one of xxsmall, xsmall, small, medium, large, xlarge")]
pub struct NoTreeSize(pub String);

impl TreeSize {
    /// All sizes in ascending order. The position of a size is its number in messages.
    pub const ALL: [Self; 6] =
        [Self::XxSmall, Self::XSmall, Self::Small, Self::Medium, Self::Large, Self::XLarge];

    /// The size with this number in messages.
    ///
    /// # Errors
    ///
    /// Returns an error for numbers above 5.
    pub fn of_number(number: u32) -> Result<Self, NoTreeSize> {
        let size = usize::try_from(number).ok().and_then(|number| Self::ALL.get(number));
        size.copied().ok_or_else(|| NoTreeSize(number.to_string()))
    }

    /// Number of branches.
    #[must_use]
    pub const fn branch_count(self) -> u32 {
        16 << (2 * self as u32)
    }

    /// Number of segments.
    #[must_use]
    pub const fn segment_count(self) -> u32 {
        BRANCH_LEAVES * self.branch_count()
    }

    /// Name of the size, in Riak's spelling.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::XxSmall => "xxsmall",
            Self::XSmall => "xsmall",
            Self::Small => "small",
            Self::Medium => "medium",
            Self::Large => "large",
            Self::XLarge => "xlarge",
        }
    }
}

impl fmt::Display for TreeSize {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

impl FromStr for TreeSize {
    type Err = NoTreeSize;

    fn from_str(name: &str) -> Result<Self, NoTreeSize> {
        let named = Self::ALL.into_iter().find(|size| size.name() == name);
        named.ok_or_else(|| NoTreeSize(name.to_owned()))
    }
}

/// Error of a request that selects too many segments.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0} segments are named, more than the {max} of one request: send several requests",
    max = Segments::COUNT_MAX
)]
pub struct TooManySegments(pub usize);

/// A selection of segments of a tree.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segments {
    segment_count: u32,
    /// Ascending.
    numbers: Vec<u32>,
}

impl Segments {
    /// Maximum number of segments of a selection.
    pub const COUNT_MAX: usize = 1 << 16;

    /// Selects segments of a tree of this size by number. Numbers that the tree does not have are
    /// ignored.
    ///
    /// # Errors
    ///
    /// Returns an error for more than [`Segments::COUNT_MAX`] numbers.
    pub fn new(size: TreeSize, numbers: Vec<u32>) -> Result<Self, TooManySegments> {
        if numbers.len() > Self::COUNT_MAX {
            return Err(TooManySegments(numbers.len()));
        }
        Ok(Self::of_count(size.segment_count(), numbers))
    }

    /// Selects segments of a tree of `segment_count` segments. Numbers that the tree does not have
    /// are ignored.
    #[must_use]
    pub fn of_count(segment_count: u32, mut numbers: Vec<u32>) -> Self {
        numbers.retain(|number| *number < segment_count);
        numbers.sort_unstable();
        numbers.dedup();
        Self { segment_count, numbers }
    }

    /// Number of segments of the whole tree.
    #[must_use]
    pub const fn segment_count(&self) -> u32 {
        self.segment_count
    }

    /// Numbers of the selected segments, ascending.
    #[must_use]
    pub fn numbers(&self) -> &[u32] {
        &self.numbers
    }

    /// True if the record is in one of the selected segments.
    #[must_use]
    pub fn has(&self, bucket: BucketRef<'_>, key: &[u8]) -> bool {
        let segment = segment_of(bucket, key).checked_rem(self.segment_count);
        segment.is_some_and(|segment| self.numbers.binary_search(&segment).is_ok())
    }
}

/// Position of a record in a tree, from the MD5 of its bucket type, bucket and key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TreePosition {
    /// Number of the segment in a tree of 2^32 segments. In a smaller tree it is this number modulo
    /// the number of segments.
    pub segment: u32,
    /// Mask that is combined with the hash of the record's clock, so that records with equal clocks
    /// differ.
    pub mask: u32,
}

impl TreePosition {
    /// Computes the position of a record. The default bucket type is not hashed.
    #[must_use]
    pub fn of(bucket: BucketRef<'_>, key: &[u8]) -> Self {
        let mut hasher = Md5::new();
        if bucket.bucket_type != DEFAULT_BUCKET_TYPE {
            hasher.update(bucket.bucket_type);
        }
        hasher.update(bucket.bucket);
        hasher.update(key);
        let hash = hasher.finalize();
        let [low_high, low_low, _, _, high_high, high_low, mask @ ..] = &hash[..] else {
            unreachable!("an MD5 has 16 bytes")
        };
        let mask = mask.first_chunk().expect("ten bytes follow");
        Self {
            segment: u32::from_be_bytes([*high_high, *high_low, *low_high, *low_low]),
            mask: u32::from_be_bytes(*mask),
        }
    }
}

fn segment_of(bucket: BucketRef<'_>, key: &[u8]) -> u32 {
    TreePosition::of(bucket, key).segment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_names_numbers_and_segments() {
        let counts: Vec<u32> = TreeSize::ALL.iter().map(|size| size.segment_count()).collect();
        assert_eq!(counts, [4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304]);
        for (number, size) in (0..).zip(TreeSize::ALL) {
            assert_eq!(TreeSize::of_number(number), Ok(size));
            assert_eq!(size.to_string().parse(), Ok(size));
        }
        assert!(TreeSize::of_number(6).is_err());
        assert!("huge".parse::<TreeSize>().is_err());
    }

    /// `md5(b"bucketkey")` begins with e6 f5 7e f8 a1 9d, `md5(b"typebucketkey")` with
    /// b6 e6 18 5c 6e fb.
    #[test]
    fn a_segment_is_made_of_the_first_six_bytes() {
        let untyped = BucketRef::untyped(b"bucket");
        let typed = BucketRef { bucket_type: b"type", bucket: b"bucket" };
        assert_eq!(segment_of(untyped, b"key"), 0xa19d_e6f5);
        assert_eq!(segment_of(typed, b"key"), 0x6efb_b6e6);
    }

    #[test]
    fn each_key_is_in_one_segment_of_a_tree() {
        let bucket = BucketRef::untyped(b"bucket");
        for size in TreeSize::ALL {
            let count = size.segment_count();
            let number = segment_of(bucket, b"key") % count;
            let some = Segments::new(size, vec![count, number, 7]);
            assert!(some.is_ok_and(|some| some.has(bucket, b"key")));
            let others = (0..count).filter(|other| *other != number).collect();
            assert!(!Segments::of_count(count, others).has(bucket, b"key"));
        }
        let many = vec![0; Segments::COUNT_MAX + 1];
        assert_eq!(Segments::new(TreeSize::Large, many), Err(TooManySegments(65_537)));
        assert!(!Segments::of_count(0, vec![0]).has(bucket, b"key"));
    }
}
