//! Names of records: bucket type, bucket and key.
//!
//! [`KeyRef`] borrows the three byte strings, so that the request path copies no name. Hashes and
//! engines use the encoded form that [`KeyRef::encode_into`] makes.

use quoit_number::low_u16;
use smallvec::SmallVec;
use thiserror::Error;

/// The bucket type of untyped buckets. It always exists and is always active.
pub const DEFAULT_BUCKET_TYPE: &[u8] = b"default";

/// The bucket type of pieces of large records, such as the pages of a large set. An operator can't
/// create a bucket type with this name.
pub const PIECE_TYPE: &[u8] = &[0];

/// Upper bound of an encoded record key, in bytes: the two lengths, bucket type, bucket and key.
pub const ENCODED_KEY_BYTES_MAX: usize = 65_535;

/// An encoded record key that lives on the stack unless it is unusually long.
pub type EncodedKey = SmallVec<[u8; ENCODED_KEY_STACK_BYTES]>;

/// Encoded record keys of up to this many bytes need no allocation.
const ENCODED_KEY_STACK_BYTES: usize = 192;

const LENGTHS_BYTES: usize = 4;

/// A bucket's full name.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BucketRef<'a> {
    /// Bucket type; [`DEFAULT_BUCKET_TYPE`] for untyped buckets.
    pub bucket_type: &'a [u8],
    /// Bucket name.
    pub bucket: &'a [u8],
}

impl<'a> BucketRef<'a> {
    /// A bucket of the default type.
    #[must_use]
    pub const fn untyped(bucket: &'a [u8]) -> Self {
        Self { bucket_type: DEFAULT_BUCKET_TYPE, bucket }
    }

    /// The bucket of the pieces of a record; `record` is the encoded name of the record. A piece belongs
    /// to the partition of its record ([`KeyHash::of_piece`](crate::hash::KeyHash::of_piece)) and
    /// appears in no listing.
    #[must_use]
    pub const fn of_pieces(record: &'a [u8]) -> Self {
        Self { bucket_type: PIECE_TYPE, bucket: record }
    }

    /// True if the bucket is of the default type.
    #[must_use]
    pub fn is_untyped(&self) -> bool {
        self.bucket_type == DEFAULT_BUCKET_TYPE
    }

    /// The record of this bucket named `key`.
    #[must_use]
    pub const fn key(self, key: &'a [u8]) -> KeyRef<'a> {
        KeyRef { bucket: self, key }
    }
}

/// A record's full name. Ordered by bucket type, then bucket, then key, bytewise.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct KeyRef<'a> {
    /// The bucket that holds the record.
    pub bucket: BucketRef<'a>,
    /// Key within the bucket.
    pub key: &'a [u8],
}

impl<'a> KeyRef<'a> {
    /// True if this is the name of a piece of a record.
    #[must_use]
    pub fn is_piece(&self) -> bool {
        self.bucket.bucket_type == PIECE_TYPE
    }

    /// Checks that bucket type, bucket and key are not empty and that the encoded form fits
    /// [`ENCODED_KEY_BYTES_MAX`].
    ///
    /// # Errors
    ///
    /// Returns an error that names the first empty part, or the size of a name that is too long.
    pub fn check(&self) -> Result<(), KeyError> {
        if self.bucket.bucket.is_empty() {
            return Err(KeyError::EmptyBucket);
        }
        if self.key.is_empty() {
            return Err(KeyError::EmptyKey);
        }
        if self.bucket.bucket_type.is_empty() {
            return Err(KeyError::EmptyBucketType);
        }
        let size_bytes = self.encoded_len();
        if size_bytes > ENCODED_KEY_BYTES_MAX {
            return Err(KeyError::TooLarge { size_bytes });
        }
        Ok(())
    }

    /// Size of the encoded form, in bytes.
    #[must_use]
    pub const fn encoded_len(&self) -> usize {
        LENGTHS_BYTES + self.bucket.bucket_type.len() + self.bucket.bucket.len() + self.key.len()
    }

    /// Appends the encoded form: the lengths of bucket type and bucket (16 bits each, big-endian),
    /// then bucket type, bucket and key.
    ///
    /// # Panics
    ///
    /// Panics if the encoded form is longer than [`ENCODED_KEY_BYTES_MAX`]. Callers check names
    /// that clients send with [`KeyRef::check`].
    pub fn encode_into(&self, out: &mut Vec<u8>) {
        out.reserve(self.encoded_len());
        self.parts(|part| out.extend_from_slice(part));
    }

    /// Returns the encoded form. It needs no allocation up to 192 bytes.
    ///
    /// # Panics
    ///
    /// As [`KeyRef::encode_into`].
    #[must_use]
    pub fn encoded(&self) -> EncodedKey {
        let size_bytes = self.encoded_len();
        let mut out = [0; ENCODED_KEY_STACK_BYTES];
        if size_bytes > out.len() {
            let mut long = Vec::new();
            self.encode_into(&mut long);
            return EncodedKey::from_vec(long);
        }
        let mut rest = &mut out[..];
        self.parts(|part| {
            let (place, behind) = std::mem::take(&mut rest).split_at_mut(part.len());
            place.copy_from_slice(part);
            rest = behind;
        });
        EncodedKey::from_buf_and_len(out, size_bytes)
    }

    fn parts(&self, mut each: impl FnMut(&[u8])) {
        assert!(self.encoded_len() <= ENCODED_KEY_BYTES_MAX, "record key was not checked");
        // Parts of a checked name are shorter than 2^16 bytes.
        let length = |part: &[u8]| low_u16(part.len() as u64).to_be_bytes();
        each(&length(self.bucket.bucket_type));
        each(&length(self.bucket.bucket));
        each(self.bucket.bucket_type);
        each(self.bucket.bucket);
        each(self.key);
    }

    /// Reads the encoded form. The whole input is the key.
    ///
    /// # Errors
    ///
    /// Returns an error if the lengths do not fit the input, or a part is empty.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, KeyError> {
        let (lengths, names) = bytes.split_first_chunk::<LENGTHS_BYTES>().ok_or(KeyError::Torn)?;
        let type_len = usize::from(u16::from_be_bytes([lengths[0], lengths[1]]));
        let bucket_len = usize::from(u16::from_be_bytes([lengths[2], lengths[3]]));
        let (bucket_type, rest) = names.split_at_checked(type_len).ok_or(KeyError::Torn)?;
        let (bucket, key) = rest.split_at_checked(bucket_len).ok_or(KeyError::Torn)?;
        let decoded = BucketRef { bucket_type, bucket }.key(key);
        decoded.check()?;
        Ok(decoded)
    }
}

/// Error of checking or decoding a name.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum KeyError {
    /// The bucket has no bytes.
    #[error("Bucket cannot be zero-length")]
    EmptyBucket,
    /// The key has no bytes.
    #[error("Key cannot be zero-length")]
    EmptyKey,
    /// The bucket type has no bytes.
    #[error("Type cannot be zero-length")]
    EmptyBucketType,
    /// The encoded name is longer than [`ENCODED_KEY_BYTES_MAX`].
    #[error(
        "bucket type, bucket and key take {size_bytes} bytes together, \
         more than the {ENCODED_KEY_BYTES_MAX} of the longest name; use a shorter name"
    )]
    TooLarge {
        /// Size of the encoded name.
        size_bytes: usize,
    },
    /// The bytes end before the name does.
    #[error("stored name is cut off or its lengths are wrong")]
    Torn,
}
