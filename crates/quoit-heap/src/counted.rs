//! An allocator for JavaScript runtimes whose memory counts against a budget.
//!
//! A QuickJS runtime can have a memory limit of its own, but none that it shares with other
//! runtimes. `rquickjs` accepts another allocator through a trait that is unsafe to implement.
//! This is such an allocator.

use rquickjs::allocator::{Allocator, RustAllocator};
use std::ptr;

/// Bytes that a block takes in addition to the usable ones.
const BLOCK_OVERHEAD_BYTES: usize = 8;
/// Sizes of blocks are rounded up to a multiple of this.
const BLOCK_ALIGN_BYTES: usize = 8;

/// A budget of memory. The allocator takes bytes from it before it allocates, and gives them back when a
/// block is freed. The calls come from C code, so they must not panic.
pub trait MemoryBudget {
    /// Takes bytes from the budget. Returns `false` if there are not enough left.
    fn take(&mut self, bytes: usize) -> bool;

    /// Gives back bytes that were taken.
    fn give_back(&mut self, bytes: usize);
}

/// Rust's allocator behind a budget. Costs two calls of the budget for each block.
#[derive(Debug)]
pub struct CountedAllocator<B>(B);

impl<B: MemoryBudget> CountedAllocator<B> {
    /// Creates an allocator whose blocks count against this budget.
    #[must_use]
    pub const fn new(budget: B) -> Self {
        Self(budget)
    }

    /// Allocates a block if the budget allows it. `make` allocates a block of at least `size`
    /// bytes, or returns null.
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
        // The allocator rounds sizes up.
        let rest = block_bytes(block).saturating_sub(least);
        if !self.0.take(rest) {
            self.0.give_back(least);
            free(block);
            return ptr::null_mut();
        }
        block
    }
}

/// Returns the number of bytes that a block takes.
#[expect(unsafe_code, reason = "the trait's method is unsafe")]
fn block_bytes(block: *mut u8) -> usize {
    // SAFETY: callers pass a block of `RustAllocator` that has not been freed.
    let usable_bytes = unsafe { RustAllocator::usable_size(block) };
    usable_bytes + BLOCK_OVERHEAD_BYTES
}

#[expect(unsafe_code, reason = "the trait's method is unsafe")]
fn free(block: *mut u8) {
    // SAFETY: callers pass a block of `RustAllocator` and do not use it afterwards.
    unsafe { RustAllocator.dealloc(block) }
}

// SAFETY: each block comes from `RustAllocator`, which keeps the promises of the trait: a block is
// null, or has the size and alignment that the trait demands. This implementation passes blocks on
// unchanged, reports their sizes as `RustAllocator` does, and returns null instead of a block when
// the budget is exhausted.
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
        // SAFETY: the caller promises that the block is one of this allocator, so it comes from
        // `RustAllocator`.
        let moved = unsafe { RustAllocator.realloc(ptr, new_size) };
        if moved.is_null() {
            self.0.give_back(least);
            return moved;
        }
        let (taken, after) = (before + least, block_bytes(moved));
        if after > taken {
            // The block is in use already, so it cannot be refused any more.
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

    /// Counts taken bytes, up to a limit.
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
        // SAFETY: as above.
        assert!(unsafe { allocator.realloc(block, 2_000) }.is_null());
        // SAFETY: as above.
        let block = unsafe { allocator.realloc(block, 10) };
        assert!(taken_bytes.get() <= 32, "{}", taken_bytes.get());
        // SAFETY: as above.
        unsafe { allocator.dealloc(block) };
        assert_eq!(taken_bytes.get(), 0);
    }
}
