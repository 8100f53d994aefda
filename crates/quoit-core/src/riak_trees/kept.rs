//! A partition's part of a tree, and the algorithm that follows the index.
//!
//! The code is plain state and files; the caller reads the records that have changed. A pass merges
//! three sorted sequences: the leaves of the index, the entries of the file, and the entries in memory.
//! An entry is reused if the index still has the same tag and digest; otherwise the record is read. The
//! result stays in memory, or replaces the file once enough has changed.

use super::part_file::{PartReader, PartWriter};
use quoit_riak::TreeEntry;
use quoit_store::compare::Leaf;
use quoit_store::index::Tag;
use std::collections::VecDeque;

/// Number of changed entries up to which a file is never rewritten.
const FRESH_COUNT_MIN: u64 = 1_024;
/// A file is rewritten when more than one in this many of its entries has changed. Each changed record
/// then costs at most this many entries of writing.
const FRESH_PART: u64 = 16;
/// Maximum number of entries that a pass keeps in memory if no file can be written. Further records are
/// read again by the next pass.
const FRESH_COUNT_MAX: usize = super::MEMORY_BYTES_MAX / size_of::<KeptLeaf>();

/// A record of the part: its leaf in the index, and its entry in the tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct KeptLeaf {
    pub(super) leaf: Leaf,
    pub(super) entry: TreeEntry,
}

/// A part between two passes: the entries that its file lacks. The file may be absent.
#[derive(Default)]
pub(super) struct KeptPart {
    /// Approximate number of entries in the file; `None` without one.
    file_count: Option<u64>,
    /// Records that have changed since the file was written, by tag.
    fresh: Vec<KeptLeaf>,
    /// True if the next pass has to rewrite the file, however little has changed.
    is_due: bool,
}

impl KeptPart {
    /// Memory of the part, in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.fresh.capacity() * size_of::<KeptLeaf>()
    }

    /// True if the next pass should rewrite the file.
    pub(super) fn wants_file(&self) -> bool {
        let Some(file_count) = self.file_count else { return true };
        let bound = (file_count / FRESH_PART).max(FRESH_COUNT_MIN);
        self.is_due || self.fresh.len() as u64 > bound
    }

    /// True if the part has entries that the file lacks.
    pub(super) fn has_fresh(&self) -> bool {
        !self.fresh.is_empty()
    }

    /// Frees the memory. The next pass reads these records again and writes the file.
    pub(super) fn release_memory(&mut self) {
        self.fresh = Vec::new();
        self.is_due = true;
    }
}

/// A pass over a part, in the order of tags.
pub(super) struct PartPass {
    file: Option<PartReader>,
    writer: Option<PartWriter>,
    /// Entries that the part had in memory before the pass.
    old: VecDeque<KeptLeaf>,
    /// Entries that it will have in memory. Empty if a file is written.
    fresh: Vec<KeptLeaf>,
}

impl PartPass {
    /// Begins a pass. Writes a new file if there is a `writer`. The part is empty until the end of the
    /// pass.
    pub(super) fn begin(
        part: &mut KeptPart,
        file: Option<PartReader>,
        writer: Option<PartWriter>,
    ) -> Self {
        let old = std::mem::take(&mut part.fresh).into();
        Self { file, writer, old, fresh: Vec::new() }
    }

    /// Takes the next leaves of the index, which must include all leaves of each tag. Passes the entry
    /// of each record to `see`. `read` returns the records of the tags that have changed.
    pub(super) fn follow<E>(
        &mut self,
        page: &[Leaf],
        read: impl FnOnce(&[Tag]) -> Result<Vec<KeptLeaf>, E>,
        see: &mut dyn FnMut(Tag, TreeEntry),
    ) -> Result<(), E> {
        let (mut leaves, mut changed) = (Vec::with_capacity(page.len()), Vec::new());
        for group in page.chunk_by(|one, other| one.tag == other.tag) {
            let [Leaf { tag, .. }, ..] = *group else { continue };
            let of_file = self.file.as_mut().map_or_else(Vec::new, |file| file.take(tag));
            let of_memory = self.take_old(tag);
            if is_same(&of_memory, group) {
                self.keep(&of_memory);
                leaves.extend(of_memory);
            } else if is_same(&of_file, group) {
                leaves.extend(of_file);
            } else {
                changed.push(tag);
            }
        }
        let read = read(&changed)?;
        self.keep(&read);
        leaves.extend(read);
        leaves.sort_unstable_by_key(|kept| kept.leaf);
        for kept in leaves {
            see(kept.leaf.tag, kept.entry);
            self.write(kept);
        }
        Ok(())
    }

    fn take_old(&mut self, tag: Tag) -> Vec<KeptLeaf> {
        while self.old.front().is_some_and(|kept| kept.leaf.tag < tag) {
            self.old.pop_front();
        }
        let count = self.old.iter().take_while(|kept| kept.leaf.tag == tag).count();
        self.old.drain(..count).collect()
    }

    fn keep(&mut self, leaves: &[KeptLeaf]) {
        if self.writer.is_none() && self.fresh.len() + leaves.len() <= FRESH_COUNT_MAX {
            self.fresh.extend_from_slice(leaves);
        }
    }

    fn write(&mut self, kept: KeptLeaf) {
        if let Some(writer) = &mut self.writer
            && let Err(fault) = writer.push(kept)
        {
            tracing::warn!(%fault, "a tree for Riak is not kept: its records are read once more");
            self.writer = None;
        }
    }

    /// Ends the pass. A new file counts only if `put_in_place` has replaced the old one by it.
    pub(super) fn end(mut self, part: &mut KeptPart, put_in_place: impl FnOnce(&str) -> bool) {
        let written = self.writer.take().and_then(|writer| writer.end().ok());
        let in_place = written.filter(|(_, new_name)| put_in_place(new_name));
        if let Some((count, _)) = in_place {
            *part = KeptPart { file_count: Some(count), ..KeptPart::default() };
            return;
        }
        self.fresh.sort_unstable_by_key(|kept| kept.leaf);
        let is_due = self.file.as_ref().is_some_and(PartReader::is_damaged);
        let file_count = self.file.map(|file| file.count());
        *part = KeptPart { file_count, fresh: self.fresh, is_due };
    }
}

/// True if the known entries are exactly the records that the index has of a tag.
fn is_same(known: &[KeptLeaf], group: &[Leaf]) -> bool {
    known.len() == group.len()
        && group.iter().all(|leaf| known.iter().any(|kept| kept.leaf == *leaf))
}
