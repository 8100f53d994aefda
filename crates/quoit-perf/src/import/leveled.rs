//! A writer of a leveled directory: one journal that is still open for writing, with LZ4-compressed values.

use super::directories::{BUCKET, EncodedRecord};
use anyhow::Result;
use bytes::Bytes;
use quoit_model::etf::{Term, put_binary, put_integer, put_tuple_header};
use quoit_number::length_u32;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Size of the header, where a complete journal has the positions of its hash tables.
const TABLES_BYTES: usize = 2048;
/// Last byte of a value, as flags: compressed, a binary, by LZ4.
const KIND: u8 = 1 | 2 | 4;
/// Version byte of Erlang's external term format.
const ETF_VERSION: u8 = 131;

/// A writer of the journal of one partition.
pub(super) struct LeveledWriter {
    file: BufWriter<File>,
    number: u64,
}

impl LeveledWriter {
    pub(super) fn create(directory: &Path) -> Result<Self> {
        let journals = directory.join("journal").join("journal_files");
        std::fs::create_dir_all(&journals)?;
        let name = "0_01234567-89ab-cdef-0123-456789abcdef.pnd";
        let mut file = BufWriter::with_capacity(1 << 20, File::create(journals.join(name))?);
        file.write_all(&[0; TABLES_BYTES])?;
        Ok(Self { file, number: 0 })
    }

    pub(super) fn put(&mut self, record: &EncodedRecord) -> Result<()> {
        let EncodedRecord { key, object } = record;
        self.number += 1;
        let key = journal_key(self.number, key);
        let mut value = length_u32(object.len()).to_le_bytes().to_vec();
        value.extend_from_slice(&lz4_flex::block::compress(object));
        // There are no key changes for the ledger.
        value.extend_from_slice(&0u32.to_be_bytes());
        value.push(KIND);
        let mut checksum = crc32fast::Hasher::new();
        checksum.update(&key);
        checksum.update(&value);
        self.file.write_all(&length_u32(key.len()).to_le_bytes())?;
        self.file.write_all(&length_u32(value.len() + 4).to_le_bytes())?;
        self.file.write_all(&key)?;
        self.file.write_all(&checksum.finalize().to_be_bytes())?;
        self.file.write_all(&value)?;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.file.flush().map_err(Into::into)
    }
}

/// Encodes the term `{Number, stnd, {o_rkv, Bucket, Key, null}}`.
fn journal_key(number: u64, key: &[u8]) -> Vec<u8> {
    let atom = |name: &'static [u8]| Term::Atom(Bytes::from_static(name));
    let mut out = vec![ETF_VERSION];
    put_tuple_header(&mut out, 3);
    put_integer(&mut out, number.into());
    quoit_model::etf::put_term(&mut out, &atom(b"stnd"));
    put_tuple_header(&mut out, 4);
    quoit_model::etf::put_term(&mut out, &atom(b"o_rkv"));
    put_binary(&mut out, BUCKET);
    put_binary(&mut out, key);
    quoit_model::etf::put_term(&mut out, &atom(b"null"));
    out
}
