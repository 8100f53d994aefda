//! Keys in memory of a segment that has no key file yet.

use crate::error::StoreError;
use crate::file_names::keys_name;
use crate::keyfile::{
    KeyFile, KeyFileWriter, KeyMerge, KeyRun, KeyRunBuilder, KeySource, KeyWrite,
};
use parking_lot::Mutex;
use quoit_model::key::BucketRef;
use quoit_seam::{Disk, yield_to_requests};
use std::sync::{Arc, OnceLock};

/// Memory in bytes at which a chunk is closed, after which it can be sorted without the lock.
const CHUNK_BYTES: usize = 256 * 1024;
/// Number of entries of a key file after which its writer yields to requests: some ten microseconds.
const YIELD_INTERVAL: u32 = 64;

/// Keys in the order of their writes, in chunks. A listing sorts each closed chunk once, and sorts a copy
/// of the open chunk. Writers wait only while it copies the open chunk.
pub(super) struct ActiveKeys {
    segment: u32,
    chunks: Mutex<Chunks>,
}

#[derive(Default)]
struct Chunks {
    closed: Vec<Arc<KeyFileChunk>>,
    closed_bytes: usize,
    sequence_min: Option<u64>,
    open: KeyRunBuilder,
}

struct KeyFileChunk {
    unsorted: Mutex<Option<KeyRunBuilder>>,
    sorted: OnceLock<Arc<KeyRun>>,
}

impl KeyFileChunk {
    fn sorted(&self, segment: u32) -> Arc<KeyRun> {
        let sort = || {
            let builder = self.unsorted.lock().take().unwrap_or_default();
            Arc::new(builder.sort(segment))
        };
        Arc::clone(self.sorted.get_or_init(sort))
    }
}

impl ActiveKeys {
    pub(super) fn new(segment: u32) -> Self {
        Self { segment, chunks: Mutex::default() }
    }

    /// Number of the segment.
    pub(super) fn segment(&self) -> u32 {
        self.segment
    }

    /// Adds a key. Only one thread at a time may add keys.
    pub(super) fn push(&self, encoded: &[u8], facts: &KeyWrite) {
        let mut chunks = self.chunks.lock();
        let sequence_min = chunks.sequence_min.unwrap_or(u64::MAX).min(facts.sequence);
        chunks.sequence_min = Some(sequence_min);
        chunks.open.push(encoded, facts);
        if chunks.open.memory_bytes() >= CHUNK_BYTES {
            let full = std::mem::take(&mut chunks.open);
            chunks.closed_bytes += full.memory_bytes();
            let chunk = KeyFileChunk { unsorted: Mutex::new(Some(full)), sorted: OnceLock::new() };
            chunks.closed.push(Arc::new(chunk));
        }
    }

    /// Memory of the keys in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.lock();
        chunks.closed_bytes + chunks.open.memory_bytes()
    }

    /// Writes the segment's key file, durably, and opens it.
    pub(super) fn write_file(&self, disk: &dyn Disk) -> Result<Arc<KeyFile>, StoreError> {
        let name = keys_name(self.segment);
        let sources = self.runs().into_iter().map(KeySource::Run).collect();
        let start = BucketRef { bucket_type: &[], bucket: &[] }.key(&[]);
        let mut merge = KeyMerge::new(sources, start)?;
        let base = self.chunks.lock().sequence_min.unwrap_or(0);
        let mut writer = KeyFileWriter::create(disk, &name, self.segment, base)?;
        let mut entry_count = 0_u32;
        while let Some(merged) = merge.next_entry()? {
            writer.push(&merged.entry)?;
            entry_count = entry_count.wrapping_add(1);
            if entry_count.is_multiple_of(YIELD_INTERVAL) {
                yield_to_requests();
            }
        }
        writer.finish()?;
        KeyFile::open(disk, &name).map(Arc::new)
    }

    /// All keys as sorted runs.
    pub(super) fn runs(&self) -> Vec<Arc<KeyRun>> {
        let (closed, open) = {
            let chunks = self.chunks.lock();
            (chunks.closed.clone(), chunks.open.clone())
        };
        let sorted = |chunk: &Arc<KeyFileChunk>| {
            yield_to_requests();
            chunk.sorted(self.segment)
        };
        let mut runs: Vec<_> = closed.iter().map(sorted).collect();
        if !open.is_empty() {
            runs.push(Arc::new(open.sort(self.segment)));
        }
        runs
    }
}
