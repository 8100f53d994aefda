//! Objects as outputs, and their representations for scripts and Erlang clients.

use super::input::Input;
use super::json::{NotUtf8, append_text};
use bytes::Bytes;
use httpdate::HttpDate;
use quoit_model::context::encode_context;
use quoit_model::etf::Term;
use quoit_model::object::{IndexTerm, Object, Sibling};
use std::io::Write;
use std::time::{Duration, SystemTime};

/// Approximate memory of an object in addition to its content, in bytes.
const OBJECT_BYTES: usize = 512;
/// Approximate memory of an entry of metadata or of the clock in addition to its content, in bytes.
const ENTRY_BYTES: usize = 96;
/// Last second of the year 9999 in Unix time, the latest date that HTTP's format can express.
const LAST_SECS: u64 = 253_402_300_799;
/// Number of slots in a segment of an Erlang `dict`.
const DICT_SLOTS: usize = 16;

/// An object and its name.
#[derive(Clone, PartialEq, Debug)]
pub struct FoundObject {
    /// The input that named the object.
    pub input: Input,
    /// The stored object.
    pub object: Object,
}

impl FoundObject {
    /// Approximate memory in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> usize {
        let values = self.object.siblings.iter().map(|sibling| {
            let meta = &sibling.meta;
            let links = meta
                .links
                .iter()
                .map(|link| link.bucket.len() + link.key.len() + link.tag.len() + ENTRY_BYTES);
            let user_meta = meta.user_meta.iter().map(|pair| {
                pair.name.len() + pair.value.as_ref().map_or(0, Bytes::len) + ENTRY_BYTES
            });
            let indexes = meta.indexes.iter().map(|entry| {
                let term_bytes = match &entry.term {
                    IndexTerm::Integer(number) => number.sign_and_magnitude().1.len(),
                    IndexTerm::Binary(term) => term.len(),
                };
                entry.field.len() + term_bytes + ENTRY_BYTES
            });
            let other =
                meta.other.iter().map(|(name, value)| name.len() + value.len() + ENTRY_BYTES);
            let meta_bytes: usize = links.chain(user_meta).chain(indexes).chain(other).sum();
            let texts = [&meta.content_type, &meta.charset, &meta.content_encoding];
            let text_bytes: usize = texts.into_iter().flatten().map(Bytes::len).sum();
            sibling.value.len() + sibling.vtag.len() + text_bytes + meta_bytes + OBJECT_BYTES
        });
        let clock = self.object.clock.entries().iter().map(|dot| dot.actor.0.len() + ENTRY_BYTES);
        self.input.size_bytes() + clock.sum::<usize>() + values.sum::<usize>()
    }

    /// Appends the object in the form that Riak's JavaScript map functions get:
    /// `{"bucket_type", "bucket", "key", "vclock", "values": [{"metadata", "data"}]}`.
    ///
    /// # Errors
    ///
    /// A name or a value is not UTF-8.
    pub fn append_json(&self, out: &mut Vec<u8>) -> Result<(), NotUtf8> {
        out.push(b'{');
        if self.input.is_typed() {
            out.extend_from_slice(b"\"bucket_type\":");
            append_text(out, &self.input.bucket_type)?;
            out.push(b',');
        }
        out.extend_from_slice(b"\"bucket\":");
        append_text(out, &self.input.bucket)?;
        out.extend_from_slice(b",\"key\":");
        append_text(out, &self.input.key)?;
        out.extend_from_slice(b",\"vclock\":\"");
        append_hex(out, &encode_context(&self.object.clock));
        out.extend_from_slice(b"\",\"values\":[");
        for (place, sibling) in self.object.siblings.iter().enumerate() {
            if place > 0 {
                out.push(b',');
            }
            append_value(out, sibling)?;
        }
        out.extend_from_slice(b"]}");
        Ok(())
    }

    /// Returns the object as Riak's `r_object` record.
    #[must_use]
    pub fn to_term(&self) -> Term {
        let contents = self.object.siblings.iter().map(|sibling| {
            let value = Term::Binary(sibling.value.clone());
            Term::Tuple(vec![atom(b"r_content"), dictionary(metadata(sibling)), value])
        });
        Term::Tuple(vec![
            atom(b"r_object"),
            self.input.bucket_term(),
            Term::Binary(self.input.key.clone()),
            Term::List(contents.collect()),
            Term::Binary(encode_context(&self.object.clock)),
            dictionary(vec![(atom(b"clean"), atom(b"true"))]),
            atom(b"undefined"),
        ])
    }
}

const fn atom(name: &'static [u8]) -> Term {
    Term::Atom(Bytes::from_static(name))
}

fn binary(text: &'static str) -> Term {
    Term::Binary(Bytes::from_static(text.as_bytes()))
}

/// Metadata of a value under Riak's names.
fn metadata(sibling: &Sibling) -> Vec<(Term, Term)> {
    let meta = &sibling.meta;
    let text = |bytes: &Bytes| {
        if bytes.is_empty() { Term::List(vec![]) } else { Term::Text(bytes.clone()) }
    };
    let mut entries = Vec::new();
    let mut put = |name, value: Option<Term>| {
        entries.extend(value.map(|value| (binary(name), value)));
    };
    put("X-Riak-VTag", (!sibling.vtag.is_empty()).then(|| text(&sibling.vtag)));
    put("content-type", meta.content_type.as_ref().map(text));
    put("charset", meta.charset.as_ref().map(text));
    put("content-encoding", meta.content_encoding.as_ref().map(text));
    put("X-Riak-Deleted", sibling.deleted.then(|| atom(b"true")));
    let links = meta.links.iter().map(|link| {
        let target = [&link.bucket, &link.key].map(|name| Term::Binary(name.clone()));
        Term::Tuple(vec![Term::Tuple(target.into()), Term::Binary(link.tag.clone())])
    });
    put("Links", (!meta.links.is_empty()).then(|| Term::List(links.collect())));
    let pairs = meta.user_meta.iter().map(|pair| {
        let value = pair.value.clone().unwrap_or_default();
        Term::Tuple(vec![Term::Binary(pair.name.clone()), Term::Binary(value)])
    });
    put("X-Riak-Meta", (!meta.user_meta.is_empty()).then(|| Term::List(pairs.collect())));
    let indexes = meta.indexes.iter().map(|entry| {
        let term = match &entry.term {
            IndexTerm::Integer(number) => match number.to_i128() {
                Some(small) => Term::Integer(small),
                None => {
                    let (negative, magnitude) = number.sign_and_magnitude();
                    Term::BigInteger { negative, magnitude: magnitude.into() }
                }
            },
            IndexTerm::Binary(term) => Term::Binary(term.clone()),
        };
        Term::Tuple(vec![Term::Binary(entry.field.clone()), term])
    });
    put("index", (!meta.indexes.is_empty()).then(|| Term::List(indexes.collect())));
    let micros = i128::from(sibling.last_modified_us);
    let parts = [micros / 1_000_000_000_000, micros / 1_000_000 % 1_000_000, micros % 1_000_000];
    let time = Term::Tuple(parts.map(Term::Integer).into());
    put("X-Riak-Last-Modified", (micros > 0).then_some(time));
    entries
}

/// An Erlang `dict` with all entries in one slot, so that Erlang's hash function is not needed.
fn dictionary(entries: Vec<(Term, Term)>) -> Term {
    let count = Term::Integer(entries.len() as i128);
    let pair = |(name, value)| Term::ImproperList(vec![name], Box::new(value));
    let slot = Term::List(entries.into_iter().map(pair).collect());
    let mut slots = vec![slot];
    slots.resize(DICT_SLOTS, Term::List(vec![]));
    let (few, many) = (Term::Integer(0), Term::Integer(1 << 20));
    Term::Tuple(vec![
        atom(b"dict"),
        count,
        // Number of active slots, maximum number of slots, and offset of the buddy slots (half of the
        // maximum).
        Term::Integer(1),
        Term::Integer(1),
        few.clone(),
        // Numbers of entries at which the table expands and contracts; neither happens.
        many,
        few,
        Term::Tuple(vec![Term::List(vec![]); DICT_SLOTS]),
        Term::Tuple(vec![Term::Tuple(slots)]),
    ])
}

fn append_value(out: &mut Vec<u8>, sibling: &Sibling) -> Result<(), NotUtf8> {
    let meta = &sibling.meta;
    out.extend_from_slice(b"{\"metadata\":{\"X-Riak-VTag\":");
    append_text(out, &sibling.vtag)?;
    let fields = [
        (&b",\"content-type\":"[..], &meta.content_type),
        (b",\"charset\":", &meta.charset),
        (b",\"content-encoding\":", &meta.content_encoding),
    ];
    for (name, value) in fields {
        if let Some(value) = value {
            out.extend_from_slice(name);
            append_text(out, value)?;
        }
    }
    if sibling.last_modified_us > 0 {
        out.extend_from_slice(b",\"X-Riak-Last-Modified\":");
        let secs = (sibling.last_modified_us / 1_000_000).min(LAST_SECS);
        let date = HttpDate::from(SystemTime::UNIX_EPOCH + Duration::from_secs(secs));
        let _ = write!(out, "\"{date}\"");
    }
    if sibling.deleted {
        out.extend_from_slice(b",\"X-Riak-Deleted\":true");
    }
    append_links(out, sibling)?;
    out.extend_from_slice(b"},\"data\":");
    append_text(out, &sibling.value)?;
    out.push(b'}');
    Ok(())
}

fn append_links(out: &mut Vec<u8>, sibling: &Sibling) -> Result<(), NotUtf8> {
    out.extend_from_slice(b",\"Links\":[");
    for (place, link) in sibling.meta.links.iter().enumerate() {
        out.push(if place > 0 { b',' } else { b'[' });
        if place > 0 {
            out.push(b'[');
        }
        append_text(out, &link.bucket)?;
        out.push(b',');
        append_text(out, &link.key)?;
        out.push(b',');
        append_text(out, &link.tag)?;
        out.push(b']');
    }
    out.extend_from_slice(b"],\"X-Riak-Meta\":{");
    for (place, pair) in sibling.meta.user_meta.iter().enumerate() {
        if place > 0 {
            out.push(b',');
        }
        append_text(out, &pair.name)?;
        out.push(b':');
        append_text(out, pair.value.as_deref().unwrap_or_default())?;
    }
    out.extend_from_slice(b"},\"index\":{");
    let mut last: Option<&Bytes> = None;
    for entry in &sibling.meta.indexes {
        // Entries are sorted by field, so that the terms of a field are adjacent.
        if last == Some(&entry.field) {
            out.pop();
            out.push(b',');
        } else {
            if last.is_some() {
                out.push(b',');
            }
            append_text(out, &entry.field)?;
            out.extend_from_slice(b":[");
        }
        match &entry.term {
            IndexTerm::Integer(number) => {
                let _ = write!(out, "{number}");
            }
            IndexTerm::Binary(term) => append_text(out, term)?,
        }
        out.push(b']');
        last = Some(&entry.field);
    }
    out.push(b'}');
    Ok(())
}

fn append_hex(out: &mut Vec<u8>, bytes: &[u8]) {
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::input::BucketName;
    use quoit_model::clock::{Actor, Dot, VersionVector};
    use quoit_model::object::{IndexEntry, Link, Metadata, UserMeta};
    use serde_json::{Value, json};

    fn found() -> FoundObject {
        let link =
            |key: &'static str| Link { bucket: "b".into(), key: key.into(), tag: "t".into() };
        let entry = |field: &'static str, term| IndexEntry { field: field.into(), term };
        let meta = Metadata {
            content_type: Some("text/plain".into()),
            links: vec![link("x"), link("y")],
            user_meta: vec![UserMeta {
                name: "X-Riak-Meta-Colour".into(),
                value: Some("red".into()),
                form: Default::default(),
            }],
            indexes: vec![
                entry("a_bin", IndexTerm::Binary("q".into())),
                entry("n_int", IndexTerm::integer(1)),
                entry("n_int", IndexTerm::integer(2)),
            ],
            ..Metadata::default()
        };
        let sibling =
            Sibling { meta, value: "v\"".into(), vtag: "tag".into(), ..Sibling::default() };
        let object = Object { siblings: [sibling].into_iter().collect(), ..Object::default() };
        FoundObject { input: Input::new(BucketName::untyped("b"), "k".into()), object }
    }

    #[test]
    fn a_script_sees_values_with_what_is_known_of_them() {
        let mut out = Vec::new();
        found().append_json(&mut out).expect("text");
        let seen: Value = serde_json::from_slice(&out).expect("JSON");
        assert_eq!(seen["bucket"], "b");
        assert_eq!(seen["key"], "k");
        assert_eq!(seen["bucket_type"], Value::Null);
        let value = &seen["values"][0];
        assert_eq!(value["data"], "v\"");
        let metadata = &value["metadata"];
        assert_eq!(metadata["content-type"], "text/plain");
        assert_eq!(metadata["Links"], json!([["b", "x", "t"], ["b", "y", "t"]]));
        assert_eq!(metadata["X-Riak-Meta"], json!({"X-Riak-Meta-Colour": "red"}));
        assert_eq!(metadata["index"], json!({"a_bin": ["q"], "n_int": [1, 2]}));
    }

    #[test]
    fn the_size_of_an_object_counts_all_of_its_metadata() {
        const LARGE_BYTES: usize = 100_000;
        let large = || Bytes::from(vec![b'x'; LARGE_BYTES]);
        let size_with = |add: fn(&mut Sibling, Bytes)| {
            let mut found = found();
            add(found.object.siblings.first_mut().expect("one value"), large());
            found.size_bytes()
        };
        let adds: [fn(&mut Sibling, Bytes); 9] = [
            |value, large| value.meta.user_meta[0].value = Some(large),
            |value, large| value.meta.user_meta[0].name = large,
            |value, large| value.meta.links[0].tag = large,
            |value, large| value.meta.indexes[0].term = IndexTerm::Binary(large),
            |value, large| value.meta.other.push((large.slice(..1), large)),
            |value, large| value.meta.content_type = Some(large),
            |value, large| value.meta.charset = Some(large),
            |value, large| value.meta.content_encoding = Some(large),
            |value, large| value.vtag = large,
        ];
        for (number, add) in adds.into_iter().enumerate() {
            assert!(size_with(add) >= LARGE_BYTES, "{number}");
        }
        let mut found = found();
        let dot = |number: u32| {
            let actor = Actor(number.to_be_bytes().into_iter().collect());
            Dot { actor, counter: 1, time_secs: 0 }
        };
        found.object.clock = VersionVector::from_entries((0..1_000).map(dot));
        assert!(found.size_bytes() >= 1_000 * size_of::<Dot>());
    }

    #[test]
    fn the_record_of_an_object_is_one_that_erlang_reads() {
        let Term::Tuple(parts) = found().to_term() else { panic!("no tuple") };
        assert!(parts[0].is_atom(b"r_object"));
        assert_eq!(parts.len(), 7);
        let [content] = parts[3].as_list().expect("a list") else { panic!("one value") };
        let [_, dict, value] = content.as_tuple().expect("a content");
        assert_eq!(value, &Term::Binary("v\"".into()));
        let Term::Tuple(dict) = dict else { panic!("a dictionary") };
        assert_eq!(dict[1], Term::Integer(5), "vtag, content type, links, user metadata, indexes");
    }
}
