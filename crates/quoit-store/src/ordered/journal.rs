//! The end of `fjall`'s journal after a power cut.
//!
//! Of what was written to it and not synced, any part may be there: pages reach the disk in any order.
//! `fjall` discards a batch whose end is missing; one whose middle is missing it takes for damage, and does
//! not open. So after a stop that was not in good order the newest journal is cut off where the first batch
//! begins that is not whole, as `fjall` does it in the other case. Older journals were synced before the next
//! one was begun, and all were when a store was closed in good order: what is wrong with those is damage.
//!
//! ```text
//! start  1, number of items 4, sequence 8
//! item   2, type 1, compression 1, keyspace 8, size of the key 2, of the value 4, of the value as it is
//!        stored 4, key, value as it is stored
//! clear  4, keyspace 8
//! end    3, XXH3-64 of all items and clears 8, "FJL" 3
//! ```
//!
//! Numbers are little-endian. Behind the last batch are zeros.

use crate::error::StoreError;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::Xxh3Default;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;

const START_BYTES: u64 = 13;
const END_BYTES: u64 = 13;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// What stands at a place of a journal.
#[derive(PartialEq, Eq, Debug)]
enum Found {
    /// A batch of so many bytes.
    Whole(u64),
    /// The beginning of a batch that is not all there.
    Torn,
    /// No batch.
    Nothing,
}

/// Cuts the newest journal of a store off where the first batch begins that is not whole.
///
/// # Errors
///
/// When the disk refuses.
pub(super) fn cut_off_torn(directory: &Path) -> Result<(), StoreError> {
    let failed = |action, path: &Path, error: &io::Error| {
        let (path, reason) = (path.display().to_string(), error.to_string());
        StoreError::Io { action, path, reason }
    };
    let newest = newest(directory).map_err(|error| failed("list", directory, &error))?;
    let Some(path) = newest else { return Ok(()) };
    let cut = cut_off(&path).map_err(|error| failed("repair", &path, &error))?;
    if let Some(position) = cut {
        let path = path.display();
        tracing::warn!(%path, position, "the end of a journal was not all written, and is cut off");
    }
    Ok(())
}

/// The newest journal; `None` where there is none yet.
fn newest(directory: &Path) -> io::Result<Option<PathBuf>> {
    if !directory.exists() {
        return Ok(None);
    }
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in directory.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        let number = name.and_then(|name| name.strip_suffix(".jnl")?.parse().ok());
        if let Some(number) = number
            && newest.as_ref().is_none_or(|(other, _)| *other < number)
        {
            newest = Some((number, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

/// Cuts a journal off where it is torn. Where that was.
fn cut_off(path: &Path) -> io::Result<Option<u64>> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let torn_at = torn_at(&mut BufReader::with_capacity(1 << 16, &file))?;
    if let Some(position) = torn_at {
        file.set_len(position)?;
        File::sync_all(&file)?;
    }
    Ok(torn_at)
}

/// Where the first batch begins that is not whole; `None` if all are.
fn torn_at(journal: &mut impl Read) -> io::Result<Option<u64>> {
    let mut position = 0;
    loop {
        match read_batch(journal) {
            Ok(Found::Whole(size_bytes)) => position += size_bytes,
            Ok(Found::Nothing) => return Ok(None),
            Ok(Found::Torn) => return Ok(Some(position)),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(Some(position)),
            Err(error) => return Err(error),
        }
    }
}

fn read_batch(journal: &mut impl Read) -> io::Result<Found> {
    let mut tag = [0];
    if journal.read(&mut tag)? == 0 || tag != [START] {
        return Ok(Found::Nothing);
    }
    let mut items_left = u32::from_le_bytes(array(journal)?);
    let _sequence: [u8; 8] = array(journal)?;
    let mut size_bytes = START_BYTES;
    let mut hash = Xxh3Default::new();
    loop {
        let [tag] = array(journal)?;
        if tag == END {
            let checksum = u64::from_le_bytes(array(journal)?);
            let trailer: [u8; 4] = array(journal)?;
            let is_whole = items_left == 0 && checksum == hash.digest() && trailer == TRAILER;
            return Ok(if is_whole { Found::Whole(size_bytes + END_BYTES) } else { Found::Torn });
        }
        if items_left == 0 {
            return Ok(Found::Torn);
        }
        items_left -= 1;
        hash.update(&[tag]);
        size_bytes += 1 + match tag {
            ITEM => pass_item(journal, &mut hash)?,
            CLEAR => pass(journal, 8, &mut hash)?,
            _ => return Ok(Found::Torn),
        };
    }
}

/// Goes past an item behind its tag. Its size.
fn pass_item(journal: &mut impl Read, hash: &mut Xxh3Default) -> io::Result<u64> {
    let head: [u8; 20] = array(journal)?;
    hash.update(&head);
    let [_, _, _, _, _, _, _, _, _, _, k0, k1, _, _, _, _, v0, v1, v2, v3] = head;
    let key_bytes = u64::from(u16::from_le_bytes([k0, k1]));
    let value_bytes = u64::from(u32::from_le_bytes([v0, v1, v2, v3]));
    Ok(head.len() as u64 + pass(journal, key_bytes + value_bytes, hash)?)
}

/// Goes past so many bytes; takes no memory for them, since their number may be wrong.
fn pass(journal: &mut impl Read, size_bytes: u64, hash: &mut Xxh3Default) -> io::Result<u64> {
    let mut buffer = [0; 4_096];
    let mut left = size_bytes;
    while left > 0 {
        let size = left.min(buffer.len() as u64) as usize;
        journal.read_exact(&mut buffer[..size])?;
        hash.update(&buffer[..size]);
        left -= size as u64;
    }
    Ok(size_bytes)
}

fn array<const N: usize>(journal: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    journal.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;
    use fjall::{Database, KeyspaceCreateOptions, PersistMode};
    use proptest::prelude::*;

    /// Keys that are put or removed together.
    type Writes = Vec<(Vec<u8>, Option<Vec<u8>>)>;

    /// What `fjall` writes for some batches, without the zeros behind.
    fn written(batches: &[Writes]) -> Vec<u8> {
        let directory = tempfile::tempdir().unwrap();
        let database = Database::builder(directory.path()).open().unwrap();
        let keyspace = database.keyspace("k", KeyspaceCreateOptions::default).unwrap();
        for writes in batches {
            let mut batch = database.batch().durability(Some(PersistMode::Buffer));
            for (key, value) in writes {
                match value {
                    Some(value) => batch.insert(&keyspace, &key[..], &value[..]),
                    None => batch.remove(&keyspace, &key[..]),
                }
            }
            batch.commit().unwrap();
        }
        let path = newest(directory.path()).unwrap().expect("a journal");
        let mut bytes = Vec::new();
        File::open(path).unwrap().take(1 << 20).read_to_end(&mut bytes).unwrap();
        // A batch ends with a byte that is not zero.
        let end = bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        bytes.truncate(end);
        bytes
    }

    /// Where the batches of a journal begin.
    fn starts_of(whole: &[u8]) -> Vec<usize> {
        let (mut starts, mut left) = (Vec::new(), whole);
        while let Found::Whole(size_bytes) = read_batch(&mut left).unwrap() {
            starts.push(whole.len() - left.len() - size_bytes as usize);
        }
        starts
    }

    fn batches() -> impl Strategy<Value = Vec<Writes>> {
        let key = prop::collection::vec(any::<u8>(), 1..20);
        let value = prop::option::of(prop::collection::vec(any::<u8>(), 0..9_000));
        prop::collection::vec(prop::collection::vec((key, value), 1..5), 1..5)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(20))]

        #[test]
        fn what_was_written_whole_is_not_torn_and_all_else_is_cut_off_where_its_batch_begins(
            batches in batches(), at: prop::sample::Index, by in 1..=255u8,
        ) {
            let whole = written(&batches);
            let with_zeros = [&whole[..], &[0; 5_000]].concat();
            for sound in [&whole, &with_zeros] {
                prop_assert_eq!(torn_at(&mut &sound[..]).unwrap(), None);
            }
            let at = at.index(whole.len());
            let mut changed = with_zeros;
            changed[at] ^= by;
            if let Some(position) = torn_at(&mut &changed[..]).unwrap() {
                prop_assert!(position <= at as u64);
                prop_assert_eq!(torn_at(&mut &whole[..position as usize]).unwrap(), None);
            } else {
                // A batch's tag, without which there is none, and its sequence have no sum.
                let starts = starts_of(&whole);
                prop_assert!(starts.iter().any(|start| (*start..start + 13).contains(&at)));
            }
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes: Vec<u8>) {
            let _ = torn_at(&mut &bytes[..]);
            let _ = torn_at(&mut &[&[START][..], &bytes].concat()[..]);
        }
    }
}
