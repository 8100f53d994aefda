//! Tags: the part of an identity that indexes keep.

use quoit_model::hash::Identity;

/// Number of identity bits in a tag.
pub const TAG_BITS: u32 = 40;

/// The highest n_val class.
pub(crate) const N_VAL_CLASS_MAX: u8 = 15;

/// Number of n_val classes; each has digests of its own.
pub const N_VAL_CLASS_COUNT: usize = N_VAL_CLASS_MAX as usize + 1;

/// The highest 40 bits of an identity. The index keeps no more of a record's name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tag(u64);

impl Tag {
    /// The lowest tag.
    pub const MIN: Self = Self(0);

    /// The highest tag.
    pub const MAX: Self = Self((1 << TAG_BITS) - 1);

    /// The tag of an identity.
    #[must_use]
    pub const fn of(identity: Identity) -> Self {
        Self(identity.0 >> (64 - TAG_BITS))
    }

    /// The tag with this number; bits above the lowest 40 are ignored.
    #[must_use]
    pub const fn from_number(number: u64) -> Self {
        Self(number & Self::MAX.0)
    }

    /// The tag in the highest 40 bits of a number.
    pub(crate) const fn from_head(head: u64) -> Self {
        Self(head >> (64 - TAG_BITS))
    }

    /// The tag as a number, below 2^40.
    #[must_use]
    pub const fn number(self) -> u64 {
        self.0
    }

    /// The lowest identity that has this tag.
    #[must_use]
    pub const fn identity_min(self) -> Identity {
        Identity(self.0 << (64 - TAG_BITS))
    }

    /// The highest identity that has this tag.
    #[must_use]
    pub const fn identity_max(self) -> Identity {
        Identity(self.identity_min().0 | ((1 << (64 - TAG_BITS)) - 1))
    }

    /// The next higher tag, `None` after the highest.
    #[must_use]
    pub const fn next(self) -> Option<Self> {
        if self.0 == Self::MAX.0 { None } else { Some(Self(self.0 + 1)) }
    }
}
