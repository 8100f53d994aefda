//! Memory of the process: settings of the C library's allocator by which it returns memory to the system,
//! and an allocator that counts the memory of JavaScript runtimes ([`CountedAllocator`]).
//!
//! By default glibc raises its thresholds to the size of the largest block that was ever freed. After one
//! answer of 20 MB, blocks of that size come from the heap of the thread that needs one, and each such
//! heap keeps the memory. A node could therefore keep the memory of such an answer once for each thread.
//! With fixed thresholds, large blocks are mapped from the system and returned to it.
//!
//! By default glibc also creates up to eight heaps for each processor. Blocks that one thread allocates
//! and another one frees leave holes in all of them. One heap for each processor suffices to keep threads
//! from waiting for each other. `docs/decisions/` has the reasons against another allocator.
#![cfg_attr(
    not(test),
    warn(clippy::cast_possible_truncation, clippy::cast_possible_wrap, clippy::cast_sign_loss),
    warn(clippy::indexing_slicing, clippy::string_slice)
)]

mod counted;

pub use counted::{CountedAllocator, MemoryBudget};

/// Environment variables with which an operator configures the C library's allocator.
const SETTINGS: [&str; 6] = [
    "GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
];

/// Makes the allocator return large blocks to the system when they are freed, and limits the number of
/// heaps. Returns true if that was set. Does nothing if an environment variable configures the
/// allocator, or if the C library is not glibc. Call it when the process begins: earlier heaps and
/// blocks stay as they are.
pub fn tune_allocator() -> bool {
    let is_set = SETTINGS.iter().any(|name| std::env::var_os(name).is_some());
    !is_set && set::all()
}

/// Returns free pages in the middle of heaps to the system. Use it after many small blocks were freed. It
/// walks through all heaps, and allocations wait meanwhile. Does nothing if the C library is not glibc.
pub fn trim_heap() {
    set::trim_heap();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod set {
    /// Blocks of at least this many bytes are mapped from the system. Larger than usual values, because
    /// mapping a block costs two system calls and a page fault for each page.
    const LARGE_BLOCK_BYTES: i32 = 4 << 20;
    /// Free bytes at the end of a heap above which the heap returns them.
    const KEPT_BYTES: i32 = 8 << 20;
    /// Minimum for the limit on heaps.
    const HEAPS_MIN: usize = 2;

    pub(super) fn all() -> bool {
        let processors = std::thread::available_parallelism().map_or(HEAPS_MIN, usize::from);
        let heaps_max = i32::try_from(processors.max(HEAPS_MIN)).unwrap_or(i32::MAX);
        AllocatorParameter(libc::M_MMAP_THRESHOLD).set(LARGE_BLOCK_BYTES)
            && AllocatorParameter(libc::M_TRIM_THRESHOLD).set(KEPT_BYTES)
            && AllocatorParameter(libc::M_ARENA_MAX).set(heaps_max)
    }

    #[expect(unsafe_code, reason = "the C library has no other way to it")]
    pub(super) fn trim_heap() {
        // SAFETY: `malloc_trim` takes an integer, keeps no pointer, takes the allocator's own locks, and
        // returns only pages without blocks.
        unsafe { libc::malloc_trim(0) };
    }

    /// A parameter of glibc's allocator, by its number.
    struct AllocatorParameter(i32);

    impl AllocatorParameter {
        /// Returns false if the allocator refuses the value.
        #[expect(unsafe_code, reason = "the C library has no other way to it")]
        fn set(&self, value: i32) -> bool {
            // SAFETY: `mallopt` takes two integers by value, keeps no pointer, and takes the allocator's
            // own lock while it stores them. The names are glibc's. A value that it cannot use, such as a
            // threshold above half of the largest heap of a thread, is refused with 0 and changes nothing.
            unsafe { libc::mallopt(self.0, value) == 1 }
        }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod set {
    pub(super) const fn all() -> bool {
        false
    }

    pub(super) const fn trim_heap() {}
}
