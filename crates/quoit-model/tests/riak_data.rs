//! Objects that a real Riak node wrote are encoded to the same bytes, and have the content that the
//! node reported.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use flate2::read::GzDecoder;
use quoit_model::bitcask_key::{BitcaskKey, encode_bitcask_key};
use quoit_model::object::{IndexTerm, Object, Sibling};
use quoit_model::riak_data_type::{RiakCount, RiakDataType, RiakEmbedded, RiakField, RiakMap};
use quoit_model::riak_object::{decode_riak_object, encode_riak_object};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// The stored value of each live key of each partition.
type Stored = BTreeMap<(String, Bytes), Bytes>;

fn data_dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/golden/riak-data")
}

/// The answers of the archive's node before it stopped.
fn answers() -> Value {
    let file = File::open(data_dir().join("bitcask.expected.json.gz")).expect("the node's answers");
    serde_json::from_reader(GzDecoder::new(file)).expect("JSON")
}

/// Reads the data files of an archive. In each partition the last record of a key counts.
fn read_archive(path: &Path) -> Stored {
    let file = File::open(path).expect("the archive opens");
    let mut data_files = BTreeMap::new();
    for entry in tar::Archive::new(GzDecoder::new(file)).entries().expect("a tar archive") {
        let mut entry = entry.expect("an entry");
        let path = entry.path().expect("a path").into_owned();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let Some(number) = name.strip_suffix(".bitcask.data") else { continue };
        let number: u64 = number.parse().expect("data files are numbered");
        let partition = path.parent().expect("a folder").to_string_lossy().into_owned();
        let mut data = Vec::new();
        entry.read_to_end(&mut data).expect("the entry is whole");
        data_files.insert((partition, number), Bytes::from(data));
    }
    let mut stored = Stored::new();
    for ((partition, _), data) in data_files {
        scan_data_file(&partition, data, &mut stored);
    }
    stored
}

/// A record has a checksum, a time stamp, the sizes of key and value, the key and the value.
fn scan_data_file(partition: &str, mut data: Bytes, stored: &mut Stored) {
    while !data.is_empty() {
        let header = data.split_to(14);
        let key_len = u16::from_be_bytes([header[8], header[9]]);
        let value_len = u32::from_be_bytes([header[10], header[11], header[12], header[13]]);
        let place = (partition.to_owned(), data.split_to(key_len.into()));
        let value = data.split_to(value_len as usize);
        if value.starts_with(b"bitcask_tombstone") {
            stored.remove(&place);
        } else {
            stored.insert(place, value);
        }
    }
}

/// One object for each record, merged from its replicas.
fn merged(stored: &Stored) -> BTreeMap<BitcaskKey, Object> {
    let mut objects: BTreeMap<BitcaskKey, Object> = BTreeMap::new();
    for ((_, key), value) in stored {
        let key = BitcaskKey::decode(key).expect("a stored key");
        let object = decode_riak_object(value).expect("a stored object");
        objects.entry(key).and_modify(|known| *known = known.merge(&object)).or_insert(object);
    }
    objects
}

fn text(bytes: &Bytes) -> Value {
    std::str::from_utf8(bytes).expect("text in the node's answers").into()
}

/// A sibling in the form of the node's answers, which omit empty values.
fn answer_of(sibling: &Sibling) -> Value {
    let meta = &sibling.meta;
    let mut answer = json!({
        "value": STANDARD.encode(&sibling.value),
        "vtag": text(&sibling.vtag),
        "last_mod": sibling.last_modified_us / 1_000_000,
        "links": meta.links.iter().map(|link| [&link.bucket, &link.key, &link.tag].map(text))
            .collect::<Vec<_>>(),
        "usermeta": meta.user_meta.iter().map(|pair| {
            let name = text(&pair.name).as_str().expect("text").to_owned();
            (name, text(pair.value.as_ref().expect("a value")))
        }).collect::<serde_json::Map<_, _>>(),
        "indexes": meta.indexes.iter().map(|entry| {
            let term = match &entry.term {
                IndexTerm::Integer(integer) => json!(integer.to_string()),
                IndexTerm::Binary(binary) => text(binary),
            };
            json!([text(&entry.field), term])
        }).collect::<Vec<_>>(),
    });
    let optional = [
        ("content_type", &meta.content_type),
        ("charset", &meta.charset),
        ("content_encoding", &meta.content_encoding),
    ];
    for (name, field) in optional {
        if let Some(field) = field {
            answer[name] = text(field);
        }
    }
    answer
}

fn name_of(record: &Value) -> BitcaskKey {
    let part = |name: &str| {
        record[name].as_str().map(|part| Bytes::from(STANDARD.decode(part).expect("base64")))
    };
    BitcaskKey {
        bucket_type: part("type").unwrap_or(Bytes::from_static(b"default")),
        bucket: part("bucket").expect("a bucket"),
        key: part("key").expect("a key"),
    }
}

#[test]
fn stored_objects_and_keys_round_trip_byte_for_byte() {
    let stored = read_archive(&data_dir().join("bitcask.tar.gz"));
    assert!(stored.len() > 300, "only {} records", stored.len());
    for ((partition, key), value) in &stored {
        let name = BitcaskKey::decode(key).expect("a stored key");
        let object = decode_riak_object(value).expect("a stored object");
        let mut again = Vec::new();
        encode_riak_object(&object, &mut again);
        assert_eq!(&again, value, "{name:?} in {partition}");
        let notes = |sibling: &Sibling| sibling.meta.other.is_empty();
        assert!(object.siblings.iter().all(notes), "{name:?}: {object:?}");

        let mut own = Vec::new();
        object.encode_into(&mut own);
        let from_own = Object::decode(&own.into()).expect("own encoding");
        again.clear();
        encode_riak_object(&from_own, &mut again);
        assert_eq!(&again, value, "{name:?} in {partition}, through the own encoding");

        again.clear();
        encode_bitcask_key(name.as_key_ref(), &mut again);
        assert_eq!(&again, key);
    }
}

#[test]
fn stored_objects_mean_what_the_node_answered() {
    let objects = merged(&read_archive(&data_dir().join("bitcask.tar.gz")));
    let expected = answers();
    let records = expected["objects"].as_array().expect("objects");
    assert!(!records.is_empty());
    for record in records {
        let name = name_of(record);
        let object = objects.get(&name).cloned().unwrap_or_default();
        let live = object.siblings.iter().filter(|_| !object.is_tombstone());
        let answers: BTreeSet<String> =
            live.map(|sibling| answer_of(sibling).to_string()).collect();
        let siblings = record["siblings"].as_array().expect("siblings");
        let expected: BTreeSet<String> = siblings.iter().map(Value::to_string).collect();
        assert_eq!(answers, expected, "{name:?}");
    }
    let data_types = expected["data_types"].as_array().expect("data types");
    for record in data_types {
        let part =
            |name: &str| Bytes::from(record[name].as_str().expect("text").as_bytes().to_vec());
        let name =
            BitcaskKey { bucket_type: part("type"), bucket: part("bucket"), key: part("key") };
        assert!(objects.contains_key(&name), "{name:?}");
    }
    let known = records.iter().filter(|record| record["siblings"] != json!([])).count();
    assert_eq!(objects.len(), known + data_types.len());
}

#[test]
fn replicas_of_a_record_have_one_digest() {
    let stored = read_archive(&data_dir().join("bitcask.tar.gz"));
    let mut digests: BTreeMap<Bytes, BTreeSet<u64>> = BTreeMap::new();
    for ((_, key), value) in &stored {
        let object = decode_riak_object(value).expect("a stored object");
        digests.entry(key.clone()).or_default().insert(object.digest());
    }
    for (key, digests) in digests {
        assert_eq!(digests.len(), 1, "{key:?}");
    }
}

fn total(counts: impl IntoIterator<Item = RiakCount>) -> Value {
    let sum = |count: RiakCount| count.increments as i64 - count.decrements as i64;
    json!(counts.into_iter().map(sum).sum::<i64>())
}

fn texts(elements: impl IntoIterator<Item = Bytes>) -> Value {
    let sorted: BTreeSet<Bytes> = elements.into_iter().collect();
    sorted.iter().map(text).collect()
}

/// The value of a map without concurrent updates.
fn map_value(map: RiakMap) -> Value {
    let field = |mut field: RiakField| {
        assert_eq!(field.states.len(), 1, "{:?}", field.name);
        let value = match field.states.remove(0).1 {
            RiakEmbedded::Counter { counts, .. } => {
                total(counts.into_iter().map(|(_, count)| count))
            }
            RiakEmbedded::Register { value, .. } => text(&value),
            RiakEmbedded::Flag { dots, .. } => json!(!dots.is_empty()),
            RiakEmbedded::Set(set) => texts(set.entries.into_iter().map(|(element, _)| element)),
            RiakEmbedded::Map(map) => map_value(map),
        };
        (field.name.to_string(), value)
    };
    map.fields.into_iter().map(field).collect::<serde_json::Map<_, _>>().into()
}

fn value_of(data_type: RiakDataType) -> Value {
    let (name, value) = match data_type {
        RiakDataType::Counter(counts) | RiakDataType::LegacyCounter(counts) => {
            ("counter", total(counts))
        }
        RiakDataType::Set(set) => {
            ("set", texts(set.entries.into_iter().map(|(element, _)| element)))
        }
        RiakDataType::Gset(elements) => ("gset", texts(elements)),
        RiakDataType::Map(map) => ("map", map_value(map)),
        RiakDataType::Hll(hll) => ("hll", json!(hll.estimate())),
    };
    json!({"type": name, "value": value})
}

#[test]
fn stored_data_types_mean_what_the_node_answered() {
    let objects = merged(&read_archive(&data_dir().join("bitcask.tar.gz")));
    let expected = answers();
    let records = expected["data_types"].as_array().expect("data types");
    assert_eq!(records.len(), 50);
    for record in records {
        let part =
            |name: &str| Bytes::from(record[name].as_str().expect("text").as_bytes().to_vec());
        let name =
            BitcaskKey { bucket_type: part("type"), bucket: part("bucket"), key: part("key") };
        let [sibling] = objects[&name].siblings.as_slice() else { panic!("{name:?}") };
        let data_type = RiakDataType::decode(&sibling.value).expect("a stored data type");
        let content_type = sibling.meta.content_type.as_deref();
        assert_eq!(content_type, Some(data_type.content_type().as_bytes()));
        let mut written = Vec::new();
        data_type.encode_into(&mut written);
        let again = RiakDataType::decode(&written.into()).expect("what was just encoded");
        assert_eq!(value_of(data_type), record["value"], "{name:?}");
        assert_eq!(value_of(again), record["value"], "{name:?}, written again");
    }
}
