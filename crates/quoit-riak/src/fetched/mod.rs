//! Entries that are fetched from a queue: the bytes of an object, or of a reap, with its names.
//!
//! | bytes | field |
//! | --- | --- |
//! | 1 | bits 7 to 4: version 1; bit 3: the object is compressed; bit 2: a reap |
//! | 4 + n | bucket type; no bytes for untyped buckets |
//! | 4 + n | bucket |
//! | 4 + n | key |
//! | rest | the object in version 1 of its stored form, or 3 × 4 bytes of time and the tombstone's clock |
//!
//! Over HTTP other fields come before these bytes: see [`FetchAnswer`].

use bytes::Bytes;
use flate2::read::ZlibDecoder;
use flate2::write::ZlibEncoder;
use flate2::{Compression, Crc};
use quoit_model::clock::VersionVector;
use quoit_model::etf::Limits;
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_model::object::Object;
use quoit_model::riak_clock::{RiakClockError, decode_riak_clock, encode_riak_clock};
use quoit_model::riak_object::{RiakObjectError, decode_riak_object, encode_riak_object};
use quoit_number::length_u32;
use std::io::{Read, Write};
use thiserror::Error;

const VERSION: u8 = 1 << 4;
const VERSION_MASK: u8 = 0xf0;
const COMPRESSED: u8 = 1 << 3;
const REAP: u8 = 1 << 2;

/// Maximum bytes of an object after decompression.
pub const INFLATED_BYTES_MAX: u64 = 256 << 20;

/// Reason why bytes are no entry of a queue.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum FetchedError {
    /// The bytes end too early.
    #[error("the answer of the queue is cut off at byte {at}")]
    Truncated {
        /// Offset of the field that is incomplete.
        at: usize,
    },
    /// Unknown version.
    #[error(
        "the answer of the queue begins with byte {first:#04x}; version 1 begins with 0x1 and flags"
    )]
    UnknownVersion {
        /// The first byte.
        first: u8,
    },
    /// The checksum does not match.
    #[error("checksum {told:#010x} belongs to other bytes, whose checksum is {computed:#010x}")]
    Checksum {
        /// Checksum that was received.
        told: u32,
        /// Checksum of the received bytes.
        computed: u32,
    },
    /// The compressed object is damaged or too large.
    #[error("the compressed object is damaged, or has more than {INFLATED_BYTES_MAX} bytes")]
    Compression,
    /// The object can't be read.
    #[error(transparent)]
    Object(#[from] RiakObjectError),
    /// The clock can't be read.
    #[error(transparent)]
    Clock(#[from] RiakClockError),
}

/// A record that is replicated, or a tombstone that is reaped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fetched {
    /// Bucket type; `default` for untyped buckets.
    pub bucket_type: Bytes,
    /// Bucket.
    pub bucket: Bytes,
    /// Key.
    pub key: Bytes,
    /// Replicated content.
    pub content: Replicated,
}

/// Replicated content of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all entries are objects")]
pub enum Replicated {
    /// The whole object.
    Object(Object),
    /// Its tombstone is reaped.
    Reap {
        /// Time of the reap, microseconds since 1970.
        time_us: u64,
        /// Clock of the tombstone.
        clock: VersionVector,
    },
}

impl Fetched {
    /// Encodes the entry. With `compresses`, an object that is not a tombstone is compressed.
    #[must_use]
    pub fn encode(&self, compresses: bool) -> Bytes {
        let mut body = Vec::new();
        let (flags, compresses) = match &self.content {
            Replicated::Object(object) => {
                encode_riak_object(object, &mut body);
                (0, compresses && !object.is_tombstone())
            }
            Replicated::Reap { time_us, clock } => {
                put_time(*time_us, &mut body);
                encode_riak_clock(clock, &mut body);
                (REAP, false)
            }
        };
        let flags = if compresses { flags | COMPRESSED } else { flags };
        let mut out = vec![VERSION | flags];
        let untyped = self.bucket_type == DEFAULT_BUCKET_TYPE;
        let bucket_type = if untyped { &[][..] } else { &self.bucket_type };
        for name in [bucket_type, &self.bucket, &self.key] {
            out.extend_from_slice(&length_u32(name.len()).to_be_bytes());
            out.extend_from_slice(name);
        }
        if compresses {
            let mut encoder = ZlibEncoder::new(out, Compression::default());
            let done = encoder.write_all(&body).and_then(|()| encoder.finish());
            return done.expect("memory takes all bytes").into();
        }
        out.extend_from_slice(&body);
        out.into()
    }

    /// Decodes an entry.
    ///
    /// # Errors
    ///
    /// Bytes that are cut off, damaged, or of another version.
    pub fn decode(bytes: &Bytes) -> Result<Self, FetchedError> {
        let mut rest = InputReader { bytes: bytes.clone(), at: 0 };
        let [first] = rest.array()?;
        if first & VERSION_MASK != VERSION {
            return Err(FetchedError::UnknownVersion { first });
        }
        let bucket_type = rest.sized()?;
        let untyped = bucket_type.is_empty();
        let bucket_type =
            if untyped { Bytes::from_static(DEFAULT_BUCKET_TYPE) } else { bucket_type };
        let (bucket, key) = (rest.sized()?, rest.sized()?);
        let content = if first & REAP > 0 {
            let time_us = rest.time_us()?;
            Replicated::Reap { time_us, clock: decode_riak_clock(&rest.left(), &Limits::STORED)? }
        } else {
            let body = rest.left();
            let body = if first & COMPRESSED > 0 { inflate(&body)? } else { body };
            Replicated::Object(decode_riak_object(&body)?)
        };
        Ok(Self { bucket_type, bucket, key, content })
    }
}

fn inflate(compressed: &[u8]) -> Result<Bytes, FetchedError> {
    let mut body = Vec::new();
    let mut bounded = ZlibDecoder::new(compressed).take(INFLATED_BYTES_MAX + 1);
    match bounded.read_to_end(&mut body) {
        Ok(size_bytes) if size_bytes as u64 <= INFLATED_BYTES_MAX => Ok(body.into()),
        _ => Err(FetchedError::Compression),
    }
}

/// Checksum of an entry's bytes.
#[must_use]
pub fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

/// Compares a received checksum with that of the bytes.
///
/// # Errors
///
/// [`FetchedError::Checksum`].
pub fn check(bytes: &[u8], told: u32) -> Result<(), FetchedError> {
    let computed = checksum(bytes);
    if computed == told { Ok(()) } else { Err(FetchedError::Checksum { told, computed }) }
}

/// A non-empty answer of a queue over HTTP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FetchAnswer {
    /// Clock of a tombstone as an external term.
    pub tombstone_clock: Option<Bytes>,
    /// Segment and value in a tree, if the request asks for them.
    pub tree_entry: Option<(u32, u32)>,
    /// Encoded [`Fetched`].
    pub replicated: Bytes,
}

/// Body of the answer of an empty queue.
pub const EMPTY_QUEUE_BODY: &[u8] = &[0];

impl FetchAnswer {
    /// Encodes the body: a byte 1; a byte 1 for tombstones, otherwise 0; segment and value of 4 bytes
    /// each, if there; for a tombstone 4 bytes of length and its clock; 4 bytes of checksum; the entry.
    #[must_use]
    pub fn to_body(&self) -> Bytes {
        let mut out = vec![1, u8::from(self.tombstone_clock.is_some())];
        if let Some((segment, value)) = self.tree_entry {
            out.extend_from_slice(&segment.to_be_bytes());
            out.extend_from_slice(&value.to_be_bytes());
        }
        if let Some(clock) = &self.tombstone_clock {
            out.extend_from_slice(&length_u32(clock.len()).to_be_bytes());
            out.extend_from_slice(clock);
        }
        out.extend_from_slice(&checksum(&self.replicated).to_be_bytes());
        out.extend_from_slice(&self.replicated);
        out.into()
    }

    /// Decodes a body whose request did not ask for segments; `None` if the queue is empty.
    ///
    /// # Errors
    ///
    /// Bodies that are cut off, or have a wrong checksum.
    pub fn of_body(body: &Bytes) -> Result<Option<Self>, FetchedError> {
        let mut rest = InputReader { bytes: body.clone(), at: 0 };
        if rest.array() == Ok([0]) {
            return Ok(None);
        }
        let [is_tombstone] = rest.array()?;
        let tombstone_clock = (is_tombstone > 0).then(|| rest.sized()).transpose()?;
        let told = u32::from_be_bytes(rest.array()?);
        let replicated = rest.left();
        check(&replicated, told)?;
        Ok(Some(Self { tombstone_clock, tree_entry: None, replicated }))
    }
}

const MICROS: u64 = 1_000_000;

fn put_time(time_us: u64, out: &mut Vec<u8>) {
    let secs = time_us / MICROS;
    for part in [secs / MICROS, secs % MICROS, time_us % MICROS] {
        out.extend_from_slice(&u32::try_from(part).unwrap_or(u32::MAX).to_be_bytes());
    }
}

/// A reader of the input, with the bytes that it has not read yet.
struct InputReader {
    bytes: Bytes,
    at: usize,
}

impl InputReader {
    fn take(&mut self, len: usize) -> Result<Bytes, FetchedError> {
        if len > self.bytes.len() {
            return Err(FetchedError::Truncated { at: self.at });
        }
        self.at += len;
        Ok(self.bytes.split_to(len))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FetchedError> {
        let at = self.at;
        self.take(N)?.as_ref().try_into().map_err(|_| FetchedError::Truncated { at })
    }

    fn sized(&mut self) -> Result<Bytes, FetchedError> {
        let len = u32::from_be_bytes(self.array()?);
        self.take(len as usize)
    }

    fn time_us(&mut self) -> Result<u64, FetchedError> {
        let mut part = || self.array().map(|bytes| u64::from(u32::from_be_bytes(bytes)));
        let (mega, secs, micros) = (part()?, part()?, part()?);
        Ok((mega * MICROS + secs).saturating_mul(MICROS).saturating_add(micros))
    }

    fn left(self) -> Bytes {
        self.bytes
    }
}

#[cfg(test)]
mod tests;
