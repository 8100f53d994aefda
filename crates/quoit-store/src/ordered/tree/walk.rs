//! Walks through a tree's file page by page, skipping damaged pages.
//!
//! `redb` gives up at a damaged page, and does not return the entries after it. Its format is documented
//! (`docs/design.md` of the crate): each page has a checksum in the page above it, up to the commit slot of
//! the header. So this module finds the readable pages without `redb`, and uses only bytes whose checksum
//! is right. A damaged page leaves a [`Hole`]: the range between two known keys that contained its keys.

use super::checksums::BLOCK_BYTES;
use super::header::{HEADER_BYTES, TreeHeader};
use crate::error::StoreError;
use quoit_seam::DiskFile;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_128;

const LEAF: u8 = 1;
const BRANCH: u8 = 2;

/// Offsets at which the numbers of a leaf's entries begin, and those of a branch's children.
const LEAF_FRONT_BYTES: usize = 4;
const BRANCH_FRONT_BYTES: usize = 8;

/// Sizes in bytes of a checksum and of a page's number.
const SUM_BYTES: usize = 16;
const PAGE_BYTES: usize = 8;

/// Offset in the definition of a table of the flag that it has a root, with the root's page and checksum
/// after it.
const TABLE_ROOT_AT: usize = 9;

/// Maximum size of a page, as a power of two in blocks: a region has no more.
const ORDER_MAX: u64 = 20;
const PAGE_BYTES_MAX: u64 = (BLOCK_BYTES as u64) << ORDER_MAX;

/// The range of keys of a damaged page: all above `after`, up to and including `until`. `None` is the end
/// of the table.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(in crate::ordered) struct Hole {
    pub(in crate::ordered) after: Option<Vec<u8>>,
    pub(in crate::ordered) until: Option<Vec<u8>>,
    /// Offset of the page in the file, if its number is valid.
    pub(in crate::ordered) page_at: Option<u64>,
}

impl Hole {
    pub(in crate::ordered) fn contains(&self, key: &[u8]) -> bool {
        self.after.as_ref().is_none_or(|after| key > &after[..])
            && self.until.as_ref().is_none_or(|until| key <= &until[..])
    }
}

/// Receives the readable entries of a table, in order.
pub(in crate::ordered) type Take<'t> = dyn FnMut(&[u8], &[u8]) -> Result<(), StoreError> + 't;

/// A reference to a page: its number and its checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageRef {
    number: u64,
    sum: [u8; SUM_BYTES],
}

impl PageRef {
    /// Decodes a number and the checksum after it.
    pub(super) fn read(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk()?;
        Some(Self { number: u64::from_le_bytes(*number), sum: *rest.first_chunk()? })
    }
}

/// The tables of a file, as of its last commit.
pub(in crate::ordered) struct TreeWalk {
    file: Arc<dyn DiskFile>,
    region_bytes: u64,
    region_header_bytes: u64,
    /// Names and roots; `None` is the root of an empty table.
    tables: Vec<(Vec<u8>, Option<PageRef>)>,
    /// True if a part of the list of tables is damaged.
    is_partial: bool,
}

impl TreeWalk {
    /// Reads the header and the list of tables. `None` if the header cannot be read.
    pub(in crate::ordered) fn open(file: Arc<dyn DiskFile>) -> Result<Option<Self>, StoreError> {
        let mut header = TreeHeader([0; HEADER_BYTES]);
        file.read_at(&mut header.0, 0)?;
        let Some(commit) = header.last_commit().filter(|_| header.is_known()) else {
            return Ok(None);
        };
        let block_bytes = BLOCK_BYTES as u64;
        let [header_pages, data_pages] = header.region_pages();
        let mut walk = Self {
            file,
            region_bytes: (header_pages + data_pages) * block_bytes,
            region_header_bytes: header_pages * block_bytes,
            tables: Vec::new(),
            is_partial: false,
        };
        let (mut tables, mut holes) = (Vec::new(), Vec::new());
        if let Some(root) = commit {
            let take = &mut |name: &[u8], definition: &[u8]| {
                let has_root = definition.get(TABLE_ROOT_AT) == Some(&1);
                let root = definition.get(TABLE_ROOT_AT + 1..).and_then(PageRef::read);
                tables.push((name.to_vec(), root.filter(|_| has_root)));
                Ok(())
            };
            walk.visit_page(root, Hole::default(), take, &mut holes)?;
        }
        (walk.tables, walk.is_partial) = (tables, !holes.is_empty());
        Ok(Some(walk))
    }

    /// Shows all readable entries of a table, in order. Returns the holes.
    pub(in crate::ordered) fn visit(
        &self,
        table: &str,
        take: &mut Take<'_>,
    ) -> Result<Vec<Hole>, StoreError> {
        let mut holes = Vec::new();
        match self.tables.iter().find(|(name, _)| name == table.as_bytes()) {
            Some((_, Some(root))) => self.visit_page(*root, Hole::default(), take, &mut holes)?,
            Some((_, None)) => {}
            None if self.is_partial => holes.push(Hole::default()),
            None => {}
        }
        Ok(holes)
    }

    /// True if the root page of a table can be read.
    pub(in crate::ordered) fn has_root(&self, table: &str) -> bool {
        match self.tables.iter().find(|(name, _)| name == table.as_bytes()) {
            Some((_, root)) => root.is_none_or(|root| self.page(root).is_some()),
            None => !self.is_partial,
        }
    }

    fn visit_page(
        &self,
        page: PageRef,
        bounds: Hole,
        take: &mut Take<'_>,
        holes: &mut Vec<Hole>,
    ) -> Result<(), StoreError> {
        let Some(bytes) = self.page(page) else {
            let page_at = self.place_of(page).map(|[start, _]| start);
            holes.push(Hole { page_at, ..bounds });
            return Ok(());
        };
        if bytes.first() == Some(&LEAF) {
            return leaf_entries(&bytes).try_for_each(|(key, value)| take(key, value));
        }
        let mut after = bounds.after;
        for (child, key) in branch_children(&bytes) {
            let until = key.map(<[u8]>::to_vec).or_else(|| bounds.until.clone());
            let of_child = Hole { after: after.take(), until: until.clone(), page_at: None };
            self.visit_page(child, of_child, take, holes)?;
            after = until;
        }
        Ok(())
    }

    /// Offset and size of a page in bytes.
    fn place_of(&self, page: PageRef) -> Option<[u64; 2]> {
        let order = page.number >> 59;
        if order > ORDER_MAX {
            return None;
        }
        let page_bytes = (BLOCK_BYTES as u64) << order;
        let index = page.number & (0x000f_ffff >> order);
        let region = (page.number >> 20) & 0x000f_ffff;
        // The header's geometry has no checksum, so it may place a page anywhere.
        let start = region.checked_mul(self.region_bytes)?;
        let within = BLOCK_BYTES as u64 + self.region_header_bytes + index * page_bytes;
        Some([start.checked_add(within)?, page_bytes])
    }

    /// The bytes of a page, if its checksum is right.
    fn page(&self, page: PageRef) -> Option<Vec<u8>> {
        let [start, page_bytes] = self.place_of(page)?;
        if start.checked_add(page_bytes)? > self.file.size_bytes().ok()? {
            return None;
        }
        let mut bytes = vec![0; usize::try_from(page_bytes).ok()?];
        // Reads are tried twice, because an error may be temporary.
        let read = |bytes: &mut [u8]| self.file.read_at(bytes, start);
        let count = read(&mut bytes).or_else(|_| read(&mut bytes)).ok()?;
        let end = match *bytes.first()? {
            LEAF => leaf_end(&bytes),
            BRANCH => branch_end(&bytes),
            _ => None,
        };
        let used = bytes.get(..end?)?;
        let is_right = count == bytes.len() && xxh3_128(used).to_le_bytes() == page.sum;
        is_right.then_some(bytes)
    }
}

/// Shows the entries of all blocks in a file that look like a leaf, in any order, whether a page refers to
/// them or not. An entry may be outdated or not be an entry at all, so the caller has to verify it. Reads
/// the whole file.
pub(in crate::ordered) fn visit_leaves(
    file: &dyn DiskFile,
    take: &mut Take<'_>,
) -> Result<(), StoreError> {
    let size_bytes = file.size_bytes()?;
    let mut front = vec![0; BLOCK_BYTES];
    for start in (0..size_bytes).step_by(BLOCK_BYTES) {
        // A bad sector. Other blocks can be read.
        let Ok(count) = file.read_at(&mut front, start) else { continue };
        let (read, _) = front.split_at(count);
        let Some(end) = leaf_end(read).filter(|_| read.first() == Some(&LEAF)) else { continue };
        let leaf_bytes = end as u64;
        if leaf_bytes <= count as u64 {
            leaf_entries(read).try_for_each(|(key, value)| take(key, value))?;
        } else if leaf_bytes <= PAGE_BYTES_MAX.min(size_bytes - start) {
            let mut page = vec![0; usize::try_from(leaf_bytes).unwrap_or_default()];
            if file.read_at(&mut page, start).is_ok_and(|count| count == page.len()) {
                leaf_entries(&page).try_for_each(|(key, value)| take(key, value))?;
            }
        }
    }
    Ok(())
}

fn count_of(page: &[u8]) -> Option<usize> {
    page.get(2..4)?.first_chunk().map(|count| usize::from(u16::from_le_bytes(*count)))
}

fn number_at(page: &[u8], at: usize) -> Option<usize> {
    page.get(at..)?.first_chunk().map(|number| u32::from_le_bytes(*number) as usize)
}

/// Offsets at which the key and the value of an entry of a leaf begin and end. A leaf stores the ends of
/// all keys, then the ends of all values.
fn leaf_ends(page: &[u8], entry: usize) -> Option<[usize; 4]> {
    let count = count_of(page)?;
    let end_at = |number: usize| number_at(page, LEAF_FRONT_BYTES + 4 * number);
    let key_start = match entry {
        0 => LEAF_FRONT_BYTES + 8 * count,
        _ => end_at(entry - 1)?,
    };
    let value_start = match entry {
        0 => end_at(count.checked_sub(1)?)?,
        _ => end_at(count + entry - 1)?,
    };
    Some([key_start, end_at(entry)?, value_start, end_at(count + entry)?])
}

fn leaf_end(page: &[u8]) -> Option<usize> {
    let last = count_of(page)?.checked_sub(1)?;
    leaf_ends(page, last).map(|[.., end]| end)
}

fn leaf_entries(page: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    (0..count_of(page).unwrap_or(0)).filter_map(|entry| {
        let [key_start, key_end, value_start, value_end] = leaf_ends(page, entry)?;
        Some((page.get(key_start..key_end)?, page.get(value_start..value_end)?))
    })
}

/// Number of keys of a branch, and offset of the list of their ends. The list comes after the checksums and
/// numbers of all children, of which there is one more than keys.
fn branch_keys(page: &[u8]) -> Option<(usize, usize)> {
    let count = count_of(page)?;
    Some((count, BRANCH_FRONT_BYTES + (SUM_BYTES + PAGE_BYTES) * (count + 1)))
}

fn branch_end(page: &[u8]) -> Option<usize> {
    let (count, ends_at) = branch_keys(page)?;
    number_at(page, ends_at + 4 * count.checked_sub(1)?)
}

/// The children of a branch, each with the highest key that it may have; `None` for the last child.
fn branch_children(page: &[u8]) -> impl Iterator<Item = (PageRef, Option<&[u8]>)> {
    let (count, ends_at) = branch_keys(page).unwrap_or((0, 0));
    (0..=count).filter_map(move |child| {
        let sum = page.get(BRANCH_FRONT_BYTES + SUM_BYTES * child..)?.first_chunk()?;
        let numbers_at = BRANCH_FRONT_BYTES + SUM_BYTES * (count + 1);
        let number = page.get(numbers_at + PAGE_BYTES * child..)?.first_chunk()?;
        let page_ref = PageRef { number: u64::from_le_bytes(*number), sum: *sum };
        let start = match child {
            0 => ends_at + 4 * count,
            _ => number_at(page, ends_at + 4 * (child - 1))?,
        };
        let key = if child < count {
            page.get(start..number_at(page, ends_at + 4 * child)?)
        } else {
            None
        };
        Some((page_ref, key))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use quoit_seam::{Disk, FaultyDisk};

    #[test]
    fn a_page_that_a_damaged_header_places_beyond_any_file_is_not_read() {
        let file = FaultyDisk::new(1).open("tree", true).expect("the disk works");
        let page = PageRef { number: 0x000f_ffff << 20, sum: [0; SUM_BYTES] };
        for region_bytes in [u64::MAX, u64::MAX / 0x000f_ffff] {
            let walk = TreeWalk {
                file: Arc::clone(&file),
                region_bytes,
                region_header_bytes: BLOCK_BYTES as u64,
                tables: Vec::new(),
                is_partial: false,
            };
            assert_eq!(walk.place_of(page), None);
            assert!(walk.page(page).is_none());
        }
    }
}
