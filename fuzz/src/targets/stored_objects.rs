//! Objects in their stored form.

use bytes::Bytes;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::object::{
    IndexEntry, IndexTerm, Link, Metadata, Object, Sibling, UserMeta, UserMetaForm,
};

use crate::Target;

pub(crate) const TARGET: Target = Target { name: "stored-objects", run, seeds };

/// Checks that a decoded object survives being encoded and decoded again, and that decoding only its clock
/// gives the same clock.
fn run(input: &[u8]) {
    let input = Bytes::copy_from_slice(input);
    let clock = Object::decode_clock(&input);
    let Ok(object) = Object::decode(&input) else { return };
    assert_eq!(clock.as_ref(), Ok(&object.clock), "the clock alone reads otherwise");
    let mut written = Vec::new();
    object.encode_into(&mut written);
    let again = Object::decode(&Bytes::from(written)).expect("what was just encoded decodes");
    assert_eq!(again, object, "an object changes by being stored");
}

fn dot(actor: &[u8], counter: u64) -> Dot {
    Dot { actor: Actor(actor.into()), counter, time_secs: 63_900_000_000 }
}

fn seeds() -> Vec<Vec<u8>> {
    let encode = |object: Object| {
        let mut out = Vec::new();
        object.encode_into(&mut out);
        out
    };
    sample_objects().into_iter().map(encode).collect()
}

/// A plain object, a tombstone, and an object with siblings and all kinds of metadata.
pub(crate) fn sample_objects() -> Vec<Object> {
    let plain = Sibling {
        dot: Some(dot(b"actor-01", 3)),
        last_modified_us: 1_700_000_000_000_000,
        vtag: Bytes::from_static(b"4Gk1rcaHHbC62lFUEmWTIT"),
        meta: Metadata {
            content_type: Some(Bytes::from_static(b"text/plain")),
            ..Metadata::default()
        },
        value: Bytes::from_static(b"value"),
        ..Sibling::default()
    };
    let tombstone = Sibling { deleted: true, value: Bytes::new(), ..plain.clone() };
    let rich = Sibling { dot: None, meta: rich_metadata(), ..plain.clone() };
    let clock = VersionVector::from_entries([dot(b"actor-01", 3), dot(b"other", 1 << 40)]);
    [vec![plain.clone()], vec![tombstone], vec![plain, rich]]
        .into_iter()
        .map(|siblings| Object { clock: clock.clone(), siblings: siblings.into() })
        .collect()
}

fn rich_metadata() -> Metadata {
    let text = Bytes::from_static;
    Metadata {
        content_type: Some(text(b"application/json")),
        charset: Some(text(b"utf-8")),
        content_encoding: Some(text(b"gzip")),
        links: vec![Link { bucket: text(b"b"), key: text(b"k"), tag: text(b"friend") }],
        user_meta: vec![
            UserMeta { name: text(b"a"), value: Some(text(b"1")), form: UserMetaForm::Text },
            UserMeta { name: text(b"b"), value: None, form: UserMetaForm::Binary },
        ],
        indexes: vec![
            IndexEntry { field: text(b"age_int"), term: IndexTerm::integer(-7) },
            IndexEntry { field: text(b"age_int"), term: IndexTerm::integer(1 << 90) },
            IndexEntry { field: text(b"name_bin"), term: IndexTerm::Binary(text(b"x")) },
        ],
        expires_at_secs: Some(1_800_000_000),
        replaces: true,
        other: vec![(text(b"name"), text(b"value"))],
    }
}
