//! Writing of key files from entries in order.

use super::block::{BlockAt, CONTENT_BYTES_AIM, HEADER_BYTES, push_child, seal};
use super::entry::{KeyBefore, KeyEntry, KeyWrite, WriteKind, encode};
use super::footer::{KeyFileFooter, MAGIC};
use crate::error::StoreError;
use crate::output::Output;
use quoit_model::key::KeyRef;
use quoit_seam::Disk;
use std::cmp::Ordering;

/// Writes a key file under a temporary name; [`KeyFileWriter::finish`] renames it to its final name.
///
/// Keeps the bytes to be written next (256 KiB) and the first keys of the blocks (about a hundredth of all
/// keys) in memory.
pub struct KeyFileWriter<'d> {
    output: Output<'d>,
    footer: KeyFileFooter,
    /// The current block, with room for its header.
    block: Vec<u8>,
    first_of_block: Vec<u8>,
    children: Vec<Child>,
    last: Vec<u8>,
    last_facts: Option<KeyWrite>,
}

/// A block and its first key.
struct Child {
    first_key: Vec<u8>,
    at: BlockAt,
}

impl<'d> KeyFileWriter<'d> {
    /// Starts a key file `name` of a segment. No entry may have a sequence below `sequence_base`; a base
    /// near the lowest sequence keeps the file small.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn create(
        disk: &'d dyn Disk,
        name: &str,
        segment: u32,
        sequence_base: u64,
    ) -> Result<Self, StoreError> {
        let mut output = Output::create(disk, name)?;
        output.push(&MAGIC)?;
        Ok(Self {
            output,
            footer: KeyFileFooter {
                segment,
                entry_count: 0,
                remove_count: 0,
                sequence_min: u64::MAX,
                sequence_max: sequence_base,
                sequence_base,
                entries_end: 0,
                root: BlockAt { offset: 0, size: 0 },
                level_count: 0,
            },
            block: vec![0; HEADER_BYTES],
            first_of_block: Vec::new(),
            children: Vec::new(),
            last: Vec::new(),
            last_facts: None,
        })
    }

    /// Appends an entry. Only the first of several writes of a record is kept, which must be the newest.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    ///
    /// # Panics
    ///
    /// If entries do not come in the order of [`KeyEntry::compare`], or a sequence is below the base.
    pub fn push(&mut self, entry: &KeyEntry<'_>) -> Result<(), StoreError> {
        if let Some(facts) = self.last_facts {
            let key = KeyRef::decode(&self.last).expect("it was a key when it was pushed");
            let last = KeyEntry { key, encoded: &self.last, facts };
            if entry.is_of_same_record(&last) {
                assert!(entry.facts.sequence <= facts.sequence, "an older write came first");
                return Ok(());
            }
            assert!(last.compare(entry) == Ordering::Less, "entries of a key file are in order");
        }
        let starts_block = self.block.len() == HEADER_BYTES;
        if starts_block {
            self.first_of_block.clear();
            self.first_of_block.extend_from_slice(entry.encoded);
        }
        let before: &[u8] = if starts_block { &[] } else { &self.last };
        let base = self.footer.sequence_base;
        encode(entry.encoded, &entry.facts, KeyBefore(before), base, &mut self.block);
        self.last.clear();
        self.last.extend_from_slice(entry.encoded);
        self.last_facts = Some(entry.facts);
        self.count(&entry.facts);
        if self.block.len() >= HEADER_BYTES + CONTENT_BYTES_AIM {
            self.close_block()?;
        }
        Ok(())
    }

    /// Completes the file, makes it durable, and renames it to its final name.
    ///
    /// # Errors
    ///
    /// If the disk fails.
    pub fn finish(mut self) -> Result<KeyFileFooter, StoreError> {
        if self.block.len() > HEADER_BYTES {
            self.close_block()?;
        }
        self.footer.entries_end = self.output.offset();
        self.footer.sequence_min = self.footer.sequence_min.min(self.footer.sequence_max);
        while self.children.len() > 1 {
            self.write_level()?;
        }
        if let Some(root) = self.children.first() {
            self.footer.root = root.at;
        }
        self.output.push(&self.footer.encode())?;
        self.output.finish()?;
        Ok(self.footer)
    }

    fn count(&mut self, facts: &KeyWrite) {
        let footer = &mut self.footer;
        footer.entry_count += 1;
        footer.remove_count += u64::from(facts.kind == WriteKind::Remove);
        footer.sequence_min = footer.sequence_min.min(facts.sequence);
        footer.sequence_max = footer.sequence_max.max(facts.sequence);
    }

    fn close_block(&mut self) -> Result<(), StoreError> {
        let first_key = std::mem::take(&mut self.first_of_block);
        let at = self.write_block()?;
        self.children.push(Child { first_key, at });
        Ok(())
    }

    fn write_block(&mut self) -> Result<BlockAt, StoreError> {
        let at = BlockAt { offset: self.output.offset(), size: self.block.len() };
        seal(&mut self.block, at.offset);
        self.output.push(&self.block)?;
        self.block.truncate(HEADER_BYTES);
        Ok(at)
    }

    /// Writes the blocks that refer to `children`; these blocks become the new children. Each block but the
    /// last has at least two children, so each level is smaller than the one below, however long the keys
    /// are.
    fn write_level(&mut self) -> Result<(), StoreError> {
        self.footer.level_count += 1;
        let mut below = std::mem::take(&mut self.children).into_iter();
        while let Some(child) = below.next() {
            push_child(&child.first_key, child.at, KeyBefore(&[]), &mut self.block);
            let mut before = child.first_key.clone();
            let mut count = 1;
            while count < 2 || self.block.len() < HEADER_BYTES + CONTENT_BYTES_AIM {
                let Some(child) = below.next() else {
                    break;
                };
                push_child(&child.first_key, child.at, KeyBefore(&before), &mut self.block);
                before = child.first_key;
                count += 1;
            }
            let at = self.write_block()?;
            self.children.push(Child { first_key: child.first_key, at });
        }
        Ok(())
    }
}
