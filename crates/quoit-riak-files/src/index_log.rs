//! A log of the results of the first pass through a partition, from which an interrupted pass
//! continues.
//!
//! The file is a sequence of chunks: length (32 bits), XXH3 of the body (64 bits), body. The first
//! body is an XXH3 of the paths, sizes, inodes and times of the partition's files. Each further
//! body has the file and the offset that the pass has reached, and the changes of the index in
//! order. The log ends at a chunk that is not whole; the pass repeats the work of that chunk. All
//! numbers are little-endian.

use crate::RiakFilesError;
use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// Time after which a chunk is written, and so the maximum loss of work if the process ends.
const CHUNK_INTERVAL: Duration = Duration::from_secs(2);
/// Size in bytes from which a chunk is written.
const CHUNK_BYTES: usize = 4 << 20;
/// Number of notes between two reads of the clock.
const NOTES_PER_LOOK: u32 = 256;

/// Size of length and checksum in bytes.
const FRONT_BYTES: usize = 12;
/// Size in bytes of the file and offset that a chunk has reached.
const REACHED_BYTES: usize = 12;
/// Size of a change in bytes: hash, file, place.
const CHANGE_BYTES: usize = 28;
/// In place of a file's number: the key was removed.
const REMOVED: u32 = u32::MAX;

/// A change of the index.
pub(crate) enum Change {
    Put { hash: u128, file: u32, place: u64 },
    Remove { hash: u128 },
}

/// The log, open for appending.
pub(crate) struct IndexLog {
    path: PathBuf,
    file: File,
    pending: Vec<u8>,
    notes: u32,
    written_at: Instant,
    /// True if the pass has taken long enough that its last changes are written, too.
    is_kept: bool,
}

impl IndexLog {
    /// Opens the log of these files and applies its changes with `play`. If it belongs to other
    /// files, begins a new log. Returns the log, and the file and offset that it has reached.
    pub(crate) fn open(
        path: &Path,
        files: &[PathBuf],
        play: &mut dyn FnMut(Change),
    ) -> Result<(Self, (u32, u64)), RiakFilesError> {
        let identity = identity_of(files)?.to_le_bytes();
        let mut open = || {
            let mut options = OpenOptions::new();
            let mut file =
                options.read(true).write(true).create(true).truncate(false).open(path)?;
            let (mut reached, mut end) = ((0, 0), 0u64);
            let mut chunks = Chunks { file: &mut file };
            if chunks.next()?.is_some_and(|body| body == identity) {
                end += (FRONT_BYTES + identity.len()) as u64;
                while let Some(body) = chunks.next()? {
                    let Some(changes) = play_chunk(&body, play) else { break };
                    reached = changes;
                    end += (FRONT_BYTES + body.len()) as u64;
                }
            }
            file.set_len(end)?;
            file.seek(SeekFrom::End(0))?;
            if end == 0 {
                file.write_all(&chunk(&identity))?;
            }
            Ok((file, reached, reached != (0, 0)))
        };
        let (file, reached, is_kept) = open().map_err(RiakFilesError::io(path))?;
        let log = Self {
            path: path.to_owned(),
            file,
            pending: Vec::new(),
            notes: 0,
            written_at: Instant::now(),
            is_kept,
        };
        Ok((log, reached))
    }

    pub(crate) fn note(&mut self, change: &Change) {
        let (hash, file, place) = match *change {
            Change::Put { hash, file, place } => (hash, file, place),
            Change::Remove { hash } => (hash, REMOVED, 0),
        };
        self.pending.extend_from_slice(&hash.to_le_bytes());
        self.pending.extend_from_slice(&file.to_le_bytes());
        self.pending.extend_from_slice(&place.to_le_bytes());
    }

    /// Notes that all bytes before `offset` of `file` were read. Writes a chunk if it is due.
    pub(crate) fn reached(&mut self, file: u32, offset: u64) -> Result<(), RiakFilesError> {
        self.notes += 1;
        let is_time = self.notes.is_multiple_of(NOTES_PER_LOOK)
            && self.written_at.elapsed() >= CHUNK_INTERVAL;
        if is_time || self.pending.len() >= CHUNK_BYTES {
            self.write(file, offset)?;
        }
        Ok(())
    }

    /// Writes the last chunk. A pass that ends before its first chunk is due writes none.
    pub(crate) fn finish(mut self, file_count: u32) -> Result<(), RiakFilesError> {
        if self.is_kept { self.write(file_count, 0) } else { Ok(()) }
    }

    fn write(&mut self, file: u32, offset: u64) -> Result<(), RiakFilesError> {
        let mut body = Vec::with_capacity(REACHED_BYTES + self.pending.len());
        body.extend_from_slice(&file.to_le_bytes());
        body.extend_from_slice(&offset.to_le_bytes());
        body.append(&mut self.pending);
        self.file.write_all(&chunk(&body)).map_err(RiakFilesError::io(&self.path))?;
        self.written_at = Instant::now();
        self.is_kept = true;
        Ok(())
    }
}

/// Hash that identifies the files of a partition. It distinguishes them from files of other
/// partitions with the same names and sizes, and changes when the files change.
fn identity_of(files: &[PathBuf]) -> Result<u64, RiakFilesError> {
    let mut hasher = Xxh3::new();
    for path in files {
        let about = path.metadata().map_err(RiakFilesError::io(path))?;
        let absolute = std::path::absolute(path).map_err(RiakFilesError::io(path))?;
        hasher.update(absolute.as_os_str().as_encoded_bytes());
        hasher.update(&[0]);
        for number in [about.len(), about.ino()] {
            hasher.update(&number.to_le_bytes());
        }
        for number in [about.mtime(), about.mtime_nsec()] {
            hasher.update(&number.to_le_bytes());
        }
    }
    Ok(hasher.digest())
}

fn chunk(body: &[u8]) -> Vec<u8> {
    // A chunk is written once it has `CHUNK_BYTES`, so it exceeds that size by at most the changes
    // of one record or hint file.
    let len = u32::try_from(body.len()).unwrap_or(u32::MAX);
    let mut chunk = Vec::with_capacity(FRONT_BYTES + body.len());
    chunk.extend_from_slice(&len.to_le_bytes());
    chunk.extend_from_slice(&xxh3_64(body).to_le_bytes());
    chunk.extend_from_slice(body);
    chunk
}

/// Chunks of a log from the file's current position.
struct Chunks<'f> {
    file: &'f mut File,
}

impl Chunks<'_> {
    /// Body of the next chunk; `None` if there is no whole one.
    fn next(&mut self) -> std::io::Result<Option<Vec<u8>>> {
        let mut front = [0; FRONT_BYTES];
        match self.file.read_exact(&mut front) {
            Err(fault) if fault.kind() == ErrorKind::UnexpectedEof => return Ok(None),
            read => read?,
        }
        let len = u32::from_le_bytes([front[0], front[1], front[2], front[3]]);
        let mut body = Vec::new();
        Read::take(&mut *self.file, len.into()).read_to_end(&mut body)?;
        let is_whole =
            body.len() as u64 == u64::from(len) && front[4..] == xxh3_64(&body).to_le_bytes();
        Ok(is_whole.then_some(body))
    }
}

/// Applies the changes of a chunk. Returns the file and offset that it has reached; `None` if it is
/// malformed.
fn play_chunk(body: &[u8], play: &mut dyn FnMut(Change)) -> Option<(u32, u64)> {
    let (reached, changes) = body.split_at_checked(REACHED_BYTES)?;
    let (file, offset) = reached.split_first_chunk()?;
    let reached = (u32::from_le_bytes(*file), u64::from_le_bytes(*offset.first_chunk()?));
    let (changes, []) = changes.as_chunks::<CHANGE_BYTES>() else { return None };
    for change in changes {
        let (hash, rest) = change.split_first_chunk()?;
        let (file, place) = rest.split_first_chunk()?;
        let (hash, file) = (u128::from_le_bytes(*hash), u32::from_le_bytes(*file));
        play(match file {
            REMOVED => Change::Remove { hash },
            file => Change::Put { hash, file, place: u64::from_le_bytes(*place.first_chunk()?) },
        });
    }
    Some(reached)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn played(path: &Path, files: &[PathBuf]) -> (Vec<(u128, u32)>, (u32, u64)) {
        let mut changes = Vec::new();
        let mut play = |change| match change {
            Change::Put { hash, file, .. } => changes.push((hash, file)),
            Change::Remove { hash } => changes.push((hash, REMOVED)),
        };
        let (_, reached) = IndexLog::open(path, files, &mut play).expect("a log");
        (changes, reached)
    }

    #[test]
    fn what_was_written_is_played_up_to_the_first_chunk_that_is_damaged() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let (path, data) = (folder.path().join("log"), folder.path().join("1.bitcask.data"));
        std::fs::write(&data, b"data").expect("a file");
        let files = [data.clone()];
        let other = folder.path().join("2.bitcask.data");
        std::fs::write(&other, b"data").expect("a file");
        let (mut log, reached) = IndexLog::open(&path, &files, &mut |_| {}).expect("a new log");
        assert_eq!(reached, (0, 0));
        log.note(&Change::Put { hash: 7, file: 0, place: 3 });
        log.write(0, 10).expect("written");
        let whole = std::fs::metadata(&path).expect("the log").len();
        log.note(&Change::Remove { hash: 7 });
        log.finish(1).expect("written");
        assert_eq!(played(&path, &files), (vec![(7, 0), (7, REMOVED)], (1, 0)));
        let mut bytes = std::fs::read(&path).expect("the log");
        *bytes.last_mut().expect("bytes") ^= 1;
        std::fs::write(&path, &bytes).expect("a file");
        assert_eq!(played(&path, &files), (vec![(7, 0)], (0, 10)));
        assert_eq!(std::fs::metadata(&path).expect("the log").len(), whole, "the rest is cut off");
        assert_eq!(
            played(&path, &[other]),
            (vec![], (0, 0)),
            "these are other files of the same size"
        );
    }
}
