//! A batch of a journal: reading it, searching the next one, and making one.
//!
//! ```text
//! start  1, number of items 4, sequence 8
//! item   2, type 1, compression 1, keyspace 8, size of the key 2, of the value 4, of the stored value 4,
//!        key, stored value
//! clear  4, keyspace 8
//! end    3, XXH3-64 of all items and clears 8, "FJL" 3
//! ```
//!
//! Numbers are little-endian; a number after a field is its size in bytes, and the first number of a line
//! is the tag. The start has no checksum of its own: if the rest of the batch is intact, a damaged start is
//! rebuilt.

use super::groups::{MARK_BYTES, Mark};
use crate::ordered::keys::GROUP_KEY;
use memchr::memmem;
use quoit_model::store_opening::StoreId;
use quoit_number::{index, length_u32, low_u16};
use std::io::{self, ErrorKind, Read, Seek, SeekFrom};
use xxhash_rust::xxh3::{Xxh3Default, xxh3_64};

const START: u8 = 1;
pub(super) const ITEM: u8 = 2;
const END: u8 = 3;
const CLEAR: u8 = 4;

pub(super) const START_BYTES: usize = 13;
const END_BYTES: u64 = 13;
const TRAILER: [u8; 4] = *b"FJL\x03";

/// Size in bytes of an item before its key, without the tag.
pub(super) const ITEM_HEAD_BYTES: usize = 20;

/// Size in bytes of the item with the mark, which is the first of a batch.
const MARK_ITEM_BYTES: usize = 1 + ITEM_HEAD_BYTES + 1 + MARK_BYTES;

/// Size in bytes of the beginning of a batch, by which a search finds it.
const FRONT_BYTES: usize = START_BYTES + MARK_ITEM_BYTES;

/// Offset in the item with the mark of the sizes of its key and value, which are the same in each such
/// item.
const SIZES_AT: usize = 11;

/// Number of bytes that are searched at once.
const PIECE_BYTES: usize = 1 << 18;

/// Number by which the journal names a keyspace.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeyspaceNumber(pub(super) u64);

/// A batch that is intact after its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct JournalBatch {
    pub(super) size_bytes: u64,
    pub(super) sequence: u64,
    item_count: u32,
    pub(super) is_start_sound: bool,
    /// The mark and its keyspace; `None` in batches of older releases.
    pub(super) marked: Option<(Mark, KeyspaceNumber)>,
}

impl JournalBatch {
    /// The start that the batch should have, with this sequence.
    pub(super) fn start(&self, sequence: u64) -> [u8; START_BYTES] {
        start(self.item_count, sequence)
    }
}

fn start(item_count: u32, sequence: u64) -> [u8; START_BYTES] {
    let mut bytes = [START; START_BYTES];
    bytes[1..5].copy_from_slice(&item_count.to_le_bytes());
    bytes[5..].copy_from_slice(&sequence.to_le_bytes());
    bytes
}

/// Reads the batch at the current position of the journal; `None` if there is no intact one.
pub(super) fn read(journal: &mut impl Read, store_id: StoreId) -> io::Result<Option<JournalBatch>> {
    match read_to_end(journal, store_id) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        read => read,
    }
}

fn read_to_end(journal: &mut impl Read, store_id: StoreId) -> io::Result<Option<JournalBatch>> {
    let front: [u8; START_BYTES] = array(journal)?;
    let [tag, counts @ ..] = front;
    let (counts, sequence) = counts.split_at(4);
    let (mut item_count, mut marked) = (0_u32, None);
    let mut size_bytes = START_BYTES as u64;
    let mut hash = Xxh3Default::new();
    loop {
        let [tag_of_item] = array(journal)?;
        if tag_of_item == END {
            let checksum = u64::from_le_bytes(array(journal)?);
            let trailer: [u8; 4] = array(journal)?;
            if item_count == 0 || checksum != hash.digest() || trailer != TRAILER {
                return Ok(None);
            }
            let is_start_sound = tag == START && counts == item_count.to_le_bytes();
            let sequence = u64::from_le_bytes(sequence.try_into().expect("eight of twelve bytes"));
            let size_bytes = size_bytes + END_BYTES;
            return Ok(Some(JournalBatch {
                size_bytes,
                sequence,
                item_count,
                is_start_sound,
                marked,
            }));
        }
        hash.update(&[tag_of_item]);
        size_bytes += 1 + match tag_of_item {
            ITEM if item_count == 0 => {
                let (passed, found) = pass_first_item(journal, &mut hash, store_id)?;
                marked = found;
                passed
            }
            ITEM => pass_item(journal, &mut hash)?,
            CLEAR => pass(journal, 8, &mut hash)?,
            _ => return Ok(None),
        };
        let Some(counted) = item_count.checked_add(1) else { return Ok(None) };
        item_count = counted;
    }
}

/// Skips an item after its tag. Returns its size in bytes.
fn pass_item(journal: &mut impl Read, hash: &mut Xxh3Default) -> io::Result<u64> {
    let head: [u8; ITEM_HEAD_BYTES] = array(journal)?;
    hash.update(&head);
    let (key_bytes, value_bytes) = sizes(&head);
    let entry_bytes = u64::from(key_bytes) + u64::from(value_bytes);
    Ok(head.len() as u64 + pass(journal, entry_bytes, hash)?)
}

/// Like [`pass_item`], for the first item of a batch. Also returns its mark and keyspace, if it has a mark.
fn pass_first_item(
    journal: &mut impl Read,
    hash: &mut Xxh3Default,
    store_id: StoreId,
) -> io::Result<(u64, Option<(Mark, KeyspaceNumber)>)> {
    let head: [u8; ITEM_HEAD_BYTES] = array(journal)?;
    hash.update(&head);
    let (key_bytes, value_bytes) = sizes(&head);
    let entry_bytes = u64::from(key_bytes) + u64::from(value_bytes);
    let size_bytes = ITEM_HEAD_BYTES as u64 + entry_bytes;
    if size_bytes + 1 != MARK_ITEM_BYTES as u64 {
        pass(journal, entry_bytes, hash)?;
        return Ok((size_bytes, None));
    }
    let entry: [u8; 1 + MARK_BYTES] = array(journal)?;
    hash.update(&entry);
    let mut item = [ITEM; MARK_ITEM_BYTES];
    item[1..=ITEM_HEAD_BYTES].copy_from_slice(&head);
    item[1 + ITEM_HEAD_BYTES..].copy_from_slice(&entry);
    Ok((size_bytes, read_mark(&item, store_id)))
}

/// Sizes in bytes of an item's key and stored value.
pub(super) fn sizes(head: &[u8; ITEM_HEAD_BYTES]) -> (u16, u32) {
    let [.., k0, k1, _, _, _, _, v0, v1, v2, v3] = *head;
    (u16::from_le_bytes([k0, k1]), u32::from_le_bytes([v0, v1, v2, v3]))
}

/// The mark in an item, and its keyspace.
fn read_mark(item: &[u8; MARK_ITEM_BYTES], store_id: StoreId) -> Option<(Mark, KeyspaceNumber)> {
    let keyspace = KeyspaceNumber(u64::from_le_bytes(*item[3..].first_chunk()?));
    let mark = Mark::read(&item[MARK_ITEM_BYTES - MARK_BYTES..], store_id)?;
    (*item == mark_item(keyspace, &mark, store_id)).then_some((mark, keyspace))
}

/// The bytes at [`SIZES_AT`].
fn mark_sizes() -> [u8; 10] {
    let mut sizes = [0; 10];
    sizes[0..2].copy_from_slice(&low_u16(GROUP_KEY.len() as u64).to_le_bytes());
    sizes[2..6].copy_from_slice(&length_u32(MARK_BYTES).to_le_bytes());
    sizes[6..].copy_from_slice(&length_u32(MARK_BYTES).to_le_bytes());
    sizes
}

fn mark_item(keyspace: KeyspaceNumber, mark: &Mark, store_id: StoreId) -> [u8; MARK_ITEM_BYTES] {
    let mut item = [0; MARK_ITEM_BYTES];
    item[0] = ITEM;
    // The type is that of a value, and the value is not compressed: both are 0.
    item[3..11].copy_from_slice(&keyspace.0.to_le_bytes());
    item[SIZES_AT..21].copy_from_slice(&mark_sizes());
    item[21..22].copy_from_slice(GROUP_KEY);
    item[22..].copy_from_slice(&mark.encode(store_id));
    item
}

/// A batch that has only a mark.
pub(super) fn mark_alone(
    keyspace: KeyspaceNumber,
    mark: &Mark,
    sequence: u64,
    store_id: StoreId,
) -> Vec<u8> {
    let item = mark_item(keyspace, mark, store_id);
    let check = xxh3_64(&item).to_le_bytes();
    [&start(1, sequence)[..], &item, &[END], &check, &TRAILER].concat()
}

/// A search for the beginning of a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct BatchSearch {
    /// Offset at which the search begins.
    pub(super) from: u64,
    /// The batch has a group above this one.
    pub(super) above: u64,
}

/// Searches for the beginning of a batch. Returns its offset. The start of that batch and the rest of it
/// may be damaged.
pub(super) fn seek(
    journal: &mut (impl Read + Seek),
    search: BatchSearch,
    store_id: StoreId,
) -> io::Result<Option<u64>> {
    let BatchSearch { from, above } = search;
    journal.seek(SeekFrom::Start(from))?;
    let mut position = from;
    let mut bytes: Vec<u8> = Vec::with_capacity(PIECE_BYTES + FRONT_BYTES);
    // A fast search is needed, because a journal ends with megabytes of zeros.
    let sizes = mark_sizes();
    let sizes = memmem::Finder::new(&sizes);
    loop {
        let kept_count = bytes.len();
        journal.by_ref().take(PIECE_BYTES as u64).read_to_end(&mut bytes)?;
        if bytes.len() == kept_count {
            return Ok(None);
        }
        let mut place = 0;
        while let Some(front) = bytes.get(place..).filter(|rest| rest.len() >= FRONT_BYTES) {
            let sized = front.get(START_BYTES + SIZES_AT..).unwrap_or_default();
            let Some(ahead) = sizes.find(sized) else { break };
            place += ahead;
            let Some(front) = bytes.get(place..place + FRONT_BYTES) else { break };
            if mark_of(front, store_id).is_some_and(|mark| mark.first > above) {
                return Ok(Some(position + place as u64));
            }
            place += 1;
        }
        let passed = bytes.len().saturating_sub(FRONT_BYTES - 1);
        bytes.drain(..passed);
        position += passed as u64;
    }
}

/// The mark of the batch at an offset.
pub(super) fn front_at(
    journal: &mut (impl Read + Seek),
    place: u64,
    store_id: StoreId,
) -> io::Result<Option<Mark>> {
    journal.seek(SeekFrom::Start(place))?;
    let mut front = Vec::with_capacity(FRONT_BYTES);
    journal.by_ref().take(FRONT_BYTES as u64).read_to_end(&mut front)?;
    Ok(if front.len() == FRONT_BYTES { mark_of(&front, store_id) } else { None })
}

/// The mark of a batch with this beginning, whatever its start says.
fn mark_of(front: &[u8], store_id: StoreId) -> Option<Mark> {
    let item: &[u8; MARK_ITEM_BYTES] = front.get(START_BYTES..)?.first_chunk()?;
    if item[0] != ITEM || item[21] != GROUP_KEY[0] {
        return None;
    }
    read_mark(item, store_id).map(|(mark, _)| mark)
}

/// Skips bytes. Allocates no memory for them, since their number may be wrong.
fn pass(journal: &mut impl Read, size_bytes: u64, hash: &mut Xxh3Default) -> io::Result<u64> {
    let mut buffer = [0; 4_096];
    let mut left = size_bytes;
    while left > 0 {
        let size = index(left.min(buffer.len() as u64));
        let (piece, _) = buffer.split_at_mut(size);
        journal.read_exact(piece)?;
        hash.update(piece);
        left -= size as u64;
    }
    Ok(size_bytes)
}

fn array<const N: usize>(journal: &mut impl Read) -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    journal.read_exact(&mut bytes)?;
    Ok(bytes)
}
