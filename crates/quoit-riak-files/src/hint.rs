//! Hint files of Bitcask, which list the records of a data file. They are read entry by entry, so that
//! a large one takes no memory.

use crate::RiakFilesError;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

/// Size of an entry's header: time (4), size of the key (2), size of the record (4), offset (8).
const HEADER_BYTES: usize = 18;
/// Offset in the entry that ends a hint file.
const END: u64 = 0x7fff_ffff_ffff_ffff;
/// Bit of an offset that marks the record as a deletion.
const TOMBSTONE: u64 = 1 << 63;
/// Size of a read in bytes.
const BUFFER_BYTES: usize = 1 << 20;

/// An entry of a hint file.
pub(crate) struct HintEntry<'e> {
    pub(crate) key: &'e [u8],
    /// Offset of the record in the data file.
    pub(crate) at: u64,
    /// Offset of the end of the record.
    end: u64,
    pub(crate) is_deletion: bool,
}

/// A hint file that is whole.
pub(crate) struct HintFile {
    path: PathBuf,
    data_bytes: u64,
}

impl HintFile {
    /// Reads through the hint file of a data file. Returns `None` if there is none, or if it is not whole.
    pub(crate) fn of(data_file: &Path) -> Result<Option<Self>, RiakFilesError> {
        let path = data_file.with_extension("hint");
        if !path.is_file() {
            return Ok(None);
        }
        let mut data_bytes = 0;
        let is_whole = walk_file(&path, &mut |entry| {
            data_bytes = entry.end.max(data_bytes);
            ControlFlow::Continue(())
        })?;
        Ok(is_whole.then_some(Self { path, data_bytes }))
    }

    /// Size in bytes that the data file has at least: the end of the last record that is listed.
    pub(crate) const fn data_bytes(&self) -> u64 {
        self.data_bytes
    }

    /// Shows the entries in their order, until `take` fails.
    pub(crate) fn each(
        &self,
        take: &mut dyn FnMut(&HintEntry<'_>) -> Result<(), RiakFilesError>,
    ) -> Result<(), RiakFilesError> {
        let mut taken = Ok(());
        let is_whole = walk_file(&self.path, &mut |entry| {
            taken = take(entry);
            if taken.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        taken?;
        if is_whole {
            return Ok(());
        }
        let changed =
            io::Error::new(ErrorKind::InvalidData, "the file was changed while it was read");
        Err(RiakFilesError::io(&self.path)(changed))
    }
}

fn walk_file(
    path: &Path,
    each: &mut dyn FnMut(&HintEntry<'_>) -> ControlFlow<()>,
) -> Result<bool, RiakFilesError> {
    let file = File::open(path).map_err(RiakFilesError::io(path))?;
    walk(&mut BufReader::with_capacity(BUFFER_BYTES, file), each).map_err(RiakFilesError::io(path))
}

/// Shows the entries of a hint file, until `each` ends the walk. Returns true if the file is whole: it was
/// read up to its end entry, which has the right checksum and is the end of the file.
fn walk(
    reader: &mut dyn Read,
    each: &mut dyn FnMut(&HintEntry<'_>) -> ControlFlow<()>,
) -> io::Result<bool> {
    let mut checksum = crc32fast::Hasher::new();
    let mut key: Vec<u8> = Vec::new();
    loop {
        let mut header = [0; HEADER_BYTES];
        if !fill(reader, &mut header)? {
            return Ok(false);
        }
        let [_, _, _, _, key_0, key_1, size_0, size_1, size_2, size_3, offset @ ..] = header;
        let key_len = u16::from_be_bytes([key_0, key_1]);
        let size = u32::from_be_bytes([size_0, size_1, size_2, size_3]);
        let offset = u64::from_be_bytes(offset);
        if offset == END && key_len == 0 {
            return Ok(checksum.finalize() == size && !fill(reader, &mut [0])?);
        }
        key.resize(usize::from(key_len), 0);
        if !fill(reader, &mut key)? {
            return Ok(false);
        }
        checksum.update(&header);
        checksum.update(&key);
        let is_deletion = offset & TOMBSTONE != 0;
        let at = offset & !TOMBSTONE;
        let end = at.saturating_add(size.into());
        if each(&HintEntry { key: &key, at, end, is_deletion }).is_break() {
            return Ok(false);
        }
    }
}

/// Fills the buffer; returns false if fewer bytes are left.
fn fill(reader: &mut dyn Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(fault) if fault.kind() == ErrorKind::UnexpectedEof => Ok(false),
        Err(fault) => Err(fault),
    }
}

/// Decodes bytes as a hint file, for fuzzing. Must return for all bytes.
pub fn fuzz_bitcask_hint(bytes: &[u8]) {
    let _ = walk(&mut &*bytes, &mut |_| ControlFlow::Continue(()));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &[u8], size: u32, offset: u64) -> Vec<u8> {
        let key_len = (key.len() as u16).to_be_bytes();
        [&[0_u8; 4][..], &key_len, &size.to_be_bytes(), &offset.to_be_bytes(), key].concat()
    }

    fn whole() -> Vec<u8> {
        let entries = [entry(b"one", 30, 0), entry(b"two", 40, 30 | TOMBSTONE)].concat();
        let end = entry(b"", crc32fast::hash(&entries), END);
        [entries, end].concat()
    }

    fn hint_of(bytes: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let directory = tempfile::tempdir().expect("a folder");
        std::fs::write(directory.path().join("1.bitcask.hint"), bytes).expect("a file");
        let data_file = directory.path().join("1.bitcask.data");
        (directory, data_file)
    }

    #[test]
    fn entries_of_a_whole_file_are_shown_in_their_order() {
        let (_directory, data_file) = hint_of(&whole());
        let hint = HintFile::of(&data_file).expect("it can be read").expect("it is whole");
        assert_eq!(hint.data_bytes(), 70);
        let mut seen = Vec::new();
        let mut take = |entry: &HintEntry<'_>| {
            seen.push((entry.key.to_vec(), entry.at, entry.is_deletion));
            Ok(())
        };
        hint.each(&mut take).expect("all entries");
        assert_eq!(seen, [(b"one".to_vec(), 0, false), (b"two".to_vec(), 30, true)]);
    }

    #[test]
    fn a_file_that_is_cut_or_longer_or_changed_is_not_whole() {
        let whole = whole();
        let mut candidates: Vec<Vec<u8>> =
            (0..whole.len()).map(|len| whole[..len].to_vec()).collect();
        candidates.push([&whole[..], &[0]].concat());
        for at in 0..whole.len() - HEADER_BYTES {
            let mut changed = whole.clone();
            changed[at] ^= 1;
            candidates.push(changed);
        }
        for bytes in candidates {
            let (_directory, data_file) = hint_of(&bytes);
            assert!(HintFile::of(&data_file).expect("it can be read").is_none(), "{bytes:?}");
        }
    }

    #[test]
    fn a_file_without_end_is_not_read_into_memory() {
        let (directory, data_file) = hint_of(&entry(b"", 1, END));
        let path = directory.path().join("1.bitcask.hint");
        let file = File::options().write(true).open(path).expect("the file");
        file.set_len(1 << 40).expect("a sparse file");
        assert!(HintFile::of(&data_file).expect("it can be read").is_none());
    }
}
