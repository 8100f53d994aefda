//! Memory of large blocks returns to the system, whichever thread used them, and threads share heaps.

#![cfg(all(target_os = "linux", target_env = "gnu"))]
#![allow(clippy::unwrap_used, reason = "tests")]

use std::sync::{Arc, Barrier};

const BLOCK_BYTES: usize = 20 << 20;
/// Address space that glibc reserves for a heap.
const HEAP_BYTES: usize = 64 << 20;
/// Address space of a thread without a heap: its stack and the guard pages.
const STACK_BYTES: usize = 3 << 20;

fn figure_bytes(name: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib << 10
}

/// Allocates and frees a block like that of an answer: reserved, and then filled.
fn take_and_free() {
    let mut block: Vec<u8> = Vec::with_capacity(BLOCK_BYTES);
    block.resize(BLOCK_BYTES, 7);
    assert_eq!(std::hint::black_box(&block)[BLOCK_BYTES - 1], 7);
}

/// Returns the growth of a value of `/proc/self/status` when threads have done some work and are all still
/// alive.
fn grown_by(name: &str, threads: usize, work: fn()) -> usize {
    let before = figure_bytes(name);
    let (done, looked) = (Arc::new(Barrier::new(threads + 1)), Arc::new(Barrier::new(threads + 1)));
    let threads: Vec<_> = (0..threads)
        .map(|_| {
            let (done, looked) = (Arc::clone(&done), Arc::clone(&looked));
            std::thread::spawn(move || {
                work();
                done.wait();
                looked.wait();
            })
        })
        .collect();
    done.wait();
    let grown = figure_bytes(name).saturating_sub(before);
    looked.wait();
    threads.into_iter().for_each(|thread| thread.join().unwrap());
    grown
}

/// A single test, because the values are those of the whole process.
#[test]
fn threads_keep_no_large_blocks_and_share_heaps() {
    assert!(quoit_heap::tune_allocator(), "is the allocator set in the environment?");
    let kept = grown_by("VmRSS:", 4, || (0..3).for_each(|_| take_and_free()));
    assert!(kept < BLOCK_BYTES / 2, "{kept} bytes are kept of blocks that were freed");

    let processors = std::thread::available_parallelism().unwrap().get().max(2);
    let threads = 8 * processors;
    let reserved = grown_by("VmSize:", threads, || {
        std::hint::black_box(vec![7_u8; 100_000]);
    });
    let heaps = reserved.saturating_sub(threads * STACK_BYTES) / HEAP_BYTES;
    assert!(heaps <= processors, "{heaps} heaps for {processors} processors");
}
