//! Format of the journal's files and entries. Numbers are little-endian.
//!
//! ```text
//! file head, 32 bytes:
//!   0  8  magic "QUOITSQ\n"
//!   8  4  format version 1
//!  12  4  number of the file
//!  16  8  sequence number of the next entry at the time when the file was created
//!  24  4  0
//!  28  4  low half of XXH3-64 of all bytes before
//! entry:
//!   0  4  low half of XXH3-64 of the rest of the entry
//!   4  4  bytes in the entry, including these and the checksum
//!   8  8  sequence number
//!  16  8  time of queueing, microseconds since 1970
//!  24  1  kind: 0 to be fetched, 1 tombstone, 2 reap, 5 delta; in the log of change feeds 3 put, 4 delete
//!  25  1  number of visited clusters
//!  26  1  number of queues
//!  27  1  0
//!  28  4  bytes in the record's name
//!  32     visited clusters, 16 bytes each; numbers of queues, 4 bytes each; the record's name;
//!         then, of a tombstone, its stored form; of a reap, its time (8 bytes) and its clock as clients
//!         get it; of a delta, its time (8 bytes) and its stored form; of a put or delete, the record's
//!         clock as clients get it
//! ```

use super::{JournalEntry, QueueNumber};
use crate::little_endian::{u32_at, u64_at};
use crate::queues::entry::{
    EntryReference, EntrySequence, QueueEntry, VISITED_COUNT_MAX, Visited, VisitedCluster,
};
use bytes::Bytes;
use quoit_model::context::{decode_context, encode_context};
use quoit_number::{length_u32, low_u32};
use quoit_store::error::StoreError;
use xxhash_rust::xxh3::xxh3_64;

pub(super) const PREFIX: &str = "source-";
const MAGIC: [u8; 8] = *b"QUOITSQ\n";
const VERSION: u32 = 1;
pub(super) const FILE_HEAD_BYTES: usize = 32;
const ENTRY_HEAD_BYTES: usize = 32;
/// Maximum bytes in an entry: a name; a tombstone, a delta or a clock; and lists with bounds of their
/// own.
const ENTRY_BYTES_MAX: usize = 64 << 20;

/// Name of the file with a number.
pub(in crate::queues) fn file_name(number: u32) -> String {
    format!("{PREFIX}{number:08x}")
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    low_u32(xxh3_64(bytes)).to_le_bytes()
}

/// Encodes the head of a file.
pub(in crate::queues) fn file_head(number: u32, first: EntrySequence) -> Vec<u8> {
    let mut head = MAGIC.to_vec();
    head.extend_from_slice(&VERSION.to_le_bytes());
    head.extend_from_slice(&number.to_le_bytes());
    head.extend_from_slice(&first.0.to_le_bytes());
    head.extend_from_slice(&[0; 4]);
    let sum = checksum(&head);
    head.extend_from_slice(&sum);
    assert_eq!(head.len(), FILE_HEAD_BYTES, "the head of a file has its length");
    head
}

/// Reads the sequence number in a file's head; `None` if the head is torn.
pub(super) fn read_head(
    head: &[u8; FILE_HEAD_BYTES],
    path: &str,
    number: u32,
) -> Result<Option<EntrySequence>, StoreError> {
    if !head.starts_with(&MAGIC) || checksum(&head[..28]) != head[28..32] {
        return Ok(None);
    }
    let version = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
    if version != VERSION {
        return Err(StoreError::Corrupt {
            path: format!("{path}/{}", file_name(number)),
            offset: 8,
            reason: format!(
                "source queues of format {version}, of a newer release; start that release, or move the \
                 directory away and run full-sync"
            ),
        });
    }
    Ok(u64_at(head, 16).map(EntrySequence))
}

/// Appends the encoded entry to `out`.
pub(super) fn encode(entry: &QueueEntry, queues: &[QueueNumber], out: &mut Vec<u8>) {
    let start = out.len();
    let kind = match &entry.reference {
        EntryReference::Object(_) | EntryReference::ToFetch => 0,
        EntryReference::Tombstone(_) => 1,
        EntryReference::Reap { .. } => 2,
        EntryReference::Delta { .. } => 5,
        EntryReference::Change { is_delete: false, .. } => 3,
        EntryReference::Change { is_delete: true, .. } => 4,
    };
    let visited = entry.visited.get(..VISITED_COUNT_MAX).unwrap_or(&entry.visited);
    let queues = queues.get(..usize::from(u8::MAX)).unwrap_or(queues);
    debug_assert!(
        !matches!(entry.reference, EntryReference::Change { .. }) || queues.is_empty(),
        "entries of change feeds wait in no queue"
    );
    let count = |length: usize| u8::try_from(length).expect("lists are cut to their maximum");
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&entry.sequence.0.to_le_bytes());
    out.extend_from_slice(&entry.queued_us.to_le_bytes());
    out.extend_from_slice(&[kind, count(visited.len()), count(queues.len()), 0]);
    out.extend_from_slice(&length_u32(entry.key.len()).to_le_bytes());
    visited.iter().for_each(|cluster| out.extend_from_slice(cluster));
    queues.iter().for_each(|queue| out.extend_from_slice(&queue.0.to_le_bytes()));
    out.extend_from_slice(&entry.key);
    match &entry.reference {
        EntryReference::Object(_) | EntryReference::ToFetch => {}
        EntryReference::Tombstone(stored) => out.extend_from_slice(stored),
        EntryReference::Reap { clock, reaped_us } => {
            out.extend_from_slice(&reaped_us.to_le_bytes());
            out.extend_from_slice(&encode_context(clock));
        }
        EntryReference::Delta { delta, last_modified_us } => {
            out.extend_from_slice(&last_modified_us.to_le_bytes());
            out.extend_from_slice(delta);
        }
        EntryReference::Change { context, .. } => out.extend_from_slice(context),
    }
    seal(out, start);
}

/// Fills in the length and the checksum of the entry that was appended at `start`.
#[expect(clippy::indexing_slicing, reason = "the entry has a whole head")]
fn seal(out: &mut [u8], start: usize) {
    let length = length_u32(out.len() - start);
    out[start + 4..start + 8].copy_from_slice(&length.to_le_bytes());
    let sum = checksum(&out[start + 4..]);
    out[start..start + 4].copy_from_slice(&sum);
}

/// Entries in the encoding that follows the head of a file.
#[cfg(any(test, feature = "testing"))]
pub(in crate::queues) fn journal_bytes(entries: &[QueueEntry], queues: &[QueueNumber]) -> Vec<u8> {
    let mut bytes = Vec::new();
    entries.iter().for_each(|entry| encode(entry, queues, &mut bytes));
    bytes
}

/// Length of an entry by its own head; `None` if no entry can begin here.
pub(super) fn length_of(bytes: &[u8]) -> Option<usize> {
    if bytes.len() < ENTRY_HEAD_BYTES {
        return None;
    }
    let length = u32_at(bytes, 4)? as usize;
    (ENTRY_HEAD_BYTES..=ENTRY_BYTES_MAX).contains(&length).then_some(length)
}

/// Decodes one entry; `None` if it is damaged.
pub(super) fn decode(bytes: &Bytes) -> Option<JournalEntry> {
    let (sum, sealed) = bytes.split_first_chunk::<4>()?;
    if length_of(bytes)? != bytes.len() || checksum(sealed) != *sum {
        return None;
    }
    let head: &[u8; ENTRY_HEAD_BYTES] = bytes.first_chunk()?;
    let (kind, visited_count, queue_count) = (head[24], head[25], head[26]);
    let key_len = u32_at(head, 28)? as usize;
    let mut rest = bytes.slice(ENTRY_HEAD_BYTES..);
    let mut part = |len: usize| (rest.len() >= len).then(|| rest.split_to(len));
    let visited = part(usize::from(visited_count) * 16)?;
    let visited: Visited =
        visited.chunks_exact(16).filter_map(|id| VisitedCluster::try_from(id).ok()).collect();
    let queues = part(usize::from(queue_count) * 4)?;
    let queues = queues.as_chunks::<4>().0.iter();
    let queues = queues.map(|number| QueueNumber(u32::from_le_bytes(*number))).collect();
    let key = part(key_len)?;
    let reference = match kind {
        0 => EntryReference::ToFetch,
        1 => EntryReference::Tombstone(rest),
        2 => {
            let (reaped_us, clock) = rest.split_first_chunk()?;
            let reaped_us = u64::from_le_bytes(*reaped_us);
            EntryReference::Reap { reaped_us, clock: decode_context(clock).ok()? }
        }
        3 | 4 => EntryReference::Change { is_delete: kind == 4, context: rest },
        5 => {
            let last_modified_us = u64_at(&rest, 0)?;
            EntryReference::Delta { last_modified_us, delta: rest.slice(8..) }
        }
        _ => return None,
    };
    let sequence = EntrySequence(u64_at(head, 8)?);
    let queued_us = u64_at(head, 16)?;
    let entry =
        QueueEntry { sequence, key, reference, visited, queued_us, may_be_redelivery: false };
    Some(JournalEntry { entry, queues })
}
