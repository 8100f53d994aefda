//! Snapshots of the index, and the runs of entries in them.

use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_seam::FaultyDisk;
use quoit_store::index::{ENTRY_BYTES, IndexEntry, Location, PartitionIndex, SizeClass, Tag};
use quoit_store::snapshot::{Snapshot, SnapshotWriter};

use crate::Target;

pub(crate) const FILES: Target =
    Target { name: "index-snapshots", run: run_file, seeds: seeds_of_files };

/// Runs of entries without the checksums that would detect damage.
pub(crate) const RUNS: Target =
    Target { name: "index-runs", run: run_entries, seeds: seeds_of_runs };

const NAME: &str = "snapshot";

/// Checks that a snapshot that opens is loaded as a whole or not at all.
fn run_file(input: &[u8]) {
    let disk = FaultyDisk::new(1);
    disk.put(NAME, input.to_vec());
    let Ok(snapshot) = Snapshot::open(&disk, NAME) else { return };
    let Ok(indexes) = snapshot.load(1) else { return };
    assert_eq!(indexes.len(), snapshot.partition_count());
    let entry_count: u64 = indexes.iter().map(PartitionIndex::entry_count).sum();
    assert_eq!(entry_count, snapshot.entry_count());
}

/// Checks that a decoded run is encoded to the same bytes.
fn run_entries(input: &[u8]) {
    let Ok(index) = PartitionIndex::from_run(input) else { return };
    let mut written = Vec::new();
    let mut next = Some(Tag::MIN);
    while let Some(from) = next {
        next = index.write_from(from, 100, &mut written);
    }
    assert_eq!(written, input, "an index changes by being written");
    assert_eq!(index.entry_count() * ENTRY_BYTES as u64, input.len() as u64);
}

fn index(entry_count: u64) -> PartitionIndex {
    let entry = |number: u64| IndexEntry {
        tag: Tag::of(Identity(number.wrapping_mul(0x9e37_79b9_7f4a_7c15))),
        location: Location::new(quoit_number::low_u32(number) % 3, 16 * number)
            .expect("it is in the range"),
        size_class: SizeClass::of(100 + number),
        digest: number << 32,
        tombstone: number.is_multiple_of(5),
        ..IndexEntry::default()
    };
    PartitionIndex::from_entries((0..entry_count).map(entry).collect())
}

fn seeds_of_runs() -> Vec<Vec<u8>> {
    let written = |entry_count| {
        let mut out = Vec::new();
        let rest = index(entry_count).write_from(Tag::MIN, usize::MAX / 64, &mut out);
        assert!(rest.is_none());
        out
    };
    [1, 50].map(written).into()
}

fn seeds_of_files() -> Vec<Vec<u8>> {
    let disk = FaultyDisk::new(1);
    let ring_size = RingSize::new(8).expect("8 is a ring size");
    let mut writer = SnapshotWriter::create(&disk, NAME, ring_size).expect("the disk is sound");
    for number in [0, 3] {
        let index = index(20);
        writer.write_partition(Partition(number), |read| read(&index)).expect("the disk is sound");
    }
    writer.finish(b"state of the engine").expect("the disk is sound");
    vec![disk.bytes(NAME).expect("the file was written")]
}
