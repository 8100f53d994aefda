//! How the C library's allocator gives memory back to the system.
//!
//! Its thresholds grow with the largest block that was ever freed: after one answer of 20 MB, blocks of
//! that size are cut from the heap of the thread that wants one, and each thread keeps its own for the next
//! time. A node would hold such an answer once for each of its threads. With fixed thresholds large blocks
//! are asked of the system and given back to it. `docs/decisions/` says why not another allocator.

/// Blocks of at least so many bytes are the system's, not the heap's. Values of usual sizes are smaller:
/// asking the system for a block costs two system calls and a fault for each page.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const LARGE_BLOCK_BYTES: i32 = 4 << 20;
/// A heap gives back what is free at its end from so many bytes on.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
const KEPT_BYTES: i32 = 8 << 20;

/// What an operator sets the C library's allocator with.
const SETTINGS: [&str; 3] = ["MALLOC_MMAP_THRESHOLD_", "MALLOC_TRIM_THRESHOLD_", "GLIBC_TUNABLES"];

/// Lets large blocks go back to the system when they are freed. Does nothing if the environment sets the
/// allocator, and where the C library is not glibc. True if the thresholds are set. To be called when the
/// process begins, since blocks that were handed out before stay where they are.
pub fn give_back_large_blocks() -> bool {
    let is_set = SETTINGS.iter().any(|name| std::env::var_os(name).is_some());
    !is_set && set_thresholds()
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[expect(unsafe_code, reason = "the C library has no other way to it")]
fn set_thresholds() -> bool {
    let set = |name, bytes| {
        // SAFETY: `mallopt` takes two integers by value, keeps no pointer, and takes the allocator's own lock
        // while it stores them; both names are glibc's, for which every value from 0 on is allowed.
        unsafe { libc::mallopt(name, bytes) == 1 }
    };
    set(libc::M_MMAP_THRESHOLD, LARGE_BLOCK_BYTES) && set(libc::M_TRIM_THRESHOLD, KEPT_BYTES)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
const fn set_thresholds() -> bool {
    false
}
