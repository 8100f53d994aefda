//! Batches of records to import into a cluster: a body of many records in Riak's own forms.
//!
//! | piece | form |
//! | --- | --- |
//! | key length | 32 bits, big-endian |
//! | key | [as Bitcask has it](crate::bitcask_key) |
//! | object length | 32 bits, big-endian |
//! | object | [as Riak stores it](crate::riak_object) |
//!
//! These four pieces repeat to the end of the body.

use crate::bitcask_key::{BitcaskKey, BitcaskKeyError, encode_bitcask_key};
use crate::clock::VersionVector;
use crate::cursor::{Cursor, Truncated};
use crate::data_type::clock_in_riak;
use crate::key::KeyRef;
use bytes::Bytes;
use thiserror::Error;
use xxhash_rust::xxh3::Xxh3;

/// Error of reading a batch of records.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum RecordBatchError {
    /// A length exceeds the bytes that follow.
    #[error("the batch is cut off at byte {at}")]
    Truncated {
        /// Offset in bytes of the piece that does not fit.
        at: usize,
    },
    /// A key can't be read.
    #[error("record {record} of the batch: {fault}")]
    Key {
        /// Number of the record, from 0.
        record: usize,
        /// Error of the key.
        fault: BitcaskKeyError,
    },
}

/// A record of a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BatchRecord {
    /// Name of the record.
    pub key: BitcaskKey,
    /// The object in Riak's stored form.
    pub object: Bytes,
}

/// Appends a record; `object` is in Riak's stored form.
///
/// # Panics
///
/// Panics if the name was not checked and is too long, or if the object has 4 GiB or more.
#[expect(clippy::indexing_slicing, reason = "the length was appended at `start`")]
pub fn put_record(key: KeyRef<'_>, object: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    encode_bitcask_key(key, out);
    let key_len = u32::try_from(out.len() - start - 4).expect("names are short");
    out[start..start + 4].copy_from_slice(&key_len.to_be_bytes());
    let object_len = u32::try_from(object.len()).expect("objects are smaller than 4 GiB");
    out.extend_from_slice(&object_len.to_be_bytes());
    out.extend_from_slice(object);
}

/// Reads a batch; names and objects share the body.
///
/// # Errors
///
/// Returns an error if the body ends within a record, or a key can't be read. Objects are not
/// checked.
pub fn read_records(body: &Bytes) -> Result<Vec<BatchRecord>, RecordBatchError> {
    let truncated = |truncated: Truncated| RecordBatchError::Truncated { at: truncated.at };
    let mut cursor = Cursor::new(body);
    let mut records = Vec::new();
    while cursor.remaining() > 0 {
        let mut part = || {
            let len = u32::from_be_bytes(cursor.array()?);
            cursor.bytes(len as usize)
        };
        let (key, object) = (part().map_err(truncated)?, part().map_err(truncated)?);
        let key = BitcaskKey::decode(&key)
            .map_err(|fault| RecordBatchError::Key { record: records.len(), fault })?;
        records.push(BatchRecord { key, object });
    }
    Ok(records)
}

/// A hash of a key and of the events that its object has seen. It has the same value in a Riak
/// cluster and in Quoit, for data types too. If the wrapping sums over all records of a bucket are
/// equal, two clusters hold the same versions.
#[must_use]
pub fn version_digest(key: &[u8], clock: &VersionVector) -> u64 {
    let clock = clock_in_riak(clock);
    let mut entries: Vec<_> = clock.entries().iter().filter(|entry| entry.counter > 0).collect();
    entries.sort_by(|a, b| a.actor.cmp(&b.actor));
    let mut hasher = Xxh3::new();
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    for entry in entries {
        hasher.update(&(entry.actor.0.len() as u64).to_le_bytes());
        hasher.update(&entry.actor.0);
        hasher.update(&entry.counter.to_le_bytes());
    }
    hasher.digest()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::BucketRef;
    use proptest::prelude::*;

    #[test]
    fn records_come_back() {
        let names = [
            BucketRef::untyped(b"b").key(b"k"),
            BucketRef { bucket_type: b"t", bucket: b"b" }.key(b""),
        ];
        let mut body = Vec::new();
        for name in names {
            put_record(name, b"an object", &mut body);
        }
        let body = Bytes::from(body);
        let records = read_records(&body).expect("own form");
        assert_eq!(records.iter().map(|one| one.key.as_key_ref()).collect::<Vec<_>>(), names);
        assert!(records.iter().all(|one| one.object == "an object"));
        let cut = read_records(&body.slice(..body.len() - 1));
        assert!(matches!(cut, Err(RecordBatchError::Truncated { .. })), "{cut:?}");
    }

    proptest! {
        #[test]
        fn any_body_is_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            let _ = read_records(&bytes.into());
        }
    }
}
