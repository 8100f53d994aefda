//! Measures memory and speed of the index at a given number of keys (default: ten million).
//!
//! ```text
//! cargo run --profile dist -p quoit-store --example index_memory -- [KEYS] [DIRECTORY]
//! ```
//!
//! Fills 64 partitions by single inserts in random order. Prints the bytes for each key, as the kernel
//! counts the process's memory and as the index counts its own; the CPU time of an insert and of a lookup
//! in nanoseconds; and the time to write a snapshot into DIRECTORY (default: a temporary one). A second
//! process, which it starts, loads the snapshot from the page cache and prints its figures.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_seam::{Disk, RealDisk};
use quoit_store::error::StoreError;
use quoit_store::index::{IndexEntry, Location, PartitionIndex, SizeClass, Tag};
use quoit_store::snapshot::{Snapshot, SnapshotWriter};
use std::hint::black_box;
use std::process::Command;
use std::time::Instant;

const PARTITIONS: usize = 64;
const LOOKUPS: u64 = 5_000_000;
const NAME: &str = "index_memory.snapshot";

/// SplitMix64 of a number: a hash that is different for each number.
fn mixed(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// Partition and index entry of the key with this number.
fn key(number: u64) -> (usize, IndexEntry) {
    let identity = mixed(number);
    let location = Location::new((number >> 20) as u32, (number & 0xf_ffff) * 16);
    let entry = IndexEntry {
        tag: Tag::of(Identity(identity)),
        location: location.unwrap_or_default(),
        size_class: SizeClass::of(1000),
        n_val_class: 3,
        digest: identity.rotate_left(17),
        ..IndexEntry::default()
    };
    ((mixed(!number) % PARTITIONS as u64) as usize, entry)
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split(' ').nth(1).and_then(|pages| pages.parse().ok());
    pages.unwrap_or(0) * 4096
}

fn memory_bytes(indexes: &[PartitionIndex]) -> u64 {
    indexes.iter().map(PartitionIndex::memory_bytes).sum()
}

/// CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedstat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

/// Average CPU time of `count` calls, in nanoseconds.
fn measure_each(count: u64, mut call: impl FnMut(u64)) -> f64 {
    let start = cpu_ns();
    (0..count).for_each(&mut call);
    (cpu_ns() - start) as f64 / count as f64
}

fn report_memory(what: &str, resident: u64, indexes: &[PartitionIndex]) {
    let key_count: u64 = indexes.iter().map(PartitionIndex::entry_count).sum();
    let resident_each = resident as f64 / key_count as f64;
    let counted_each = memory_bytes(indexes) as f64 / key_count as f64;
    let capacity: u64 = indexes.iter().map(PartitionIndex::capacity).sum();
    println!(
        "{what}: {resident_each:.2} bytes a key resident, {counted_each:.2} counted, load {:.3}, \
         {:.1} million keys per GiB",
        key_count as f64 / capacity as f64,
        f64::from(1 << 30) / resident_each / 1e6,
    );
}

fn main() -> Result<(), StoreError> {
    let mut arguments = std::env::args().skip(1);
    let key_count = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(10_000_000);
    let directory = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let disk = RealDisk::open(&directory)?;
    if arguments.next().is_some() {
        return load(&disk);
    }
    let resident = resident_bytes();
    let mut indexes: Vec<_> = (0..PARTITIONS).map(|_| PartitionIndex::new()).collect();
    let insert_ns = measure_each(key_count, |number| {
        let (partition, entry) = key(number);
        indexes[partition].insert(entry);
    });
    println!("{key_count} keys, {insert_ns:.0} ns an insert");
    report_memory("inserted", resident_bytes() - resident, &indexes);
    lookups(&indexes, key_count);
    write(&disk, &indexes)?;
    drop(indexes);
    let loader = std::env::current_exe().and_then(|this| {
        Command::new(this).arg(key_count.to_string()).arg(&directory).arg("load").status()
    });
    println!("loading: {loader:?}");
    Ok(Disk::remove(&disk, NAME)?)
}

fn lookups(indexes: &[PartitionIndex], key_count: u64) {
    let mut found = 0;
    let mut look_up = |number| {
        let (partition, entry) = key(number);
        found += indexes[partition].candidates(entry.tag).count() as u64;
    };
    let present_ns = measure_each(LOOKUPS, |number| look_up(mixed(number) % key_count));
    let absent_ns = measure_each(LOOKUPS, |number| look_up(key_count + number));
    println!(
        "{present_ns:.0} ns a lookup of a key that is there, {absent_ns:.0} ns of one that isn't"
    );
    assert!(found >= LOOKUPS, "a key was not found");
    let hash_ns = measure_each(LOOKUPS, |number| {
        black_box(key(mixed(number) % key_count));
    });
    println!("(of which {hash_ns:.0} ns to make up the key)");
}

fn write(disk: &RealDisk, indexes: &[PartitionIndex]) -> Result<(), StoreError> {
    let start = Instant::now();
    let mut writer = SnapshotWriter::create(disk, NAME, RingSize::DEFAULT)?;
    for (number, index) in indexes.iter().enumerate() {
        writer.write_partition(Partition(number as u16), |copy| copy(index))?;
    }
    writer.finish(&[])?;
    println!("{:.3} s to write a snapshot and sync it", start.elapsed().as_secs_f64());
    Ok(())
}

fn load(disk: &RealDisk) -> Result<(), StoreError> {
    let resident = resident_bytes();
    for thread_count in [2, 1] {
        let (start, start_cpu) = (Instant::now(), cpu_ns());
        let loaded = Snapshot::open(disk, NAME)?.load(thread_count)?;
        let (wall, cpu) = (start.elapsed().as_secs_f64(), (cpu_ns() - start_cpu) as f64 / 1e9);
        println!("{wall:.3} s to load on {thread_count} threads, {cpu:.3} s of CPU in the first");
        if thread_count == 2 {
            report_memory("loaded", resident_bytes() - resident, &loaded);
        }
    }
    Ok(())
}
