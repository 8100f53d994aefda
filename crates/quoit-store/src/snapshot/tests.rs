use super::format::{FOOTER_BYTES, HEADER_BYTES};
use super::*;
use crate::error::StoreError;
use crate::index::{IndexEntry, Location, PartitionIndex, Tag};
use proptest::prelude::*;
use quoit_model::hash::{Partition, RingSize};
use quoit_seam::{Disk, FaultyDisk};
use xxhash_rust::xxh3::xxh3_64;

const NAME: &str = "index.snapshot";

fn entry(number: u64) -> IndexEntry {
    IndexEntry {
        tag: Tag::from_number(xxh3_64(&number.to_be_bytes())),
        location: Location::new(number as u32 & 0xff, (number & 0xffff) * 16).unwrap(),
        tombstone: number.is_multiple_of(3),
        digest: number,
        ..IndexEntry::default()
    }
}

fn index(first: u64, count: u64) -> PartitionIndex {
    PartitionIndex::from_entries((first..first + count).map(entry).collect())
}

/// Indexes of 8 partitions, of which partition `n` has `counts[n]` entries.
fn indexes(counts: &[u64; 8]) -> Vec<PartitionIndex> {
    (0..8).map(|number| index(number * 1_000_000, counts[number as usize])).collect()
}

fn write(disk: &FaultyDisk, indexes: &[PartitionIndex], state: &[u8]) -> Result<(), StoreError> {
    let mut writer = SnapshotWriter::create(disk, NAME, RingSize::new(8).unwrap())?;
    for (number, index) in indexes.iter().enumerate().rev() {
        writer.write_partition(Partition(number as u16), |copy| copy(index))?;
    }
    writer.finish(state)
}

fn same(one: &PartitionIndex, other: &PartitionIndex) -> bool {
    one.iter().eq(other.iter())
        && one.entry_count() == other.entry_count()
        && one.tombstone_count() == other.tombstone_count()
        && one.digests(0) == other.digests(0)
}

fn is_corrupt<T>(result: Result<T, StoreError>) -> bool {
    matches!(result, Err(StoreError::Corrupt { path, .. }) if path == "faulty disk/index.snapshot")
}

fn open_and_load(disk: &FaultyDisk) -> Result<(Vec<u8>, Vec<PartitionIndex>), StoreError> {
    let snapshot = Snapshot::open(disk, NAME)?;
    Ok((snapshot.state().to_vec(), snapshot.load(1)?))
}

#[test]
fn a_snapshot_loads_as_it_was_on_one_thread_and_on_two() {
    let disk = FaultyDisk::new(1);
    let before = indexes(&[10_000, 0, 1, 64, 65, 30_000, 0, 7]);
    write(&disk, &before, b"state of the log").unwrap();
    let snapshot = Snapshot::open(&disk, NAME).unwrap();
    assert_eq!(snapshot.state(), b"state of the log");
    assert_eq!((snapshot.partition_count(), snapshot.entry_count()), (8, 40_137));
    for thread_count in [1, 2] {
        let loaded = snapshot.load(thread_count).unwrap();
        assert!(loaded.iter().zip(&before).all(|(one, other)| same(one, other)));
        assert_eq!(loaded.len(), before.len());
    }
    assert_eq!(disk.list().unwrap(), [NAME]);
}

#[test]
fn a_crash_at_any_moment_leaves_the_former_snapshot_or_the_new_one() {
    let (old, new) = (indexes(&[500; 8]), indexes(&[2000; 8]));
    let mut outcomes = [0, 0];
    for operations_left in 0..12 {
        for seed in 0..8 {
            let disk = FaultyDisk::new(seed);
            write(&disk, &old, b"old").unwrap();
            disk.set_faults(|faults| faults.operations_left = Some(operations_left));
            let written = write(&disk, &new, b"new");
            let disk = disk.crash();
            let (state, loaded) = open_and_load(&disk).unwrap();
            let expected = if state == b"new" { &new } else { &old };
            assert!(state == b"new" || written.is_err(), "a complete snapshot was lost");
            assert!(loaded.iter().zip(expected).all(|(one, other)| same(one, other)));
            outcomes[usize::from(state == b"new")] += 1;
            let left = disk.list().unwrap();
            assert!(left.iter().all(|name| name == NAME || crate::is_temporary_name(name)));
            write(&disk, &new, b"again").unwrap();
            assert_eq!(open_and_load(&disk).unwrap().0, b"again");
        }
    }
    assert!(outcomes[0] > 0 && outcomes[1] > 0, "{outcomes:?}");
}

#[test]
fn partitions_that_were_not_written_are_empty() {
    let disk = FaultyDisk::new(1);
    let writer = SnapshotWriter::create(&disk, NAME, RingSize::new(16).unwrap()).unwrap();
    writer.finish(&[]).unwrap();
    let (state, loaded) = open_and_load(&disk).unwrap();
    assert!(state.is_empty() && loaded.len() == 16);
    assert!(loaded.iter().all(|index| index.entry_count() == 0));
}

#[test]
fn an_index_can_change_between_pieces() {
    let disk = FaultyDisk::new(1);
    let mut changing = index(0, 40_000);
    let mut next = 0;
    let mut writer = SnapshotWriter::create(&disk, NAME, RingSize::new(8).unwrap()).unwrap();
    let mut pieces = 0;
    writer
        .write_partition(Partition(0), |copy| {
            copy(&changing);
            pieces += 1;
            for number in next..next + 1000 {
                changing.remove(entry(number).tag, entry(number).location).unwrap();
                changing.insert(entry(40_000 + number));
            }
            next += 1000;
        })
        .unwrap();
    writer.finish(&[]).unwrap();
    assert!(pieces > 3, "{pieces} pieces");
    let (_, loaded) = open_and_load(&disk).unwrap();
    for number in next..40_000 {
        let expected = IndexEntry { tag: entry(number).tag, ..entry(number) };
        assert!(loaded[0].candidates(expected.tag).any(|found| found == expected), "{number}");
    }
}

#[test]
fn every_cut_is_reported() {
    let disk = FaultyDisk::new(1);
    write(&disk, &indexes(&[3, 0, 0, 1, 0, 0, 0, 2]), b"state").unwrap();
    let whole = disk.bytes(NAME).unwrap();
    for size in 0..whole.len() {
        disk.put(NAME, whole[..size].to_vec());
        assert!(is_corrupt(open_and_load(&disk)), "{size} bytes");
    }
}

#[test]
fn every_flipped_bit_is_reported() {
    let disk = FaultyDisk::new(1);
    write(&disk, &indexes(&[3, 0, 0, 1, 0, 0, 0, 2]), b"state").unwrap();
    let whole = disk.bytes(NAME).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        disk.put(NAME, bytes);
        assert!(is_corrupt(open_and_load(&disk)), "bit {bit}");
    }
}

#[test]
fn entries_that_are_no_index_are_reported_in_spite_of_a_good_checksum() {
    let disk = FaultyDisk::new(1);
    write(&disk, &indexes(&[3, 0, 0, 0, 0, 0, 0, 0]), b"").unwrap();
    let mut bytes = disk.bytes(NAME).unwrap();
    bytes[HEADER_BYTES] = 0xff;
    let table = bytes.len() - FOOTER_BYTES - 8 * 24;
    let entries = xxh3_64(&bytes[HEADER_BYTES..HEADER_BYTES + 63]).to_be_bytes();
    bytes[table + 16..table + 24].copy_from_slice(&entries);
    let checked = xxh3_64(&bytes[table..bytes.len() - 16]).to_be_bytes();
    let at = bytes.len() - 16;
    bytes[at..at + 8].copy_from_slice(&checked);
    disk.put(NAME, bytes);
    let error = open_and_load(&disk).err().unwrap();
    assert!(error.to_string().contains("out of order"), "{error}");
}

#[test]
fn a_snapshot_of_another_version_is_refused_by_name() {
    for version in [1, 3] {
        let disk = FaultyDisk::new(1);
        write(&disk, &indexes(&[0; 8]), b"").unwrap();
        let mut bytes = disk.bytes(NAME).unwrap();
        let at = bytes.len() - FOOTER_BYTES + 23;
        bytes[at] = version;
        disk.put(NAME, bytes);
        let error = open_and_load(&disk).err().unwrap();
        assert!(error.to_string().contains(&format!("version {version}")), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn outside_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let disk = FaultyDisk::new(1);
        disk.put(NAME, bytes.clone());
        prop_assert!(is_corrupt(open_and_load(&disk)));
        let framed = [&format::header()[..], &bytes, &format::MAGIC].concat();
        disk.put(NAME, framed);
        prop_assert!(is_corrupt(open_and_load(&disk)));
    }
}

#[test]
fn a_snapshot_has_the_bytes_of_the_specification() {
    let disk = FaultyDisk::new(1);
    write(&disk, &indexes(&[0, 1, 0, 0, 0, 0, 0, 0]), b"log").unwrap();
    let mut expected = b"\x8bQUOITI\n\0\0\0\x02".to_vec();
    let entry = entry(1_000_000).encode();
    expected.extend(entry);
    let mut tail = b"log".to_vec();
    for partition in 0..8u64 {
        // The partitions were written in reverse order.
        let (offset, count, entries) = match partition {
            0 => (12u64 + 21, 0u64, &[][..]),
            1 => (12, 1, &entry[..]),
            _ => (12, 0, &[][..]),
        };
        tail.extend(offset.to_be_bytes());
        tail.extend(count.to_be_bytes());
        tail.extend(xxh3_64(entries).to_be_bytes());
    }
    tail.extend([0, 0, 0, 0, 0, 0, 0, 33, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 8, 0, 0, 0, 2]);
    expected.extend(&tail);
    expected.extend(xxh3_64(&tail).to_be_bytes());
    expected.extend(b"\x8bQUOITI\n");
    assert_eq!(disk.bytes(NAME).unwrap(), expected);
}
