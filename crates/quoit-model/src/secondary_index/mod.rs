//! Secondary indexes: the entries of an object, and the byte strings by which an ordered store
//! keeps them.
//!
//! An index entry is a field and a term under which a query finds a record. Entries are ordered by
//! bucket type, bucket, field, term and key; integer terms by value, before binary terms, which are
//! ordered bytewise. The place of an entry in that order is a byte string ([`IndexEntry::place`]).
//! Its first part is made of bucket type, bucket and field; the rest, the [`IndexPosition`], of
//! term and key.

use crate::key::{BucketRef, KeyRef};
use crate::object::{IndexEntry, IndexTerm, Object, Sibling};
use crate::ordered_bytes::{push_part, read_part};
use bytes::Bytes;
use thiserror::Error;

mod stored;
mod term;

use term::{push_term, read_term};

pub use stored::index_entries_of;

/// Maximum length in bytes of the place of an entry. A place has the bytes of bucket type, bucket,
/// field, term and key, up to 13 more, and one for each zero byte in the names and in a binary
/// term. Ordered stores have keys of less than 64 KiB.
pub const INDEX_PLACE_BYTES_MAX: usize = 65_000;

/// Maximum total length in bytes of the places of a record's entries. Each place includes the names
/// of the record.
pub const INDEX_PLACES_BYTES_MAX: usize = 16 << 20;

/// Error of index entries whose places would be too long.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum IndexEntryTooLarge {
    /// The place of one entry would be too long.
    #[error(
        "an index entry takes {size_bytes} bytes with the names of its record, more than the \
         {INDEX_PLACE_BYTES_MAX} that it may have; use a shorter term"
    )]
    One {
        /// Length of the place in bytes.
        size_bytes: usize,
    },
    /// The places of all entries together would be too long.
    #[error(
        "the index entries of a record take more than {INDEX_PLACES_BYTES_MAX} bytes, its names counted \
         with each; use fewer entries or shorter names"
    )]
    Together,
}

impl IndexEntry {
    /// The place of a record's entry in the order of all entries.
    ///
    /// # Errors
    ///
    /// Returns an error if the place would be longer than [`INDEX_PLACE_BYTES_MAX`].
    pub fn place(&self, key: KeyRef<'_>) -> Result<Vec<u8>, IndexEntryTooLarge> {
        let mut place = field_front(key.bucket, &self.field);
        push_term(&mut place, &self.term);
        push_part(&mut place, key.key);
        if place.len() > INDEX_PLACE_BYTES_MAX {
            return Err(IndexEntryTooLarge::One { size_bytes: place.len() });
        }
        Ok(place)
    }
}

/// Common beginning of the places of all entries of a field.
fn field_front(bucket: BucketRef<'_>, field: &[u8]) -> Vec<u8> {
    let mut front = Vec::with_capacity(128);
    push_part(&mut front, bucket.bucket_type);
    push_part(&mut front, bucket.bucket);
    push_part(&mut front, field);
    front
}

/// The places of the entries of an object, in their order; sorted entries have sorted places.
///
/// # Errors
///
/// Returns an error if one of the places, or all together, would be too long.
pub fn places(entries: &[IndexEntry], key: KeyRef<'_>) -> Result<Vec<Vec<u8>>, IndexEntryTooLarge> {
    let mut left = INDEX_PLACES_BYTES_MAX;
    let mut places = Vec::with_capacity(entries.len());
    for entry in entries {
        let place = entry.place(key)?;
        left = left.checked_sub(place.len()).ok_or(IndexEntryTooLarge::Together)?;
        places.push(place);
    }
    Ok(places)
}

impl Object {
    /// True if a value that is not deleted has index entries. Looks at each sibling.
    #[must_use]
    pub fn has_index_entries(&self) -> bool {
        self.siblings.iter().any(|sibling| !entries_of(sibling).is_empty())
    }

    /// The index entries of all values that are not deleted, sorted, without duplicates.
    #[must_use]
    pub fn index_entries(&self) -> Vec<IndexEntry> {
        sorted(self.siblings.iter().flat_map(entries_of).cloned().collect())
    }
}

fn entries_of(sibling: &Sibling) -> &[IndexEntry] {
    if sibling.deleted { &[] } else { &sibling.meta.indexes }
}

pub(crate) fn sorted(mut entries: Vec<IndexEntry>) -> Vec<IndexEntry> {
    entries.sort_unstable();
    entries.dedup();
    entries
}

/// Place of an entry among those of its field: a term and a key. Positions, and their bytes, are
/// ordered by term, then by key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IndexPosition(Bytes);

/// Error of bytes that are not the position of an index entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("not a position in a secondary index")]
pub struct NoIndexPosition;

impl IndexPosition {
    /// The position of an entry with this term and key, which need not exist.
    #[must_use]
    pub fn of(term: &IndexTerm, key: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(64);
        push_term(&mut bytes, term);
        push_part(&mut bytes, key);
        Self(Bytes::from(bytes))
    }

    /// Makes a position from the bytes that [`IndexPosition::as_bytes`] returned.
    ///
    /// # Errors
    ///
    /// Returns an error if the bytes are not a position.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, NoIndexPosition> {
        parts(&bytes).map(|_| ()).ok_or(NoIndexPosition)?;
        Ok(Self(bytes))
    }

    /// The bytes of the position, whose order is that of positions.
    #[must_use]
    pub const fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// The term.
    #[must_use]
    pub fn term(&self) -> IndexTerm {
        self.parts().0
    }

    /// The record's key within the bucket.
    #[must_use]
    pub fn key(&self) -> Bytes {
        self.parts().1
    }

    /// Term and key.
    ///
    /// # Panics
    ///
    /// Never panics, since positions are only made of a term and a key.
    #[must_use]
    pub fn parts(&self) -> (IndexTerm, Bytes) {
        parts(&self.0).expect("a position is a term and a key")
    }
}

fn parts(position: &[u8]) -> Option<(IndexTerm, Bytes)> {
    let (term, rest) = read_term(position)?;
    let (key, rest) = read_part(rest)?;
    rest.is_empty().then(|| (term, Bytes::from(key)))
}

/// The entries of one field whose terms lie between two terms, both inclusive. The range is empty
/// if `min` is above `max`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexRange<'a> {
    /// The bucket of the records.
    pub bucket: BucketRef<'a>,
    /// The field, in lower case. `$key` and `$bucket` are not fields here.
    pub field: &'a [u8],
    /// Lowest term, inclusive.
    pub min: &'a IndexTerm,
    /// Highest term, inclusive.
    pub max: &'a IndexTerm,
}

impl IndexRange<'_> {
    /// The places of the range, beginning after a position if one is given.
    #[must_use]
    pub fn span(&self, after: Option<&IndexPosition>) -> IndexSpan {
        let front = field_front(self.bucket, self.field);
        let front_bytes = front.len();
        let mut last = front.clone();
        push_term(&mut last, self.max);
        let mut from = front.clone();
        push_term(&mut from, self.min);
        if let Some(after) = after {
            from = from.max(behind([front.as_slice(), after.as_bytes()].concat()));
        }
        IndexSpan { from, end: behind(last), front_bytes }
    }
}

/// The range of the places of all entries of a bucket: an inclusive lower bound and an exclusive
/// upper bound.
#[must_use]
pub fn bucket_span(bucket: BucketRef<'_>) -> (Vec<u8>, Vec<u8>) {
    let mut from = Vec::new();
    push_part(&mut from, bucket.bucket_type);
    push_part(&mut from, bucket.bucket);
    let end = behind(from.clone());
    (from, end)
}

/// The bucket type, bucket and key of the record of an entry; `None` if the bytes are not a place.
#[must_use]
pub fn record_of_place(place: &[u8]) -> Option<[Vec<u8>; 3]> {
    let (bucket_type, rest) = read_part(place)?;
    let (bucket, rest) = read_part(rest)?;
    let (_, rest) = read_part(rest)?;
    let (_, rest) = read_term(rest)?;
    let (key, rest) = read_part(rest)?;
    rest.is_empty().then_some([bucket_type, bucket, key])
}

/// The lowest byte string above all byte strings that begin with `front`.
fn behind(mut front: Vec<u8>) -> Vec<u8> {
    // Every part of a place ends with zero bytes, so the front does not consist of 0xff alone.
    while front.last() == Some(&u8::MAX) {
        front.pop();
    }
    if let Some(last) = front.last_mut() {
        *last += 1;
    }
    front
}

/// A range of places; see [`IndexRange::span`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexSpan {
    from: Vec<u8>,
    end: Vec<u8>,
    front_bytes: usize,
}

impl IndexSpan {
    /// Inclusive lower bound of the span's places.
    #[must_use]
    pub fn from(&self) -> &[u8] {
        &self.from
    }

    /// Exclusive upper bound of the span's places, and of all byte strings that begin with them.
    #[must_use]
    pub fn end(&self) -> &[u8] {
        &self.end
    }

    /// True if the span contains no place.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from >= self.end
    }

    /// The position within the field of a place of the span; `None` if the bytes are not a place.
    #[must_use]
    pub fn position(&self, place: &[u8]) -> Option<IndexPosition> {
        let position = place.get(self.front_bytes..)?;
        IndexPosition::from_bytes(Bytes::copy_from_slice(position)).ok()
    }
}

#[cfg(test)]
mod tests;
