//! A cache of recent writes, beside the page cache.
//!
//! Records that were written recently are often read most, and the log has them in one contiguous range. A
//! window over the end of the log costs one copy for each write, needs no lookup table and evicts only its
//! oldest chunk, and serves a read without a system call. It wraps the files of the log and behaves like a
//! file.
//!
//! Large records are not kept: the copy would cost more than the system call that it saves, and a few of
//! them would evict all small records.

use parking_lot::{Mutex, RwLock};
use quoit_number::index;
use quoit_seam::{DiskError, DiskFile, ReadAt};
use std::collections::VecDeque;
use std::sync::Arc;

/// Size in bytes of a chunk, the unit in which memory is allocated and freed.
const CHUNK_BYTES: usize = 1 << 20;

/// One in this many bytes of a chunk: writes in parts of at least that size are not kept. A chunk keeps no
/// bytes behind such a write, because it has one contiguous range, so the size is not smaller.
const KEPT_PART: usize = 4;

/// Bytes of a file from the beginning of the chunk's range on; empty if the chunk was evicted.
#[derive(Default)]
struct RecentChunk(RwLock<Vec<u8>>);

/// Size of the window.
#[derive(Clone, Copy)]
struct WindowSize {
    chunk_bytes: usize,
    chunk_count_max: usize,
}

/// The chunks of all files, oldest first.
pub(super) struct RecentWrites {
    size: WindowSize,
    chunks: Mutex<VecDeque<Arc<RecentChunk>>>,
}

impl RecentWrites {
    /// A window of at most `size_bytes`, in whole mebibytes; `None` for less than one.
    pub(super) fn new(size_bytes: u64) -> Option<Arc<Self>> {
        let count = usize::try_from(size_bytes).unwrap_or(usize::MAX) / CHUNK_BYTES;
        let size = WindowSize { chunk_bytes: CHUNK_BYTES, chunk_count_max: count };
        (count > 0).then(|| Self::of_size(size))
    }

    fn of_size(size: WindowSize) -> Arc<Self> {
        Arc::new(Self { size, chunks: Mutex::default() })
    }

    /// Wraps a new, empty file of the log, whose writes the window keeps while they are recent.
    pub(super) fn watch(self: &Arc<Self>, file: Arc<dyn DiskFile>) -> Arc<dyn DiskFile> {
        Arc::new(RecentFile { file, window: Arc::clone(self), chunks: RwLock::default() })
    }

    /// Adds a chunk at the end of the window. Returns memory for it: that of the oldest chunk if the window
    /// is full.
    fn admit(&self, chunk: &Arc<RecentChunk>) -> Vec<u8> {
        let mut chunks = self.chunks.lock();
        let oldest =
            if chunks.len() >= self.size.chunk_count_max { chunks.pop_front() } else { None };
        chunks.push_back(Arc::clone(chunk));
        debug_assert!(chunks.len() <= self.size.chunk_count_max, "the window keeps to its bound");
        drop(chunks);
        match oldest {
            Some(oldest) => {
                let mut memory = std::mem::take(&mut *oldest.0.write());
                memory.clear();
                memory
            }
            None => Vec::with_capacity(self.size.chunk_bytes),
        }
    }
}

/// A file of the log with its chunks of the window.
struct RecentFile {
    file: Arc<dyn DiskFile>,
    window: Arc<RecentWrites>,
    /// Chunks by their position in the file.
    chunks: RwLock<Vec<Arc<RecentChunk>>>,
}

impl RecentFile {
    /// Number of the chunk that contains a byte, and the byte's offset in the chunk.
    fn split(&self, offset: u64) -> (usize, usize) {
        let chunk_bytes = self.window.size.chunk_bytes as u64;
        (index(offset / chunk_bytes), index(offset % chunk_bytes))
    }

    fn chunk(&self, number: usize) -> Option<Arc<RecentChunk>> {
        self.chunks.read().get(number).cloned()
    }

    /// Keeps bytes that were written to the file, if they continue or overwrite the kept bytes of their
    /// chunk.
    fn keep(&self, mut bytes: &[u8], mut offset: u64) {
        while !bytes.is_empty() {
            let (number, at) = self.split(offset);
            let size = bytes.len().min(self.window.size.chunk_bytes - at);
            let (these, behind) = bytes.split_at(size);
            if number == self.chunks.read().len() && at == 0 {
                self.chunks.write().push(Arc::default());
            }
            if let Some(chunk) = self.chunk(number) {
                let mut kept = chunk.0.write();
                if at == 0 && kept.capacity() == 0 {
                    drop(kept);
                    let memory = self.window.admit(&chunk);
                    kept = chunk.0.write();
                    *kept = memory;
                }
                if at <= kept.len() && kept.capacity() > 0 {
                    kept.truncate(at);
                    kept.extend_from_slice(these);
                    debug_assert!(
                        kept.len() <= self.window.size.chunk_bytes,
                        "a chunk has no bytes of the next one's range"
                    );
                }
            }
            bytes = behind;
            offset += size as u64;
        }
    }

    /// Notes a write that is not kept: forgets the bytes that it overwrote, and continues with the chunk
    /// after its end.
    fn pass_over(&self, size: u64, offset: u64) {
        self.forget_from(offset);
        let end_count = index((offset + size).div_ceil(self.window.size.chunk_bytes as u64));
        let mut chunks = self.chunks.write();
        let count = chunks.len().max(end_count);
        chunks.resize_with(count, Arc::default);
    }

    /// Forgets the kept bytes from an offset on.
    fn forget_from(&self, offset: u64) {
        let (number, at) = self.split(offset);
        let chunks = self.chunks.read();
        for (place, chunk) in chunks.iter().enumerate().skip(number) {
            chunk.0.write().truncate(if place == number { at } else { 0 });
        }
    }

    /// Fills the buffer with kept bytes. Returns false if not all of them are kept.
    #[expect(clippy::indexing_slicing, reason = "`size` is at most what the buffer lacks")]
    fn read_kept(&self, buffer: &mut [u8], offset: u64) -> bool {
        let mut done = 0;
        while done < buffer.len() {
            let (number, at) = self.split(offset + done as u64);
            let size = (buffer.len() - done).min(self.window.size.chunk_bytes - at);
            let Some(chunk) = self.chunk(number) else { return false };
            let kept = chunk.0.read();
            let Some(there) = kept.get(at..at + size) else { return false };
            buffer[done..done + size].copy_from_slice(there);
            done += size;
        }
        true
    }
}

impl DiskFile for RecentFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<usize, DiskError> {
        self.file.read_at(buffer, offset)
    }

    fn read_at_nowait(&self, buffer: &mut [u8], offset: u64) -> Result<ReadAt, DiskError> {
        if self.read_kept(buffer, offset) {
            return Ok(ReadAt::Kept);
        }
        self.file.read_at_nowait(buffer, offset)
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let written = self.file.write_at(bytes, offset);
        match &written {
            Ok(()) => self.keep(bytes, offset),
            // After a failed write the contents are unknown.
            Err(_) => self.forget_from(offset),
        }
        written
    }

    fn write_parts_at(&self, parts: &[&[u8]], offset: u64) -> Result<(), DiskError> {
        let written = self.file.write_parts_at(parts, offset);
        let size: usize = parts.iter().map(|part| part.len()).sum();
        match &written {
            Ok(()) if size >= self.window.size.chunk_bytes / KEPT_PART => {
                self.pass_over(size as u64, offset);
            }
            Ok(()) => {
                let mut at = offset;
                for part in parts {
                    self.keep(part, at);
                    at += part.len() as u64;
                }
            }
            Err(_) => self.forget_from(offset),
        }
        written
    }

    fn sync(&self) -> Result<(), DiskError> {
        self.file.sync()
    }

    fn size_bytes(&self) -> Result<u64, DiskError> {
        self.file.size_bytes()
    }

    fn truncate(&self, len: u64) -> Result<(), DiskError> {
        self.forget_from(len);
        self.file.truncate(len)
    }
}

#[cfg(test)]
mod tests;
