//! The items of the intact batches of a journal, for a salvage without `fjall`.

use super::batch::{self, ITEM, ITEM_HEAD_BYTES, START_BYTES, sizes};
use super::paths_of;
use super::survey::{JournalPart, SEQUENCES_AHEAD_MAX, survey};
use quoit_model::store_opening::StoreId;
use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BUFFER_BYTES: usize = 1 << 16;

/// An item of a batch, without its value.
#[derive(Clone, Debug)]
pub(in crate::ordered) struct JournalItem {
    /// Number of the keyspace.
    pub(in crate::ordered) keyspace: u64,
    pub(in crate::ordered) key: Vec<u8>,
    pub(in crate::ordered) sequence: u64,
    /// 0 for a value, other numbers for a removal.
    pub(in crate::ordered) kind: u8,
    pub(in crate::ordered) is_compressed: bool,
    /// Size of the value in bytes.
    pub(in crate::ordered) value_bytes: u32,
    /// Size of the stored value in bytes.
    pub(in crate::ordered) stored_bytes: u32,
    pub(in crate::ordered) journal: Arc<PathBuf>,
    /// Offset of the value in the journal.
    pub(in crate::ordered) offset: u64,
}

/// Shows the items of all intact batches in the journals of a store, including batches after a gap that a
/// power failure left: a salvage wants all of them.
pub(in crate::ordered) fn visit_items(
    directory: &Path,
    store_id: StoreId,
    take: &mut dyn FnMut(JournalItem),
) -> io::Result<()> {
    let mut above = 0;
    for path in paths_of(directory)? {
        let mut journal = BufReader::with_capacity(BUFFER_BYTES, File::open(&path)?);
        let survey = survey(&mut journal, above, store_id)?;
        above = above.max(survey.last_group().unwrap_or(0));
        let path = Arc::new(path);
        for piece in
            survey.pieces.iter().filter(|piece| matches!(piece.part, JournalPart::Batches(_)))
        {
            let mut position = piece.start;
            while position < piece.end {
                journal.seek(SeekFrom::Start(position))?;
                let Some(batch) = batch::read(&mut journal, store_id)? else { break };
                let mark = batch.marked.map(|(mark, _)| mark.sequence_min);
                // The start has no checksum, but the mark has one.
                let sequence = match mark {
                    Some(least)
                        if !(least..least + SEQUENCES_AHEAD_MAX).contains(&batch.sequence) =>
                    {
                        least
                    }
                    _ => batch.sequence,
                };
                let start = BatchStart { offset: position, sequence };
                visit_batch(&mut journal, &path, start, take)?;
                position += batch.size_bytes;
            }
        }
    }
    Ok(())
}

/// The start of a batch.
struct BatchStart {
    /// Offset in the journal.
    offset: u64,
    sequence: u64,
}

/// Shows the items of an intact batch.
fn visit_batch(
    journal: &mut BufReader<File>,
    path: &Arc<PathBuf>,
    start: BatchStart,
    take: &mut dyn FnMut(JournalItem),
) -> io::Result<()> {
    let BatchStart { offset, sequence } = start;
    let mut position = offset + START_BYTES as u64;
    journal.seek(SeekFrom::Start(position))?;
    loop {
        let mut front = [0; 1 + ITEM_HEAD_BYTES];
        journal.read_exact(&mut front[..1])?;
        if front[0] != ITEM {
            // The store never clears a keyspace, so this is the end.
            return Ok(());
        }
        journal.read_exact(&mut front[1..])?;
        let [_, kind, compression, rest @ ..] = front;
        let (keyspace, _) = rest.split_first_chunk().expect("it is longer");
        let head = front[1..].first_chunk().expect("it has this size");
        let (key_bytes, stored_bytes) = sizes(head);
        let value_bytes = front[13..].first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
        let mut key = vec![0; usize::from(key_bytes)];
        journal.read_exact(&mut key)?;
        position += front.len() as u64 + u64::from(key_bytes);
        take(JournalItem {
            keyspace: u64::from_le_bytes(*keyspace),
            key,
            sequence,
            kind,
            is_compressed: compression != 0,
            value_bytes,
            stored_bytes,
            journal: Arc::clone(path),
            offset: position,
        });
        position += u64::from(stored_bytes);
        journal.seek_relative(i64::from(stored_bytes))?;
    }
}
