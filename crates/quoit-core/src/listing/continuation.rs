//! Continuations: tokens with which a client requests the next page of a query's matches.
//!
//! ```text
//! byte 0     1  version: 1
//! byte 1     8  XXH3-64 of the query and the position, little-endian
//! byte 9     .  position of the last match: a key, or a term and a key
//! ```
//!
//! The hash covers everything that decides which matches the query has and in which order. The page
//! size is not part of it, so a client may change it from page to page. The hash protects from
//! mistakes, not from forgery: a forged continuation shows nothing that the query itself would not
//! show.

use super::index::{IndexQuery, IndexSelection};
use bytes::Bytes;
use quoit_model::key::BucketRef;
use quoit_model::secondary_index::IndexPosition;
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

const VERSION: u8 = 1;
const HEAD_BYTES: usize = 9;

/// Error for a continuation that can't be read or belongs to another query.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("not a continuation of this query; repeat the query as it was, or begin again without one")]
pub struct InvalidContinuation;

impl IndexQuery {
    /// Makes the continuation with which a client repeats the query to get the matches after a
    /// position.
    pub(super) fn continuation(&self, position: &[u8]) -> Bytes {
        let mut token = Vec::with_capacity(HEAD_BYTES + position.len());
        token.push(VERSION);
        token.extend_from_slice(&self.seal(position));
        token.extend_from_slice(position);
        token.into()
    }

    /// Makes the query begin after the last match of an earlier page.
    ///
    /// # Errors
    ///
    /// If the continuation is invalid or belongs to another query.
    pub fn continue_after(&mut self, continuation: &[u8]) -> Result<(), InvalidContinuation> {
        let (head, position) =
            continuation.split_first_chunk::<HEAD_BYTES>().ok_or(InvalidContinuation)?;
        let [version, seal @ ..] = head;
        if *version != VERSION || *seal != self.seal(position) {
            return Err(InvalidContinuation);
        }
        let position = Bytes::copy_from_slice(position);
        match self.selection {
            IndexSelection::Terms { .. } => {
                IndexPosition::from_bytes(position.clone()).map_err(|_| InvalidContinuation)?;
            }
            IndexSelection::Keys(_) => {
                let bucket = BucketRef { bucket_type: &self.bucket_type, bucket: &self.bucket };
                bucket.key(&position).check().map_err(|_| InvalidContinuation)?;
            }
        }
        self.after = Some(position);
        Ok(())
    }

    fn seal(&self, position: &[u8]) -> [u8; 8] {
        let mut hash = Xxh3::new();
        let mut add = |part: &[u8]| {
            hash.update(&(part.len() as u64).to_le_bytes());
            hash.update(part);
        };
        add(&self.bucket_type);
        add(&self.bucket);
        match &self.selection {
            IndexSelection::Keys(bounds) => {
                add(b"keys");
                add(&bounds.from);
                bounds.end.iter().for_each(|end| add(end));
            }
            IndexSelection::Terms { field, min, max } => {
                add(b"terms");
                add(field);
                add(IndexPosition::of(min, b"").as_bytes());
                add(IndexPosition::of(max, b"").as_bytes());
            }
        }
        // A query without a pattern and one with an empty pattern are different queries.
        add(if self.pattern.is_some() { b"pattern" } else { b"" });
        self.pattern.iter().for_each(|pattern| add(pattern.text()));
        if let Some(partitions) = &self.partitions {
            add(b"partitions");
            add(&partitions.to_bytes());
        }
        add(position);
        hash.digest().to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pattern::Pattern;
    use super::*;
    use crate::partition_set::PartitionSet;
    use proptest::prelude::*;
    use quoit_model::key::BucketRef;
    use quoit_model::key_bounds::KeyBounds;
    use quoit_model::object::IndexTerm;

    fn query(selection: IndexSelection) -> IndexQuery {
        IndexQuery::new(BucketRef::untyped(b"b"), selection)
    }

    fn numbers(min: i128, max: i128) -> IndexQuery {
        let (min, max) = (IndexTerm::integer(min), IndexTerm::integer(max));
        query(IndexSelection::Terms { field: Bytes::from_static(b"n_int"), min, max })
    }

    #[test]
    fn a_query_goes_on_from_its_own_continuation_alone() {
        let position = IndexPosition::of(&IndexTerm::integer(5), b"k");
        let token = numbers(1, 9).continuation(position.as_bytes());
        let mut same = numbers(1, 9);
        same.max_results = Some(7);
        assert_eq!(same.continue_after(&token), Ok(()));
        assert_eq!(same.after.as_ref(), Some(position.as_bytes()));
        assert_eq!(numbers(1, 8).continue_after(&token), Err(InvalidContinuation));
        let mut filtered = numbers(1, 9);
        filtered.pattern = Pattern::new(b"").ok();
        assert_eq!(filtered.continue_after(&token), Err(InvalidContinuation));
        let mut of_keys = query(IndexSelection::Keys(KeyBounds::ALL));
        assert_eq!(of_keys.continue_after(&token), Err(InvalidContinuation));
        let mut in_part = numbers(1, 9);
        in_part.partitions = Some(PartitionSet::all(64));
        assert_eq!(in_part.continue_after(&token), Err(InvalidContinuation));
        let mut elsewhere = numbers(1, 9);
        elsewhere.bucket = Bytes::from_static(b"c");
        assert_eq!(elsewhere.continue_after(&token), Err(InvalidContinuation));
    }

    #[test]
    fn a_continuation_with_an_invalid_key_is_refused() {
        let mut of_keys = query(IndexSelection::Keys(KeyBounds::ALL));
        for (size, is_one) in [(100, true), (70_000, false), (0, false)] {
            let token = of_keys.continuation(&Bytes::from(vec![b'k'; size]));
            assert_eq!(of_keys.continue_after(&token).is_ok(), is_one, "{size}");
        }
    }

    proptest! {
        #[test]
        fn what_was_changed_is_no_continuation(place: prop::sample::Index, by in 1..=255u8) {
            let position = IndexPosition::of(&IndexTerm::integer(5), b"a key");
            let token = numbers(1, 9).continuation(position.as_bytes());
            let mut changed = token.to_vec();
            changed[place.index(token.len())] ^= by;
            prop_assert_eq!(numbers(1, 9).continue_after(&changed), Err(InvalidContinuation));
            let cut = &token[..place.index(token.len())];
            prop_assert_eq!(numbers(1, 9).continue_after(cut), Err(InvalidContinuation));
        }

        #[test]
        fn any_bytes_are_refused_without_a_panic(bytes: Vec<u8>) {
            prop_assert_eq!(numbers(1, 9).continue_after(&bytes), Err(InvalidContinuation));
        }
    }
}
