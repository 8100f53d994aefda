//! Reading of key files.

use super::block::{self, BlockAt, read_child};
use super::entry::{KeyEntry, KeyWrite, decode};
use super::footer::{FOOTER_BYTES, KeyFileFooter, MAGIC};
use crate::error::StoreError;
use quoit_model::hash::Partition;
use quoit_model::key::KeyRef;
use quoit_seam::{Disk, DiskFile};
use std::sync::Arc;

/// Number of bytes that a cursor reads at once: a few blocks.
const WINDOW_BYTES: usize = 32 * 1024;

/// An open key file. Keeps only the footer in memory.
pub struct KeyFile {
    file: Arc<dyn DiskFile>,
    path: String,
    footer: KeyFileFooter,
}

impl KeyFile {
    /// Opens a key file and verifies its footer. Blocks are verified when they are read.
    ///
    /// # Errors
    ///
    /// If the file is missing, or is not a complete key file.
    pub fn open(disk: &dyn Disk, name: &str) -> Result<Self, StoreError> {
        let file = disk.open(name, false)?;
        let path = format!("{}/{name}", disk.path());
        let size_bytes = file.size_bytes()?;
        let footer_at = size_bytes.saturating_sub(FOOTER_BYTES as u64);
        let corrupt = |offset, reason| StoreError::Corrupt { path: path.clone(), offset, reason };
        let mut magic = [0; MAGIC.len()];
        let mut bytes = [0; FOOTER_BYTES];
        if file.read_at(&mut magic, 0)? != magic.len() || magic != MAGIC {
            return Err(corrupt(0, "not a key file".into()));
        }
        if file.read_at(&mut bytes, footer_at)? != bytes.len() {
            return Err(corrupt(footer_at, "the footer is cut off".into()));
        }
        let footer = KeyFileFooter::decode(&bytes, size_bytes)
            .map_err(|reason| corrupt(footer_at, reason))?;
        Ok(Self { file, path, footer })
    }

    /// The file's footer.
    #[must_use]
    pub fn footer(&self) -> &KeyFileFooter {
        &self.footer
    }

    /// Finds the last write of a record in this segment. Reads one block of each level, three in most
    /// files.
    ///
    /// # Errors
    ///
    /// If the disk fails or a block is damaged.
    pub fn find(
        self: &Arc<Self>,
        key: KeyRef<'_>,
        partition: Partition,
    ) -> Result<Option<KeyWrite>, StoreError> {
        let mut cursor = FileCursor::seek(self, key)?;
        while let Some(entry) = cursor.current().filter(|entry| entry.key == key) {
            if entry.facts.partition == partition {
                return Ok(Some(entry.facts));
            }
            cursor.advance()?;
        }
        Ok(None)
    }

    /// Offset of the block of entries from which to search for the first entry whose key is not below
    /// `key`.
    fn descend(&self, key: KeyRef<'_>) -> Result<u64, StoreError> {
        let mut at = self.footer.root;
        for _ in 0..self.footer.level_count {
            let mut bytes = vec![0; at.size];
            let size = self.file.read_at(&mut bytes, at.offset)?;
            bytes.truncate(size);
            let content = block::open(&bytes, at.offset).map_err(self.corrupt_at(at.offset))?;
            at = last_child_below(content, key)
                .ok_or("a block leads nowhere")
                .map_err(self.corrupt_at(at.offset))?;
        }
        Ok(if self.footer.level_count == 0 { MAGIC.len() as u64 } else { at.offset })
    }

    fn corrupt_at(&self, offset: u64) -> impl Fn(&'static str) -> StoreError + '_ {
        move |reason| StoreError::Corrupt {
            path: self.path.clone(),
            offset,
            reason: reason.to_owned(),
        }
    }
}

/// The last child of an inner block whose first key is below `key`, otherwise the first child. `None` if
/// the block is not an inner block.
fn last_child_below(content: &[u8], key: KeyRef<'_>) -> Option<BlockAt> {
    let mut rest = content;
    let mut first_key = Vec::new();
    let mut found = None;
    while !rest.is_empty() {
        let child = read_child(&mut rest, &mut first_key)?;
        let below = KeyRef::decode(&first_key).ok()? < key;
        if below || found.is_none() {
            found = Some(child);
        }
        if !below {
            break;
        }
    }
    found
}

/// Iterates over the entries of a key file, with one window of it in memory.
pub struct FileCursor {
    source: Arc<KeyFile>,
    window: Vec<u8>,
    /// Offset of the window in the file.
    window_at: u64,
    /// The range of the window with the rest of the current block.
    rest: std::ops::Range<usize>,
    /// Offset of the block after the current one.
    next_block: u64,
    key: Vec<u8>,
    facts: Option<KeyWrite>,
}

impl FileCursor {
    /// A cursor at the first entry of a file.
    ///
    /// # Errors
    ///
    /// If the disk fails or a block is damaged.
    pub fn first(source: &Arc<KeyFile>) -> Result<Self, StoreError> {
        Self::at_block(source, MAGIC.len() as u64)
    }

    /// A cursor at the first entry whose key is not below `key`, whose parts may be empty.
    ///
    /// # Errors
    ///
    /// If the disk fails or a block is damaged.
    pub fn seek(source: &Arc<KeyFile>, key: KeyRef<'_>) -> Result<Self, StoreError> {
        let mut cursor = Self::at_block(source, source.descend(key)?)?;
        while cursor.current().is_some_and(|entry| entry.key < key) {
            cursor.advance()?;
        }
        Ok(cursor)
    }

    fn at_block(source: &Arc<KeyFile>, offset: u64) -> Result<Self, StoreError> {
        let mut cursor = Self {
            source: Arc::clone(source),
            window: Vec::new(),
            window_at: 0,
            rest: 0..0,
            next_block: offset,
            key: Vec::new(),
            facts: None,
        };
        cursor.advance()?;
        Ok(cursor)
    }

    /// The file of the cursor.
    #[must_use]
    pub fn source(&self) -> &Arc<KeyFile> {
        &self.source
    }

    /// The current entry; `None` at the end.
    #[must_use]
    pub fn current(&self) -> Option<KeyEntry<'_>> {
        let facts = self.facts?;
        let key = KeyRef::decode(&self.key).expect("the key was checked when it was read");
        Some(KeyEntry { key, encoded: &self.key, facts })
    }

    /// Moves to the next entry.
    ///
    /// # Errors
    ///
    /// If the disk fails or a block is damaged.
    #[expect(clippy::indexing_slicing, reason = "`rest` is a part of the window")]
    pub fn advance(&mut self) -> Result<(), StoreError> {
        self.facts = None;
        while self.rest.is_empty() {
            if self.next_block >= self.source.footer.entries_end {
                return Ok(());
            }
            self.open_next_block()?;
        }
        let before = &self.window[self.rest.clone()];
        let mut after = before;
        let base = self.source.footer.sequence_base;
        let facts = decode(&mut after, &mut self.key, base)
            .filter(|_| KeyRef::decode(&self.key).is_ok())
            .ok_or("an entry does not make sense")
            .map_err(self.source.corrupt_at(self.window_at + self.rest.start as u64))?;
        self.rest.start += before.len() - after.len();
        self.facts = Some(facts);
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "`in_window` returns a place in the window")]
    fn open_next_block(&mut self) -> Result<(), StoreError> {
        let offset = self.next_block;
        let start = match self.in_window(offset) {
            Some(start) => start,
            None => {
                self.read_window(offset)?;
                0
            }
        };
        let content =
            block::open(&self.window[start..], offset).map_err(self.source.corrupt_at(offset))?;
        let size = block::HEADER_BYTES + content.len();
        self.rest = start + block::HEADER_BYTES..start + size;
        self.next_block = offset + size as u64;
        self.key.clear();
        Ok(())
    }

    /// Position in the window of the block at `offset`, if the window has all of it.
    fn in_window(&self, offset: u64) -> Option<usize> {
        let start = usize::try_from(offset.checked_sub(self.window_at)?).ok()?;
        let bytes = self.window.get(start..)?;
        let size = block::size_of_block(bytes).ok()?;
        (size <= bytes.len()).then_some(start)
    }

    /// Fills the window from `offset` on. It has at least one whole block, if one is there.
    fn read_window(&mut self, offset: u64) -> Result<(), StoreError> {
        let left = self.source.footer.entries_end - offset;
        self.fill_window(offset, quoit_number::index(left.min(WINDOW_BYTES as u64)))?;
        let size = block::size_of_block(&self.window).map_err(self.source.corrupt_at(offset))?;
        if size > self.window.len() && size as u64 <= left {
            self.fill_window(offset, size)?;
        }
        Ok(())
    }

    fn fill_window(&mut self, offset: u64, size: usize) -> Result<(), StoreError> {
        self.window.resize(size, 0);
        let read = self.source.file.read_at(&mut self.window, offset)?;
        self.window.truncate(read);
        self.window_at = offset;
        Ok(())
    }
}
