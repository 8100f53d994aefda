//! Memory of large blocks is the system's again, whichever thread has had them.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Barrier};

const BLOCK_BYTES: usize = 20 << 20;
const THREADS: usize = 4;

fn resident_bytes() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

/// A block of the kind that an answer is: reserved, and then filled.
fn take_and_free() {
    let mut block: Vec<u8> = Vec::with_capacity(BLOCK_BYTES);
    block.resize(BLOCK_BYTES, 7);
    assert_eq!(std::hint::black_box(&block)[BLOCK_BYTES - 1], 7);
}

#[test]
fn threads_do_not_keep_large_blocks() {
    assert!(quoit_heap::give_back_large_blocks(), "is the allocator set in the environment?");
    let before = resident_bytes();
    let (freed, looked) =
        (Arc::new(Barrier::new(THREADS + 1)), Arc::new(Barrier::new(THREADS + 1)));
    let threads: Vec<_> = (0..THREADS)
        .map(|_| {
            let (freed, looked) = (Arc::clone(&freed), Arc::clone(&looked));
            std::thread::spawn(move || {
                (0..3).for_each(|_| take_and_free());
                freed.wait();
                looked.wait();
            })
        })
        .collect();
    freed.wait();
    let kept = resident_bytes().saturating_sub(before);
    looked.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    assert!(kept < BLOCK_BYTES / 2, "{kept} bytes are kept of blocks that were freed");
}
