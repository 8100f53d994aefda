//! Writers of directories in Riak's formats, for measurements. Each record is in three of eight partitions.

use anyhow::Result;
use bytes::Bytes;
use clap::ValueEnum;
use quoit_model::bitcask_key::encode_bitcask_key;
use quoit_model::clock::{Actor, Dot, VersionVector};
use quoit_model::key::BucketRef;
use quoit_model::object::{Metadata, Object, Sibling};
use quoit_model::riak_object::encode_riak_object;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use super::leveldb::LevelDbWriter;
use super::leveled::LeveledWriter;

/// Number of copies of each record, in consecutive partitions.
pub(super) const COPIES: usize = 3;
/// Partition indexes of a ring of eight.
const PARTITIONS: [&str; 8] = [
    "0",
    "182687704666362864775460604089535377456991567872",
    "365375409332725729550921208179070754913983135744",
    "548063113999088594326381812268606132370974703616",
    "730750818665451459101842416358141509827966271488",
    "913438523331814323877303020447676887284957839360",
    "1096126227998177188652763624537212264741949407232",
    "1278813932664540053424228226628747642198940975104",
];
/// The bucket of all records.
pub(super) const BUCKET: &[u8] = b"bench";

/// The storage engine of the directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub(super) enum Engine {
    /// Data files without hint files.
    Bitcask,
    /// Tables of two megabytes, compressed with Snappy.
    Leveldb,
    /// Journals whose values are compressed with LZ4.
    Leveled,
}

impl Engine {
    pub(super) const ALL: [Self; 3] = [Self::Bitcask, Self::Leveldb, Self::Leveled];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Bitcask => "bitcask",
            Self::Leveldb => "leveldb",
            Self::Leveled => "leveled",
        }
    }
}

/// The writer of one partition.
enum Partition {
    Bitcask(BufWriter<File>),
    LevelDb(LevelDbWriter),
    Leveled(LeveledWriter),
}

impl Partition {
    fn create(engine: Engine, directory: &Path) -> Result<Self> {
        std::fs::create_dir_all(directory)?;
        Ok(match engine {
            Engine::Bitcask => {
                let file = File::create(directory.join("1.bitcask.data"))?;
                Self::Bitcask(BufWriter::with_capacity(1 << 20, file))
            }
            Engine::Leveldb => Self::LevelDb(LevelDbWriter::create(directory)?),
            Engine::Leveled => Self::Leveled(LeveledWriter::create(directory)?),
        })
    }

    fn put(&mut self, record: &EncodedRecord) -> Result<()> {
        match self {
            Self::Bitcask(file) => file.write_all(&bitcask_record(record)).map_err(Into::into),
            Self::LevelDb(writer) => writer.put(record),
            Self::Leveled(writer) => writer.put(record),
        }
    }

    fn finish(self) -> Result<()> {
        match self {
            Self::Bitcask(mut file) => file.flush().map_err(Into::into),
            Self::LevelDb(writer) => writer.finish(),
            Self::Leveled(writer) => writer.finish(),
        }
    }
}

/// The records of a directory.
#[derive(Clone, Copy)]
pub(super) struct RecordSet {
    /// Number of the records.
    pub(super) count: usize,
    /// Size of each value, in bytes.
    pub(super) value_bytes: usize,
}

/// A record in the form of Riak's files.
pub(super) struct EncodedRecord {
    pub(super) key: Vec<u8>,
    pub(super) object: Vec<u8>,
}

/// Writes a data directory with these records. Returns the total size of its files in bytes.
pub(super) fn write(engine: Engine, folder: &Path, records: RecordSet) -> Result<u64> {
    let mut partitions = Vec::new();
    for index in PARTITIONS {
        partitions.push(Partition::create(engine, &folder.join(engine.as_str()).join(index))?);
    }
    for number in 0..records.count {
        let record = records.record(number);
        for copy in 0..COPIES {
            partitions[(number + copy) % PARTITIONS.len()].put(&record)?;
        }
    }
    for partition in partitions {
        partition.finish()?;
    }
    size_of(folder)
}

fn size_of(folder: &Path) -> Result<u64> {
    let mut size = 0;
    for entry in std::fs::read_dir(folder)? {
        let about = entry?;
        let is_folder = about.file_type()?.is_dir();
        size += if is_folder { size_of(&about.path())? } else { about.metadata()?.len() };
    }
    Ok(size)
}

impl RecordSet {
    /// Makes the record of this number. All values differ, and half of each is compressible.
    fn record(self, number: usize) -> EncodedRecord {
        let dot = Dot {
            actor: Actor(b"bench-import"[..].into()),
            counter: 1 + number as u64 % 7,
            time_secs: 63_800_000_000,
        };
        let mut state = number as u64;
        let value: Vec<u8> = (0..self.value_bytes)
            .map(|at| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                if at % 2 == 0 { (state >> 56) as u8 } else { b'v' }
            })
            .collect();
        let sibling = Sibling {
            last_modified_us: 1_600_000_000_000_000 + number as u64,
            vtag: Bytes::from_static(b"5qcKUqa2vd3fCFoKxn8YXk"),
            meta: Metadata { content_type: Some("text/plain".into()), ..Metadata::default() },
            value: value.into(),
            ..Sibling::default()
        };
        let object = Object {
            clock: VersionVector::from_entries([dot]),
            siblings: [sibling].into_iter().collect(),
        };
        let mut encoded = Vec::new();
        encode_riak_object(&object, &mut encoded);
        EncodedRecord { key: format!("key-{number:010}").into_bytes(), object: encoded }
    }
}

fn bitcask_record(record: &EncodedRecord) -> Vec<u8> {
    let EncodedRecord { key, object } = record;
    let mut name = Vec::new();
    encode_bitcask_key(BucketRef::untyped(BUCKET).key(key), &mut name);
    let name_len = u16::try_from(name.len()).expect("names of records are short");
    let mut record = vec![0; 4];
    record.extend_from_slice(&1_600_000_000u32.to_be_bytes());
    record.extend_from_slice(&name_len.to_be_bytes());
    record.extend_from_slice(&quoit_number::length_u32(object.len()).to_be_bytes());
    record.extend_from_slice(&name);
    record.extend_from_slice(object);
    let checksum = crc32fast::hash(&record[4..]);
    record[..4].copy_from_slice(&checksum.to_be_bytes());
    record
}
