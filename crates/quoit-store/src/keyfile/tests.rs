use super::*;
use crate::engine::{KeyRange, RecordMeta};
use crate::error::StoreError;
use proptest::prelude::*;
use quoit_model::hash::{Identity, Partition};
use quoit_model::key::{BucketRef, KeyRef};
use quoit_seam::{Disk, FaultyDisk};
use std::collections::BTreeMap;
use std::sync::Arc;

type Name = (Vec<u8>, Vec<u8>, Vec<u8>);
type Model = BTreeMap<(Name, u16), KeyWrite>;

fn key_ref(name: &Name) -> KeyRef<'_> {
    BucketRef { bucket_type: &name.0, bucket: &name.1 }.key(&name.2)
}

fn encoded(name: &Name) -> Vec<u8> {
    let mut bytes = Vec::new();
    key_ref(name).encode_into(&mut bytes);
    bytes
}

/// Few and short names, so that buckets are prefixes of each other and different writes have the same key.
fn name() -> impl Strategy<Value = Name> {
    let part = |len| prop::collection::vec(prop_oneof![Just(0u8), Just(b'a'), Just(255)], 1..len);
    (part(3), part(4), part(6))
}

fn facts() -> impl Strategy<Value = KeyWrite> {
    let meta = (any::<u64>(), 0..3u8, 0..16u8, prop_oneof![Just(0), any::<u32>()]);
    let meta = meta.prop_map(|(digest, kind, n_val_class, expires_at_secs)| RecordMeta {
        digest,
        tombstone: kind == 1,
        n_val_class,
        expires_at_secs,
        indexed: kind == 2,
    });
    let place = (0..1u64 << 28, any::<u32>(), 0..3u16);
    (any::<bool>(), any::<u64>(), place, meta).prop_map(
        |(put, identity, (unit, size_bytes, partition), meta)| KeyWrite {
            kind: if put || meta.indexed { WriteKind::Put } else { WriteKind::Remove },
            identity: Identity(identity),
            partition: Partition(partition),
            sequence: 0,
            offset_bytes: unit * 16,
            size_bytes,
            meta,
        },
    )
}

/// Writes of one segment. Their sequences are assigned later.
fn writes(count: usize) -> impl Strategy<Value = Vec<(Name, KeyWrite)>> {
    prop::collection::vec((name(), facts()), 0..count)
}

/// Key files and runs of some segments, and the expected result of merging them: the newest write of each
/// key, with its segment.
struct Segments {
    sources: Vec<KeySource>,
    model: BTreeMap<(Name, u16), (KeyWrite, u32)>,
}

/// Creates segments of the writes. `in_memory` says which segments are runs in memory; the others are key
/// files.
fn segments(segments: Vec<Vec<(Name, KeyWrite)>>, in_memory: &[bool]) -> Segments {
    let disk = FaultyDisk::new(1);
    let mut made = Segments { sources: Vec::new(), model: BTreeMap::new() };
    // The order of sequences differs from that of segments, as after merges.
    let count = segments.len() as u64;
    for (number, writes) in segments.into_iter().enumerate() {
        let segment = number as u32;
        let mut builder = KeyRunBuilder::default();
        for (index, (name, facts)) in writes.into_iter().enumerate() {
            let sequence = 1000 + index as u64 * count + (number as u64 * 7) % count;
            let facts = KeyWrite { sequence, ..facts };
            builder.push(&encoded(&name), &facts);
            let known = made.model.entry((name, facts.partition.0)).or_insert((facts, segment));
            if known.0.sequence < sequence {
                *known = (facts, segment);
            }
        }
        let run = builder.sort(segment);
        made.sources.push(match in_memory[number % in_memory.len()] {
            true => KeySource::Run(Arc::new(run)),
            false => KeySource::File(write_and_open(&disk, &run)),
        });
    }
    made
}

fn write_and_open(disk: &FaultyDisk, run: &KeyRun) -> Arc<KeyFile> {
    let name = format!("{}.keys", run.segment());
    let footer = run.write(disk, &name).unwrap();
    let file = KeyFile::open(disk, &name).unwrap();
    assert_eq!(*file.footer(), footer);
    Arc::new(file)
}

fn owned(key: KeyRef<'_>) -> Name {
    (key.bucket.bucket_type.to_vec(), key.bucket.bucket.to_vec(), key.key.to_vec())
}

fn listed(listing: &mut KeyListing<'_>) -> Vec<((Name, u16), (KeyWrite, u32))> {
    let mut all = Vec::new();
    while let Some(MergedEntry { entry, segment }) = listing.next_entry().unwrap() {
        assert_eq!(entry.encoded, encoded(&owned(entry.key)));
        all.push(((owned(entry.key), entry.facts.partition.0), (entry.facts, segment)));
    }
    all
}

fn walked(file: &Arc<KeyFile>) -> Result<Vec<(Name, KeyWrite)>, StoreError> {
    let mut cursor = FileCursor::first(file)?;
    let mut all = Vec::new();
    while let Some(entry) = cursor.current() {
        all.push((owned(entry.key), entry.facts));
        cursor.advance()?;
    }
    Ok(all)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_file_has_the_newest_write_of_each_record(writes in writes(800)) {
        let made = segments(vec![writes], &[false]);
        let KeySource::File(file) = &made.sources[0] else { unreachable!() };
        let expected: Vec<_> =
            made.model.iter().map(|((name, _), (facts, _))| (name.clone(), *facts)).collect();
        let footer = file.footer();
        prop_assert_eq!(footer.entry_count, expected.len() as u64);
        let removes = expected.iter().filter(|(_, facts)| facts.kind == WriteKind::Remove).count();
        prop_assert_eq!(footer.remove_count, removes as u64);
        prop_assert_eq!(walked(file).unwrap(), expected);
    }

    #[test]
    fn a_seek_finds_the_first_key_not_below(writes in writes(800), wanted in name()) {
        let made = segments(vec![writes], &[false]);
        let KeySource::File(file) = &made.sources[0] else { unreachable!() };
        let found = FileCursor::seek(file, key_ref(&wanted)).unwrap();
        let found = found.current().map(|entry| (owned(entry.key), entry.facts.partition.0));
        let expected = made.model.range((wanted.clone(), 0)..).next();
        prop_assert_eq!(found, expected.map(|(record, _)| record.clone()));
        for partition in 0..3 {
            let found = file.find(key_ref(&wanted), Partition(partition)).unwrap();
            let expected = made.model.get(&(wanted.clone(), partition)).map(|(facts, _)| *facts);
            prop_assert_eq!(found, expected);
        }
    }

    #[test]
    fn a_listing_merges_files_and_runs(
        all in prop::collection::vec(writes(200), 1..6),
        in_memory: [bool; 5],
        wanted in name(),
        after in prop::option::of(name()),
        which in 0..4,
    ) {
        let made = segments(all, &in_memory);
        let bucket = key_ref(&wanted).bucket;
        let prefix = &wanted.2[..1];
        let range = match which {
            0 => KeyRange::All,
            1 => KeyRange::BucketType(bucket.bucket_type),
            2 => KeyRange::Bucket(bucket),
            _ => KeyRange::Prefix(bucket, prefix),
        };
        let is_listed = |name: &Name| {
            after.as_ref().is_none_or(|after| name > after) && match which {
                0 => !key_ref(name).is_piece(),
                1 => name.0 == wanted.0,
                2 => name.0 == wanted.0 && name.1 == wanted.1,
                _ => name.0 == wanted.0 && name.1 == wanted.1 && name.2.starts_with(prefix),
            }
        };
        let after = after.as_ref().map(key_ref);
        let mut listing = KeyListing::new(made.sources, range, after).unwrap();
        let expected: Vec<_> =
            made.model.into_iter().filter(|((name, _), _)| is_listed(name)).collect();
        prop_assert_eq!(listed(&mut listing), expected);
        prop_assert_eq!(listing.next_entry().unwrap(), None);
    }

    #[test]
    fn a_listing_can_skip_the_rest_of_each_bucket(
        all in prop::collection::vec(writes(200), 1..4),
        in_memory: [bool; 3],
    ) {
        let made = segments(all, &in_memory);
        let mut listing = KeyListing::new(made.sources, KeyRange::All, None).unwrap();
        let mut buckets = Vec::new();
        while let Some(found) = listing.next_entry().unwrap() {
            let (bucket_type, bucket, _) = owned(found.entry.key);
            listing.skip_bucket(BucketRef { bucket_type: &bucket_type, bucket: &bucket }).unwrap();
            buckets.push((bucket_type, bucket));
        }
        let names = made.model.into_keys().map(|(name, _)| name);
        let mut expected: Vec<_> = names
            .filter(|name| !key_ref(name).is_piece())
            .map(|(kind, bucket, _)| (kind, bucket))
            .collect();
        expected.dedup();
        prop_assert_eq!(buckets, expected);
    }

    #[test]
    fn a_damaged_file_is_reported_or_unharmed(
        writes in writes(300),
        at: prop::sample::Index,
        bit in 0..8u32,
        cut: bool,
        wanted in name(),
    ) {
        let disk = FaultyDisk::new(1);
        let made = segments(vec![writes], &[true]);
        let KeySource::Run(run) = &made.sources[0] else { unreachable!() };
        let whole = walked(&write_and_open(&disk, run)).unwrap();
        let mut bytes = disk.bytes("0.keys").unwrap();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] ^= 1 << bit }
        disk.put("0.keys", bytes);
        match KeyFile::open(&disk, "0.keys").map(Arc::new) {
            Err(error) => prop_assert!(is_corrupt(&error), "{error}"),
            Ok(file) => {
                match walked(&file) {
                    Err(error) => prop_assert!(is_corrupt(&error), "{error}"),
                    // Damage of an inner block is noticed only by lookups.
                    Ok(found) => prop_assert_eq!(found, whole),
                }
                if let Err(error) = file.find(key_ref(&wanted), Partition(0)) {
                    prop_assert!(is_corrupt(&error), "{error}");
                }
            }
        }
    }

    #[test]
    fn outside_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let disk = FaultyDisk::new(1);
        let mut framed = footer::MAGIC.to_vec();
        framed.extend_from_slice(&bytes);
        disk.put("foreign", framed);
        prop_assert!(KeyFile::open(&disk, "foreign").is_err());
        let _ = block::open(&bytes, 0);
        let _ = block::read_child(&mut bytes.as_slice(), &mut Vec::new());
        let _ = entry::decode(&mut bytes.as_slice(), &mut Vec::new(), u64::MAX);
        let _ = entry::decode_whole(&bytes);
    }
}

fn is_corrupt(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { path, .. } if path == "faulty disk/0.keys")
}

fn plain_facts(number: u64) -> KeyWrite {
    KeyWrite {
        kind: WriteKind::Put,
        identity: Identity(number),
        partition: Partition(0),
        sequence: number,
        offset_bytes: number * 16,
        size_bytes: 16,
        meta: RecordMeta::default(),
    }
}

/// A run with the keys `0000000`, `0000002` and so on, each followed by `padding` dashes.
fn even_numbers(count: u64, padding: usize) -> (Model, KeyRun) {
    let mut builder = KeyRunBuilder::default();
    let mut model = Model::new();
    for number in (0..count).rev() {
        let key = format!("{:07}{}", number * 2, "-".repeat(padding)).into_bytes();
        let name = (b"type".to_vec(), b"bucket".to_vec(), key);
        builder.push(&encoded(&name), &plain_facts(number));
        model.insert((name, 0), plain_facts(number));
    }
    (model, builder.sort(7))
}

#[test]
fn seeks_in_a_file_of_several_levels_find_their_keys() {
    for (count, padding) in [(6000, 600), (200, 60_000)] {
        let (model, run) = even_numbers(count, padding);
        let file = write_and_open(&FaultyDisk::new(1), &run);
        assert!(file.footer().level_count >= 2, "{} levels", file.footer().level_count);
        assert_eq!(walked(&file).unwrap().len(), count as usize);
        for number in (0..count * 2).step_by(count as usize / 100) {
            let name = |number| format!("{number:07}{}", "-".repeat(padding)).into_bytes();
            let bucket = BucketRef { bucket_type: b"type", bucket: b"bucket" };
            let found = file.find(bucket.key(&name(number)), Partition(0)).unwrap();
            let facts = model.get(&((b"type".to_vec(), b"bucket".to_vec(), name(number)), 0));
            assert_eq!(found.as_ref(), facts);
            let cursor = FileCursor::seek(&file, bucket.key(&name(number))).unwrap();
            let next = number.next_multiple_of(2);
            let found = cursor.current().map(|entry| entry.key.key.to_vec());
            assert_eq!(found, (next < count * 2).then(|| name(next)));
        }
    }
}

#[test]
fn writes_of_a_key_in_many_partitions_are_found_across_blocks() {
    let mut builder = KeyRunBuilder::default();
    let bucket = BucketRef::untyped(b"bucket");
    let mut encoded = Vec::new();
    for key in [b"a", b"b", b"c"] {
        encoded.clear();
        bucket.key(key).encode_into(&mut encoded);
        for partition in 0..2000 {
            let facts = KeyWrite { partition: Partition(partition), ..plain_facts(1) };
            builder.push(&encoded, &facts);
        }
    }
    let file = write_and_open(&FaultyDisk::new(1), &builder.sort(7));
    for key in [b"a", b"b", b"c"] {
        let cursor = FileCursor::seek(&file, bucket.key(key)).unwrap();
        assert_eq!(cursor.current().map(|entry| entry.facts.partition), Some(Partition(0)));
        for partition in [0, 1, 700, 1999] {
            let found = file.find(bucket.key(key), Partition(partition)).unwrap();
            assert_eq!(found.map(|facts| facts.partition), Some(Partition(partition)));
        }
    }
}

#[test]
fn drops_of_partitions_stand_beside_a_record_of_their_name() {
    let mut builder = KeyRunBuilder::default();
    let mut encoded = Vec::new();
    KeyWrite::DROP_KEY.encode_into(&mut encoded);
    let drop = |sequence| KeyWrite { kind: WriteKind::DropPartition, ..plain_facts(sequence) };
    for facts in [drop(1), plain_facts(2), drop(3), plain_facts(4)] {
        builder.push(&encoded, &facts);
    }
    let file = write_and_open(&FaultyDisk::new(1), &builder.sort(7));
    let range = KeyRange::Bucket(KeyWrite::DROP_KEY.bucket);
    let mut listing = KeyListing::new(vec![KeySource::File(file)], range, None).unwrap();
    let found: Vec<_> = listed(&mut listing).into_iter().map(|(_, (facts, _))| facts).collect();
    assert_eq!(found, [plain_facts(4), drop(3)]);
}

#[test]
fn an_empty_run_makes_a_file_without_entries() {
    let file = write_and_open(&FaultyDisk::new(1), &KeyRunBuilder::default().sort(3));
    assert_eq!(walked(&file).unwrap(), []);
    assert_eq!((file.footer().segment, file.footer().entry_count), (3, 0));
    assert!(
        FileCursor::seek(&file, BucketRef::untyped(b"b").key(b"k")).unwrap().current().is_none()
    );
}

#[test]
fn a_file_takes_what_it_must_for_each_key() {
    let disk = FaultyDisk::new(1);
    let (_, run) = even_numbers(20_000, 0);
    run.write(&disk, "7.keys").unwrap();
    let bytes = disk.bytes("7.keys").unwrap().len();
    assert!(bytes < 20_000 * 32, "{bytes} bytes");
}

#[test]
fn a_leftover_of_an_interrupted_writer_is_replaced() {
    let disk = FaultyDisk::new(1);
    disk.put("7.keys.tmp", vec![1; 1000]);
    let (model, run) = even_numbers(10, 0);
    assert_eq!(walked(&write_and_open(&disk, &run)).unwrap().len(), model.len());
    assert_eq!(disk.list().unwrap(), ["7.keys"]);
    assert!(crate::is_temporary_name("7.keys.tmp") && !crate::is_temporary_name("7.keys"));
}

#[test]
fn a_file_of_a_newer_version_is_refused_by_name() {
    let disk = FaultyDisk::new(1);
    even_numbers(10, 0).1.write(&disk, "0.keys").unwrap();
    let mut bytes = disk.bytes("0.keys").unwrap();
    let footer = bytes.len() - footer::FOOTER_BYTES;
    bytes[footer + 71] = 2;
    let checksum = xxhash_rust::xxh3::xxh3_64(&bytes[footer..footer + 72]).to_be_bytes();
    bytes[footer + 72..footer + 80].copy_from_slice(&checksum);
    disk.put("0.keys", bytes);
    let error = KeyFile::open(&disk, "0.keys").err().unwrap();
    assert!(is_corrupt(&error) && error.to_string().contains("version 2"), "{error}");
}

#[test]
#[should_panic(expected = "in order")]
fn a_writer_refuses_entries_out_of_order() {
    let disk = FaultyDisk::new(1);
    let mut writer = KeyFileWriter::create(&disk, "x", 0, 0).unwrap();
    for key in [b"b", b"a"] {
        let key = BucketRef::untyped(b"bucket").key(key);
        let mut encoded = Vec::new();
        key.encode_into(&mut encoded);
        writer.push(&KeyEntry { key, encoded: &encoded, facts: plain_facts(1) }).unwrap();
    }
}

#[test]
fn a_file_has_the_bytes_of_the_specification() {
    let disk = FaultyDisk::new(1);
    let mut builder = KeyRunBuilder::default();
    let name = (b"default".to_vec(), b"b".to_vec(), b"key".to_vec());
    let facts = KeyWrite {
        kind: WriteKind::Remove,
        identity: Identity(0x0102_0304_0506_0708),
        partition: Partition(300),
        sequence: 1000,
        offset_bytes: 0x1230,
        size_bytes: 77,
        meta: RecordMeta {
            digest: 0x1112_1314_1516_1718,
            tombstone: true,
            n_val_class: 3,
            expires_at_secs: 5,
            indexed: false,
        },
    };
    builder.push(&encoded(&name), &facts);
    builder.sort(9).write(&disk, "9.keys").unwrap();

    let mut content = vec![0x37, 0, 15, 0, 7, 0, 1];
    content.extend(b"defaultbkey");
    content.extend([1, 2, 3, 4, 5, 6, 7, 8, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x17, 0x18]);
    content.extend([0, 0xac, 2, 0xa3, 2, 77, 5]);
    let mut rest = (content.len() as u32).to_be_bytes().to_vec();
    rest.extend(content);
    let mut expected = b"\x8bQUOITK\n".to_vec();
    expected.extend(xxhash_rust::xxh3::xxh3_64_with_seed(&rest, 8).to_be_bytes());
    expected.extend(rest);
    let end = expected.len() as u64;
    let mut footer = vec![0, 0, 0, 9];
    let numbers = [1u64, 1, 1000, 1000, 1000, end, 8];
    numbers.iter().for_each(|number| footer.extend(number.to_be_bytes()));
    let small = [end as u32 - 8, 0, 1];
    small.iter().for_each(|number| footer.extend(number.to_be_bytes()));
    footer.extend(xxhash_rust::xxh3::xxh3_64(&footer).to_be_bytes());
    footer.extend(b"\x8bQUOITK\n");
    expected.extend(footer);
    assert_eq!(disk.bytes("9.keys").unwrap(), expected);
}
