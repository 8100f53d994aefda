//! Memory of the process: how the C library's allocator gives it back to the system, and a count of what
//! JavaScript runtimes have of it ([`CountedAllocator`]).
//!
//! The allocator's thresholds grow with the largest block that was ever freed: after one answer of 20 MB,
//! blocks of that size are cut from the heap of the thread that wants one, and each thread keeps its own for
//! the next time. A node would hold such an answer once for each of its threads. With fixed thresholds large
//! blocks are asked of the system and given back to it.
//!
//! And it makes up to eight heaps for each processor, for threads that come and go: what one thread allocates
//! and another frees leaves holes in all of them. As many heaps as processors are enough for threads not to
//! wait for each other. `docs/decisions/` says why not another allocator.

mod counted;

pub use counted::{CountedAllocator, MemoryBudget};

/// Variables by which an operator sets the C library's allocator.
const SETTINGS: [&str; 6] = [
    "GLIBC_TUNABLES",
    "MALLOC_ARENA_MAX",
    "MALLOC_MMAP_MAX_",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TOP_PAD_",
    "MALLOC_TRIM_THRESHOLD_",
];

/// Lets large blocks go back to the system when they are freed, and threads share heaps. Does nothing if the
/// environment sets the allocator, and where the C library is not glibc. True if it is set. To be called when
/// the process begins, since heaps and blocks that were made before stay.
pub fn keep_little() -> bool {
    let is_set = SETTINGS.iter().any(|name| std::env::var_os(name).is_some());
    !is_set && set::all()
}

/// Gives pages back to the system that are free in the middle of heaps, for use after many small blocks were
/// freed. Goes through all heaps, and keeps allocations waiting meanwhile. Does nothing where the C library
/// is not glibc.
pub fn give_back_free() {
    set::give_back_free();
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod set {
    /// Blocks of at least so many bytes are the system's, not the heap's. Values of usual sizes are smaller:
    /// asking the system for a block costs two system calls and a fault for each page.
    const LARGE_BLOCK_BYTES: i32 = 4 << 20;
    /// A heap gives back what is free at its end from so many bytes on.
    const KEPT_BYTES: i32 = 8 << 20;
    /// Heaps that there may be at least.
    const HEAPS_MIN: usize = 2;

    pub(super) fn all() -> bool {
        let processors = std::thread::available_parallelism().map_or(HEAPS_MIN, usize::from);
        let heaps_max = i32::try_from(processors.max(HEAPS_MIN)).unwrap_or(i32::MAX);
        one(libc::M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES)
            && one(libc::M_TRIM_THRESHOLD, KEPT_BYTES)
            && one(libc::M_ARENA_MAX, heaps_max)
    }

    #[expect(unsafe_code, reason = "the C library has no other way to it")]
    pub(super) fn give_back_free() {
        // SAFETY: `malloc_trim` takes an integer, keeps no pointer, takes the allocator's own locks, and
        // gives back only pages in which no block is.
        unsafe { libc::malloc_trim(0) };
    }

    #[expect(unsafe_code, reason = "the C library has no other way to it")]
    fn one(name: i32, value: i32) -> bool {
        // SAFETY: `mallopt` takes two integers by value, keeps no pointer, and takes the allocator's own lock
        // while it stores them; the names are glibc's, and a value that it has no use for (a threshold of
        // more than half of the largest heap of a thread) it refuses with 0 and changes nothing.
        unsafe { libc::mallopt(name, value) == 1 }
    }
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
mod set {
    pub(super) const fn all() -> bool {
        false
    }

    pub(super) const fn give_back_free() {}
}
