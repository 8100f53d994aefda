//! Writes of a keyspace in the journals of `fjall`, in the order of keys.

use super::UnreadableRange;
use super::table::{TableEntry, TableEntryKind};
use crate::ordered::journal::JournalItem;
use bytes::Bytes;
use std::cmp::Reverse;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Items of one keyspace. Keys are in memory; values are read when they are needed.
pub(super) struct JournalRun {
    items: Vec<JournalItem>,
    next: usize,
    pub(super) unread: Vec<UnreadableRange>,
}

impl JournalRun {
    pub(super) fn new(mut items: Vec<JournalItem>) -> Self {
        items.sort_by(|one, other| {
            (&one.key, Reverse(one.sequence)).cmp(&(&other.key, Reverse(other.sequence)))
        });
        Self { items, next: 0, unread: Vec::new() }
    }

    pub(super) fn rewind(&mut self) {
        self.next = 0;
        self.unread.clear();
    }

    pub(super) fn next(&mut self) -> Option<TableEntry> {
        loop {
            let item = self.items.get(self.next)?;
            self.next += 1;
            match read(item) {
                Ok(entry) => return Some(entry),
                Err(error) => self.unread.push(UnreadableRange {
                    path: item.journal.display().to_string(),
                    start: item.offset,
                    end: item.offset + u64::from(item.stored_bytes),
                    reason: error.to_string(),
                }),
            }
        }
    }
}

fn read(item: &JournalItem) -> io::Result<TableEntry> {
    let (key, sequence) = (Bytes::copy_from_slice(&item.key), item.sequence);
    if item.kind != 0 {
        return Ok(TableEntry {
            key,
            sequence,
            kind: TableEntryKind::Removal,
            value: Bytes::new(),
        });
    }
    let mut stored = vec![0; item.stored_bytes as usize];
    File::open(&*item.journal)?.read_exact_at(&mut stored, item.offset)?;
    let value = match item.is_compressed {
        false => stored,
        true => lz4_flex::decompress(&stored, item.value_bytes as usize)
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?,
    };
    Ok(TableEntry { key, sequence, kind: TableEntryKind::Value, value: Bytes::from(value) })
}
