//! The pages of one partition, in chunks that grow with it.
//!
//! A chunk has a 64th of the slab's pages, at least one and at most 48 (63 KiB). So unused pages stay below
//! a few percent at any size, growing copies nothing, and the allocator sees few, large blocks. When more
//! pages are free than the last chunk has, the pages of that chunk move into the free places, and the chunk
//! is freed.

use super::entry::tag_of;
use super::page::{PAGE_BYTES, PageBytes, entries};
use crate::tag::Tag;

/// Overhead of an allocation in bytes (two words of the allocator).
pub(super) const ALLOCATION_OVERHEAD_BYTES: usize = 16;

const CHUNK_PAGES_MAX: usize = 48;
const CHUNKS_AIM: usize = 64;
const SLOT_BITS: u32 = 6;

/// Identifies a page of a slab.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct PageId(u32);

/// The place of a page.
struct SlabPlace {
    chunk: usize,
    /// Place within the chunk.
    slot: usize,
}

impl PageId {
    fn of(SlabPlace { chunk, slot }: SlabPlace) -> Self {
        let chunk = u32::try_from(chunk).expect("2^26 chunks are 4 TB of index");
        let slot = u32::try_from(slot).expect("a chunk has at most 48 pages");
        Self(chunk << SLOT_BITS | slot)
    }

    fn chunk(self) -> usize {
        (self.0 >> SLOT_BITS) as usize
    }

    fn slot(self) -> usize {
        (self.0 & ((1 << SLOT_BITS) - 1)) as usize
    }
}

#[derive(Debug)]
struct SlabChunk {
    pages: Box<[PageBytes]>,
    /// One bit for each page, set if the page is in use.
    used: u64,
}

impl SlabChunk {
    fn is_full(&self) -> bool {
        self.used.count_ones() as usize == self.pages.len()
    }
}

/// A slab of pages. See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Slab {
    chunks: Vec<SlabChunk>,
    page_count: usize,
    free_count: usize,
    /// No chunk before this one has a free page.
    first_free_chunk: usize,
}

impl Slab {
    /// Number of pages, used and free.
    pub(super) fn page_count(&self) -> usize {
        self.page_count
    }

    /// The bytes of a page in use.
    pub(super) fn page(&self, id: PageId) -> &PageBytes {
        debug_assert!(self.is_used(id), "a page that is read is in use");
        &self.chunks[id.chunk()].pages[id.slot()]
    }

    /// The bytes of a page in use.
    pub(super) fn page_mut(&mut self, id: PageId) -> &mut PageBytes {
        debug_assert!(self.is_used(id), "a page that is changed is in use");
        &mut self.chunks[id.chunk()].pages[id.slot()]
    }

    /// A page with arbitrary contents. Allocates a chunk if no page is free.
    pub(super) fn take(&mut self) -> PageId {
        if self.free_count == 0 {
            self.add_chunk((self.page_count / CHUNKS_AIM).clamp(1, CHUNK_PAGES_MAX));
        }
        self.take_free()
    }

    /// Allocates room for `count` more pages, so that the next calls of `take` allocate nothing.
    pub(super) fn reserve(&mut self, count: usize) {
        let final_count = self.page_count - self.free_count + count;
        let chunk_pages = (final_count / CHUNKS_AIM).clamp(1, CHUNK_PAGES_MAX);
        while self.page_count < final_count {
            self.add_chunk(chunk_pages.min(final_count - self.page_count));
        }
        debug_assert!(self.free_count >= count, "the reserved pages are free");
        self.debug_check();
    }

    /// Frees a page.
    pub(super) fn release(&mut self, id: PageId) {
        debug_assert!(self.is_used(id), "a page is freed once");
        self.chunks[id.chunk()].used &= !(1 << id.slot());
        self.free_count += 1;
        self.first_free_chunk = self.first_free_chunk.min(id.chunk());
    }

    /// Frees chunks while more pages are free than the last chunk has. It requires a quarter more, so that
    /// a partition at the threshold does not free a chunk that it needs again at once. Calls `moved` with
    /// the old id, the new id and the first tag of every page that moves.
    pub(super) fn shrink(&mut self, mut moved: impl FnMut(PageId, PageId, Tag)) {
        while let Some(last) = self.chunks.last() {
            let last_pages = last.pages.len();
            if self.free_count < last_pages + last_pages.div_ceil(4) {
                break;
            }
            let SlabChunk { pages, used } = self.chunks.pop().expect("there is a last chunk");
            self.page_count -= last_pages;
            self.free_count -= last_pages - used.count_ones() as usize;
            for (slot, page) in pages.iter().enumerate() {
                if used & (1 << slot) != 0 {
                    let to = self.take_free();
                    *self.page_mut(to) = *page;
                    let from = PageId::of(SlabPlace { chunk: self.chunks.len(), slot });
                    moved(from, to, tag_of(&entries(page)[0]));
                }
            }
        }
        if self.chunks.len() < self.chunks.capacity() / 4 {
            self.chunks.shrink_to(self.chunks.len() * 2);
        }
        self.debug_check();
    }

    /// Allocated bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.page_count * PAGE_BYTES
            + self.chunks.len() * ALLOCATION_OVERHEAD_BYTES
            + self.chunks.capacity() * size_of::<SlabChunk>()
    }

    fn add_chunk(&mut self, pages: usize) {
        self.first_free_chunk = self.first_free_chunk.min(self.chunks.len());
        self.chunks
            .push(SlabChunk { pages: vec![[0; PAGE_BYTES]; pages].into_boxed_slice(), used: 0 });
        self.page_count += pages;
        self.free_count += pages;
    }

    fn is_used(&self, id: PageId) -> bool {
        self.chunks[id.chunk()].used & (1 << id.slot()) != 0
    }

    /// Checks the counts, in builds with assertions. Costs a visit of each chunk.
    fn debug_check(&self) {
        if !cfg!(debug_assertions) {
            return;
        }
        let page_count: usize = self.chunks.iter().map(|chunk| chunk.pages.len()).sum();
        assert_eq!(self.page_count, page_count, "the slab counts the pages of all chunks");
        let used = |chunk: &SlabChunk| chunk.used.count_ones() as usize;
        let used_count: usize = self.chunks.iter().map(used).sum();
        assert_eq!(self.page_count - self.free_count, used_count, "a page is free or in use");
        let is_small = |chunk: &SlabChunk| (1..=CHUNK_PAGES_MAX).contains(&chunk.pages.len());
        assert!(self.chunks.iter().all(is_small), "a chunk has a page, and a bit for each");
        let mut before = self.chunks.iter().take(self.first_free_chunk);
        assert!(before.all(SlabChunk::is_full), "no chunk before the noted one has a free page");
    }

    fn take_free(&mut self) -> PageId {
        debug_assert!(self.free_count > 0, "a page is free");
        while self.chunks[self.first_free_chunk].is_full() {
            self.first_free_chunk += 1;
        }
        let chunk = &mut self.chunks[self.first_free_chunk];
        let slot = chunk.used.trailing_ones() as usize;
        debug_assert!(slot < chunk.pages.len(), "the free page is one of the chunk's");
        chunk.used |= 1 << slot;
        self.free_count -= 1;
        PageId::of(SlabPlace { chunk: self.first_free_chunk, slot })
    }
}
