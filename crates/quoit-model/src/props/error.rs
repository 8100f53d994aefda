//! Why properties are refused, and how each protocol says it.

use serde_json::{Map, Value};
use std::fmt;
use thiserror::Error;

/// Why one property is refused. Displayed as the reason that clients are sent: for the first group
/// a bare word (an Erlang atom), for all others a text.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum Reason {
    /// Not true or false.
    #[error("not_boolean")]
    NotBoolean,
    /// Not an integer, or one that is too small.
    #[error("not_integer")]
    NotInteger,
    /// Not a quorum, or zero where at least one is needed.
    #[error("not_valid_quorum")]
    NotValidQuorum,
    /// Not a mode of `sync_on_write`.
    #[error("not_valid_sync_param")]
    NotValidSyncParam,

    /// `active` was given.
    #[error("Cannot modify active property")]
    ActiveReadOnly,
    /// `claimant` was given when a type is created.
    #[error("Invalid claimant")]
    ClaimantOnCreate,
    /// `claimant` was given for an active type or a bucket.
    #[error("Cannot update claimant property")]
    ClaimantReadOnly,
    /// The two properties exclude each other.
    #[error("If last_write_wins is true, dvv_enabled must be false")]
    DvvWithLastWriteWins,
    /// Unknown data type, or another one than the type has.
    #[error("{0} not supported for bucket datatype property")]
    DatatypeUnsupported(String),
    /// Data types need siblings.
    #[error("Data Type buckets must be allow_mult=true")]
    DatatypeNeedsAllowMult,
    /// Precision out of range or raised.
    #[error(
        "{0} not supported for Hyperloglog precision property for bucket type. Precision must be \
         an integer between 4 and 16, inclusive (3 < p < 17) and precision can be reduced but \
         never increased after initial setting"
    )]
    HllPrecision(String),
    /// A data type for a type that has none.
    #[error("`datatype` must not be defined.")]
    DatatypeOnPlainType,
    /// Strong consistency for an existing type that is not consistent.
    #[error("Write once buckets must not be consistent=true")]
    ConsistentOnExistingType,
    /// A new type that is both.
    #[error("Write once buckets must be not be consistent=true")]
    WriteOnceConsistent,
    /// `write_once` for a type that is not.
    #[error("Cannot set existing bucket type to `write_once`")]
    WriteOnceOnExistingType,
    /// A type that is both.
    #[error("Write once buckets must not have datatype defined")]
    WriteOnceWithDatatype,
    /// A write-once type shall become another.
    #[error("Cannot modify write_once property once set to true")]
    WriteOnceUnset,
    /// `write_once` for an untyped bucket or another special type.
    #[error("cannot update write_once property")]
    WriteOnceChanged,
    /// `consistent` that is neither.
    #[error("{0} is not a valid value for consistent. Use \"true\" or \"false\"")]
    ConsistentValue(String),
    /// `consistent` changed, or given for an untyped bucket or a data type.
    #[error("cannot update consistent property")]
    ConsistentChanged,
    /// `n_val` of a consistent type changed.
    #[error("n_val cannot be modified for existing consistent type")]
    ConsistentNVal,

    /// A number above what is accepted.
    #[error("must be at most {max}")]
    TooLarge {
        /// Largest number accepted.
        max: u32,
    },
    /// Not a text.
    #[error("must be a text")]
    NotText,
    /// A storage engine that the node does not have.
    #[error("must be one of the node's storage engines: {names}")]
    UnknownBackend {
        /// Those that it has.
        names: String,
    },
    /// Not a list of commit hooks.
    #[error("must be a list of {{\"mod\":\"module\",\"fun\":\"function\"}} objects")]
    NotHooks,
    /// Not a link function.
    #[error("must be a {{\"mod\":\"module\",\"fun\":\"function\"}} object")]
    NotLinkFun,
    /// A placement that this server does not have.
    #[error("must be riak_core_util:chash_std_keyfun or riak_core_util:chash_bucketonly_keyfun")]
    NotPlacement,
    /// Not a mode of `repl`.
    #[error("must be true, false, both, realtime or fullsync")]
    NotReplMode,
    /// Not a mode of conditional writes.
    #[error("must be api_only, prefer_token or require_token")]
    NotConditionalPutMode,
    /// Not a way to compress values.
    #[error("must be lz4 or none")]
    NotCompression,
    /// A value that takes too many bytes as JSON.
    #[error("must take at most {max} bytes as JSON")]
    ValueTooLong {
        /// Bytes accepted.
        max: usize,
    },
    /// Lists and objects inside each other.
    #[error("must not be nested deeper than {max}")]
    ValueTooDeep {
        /// Levels accepted.
        max: usize,
    },
    /// A property name without bytes or with too many.
    #[error("a property name must have 1 to {max} bytes")]
    NameLength {
        /// Bytes accepted.
        max: usize,
    },
    /// More properties that the server does not know than a bucket may have.
    #[error("a bucket may have at most {max} properties that the server does not know")]
    TooManyUnknown {
        /// Properties accepted.
        max: usize,
    },
}

impl Reason {
    /// Whether the reference's reason is a bare word and not a text.
    const fn is_atom(&self) -> bool {
        matches!(
            self,
            Self::NotBoolean | Self::NotInteger | Self::NotValidQuorum | Self::NotValidSyncParam
        )
    }

    /// The rule that was broken, for reasons that are a bare word.
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

/// One refused property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PropError {
    /// Name of the property.
    pub property: String,
    /// Why it is refused.
    pub reason: Reason,
    /// The value as it was given, shortened; `None` when the fault is in a value that was not
    /// given.
    pub given: Option<String>,
}

/// All properties of one request that are refused. There is at least one, and each property is
/// named once. Displayed for operators: property, reason, rule and value of each.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub struct InvalidProps {
    errors: Vec<PropError>,
}

impl InvalidProps {
    /// One refused property.
    #[must_use]
    pub fn one(property: &str, reason: Reason) -> Self {
        let property = property.to_owned();
        Self { errors: vec![PropError { property, reason, given: None }] }
    }

    /// `None` when nothing was refused.
    pub(super) fn from_errors(errors: Vec<PropError>) -> Option<Self> {
        (!errors.is_empty()).then_some(Self { errors })
    }

    /// The refused properties, in the order in which they were found.
    #[must_use]
    pub fn errors(&self) -> &[PropError] {
        &self.errors
    }

    /// The printed term of Protocol Buffers answers: `[{prop,reason},...]`.
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

    /// Body of the HTTP answer 400: an object of property to reason.
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

/// Appends an Erlang atom: bare when it may be, else in single quotes.
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

/// Appends text in quotes as Erlang prints it.
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
