//! Measures speed and size of key files: the work of a start without a snapshot.
//!
//! ```text
//! cargo run --profile dist -p quoit-store --example key_file_merge -- [KEYS] [DIRECTORY]
//! ```
//!
//! Writes the key files of ten segments (default: a million keys together, each 67 bytes encoded), merges
//! them on one thread, builds 64 partition indexes from them, and prints the CPU time of each step in
//! nanoseconds for each key.

#![allow(clippy::print_stdout, reason = "printing is what it is for")]

use quoit_model::hash::{KeyHash, PlacementRule, RingSize};
use quoit_model::key::BucketRef;
use quoit_seam::{Disk, RealDisk};
use quoit_store::engine::{KeyRange, RecordMeta};
use quoit_store::error::StoreError;
use quoit_store::index::{IndexEntry, Location, PartitionIndex, SizeClass, Tag};
use quoit_store::keyfile::{
    KeyFile, KeyListing, KeyRunBuilder, KeySource, KeyWrite, MergedEntry, WriteKind,
};
use std::sync::Arc;

const SEGMENTS: u32 = 10;

/// CPU time of this thread in nanoseconds.
fn cpu_ns() -> u64 {
    let schedstat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    schedstat.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
}

fn file_name(segment: u32) -> String {
    format!("key_file_merge.{segment}")
}

fn write(disk: &RealDisk, segment: u32, key_count: u64) -> Result<u64, StoreError> {
    let mut builder = KeyRunBuilder::default();
    let mut encoded = Vec::new();
    for number in 0..key_count {
        let name = format!("{:050}", (number * u64::from(SEGMENTS) + u64::from(segment)) * 7919);
        let bucket = BucketRef { bucket_type: b"default", bucket: b"bucket" };
        encoded.clear();
        bucket.key(name.as_bytes()).encode_into(&mut encoded);
        let hash = KeyHash::of(&encoded, bucket, PlacementRule::BucketAndKey);
        let facts = KeyWrite {
            kind: WriteKind::Put,
            identity: hash.identity,
            partition: RingSize::DEFAULT.partition(hash.placement),
            sequence: (u64::from(segment) << 40) + number,
            offset_bytes: number * 1104,
            size_bytes: 1100,
            meta: RecordMeta { digest: hash.identity.0, n_val_class: 3, ..RecordMeta::default() },
        };
        builder.push(&encoded, &facts);
    }
    builder.sort(segment).write(disk, &file_name(segment))?;
    Ok(disk.open(&file_name(segment), false)?.size_bytes()?)
}

fn open_all(disk: &RealDisk) -> Result<Vec<KeySource>, StoreError> {
    let open = |segment| KeyFile::open(disk, &file_name(segment));
    (0..SEGMENTS).map(|segment| open(segment).map(|file| KeySource::File(Arc::new(file)))).collect()
}

fn main() -> Result<(), StoreError> {
    let mut arguments = std::env::args().skip(1);
    let wanted: u64 = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(1_000_000);
    let directory = arguments.next().map_or_else(std::env::temp_dir, Into::into);
    let disk = RealDisk::open(directory)?;
    let key_count = wanted / u64::from(SEGMENTS) * u64::from(SEGMENTS);
    let each = |start: u64| (cpu_ns() - start) as f64 / key_count as f64;

    let start = cpu_ns();
    let mut size_bytes = 0;
    for segment in 0..SEGMENTS {
        size_bytes += write(&disk, segment, key_count / u64::from(SEGMENTS))?;
    }
    let bytes_each = size_bytes as f64 / key_count as f64;
    println!("write: {:.0} ns and {bytes_each:.1} bytes a key", each(start));

    let start = cpu_ns();
    let mut listing = KeyListing::new(open_all(&disk)?, KeyRange::All, None)?;
    let mut count = 0;
    while listing.next_entry()?.is_some() {
        count += 1;
    }
    assert_eq!(count, key_count, "every key is listed once");
    println!("merge: {:.0} ns a key", each(start));

    let start = cpu_ns();
    let mut listing = KeyListing::new(open_all(&disk)?, KeyRange::All, None)?;
    let mut indexes: Vec<_> = (0..64).map(|_| PartitionIndex::new()).collect();
    while let Some(MergedEntry { entry, segment }) = listing.next_entry()? {
        let facts = entry.facts;
        indexes[usize::from(facts.partition.0)].insert(IndexEntry {
            tag: Tag::of(facts.identity),
            location: Location::new(segment, facts.offset_bytes).unwrap_or_default(),
            size_class: SizeClass::of(u64::from(facts.size_bytes)),
            tombstone: facts.meta.tombstone,
            expires: facts.meta.expires_at_secs != 0,
            collided: false,
            indexed: facts.meta.indexed,
            n_val_class: facts.meta.n_val_class,
            digest: facts.meta.digest,
        });
    }
    println!("merge and index: {:.0} ns a key", each(start));
    Ok((0..SEGMENTS).try_for_each(|segment| disk.remove(&file_name(segment)))?)
}
