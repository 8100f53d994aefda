//! Quorums: the number of replicas that an operation waits for.

use serde_json::Value;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// Number of replicas that an operation waits for, as a property or a request states it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Quorum {
    /// One replica.
    One,
    /// A majority of the replicas: half of `n_val`, rounded down, plus one.
    Quorum,
    /// Every replica.
    All,
    /// This number of replicas. It may exceed the number of replicas; a request that uses it then
    /// fails.
    Count(u32),
}

/// Numbers that stand for words in Protocol Buffers fields.
const PB_ONE: u32 = 0xFFFF_FFFE;
const PB_QUORUM: u32 = 0xFFFF_FFFD;
const PB_ALL: u32 = 0xFFFF_FFFC;
const PB_DEFAULT: u32 = 0xFFFF_FFFB;

impl Quorum {
    /// The number of replicas in a bucket with this `n_val`.
    #[must_use]
    pub const fn resolve(self, n_val: u32) -> u32 {
        match self {
            Self::One => 1,
            Self::Quorum => n_val / 2 + 1,
            Self::All => n_val,
            Self::Count(count) => count,
        }
    }

    /// The number of replicas that the request's parameter states or, without one, the bucket's
    /// property.
    ///
    /// # Errors
    ///
    /// Returns an error if the number is above `n_val`.
    pub const fn effective(
        parameter: Option<Self>,
        property: Self,
        n_val: u32,
    ) -> Result<u32, NValViolation> {
        let stated = match parameter {
            Some(parameter) => parameter,
            None => property,
        };
        let count = stated.resolve(n_val);
        if count > n_val { Err(NValViolation { n_val }) } else { Ok(count) }
    }

    /// Reads a Protocol Buffers field; `None` stands for the bucket's property.
    #[must_use]
    pub const fn from_pb(field: u32) -> Option<Self> {
        match field {
            PB_ONE => Some(Self::One),
            PB_QUORUM => Some(Self::Quorum),
            PB_ALL => Some(Self::All),
            PB_DEFAULT => None,
            count => Some(Self::Count(count)),
        }
    }

    /// The value of a Protocol Buffers field.
    #[must_use]
    pub const fn to_pb(self) -> u32 {
        match self {
            Self::One => PB_ONE,
            Self::Quorum => PB_QUORUM,
            Self::All => PB_ALL,
            Self::Count(count) => count,
        }
    }

    /// Converts a quorum field of a Protocol Buffers property message to the JSON form. "default"
    /// becomes that word, which validation refuses, as Riak does.
    #[must_use]
    pub fn prop_value_from_pb(field: u32) -> Value {
        Self::from_pb(field).map_or_else(|| Value::from("default"), Self::to_json)
    }

    /// The JSON form: a word or a number.
    #[must_use]
    pub fn to_json(self) -> Value {
        match self {
            Self::One => Value::from("one"),
            Self::Quorum => Value::from("quorum"),
            Self::All => Value::from("all"),
            Self::Count(count) => Value::from(count),
        }
    }

    /// Reads the JSON form; returns `None` if it is not a quorum.
    #[must_use]
    pub fn from_json(value: &Value) -> Option<Self> {
        match value {
            Value::String(word) => Self::from_word(word),
            Value::Number(number) => {
                number.as_u64().and_then(|count| u32::try_from(count).ok()).map(Self::Count)
            }
            _ => None,
        }
    }

    fn from_word(word: &str) -> Option<Self> {
        match word {
            "one" => Some(Self::One),
            "quorum" => Some(Self::Quorum),
            "all" => Some(Self::All),
            _ => None,
        }
    }
}

impl fmt::Display for Quorum {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One => formatter.write_str("one"),
            Self::Quorum => formatter.write_str("quorum"),
            Self::All => formatter.write_str("all"),
            Self::Count(count) => write!(formatter, "{count}"),
        }
    }
}

impl FromStr for Quorum {
    type Err = NotAQuorum;

    /// Reads a setting: a word, or a decimal number that may have a plus sign, as in Riak.
    fn from_str(text: &str) -> Result<Self, NotAQuorum> {
        Self::from_word(text)
            .or_else(|| text.parse().ok().map(Self::Count))
            .ok_or_else(|| NotAQuorum { given: text.to_owned() })
    }
}

/// Error of a text that is not a quorum.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
#[error("{given:?} is not a quorum; use one, quorum, all or a number of replicas")]
pub struct NotAQuorum {
    /// The text as it was given.
    pub given: String,
}

/// Error of a quorum above the number of replicas, or of an `n_val` parameter out of range.
/// `Display` gives the term that clients receive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("{{n_val_violation,{n_val}}}")]
pub struct NValViolation {
    /// Number of replicas of the request or, if the `n_val` parameter is out of range, that
    /// parameter.
    pub n_val: u32,
}
