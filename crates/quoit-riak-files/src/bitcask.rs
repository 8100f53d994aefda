//! Reader of Bitcask: data files with records in the order of their writing, and hint files that
//! list them.
//!
//! A record has a checksum, a time, the sizes of key and value, the key and the value. The last
//! record of a key is its newest version; a value that begins with [`TOMBSTONE`] marks the key as
//! deleted. A walk makes two passes through a partition. The first finds the newest version of each
//! key, from hint files that are whole, else from the data files. The second reads the data files
//! from front to back and shows these versions.

use crate::hint::HintFile;
use crate::newest::NewestVersions;
use crate::source::{Source, entries, numbered};
use crate::{
    Damage, Finding, NOTHING_BYTES, OBJECT_BYTES_MAX, Position, RiakFilesError, StoredRecord,
    VisitFn,
};
use bytes::Bytes;
use quoit_model::bitcask_key::BitcaskKey;
use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size of a record's header: checksum (4), time (4), size of the key (2), size of the value (4).
const HEADER_BYTES: usize = 14;
/// Beginning of the value of a deletion.
const TOMBSTONE: &[u8] = b"bitcask_tombstone";
/// Sizes in bytes of the value of a deletion: of version 0, and of versions 1 and 2.
const TOMBSTONE_BYTES: [usize; 2] = [17, 22];
/// Number of bytes after a damaged record in which the next whole record is searched.
const SEARCH_BYTES_MAX: usize = 64 << 20;
/// Number of zero bytes at the end of a file that show that the system had extended the file
/// without writing it. An object of Riak does not end so.
const ZEROS_BYTES: u64 = 16;
/// Description of the end of a file that the node was writing.
const TORN: &str =
    "the file ends in the midst of a record, which was being written when the node ended";
/// File mode of files that Bitcask is about to delete.
const TO_BE_DELETED: u32 = 0o4001;

/// A record of a data file.
struct Record {
    at: u64,
    time_secs: u32,
    key: Bytes,
    value: Bytes,
}

impl Record {
    fn is_deletion(&self) -> bool {
        self.value.starts_with(TOMBSTONE) && TOMBSTONE_BYTES.contains(&self.value.len())
    }
}

/// A piece of a data file that is not a record.
struct DamagedPiece {
    damage: Damage,
    /// True if the piece is the end of the file and may be a record that was not written
    /// completely.
    is_torn: bool,
}

/// The data files of one partition, in the order of their writing.
#[derive(Clone, Debug)]
pub struct BitcaskScan {
    directory: PathBuf,
    files: Vec<PathBuf>,
}

impl BitcaskScan {
    /// Lists the data files in a partition's directory, without those that Bitcask is about to
    /// delete.
    ///
    /// # Errors
    ///
    /// Returns an error if the directory can't be read.
    pub fn open(directory: &Path) -> Result<Self, RiakFilesError> {
        let mut files: Vec<(u64, PathBuf)> = Vec::new();
        for path in entries(directory)? {
            let Some(number) = numbered(&path, ".bitcask.data") else { continue };
            let about = path.metadata().map_err(RiakFilesError::io(&path))?;
            if about.permissions().mode() & TO_BE_DELETED == 0 {
                files.push((number, path));
            }
        }
        files.sort();
        let files = files.into_iter().map(|(_, path)| path).collect();
        Ok(Self { directory: directory.to_owned(), files })
    }

    /// Total size of the data files in bytes.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.files.iter().filter_map(|path| path.metadata().ok()).map(|about| about.len()).sum()
    }

    /// Shows the newest version of each key after a position, and all damage. The results of the
    /// first pass are kept in the file `index_log`, so that an interrupted pass can continue.
    ///
    /// # Errors
    ///
    /// Returns an error if the system refuses to read or write, or if the partition has too many keys
    /// for the index of the first pass.
    pub fn read(
        &self,
        from: &Position,
        index_log: Option<&Path>,
        visit: &mut VisitFn<'_>,
    ) -> Result<(), RiakFilesError> {
        let newest = self.newest(index_log)?;
        let (first, offset) = from.in_files(&self.files);
        let mut before_bytes = 0;
        for (file, path) in (0u32..).zip(&self.files) {
            let mut source = Source::open(path)?;
            if (file as usize) < first {
                before_bytes += source.len();
                continue;
            }
            if file as usize == first {
                source.seek(offset.min(source.len()))?;
            }
            let path: Arc<Path> = path.as_path().into();
            let position = |at| Position::at_byte(at, &path, before_bytes + at);
            if is_cut_short(&path, source.len())? {
                let what =
                    "the data file ends before records that its hint file lists: they are lost";
                let damage = Damage::new(&path, source.len(), what);
                if visit(Finding::Damage(damage), &position(source.at())).is_break() {
                    return Ok(());
                }
            }
            let is_written = self.is_still_written(file as usize, &path)?;
            let mut shown_at = source.at();
            let mut show = |found: Result<Record, DamagedPiece>, end| {
                let seen = match found {
                    Ok(record) if !record.is_deletion() => {
                        match newest.is_newest(&record.key, file, record.at) {
                            true => shown(&path, record),
                            false => Finding::Nothing,
                        }
                    }
                    Ok(_) => Finding::Nothing,
                    Err(DamagedPiece { damage, is_torn: true }) if is_written => {
                        Finding::Torn(Damage { description: TORN.to_owned(), ..damage })
                    }
                    Err(piece) => Finding::Damage(piece.damage),
                };
                if matches!(seen, Finding::Nothing) && end - shown_at < NOTHING_BYTES {
                    return ControlFlow::Continue(());
                }
                shown_at = end;
                visit(seen, &position(end))
            };
            if scan(&mut source, &mut show)?.is_break() {
                return Ok(());
            }
            before_bytes += source.len();
        }
        Ok(())
    }

    /// True if the node may have ended while it wrote this file: it is the last one, and no hint
    /// file lists all of it.
    fn is_still_written(&self, number: usize, path: &Path) -> Result<bool, RiakFilesError> {
        if number + 1 < self.files.len() {
            return Ok(false);
        }
        Ok(HintFile::of(path)?.is_none())
    }

    fn newest(&self, index_log: Option<&Path>) -> Result<NewestVersions, RiakFilesError> {
        let (mut newest, (first, offset)) =
            NewestVersions::open(&self.directory, index_log, &self.files)?;
        for (file, path) in (0u32..).zip(&self.files).skip(first as usize) {
            let data_bytes = path.metadata().map_err(RiakFilesError::io(path))?.len();
            match HintFile::of(path)?.filter(|hint| hint.data_bytes() <= data_bytes) {
                Some(hint) => hint
                    .each(&mut |entry| newest.take(entry.key, file, entry.at, entry.is_deletion))?,
                None => {
                    let mut source = Source::open(path)?;
                    if file == first {
                        source.seek(offset.min(source.len()))?;
                    }
                    let mut fault = None;
                    let mut show = |found: Result<Record, DamagedPiece>, end| {
                        let taken = match found {
                            Ok(record) => {
                                newest.take(&record.key, file, record.at, record.is_deletion())
                            }
                            Err(_) => Ok(()),
                        };
                        fault = taken.and_then(|()| newest.reached(file, end)).err();
                        if fault.is_some() {
                            ControlFlow::Break(())
                        } else {
                            ControlFlow::Continue(())
                        }
                    };
                    let _ = scan(&mut source, &mut show)?;
                    if let Some(fault) = fault {
                        return Err(fault);
                    }
                }
            }
            newest.reached(file + 1, 0)?;
        }
        newest.done(self.files.len())?;
        Ok(newest)
    }
}

/// True if a data file of this size is shorter than its hint file says; the hint file must be
/// whole.
fn is_cut_short(data_file: &Path, data_bytes: u64) -> Result<bool, RiakFilesError> {
    Ok(HintFile::of(data_file)?.is_some_and(|hint| hint.data_bytes() > data_bytes))
}

fn shown(path: &Arc<Path>, record: Record) -> Finding {
    match BitcaskKey::decode(&record.key) {
        Ok(key) => Finding::Record(StoredRecord {
            key,
            object: record.value,
            written_secs: Some(record.time_secs),
            expires_at_us: None,
            file: Arc::clone(path),
            offset: record.at,
        }),
        Err(fault) => Finding::Damage(Damage::new(path, record.at, fault.to_string())),
    }
}

/// Reads a data file from the current position. Calls `show` with each record or piece of damage,
/// and with the offset of its end.
fn scan(
    source: &mut Source,
    show: &mut dyn FnMut(Result<Record, DamagedPiece>, u64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, RiakFilesError> {
    while source.left() > 0 {
        let at = source.at();
        let found = match next(source)? {
            Some(record) => Ok(record),
            None => {
                let len = next_whole_record(source, at)? - at;
                source.seek(at)?;
                let header = source.array::<HEADER_BYTES>()?;
                let told = header.map(|header| sizes(&header));
                let told = told.map(|(key, value)| at + (HEADER_BYTES + key + value) as u64);
                let is_end = at + len >= source.len();
                let is_torn = is_end && is_torn_end(source, at, told)?;
                let what = match !is_torn && (!is_end || told == Some(source.len())) {
                    true => "a record is damaged: its checksum is another",
                    false => "the file ends in the midst of a record",
                };
                source.seek(at + len)?;
                let damage = Damage::new(source.path(), at, what).with_len(len);
                Err(DamagedPiece { damage, is_torn })
            }
        };
        if show(found, source.at()).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// True if the rest of a file, which has no whole record, may be a record that was not written
/// completely: by its header it would be longer, or it ends in zeros.
fn is_torn_end(source: &mut Source, at: u64, told: Option<u64>) -> Result<bool, RiakFilesError> {
    if told.is_none_or(|end| end > source.len()) {
        return Ok(true);
    }
    source.seek(at.max(source.len().saturating_sub(ZEROS_BYTES)))?;
    let len = usize::try_from(source.left()).unwrap_or(usize::MAX);
    let tail = source.take(len)?.unwrap_or_default();
    Ok(tail.iter().all(|byte| *byte == 0))
}

/// Sizes of key and value, from a header.
fn sizes(header: &[u8; HEADER_BYTES]) -> (usize, usize) {
    let key = u16::from_be_bytes([header[8], header[9]]);
    let value = u32::from_be_bytes([header[10], header[11], header[12], header[13]]);
    (key.into(), value as usize)
}

/// Reads the record at the current position; returns `None` if there is no whole one.
fn next(source: &mut Source) -> Result<Option<Record>, RiakFilesError> {
    let at = source.at();
    let Some(header) = source.array::<HEADER_BYTES>()? else { return Ok(None) };
    let (key_len, value_len) = sizes(&header);
    if value_len > OBJECT_BYTES_MAX {
        return Ok(None);
    }
    let Some(body) = source.take(key_len + value_len)? else { return Ok(None) };
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&header[4..]);
    checksum.update(&body);
    if header[..4] != checksum.finalize().to_be_bytes() {
        return Ok(None);
    }
    let time_secs = u32::from_be_bytes([header[4], header[5], header[6], header[7]]);
    let body = Bytes::from(body);
    Ok(Some(Record { at, time_secs, key: body.slice(..key_len), value: body.slice(key_len..) }))
}

/// Offset of the next whole record after a damaged one: after the damaged record's stated size if a
/// record begins there, else wherever one is found. Without one, the end of the searched bytes.
fn next_whole_record(source: &mut Source, at: u64) -> Result<u64, RiakFilesError> {
    source.seek(at)?;
    let len = usize::try_from(source.left()).unwrap_or(usize::MAX).min(SEARCH_BYTES_MAX);
    let window = source.take(len)?.unwrap_or_default();
    let is_end = at + window.len() as u64 >= source.len();
    let told = window.first_chunk().map(sizes).map(|(key, value)| HEADER_BYTES + key + value);
    let by_sizes = told.filter(|end| is_whole(&window, *end) || (is_end && *end == window.len()));
    let found = by_sizes.or_else(|| (1..window.len()).find(|place| is_whole(&window, *place)));
    Ok(at + found.unwrap_or(window.len()) as u64)
}

/// True if a whole record of Riak begins at `at`.
fn is_whole(window: &[u8], at: usize) -> bool {
    let Some(header) = window.get(at..).and_then(<[u8]>::first_chunk::<HEADER_BYTES>) else {
        return false;
    };
    let (key_len, value_len) = sizes(header);
    // The first byte of the key excludes nearly all offsets before a checksum is computed.
    let begins_key = window.get(at + HEADER_BYTES).is_some_and(|first| [2, 3, 131].contains(first));
    let body = || window.get(at + 4..at + HEADER_BYTES + key_len + value_len);
    begins_key
        && value_len <= OBJECT_BYTES_MAX
        && body().is_some_and(|body| crc32fast::hash(body).to_be_bytes() == header[..4])
}

/// Searches bytes for whole records as after a damaged one, for fuzzing. Must return for all bytes.
pub fn fuzz_bitcask_data(bytes: &[u8]) {
    let mut at = 0;
    while at < bytes.len() {
        let step = match is_whole(bytes, at) {
            true => bytes
                .get(at..)
                .and_then(<[u8]>::first_chunk)
                .map(sizes)
                .map_or(1, |(key, value)| HEADER_BYTES + key + value),
            false => 1,
        };
        at += step;
    }
}
