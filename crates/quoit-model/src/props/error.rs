//! Reasons for which properties are refused, and their form in each protocol.

use serde_json::{Map, Value};
use std::fmt;
use thiserror::Error;

/// Reason for which a property is refused. `Display` gives the reason that clients receive: a bare
/// word (an Erlang atom) for the first group, a text for all others.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Reason {
    /// The value is not a boolean.
    #[error("not_boolean")]
    NotBoolean,
    /// The value is not an integer, or is too small.
    #[error("not_integer")]
    NotInteger,
    /// The value is not a quorum, or is zero where at least one is needed.
    #[error("not_valid_quorum")]
    NotValidQuorum,
    /// The value is not a mode of `sync_on_write`.
    #[error("not_valid_sync_param")]
    NotValidSyncParam,

    /// `active` can't be changed.
    #[error("Cannot modify active property")]
    ActiveReadOnly,
    /// `claimant` can't be given when a type is created.
    #[error("Invalid claimant")]
    ClaimantOnCreate,
    /// `claimant` can't be changed for an active type or a bucket.
    #[error("Cannot update claimant property")]
    ClaimantReadOnly,
    /// `last_write_wins` and `dvv_enabled` exclude each other.
    #[error("If last_write_wins is true, dvv_enabled must be false")]
    DvvWithLastWriteWins,
    /// The data type is unknown, or differs from that of the type.
    #[error("{0} not supported for bucket datatype property")]
    DatatypeUnsupported(String),
    /// A type with a data type needs `allow_mult`.
    #[error("Data Type buckets must be allow_mult=true")]
    DatatypeNeedsAllowMult,
    /// The precision is out of range, or higher than before.
    #[error(
        "{0} not supported for Hyperloglog precision property for bucket type. Precision must be \
         an integer between 4 and 16, inclusive (3 < p < 17) and precision can be reduced but \
         never increased after initial setting"
    )]
    HllPrecision(String),
    /// The type was created without a data type.
    #[error("`datatype` must not be defined.")]
    DatatypeOnPlainType,
    /// `consistent` can't be set for an existing type.
    #[error("Write once buckets must not be consistent=true")]
    ConsistentOnExistingType,
    /// A new type can't be both write-once and consistent.
    #[error("Write once buckets must be not be consistent=true")]
    WriteOnceConsistent,
    /// `write_once` can't be set for an existing type.
    #[error("Cannot set existing bucket type to `write_once`")]
    WriteOnceOnExistingType,
    /// A type can't have both `write_once` and a data type.
    #[error("Write once buckets must not have datatype defined")]
    WriteOnceWithDatatype,
    /// `write_once` can't be unset.
    #[error("Cannot modify write_once property once set to true")]
    WriteOnceUnset,
    /// `write_once` can't be changed for an untyped bucket, or for a consistent type or one with a
    /// data type.
    #[error("cannot update write_once property")]
    WriteOnceChanged,
    /// The value of `consistent` is not a boolean.
    #[error("{0} is not a valid value for consistent. Use \"true\" or \"false\"")]
    ConsistentValue(String),
    /// `consistent` can't be changed, or set for an untyped bucket or a type with a data type.
    #[error("cannot update consistent property")]
    ConsistentChanged,
    /// `n_val` of a consistent type can't be changed.
    #[error("n_val cannot be modified for existing consistent type")]
    ConsistentNVal,

    /// The number is above the maximum.
    #[error("must be at most {max}")]
    TooLarge {
        /// Maximum.
        max: u32,
    },
    /// The value is not a text.
    #[error("must be a text")]
    NotText,
    /// The node does not have this storage engine.
    #[error("must be one of the node's storage engines: {names}")]
    UnknownBackend {
        /// Names of the engines that it has.
        names: String,
    },
    /// The value is not a list of commit hooks.
    #[error("must be a list of {{\"mod\":\"module\",\"fun\":\"function\"}} objects")]
    NotHooks,
    /// Not a link function.
    #[error("must be a {{\"mod\":\"module\",\"fun\":\"function\"}} object")]
    NotLinkFun,
    /// This server does not have this placement rule.
    #[error("must be riak_core_util:chash_std_keyfun or riak_core_util:chash_bucketonly_keyfun")]
    NotPlacement,
    /// The value is not a mode of `repl`.
    #[error("must be true, false, both, realtime or fullsync")]
    NotReplMode,
    /// The value is not a mode of conditional writes.
    #[error("must be api_only, prefer_token or require_token")]
    NotConditionalPutMode,
    /// The value is not a way of compression.
    #[error("must be lz4 or none")]
    NotCompression,
    /// The value takes too many bytes as JSON.
    #[error("must take at most {max} bytes as JSON")]
    ValueTooLong {
        /// Maximum size in bytes.
        max: usize,
    },
    /// Lists and objects are nested too deeply.
    #[error("must not be nested deeper than {max}")]
    ValueTooDeep {
        /// Maximum depth.
        max: usize,
    },
    /// The property's name is empty or too long.
    #[error("a property name must have 1 to {max} bytes")]
    NameLength {
        /// Maximum length in bytes.
        max: usize,
    },
    /// The set has too many properties that the server does not know.
    #[error("a bucket may have at most {max} properties that the server does not know")]
    TooManyUnknown {
        /// Maximum number.
        max: usize,
    },
}

impl Reason {
    /// True if Riak's reason is an atom, and not a text.
    const fn is_atom(&self) -> bool {
        matches!(
            self,
            Self::NotBoolean | Self::NotInteger | Self::NotValidQuorum | Self::NotValidSyncParam
        )
    }

    /// The rule that was broken, for reasons that are atoms.
    const fn rule(&self) -> &'static str {
        match self {
            Self::NotBoolean => ": must be true or false",
            Self::NotInteger => ": must be a whole number in its range, mostly above 0",
            Self::NotValidQuorum => ": must be one, quorum, all or a number of replicas",
            Self::NotValidSyncParam => ": must be backend, one or all",
            _ => "",
        }
    }
}

/// A refused property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PropError {
    /// Name of the property.
    pub property: String,
    /// Reason of the refusal.
    pub reason: Reason,
    /// The value as it was given, shortened; `None` if the property itself was not given.
    pub given: Option<String>,
}

/// All properties of a request that are refused: at least one, each once. `Display` is for
/// operators: property, reason, rule and value of each.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct InvalidProps {
    errors: Vec<PropError>,
}

impl InvalidProps {
    /// Refusal of one property.
    #[must_use]
    pub fn one(property: &str, reason: Reason) -> Self {
        let property = property.to_owned();
        Self { errors: vec![PropError { property, reason, given: None }] }
    }

    /// Returns `None` if there are no errors.
    pub(super) fn from_errors(errors: Vec<PropError>) -> Option<Self> {
        (!errors.is_empty()).then_some(Self { errors })
    }

    /// The refused properties, in the order in which they were found.
    #[must_use]
    pub fn errors(&self) -> &[PropError] {
        &self.errors
    }

    /// The reasons as the Erlang term of Protocol Buffers answers: `[{prop,reason},...]`.
    #[must_use]
    pub fn term(&self) -> String {
        let mut term = String::from("[");
        for (index, error) in self.errors.iter().enumerate() {
            if index > 0 {
                term.push(',');
            }
            term.push('{');
            push_atom(&mut term, &error.property);
            term.push(',');
            if error.reason.is_atom() {
                term.push_str(&error.reason.to_string());
            } else {
                push_quoted(&mut term, &error.reason.to_string(), '"');
            }
            term.push('}');
        }
        term.push(']');
        term
    }

    /// Text of the Protocol Buffers error.
    #[must_use]
    pub fn pb_text(&self) -> String {
        format!("Invalid bucket properties: {}", self.term())
    }

    /// Body of the HTTP answer 400: an object with the reason of each property.
    #[must_use]
    pub fn http_json(&self) -> Value {
        let reason = |error: &PropError| Value::from(error.reason.to_string());
        let object: Map<String, Value> =
            self.errors.iter().map(|error| (error.property.clone(), reason(error))).collect();
        Value::Object(object)
    }
}

impl fmt::Display for InvalidProps {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.errors.iter().enumerate() {
            let separator = if index > 0 { "; " } else { "" };
            let (property, reason) = (&error.property, &error.reason);
            write!(formatter, "{separator}{property}: {reason}{}", reason.rule())?;
            if let Some(given) = &error.given {
                write!(formatter, " (given: {given})")?;
            }
        }
        Ok(())
    }
}

/// Appends an Erlang atom, in single quotes if necessary.
fn push_atom(out: &mut String, name: &str) {
    let mut characters = name.chars();
    let bare = characters.next().is_some_and(|first| first.is_ascii_lowercase())
        && characters.all(|next| next.is_ascii_alphanumeric() || next == '_' || next == '@');
    if bare {
        out.push_str(name);
    } else {
        push_quoted(out, name, '\'');
    }
}

/// Appends text in quotes, escaped as in Erlang.
fn push_quoted(out: &mut String, text: &str, quote: char) {
    out.push(quote);
    for character in text.chars() {
        match character {
            '\n' => out.push_str("\\n"),
            _ if character == quote || character == '\\' => {
                out.push('\\');
                out.push(character);
            }
            _ => out.push(character),
        }
    }
    out.push(quote);
}
