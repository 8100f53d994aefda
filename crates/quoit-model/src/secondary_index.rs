//! Secondary indexes: which entries an object has, and the byte strings by which they are ordered.
//!
//! An entry is a field and a term under which a record is found. Entries are ordered by bucket type,
//! bucket, field, term and key: binary terms bytewise, integers by value and before binaries. The place of
//! an entry in that order is a byte string ([`IndexEntry::place`]), whose front says bucket and field, and
//! whose rest, the [`IndexPosition`], says term and key.

use crate::key::{BucketRef, KeyRef};
use crate::object::{IndexEntry, IndexTerm, Object, Sibling};
use crate::ordered_bytes::{push_part, read_part};
use bytes::Bytes;
use thiserror::Error;

mod stored;
mod term;

use term::{push_term, read_term};

pub use stored::index_entries_of;

/// Upper bound of the place of an entry, in bytes: bucket type, bucket, field, term and key, twelve bytes,
/// and one more for each zero byte in them. Ordered stores have keys of less than 64 KiB.
pub const INDEX_PLACE_BYTES_MAX: usize = 65_000;

/// Upper bound of the places of all entries of a record together, in bytes: each has the names of the record.
pub const INDEX_PLACES_BYTES_MAX: usize = 16 << 20;

/// An entry is too large to be ordered by, or all those of a record are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum IndexEntryTooLarge {
    /// One is.
    #[error(
        "an index entry takes {size_bytes} bytes with the names of its record, more than the \
         {INDEX_PLACE_BYTES_MAX} that it may have; use a shorter term"
    )]
    One {
        /// Size of the entry.
        size_bytes: usize,
    },
    /// All together are.
    #[error(
        "the index entries of a record take more than {INDEX_PLACES_BYTES_MAX} bytes, its names counted \
         with each; use fewer entries or shorter names"
    )]
    Together,
}

impl IndexEntry {
    /// The place of the entry of a record in the order of all entries.
    ///
    /// # Errors
    ///
    /// When it would be longer than [`INDEX_PLACE_BYTES_MAX`].
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

/// Beginning of the places of all entries of a field.
fn field_front(bucket: BucketRef<'_>, field: &[u8]) -> Vec<u8> {
    let mut front = Vec::with_capacity(128);
    push_part(&mut front, bucket.bucket_type);
    push_part(&mut front, bucket.bucket);
    push_part(&mut front, field);
    front
}

/// The places of the entries of an object, sorted.
///
/// # Errors
///
/// When one of them is too large, or all together are.
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
    /// Whether a value that is not deleted has index entries. Costs a look at each sibling.
    #[must_use]
    pub fn has_index_entries(&self) -> bool {
        self.siblings.iter().any(|sibling| !entries_of(sibling).is_empty())
    }

    /// The index entries of all values that are not deleted, sorted, each once.
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

/// The place of an entry among those of its field: a term and a key. Its order, and that of its bytes, is
/// first by term, then by key.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct IndexPosition(Bytes);

/// Bytes are not the position of an index entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("not a position in a secondary index")]
pub struct NoIndexPosition;

impl IndexPosition {
    /// The position of a term's entry for a key; there need not be one.
    #[must_use]
    pub fn of(term: &IndexTerm, key: &[u8]) -> Self {
        let mut bytes = Vec::with_capacity(64);
        push_term(&mut bytes, term);
        push_part(&mut bytes, key);
        Self(Bytes::from(bytes))
    }

    /// A position from [`IndexPosition::as_bytes`].
    ///
    /// # Errors
    ///
    /// When the bytes are nothing that it answers.
    pub fn from_bytes(bytes: Bytes) -> Result<Self, NoIndexPosition> {
        parts(&bytes).map(|_| ()).ok_or(NoIndexPosition)?;
        Ok(Self(bytes))
    }

    /// The position as bytes, whose order is that of positions.
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
    /// Never: positions are made of a term and a key.
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

/// The entries of one field whose terms lie between two, both inclusive. There are none when the first is
/// above the second.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexRange<'a> {
    /// The bucket of the records.
    pub bucket: BucketRef<'a>,
    /// The field: a real one, in lower case, not `$key` or `$bucket`.
    pub field: &'a [u8],
    /// The lowest term.
    pub min: &'a IndexTerm,
    /// The highest term.
    pub max: &'a IndexTerm,
}

impl IndexRange<'_> {
    /// The range as a part of the order of all entries: what comes after a position.
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

/// Where the places of all entries of a bucket begin, and the lowest byte string behind them.
#[must_use]
pub fn bucket_span(bucket: BucketRef<'_>) -> (Vec<u8>, Vec<u8>) {
    let mut from = Vec::new();
    push_part(&mut from, bucket.bucket_type);
    push_part(&mut from, bucket.bucket);
    let end = behind(from.clone());
    (from, end)
}

/// The name of the record that an entry belongs to: bucket type, bucket and key; `None` when the bytes are no
/// place of an entry.
#[must_use]
pub fn record_of_place(place: &[u8]) -> Option<[Vec<u8>; 3]> {
    let (bucket_type, rest) = read_part(place)?;
    let (bucket, rest) = read_part(rest)?;
    let (_, rest) = read_part(rest)?;
    let (_, rest) = read_term(rest)?;
    let (key, rest) = read_part(rest)?;
    rest.is_empty().then_some([bucket_type, bucket, key])
}

/// The lowest byte string behind all that begin with the front of a place.
fn behind(mut front: Vec<u8>) -> Vec<u8> {
    // Each part of a place ends with zero bytes, so not all of it are the highest there is.
    while front.last() == Some(&u8::MAX) {
        front.pop();
    }
    if let Some(last) = front.last_mut() {
        *last += 1;
    }
    front
}

/// A part of the order of all entries: see [`IndexRange::span`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IndexSpan {
    from: Vec<u8>,
    end: Vec<u8>,
    front_bytes: usize,
}

impl IndexSpan {
    /// No place of the span is below this.
    #[must_use]
    pub fn from(&self) -> &[u8] {
        &self.from
    }

    /// All places of the span are below this, whatever is appended to them.
    #[must_use]
    pub fn end(&self) -> &[u8] {
        &self.end
    }

    /// Whether no place is in the span.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.from >= self.end
    }

    /// Where in the field a place is that is in the span; `None` when it is no place.
    #[must_use]
    pub fn position(&self, place: &[u8]) -> Option<IndexPosition> {
        let position = place.get(self.front_bytes..)?;
        IndexPosition::from_bytes(Bytes::copy_from_slice(position)).ok()
    }
}

#[cfg(test)]
mod tests;
