//! Checks of `fjall`'s files other than journals, before `fjall` opens them.
//!
//! `fjall` trusts lengths before it verifies their checksums, takes a keyspace without the file `current`
//! for an unfinished one and removes it, and does not say which file is damaged. So Quoit first checks the
//! small files that list the others, and the tables of contents of all files. If `fjall` still cannot open
//! the store, Quoit looks for the damaged file.
//!
//! ```text
//! version    "FJL" 3
//! current    number n of the version 8, XXH3-128 of the file v<n> 16, 0
//! v<n>       sections, among them `tables`: number of levels 1; for each, number of runs 1; for each, number
//!            of tables 4; for each, number 8, kind of checksum 1, checksum 16, sequence 8; and `blob_files`:
//!            their number 4; for each, number 8, kind of checksum 1, checksum 16
//! archive    sections; their table of contents: "TOC!", number of sections 4; for each, offset 8, size 8,
//!            size of the name 2, name; then "SFA!", 1, 0, XXH3-128 of the table of contents 16, its offset
//!            8, its size 8
//! ```
//!
//! Numbers are little-endian; a number after a field is its size in bytes. `v<n>`, tables and blob files
//! are archives.

use crate::error::StoreError;
use quoit_number::index;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

const VERSION_NAME: &str = "version";
const VERSION: &[u8] = b"FJL\x03";
pub(super) const KEYSPACES_NAME: &str = "keyspaces";
const CURRENT_NAME: &str = "current";

/// Folders of a keyspace.
pub(super) const TABLES_NAME: &str = "tables";
pub(super) const BLOBS_NAME: &str = "blobs";

/// The same folders, with the sections of `v<n>` that list their files.
const TABLES: (&str, &str) = (TABLES_NAME, "tables");
const BLOBS: (&str, &str) = (BLOBS_NAME, "blob_files");

const TRAILER_BYTES: u64 = 38;
const CONTENTS_BYTES_MAX: u64 = 1 << 20;
const BUFFER_BYTES: usize = 1 << 16;

const REMEDY: &str = "put it back from a copy if there is one";

/// Checks the files that list the others, and the tables of contents of all files. `keyspace_count` is the
/// number of keyspaces that must exist if there is any data. Costs a few reads for each file.
///
/// # Errors
///
/// [`StoreError::Corrupt`] names the damaged or missing file.
pub(super) fn check(
    directory: &Path,
    has_data: bool,
    keyspace_count: usize,
) -> Result<(), StoreError> {
    let marker = directory.join(VERSION_NAME);
    match fs::read(&marker) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(unread(&marker, &error)),
        Ok(found) if found.starts_with(VERSION) => {}
        Ok(_) => {
            return Err(damaged(&marker, 0, "it does not say that this is a store of fjall 3"));
        }
    }
    let folder = directory.join(KEYSPACES_NAME);
    let keyspaces = keyspaces(&folder)?;
    let has_tables = keyspaces.iter().any(|keyspace| !is_empty(&keyspace.join(TABLES.0)));
    let has_data = has_data || has_tables;
    if has_data && keyspaces.len() < keyspace_count {
        return Err(damaged(&folder, 0, "a keyspace is missing"));
    }
    keyspaces.iter().try_for_each(|keyspace| check_keyspace(keyspace, has_data))
}

/// Looks for the damaged file of a store that cannot be opened. Reads all files.
pub(super) fn diagnose(directory: &Path) -> Option<StoreError> {
    let keyspaces = keyspaces(&directory.join(KEYSPACES_NAME)).ok()?;
    for keyspace in keyspaces {
        let listed = match KeyspaceFiles::read(&keyspace) {
            Ok(listed) => listed?,
            Err(error) => return Some(error),
        };
        for (path, checksum) in listed.files {
            match checksum_of(&path) {
                Ok(found) if found == checksum => {}
                Ok(_) => return Some(damaged(&path, 0, "its checksum is wrong")),
                Err(error) => return Some(unread(&path, &error)),
            }
        }
    }
    None
}

/// The tables that a keyspace lists as current, whether they exist or not; `None` if the list is missing.
///
/// # Errors
///
/// If the list is damaged or the disk fails.
pub(super) fn listed_tables(keyspace: &Path) -> Result<Option<Vec<PathBuf>>, StoreError> {
    let listed = KeyspaceFiles::read(keyspace)?;
    let folder = keyspace.join(TABLES_NAME);
    let tables = |listed: KeyspaceFiles| {
        let paths = listed.files.into_iter().map(|(path, _)| path);
        paths.filter(|path| path.parent() == Some(&folder)).collect()
    };
    Ok(listed.map(tables))
}

fn keyspaces(folder: &Path) -> Result<Vec<PathBuf>, StoreError> {
    let mut keyspaces = Vec::new();
    let entries = fs::read_dir(folder).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => damaged(folder, 0, "it is missing"),
        _ => unread(folder, &error),
    })?;
    for entry in entries {
        let path = entry.map_err(|error| unread(folder, &error))?.path();
        let number = path.file_name().and_then(|name| name.to_str()?.parse::<u64>().ok());
        match (number, path.is_dir()) {
            (Some(_), true) => keyspaces.push(path),
            (None, true) => {
                return Err(damaged(&path, 0, "its name is not the name of a keyspace"));
            }
            (_, false) => {}
        }
    }
    keyspaces.sort_unstable();
    Ok(keyspaces)
}

fn check_keyspace(keyspace: &Path, has_data: bool) -> Result<(), StoreError> {
    let Some(listed) = KeyspaceFiles::read(keyspace)? else {
        // Without data, its creation was interrupted.
        let current = keyspace.join(CURRENT_NAME);
        return if has_data { Err(damaged(&current, 0, "it is missing")) } else { Ok(()) };
    };
    listed.files.iter().try_for_each(|(path, _)| check_archive(path))
}

fn check_archive(path: &Path) -> Result<(), StoreError> {
    match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(damaged(path, 0, "it is missing"))
        }
        Err(error) => Err(unread(path, &error)),
        Ok(file) => Contents::read(&file, path).map(drop),
    }
}

/// The files that a keyspace lists, with their checksums.
struct KeyspaceFiles {
    files: Vec<(PathBuf, u128)>,
}

impl KeyspaceFiles {
    /// `None` if the list is missing.
    fn read(keyspace: &Path) -> Result<Option<Self>, StoreError> {
        let path = keyspace.join(CURRENT_NAME);
        let current = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            current => current.map_err(|error| unread(&path, &error))?,
        };
        let parts = current.split_first_chunk::<8>().zip(current.get(8..24));
        let Some(((number, _), checksum)) = parts else {
            return Err(damaged(&path, 0, "it is cut short"));
        };
        let version = keyspace.join(format!("v{}", u64::from_le_bytes(*number)));
        let bytes = fs::read(&version).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => {
                let name = version.display();
                damaged(&path, 0, &format!("it names {name}, which is missing"))
            }
            _ => unread(&version, &error),
        })?;
        if xxh3_128(&bytes).to_le_bytes() != *checksum {
            let reason = format!("its checksum is not the one in {}", path.display());
            return Err(damaged(&version, 0, &reason));
        }
        let unreadable = || damaged(&version, 0, "it can't be read");
        let file = File::open(&version).map_err(|error| unread(&version, &error))?;
        let contents = Contents::read(&file, &version)?;
        let section = |name: &str| contents.section(name, &bytes).ok_or_else(unreadable);
        let tables = tables_of(section(TABLES.1)?).ok_or_else(unreadable)?;
        let blobs = blobs_of(section(BLOBS.1)?).ok_or_else(unreadable)?;
        let place = |folder: &'static str| {
            move |(number, checksum): (u64, u128)| {
                (keyspace.join(folder).join(number.to_string()), checksum)
            }
        };
        let tables = tables.into_iter().map(place(TABLES.0));
        Ok(Some(Self { files: tables.chain(blobs.into_iter().map(place(BLOBS.0))).collect() }))
    }
}

/// Numbers and checksums of tables.
fn tables_of(mut section: &[u8]) -> Option<Vec<(u64, u128)>> {
    let mut tables = Vec::new();
    let [level_count] = take(&mut section)?;
    for _ in 0..level_count {
        let [run_count] = take(&mut section)?;
        for _ in 0..run_count {
            for _ in 0..u32::from_le_bytes(take(&mut section)?) {
                tables.push(file_of(&mut section)?);
                let _sequence: [u8; 8] = take(&mut section)?;
            }
        }
    }
    Some(tables)
}

/// Numbers and checksums of blob files.
fn blobs_of(mut section: &[u8]) -> Option<Vec<(u64, u128)>> {
    let count = u32::from_le_bytes(take(&mut section)?);
    (0..count).map(|_| file_of(&mut section)).collect()
}

fn file_of(section: &mut &[u8]) -> Option<(u64, u128)> {
    let number = u64::from_le_bytes(take(section)?);
    let _kind: [u8; 1] = take(section)?;
    Some((number, u128::from_le_bytes(take(section)?)))
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (taken, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*taken)
}

/// The table of contents of an archive.
struct Contents(Vec<u8>);

impl Contents {
    fn read(file: &File, path: &Path) -> Result<Self, StoreError> {
        let failed = |error: io::Error| unread(path, &error);
        let size_bytes = file.metadata().map_err(failed)?.len();
        let Some(end) = size_bytes.checked_sub(TRAILER_BYTES) else {
            return Err(damaged(path, 0, "it is cut short"));
        };
        let mut trailer = [0; index(TRAILER_BYTES)];
        file.read_exact_at(&mut trailer, end).map_err(failed)?;
        let mut fields = &trailer[6..];
        let checksum = take::<16>(&mut fields).map_or(0, u128::from_le_bytes);
        let offset = take::<8>(&mut fields).map_or(0, u64::from_le_bytes);
        let count = end.checked_sub(offset).filter(|count| *count <= CONTENTS_BYTES_MAX);
        let (true, Some(count)) = (trailer.starts_with(b"SFA!\x01\x00"), count) else {
            return Err(damaged(path, end, "its end can't be read"));
        };
        let mut contents = vec![0; index(count)];
        file.read_exact_at(&mut contents, offset).map_err(failed)?;
        if xxh3_128(&contents) != checksum || !contents.starts_with(b"TOC!") {
            return Err(damaged(path, offset, "the checksum of its table of contents is wrong"));
        }
        Ok(Self(contents))
    }

    /// The bytes of a section of an archive.
    fn section<'a>(&self, name: &str, archive: &'a [u8]) -> Option<&'a [u8]> {
        let mut fields = self.0.get(4..)?;
        for _ in 0..u32::from_le_bytes(take(&mut fields)?) {
            let offset = usize::try_from(u64::from_le_bytes(take(&mut fields)?)).ok()?;
            let size = usize::try_from(u64::from_le_bytes(take(&mut fields)?)).ok()?;
            let name_bytes = u16::from_le_bytes(take(&mut fields)?);
            let (found, rest) = fields.split_at_checked(usize::from(name_bytes))?;
            if found == name.as_bytes() {
                return archive.get(offset..)?.get(..size);
            }
            fields = rest;
        }
        None
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_none())
}

fn checksum_of(path: &Path) -> io::Result<u128> {
    let mut file = File::open(path)?;
    let (mut hash, mut buffer) = (Xxh3Default::new(), vec![0; BUFFER_BYTES]);
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hash.digest128()),
            count => hash.update(buffer.split_at(count).0),
        }
    }
}

fn damaged(path: &Path, offset: u64, reason: &str) -> StoreError {
    let path = path.display().to_string();
    StoreError::Corrupt { path, offset, reason: format!("{reason}; {REMEDY}") }
}

fn unread(path: &Path, error: &io::Error) -> StoreError {
    let (path, reason) = (path.display().to_string(), error.to_string());
    StoreError::Io { action: "read", path, reason }
}
