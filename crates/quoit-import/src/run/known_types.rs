//! Bucket types that records need.

use crate::api::{Api, segment};
use crate::output::{note, shown};
use anyhow::{Result, bail};
use bytes::Bytes;
use foldhash::fast::RandomState;
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_model::riak_object::decode_riak_object;
use quoit_riak_files::StoredRecord;
use serde_json::{Value, json};
use std::collections::HashSet;

/// The bucket types that are known to be there.
pub(super) struct KnownTypes {
    api: Api,
    creates: bool,
    known: HashSet<Bytes, RandomState>,
}

impl KnownTypes {
    pub(super) fn new(api: Api, creates: bool) -> Self {
        let known = HashSet::from_iter([Bytes::from_static(DEFAULT_BUCKET_TYPE)]);
        Self { api, creates, known }
    }

    /// Sees to it that the type of a record is there. The directory does not tell its properties, but the
    /// record tells its data type.
    pub(super) fn ensure(&mut self, record: &StoredRecord) -> Result<()> {
        let name = &record.key.bucket_type;
        if self.known.contains(name) {
            return Ok(());
        }
        let datatype = datatype_of(record);
        let path = format!("admin/v1/bucket-types/{}", segment(name));
        let (status, document) = self.api.get_patiently(&path)?;
        if status == 404 || document["state"] != "active" {
            self.create(name, &path, datatype.as_deref())?;
        } else {
            let props = &self.api.done((status, document))?["props"];
            let is_same = props["datatype"].as_str() == datatype.as_deref();
            if datatype.is_some() && !is_same {
                bail!(
                    "bucket type {} of the cluster has {}, but in Riak it holds data type {}; create it with \
                     that datatype under this name, for example by quoit import types",
                    shown(name),
                    props["datatype"]
                        .as_str()
                        .map_or("no data type".to_owned(), |is| format!("data type {is}")),
                    datatype.unwrap_or_default(),
                );
            }
        }
        self.known.insert(name.clone());
        Ok(())
    }

    fn create(&self, name: &[u8], path: &str, datatype: Option<&str>) -> Result<()> {
        if !self.creates {
            bail!(
                "bucket type {} does not exist in the cluster, or is not active; create it first",
                shown(name)
            );
        }
        let props: Value = match datatype {
            Some(datatype) => json!({"datatype": datatype, "allow_mult": true}),
            None => json!({"allow_mult": true}),
        };
        note(format_args!(
            "bucket type {} is created with {props}; quoit import types copies all properties from a \
             running Riak",
            shown(name)
        ));
        self.api.done(self.api.put(path, &json!({"props": props}))?)?;
        // Other nodes take a moment to learn of it.
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

/// The data type of a record by its content type, in the word of the property.
fn datatype_of(record: &StoredRecord) -> Option<String> {
    let object = decode_riak_object(&record.object).ok()?;
    let content_type =
        object.siblings.iter().find_map(|sibling| sibling.meta.content_type.clone())?;
    let kind = content_type.strip_prefix(b"application/riak_")?;
    let known = [&b"counter"[..], b"set", b"gset", b"map", b"hll"];
    known.contains(&kind).then(|| String::from_utf8_lossy(kind).into_owned())
}
