use super::*;
use crate::clock::{Dot, VersionVector};
use crate::etf::Term;
use crate::object::{IndexEntry, IndexTerm, Link, Metadata, UserMeta, UserMetaForm};
use crate::test_objects::{any_object, dot};
use proptest::prelude::*;

/// The clock of the format's example: actor 01 02 03 04 00 00 00 01, counter 1, time 63800000000.
const CLOCK: &[u8] = b"\x83l\0\0\0\x01h\x02m\0\0\0\x08\x01\x02\x03\x04\0\0\0\x01h\x02a\x01\
    n\x05\0\0\xbe\xc6\xda\x0ej";

/// Head of metadata: 1600 megaseconds, 0 s, 7 us; no vtag; not deleted.
const HEAD: &[u8] = b"\0\0\x06\x40\0\0\0\0\0\0\0\x07\x01e\0";

fn sized_part(part: &[u8]) -> Vec<u8> {
    [&(part.len() as u32).to_be_bytes()[..], part].concat()
}

/// Metadata with these entries, given as encoded names and values.
fn metadata(entries: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut out = HEAD.to_vec();
    for (name, value) in entries {
        out.extend(sized_part(name));
        out.extend(sized_part(value));
    }
    out
}

fn object_with(value: &[u8], meta: &[u8]) -> Bytes {
    let start = [&[53, 1][..], &sized_part(CLOCK), &[0, 0, 0, 1]];
    [start.concat(), sized_part(value), sized_part(meta)].concat().into()
}

fn encoded(object: &Object) -> Bytes {
    let mut out = Vec::new();
    encode_riak_object(object, &mut out);
    out.into()
}

/// Decodes an object with these entries, checks that it round-trips, also through Quoit's own form,
/// and returns its only sibling.
fn check(value: &[u8], meta: &[u8]) -> Sibling {
    let bytes = object_with(value, meta);
    let object = decode_riak_object(&bytes).expect("a whole object");
    assert_eq!(encoded(&object), bytes);
    let mut own = Vec::new();
    object.encode_into(&mut own);
    assert_eq!(encoded(&Object::decode(&own.into()).expect("own encoding")), bytes);
    object.siblings[0].clone()
}

const INDEX: (&[u8], &[u8]) = (b"\x01index", b"\0\x83j");

#[test]
fn the_example_of_the_format_is_read_and_written() {
    let entry: (&[u8], &[u8]) = (b"\x01content-type", b"\0\x83k\0\x0atext/plain");
    let sibling = check(b"\x01v", &metadata(&[entry]));
    assert_eq!((sibling.value.as_ref(), sibling.vtag.as_ref()), (&b"v"[..], &b""[..]));
    assert_eq!(sibling.meta.content_type.as_deref(), Some(&b"text/plain"[..]));
    assert_eq!(sibling.last_modified_us, 1_600_000_000_000_007);
    assert!(!sibling.deleted && sibling.dot.is_none());
}

fn pair(form: UserMetaForm, value: Option<&'static str>) -> UserMeta {
    UserMeta { name: "name".into(), value: value.map(Bytes::from), form }
}

/// A sibling with every field, which Riak's form represents without notes.
fn full_sibling() -> Sibling {
    Sibling {
        dot: Some(Dot { time_secs: 63_800_000_000, ..dot(b"\x01\x02\x03\x04\0\0\0\x01", 1) }),
        last_modified_us: 1_600_000_000_000_007,
        vtag: "5qcKUqa2vd3fCFoKxn8YXk".into(),
        meta: Metadata {
            content_type: Some("a/b".into()),
            charset: Some("utf-8".into()),
            content_encoding: Some("gzip".into()),
            links: vec![Link { bucket: "b".into(), key: "k".into(), tag: "t".into() }],
            user_meta: vec![
                pair(UserMetaForm::Binary, Some("1")),
                pair(UserMetaForm::Binary, None),
                pair(UserMetaForm::Text, Some("")),
            ],
            indexes: vec![
                IndexEntry { field: "f_bin".into(), term: IndexTerm::Binary("x".into()) },
                IndexEntry { field: "f_int".into(), term: IndexTerm::integer(-(1 << 70)) },
            ],
            expires_at_secs: Some(4_000_000_000),
            replaces: true,
            other: Vec::new(),
        },
        value: "v".into(),
        deleted: false,
    }
}

#[test]
fn every_field_has_its_entry_and_riaks_order() {
    let sibling = full_sibling();
    let clock = VersionVector::from_entries(sibling.dot.clone());
    let object = Object { clock, siblings: [sibling].into_iter().collect() };
    let bytes = encoded(&object);
    let again = decode_riak_object(&bytes).expect("own encoding");
    assert_eq!(format!("{again:?}"), format!("{object:?}"));
    let place = |name: &str| {
        let name = name.as_bytes();
        bytes.windows(name.len()).position(|window| window == name).expect("the entry's name")
    };
    let order = ["charset", "X-Riak-Meta", "index", "content-type", "X-Quoit-Expires-At"];
    let order = order.into_iter().chain(["\x01dot", "content-encoding", "Links"]);
    assert!(order.map(place).collect::<Vec<_>>().is_sorted());
}

#[test]
fn a_tombstone_keeps_its_flag() {
    let mut meta = metadata(&[INDEX]);
    meta[HEAD.len() - 1] = 1;
    let sibling = check(b"\x01", &meta);
    assert!(sibling.deleted && sibling.value.is_empty() && sibling.meta.other.is_empty());
}

#[test]
fn order_and_presence_of_entries_are_kept() {
    let text: (&[u8], &[u8]) = (b"\x01content-type", b"\0\x83k\0\x03a/b");
    let links: (&[u8], &[u8]) = (b"\x01Links", b"\0\x83j");
    let other: (&[u8], &[u8]) = (b"\x01unknown", b"\x01as it is");
    for entries in [&[text, INDEX][..], &[links, text], &[], &[other, links, INDEX, text], &[links]]
    {
        let sibling = check(b"\x01v", &metadata(entries));
        let content_type = sibling.meta.content_type.as_deref();
        assert_eq!(content_type.is_some(), entries.contains(&text));
        // The note of the order has one byte for each entry; the metadata is not kept twice.
        let note = sibling.meta.other.iter().find(|(name, _)| name.len() == 1);
        assert!(note.is_some_and(|(name, order)| name == "o" && order.len() == entries.len()));
        let has_other = sibling.meta.other.iter().any(|(name, _)| name == other.0);
        assert_eq!(has_other, entries.contains(&other));
    }
}

#[test]
fn odd_forms_are_understood_where_possible_and_come_back_as_they_were() {
    let check_entry = |name: &[u8], value: &[u8]| check(b"\x01v", &metadata(&[(name, value)]));
    // A content type as a binary, raw and as a term, and as a list of integers.
    for value in [&b"\x01a/b"[..], b"\0\x83m\0\0\0\x03a/b", b"\0\x83l\0\0\0\x03aaa/abj"] {
        let sibling = check_entry(b"\x01content-type", value);
        assert_eq!(sibling.meta.content_type.as_deref(), Some(&b"a/b"[..]), "{value:?}");
    }
    // An entry whose value the field can't hold is kept in `other`.
    let sibling = check_entry(b"\x01charset", b"\0\x83d\0\x09undefined");
    assert_eq!((sibling.meta.charset, sibling.meta.other.len()), (None, 2));
    let sibling = check_entry(b"\x01index", b"\0\x83a\x05");
    assert!(sibling.meta.indexes.is_empty());
    // A binary name with a text value.
    let mixed = b"\0\x83l\0\0\0\x01h\x02m\0\0\0\x04namek\0\x01vj";
    let sibling = check_entry(b"\x01X-Riak-Meta", mixed);
    assert_eq!(sibling.meta.user_meta[0].value.as_deref(), Some(&b"v"[..]));
    // Names that could be mistaken for notes, and empty names and values.
    for name in [&b"o"[..], b"r", b"v", b"", b"\x01", b"\0\x83a\x05"] {
        check_entry(name, b"");
        check_entry(name, b"\x01x");
    }
    // The same entry twice.
    let text: (&[u8], &[u8]) = (b"\x01content-type", b"\0\x83k\0\x03a/b");
    check(b"\x01v", &metadata(&[text, text, INDEX, INDEX]));
}

#[test]
fn an_entry_that_is_no_time_of_expiry_changes_nothing_about_the_expiry() {
    // The second 100, of a value that has replaced none.
    let time: (&[u8], &[u8]) = (b"\x01X-Quoit-Expires-At", b"\0\x83n\x05\0\x64\0\0\0\x01");
    let others: [&[u8]; 2] = [b"\0\x83a\x05", b"\0\x83n\x05\0\0\0\0\0\x02"];
    for stored in others {
        let sibling = check(b"\x01v", &metadata(&[time, (time.0, stored)]));
        assert_eq!((sibling.meta.expires_at_secs, sibling.meta.replaces), (Some(100), false));
    }
    let sibling = check(b"\x01v", &metadata(&[(time.0, others[1])]));
    assert_eq!((sibling.meta.expires_at_secs, sibling.meta.replaces), (None, false));
}

#[test]
fn odd_heads_of_metadata_come_back_as_they_were() {
    let mut times = metadata(&[INDEX]);
    times[..12].fill(0xff);
    assert_eq!(check(b"\x01v", &times).last_modified_us, u64::MAX);
    let mut flag = metadata(&[INDEX]);
    flag[HEAD.len() - 1] = 7;
    assert!(check(b"\x01v", &flag).deleted);
    let empty_vtag = [&HEAD[..12], &[0, 0]].concat();
    assert!(check(b"\x01v", &empty_vtag).vtag.is_empty());
}

#[test]
fn values_keep_their_encoding() {
    for (stored, value) in [(&b"\x01v"[..], &b"v"[..]), (b"\0\x83a\x05", b"\x83a\x05"), (b"", b"")]
    {
        let sibling = check(stored, &metadata(&[INDEX]));
        assert_eq!(sibling.value, value);
    }
    check(b"\x09foreign", &[metadata(&[INDEX]), vec![]].concat());
    // Together with metadata that only the note of the whole metadata reproduces.
    check(b"", &metadata(&[(b"\x01charset", b"\x01utf-8")]));
}

#[test]
fn a_changed_sibling_is_not_written_as_it_was_read() {
    let meta = metadata(&[(b"\x01charset", b"\x01utf-8")]);
    let mut object = decode_riak_object(&object_with(b"\x01v", &meta)).expect("whole");
    object.siblings[0].deleted = true;
    let again = decode_riak_object(&encoded(&object)).expect("own encoding");
    assert!(again.siblings[0].deleted);
    assert_eq!(again.siblings[0].meta.charset.as_deref(), Some(&b"utf-8"[..]));
}

#[test]
fn a_changed_time_of_a_dot_is_written() {
    let charset: (&[u8], &[u8]) = (b"\x01charset", b"\x01utf-8");
    let dot: (&[u8], &[u8]) = (b"\x01dot", b"\0\x83h\x02m\0\0\0\x01ah\x02a\x01a\x09");
    let bytes = object_with(b"\x01v", &metadata(&[charset, dot]));
    let mut object = decode_riak_object(&bytes).expect("whole");
    assert_eq!(encoded(&object), bytes);
    object.siblings[0].dot.as_mut().expect("a dot").time_secs = 10;
    let again = decode_riak_object(&encoded(&object)).expect("own encoding");
    assert_eq!(again.siblings[0].dot.as_ref().map(|dot| dot.time_secs), Some(10));
}

fn tuple<const N: usize>(elements: [Term; N]) -> Term {
    Term::Tuple(elements.into())
}

fn atom(name: &'static str) -> Term {
    Term::Atom(name.into())
}

fn binary(bytes: &'static str) -> Term {
    Term::Binary(bytes.into())
}

/// The cell `[Key | Value]` as Erlang writes it.
fn cell(name: &'static str, value: Term) -> Term {
    match value {
        Term::Text(text) => {
            let text = text.iter().map(|byte| Term::Integer((*byte).into()));
            Term::List([binary(name)].into_iter().chain(text).collect())
        }
        Term::List(mut list) => {
            list.insert(0, binary(name));
            Term::List(list)
        }
        value => Term::ImproperList(vec![binary(name)], Box::new(value)),
    }
}

fn version_0(cells: Vec<Term>, value: Term) -> Bytes {
    let empty = || Term::List(Vec::new());
    let segment = tuple([empty(), Term::List(cells), empty()]);
    let number = Term::Integer;
    let dict = tuple([
        atom("dict"),
        number(1),
        number(16),
        number(16),
        number(8),
        number(80),
        number(48),
        empty(),
        tuple([segment]),
    ]);
    let content = tuple([atom("r_content"), dict.clone(), value]);
    let clock = Term::decode(&Bytes::from_static(CLOCK), &Limits::STORED).expect("a clock");
    let contents = Term::List(vec![content]);
    let bucket = binary("b");
    let record = [atom("r_object"), bucket, binary("k"), contents, clock, dict, atom("undefined")];
    let mut out = Vec::new();
    tuple(record).encode_into(&mut out);
    out.into()
}

#[test]
fn objects_of_version_0_are_read() {
    let time = tuple([Term::Integer(1600), Term::Integer(5), Term::Integer(7)]);
    let cells = vec![
        cell("content-type", Term::Text("text/plain".into())),
        cell("X-Riak-VTag", Term::Text("tag".into())),
        cell("X-Riak-Last-Modified", time),
        cell("Links", Term::List(Vec::new())),
        cell("X-Riak-Meta", Term::List(vec![tuple([binary("n"), binary("v")])])),
        cell("unknown", binary("kept")),
    ];
    let object = decode_riak_object(&version_0(cells, binary("value"))).expect("version 0");
    assert_eq!(object.clock.entries()[0].time_secs, 63_800_000_000);
    let sibling = &object.siblings[0];
    assert_eq!(sibling.value, "value");
    assert_eq!(sibling.vtag, "tag");
    assert_eq!(sibling.last_modified_us, 1_600_000_005_000_007);
    assert_eq!(sibling.meta.content_type.as_deref(), Some(&b"text/plain"[..]));
    assert_eq!(sibling.meta.user_meta[0].name, "n");
    assert_eq!(sibling.meta.other, [("\x01unknown".into(), "\x01kept".into())]);
    assert!(!sibling.deleted);
}

#[test]
fn old_dates_and_tombstones_of_version_0_are_understood() {
    let date = |text: &'static str| {
        let cells = vec![
            cell("X-Riak-Last-Modified", Term::Text(text.into())),
            cell("X-Riak-Deleted", Term::Text("true".into())),
        ];
        let object = decode_riak_object(&version_0(cells, binary(""))).expect("version 0");
        assert!(object.is_tombstone());
        object.siblings[0].last_modified_us
    };
    assert_eq!(date("Sun, 06 Nov 1994 08:49:37 GMT"), 784_111_777_000_000);
    assert_eq!(date("Thu, 29 Feb 2024 00:00:00 GMT"), 1_709_164_800_000_000);
    assert_eq!(date("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
    assert_eq!(date("Thu, 99 Foo 1970"), 0);
}

#[test]
fn values_of_version_0_that_are_terms_stay_terms() {
    let object = decode_riak_object(&version_0(Vec::new(), Term::Integer(5))).expect("version 0");
    assert_eq!(object.siblings[0].value, b"\x83a\x05".as_slice());
    let again = decode_riak_object(&encoded(&object)).expect("own encoding");
    assert_eq!(again, object);
}

proptest! {
    #[test]
    fn own_objects_survive_a_stay_in_riaks_form(mut object in any_object()) {
        for sibling in &mut object.siblings {
            sibling.meta.other.clear();
            if sibling.vtag == "e" {
                sibling.vtag.clear();
            }
        }
        let bytes = encoded(&object);
        let mut again = decode_riak_object(&bytes).expect("own encoding");
        prop_assert_eq!(encoded(&again), bytes);
        for sibling in &mut again.siblings {
            // A pair without a value whose name has the other form needs the note of the whole
            // metadata.
            sibling.meta.other.clear();
        }
        prop_assert_eq!(again, object);
    }

    #[test]
    fn damaged_objects_never_panic(
        object in any_object(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut: prop::sample::Index,
    ) {
        let mut bytes = encoded(&object).to_vec();
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if let Ok(decoded) = decode_riak_object(&bytes.clone().into()) {
            let _ = encoded(&decoded);
        }
        let whole = encoded(&object);
        prop_assert!(decode_riak_object(&whole.slice(..cut.index(whole.len()))).is_err());
    }

    #[test]
    fn random_bytes_never_panic(
        mut bytes in prop::collection::vec(any::<u8>(), 2..200),
        version_0: bool,
    ) {
        bytes[..2].copy_from_slice(if version_0 { &[131, 104] } else { &[53, 1] });
        let _ = decode_riak_object(&bytes.into());
    }
}
