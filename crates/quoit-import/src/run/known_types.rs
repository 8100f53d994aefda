//! Bucket types of the imported records: the import checks that they exist, and creates those that are
//! missing.
//!
//! A directory does not hold the properties of bucket types. The data type of a type is inferred from the
//! content type of its live records.

use crate::api::{Api, segment};
use crate::output::{note, shown};
use anyhow::{Result, bail};
use bytes::Bytes;
use foldhash::fast::RandomState;
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_model::riak_object::decode_riak_object;
use quoit_riak_files::{Finding, Partition, Position, StoredRecord};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::ops::ControlFlow;

/// Names of data types, as in the bucket property `datatype`.
const DATA_TYPES: [&str; 5] = ["counter", "set", "gset", "map", "hll"];

/// The kind of a live record. All records of a bucket type are of one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum RecordKind {
    /// A plain value.
    Plain,
    /// A data type, by its name in the bucket property.
    DataType(&'static str),
}

/// The bucket types that are known to exist in the cluster.
pub(super) struct KnownTypes<'a> {
    api: Api,
    creates: bool,
    /// Types that have been checked against a live record.
    known: HashSet<Bytes, RandomState>,
    /// Types that exist, but of which only tombstones have been read. Tombstones do not say what data type
    /// they have.
    undecided: HashSet<Bytes, RandomState>,
    partitions: &'a [Partition],
    /// Index of the partition that is being read.
    number: usize,
}

impl<'a> KnownTypes<'a> {
    /// The types of a cluster, for records of these partitions. `creates` is true if missing types are to
    /// be created.
    pub(super) fn new(api: Api, creates: bool, partitions: &'a [Partition]) -> Self {
        let known = HashSet::from_iter([Bytes::from_static(DEFAULT_BUCKET_TYPE)]);
        Self { api, creates, known, undecided: HashSet::default(), partitions, number: 0 }
    }

    /// Records that the import begins this partition.
    pub(super) fn begin(&mut self, number: usize) {
        self.number = number;
    }

    /// Ensures that the type of a record exists, and that its data type is that of the record.
    pub(super) fn ensure(&mut self, record: &StoredRecord) -> Result<()> {
        let name = &record.key.bucket_type;
        if self.known.contains(name) {
            return Ok(());
        }
        let told = kind_of(record);
        if told.is_none() && self.undecided.contains(name) {
            return Ok(());
        }
        let path = format!("admin/v1/bucket-types/{}", segment(name));
        let (status, document) = self.api.get_with_retries(&path)?;
        let is_active = document.get("state").is_some_and(|state| state == "active");
        if status == 404 || !is_active {
            let kind = match told {
                Some(kind) => kind,
                None if self.creates => self.look_ahead(name)?,
                None => RecordKind::Plain,
            };
            self.create(name, &path, kind)?;
        } else {
            let document = self.api.done((status, document))?;
            let datatype = document.pointer("/props/datatype").and_then(Value::as_str);
            check_datatype(name, datatype, told)?;
        }
        match told {
            Some(_) => self.known.insert(name.clone()),
            None => self.undecided.insert(name.clone()),
        };
        Ok(())
    }

    /// Searches the partitions for a live record of a bucket type, and returns its kind; plain if there is
    /// no such record.
    fn look_ahead(&self, name: &Bytes) -> Result<RecordKind> {
        note(format_args!(
            "the first record of bucket type {} is a tombstone; a live one, which tells the data type, is \
             looked for in the directories",
            shown(name)
        ));
        let count = self.partitions.len();
        for partition in self.partitions.iter().cycle().skip(self.number).take(count) {
            let mut found = None;
            partition.read(&Position::default(), None, &mut |seen, _| {
                if let Finding::Record(record) = seen
                    && record.key.bucket_type == *name
                {
                    found = kind_of(&record);
                }
                if found.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if let Some(kind) = found {
                return Ok(kind);
            }
        }
        Ok(RecordKind::Plain)
    }

    fn create(&self, name: &[u8], path: &str, kind: RecordKind) -> Result<()> {
        if !self.creates {
            bail!(
                "bucket type {} does not exist in the cluster, or is not active; create it first",
                shown(name)
            );
        }
        let props: Value = match kind {
            RecordKind::DataType(datatype) => json!({"datatype": datatype, "allow_mult": true}),
            RecordKind::Plain => json!({"allow_mult": true}),
        };
        note(format_args!(
            "bucket type {} is created with {props}; quoit import types copies all properties from a \
             running Riak",
            shown(name)
        ));
        self.api.done(self.api.put(path, &json!({"props": props}))?)?;
        // Other nodes need a moment to learn of the new type.
        for attempt in 0.. {
            let (status, document) = self.api.post(&format!("{path}/activate"))?;
            if status != 409 || attempt >= 50 {
                self.api.done((status, document))?;
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        Ok(())
    }
}

/// Refuses a bucket type of the cluster that has another data type than the record.
fn check_datatype(name: &[u8], is: Option<&str>, told: Option<RecordKind>) -> Result<()> {
    let Some(RecordKind::DataType(datatype)) = told else { return Ok(()) };
    if is == Some(datatype) {
        return Ok(());
    }
    bail!(
        "bucket type {} of the cluster has {}, but in Riak it holds data type {datatype}; create it with \
         that datatype under this name, for example by quoit import types",
        shown(name),
        is.map_or("no data type".to_owned(), |is| format!("data type {is}")),
    );
}

/// The kind of a record, by the content type of its first live sibling. `None` for tombstones and for
/// records that can't be decoded.
fn kind_of(record: &StoredRecord) -> Option<RecordKind> {
    let object = decode_riak_object(&record.object).ok()?;
    let mut live = object.siblings.iter().filter(|sibling| !sibling.deleted).peekable();
    live.peek()?;
    let content_type = live.find_map(|sibling| sibling.meta.content_type.as_deref());
    let word = content_type.and_then(|text| text.strip_prefix(b"application/riak_"));
    let datatype = DATA_TYPES.into_iter().find(|known| word == Some(known.as_bytes()));
    Some(datatype.map_or(RecordKind::Plain, RecordKind::DataType))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::fake;
    use quoit_model::bitcask_key::{BitcaskKey, encode_bitcask_key};
    use quoit_model::object::{Metadata, Object, Sibling};
    use quoit_model::riak_object::encode_riak_object;
    use quoit_riak_files::discover;
    use std::path::Path;

    /// A record of the bucket type `t`; a tombstone if there is no content type.
    fn record(key: &'static str, content_type: Option<&'static str>) -> StoredRecord {
        let meta = Metadata {
            content_type: content_type.map(|text| Bytes::from_static(text.as_bytes())),
            ..Metadata::default()
        };
        let sibling = Sibling { deleted: content_type.is_none(), meta, ..Sibling::default() };
        let siblings = [sibling].into_iter().collect();
        let mut object = Vec::new();
        encode_riak_object(&Object { siblings, ..Object::default() }, &mut object);
        let part = Bytes::from_static;
        let key = BitcaskKey { bucket_type: part(b"t"), bucket: part(b"b"), key: key.into() };
        let (object, file) = (object.into(), Path::new("file").into());
        StoredRecord { key, object, written_secs: None, expires_at_us: None, file, offset: 0 }
    }

    /// Writes a partition with these records, in Bitcask's format.
    fn write_partition(data_dir: &Path, index: &str, records: &[StoredRecord]) {
        let mut bytes = Vec::new();
        for record in records {
            let mut key = Vec::new();
            encode_bitcask_key(record.key.as_key_ref(), &mut key);
            let mut body = 1u32.to_be_bytes().to_vec();
            body.extend_from_slice(&(key.len() as u16).to_be_bytes());
            body.extend_from_slice(&(record.object.len() as u32).to_be_bytes());
            body.extend_from_slice(&key);
            body.extend_from_slice(&record.object);
            bytes.extend_from_slice(&crc32fast::hash(&body).to_be_bytes());
            bytes.extend_from_slice(&body);
        }
        let directory = data_dir.join("bitcask").join(index);
        std::fs::create_dir_all(&directory).expect("a directory");
        std::fs::write(directory.join("1.bitcask.data"), bytes).expect("a file");
    }

    const SET: Option<&str> = Some("application/riak_set");

    #[test]
    fn only_live_records_tell_the_kind_of_their_type() {
        assert_eq!(kind_of(&record("k", None)), None);
        assert_eq!(kind_of(&record("k", SET)), Some(RecordKind::DataType("set")));
        assert_eq!(kind_of(&record("k", Some("text/plain"))), Some(RecordKind::Plain));
        assert_eq!(kind_of(&record("k", Some("application/riak_else"))), Some(RecordKind::Plain));
        let damaged = StoredRecord { object: Bytes::new(), ..record("k", SET) };
        assert_eq!(kind_of(&damaged), None);
    }

    #[test]
    fn a_type_that_begins_with_a_tombstone_is_created_with_the_data_type_of_a_later_record() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        write_partition(folder.path(), "0", &[record("a", None)]);
        write_partition(folder.path(), "1", &[record("b", None), record("c", SET)]);
        let partitions = discover(folder.path()).expect("a directory of Riak's").partitions;
        let (sent, created) = std::sync::mpsc::channel();
        let api = fake::node(move |first, body| {
            if first.starts_with("GET") {
                return (404, "{}".to_owned());
            }
            sent.send(String::from_utf8_lossy(body).into_owned()).expect("a receiver");
            (200, "{}".to_owned())
        });
        let mut types = KnownTypes::new(api, true, &partitions);
        types.ensure(&record("a", None)).expect("created");
        let props: Value = serde_json::from_str(&created.recv().expect("a body")).expect("JSON");
        assert_eq!(props["props"]["datatype"], "set");
        types.begin(1);
        assert_eq!(types.look_ahead(&"other".into()).expect("readable"), RecordKind::Plain);
    }

    #[test]
    fn a_type_of_another_data_type_is_noticed_behind_a_tombstone() {
        let active = json!({"state": "active", "props": {"datatype": "map"}}).to_string();
        let api = fake::node(move |_, _| (200, active.clone()));
        let mut types = KnownTypes::new(api, true, &[]);
        types.ensure(&record("a", None)).expect("it tells nothing");
        let fault = types.ensure(&record("b", SET)).expect_err("a set in a type of maps");
        assert!(fault.to_string().contains("has data type map, but in Riak"), "{fault}");
        types.ensure(&record("c", Some("application/riak_map"))).expect("a map");
    }
}
