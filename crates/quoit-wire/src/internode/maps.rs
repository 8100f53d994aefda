//! Messages by which the node that runs a MapReduce job runs map phases on the nodes that hold the
//! records.
//!
//! A node reads its own copies, applies the function of a phase, and answers with the outputs.
//! Records that it can't read are returned, and the requester reads them from other nodes. A scan
//! with a [`MapSpan`] maps the records of a bucket in the order of the scan; [`METHOD_MAP`] maps
//! records by name. An answer has about as many bytes as the requester asked for, and the requester
//! asks for each next one, so that no node buffers outputs that are not consumed.

use super::data::KeySpan;
use bytes::Bytes;
use prost::encoding::{WireType, encode_varint, encoded_len_varint};

/// Maps records of the receiver: [`MapKeys`] -> [`MappedKeys`].
pub const METHOD_MAP: u16 = 0x0190;
/// Announces the end of a job: [`EndJob`], without an answer.
pub const METHOD_END_JOB: u16 = 0x0191;

/// A phase of a job, as nodes run it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct MapWork {
    /// Id of the job, unique among the jobs of all nodes.
    #[prost(bytes = "bytes", tag = "1")]
    pub job: Bytes,
    /// Index of the phase in the job.
    #[prost(uint32, tag = "2")]
    pub phase: u32,
    /// The map or link phase, as an external term in the notation of jobs.
    #[prost(bytes = "bytes", tag = "3")]
    pub function: Bytes,
    /// The reduce phase that follows, if the node is to reduce its outputs, in the same form.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub reduce: Option<Bytes>,
    /// True if one of the phases is a script, which may take long.
    #[prost(bool, tag = "5")]
    pub has_scripts: bool,
}

/// A range of a bucket's records to map. Instead of positions the answer has [`MapOutput`]s.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapSpan {
    /// The keys.
    #[prost(message, optional, tag = "1")]
    pub keys: Option<KeySpan>,
    /// The phase.
    #[prost(message, optional, tag = "2")]
    pub work: Option<MapWork>,
    /// Key filter that keys must pass, as an external term.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub filter: Option<Bytes>,
}

/// Maps records by name.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapKeys {
    /// The phase.
    #[prost(message, optional, tag = "1")]
    pub work: Option<MapWork>,
    /// Version of the oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// The records.
    #[prost(message, repeated, tag = "3")]
    pub inputs: Vec<MapInput>,
    /// Size in bytes of the objects read after which the receiver answers.
    #[prost(uint64, tag = "4")]
    pub bytes_max: u64,
}

/// A record to map.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapInput {
    /// Bucket type.
    #[prost(bytes = "bytes", tag = "1")]
    pub bucket_type: Bytes,
    /// Bucket.
    #[prost(bytes = "bytes", tag = "2")]
    pub bucket: Bytes,
    /// Key.
    #[prost(bytes = "bytes", tag = "3")]
    pub key: Bytes,
    /// Data of the job that belongs to the record, as an external term.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub data: Option<Bytes>,
}

/// Outputs of the first records of the request.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MappedKeys {
    /// Number of records that these outputs belong to.
    #[prost(uint32, tag = "1")]
    pub done_count: u32,
    /// The outputs; each is an encoded [`MapOutput`].
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub outputs: Vec<Bytes>,
}

/// Announces the end of a job.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EndJob {
    /// The job.
    #[prost(bytes = "bytes", tag = "1")]
    pub job: Bytes,
}

/// An output of a phase, or other information for the requester.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapOutput {
    /// The output.
    #[prost(oneof = "MapOutputKind", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    pub kind: Option<MapOutputKind>,
}

/// Kind of a [`MapOutput`].
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum MapOutputKind {
    /// A binary.
    #[prost(bytes = "bytes", tag = "1")]
    Value(Bytes),
    /// Another term, as an external term.
    #[prost(bytes = "bytes", tag = "2")]
    Term(Bytes),
    /// The name of a record.
    #[prost(message, tag = "3")]
    Key(MapInput),
    /// A whole object.
    #[prost(message, tag = "4")]
    Object(MapObject),
    /// Outputs of a script, as a JSON list.
    #[prost(bytes = "bytes", tag = "5")]
    List(Bytes),
    /// A record that was not mapped, because the node has no copy that it can read.
    #[prost(message, tag = "6")]
    Unread(MapInput),
    /// The phase or the key filter failed, which ends the job.
    #[prost(message, tag = "7")]
    Failed(MapFailure),
    /// Numbers of records mapped and read.
    #[prost(message, tag = "8")]
    Counts(MapCounts),
}

/// An object as an output.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapObject {
    /// Name of the object, with the data of the input.
    #[prost(message, optional, tag = "1")]
    pub input: Option<MapInput>,
    /// Stored form of the object.
    #[prost(bytes = "bytes", tag = "2")]
    pub object: Bytes,
}

/// Failure of a phase.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapFailure {
    /// Index of the phase; without meaning for a key filter.
    #[prost(uint32, tag = "1")]
    pub phase: u32,
    /// Description of the error.
    #[prost(string, tag = "2")]
    pub error: String,
    /// The input that was being mapped, as Erlang prints it.
    #[prost(string, tag = "3")]
    pub input: String,
    /// Stack trace of a script.
    #[prost(string, tag = "4")]
    pub stack: String,
    /// True if the key filter failed.
    #[prost(bool, tag = "5")]
    pub of_filter: bool,
}

/// Numbers of records mapped and read.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MapCounts {
    /// Number of inputs of the phase.
    #[prost(uint64, tag = "1")]
    pub inputs: u64,
    /// Number of objects read.
    #[prost(uint64, tag = "2")]
    pub reads: u64,
}

impl MapOutput {
    /// Encodes an output that is a binary, with one copy of its bytes.
    #[must_use]
    pub fn encoded_value(value: &[u8]) -> Bytes {
        let (tag, length) = (key_byte(1), value.len() as u64);
        let mut encoded = Vec::with_capacity(1 + encoded_len_varint(length) + value.len());
        encoded.push(tag);
        encode_varint(length, &mut encoded);
        encoded.extend_from_slice(value);
        encoded.into()
    }
}

/// Key of a length-delimited field with a tag below 16.
const fn key_byte(tag: u8) -> u8 {
    tag << 3 | WireType::LengthDelimited as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use prost::Message;

    #[test]
    fn a_value_is_encoded_as_any_output() {
        for size in [0, 1, 127, 128, 20_000] {
            let value = Bytes::from(vec![7; size]);
            let output = MapOutput { kind: Some(MapOutputKind::Value(value.clone())) };
            assert_eq!(MapOutput::encoded_value(&value), output.encode_to_vec(), "{size}");
        }
    }
}
