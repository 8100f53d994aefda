//! Checks of a directory of reap records with any content in its files, for fuzzing.

use super::{ReapRecord, ReapRecordLimits, ReapRecords, log, manifest};
use bytes::Bytes;
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_seam::{Disk, FaultyDisk};
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};
use xxhash_rust::xxh3::xxh3_64;

/// Limits so small that some records fill several files.
const LIMITS: ReapRecordLimits = ReapRecordLimits { count_max: 1_000, file_bytes_max: 400 };
const ENTROPY: u64 = 5;
const PARTITION_COUNT: u16 = 8;

/// The file that an input replaces.
#[derive(Clone, Copy)]
enum Replaced {
    /// The manifest.
    Manifest,
    /// The manifest, with its checksum corrected.
    SealedManifest,
    /// A full log file.
    FullFile,
    /// The log file that grows.
    LastFile,
    /// A full log file, while the manifest is missing.
    FileWithoutManifest,
}

impl Replaced {
    const ALL: [Self; 5] = [
        Self::Manifest,
        Self::SealedManifest,
        Self::FullFile,
        Self::LastFile,
        Self::FileWithoutManifest,
    ];
}

/// Replaces the content of a file of the directory, which the first byte of the input selects, by the
/// rest of the input.
///
/// # Panics
///
/// If an invariant is broken: the directory is opened or refused with an error; in an opened directory, each
/// record is found as it was made or its partition counts as having lost records, also after the next start;
/// and the next start finds records that are made afterwards.
#[expect(clippy::indexing_slicing, reason = "the index is a remainder by the number of files")]
pub fn fuzz_reap_records(input: &[u8]) {
    let Some((choice, content)) = input.split_first() else { return };
    let replaced = Replaced::ALL[usize::from(*choice) % Replaced::ALL.len()];
    let template = template();
    let disk = FaultyDisk::new(1);
    for (name, bytes) in &template.files {
        disk.put(name, bytes.clone());
    }
    let mut content = content.to_vec();
    match replaced {
        Replaced::Manifest => disk.put(manifest::NAME, content),
        Replaced::SealedManifest => {
            let checksum = xxh3_64(&content).to_le_bytes();
            content.extend_from_slice(&checksum);
            disk.put(manifest::NAME, content);
        }
        Replaced::FullFile => disk.put(&template.full_file, content),
        Replaced::LastFile => disk.put(&template.last_file, content),
        Replaced::FileWithoutManifest => {
            disk.delete(manifest::NAME);
            disk.put(&template.full_file, content);
        }
    }
    let Some(records) = open(&disk) else { return };
    // A manifest with a valid checksum is trusted, and it may say that records have retired.
    if !matches!(replaced, Replaced::SealedManifest) {
        check(&records, &template.made);
    }
    let new = record(7, u64::MAX, b"another one");
    let before = all(&records);
    if records.add(vec![new.clone()], &|_, newer| newer.clone()).is_err() {
        return;
    }
    let again = open(&disk.kill()).expect("what was opened once opens again");
    assert!(records.lost().is_subset(&again.lost()), "a loss was forgotten");
    assert!(all(&again).contains(&new), "what was made next is missing");
    assert!(before.is_subset(&all(&again)), "a record was lost by a start");
}

/// Returns all files of a directory as this release writes them.
#[must_use]
pub fn reap_record_samples() -> Vec<Vec<u8>> {
    let template = template();
    let bytes = |wanted: &str| {
        let found = template.files.iter().find(|(name, _)| name == wanted);
        found.map(|(_, bytes)| bytes.clone()).expect("the template has it")
    };
    let with_choice = |(choice, replaced): (u8, Replaced)| {
        let content = match replaced {
            Replaced::Manifest => bytes(manifest::NAME),
            Replaced::SealedManifest => {
                let mut content = bytes(manifest::NAME);
                content.truncate(content.len() - 8);
                content
            }
            Replaced::FullFile | Replaced::FileWithoutManifest => bytes(&template.full_file),
            Replaced::LastFile => bytes(&template.last_file),
        };
        [&[choice], &content[..]].concat()
    };
    (0..).zip(Replaced::ALL).map(with_choice).collect()
}

/// A directory as a killed process leaves it.
struct Template {
    files: Vec<(String, Vec<u8>)>,
    /// Records whose entries are within the durable bytes that the manifest names.
    made: Vec<ReapRecord>,
    full_file: String,
    last_file: String,
}

fn template() -> &'static Template {
    static TEMPLATE: OnceLock<Template> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let disk = FaultyDisk::new(1);
        let records = open(&disk).expect("the disk is sound");
        let add = |added: &[ReapRecord]| {
            let made = records.add(added.to_vec(), &|_, newer| newer.clone());
            made.expect("the disk is sound");
        };
        let retired = (0..6).map(|number| record(5, number, b"retires"));
        add(&retired.collect::<Vec<_>>());
        let made: Vec<_> =
            (0..12).map(|number| record(number % 3, number.into(), b"stays")).collect();
        made.chunks(2).for_each(add);
        let settled = [(Partition(5), records.sequence())];
        records.retire(&settled).expect("the disk is sound");
        add(&[record(4, 20, b"not covered by the manifest")]);
        let disk = disk.kill();
        let names = disk.list().expect("the disk is sound");
        let numbers: BTreeSet<u32> = names.iter().filter_map(|name| log::number_of(name)).collect();
        let (first, last) = (numbers.first(), numbers.last());
        assert!(numbers.len() > 1, "a full file and one that grows");
        let content = |name: String| disk.bytes(&name).map(|bytes| (name, bytes));
        Template {
            full_file: first.map(|number| log::name(*number)).expect("there are two"),
            last_file: last.map(|number| log::name(*number)).expect("there are two"),
            files: names.into_iter().filter_map(content).collect(),
            made,
        }
    })
}

fn check(records: &ReapRecords, made: &[ReapRecord]) {
    let (found, lost) = (all(records), records.lost());
    for record in made {
        let is_known = found.contains(record) || lost.contains(&record.partition);
        assert!(is_known, "a record of {:?} is missing in silence", record.partition);
    }
}

fn all(records: &ReapRecords) -> BTreeSet<ReapRecord> {
    let of_partition = |number| {
        let page = records.page(Partition(number), Identity(0), usize::MAX);
        page.expect("the disk is sound").0
    };
    (0..PARTITION_COUNT).flat_map(of_partition).collect()
}

fn record(partition: u16, number: u64, tombstone: &'static [u8]) -> ReapRecord {
    let name = Bytes::from(format!("record {number}"));
    let tombstone = Bytes::from_static(tombstone);
    ReapRecord { partition: Partition(partition), identity: Identity(number), name, tombstone }
}

fn open(disk: &FaultyDisk) -> Option<ReapRecords> {
    let ring_size = RingSize::new(PARTITION_COUNT).expect("8 is a ring size");
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    ReapRecords::open(disk, ring_size, LIMITS, ENTROPY).ok()
}
