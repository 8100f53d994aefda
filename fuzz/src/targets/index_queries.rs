//! Patterns and continuations of index queries. An input is a pattern, a line feed, and a continuation.

use crate::Target;
use bytes::Bytes;
use quoit_core::{IndexQuery, IndexSelection, Pattern};
use quoit_model::key::BucketRef;
use quoit_model::key_bounds::KeyBounds;
use quoit_model::object::IndexTerm;
use quoit_model::secondary_index::IndexPosition;

pub(crate) const TARGET: Target = Target { name: "index-queries", run, seeds };

/// Checks that a pattern keeps its text, and that a continuation is valid for one query at most.
fn run(input: &[u8]) {
    let end = input.iter().position(|byte| *byte == b'\n').unwrap_or(input.len());
    let (text, rest) = input.split_at(end);
    let pattern = Pattern::new(text).ok();
    if let Some(pattern) = &pattern {
        assert_eq!(pattern.text(), text);
        let _ = pattern.is_in(rest);
    }
    let continuation = rest.get(1..).unwrap_or_default();
    let terms = |max| IndexSelection::Terms {
        field: Bytes::from_static(b"n_int"),
        min: IndexTerm::integer(-1),
        max: IndexTerm::integer(max),
    };
    let queries = [IndexSelection::Keys(KeyBounds::ALL), terms(1), terms(2)];
    let taken = queries.into_iter().filter(|selection| {
        let mut query = query(selection.clone());
        query.pattern.clone_from(&pattern);
        query.continue_after(continuation).is_ok()
    });
    assert!(taken.count() <= 1, "a continuation belongs to two queries");
}

fn query(selection: IndexSelection) -> IndexQuery {
    IndexQuery::new(BucketRef::untyped(b"b"), selection)
}

fn seeds() -> Vec<Vec<u8>> {
    let position = IndexPosition::of(&IndexTerm::integer(5), b"key");
    let of = |pattern: &[u8], position: &[u8]| [pattern, b"\n\x0112345678", position].concat();
    vec![
        of(b"^(a|b)+[^c]{2,3}$", position.as_bytes()),
        of(b"(?i)\\w+?\\bx", b"a key"),
        of(b"", b""),
    ]
}
