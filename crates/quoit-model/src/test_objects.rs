//! Random objects for property tests.

use crate::clock::{Actor, Dot, VersionVector};
use crate::index_integer::IndexInteger;
use crate::object::{
    IndexEntry, IndexTerm, Link, Metadata, Object, Sibling, UserMeta, UserMetaForm,
};
use bytes::Bytes;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use smallvec::SmallVec;

/// The actor with these bytes.
pub(crate) fn actor(name: &[u8]) -> Actor {
    Actor(SmallVec::from_slice(name))
}

/// A dot without a time.
pub(crate) fn dot(name: &[u8], counter: u64) -> Dot {
    Dot { actor: actor(name), counter, time_secs: 0 }
}

pub(crate) fn any_bytes(len_max: usize) -> impl Strategy<Value = Bytes> {
    vec(any::<u8>(), 0..=len_max).prop_map(Bytes::from)
}

pub(crate) fn any_dot() -> impl Strategy<Value = Dot> {
    let actor_name = prop_oneof![4 => vec(0u8..3, 1..3), 1 => vec(any::<u8>(), 0..70)];
    let counter = prop_oneof![1u64..5, 1u64..];
    (actor_name, counter, prop_oneof![Just(0), 63_800_000_000u64..63_900_000_000, any::<u64>()])
        .prop_map(|(name, counter, time_secs)| Dot { actor: actor(&name), counter, time_secs })
}

pub(crate) fn any_vector() -> impl Strategy<Value = VersionVector> {
    vec(any_dot(), 0..6).prop_map(VersionVector::from_entries)
}

fn any_term() -> impl Strategy<Value = IndexTerm> {
    prop_oneof![
        any::<i128>().prop_map(IndexTerm::integer),
        any::<i64>().prop_map(|integer| IndexTerm::integer(integer.into())),
        (any::<bool>(), vec(any::<u8>(), 15..40)).prop_map(|(sign, magnitude)| {
            let number = IndexInteger::from_sign_and_magnitude(sign, &magnitude);
            IndexTerm::Integer(number.expect("at most 40 bytes"))
        }),
        any_bytes(9).prop_map(IndexTerm::Binary),
    ]
}

fn any_user_meta() -> impl Strategy<Value = UserMeta> {
    (any_bytes(5), option::of(any_bytes(5)), any::<bool>()).prop_map(|(name, value, text)| {
        let form = if text { UserMetaForm::Text } else { UserMetaForm::Binary };
        UserMeta { name, value, form }
    })
}

fn any_metadata() -> impl Strategy<Value = Metadata> {
    let link = (any_bytes(4), any_bytes(4), any_bytes(4)).prop_map(|(bucket, key, tag)| Link {
        bucket,
        key,
        tag,
    });
    let index = (any_bytes(5), any_term()).prop_map(|(field, term)| IndexEntry { field, term });
    (
        (option::of(any_bytes(12)), option::of(any_bytes(5)), option::of(any_bytes(5))),
        (vec(link, 0..3), vec(any_user_meta(), 0..3), vec(index, 0..3)),
        (option::of(any::<u32>()), vec((any_bytes(6), any_bytes(6)), 0..3)),
    )
        .prop_map(|((content_type, charset, content_encoding), lists, rest)| {
            let (links, user_meta, indexes) = lists;
            let (expires_at_secs, other) = rest;
            Metadata {
                content_type,
                charset,
                content_encoding,
                links,
                user_meta,
                indexes,
                expires_at_secs,
                replaces: expires_at_secs.is_some_and(|secs| secs % 2 == 0),
                other,
            }
        })
}

fn any_sibling() -> impl Strategy<Value = Sibling> {
    (
        option::of(any_dot()),
        any::<bool>(),
        prop_oneof![Just(0), any::<u64>()],
        any_bytes(23),
        any_metadata(),
        any_bytes(200),
    )
        .prop_map(|(dot, deleted, last_modified_us, vtag, meta, value)| Sibling {
            dot,
            deleted,
            last_modified_us,
            vtag,
            meta,
            value,
        })
}

/// Objects of every shape. Some dots are entries of the clock, as most are in practice.
pub(crate) fn any_object() -> impl Strategy<Value = Object> {
    (any_vector(), vec((any_sibling(), any::<bool>()), 0..4)).prop_map(|(clock, siblings)| {
        let place_dot = |(index, (mut sibling, in_clock)): (usize, (Sibling, bool))| {
            if in_clock && let Some(entry) = clock.entries().get(index) {
                sibling.dot = Some(entry.clone());
            }
            sibling
        };
        let siblings = siblings.into_iter().enumerate().map(place_dot).collect();
        Object { clock, siblings }
    })
}
