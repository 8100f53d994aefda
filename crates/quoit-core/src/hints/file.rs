//! The file that keeps references across a restart.
//!
//! It is a log of entries of 32 bytes each, so that a torn or damaged entry does not affect the others:
//!
//! ```text
//! byte  0  1  kind: 1 missed, 2 done, 3 whole partition missed, 4 whole partition done
//! byte  1  1  0
//! byte  2  2  partition
//! byte  4 16  id of the node that has missed it
//! byte 20  8  identity of the record; 0 for whole partitions
//! byte 28  4  low half of the XXH3-64 of the bytes before
//! ```
//!
//! Numbers are little-endian. The first 32 bytes are the magic "QUOITHN\n", the format version 1 in 4
//! bytes, zeros, and the same checksum. When most entries are obsolete, the file is rewritten beside the
//! old one and renamed over it.

use super::references::{HintReference, References};
use crate::appended::appended;
use quoit_cluster::NodeId;
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_number::low_u32;
use quoit_seam::{Disk, DiskFile, replace_file};
use quoit_store::error::StoreError;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

pub(super) const NAME: &str = "HINTS";
const MAGIC: [u8; 8] = *b"QUOITHN\n";
const VERSION: u32 = 1;
const ENTRY_BYTES: usize = 32;
/// Bytes by which a file may exceed twice the size of its open references before it is rewritten.
const SLACK_BYTES: u64 = 1 << 20;
/// Bytes that are read in one call.
const READ_BYTES: usize = 64 << 10;
const _: () = assert!(READ_BYTES.is_multiple_of(ENTRY_BYTES), "a read has whole entries");

/// An entry of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HintEntry {
    Missed(NodeId, HintReference),
    Done(NodeId, HintReference),
    WholeMissed(NodeId, Partition),
    WholeDone(NodeId, Partition),
}

impl HintEntry {
    pub(super) fn append_to(self, out: &mut Vec<u8>) {
        let (kind, to, partition, identity) = match self {
            Self::Missed(to, (partition, identity)) => (1, to, partition, identity),
            Self::Done(to, (partition, identity)) => (2, to, partition, identity),
            Self::WholeMissed(to, partition) => (3, to, partition, Identity(0)),
            Self::WholeDone(to, partition) => (4, to, partition, Identity(0)),
        };
        let mut bytes = [0; ENTRY_BYTES - 4];
        bytes[0] = kind;
        bytes[2..4].copy_from_slice(&partition.0.to_le_bytes());
        bytes[4..20].copy_from_slice(&to.0);
        bytes[20..28].copy_from_slice(&identity.0.to_le_bytes());
        let start = out.len();
        seal(&bytes, out);
        debug_assert_eq!(
            Self::read(appended(out, start)),
            Some(self),
            "an entry reads as it was written"
        );
    }

    /// Reads an entry; `None` if the checksum or the kind is wrong.
    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes = opened(bytes)?;
        let partition = Partition(u16::from_le_bytes(bytes[2..4].try_into().ok()?));
        let to = NodeId(bytes[4..20].try_into().ok()?);
        let identity = Identity(u64::from_le_bytes(bytes[20..28].try_into().ok()?));
        Some(match bytes[0] {
            1 => Self::Missed(to, (partition, identity)),
            2 => Self::Done(to, (partition, identity)),
            3 => Self::WholeMissed(to, partition),
            4 => Self::WholeDone(to, partition),
            _ => return None,
        })
    }

    fn partition(self) -> Partition {
        match self {
            Self::Missed(_, (partition, _)) | Self::Done(_, (partition, _)) => partition,
            Self::WholeMissed(_, partition) | Self::WholeDone(_, partition) => partition,
        }
    }

    fn apply(self, references: &mut References) {
        match self {
            Self::Missed(to, reference) => references.restore(to, reference),
            Self::Done(to, reference) => references.forget(to, reference),
            Self::WholeMissed(to, partition) => references.note_whole(to, partition),
            Self::WholeDone(to, partition) => references.forget_whole(to, partition),
        }
    }
}

pub(super) fn seal(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
    out.extend_from_slice(&checksum_of(bytes));
}

fn opened(bytes: &[u8]) -> Option<&[u8; ENTRY_BYTES - 4]> {
    let (content, checksum) = bytes.split_first_chunk::<{ ENTRY_BYTES - 4 }>()?;
    (checksum == checksum_of(content)).then_some(content)
}

fn checksum_of(bytes: &[u8]) -> [u8; 4] {
    low_u32(xxh3_64(bytes)).to_le_bytes()
}

pub(super) fn header() -> Vec<u8> {
    let mut bytes = [0; ENTRY_BYTES - 4];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let mut out = Vec::new();
    seal(&bytes, &mut out);
    out
}

/// The file of hints, open for appending.
pub(super) struct HintFile {
    disk: Arc<dyn Disk>,
    /// `None` before it is written for the first time.
    file: Option<Arc<dyn DiskFile>>,
    size_bytes: u64,
}

impl HintFile {
    /// Opens the file, if there is one, and applies its entries to `references`. Skips damaged entries.
    ///
    /// # Errors
    ///
    /// If the disk fails, or if the file is not a hint file or has a newer format.
    pub(super) fn open(
        disk: Arc<dyn Disk>,
        ring_size: RingSize,
        references: &mut References,
    ) -> Result<Self, StoreError> {
        let mut opened = Self { disk, file: None, size_bytes: 0 };
        if !opened.disk.list()?.iter().any(|name| name == NAME) {
            return Ok(opened);
        }
        let file = opened.disk.open(NAME, false)?;
        let mut buffer = vec![0; READ_BYTES];
        let mut damaged_count = 0_u64;
        loop {
            let count = file.read_at(&mut buffer, opened.size_bytes)?;
            let entries = buffer.chunks_exact(ENTRY_BYTES).take(count / ENTRY_BYTES);
            for (place, bytes) in entries.enumerate() {
                if opened.size_bytes == 0 && place == 0 {
                    opened.check_header(bytes)?;
                    continue;
                }
                match HintEntry::read(bytes) {
                    Some(entry) if entry.partition().0 < ring_size.get() => entry.apply(references),
                    Some(_) | None => damaged_count += 1,
                }
            }
            opened.size_bytes += (count - count % ENTRY_BYTES) as u64;
            if count < READ_BYTES {
                break;
            }
        }
        if damaged_count > 0 {
            tracing::warn!(
                damaged_count,
                "hints were lost: anti-entropy will find the writes that they referred to"
            );
        }
        // A file without a whole header is rewritten.
        opened.file = (opened.size_bytes > 0).then_some(file);
        Ok(opened)
    }

    fn check_header(&self, bytes: &[u8]) -> Result<(), StoreError> {
        let fault = |reason: &str| StoreError::Corrupt {
            path: format!("{}/{NAME}", self.disk.path()),
            offset: 0,
            reason: format!("{reason}; move it away to start without hints"),
        };
        match opened(bytes) {
            Some(content) if content.starts_with(&MAGIC) => {
                let version =
                    u32::from_le_bytes([content[8], content[9], content[10], content[11]]);
                (version == VERSION).then_some(()).ok_or_else(|| fault("of a newer release"))
            }
            _ => Err(fault("not a file of hints")),
        }
    }

    /// True if most of the file's entries are obsolete when this many references are left.
    pub(super) const fn is_bloated(&self, left_count: usize) -> bool {
        self.size_bytes > SLACK_BYTES + 2 * (left_count * ENTRY_BYTES) as u64
    }

    /// True if entries can be appended.
    pub(super) const fn is_written(&self) -> bool {
        self.file.is_some()
    }

    /// Appends entries and syncs them.
    ///
    /// # Errors
    ///
    /// If the disk fails. The file has to be rewritten then.
    pub(super) fn append(&mut self, entries: &[u8]) -> Result<(), StoreError> {
        let Some(file) = &self.file else { return Ok(()) };
        debug_assert!(
            entries.len().is_multiple_of(ENTRY_BYTES)
                && self.size_bytes.is_multiple_of(ENTRY_BYTES as u64),
            "entries begin at multiples of their size, also behind a torn one"
        );
        file.write_at(entries, self.size_bytes)?;
        file.sync()?;
        self.size_bytes += entries.len() as u64;
        Ok(())
    }

    /// Replaces the file by one with these entries, durably.
    ///
    /// # Errors
    ///
    /// If the disk fails. Then the former file or the new one is in place, and the file has to be
    /// rewritten.
    pub(super) fn rewrite(&mut self, entries: &[u8]) -> Result<(), StoreError> {
        let mut bytes = header();
        bytes.extend_from_slice(entries);
        debug_assert_eq!(bytes.len() % ENTRY_BYTES, 0, "the head is as long as an entry");
        let file = replace_file(&*self.disk, NAME, &bytes)?;
        self.size_bytes = bytes.len() as u64;
        self.file = Some(file);
        Ok(())
    }
}
