//! Messages by which the node that runs a MapReduce job has map phases run where replicas are.
//!
//! A node reads its own copies, applies the function of a phase and answers with what came of it. Records
//! that it can't answer for come back unread: the sender reads them elsewhere. A scan of
//! [`MapSpan`] maps the records of a bucket as it meets them; [`METHOD_MAP`] maps records by their names. An
//! answer has about as many bytes as its sender asks for, and the next one has to be asked for: so nothing
//! waits in between that nobody takes.

use super::data::KeySpan;
use bytes::Bytes;
use prost::encoding::{WireType, encode_varint, encoded_len_varint};

/// Maps records of the receiver: [`MapKeys`] -> [`MappedKeys`].
pub const METHOD_MAP: u16 = 0x0190;
/// Says that a job has ended: [`EndJob`], without an answer.
pub const METHOD_END_JOB: u16 = 0x0191;

/// A phase of a job, as nodes run it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, prost::Message)]
pub struct MapWork {
    /// The job: unique among those of all nodes.
    #[prost(bytes = "bytes", tag = "1")]
    pub job: Bytes,
    /// Place of the phase in the job.
    #[prost(uint32, tag = "2")]
    pub phase: u32,
    /// The map or link phase, an external term in the notation of jobs.
    #[prost(bytes = "bytes", tag = "3")]
    pub function: Bytes,
    /// The reduce phase behind it, if the node is to reduce what it has mapped, likewise.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub reduce: Option<Bytes>,
    /// Whether one of them is a script, which may take long.
    #[prost(bool, tag = "5")]
    pub has_scripts: bool,
}

/// Records of a bucket that are mapped: in the place of positions the answer has a [`MapOutput`] each.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapSpan {
    /// The keys.
    #[prost(message, optional, tag = "1")]
    pub keys: Option<KeySpan>,
    /// The phase.
    #[prost(message, optional, tag = "2")]
    pub work: Option<MapWork>,
    /// Only keys that this key filter accepts, an external term.
    #[prost(bytes = "bytes", optional, tag = "3")]
    pub filter: Option<Bytes>,
}

/// Maps records by their names.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapKeys {
    /// The phase.
    #[prost(message, optional, tag = "1")]
    pub work: Option<MapWork>,
    /// The oldest live layout that the sender knows.
    #[prost(uint64, tag = "2")]
    pub layout_version: u64,
    /// The records.
    #[prost(message, repeated, tag = "3")]
    pub inputs: Vec<MapInput>,
    /// Bytes of objects after which the receiver answers with what it has.
    #[prost(uint64, tag = "4")]
    pub bytes_max: u64,
}

/// A record that is mapped.
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
    /// Data of the job that belongs to it, an external term.
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub data: Option<Bytes>,
}

/// The outputs of the first of the records.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MappedKeys {
    /// How many of the records these outputs are of.
    #[prost(uint32, tag = "1")]
    pub done_count: u32,
    /// The outputs, a [`MapOutput`] each.
    #[prost(bytes = "bytes", repeated, tag = "2")]
    pub outputs: Vec<Bytes>,
}

/// Says that a job has ended.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct EndJob {
    /// The job.
    #[prost(bytes = "bytes", tag = "1")]
    pub job: Bytes,
}

/// One output of a phase, or what else its sender has to know.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapOutput {
    /// The output.
    #[prost(oneof = "MapOutputKind", tags = "1, 2, 3, 4, 5, 6, 7, 8")]
    pub kind: Option<MapOutputKind>,
}

/// Kind of a [`MapOutput`].
#[derive(Clone, PartialEq, Eq, prost::Oneof)]
pub enum MapOutputKind {
    /// An output that is a binary.
    #[prost(bytes = "bytes", tag = "1")]
    Value(Bytes),
    /// Any other term, an external one.
    #[prost(bytes = "bytes", tag = "2")]
    Term(Bytes),
    /// The name of a record.
    #[prost(message, tag = "3")]
    Key(MapInput),
    /// A whole object.
    #[prost(message, tag = "4")]
    Object(MapObject),
    /// Outputs of a script, a JSON list.
    #[prost(bytes = "bytes", tag = "5")]
    List(Bytes),
    /// A record that the node has no copy of that it could read: it was not mapped.
    #[prost(message, tag = "6")]
    Unread(MapInput),
    /// The phase, or the key filter, failed: the job ends.
    #[prost(message, tag = "7")]
    Failed(MapFailure),
    /// How much was done.
    #[prost(message, tag = "8")]
    Counts(MapCounts),
}

/// An object that is an output.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapObject {
    /// Its name, with the data of the input.
    #[prost(message, optional, tag = "1")]
    pub input: Option<MapInput>,
    /// Its stored form.
    #[prost(bytes = "bytes", tag = "2")]
    pub object: Bytes,
}

/// Why a phase failed.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub struct MapFailure {
    /// Place of the phase; of no meaning for a key filter.
    #[prost(uint32, tag = "1")]
    pub phase: u32,
    /// Description of the error.
    #[prost(string, tag = "2")]
    pub error: String,
    /// The input that it was doing, as Erlang prints it.
    #[prost(string, tag = "3")]
    pub input: String,
    /// Where in a script it happened.
    #[prost(string, tag = "4")]
    pub stack: String,
    /// Whether it was the key filter.
    #[prost(bool, tag = "5")]
    pub of_filter: bool,
}

/// How much was done.
#[derive(Clone, Copy, PartialEq, Eq, prost::Message)]
pub struct MapCounts {
    /// Records that the phase was given.
    #[prost(uint64, tag = "1")]
    pub inputs: u64,
    /// Objects that were read.
    #[prost(uint64, tag = "2")]
    pub reads: u64,
}

impl MapOutput {
    /// An encoded output that is a binary, with one copy of it.
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

/// The first byte of a field of bytes.
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
