//! The file that keeps references across a restart.
//!
//! Everything in it has 32 bytes, so that what a crash has torn spoils nothing but itself:
//!
//! ```text
//! byte  0  1  kind: 1 missed, 2 done, 3 whole partition missed, 4 whole partition done
//! byte  1  1  0
//! byte  2  2  partition
//! byte  4 16  id of the node that has missed it
//! byte 20  8  identity of the record; 0 for whole partitions
//! byte 28  4  the low half of XXH3-64 of all before
//! ```
//!
//! Numbers are little-endian. The first 32 bytes are magic "QUOITHN\n", format version 1 in 4 bytes,
//! zeros, and the same checksum. When most of the file is done with it is written anew beside the
//! old one.

use super::references::{HintReference, References};
use quoit_cluster::NodeId;
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_seam::{Disk, DiskFile, replace_file};
use quoit_store::error::StoreError;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

pub(super) const NAME: &str = "HINTS";
const MAGIC: [u8; 8] = *b"QUOITHN\n";
const VERSION: u32 = 1;
const ENTRY_BYTES: usize = 32;
/// A file is not written anew for less than this.
const SLACK_BYTES: u64 = 1 << 20;
/// Bytes read at once.
const READ_BYTES: usize = 64 << 10;

/// One line of the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HintLine {
    Missed(NodeId, HintReference),
    Done(NodeId, HintReference),
    WholeMissed(NodeId, Partition),
    WholeDone(NodeId, Partition),
}

impl HintLine {
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
        seal(&bytes, out);
    }

    /// `None` for bytes that are no entry.
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
    out.extend_from_slice(&(xxh3_64(bytes) as u32).to_le_bytes());
}

fn opened(bytes: &[u8]) -> Option<&[u8]> {
    let (content, checksum) = bytes.split_at_checked(ENTRY_BYTES - 4)?;
    (checksum == (xxh3_64(content) as u32).to_le_bytes()).then_some(content)
}

pub(super) fn header() -> Vec<u8> {
    let mut bytes = [0; ENTRY_BYTES - 4];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    let mut out = Vec::new();
    seal(&bytes, &mut out);
    out
}

/// The open file.
pub(super) struct HintFile {
    disk: Arc<dyn Disk>,
    /// `None` before it is written for the first time.
    file: Option<Arc<dyn DiskFile>>,
    size_bytes: u64,
}

impl HintFile {
    /// Reads what there is. Entries that are damaged are left out.
    ///
    /// # Errors
    ///
    /// When the disk refuses, or the file is not ours or of a newer release.
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
            for (place, bytes) in buffer[..count].chunks_exact(ENTRY_BYTES).enumerate() {
                if opened.size_bytes == 0 && place == 0 {
                    opened.check_header(bytes)?;
                    continue;
                }
                match HintLine::read(bytes) {
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
                "hints were lost: anti-entropy finds what they stood for"
            );
        }
        // An empty one has no header yet: it is written anew.
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

    /// Whether most of the file is done with when so many references are left.
    pub(super) const fn is_bloated(&self, left_count: usize) -> bool {
        self.size_bytes > SLACK_BYTES + 2 * (left_count * ENTRY_BYTES) as u64
    }

    /// Whether entries can be appended.
    pub(super) const fn is_written(&self) -> bool {
        self.file.is_some()
    }

    /// Appends entries, durably.
    ///
    /// # Errors
    ///
    /// When the disk refuses: the file has to be written anew then.
    pub(super) fn append(&mut self, entries: &[u8]) -> Result<(), StoreError> {
        let Some(file) = &self.file else { return Ok(()) };
        file.write_at(entries, self.size_bytes)?;
        file.sync()?;
        self.size_bytes += entries.len() as u64;
        Ok(())
    }

    /// Writes the file anew, durably, with these entries in it.
    ///
    /// # Errors
    ///
    /// When the disk refuses: what was there before still counts.
    pub(super) fn rewrite(&mut self, entries: &[u8]) -> Result<(), StoreError> {
        let mut bytes = header();
        bytes.extend_from_slice(entries);
        let file = replace_file(&*self.disk, NAME, &bytes)?;
        self.size_bytes = bytes.len() as u64;
        self.file = Some(file);
        Ok(())
    }
}
