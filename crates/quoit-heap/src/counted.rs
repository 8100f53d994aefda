//! Memory of a JavaScript runtime, counted against a budget.
//!
//! A runtime of QuickJS has a limit of its own, and no limit that it shares with others. `rquickjs` lets a
//! runtime have another allocator, by a trait that is unsafe to implement: this one.

use rquickjs::allocator::{Allocator, RustAllocator};
use std::ptr;

/// Bytes that a block takes beside those that can be used.
const BLOCK_OVERHEAD_BYTES: usize = 8;
/// Sizes of blocks are rounded up to a multiple of this.
const BLOCK_ALIGN_BYTES: usize = 8;

/// A budget of memory. A runtime asks it before it takes memory, and tells it of what it gives back. The
/// calls come from code in C, so they must not panic.
pub trait MemoryBudget {
    /// Takes so many bytes; `false` if there are not so many left.
    fn take(&mut self, bytes: usize) -> bool;

    /// Gives back bytes that were taken.
    fn give_back(&mut self, bytes: usize);
}

/// Rust's allocator behind a budget. Costs two calls of the budget for each block.
#[derive(Debug)]
pub struct CountedAllocator<B>(B);

impl<B: MemoryBudget> CountedAllocator<B> {
    /// An allocator whose blocks count against this budget.
    #[must_use]
    pub const fn new(budget: B) -> Self {
        Self(budget)
    }

    /// A new block, if there is budget for it. `make` allocates one of at least `size` bytes, or returns
    /// null.
    fn counted(&mut self, size: usize, make: impl FnOnce() -> *mut u8) -> *mut u8 {
        let least = size.saturating_add(BLOCK_OVERHEAD_BYTES);
        if !self.0.take(least) {
            return ptr::null_mut();
        }
        let block = make();
        if block.is_null() {
            self.0.give_back(least);
            return block;
        }
        // Sizes are rounded up.
        let rest = block_bytes(block).saturating_sub(least);
        if !self.0.take(rest) {
            self.0.give_back(least);
            free(block);
            return ptr::null_mut();
        }
        block
    }
}

/// Bytes that a block takes.
#[expect(unsafe_code, reason = "the trait's method is unsafe")]
fn block_bytes(block: *mut u8) -> usize {
    // SAFETY: callers have the block from `RustAllocator`, and have not freed it.
    let usable_bytes = unsafe { RustAllocator::usable_size(block) };
    usable_bytes + BLOCK_OVERHEAD_BYTES
}

#[expect(unsafe_code, reason = "the trait's method is unsafe")]
fn free(block: *mut u8) {
    // SAFETY: callers have the block from `RustAllocator`, and do not use it any more.
    unsafe { RustAllocator.dealloc(block) }
}

// SAFETY: each block is one of `RustAllocator`, which keeps the promises of the trait: null, or as large and
// aligned as the trait says. This implementation hands its blocks out and back as they are, says of their
// sizes what it says, and answers null in its place where the budget has no bytes left.
#[expect(unsafe_code, reason = "rquickjs has no other way to an allocator")]
unsafe impl<B: MemoryBudget> Allocator for CountedAllocator<B> {
    fn alloc(&mut self, size: usize) -> *mut u8 {
        self.counted(size, || RustAllocator.alloc(size))
    }

    fn calloc(&mut self, count: usize, size: usize) -> *mut u8 {
        match count.checked_mul(size) {
            None | Some(0) => ptr::null_mut(),
            Some(bytes) => self.counted(bytes, || RustAllocator.calloc(count, size)),
        }
    }

    unsafe fn dealloc(&mut self, ptr: *mut u8) {
        self.0.give_back(block_bytes(ptr));
        free(ptr);
    }

    unsafe fn realloc(&mut self, ptr: *mut u8, new_size: usize) -> *mut u8 {
        let before = block_bytes(ptr);
        let rounded = new_size.checked_next_multiple_of(BLOCK_ALIGN_BYTES).unwrap_or(usize::MAX);
        let least = rounded.saturating_add(BLOCK_OVERHEAD_BYTES).saturating_sub(before);
        if !self.0.take(least) {
            return ptr::null_mut();
        }
        // SAFETY: the caller promises that the block is one of this allocator, so it is `RustAllocator`'s.
        let moved = unsafe { RustAllocator.realloc(ptr, new_size) };
        if moved.is_null() {
            self.0.give_back(least);
            return moved;
        }
        let (taken, after) = (before + least, block_bytes(moved));
        if after > taken {
            // It is in use already, and can't be refused any more.
            let _ = self.0.take(after - taken);
        } else {
            self.0.give_back(taken - after);
        }
        moved
    }

    unsafe fn usable_size(ptr: *mut u8) -> usize {
        block_bytes(ptr) - BLOCK_OVERHEAD_BYTES
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::rc::Rc;

    /// Counts what is taken, up to a limit.
    struct Counted {
        taken_bytes: Rc<Cell<usize>>,
        bytes_max: usize,
    }

    impl MemoryBudget for Counted {
        fn take(&mut self, bytes: usize) -> bool {
            let taken_bytes = self.taken_bytes.get() + bytes;
            let fits = taken_bytes <= self.bytes_max;
            if fits {
                self.taken_bytes.set(taken_bytes);
            }
            fits
        }

        fn give_back(&mut self, bytes: usize) {
            self.taken_bytes.set(self.taken_bytes.get() - bytes);
        }
    }

    #[test]
    #[expect(unsafe_code, reason = "the trait's methods are unsafe")]
    fn blocks_count_until_they_are_freed_and_the_budget_ends_them() {
        let taken_bytes = Rc::new(Cell::new(0));
        let budget = Counted { taken_bytes: Rc::clone(&taken_bytes), bytes_max: 1_000 };
        let mut allocator = CountedAllocator::new(budget);
        let block = allocator.alloc(101);
        assert!(!block.is_null());
        assert!((109..=120).contains(&taken_bytes.get()), "{}", taken_bytes.get());
        // SAFETY: the block is this allocator's, and is not used after it was moved or freed.
        let block = unsafe { allocator.realloc(block, 700) };
        assert!(!block.is_null() && taken_bytes.get() >= 708);
        assert!(allocator.calloc(2, 200).is_null(), "there is no budget for it");
        // SAFETY: as before.
        assert!(unsafe { allocator.realloc(block, 2_000) }.is_null());
        // SAFETY: as before.
        let block = unsafe { allocator.realloc(block, 10) };
        assert!(taken_bytes.get() <= 32, "{}", taken_bytes.get());
        // SAFETY: as before.
        unsafe { allocator.dealloc(block) };
        assert_eq!(taken_bytes.get(), 0);
    }
}
