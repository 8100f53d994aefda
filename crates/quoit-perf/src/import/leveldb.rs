//! A writer of a LevelDB directory with sorted tables. Keys must be put in order.

use super::directories::{BUCKET, EncodedRecord};
use anyhow::Result;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Sizes at which a block and a table are full, in bytes.
const BLOCK_BYTES: usize = 4 << 10;
const TABLE_BYTES: u64 = 2 << 20;
/// The level of all tables.
const LEVEL: u64 = 2;
const MAGIC: u64 = 0xdb47_7524_8b80_fb57;
const FOOTER_BYTES: usize = 48;
const MASK_DELTA: u32 = 0xa282_ead8;
const SNAPPY: u8 = 1;
/// Type of an entry with a value, and type of a complete log record.
const VALUE: u64 = 1;
const FULL_RECORD: u8 = 1;
/// Tags of manifest edits: log number, next file number, last sequence number, new table.
const LOG_NUMBER: u64 = 2;
const NEXT_FILE: u64 = 3;
const LAST_SEQUENCE: u64 = 4;
const NEW_TABLE: u64 = 7;

/// An entry of a block.
struct BlockEntry<'a> {
    key: &'a [u8],
    value: &'a [u8],
}

/// A block that is being built.
#[derive(Default)]
struct Block {
    bytes: Vec<u8>,
    last_key: Vec<u8>,
}

impl Block {
    fn put(&mut self, entry: BlockEntry<'_>) {
        let BlockEntry { key, value } = entry;
        for number in [0, key.len(), value.len()] {
            varint(&mut self.bytes, number as u64);
        }
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(value);
        self.last_key = key.to_vec();
    }

    /// Completes the block with its only restart point, compresses it, and appends the trailer.
    fn finished(mut self) -> Result<Vec<u8>> {
        self.bytes.extend_from_slice(&0u32.to_le_bytes());
        self.bytes.extend_from_slice(&1u32.to_le_bytes());
        let mut stored = snap::raw::Encoder::new().compress_vec(&self.bytes)?;
        stored.push(SNAPPY);
        let checksum = masked(&stored);
        stored.extend_from_slice(&checksum.to_le_bytes());
        Ok(stored)
    }
}

/// A table that is being written.
struct Table {
    file: BufWriter<File>,
    at: u64,
    block: Block,
    index: Block,
    number: u64,
    smallest: Vec<u8>,
}

/// A writer of the tables of one partition.
pub(super) struct LevelDbWriter {
    directory: PathBuf,
    table: Option<Table>,
    next_number: u64,
    sequence: u64,
    /// The edits for the manifest, one for each table.
    edits: Vec<Vec<u8>>,
}

impl LevelDbWriter {
    pub(super) fn create(directory: &Path) -> Result<Self> {
        for level in 0..7 {
            std::fs::create_dir_all(directory.join(format!("sst_{level}")))?;
        }
        Ok(Self {
            directory: directory.to_owned(),
            table: None,
            next_number: 5,
            sequence: 0,
            edits: Vec::new(),
        })
    }

    pub(super) fn put(&mut self, record: &EncodedRecord) -> Result<()> {
        self.sequence += 1;
        let mut stored = sext_key(&record.key);
        stored.extend_from_slice(&(self.sequence << 8 | VALUE).to_le_bytes());
        if self.table.is_none() {
            self.table = Some(self.new_table(&stored)?);
        }
        let Some(table) = &mut self.table else { return Ok(()) };
        table.block.put(BlockEntry { key: &stored, value: &record.object });
        if table.block.bytes.len() >= BLOCK_BYTES {
            table.end_block()?;
        }
        if table.at >= TABLE_BYTES {
            self.end_table()?;
        }
        Ok(())
    }

    fn new_table(&mut self, smallest: &[u8]) -> Result<Table> {
        let number = self.next_number;
        self.next_number += 1;
        let name = format!("sst_{LEVEL}/{number:06}.sst");
        Ok(Table {
            file: BufWriter::new(File::create(self.directory.join(name))?),
            at: 0,
            block: Block::default(),
            index: Block::default(),
            number,
            smallest: smallest.to_vec(),
        })
    }

    fn end_table(&mut self) -> Result<()> {
        let Some(mut table) = self.table.take() else { return Ok(()) };
        if !table.block.bytes.is_empty() {
            table.end_block()?;
        }
        let largest = table.index.last_key.clone();
        let mut edit = Vec::new();
        for number in [NEW_TABLE, LEVEL, table.number, table.at] {
            varint(&mut edit, number);
        }
        for key in [&table.smallest, &largest] {
            varint(&mut edit, key.len() as u64);
            edit.extend_from_slice(key);
        }
        self.edits.push(edit);
        table.finish()
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.end_table()?;
        let mut numbers = Vec::new();
        let figures = [
            LOG_NUMBER,
            self.next_number,
            NEXT_FILE,
            self.next_number + 1,
            LAST_SEQUENCE,
            self.sequence,
        ];
        figures.into_iter().for_each(|number| varint(&mut numbers, number));
        self.edits.insert(0, numbers);
        // A log has blocks of 32 KiB. An edit that does not fit into the rest of a block begins the next
        // block.
        let mut manifest: Vec<u8> = Vec::new();
        for edit in &self.edits {
            let left = (32 << 10) - manifest.len() % (32 << 10);
            if left < edit.len() + 7 {
                manifest.resize(manifest.len() + left, 0);
            }
            let mut record = vec![FULL_RECORD];
            record.extend_from_slice(edit);
            manifest.extend_from_slice(&masked(&record).to_le_bytes());
            manifest.extend_from_slice(&u16::try_from(edit.len())?.to_le_bytes());
            manifest.extend_from_slice(&record);
        }
        std::fs::write(self.directory.join("MANIFEST-000002"), manifest)?;
        std::fs::write(self.directory.join("CURRENT"), "MANIFEST-000002\n")?;
        Ok(())
    }
}

impl Table {
    /// Writes a block. Returns its handle: position, and size without the trailer.
    fn write(&mut self, block: Block) -> Result<Vec<u8>> {
        let stored = block.finished()?;
        self.file.write_all(&stored)?;
        let mut handle = Vec::new();
        varint(&mut handle, self.at);
        varint(&mut handle, stored.len() as u64 - 5);
        self.at += stored.len() as u64;
        Ok(handle)
    }

    fn end_block(&mut self) -> Result<()> {
        let block = std::mem::take(&mut self.block);
        let last_key = block.last_key.clone();
        let handle = self.write(block)?;
        self.index.put(BlockEntry { key: &last_key, value: &handle });
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        let mut footer = self.write(Block::default())?;
        let index = std::mem::take(&mut self.index);
        footer.extend_from_slice(&self.write(index)?);
        footer.resize(FOOTER_BYTES - 8, 0);
        footer.extend_from_slice(&MAGIC.to_le_bytes());
        self.file.write_all(&footer)?;
        self.file.flush()?;
        Ok(())
    }
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(MASK_DELTA)
}

fn varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(quoit_number::low_u8(number) | 0x80);
        number >>= 7;
    }
    out.push(quoit_number::low_u8(number));
}

/// Encodes `{o, Bucket, Key}` as Riak's LevelDB backend does (sext).
fn sext_key(key: &[u8]) -> Vec<u8> {
    let mut encoded = vec![16, 0, 0, 0, 3, 12];
    elements(&mut encoded, b"o");
    for part in [BUCKET, key] {
        encoded.push(18);
        elements(&mut encoded, part);
    }
    encoded
}

/// Encodes each byte as nine bits, a one and the byte, pads with zero bits, and appends the byte 8.
fn elements(out: &mut Vec<u8>, bytes: &[u8]) {
    let (mut held, mut bits) = (0u64, 0);
    for byte in bytes {
        held = held << 9 | 0x100 | u64::from(*byte);
        bits += 9;
        while bits >= 8 {
            bits -= 8;
            out.push(quoit_number::low_u8(held >> bits));
        }
    }
    if !bytes.is_empty() {
        out.push(quoit_number::low_u8(held << (8 - bits)));
    }
    out.push(8);
}
