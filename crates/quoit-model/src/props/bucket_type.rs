//! The life of a bucket type: created, ready on every node, active; never deleted.

use super::{BucketProps, InvalidProps, PropUpdates, Scope};
use crate::key::{DEFAULT_BUCKET_TYPE, PIECE_TYPE};
use serde_json::Value;
use std::fmt;
use std::sync::Arc;
use thiserror::Error;

/// Most bytes of a bucket type's name.
pub const TYPE_NAME_BYTES_MAX: usize = 255;

const RESERVED_TYPE: &[u8] = b"any";

/// How far a bucket type has come.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum TypeState {
    /// There is no such type.
    Undefined,
    /// Created, but not yet known to all nodes.
    Created,
    /// Known to all nodes; may be activated.
    Ready,
    /// In use, for ever.
    Active,
}

impl TypeState {
    /// The word that is stored.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Undefined => "undefined",
            Self::Created => "created",
            Self::Ready => "ready",
            Self::Active => "active",
        }
    }

    /// Reads the word that is stored. Nothing stores `undefined`.
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

    /// The type's line in `bucket-type list`.
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

/// A bucket type other than the default one. Its commands return the type as it is afterwards; they
/// take what there is of that name, `None` when there is nothing.
#[derive(Clone, PartialEq, Debug)]
pub struct BucketType {
    /// How far it has come; never [`TypeState::Undefined`].
    pub state: TypeState,
    /// Properties that its buckets inherit.
    pub props: Arc<BucketProps>,
}

impl BucketType {
    /// Creates a type, or creates it anew with other properties while it is not active.
    ///
    /// # Errors
    ///
    /// A name that no type may have, a type that is active, properties that are refused.
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

    /// Every node knows the type now: it may be activated.
    #[must_use]
    pub fn known_everywhere(&self) -> Self {
        let state = self.state.max(TypeState::Ready);
        Self { state, props: Arc::clone(&self.props) }
    }

    /// Makes a type usable. Activating an active type succeeds.
    ///
    /// # Errors
    ///
    /// A type that does not exist, or that some node does not know yet.
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
    /// The default type, a type that is not active, properties that are refused.
    pub fn update(
        existing: Option<&Self>,
        name: &[u8],
        updates: &PropUpdates,
    ) -> Result<Self, TypeError> {
        let active = Self::active(existing, name)?;
        let props = Arc::new(active.props.updated(Scope::ActiveType, updates)?);
        Ok(Self { state: TypeState::Active, props })
    }

    /// Sets the properties of an active type to their defaults, except for those that cannot
    /// change.
    ///
    /// # Errors
    ///
    /// The default type, a type that is not active.
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

/// Why a command on a bucket type is refused. Displayed for operators.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum TypeError {
    /// The name means "every type" elsewhere.
    #[error("The name 'any' may not be used for bucket types")]
    ReservedName,
    /// No name, or one that is too long.
    #[error("a bucket type's name has 1 to {TYPE_NAME_BYTES_MAX} bytes, this one has {size_bytes}")]
    NameLength {
        /// Size of the name.
        size_bytes: usize,
    },
    /// A name that begins as those do that the store keeps for itself.
    #[error("a bucket type's name can't begin with a zero byte")]
    NameZero,
    /// The default type was to be created.
    #[error("the bucket type default always exists; choose another name")]
    DefaultType,
    /// The default type was to be changed.
    #[error(
        "the bucket type default cannot be changed; set buckets.default.* in the configuration"
    )]
    NoDefaultUpdate,
    /// An active type was to be created.
    #[error("{name} is active already; use bucket-type update to change its properties")]
    AlreadyActive {
        /// The type.
        name: String,
    },
    /// Only active types can be changed.
    #[error("{name} is not active but {state}; create and activate it first")]
    NotActive {
        /// The type.
        name: String,
        /// How far it has come.
        state: TypeState,
    },
    /// There is no such type to activate.
    #[error("{name} is not an existing bucket type")]
    Undefined {
        /// The type.
        name: String,
    },
    /// Some node does not know the type yet.
    #[error("{name} has been created but cannot be activated yet")]
    NotReady {
        /// The type.
        name: String,
    },
    /// Properties that are refused.
    #[error(transparent)]
    Invalid(#[from] InvalidProps),
}

impl TypeError {
    /// The word by which clients know the refusal.
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

    /// Body of the HTTP answer 400: a word, or an object of property to reason.
    #[must_use]
    pub fn http_json(&self) -> Value {
        match self {
            Self::Invalid(invalid) => invalid.http_json(),
            _ => Value::from(self.word()),
        }
    }
}
