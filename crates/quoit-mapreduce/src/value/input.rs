//! Inputs of map and link phases: a record with its key data.

use super::datum::Datum;
use bytes::Bytes;
use quoit_model::etf::Term;
use quoit_model::key::{BucketRef, DEFAULT_BUCKET_TYPE, KeyRef};

/// Approximate memory of an input in addition to its names, in bytes.
const INPUT_BYTES: usize = 160;

/// A record for a phase to process, with data that the job passes along.
#[derive(Clone, PartialEq, Debug)]
pub struct Input {
    /// Bucket type; `default` if none was named.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
    /// Key.
    pub key: Bytes,
    /// Key data: data of the client for a listed key, or data that the previous phase added.
    pub key_data: Option<Term>,
}

/// A bucket and its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BucketName {
    /// Bucket type; `default` if the job does not name one.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
}

impl BucketName {
    /// A bucket of the type `default`.
    #[must_use]
    pub fn untyped(bucket: impl Into<Bytes>) -> Self {
        Self { bucket_type: Bytes::from_static(DEFAULT_BUCKET_TYPE), bucket: bucket.into() }
    }
}

impl Input {
    /// Creates an input without key data.
    #[must_use]
    pub fn new(name: BucketName, key: Bytes) -> Self {
        let BucketName { bucket_type, bucket } = name;
        Self { bucket_type, bucket, key, key_data: None }
    }

    /// Reference to the record.
    #[must_use]
    pub fn key_ref(&self) -> KeyRef<'_> {
        BucketRef { bucket_type: &self.bucket_type, bucket: &self.bucket }.key(&self.key)
    }

    /// True if the bucket's type is not `default`.
    #[must_use]
    pub fn is_typed(&self) -> bool {
        *self.bucket_type != *DEFAULT_BUCKET_TYPE
    }

    /// Approximate memory in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let data_bytes = self.key_data.as_ref().map_or(0, super::datum::term_bytes);
        INPUT_BYTES + self.bucket.len() + self.key.len() + data_bytes
    }

    /// Parses an input in one of the forms that occur in documents and outputs of phases: the lists
    /// `[B, K]`, `[B, K, data]` and `[B, K, data, type]`, and the tuples `{B, K}`, `{{B, K}, data}` and
    /// `{{{type, B}, K}, data}`. As in Riak, `{{x, y}, z}` is a key of an untyped bucket with key data.
    #[must_use]
    pub fn from_term(term: &Term) -> Option<Self> {
        match term {
            Term::List(parts) => Self::from_list(parts),
            Term::Tuple(parts) => {
                let [first, second] = parts.as_slice() else { return None };
                if let Term::Tuple(name) = first
                    && let [bucket, key] = name.as_slice()
                {
                    return Some(Self::from_pair(bucket, key)?.with_data(second));
                }
                Self::from_pair(first, second)
            }
            _ => None,
        }
    }

    fn from_list(parts: &[Term]) -> Option<Self> {
        let [bucket, key, more @ ..] = parts else { return None };
        let mut input = Self::from_pair(bucket, key)?;
        match more {
            [] => {}
            [data] => input.key_data = Some(data.clone()),
            [data, bucket_type] => {
                input.key_data = Some(data.clone());
                input.bucket_type = bucket_type.as_binary()?.clone();
            }
            _ => return None,
        }
        Some(input)
    }

    fn from_pair(bucket: &Term, key: &Term) -> Option<Self> {
        let key = key.as_binary()?.clone();
        Some(Self::new(bucket_of(bucket)?, key))
    }

    fn with_data(mut self, data: &Term) -> Self {
        self.key_data = (!data.is_atom(b"undefined")).then(|| data.clone());
        self
    }

    /// Converts the output of a phase to an input of the next phase.
    #[must_use]
    pub fn from_datum(datum: Datum) -> Option<Self> {
        match datum {
            Datum::Key(input) => Some(*input),
            Datum::Term(term) => Self::from_term(&term),
            Datum::Object(_) => None,
        }
    }

    /// Bucket as a term: a binary, or a tuple of type and bucket.
    #[must_use]
    pub fn bucket_term(&self) -> Term {
        let bucket = Term::Binary(self.bucket.clone());
        match self.is_typed() {
            true => Term::Tuple(vec![Term::Binary(self.bucket_type.clone()), bucket]),
            false => bucket,
        }
    }

    /// Returns `{B, K}`, or `{{B, K}, data}` if there is key data or the bucket has a type.
    #[must_use]
    pub fn to_term(&self) -> Term {
        let name = Term::Tuple(vec![self.bucket_term(), Term::Binary(self.key.clone())]);
        match (&self.key_data, self.is_typed()) {
            (None, false) => name,
            (data, _) => Term::Tuple(vec![name, data.clone().unwrap_or_else(undefined)]),
        }
    }

    /// Marker of a missing object.
    #[must_use]
    pub fn not_found(&self) -> Term {
        let name = Term::Tuple(vec![self.bucket_term(), Term::Binary(self.key.clone())]);
        let data = self.key_data.clone().unwrap_or_else(undefined);
        Term::Tuple(vec![Term::Atom(Bytes::from_static(b"not_found")), name, data])
    }
}

const fn undefined() -> Term {
    Term::Atom(Bytes::from_static(b"undefined"))
}

/// Parses a bucket: a binary, `{type, bucket}`, or `[type, bucket]`.
pub(crate) fn bucket_of(term: &Term) -> Option<BucketName> {
    match term {
        Term::Binary(bucket) => Some(BucketName::untyped(bucket.clone())),
        Term::Tuple(parts) | Term::List(parts) => match parts.as_slice() {
            [Term::Binary(bucket_type), Term::Binary(bucket)] => {
                Some(BucketName { bucket_type: bucket_type.clone(), bucket: bucket.clone() })
            }
            _ => None,
        },
        _ => None,
    }
}
