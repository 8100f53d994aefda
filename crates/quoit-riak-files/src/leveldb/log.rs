//! Logs: records in blocks of 32 KiB. A record is stored in one or several pieces, each with a
//! checksum. In a log a record is a batch of writes; in the manifest it is a change of the set of
//! tables.

use super::block::{
    DELETION, Entry, VALUE, VALUE_EXPIRES_AT, VALUE_WRITTEN_AT, counted, expiry_of, has_checksum,
    varint, written_of,
};
use crate::source::read_file;
use crate::{Damage, RiakFilesError};
use bytes::Bytes;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BLOCK_BYTES: usize = 32 << 10;
/// Size in bytes of checksum, length and kind.
const HEADER_BYTES: usize = 7;
/// Size in bytes of the sequence number and count at the front of a batch.
const BATCH_HEADER_BYTES: usize = 12;

const FULL: u8 = 1;
const FIRST: u8 = 2;
const MIDDLE: u8 = 3;
const LAST: u8 = 4;

/// A record of a log, or a piece of it that can't be read.
pub(super) enum LogItem {
    Record { at: usize, bytes: Vec<u8> },
    Damaged { at: usize, len: usize },
}

/// Reads the records of a log. After damage it continues with the next block. Zeros end a block,
/// and an incomplete record ends the log.
pub(super) fn records(log: &[u8]) -> Vec<LogItem> {
    let mut found = Vec::new();
    let mut begun: Option<(usize, Vec<u8>)> = None;
    let mut at = 0;
    while let Some(header) = log.get(at..).and_then(<[u8]>::first_chunk::<HEADER_BYTES>) {
        let left = BLOCK_BYTES - at % BLOCK_BYTES;
        if left < HEADER_BYTES {
            at += left;
            continue;
        }
        let checksum = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
        let len = usize::from(u16::from_le_bytes([header[4], header[5]]));
        let kind = header[6];
        if kind == 0 && len == 0 && checksum == 0 {
            at += left;
            continue;
        }
        let end = at + HEADER_BYTES + len;
        let is_torn = end > log.len();
        let piece = log.get(at + HEADER_BYTES..end).filter(|_| HEADER_BYTES + len <= left);
        // The checksum covers the kind too, the last byte of the header.
        let covered = log.get(at + HEADER_BYTES - 1..end);
        let is_whole = covered.is_some_and(|covered| has_checksum(covered, checksum));
        let whole = piece.filter(|_| is_whole);
        let Some(piece) = whole.filter(|_| (FULL..=LAST).contains(&kind)) else {
            begun = None;
            // An incomplete record at the end of the log was never acknowledged, so nothing is
            // lost.
            let next = if is_torn { log.len() } else { (at + left).min(log.len()) };
            found.push(LogItem::Damaged { at, len: next - at });
            at = next;
            continue;
        };
        match (kind, &mut begun) {
            (FULL, _) => {
                begun = None;
                found.push(LogItem::Record { at, bytes: piece.to_vec() });
            }
            (FIRST, _) => begun = Some((at, piece.to_vec())),
            (MIDDLE, Some((_, bytes))) => bytes.extend_from_slice(piece),
            (LAST, Some(_)) => {
                if let Some((at, mut bytes)) = begun.take() {
                    bytes.extend_from_slice(piece);
                    found.push(LogItem::Record { at, bytes });
                }
            }
            // The record's beginning was damaged, which has been reported.
            _ => {}
        }
        at = end;
    }
    found
}

/// The latest entry of each key in the logs, in the order of keys.
pub(super) fn read_logs(
    paths: &[PathBuf],
    damage: &mut Vec<Damage>,
) -> Result<Vec<Entry>, RiakFilesError> {
    let mut entries = Vec::new();
    for path in paths {
        let file: Arc<Path> = path.as_path().into();
        for logged in records(&read_file(path)?) {
            match logged {
                LogItem::Damaged { at, len } => {
                    damage.push(
                        Damage::new(path, at as u64, "a piece of the log is damaged")
                            .with_len(len as u64),
                    );
                }
                LogItem::Record { at, bytes } => {
                    if !read_batch(&bytes.into(), &file, at as u64, &mut entries) {
                        damage.push(Damage::new(path, at as u64, "a batch of the log is damaged"));
                    }
                }
            }
        }
    }
    entries.sort_by(|a, b| (&a.key, b.sequence).cmp(&(&b.key, a.sequence)));
    entries.dedup_by(|later, first| later.key == first.key);
    Ok(entries)
}

/// Appends the writes of a batch. Returns true if the batch was whole.
fn read_batch(batch: &Bytes, file: &Arc<Path>, at: u64, entries: &mut Vec<Entry>) -> bool {
    let Some((header, mut input)) = batch.split_at_checked(BATCH_HEADER_BYTES) else {
        return false;
    };
    let Some(mut sequence) = header.first_chunk().map(|first| u64::from_le_bytes(*first)) else {
        return false;
    };
    while !input.is_empty() {
        let mut write = || {
            let (kind, rest) = input.split_first()?;
            input = rest;
            let key = batch.slice_ref(counted(&mut input)?);
            let time = match *kind {
                DELETION | VALUE => 0,
                VALUE_WRITTEN_AT | VALUE_EXPIRES_AT => varint(&mut input)?,
                _ => return None,
            };
            let value = match *kind {
                DELETION => None,
                _ => Some(batch.slice_ref(counted(&mut input)?)),
            };
            let (written_secs, expires_at_us) = (written_of(*kind, time), expiry_of(*kind, time));
            let file = Arc::clone(file);
            Some(Entry { key, sequence, value, written_secs, expires_at_us, file, at })
        };
        let Some(entry) = write() else { return false };
        entries.push(entry);
        sequence = sequence.wrapping_add(1);
    }
    true
}

/// Decodes bytes as a log, for fuzzing. Must return for all bytes.
pub fn fuzz_leveldb_log(bytes: &[u8]) {
    let file: Arc<Path> = Path::new("log").into();
    let mut entries = Vec::new();
    for logged in records(bytes) {
        if let LogItem::Record { at, bytes } = logged {
            let _ = super::manifest::Version::read_edit(&bytes);
            let _ = read_batch(&bytes.into(), &file, at as u64, &mut entries);
        }
    }
    let _ = read_batch(&Bytes::copy_from_slice(bytes), &file, 0, &mut entries);
    let _ = super::manifest::Version::read_edit(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_of_a_batch_has_the_time_of_its_expiry() {
        let mut batch = [0; BATCH_HEADER_BYTES].to_vec();
        for (kind, time) in
            [(VALUE, None), (VALUE_WRITTEN_AT, Some(9)), (VALUE_EXPIRES_AT, Some(9))]
        {
            batch.extend_from_slice(&[kind, 1, b'k']);
            batch.extend(time);
            batch.extend_from_slice(&[1, b'v']);
        }
        let mut entries = Vec::new();
        assert!(read_batch(&batch.into(), &Path::new("log").into(), 0, &mut entries));
        let expiries: Vec<_> = entries.iter().map(|entry| entry.expires_at_us).collect();
        assert_eq!(expiries, [None, None, Some(9)]);
        assert!(entries.iter().all(|entry| entry.value.as_deref() == Some(b"v")));
    }
}
