//! Reader of leveled: journals with records in the order of their writing, as Riak 3.2 writes them.
//!
//! A journal file begins with 512 numbers of 32 bits that give the positions of its hash tables.
//! The records are between these numbers and the first table; in a file that is still written, they
//! continue to the end. A record has the sizes of key and value, the key, a checksum and the value.
//! The key is the term `{SequenceNumber, Kind, LedgerKey}`; of the records with one ledger key, the
//! one with the highest number is the newest version. The newest manifest names the files; without
//! a manifest, all files are read.

use crate::newest::NewestVersions;
use crate::source::{Source, entries, numbered, read_file};
use crate::{
    Damage, Finding, NOTHING_BYTES, OBJECT_BYTES_MAX, Position, RiakFilesError, StoredRecord,
    VisitFn,
};
use bytes::Bytes;
use flate2::read::ZlibDecoder;
use quoit_model::bitcask_key::BitcaskKey;
use quoit_model::etf::{Limits, Term};
use quoit_model::key::DEFAULT_BUCKET_TYPE;
use quoit_number::low_u32;
use std::io::Read;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Size in bytes of the positions of the hash tables, at the front of a journal file.
const TABLES_BYTES: usize = 2048;
/// Size in bytes of the position and number of slots of a hash table; size of a slot.
const TABLE_PLACE_BYTES: usize = 8;
const TABLE_SLOT_BYTES: u64 = 8;
/// Size in bytes of the sizes of key and value.
const HEADER_BYTES: usize = 8;
const CHECKSUM_BYTES: usize = 4;
/// Size in bytes of the parts after the object: the size of the changes of the ledger, and the kind
/// of the value.
const TAIL_BYTES: usize = 5;

/// Bits of the last byte of a value: it is compressed; it is a binary and not a term; the method of
/// compression.
const IS_COMPRESSED: u8 = 1;
const IS_BINARY: u8 = 2;
const IS_LZ4: u8 = 4;
const METHODS_MASK: u8 = !(IS_COMPRESSED | IS_BINARY);

/// First bytes of data that zstd has compressed.
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
/// Remedy for data that can't be read from files.
const BY_REPLICATION: &str = "move the data of this node by replication (quoit import plan)";

/// Maximum size of a journal's key, in bytes.
const KEY_BYTES_MAX: usize = 1 << 20;
/// Maximum size of a manifest after inflation, in bytes.
const MANIFEST_BYTES_MAX: usize = 256 << 20;
/// First bytes of a compressed term: version and tag; its size follows.
const COMPRESSED_TERM: [u8; 2] = [131, 80];

const KEY_LIMITS: Limits =
    Limits { depth_max: 8, terms_max: 32, inflated_bytes_max: 2 * KEY_BYTES_MAX };

/// The journal files of one partition.
#[derive(Clone, Debug)]
pub(crate) struct LeveledScan {
    directory: PathBuf,
    files: Vec<PathBuf>,
    damage: Vec<Damage>,
}

/// A record of a journal.
struct LedgerRecord {
    at: u64,
    number: u64,
    is_deletion: bool,
    name: Bytes,
    value: Bytes,
}

impl LeveledScan {
    pub(crate) fn open(directory: &Path) -> Result<Self, RiakFilesError> {
        let journal = directory.join("journal");
        let mut damage = Vec::new();
        let names = manifest_names(&journal.join("journal_manifest"), &mut damage)?;
        let folder = journal.join("journal_files");
        let files = match names {
            Some(names) => {
                let mut files = Vec::new();
                for name in names {
                    let found =
                        ["cdb", "pnd"].map(|suffix| folder.join(format!("{name}.{suffix}")));
                    match found.iter().find(|path| path.is_file()) {
                        Some(path) => files.push(path.clone()),
                        None => {
                            damage.push(Damage::new(&found[0], 0, "the manifest's file is missing"))
                        }
                    }
                }
                files
            }
            None => {
                let mut files = entries(&folder)?;
                files.extend(entries(&folder.join("post_compact"))?);
                files.retain(|path| path.extension().is_some_and(|is| is == "cdb" || is == "pnd"));
                files
            }
        };
        Ok(Self { directory: directory.to_owned(), files, damage })
    }

    pub(crate) fn size_bytes(&self) -> u64 {
        self.files.iter().filter_map(|path| path.metadata().ok()).map(|about| about.len()).sum()
    }

    pub(crate) fn read(
        &self,
        from: &Position,
        index_log: Option<&Path>,
        visit: &mut VisitFn<'_>,
    ) -> Result<(), RiakFilesError> {
        for damage in &self.damage {
            if visit(Finding::Damage(damage.clone()), from).is_break() {
                return Ok(());
            }
        }
        let newest = self.newest(index_log)?;
        let (first, offset) = from.in_files(&self.files);
        let mut before_bytes = 0;
        for (file, path) in (0u32..).zip(&self.files) {
            let mut source = Source::open(path)?;
            if (file as usize) < first {
                before_bytes += source.len();
                continue;
            }
            let start = if file as usize == first { offset } else { 0 };
            let path: Arc<Path> = path.as_path().into();
            let mut shown_at = start;
            let mut show = |found: Result<LedgerRecord, Damage>, end| {
                let seen = match found {
                    Ok(record) => {
                        let is_newest = newest.is_newest(&record.name, file, record.number);
                        match is_newest && !record.is_deletion {
                            true => shown(&path, record),
                            false => Finding::Nothing,
                        }
                    }
                    Err(damage) => Finding::Damage(damage),
                };
                if matches!(seen, Finding::Nothing) && end - shown_at < NOTHING_BYTES {
                    return ControlFlow::Continue(());
                }
                shown_at = end;
                visit(seen, &Position::at_byte(end, &path, before_bytes + end))
            };
            if scan(&mut source, start, &mut show)?.is_break() {
                return Ok(());
            }
            before_bytes += source.len();
        }
        Ok(())
    }

    fn newest(&self, index_log: Option<&Path>) -> Result<NewestVersions, RiakFilesError> {
        let (mut newest, (first, offset)) =
            NewestVersions::open(&self.directory, index_log, &self.files)?;
        for (file, path) in (0u32..).zip(&self.files).skip(first as usize) {
            let start = if file == first { offset } else { 0 };
            let mut fault = None;
            let mut show = |found: Result<LedgerRecord, Damage>, end| {
                let raised = match found {
                    Ok(record) => newest.raise(&record.name, file, record.number),
                    Err(_) => Ok(()),
                };
                fault = raised.and_then(|()| newest.reached(file, end)).err();
                if fault.is_some() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            let _ = scan(&mut Source::open(path)?, start, &mut show)?;
            if let Some(fault) = fault {
                return Err(fault);
            }
            newest.reached(file + 1, 0)?;
        }
        newest.done(self.files.len())?;
        Ok(newest)
    }
}

/// Names of the files in `journal_files` according to the newest manifest; `None` if there is no
/// manifest that can be read. An older manifest is of no use: compaction may have deleted files
/// that it names, and made other files.
fn manifest_names(
    folder: &Path,
    damage: &mut Vec<Damage>,
) -> Result<Option<Vec<String>>, RiakFilesError> {
    let manifests = entries(folder)?.into_iter();
    let newest = manifests.filter_map(|path| Some((numbered(&path, ".man")?, path))).max();
    let Some((_, path)) = newest else { return Ok(None) };
    let names = names_in(&read_file(&path)?);
    if names.is_none() {
        damage.push(Damage::new(&path, 0, "the manifest can't be read; all files are taken"));
    }
    Ok(names)
}

/// Extracts the names from a manifest: the bytes that follow each `journal_files/`, up to the end
/// of a name. The manifest's term is not decoded, because it contains process identifiers, which
/// have no meaning outside their node.
fn names_in(manifest: &[u8]) -> Option<Vec<String>> {
    let term = match manifest.strip_prefix(&COMPRESSED_TERM) {
        Some(rest) => inflate_zlib(rest.get(4..)?, MANIFEST_BYTES_MAX).ok()?,
        None => manifest.strip_prefix(&[131])?.to_vec(),
    };
    let behind_folder = |at: usize| term.get(at..)?.strip_prefix(b"journal_files/");
    let name = |rest: &[u8]| {
        // A number, an underscore, and the 36 characters of a UUID.
        let underscore =
            rest.iter().take(60).enumerate().filter(|(_, byte)| **byte == b'_').map(|(at, _)| at);
        let name = underscore.into_iter().find_map(|at| {
            let is_number = rest.get(..at)?.last().is_some_and(u8::is_ascii_digit);
            let uuid = rest.get(at + 1..at + 37)?;
            let is_uuid = uuid.iter().all(|byte| byte.is_ascii_hexdigit() || *byte == b'-');
            rest.get(..at + 37).filter(|_| is_number && is_uuid)
        })?;
        std::str::from_utf8(name).ok().map(str::to_owned)
    };
    let names: Option<Vec<String>> = (0..term.len()).filter_map(behind_folder).map(name).collect();
    let mut names = names?;
    names.reverse();
    Some(names)
}

fn shown(path: &Arc<Path>, record: LedgerRecord) -> Finding {
    let read = || {
        let name =
            name_of(&record.name).ok_or("the key of a record is not the key of an object")?;
        Ok::<_, String>((name, object_of(&record.value)?))
    };
    match read() {
        Ok((key, object)) => Finding::Record(StoredRecord {
            key,
            object,
            written_secs: None,
            expires_at_us: None,
            file: Arc::clone(path),
            offset: record.at,
        }),
        Err(what) => Finding::Damage(Damage::new(path, record.at, what)),
    }
}

/// Reads a journal file from a byte on. Calls `show` with each record or piece of damage, and with
/// the offset of its end. Records that only change the ledger are left out.
fn scan(
    source: &mut Source,
    start: u64,
    show: &mut dyn FnMut(Result<LedgerRecord, Damage>, u64) -> ControlFlow<()>,
) -> Result<ControlFlow<()>, RiakFilesError> {
    let Some(tables) = source.take(TABLES_BYTES)? else {
        let damage = Damage::new(source.path(), 0, "the file ends before its first record")
            .with_len(source.len());
        // A new journal is empty; a finished one has at least the positions of its tables.
        let is_begun = source.len() == 0 && source.path().extension().is_some_and(|is| is == "pnd");
        return Ok(if is_begun {
            ControlFlow::Continue(())
        } else {
            show(Err(damage), source.len())
        });
    };
    let (end, is_damaged) = end_of_records(&tables, source.len());
    if is_damaged {
        let what = "the places of the hash tables contradict each other; most of them are believed";
        if show(Err(Damage::new(source.path(), 0, what)), source.at()).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    if start > source.at() {
        source.seek(start.min(source.len()))?;
    }
    while source.at() < end {
        let at = source.at();
        let found = match next(source, end)? {
            Ok(Some(record)) => Ok(record),
            Ok(None) => continue,
            Err(UnreadableRecord::Skipped(what)) => {
                Err(Damage::new(source.path(), at, what).with_len(source.at() - at))
            }
            Err(UnreadableRecord::NoEnd) => {
                // The position of the next record is unknown.
                let len = end - at;
                source.seek(end)?;
                Err(Damage::new(source.path(), at, "a record is damaged: its sizes lead nowhere")
                    .with_len(len))
            }
        };
        if show(found, source.at()).is_break() {
            return Ok(ControlFlow::Break(()));
        }
    }
    Ok(ControlFlow::Continue(()))
}

/// Offset at which the records of a file of this size end, computed from the position and size of
/// each hash table; and true if these disagree. The tables follow each other, so each of them gives
/// the position of the first one; the most frequent result is taken.
fn end_of_records(tables: &[u8], file_bytes: u64) -> (u64, bool) {
    let (mut before, mut told) = (0u64, Vec::new());
    for table in tables.as_chunks::<TABLE_PLACE_BYTES>().0 {
        let (start, slots) = two_numbers(*table);
        let (start, slots) = (u64::from(start), u64::from(slots));
        told.push(start.checked_sub(before));
        before += slots * TABLE_SLOT_BYTES;
    }
    // A file that is still written has no tables.
    if tables.iter().all(|byte| *byte == 0) {
        return (file_bytes, false);
    }
    told.sort_unstable();
    let same = told.chunk_by(|one, other| one == other);
    let most = same.max_by_key(|same| same.len()).unwrap_or_default();
    let end = most.first().copied().flatten().filter(|end| *end >= TABLES_BYTES as u64);
    (end.unwrap_or(file_bytes).min(file_bytes), most.len() < told.len())
}

/// Two numbers of four bytes each, lowest byte first.
fn two_numbers(bytes: [u8; 8]) -> (u32, u32) {
    let both = u64::from_le_bytes(bytes);
    (low_u32(both), low_u32(both >> 32))
}

/// A record that can't be read.
enum UnreadableRecord {
    /// The records after it can be read.
    Skipped(&'static str),
    /// The end of the record is unknown.
    NoEnd,
}

/// Reads the next record; returns `None` for one that only changes the ledger.
fn next(
    source: &mut Source,
    end: u64,
) -> Result<Result<Option<LedgerRecord>, UnreadableRecord>, RiakFilesError> {
    let at = source.at();
    let Some(header) = source.array::<HEADER_BYTES>()? else {
        return Ok(Err(UnreadableRecord::NoEnd));
    };
    let (key_len, value_len) = two_numbers(header);
    let (key_len, value_len) = (key_len as usize, value_len as usize);
    let is_plausible =
        key_len <= KEY_BYTES_MAX && (CHECKSUM_BYTES..=OBJECT_BYTES_MAX).contains(&value_len);
    if !is_plausible || source.at() + (key_len + value_len) as u64 > end {
        return Ok(Err(UnreadableRecord::NoEnd));
    }
    let Some(body) = source.take(key_len + value_len)? else {
        return Ok(Err(UnreadableRecord::NoEnd));
    };
    let body = Bytes::from(body);
    let (key, value) = (body.slice(..key_len), body.slice(key_len + CHECKSUM_BYTES..));
    let mut checksum = crc32fast::Hasher::new();
    checksum.update(&key);
    checksum.update(&value);
    let expected = checksum.finalize().to_be_bytes();
    if body.get(key_len..key_len + CHECKSUM_BYTES) != Some(expected.as_slice()) {
        return Ok(Err(UnreadableRecord::Skipped("a record is damaged: its checksum is another")));
    }
    Ok(match entry_of(&key) {
        Some((_, LedgerEntryKind::LedgerOnly, _)) => Ok(None),
        Some((number, kind, name)) => Ok(Some(LedgerRecord {
            at,
            number,
            is_deletion: kind == LedgerEntryKind::Deletion,
            name,
            value,
        })),
        None => Err(UnreadableRecord::Skipped("the key of a record is not a key of leveled")),
    })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum LedgerEntryKind {
    Object,
    Deletion,
    LedgerOnly,
}

/// Decodes a journal's key: number, kind and encoded ledger key.
fn entry_of(key: &Bytes) -> Option<(u64, LedgerEntryKind, Bytes)> {
    let term = Term::decode(key, &KEY_LIMITS).ok()?;
    let [number, kind, name] = term.as_tuple()?;
    let kind = match kind {
        kind if kind.is_atom(b"stnd") => LedgerEntryKind::Object,
        kind if kind.is_atom(b"tomb") => LedgerEntryKind::Deletion,
        kind if kind.is_atom(b"keyd") => LedgerEntryKind::LedgerOnly,
        _ => return None,
    };
    // Keys with other tags than `o_rkv` do not belong to objects of Riak.
    let is_of_object = |parts: &[Term]| parts.first().is_some_and(|tag| tag.is_atom(b"o_rkv"));
    let is_object = matches!(name, Term::Tuple(parts) if is_of_object(parts));
    let mut encoded = Vec::new();
    name.encode_into(&mut encoded);
    let kind = if is_object { kind } else { LedgerEntryKind::LedgerOnly };
    Some((number.as_u64()?, kind, encoded.into()))
}

fn name_of(ledger_key: &Bytes) -> Option<BitcaskKey> {
    let term = Term::decode(ledger_key, &KEY_LIMITS).ok()?;
    let [_, bucket, key, _] = term.as_tuple()?;
    let (bucket_type, bucket) = match bucket.as_tuple() {
        Some([bucket_type, bucket]) => {
            (bucket_type.as_binary()?.clone(), bucket.as_binary()?.clone())
        }
        None => (Bytes::from_static(DEFAULT_BUCKET_TYPE), bucket.as_binary()?.clone()),
    };
    Some(BitcaskKey { bucket_type, bucket, key: key.as_binary()?.clone() })
}

/// Extracts and decompresses the object of a value, which comes before the changes of the ledger.
fn object_of(value: &Bytes) -> Result<Bytes, String> {
    let cut_off = || "a value is shorter than its parts".to_owned();
    let (before, tail) = value.split_last_chunk::<TAIL_BYTES>().ok_or_else(cut_off)?;
    let [changes @ .., kind] = *tail;
    let changes = u32::from_be_bytes(changes) as usize;
    let end = before.len().checked_sub(changes).ok_or_else(cut_off)?;
    let stored = value.slice(..end);
    if kind & IS_BINARY == 0 {
        let binary =
            Term::decode(&stored, &Limits { inflated_bytes_max: OBJECT_BYTES_MAX, ..KEY_LIMITS });
        let binary = binary.map_err(|fault| fault.to_string())?;
        return binary
            .as_binary()
            .cloned()
            .ok_or_else(|| "a value is a term, but not a binary".to_owned());
    }
    match (kind & IS_COMPRESSED != 0, kind & METHODS_MASK) {
        (false, _) => Ok(stored),
        (true, IS_LZ4) => inflate_lz4(&stored),
        (true, 0) => inflate_zlib(&stored, OBJECT_BYTES_MAX).map(Bytes::from),
        (true, _) if stored.starts_with(&ZSTD_MAGIC) => {
            Err(format!("a value is compressed by zstd, which is not read: {BY_REPLICATION}"))
        }
        (true, method) => Err(format!(
            "a value is compressed by method {method}, which is not known here: {BY_REPLICATION}"
        )),
    }
}

/// Decompresses zlib; fails if the result would have more than `bytes_max` bytes.
fn inflate_zlib(stored: &[u8], bytes_max: usize) -> Result<Vec<u8>, String> {
    let mut inflated = Vec::new();
    let limit = bytes_max as u64 + 1;
    let read = ZlibDecoder::new(stored).take(limit).read_to_end(&mut inflated);
    read.map_err(|fault| fault.to_string())?;
    if inflated.len() > bytes_max {
        return Err(format!("a compressed block has more than {bytes_max} bytes when inflated"));
    }
    Ok(inflated)
}

/// Decompresses LZ4 in the form of leveled and LevelDB: the size in 32 bits (little-endian), then a
/// block.
pub(crate) fn inflate_lz4(stored: &[u8]) -> Result<Bytes, String> {
    let (size, block) = stored.split_first_chunk().ok_or("a compressed block is empty")?;
    let size = u32::from_le_bytes(*size) as usize;
    // LZ4 expands a block at most 255 times.
    if size > OBJECT_BYTES_MAX || size / 256 > block.len() {
        return Err(format!("a compressed block claims to have {size} bytes"));
    }
    lz4_flex::block::decompress(block, size).map(Bytes::from).map_err(|fault| fault.to_string())
}

/// Decodes bytes as key, value and manifest of a journal, for fuzzing. Must return for all bytes.
pub fn fuzz_leveled_journal(bytes: &[u8]) {
    let bytes = Bytes::copy_from_slice(bytes);
    let _ = entry_of(&bytes);
    let _ = object_of(&bytes);
    let _ = names_in(&bytes);
    let _ = name_of(&bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::ZlibEncoder;
    use std::io::Write;

    #[test]
    fn values_of_zstd_are_refused_with_the_way_that_is_left() {
        let mut value = ZSTD_MAGIC.to_vec();
        value.extend_from_slice(b"frame");
        value.extend_from_slice(&[0, 0, 0, 0, IS_COMPRESSED | IS_BINARY | 12]);
        let fault = object_of(&value.into()).expect_err("not read");
        assert!(fault.contains("zstd") && fault.contains("quoit import plan"), "{fault}");
    }

    #[test]
    fn what_inflates_beyond_its_limit_is_an_error_and_not_cut_off() {
        let mut deflated = ZlibEncoder::new(Vec::new(), Compression::default());
        deflated.write_all(&[7; 1_000]).expect("memory");
        let deflated = deflated.finish().expect("memory");
        assert_eq!(inflate_zlib(&deflated, 1_000).expect("within the limit"), [7; 1_000]);
        let fault = inflate_zlib(&deflated, 999).expect_err("beyond the limit");
        assert!(fault.contains("more than 999 bytes"), "{fault}");
    }

    #[test]
    fn the_end_of_the_records_is_found_around_a_damaged_place_of_a_table() {
        let mut tables = Vec::new();
        for table in 0..256u32 {
            tables.extend_from_slice(&(5000 + table * 16).to_le_bytes());
            tables.extend_from_slice(&2u32.to_le_bytes());
        }
        assert_eq!(end_of_records(&tables, 9000), (5000, false));
        tables[80] ^= 64;
        assert_eq!(end_of_records(&tables, 9000), (5000, true));
        assert_eq!(end_of_records(&[0; TABLES_BYTES], 9000), (9000, false));
    }
}
