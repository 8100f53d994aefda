//! Quorums in the protocol's encoding: a count, or one of four words with the values below.

/// The encoded form of [`Quorum::One`].
pub const QUORUM_ONE: u32 = 4_294_967_294;
/// The encoded form of [`Quorum::Majority`].
pub const QUORUM_MAJORITY: u32 = 4_294_967_293;
/// The encoded form of [`Quorum::All`].
pub const QUORUM_ALL: u32 = 4_294_967_292;
/// The encoded form of [`Quorum::Default`].
pub const QUORUM_DEFAULT: u32 = 4_294_967_291;

/// Number of replicas that must answer, in a request or in a bucket property.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Quorum {
    /// One replica: the word `one`.
    One,
    /// A majority of the replicas, n_val / 2 + 1: the word `quorum`.
    Majority,
    /// All n_val replicas: the word `all`.
    All,
    /// The bucket's property: the word `default`, or an absent field.
    #[default]
    Default,
    /// This number of replicas. The server refuses counts above n_val. [`Quorum::from_wire`] never
    /// returns a count that equals one of the four reserved values.
    Count(u32),
}

impl Quorum {
    /// Decodes a field's value.
    pub const fn from_wire(value: u32) -> Quorum {
        match value {
            QUORUM_ONE => Quorum::One,
            QUORUM_MAJORITY => Quorum::Majority,
            QUORUM_ALL => Quorum::All,
            QUORUM_DEFAULT => Quorum::Default,
            count => Quorum::Count(count),
        }
    }

    /// Decodes an optional field; an absent one is [`Quorum::Default`].
    pub const fn from_field(field: Option<u32>) -> Quorum {
        match field {
            Some(value) => Quorum::from_wire(value),
            None => Quorum::Default,
        }
    }

    /// Encodes a field's value.
    pub const fn to_wire(self) -> u32 {
        match self {
            Quorum::One => QUORUM_ONE,
            Quorum::Majority => QUORUM_MAJORITY,
            Quorum::All => QUORUM_ALL,
            Quorum::Default => QUORUM_DEFAULT,
            Quorum::Count(count) => count,
        }
    }

    /// Encodes an optional field; [`Quorum::Default`] is an absent one.
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
