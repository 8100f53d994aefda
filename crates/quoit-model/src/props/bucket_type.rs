//! Life cycle of a bucket type: created, ready once every node knows it, active. A bucket type is
//! never deleted.

use super::{BucketProps, InvalidProps, PropUpdates, Scope};
use crate::key::{DEFAULT_BUCKET_TYPE, PIECE_TYPE};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Maximum length of a bucket type's name, in bytes.
pub const TYPE_NAME_BYTES_MAX: usize = 255;

const RESERVED_TYPE: &[u8] = b"any";

/// State of a bucket type.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TypeState {
    /// The type does not exist.
    Undefined,
    /// The type was created, but it is not certain that all nodes know it.
    Created,
    /// All nodes know the type; it can be activated.
    Ready,
    /// The type is in use and stays so.
    Active,
}

impl TypeState {
    /// The stored word of the state.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::Created => "created",
            Self::Ready => "ready",
            Self::Active => "active",
        }
    }

    /// The state of a stored word. `undefined` is never stored.
    #[must_use]
    pub fn from_stored(word: &str) -> Option<Self> {
        match word {
            "created" => Some(Self::Created),
            "ready" => Some(Self::Ready),
            "active" => Some(Self::Active),
            _ => None,
        }
    }

    /// First line of `bucket-type status` for the type `name`.
    #[must_use]
    pub fn status_line(self, name: &[u8]) -> String {
        let name = String::from_utf8_lossy(name);
        match self {
            Self::Undefined => format!("{name} is not an existing bucket type"),
            Self::Created => format!("{name} has been created but cannot be activated yet"),
            Self::Ready => format!("{name} has been created and may be activated"),
            Self::Active => format!("{name} is active"),
        }
    }

    /// Line of the type in `bucket-type list`.
    #[must_use]
    pub fn list_line(self, name: &[u8]) -> String {
        let state = if self == Self::Active { "active" } else { "not active" };
        format!("{} ({state})", String::from_utf8_lossy(name))
    }
}

impl fmt::Display for TypeState {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.as_str())
    }
}

/// A bucket type other than the default one. Each command takes the existing type of that name,
/// `None` if there is none, and returns the changed type.
#[derive(Clone, PartialEq, Debug)]
pub struct BucketType {
    /// State of the type; never [`TypeState::Undefined`].
    pub state: TypeState,
    /// Properties that the type's buckets inherit.
    pub props: Arc<BucketProps>,
}

impl BucketType {
    /// Creates a type, or replaces the properties of a type that is not active yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the name is not allowed, the type is active, or properties are refused.
    pub fn create(
        existing: Option<&Self>,
        name: &[u8],
        updates: &PropUpdates,
    ) -> Result<Self, TypeError> {
        check_name(name)?;
        if name == DEFAULT_BUCKET_TYPE {
            return Err(TypeError::DefaultType);
        }
        if existing.is_some_and(|present| present.state == TypeState::Active) {
            return Err(TypeError::AlreadyActive { name: shown(name) });
        }
        let props = Arc::new(BucketProps::for_new_type(updates)?);
        Ok(Self { state: TypeState::Created, props })
    }

    /// The type after all nodes have learned of it: it can be activated.
    #[must_use]
    pub fn known_everywhere(&self) -> Self {
        let state = self.state.max(TypeState::Ready);
        Self { state, props: Arc::clone(&self.props) }
    }

    /// Activates a type. Activating an active type succeeds.
    ///
    /// # Errors
    ///
    /// Returns an error if the type does not exist, or it is not certain that all nodes know it.
    pub fn activate(existing: Option<&Self>, name: &[u8]) -> Result<Self, TypeError> {
        let Some(existing) = existing else {
            return Err(TypeError::Undefined { name: shown(name) });
        };
        match existing.state {
            TypeState::Ready | TypeState::Active => {
                Ok(Self { state: TypeState::Active, props: Arc::clone(&existing.props) })
            }
            TypeState::Created | TypeState::Undefined => {
                Err(TypeError::NotReady { name: shown(name) })
            }
        }
    }

    /// Changes properties of an active type.
    ///
    /// # Errors
    ///
    /// Returns an error for the default type, if the type is not active, or if properties are
    /// refused.
    pub fn update(
        existing: Option<&Self>,
        name: &[u8],
        updates: &PropUpdates,
    ) -> Result<Self, TypeError> {
        let active = Self::active(existing, name)?;
        let props = Arc::new(active.props.updated(Scope::ActiveType, updates)?);
        Ok(Self { state: TypeState::Active, props })
    }

    /// Sets the properties of an active type to their defaults, except those that can't change.
    ///
    /// # Errors
    ///
    /// Returns an error for the default type, or if the type is not active.
    pub fn reset(existing: Option<&Self>, name: &[u8]) -> Result<Self, TypeError> {
        let active = Self::active(existing, name)?;
        Ok(Self { state: TypeState::Active, props: Arc::new(active.props.reset_type()) })
    }

    fn active<'a>(existing: Option<&'a Self>, name: &[u8]) -> Result<&'a Self, TypeError> {
        if name == DEFAULT_BUCKET_TYPE {
            return Err(TypeError::NoDefaultUpdate);
        }
        let not_active = |state| TypeError::NotActive { name: shown(name), state };
        match existing {
            Some(present) if present.state == TypeState::Active => Ok(present),
            Some(present) => Err(not_active(present.state)),
            None => Err(not_active(TypeState::Undefined)),
        }
    }
}

fn check_name(name: &[u8]) -> Result<(), TypeError> {
    if name.is_empty() || name.len() > TYPE_NAME_BYTES_MAX {
        return Err(TypeError::NameLength { size_bytes: name.len() });
    }
    if name.starts_with(PIECE_TYPE) {
        return Err(TypeError::NameZero);
    }
    if name == RESERVED_TYPE { Err(TypeError::ReservedName) } else { Ok(()) }
}

fn shown(name: &[u8]) -> String {
    String::from_utf8_lossy(name).into_owned()
}

/// Error of a command on a bucket type. `Display` is for operators.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TypeError {
    /// The name is reserved: it means "every type" in other places.
    #[error("The name 'any' may not be used for bucket types")]
    ReservedName,
    /// The name is empty or too long.
    #[error("a bucket type's name has 1 to {TYPE_NAME_BYTES_MAX} bytes, this one has {size_bytes}")]
    NameLength {
        /// Size of the name in bytes.
        size_bytes: usize,
    },
    /// The name begins with a zero byte, as do the types that the store reserves for itself.
    #[error("a bucket type's name can't begin with a zero byte")]
    NameZero,
    /// The default type can't be created.
    #[error("the bucket type default always exists; choose another name")]
    DefaultType,
    /// The default type can't be changed.
    #[error(
        "the bucket type default cannot be changed; set buckets.default.* in the configuration"
    )]
    NoDefaultUpdate,
    /// An active type can't be created.
    #[error("{name} is active already; use bucket-type update to change its properties")]
    AlreadyActive {
        /// The type.
        name: String,
    },
    /// A type that is not active can't be changed.
    #[error("{name} is not active but {state}; create and activate it first")]
    NotActive {
        /// The type.
        name: String,
        /// State of the type.
        state: TypeState,
    },
    /// The type to activate does not exist.
    #[error("{name} is not an existing bucket type")]
    Undefined {
        /// The type.
        name: String,
    },
    /// It is not certain that all nodes know the type.
    #[error("{name} has been created but cannot be activated yet")]
    NotReady {
        /// The type.
        name: String,
    },
    /// Properties are refused.
    #[error(transparent)]
    Invalid(#[from] InvalidProps),
}

impl TypeError {
    /// The word by which clients recognize the error.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::ReservedName => "reserved_name",
            Self::NameLength { .. } | Self::NameZero => "invalid_name",
            Self::DefaultType => "default_type",
            Self::NoDefaultUpdate => "no_default_update",
            Self::AlreadyActive { .. } => "already_active",
            Self::NotActive { .. } => "not_active",
            Self::Undefined { .. } => "undefined",
            Self::NotReady { .. } => "not_ready",
            Self::Invalid(_) => "invalid_props",
        }
    }

    /// Text of the Protocol Buffers error.
    #[must_use]
    pub fn pb_text(&self) -> String {
        match self {
            Self::Invalid(invalid) => invalid.pb_text(),
            _ => format!("Invalid bucket properties: {}", self.word()),
        }
    }

    /// Body of the HTTP answer 400: a word, or an object with the reason of each property.
    #[must_use]
    pub fn http_json(&self) -> Value {
        match self {
            Self::Invalid(invalid) => invalid.http_json(),
            _ => Value::from(self.word()),
        }
    }
}
