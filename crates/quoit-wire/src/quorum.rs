//! Quorums as the protocol spells them: a count, or one of four words in the highest integers.

/// The encoded form of [`Quorum::One`].
pub const QUORUM_ONE: u32 = 4_294_967_294;
/// The encoded form of [`Quorum::Majority`].
pub const QUORUM_MAJORITY: u32 = 4_294_967_293;
/// The encoded form of [`Quorum::All`].
pub const QUORUM_ALL: u32 = 4_294_967_292;
/// The encoded form of [`Quorum::Default`].
pub const QUORUM_DEFAULT: u32 = 4_294_967_291;

/// How many replicas must answer, in a request or in a bucket property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Quorum {
    /// One replica: the word `one`.
    One,
    /// A majority of the replicas, n_val / 2 + 1: the word `quorum`.
    Majority,
    /// All n_val replicas: the word `all`.
    All,
    /// The quorum of the bucket's properties: the word `default`, and a field that is absent.
    #[default]
    Default,
    /// That many replicas. Counts above n_val, and counts that are one of the four reserved
    /// integers, mean nothing; the server refuses the first, [`Quorum::from_wire`] never
    /// returns the second.
    Count(u32),
}

impl Quorum {
    /// The quorum that a field's value means.
    pub const fn from_wire(value: u32) -> Quorum {
        match value {
            QUORUM_ONE => Quorum::One,
            QUORUM_MAJORITY => Quorum::Majority,
            QUORUM_ALL => Quorum::All,
            QUORUM_DEFAULT => Quorum::Default,
            count => Quorum::Count(count),
        }
    }

    /// The quorum that an optional field means: absent is [`Quorum::Default`].
    pub const fn from_field(field: Option<u32>) -> Quorum {
        match field {
            Some(value) => Quorum::from_wire(value),
            None => Quorum::Default,
        }
    }

    /// The value of a field that means this quorum.
    pub const fn to_wire(self) -> u32 {
        match self {
            Quorum::One => QUORUM_ONE,
            Quorum::Majority => QUORUM_MAJORITY,
            Quorum::All => QUORUM_ALL,
            Quorum::Default => QUORUM_DEFAULT,
            Quorum::Count(count) => count,
        }
    }

    /// The optional field that means this quorum: absent for [`Quorum::Default`].
    pub const fn to_field(self) -> Option<u32> {
        match self {
            Quorum::Default => None,
            other => Some(other.to_wire()),
        }
    }
}

impl From<u32> for Quorum {
    fn from(count: u32) -> Quorum {
        Quorum::Count(count)
    }
}
