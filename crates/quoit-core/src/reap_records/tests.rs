use super::*;
use proptest::prelude::*;
use quoit_model::key::{BucketRef, KeyRef};
use quoit_seam::FaultyDisk;

/// Limits so small that a few records fill a file.
const LIMITS: ReapRecordLimits = ReapRecordLimits { count_max: 200, file_bytes_max: 2_000 };

fn ring_size() -> RingSize {
    RingSize::new(8).expect("8 is a ring size")
}

fn open(disk: &FaultyDisk) -> ReapRecords {
    ReapRecords::open(Arc::new(disk.clone()), ring_size(), LIMITS, 7).expect("the disk works")
}

/// A record whose tombstone has seen some of eight events. Records 0 and 100, 1 and 101 and so on share an
/// identity.
fn record(partition: u16, number: u64, events: u8) -> ReapRecord {
    let key = format!("key {number}");
    let name = Bytes::copy_from_slice(&BucketRef::untyped(b"b").key(key.as_bytes()).encoded());
    let tombstone = Bytes::from(vec![events; 20 + number as usize % 50 * 20]);
    let identity = Identity(number % 100);
    ReapRecord { partition: Partition(partition), identity, name, tombstone }
}

/// Returns the tombstone that has seen the events of both.
fn merge(one: &Bytes, other: &Bytes) -> Bytes {
    assert_eq!(one.len(), other.len(), "tombstones of different records");
    one.iter().zip(other).map(|(one, other)| one | other).collect()
}

fn add(records: &ReapRecords, added: &[ReapRecord]) -> Result<(), AddReapRecordsError> {
    records.add(added.to_vec(), &merge)
}

/// Returns the events that the tombstone of a record has seen; 0 if there is no reap record.
fn events(records: &ReapRecords, wanted: &ReapRecord) -> Result<u8, StoreError> {
    let key = KeyRef::decode(&wanted.name).expect("it is a good name");
    let ReapRecord { partition, identity, .. } = *wanted;
    let at = RecordAt { key, encoded: &wanted.name, identity, partition };
    let found = records.get(&at, IoMode::Wait)?;
    Ok(match found {
        ReapedTombstone::Found(tombstone) => {
            assert_eq!(tombstone.len(), wanted.tombstone.len());
            assert!(records.may_have(partition, identity));
            tombstone[0]
        }
        ReapedTombstone::Missing => 0,
        ReapedTombstone::WouldBlock => panic!("waiting was allowed"),
    })
}

/// Returns all records of a partition, read page by page.
fn all(records: &ReapRecords, partition: u16, limit: usize) -> Vec<ReapRecord> {
    let mut found = Vec::new();
    let mut from = Some(Identity(0));
    while let Some(identity) = from {
        let page;
        (page, from) = records.page(Partition(partition), identity, limit).expect("the disk works");
        found.extend(page);
    }
    found
}

fn file_count(disk: &FaultyDisk) -> usize {
    let names = disk.list().expect("the disk works");
    names.iter().filter(|name| log::number_of(name).is_some()).count()
}

#[test]
fn names_that_share_an_identity_have_records_of_their_own() {
    let disk = FaultyDisk::new(1);
    for records in [ReapRecords::in_memory(ring_size(), LIMITS), open(&disk)] {
        assert!(records.is_empty());
        add(&records, &[record(1, 5, 1), record(1, 105, 2)]).unwrap();
        add(&records, &[record(1, 105, 4), record(2, 5, 8)]).unwrap();
        assert_eq!(events(&records, &record(1, 5, 0)).unwrap(), 1);
        assert_eq!(events(&records, &record(1, 105, 0)).unwrap(), 6);
        assert_eq!(events(&records, &record(2, 5, 0)).unwrap(), 8);
        assert_eq!(events(&records, &record(2, 105, 0)).unwrap(), 0);
        assert_eq!(records.stats().count, 3);
        assert_eq!(all(&records, 1, 1).len(), 2);
        assert_eq!(records.partitions(), [Partition(1), Partition(2)].into());
        assert!(!records.may_have(Partition(1), Identity(6)));
    }
    let records = open(&disk.kill());
    assert_eq!(all(&records, 1, 1), [record(1, 5, 1), record(1, 105, 6)]);
}

#[test]
fn beyond_the_bound_none_of_the_records_is_made() {
    let limits = ReapRecordLimits { count_max: 2, ..LIMITS };
    let records = ReapRecords::in_memory(ring_size(), limits);
    add(&records, &[record(1, 1, 1)]).unwrap();
    let refused = add(&records, &[record(1, 2, 1), record(1, 3, 1)]);
    assert!(matches!(refused, Err(AddReapRecordsError::Full { count_max: 2 })));
    assert_eq!(all(&records, 1, 9), [record(1, 1, 1)]);
    add(&records, &[record(1, 1, 2), record(1, 2, 2)]).unwrap();
    add(&records, &[record(1, 1, 4), record(1, 2, 4)]).unwrap();
    records.retire(&[(Partition(1), records.sequence())]).unwrap();
    add(&records, &[record(1, 2, 1), record(1, 3, 1)]).unwrap();
}

#[test]
fn records_that_were_lost_leave_room_for_others_at_once() {
    let disk = FaultyDisk::new(1);
    // Each file has one entry.
    let limits = ReapRecordLimits { count_max: 3, file_bytes_max: 100 };
    let opened = ReapRecords::open(Arc::new(disk.clone()), ring_size(), limits, 7);
    let records = opened.expect("the disk works");
    for partition in 1..4 {
        add(&records, &[record(partition, u64::from(partition) * 50, 1)]).unwrap();
    }
    let file = disk.open(&log::name(1), false).expect("it is there");
    let name_offset = (log::FILE_HEAD_BYTES + entry::HEAD_BYTES) as u64;
    file.write_at(&[0xFF], name_offset).expect("the disk works");
    assert!(all(&records, 1, 9).is_empty(), "its entry is damaged");
    // The files of dead and damaged entries are given up.
    add(&records, &[record(2, 100, 2)]).unwrap();
    assert_eq!(records.stats().count, 2);
    add(&records, &[record(4, 200, 1)]).expect("there is room");
}

#[test]
fn a_record_that_is_made_again_as_it_is_writes_nothing_and_stays_as_old() {
    let disk = FaultyDisk::new(1);
    let records = open(&disk);
    add(&records, &[record(1, 1, 3)]).unwrap();
    let (made, size_bytes) = (records.sequence(), records.stats().size_bytes);
    add(&records, &[record(1, 1, 1), record(1, 1, 2)]).unwrap();
    assert_eq!((records.sequence(), records.stats().size_bytes), (made, size_bytes));
    assert_eq!(records.retire(&[(Partition(1), made)]).unwrap(), 1);
}

#[test]
fn only_records_made_before_retire_and_they_stay_retired() {
    let disk = FaultyDisk::new(1);
    let records = open(&disk);
    add(&records, &[record(1, 1, 1), record(1, 2, 1), record(2, 3, 1)]).unwrap();
    let before = records.sequence();
    add(&records, &[record(1, 2, 2), record(1, 4, 1)]).unwrap();
    assert_eq!(records.retire(&[(Partition(1), before)]).unwrap(), 1);
    let check = |records: &ReapRecords| {
        assert_eq!(all(records, 1, 9), [record(1, 2, 3), record(1, 4, 1)]);
        assert_eq!(all(records, 2, 9), [record(2, 3, 1)]);
    };
    check(&records);
    check(&open(&disk.crash()));
}

#[test]
fn what_is_not_in_memory_is_not_waited_for() {
    let disk = FaultyDisk::new(1);
    let records = open(&disk);
    let wanted = record(1, 49, 1);
    add(&records, std::slice::from_ref(&wanted)).unwrap();
    let key = KeyRef::decode(&wanted.name).unwrap();
    let at = RecordAt {
        key,
        encoded: &wanted.name,
        identity: wanted.identity,
        partition: wanted.partition,
    };
    let found = records.get(&at, IoMode::NoWait).unwrap();
    assert_eq!(found, ReapedTombstone::Found(wanted.tombstone.clone()));
    disk.set_faults(|faults| faults.would_block_one_in = 1);
    assert_eq!(records.get(&at, IoMode::NoWait).unwrap(), ReapedTombstone::WouldBlock);
    assert_eq!(records.get(&at, IoMode::Wait).unwrap(), found);
}

#[test]
fn files_go_with_their_records_and_work_is_linear() {
    let disk = FaultyDisk::new(1);
    let limits = ReapRecordLimits { count_max: 10_000, file_bytes_max: 8_000 };
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let records = ReapRecords::open(shared, ring_size(), limits, 7).unwrap();
    let numbers = |round: u64| (0..100).map(move |number| round * 1_000 + number);
    let mut made = Vec::new();
    for round in 0..30 {
        let partition = (round % 8) as u16;
        let batch: Vec<_> = numbers(round).map(|number| record(partition, number, 1)).collect();
        add(&records, &batch).unwrap();
        made.push(records.sequence());
    }
    let most_files = file_count(&disk);
    assert!(most_files > 100, "{most_files}");
    for (round, up_to) in made.iter().enumerate() {
        let settled = [(Partition((round % 8) as u16), *up_to)];
        assert_eq!(records.retire(&settled).unwrap(), 100);
        let stats = records.stats();
        let live_bytes = stats.count as u64 * 700;
        assert!(stats.size_bytes <= 2 * live_bytes + 20_000, "{stats:?}");
    }
    assert!(records.is_empty());
    assert_eq!(file_count(&disk), 0);
}

#[test]
fn records_that_replace_others_again_and_again_take_no_more_room() {
    let disk = FaultyDisk::new(1);
    let records = open(&disk);
    for round in 0..400_u64 {
        // The latest record replaces the former one.
        let added = vec![record(1, round % 8, (round / 8) as u8)];
        records.add(added, &|_, new| new.clone()).unwrap();
        assert!(disk.used_bytes() < 10_000, "{} bytes for 8 records", disk.used_bytes());
    }
}

#[test]
fn after_a_fault_the_process_goes_on_in_another_file() {
    let disk = FaultyDisk::new(1);
    let records = open(&disk);
    add(&records, &[record(1, 1, 1)]).unwrap();
    disk.set_faults(|faults| faults.failing_syncs = 1);
    assert!(add(&records, &[record(1, 2, 1)]).is_err());
    assert_eq!(events(&records, &record(1, 2, 0)).unwrap(), 0);
    add(&records, &[record(1, 3, 1)]).unwrap();
    assert_eq!(file_count(&disk), 2);
    assert_eq!(all(&records, 1, 9), [record(1, 1, 1), record(1, 3, 1)]);
    assert_eq!(all(&open(&disk.crash()), 1, 9), [record(1, 1, 1), record(1, 3, 1)]);
}

#[test]
fn a_missing_file_and_a_shorter_one_are_losses_until_the_end() {
    for is_missing in [true, false] {
        let disk = FaultyDisk::new(1);
        let records = open(&disk);
        for number in 0..20 {
            add(&records, &[record(1, number, 1)]).unwrap();
        }
        let first = log::name(1);
        let bytes = disk.bytes(&first).unwrap();
        let mut disk = disk.kill();
        if is_missing {
            disk.delete(&first);
        } else {
            disk.put(&first, bytes[..bytes.len() - 1].to_vec());
        }
        for _ in 0..2 {
            disk = disk.kill();
            let records = open(&disk);
            assert_eq!(records.lost().len(), 8, "nobody knows which partitions");
            assert_eq!(records.stats().lost_partition_count, 8);
            add(&records, &[record(2, 1, 1)]).unwrap();
        }
    }
}

#[test]
fn a_damaged_record_is_lost_when_it_is_found_and_no_other() {
    let disk = FaultyDisk::new(1);
    let records = open(&disk);
    add(&records, &[record(1, 1, 1), record(2, 2, 1), record(3, 3, 1)]).unwrap();
    let second =
        entry::HEAD_BYTES * 2 + record(1, 1, 1).name.len() + record(1, 1, 1).tombstone.len();
    disk.flip_bit(&log::name(1), log::FILE_HEAD_BYTES + second, 3);
    assert!(records.lost().is_empty());
    assert!(matches!(events(&records, &record(2, 2, 0)), Err(StoreError::Corrupt { .. })));
    assert_eq!(records.lost(), [Partition(2)].into());
    let check = |records: &ReapRecords| {
        assert_eq!(events(records, &record(1, 1, 0)).unwrap(), 1);
        assert_eq!(events(records, &record(3, 3, 0)).unwrap(), 1);
    };
    check(&records);
    check(&open(&disk.kill()));
}

#[test]
fn a_directory_of_another_ring_is_refused() {
    let disk = FaultyDisk::new(1);
    add(&open(&disk), &[record(1, 1, 1)]).unwrap();
    let wanted = RingSize::new(16).unwrap();
    let opened = ReapRecords::open(Arc::new(disk.kill()), wanted, LIMITS, 7);
    assert!(matches!(opened.err(), Some(StoreError::OtherRing { stored: 8, wanted: 16, .. })));
}

/// Bytes of a client's key that look like an entry are not mistaken for one, even where damage makes the
/// reader look for the next entry.
#[test]
fn a_key_can_not_be_taken_for_an_entry() {
    let mut forged = Vec::new();
    entry::append_entry(&record(1, 1, 1), ReapSequence(1), 0, 0, &mut forged);
    let disk = FaultyDisk::new(1);
    let records = open(&disk);
    let carrier = ReapRecord { name: forged.into(), ..record(1, 2, 1) };
    add(&records, &[carrier]).unwrap();
    add(&records, &[record(1, 3, 1)]).unwrap();
    disk.flip_bit(&log::name(1), log::FILE_HEAD_BYTES, 0);
    let records = open(&disk.kill());
    assert_eq!(all(&records, 1, 9), [record(1, 3, 1)]);
}

#[derive(Clone, Debug)]
enum Step {
    Add(u16, Vec<(u64, u8)>),
    AddToFailingDisk(u16, Vec<(u64, u8)>, FaultKind),
    AddAndGoOn(u16, Vec<(u64, u8)>, FaultKind),
    Mark,
    Retire(u16, usize),
    RetireOnFailingDisk(u16, FaultKind),
    Kill,
    Crash,
}

#[derive(Clone, Copy, Debug)]
enum FaultKind {
    Writes,
    Syncs,
    Full,
    After(u64),
}

fn fault() -> impl Strategy<Value = FaultKind> {
    prop_oneof![
        Just(FaultKind::Writes),
        Just(FaultKind::Syncs),
        Just(FaultKind::Full),
        (0..20_u64).prop_map(FaultKind::After),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let batch = || prop::collection::vec((prop_oneof![0..30_u64, 100..104_u64], 1..255_u8), 1..6);
    prop_oneof![
        8 => (0..3_u16, batch()).prop_map(|(at, batch)| Step::Add(at, batch)),
        3 => (0..3_u16, batch(), fault())
            .prop_map(|(at, batch, fault)| Step::AddToFailingDisk(at, batch, fault)),
        2 => (0..3_u16, batch(), prop_oneof![Just(FaultKind::Writes), Just(FaultKind::Syncs)])
            .prop_map(|(at, batch, fault)| Step::AddAndGoOn(at, batch, fault)),
        2 => Just(Step::Mark),
        2 => (0..3_u16, 0..4_usize).prop_map(|(at, age)| Step::Retire(at, age)),
        1 => (0..3_u16, fault()).prop_map(|(at, fault)| Step::RetireOnFailingDisk(at, fault)),
        1 => Just(Step::Kill),
        2 => Just(Step::Crash),
    ]
}

/// The model of a record, as sets of events.
#[derive(Clone, Copy, Default)]
struct Known {
    /// Events that must be covered.
    must: u8,
    /// Events that may be covered, by records that may have been written or may not have retired.
    may: u8,
    /// Number of marks when it was made.
    marks: usize,
}

#[derive(Default)]
struct Model {
    known: BTreeMap<(u16, u64), Known>,
    marks: Vec<ReapSequence>,
}

impl Model {
    fn add(&mut self, at: u16, batch: &[(u64, u8)], is_certain: bool) {
        for (number, events) in batch {
            let known = self.known.entry((at, *number)).or_default();
            if is_certain && known.must | events != known.must {
                // A failed attempt may already have made this record, at an unknown time.
                let is_new = known.may | events != known.may;
                known.marks = if is_new { self.marks.len() } else { 0 };
                known.must |= events;
            }
            known.may |= events;
        }
    }

    /// Records of a partition that were made before a mark need not be there any more.
    fn retire(&mut self, at: u16, mark: usize) {
        let of_partition = self.known.range_mut((at, 0)..(at + 1, 0));
        for (_, known) in of_partition.filter(|(_, known)| known.marks <= mark) {
            known.must = 0;
        }
    }

    /// A record that was made before a restart is older than all marks after it.
    fn restart(&mut self) {
        self.marks.clear();
        self.known.values_mut().for_each(|known| known.marks = 0);
    }

    fn check(&self, records: &ReapRecords) -> Result<(), TestCaseError> {
        let mut count = 0;
        for ((at, number), Known { must, may, .. }) in &self.known {
            let found = events(records, &record(*at, *number, 0)).expect("the disk works");
            prop_assert_eq!(found & must, *must, "{} of {} in {}", found, number, at);
            prop_assert_eq!(found & !may, 0, "{} of {} in {}", found, number, at);
            count += usize::from(found != 0);
        }
        prop_assert_eq!(records.stats().count, count);
        prop_assert_eq!((0..3).map(|at| all(records, at, 3).len()).sum::<usize>(), count);
        prop_assert!(records.lost().is_empty(), "no record was damaged");
        Ok(())
    }
}

fn batch(at: u16, batch: &[(u64, u8)]) -> Vec<ReapRecord> {
    batch.iter().map(|(number, events)| record(at, *number, *events)).collect()
}

fn set_fault(disk: &FaultyDisk, kind: FaultKind) {
    let used_bytes = disk.used_bytes();
    disk.set_faults(|faults| match kind {
        FaultKind::Writes => faults.failing_writes = 1,
        FaultKind::Syncs => faults.failing_syncs = 1,
        FaultKind::Full => faults.capacity_bytes = Some(used_bytes),
        FaultKind::After(count) => faults.operations_left = Some(count),
    });
}

/// A write may be torn in the middle, so that later entries of it are there. Later starts report no
/// damage because of that.
#[test]
fn a_torn_batch_is_no_damage_now_or_later() {
    let disk = FaultyDisk::new(1);
    let records = open(&disk);
    add(&records, &[record(1, 1, 1)]).unwrap();
    let start = records.stats().size_bytes as usize;
    add(&records, &[record(2, 2, 1), record(3, 3, 1), record(4, 4, 1)]).unwrap();
    let first = log::name(1);
    let mut bytes = disk.bytes(&first).unwrap();
    bytes[start..start + entry::HEAD_BYTES + 1].fill(0);
    let mut disk = disk.kill();
    disk.put(&first, bytes);
    for number in 5..8 {
        disk = disk.kill();
        let records = open(&disk);
        assert_eq!(events(&records, &record(2, 2, 0)).unwrap(), 0);
        assert_eq!(events(&records, &record(3, 3, 0)).unwrap(), 1);
        assert_eq!(events(&records, &record(4, 4, 0)).unwrap(), 1);
        assert!(records.lost().is_empty());
        add(&records, &[record(1, number, 1)]).unwrap();
    }
}

proptest! {
    /// Compares reap records with sets of events: what was made is there until it retires, whatever disks
    /// and power failures do, and no partition counts as having lost records.
    #[test]
    fn nothing_that_was_made_is_forgotten(
        steps in prop::collection::vec(step(), 1..60),
        seed in any::<u64>(),
    ) {
        let mut disk = FaultyDisk::new(seed);
        let mut records = open(&disk);
        let mut model = Model::default();
        for step in steps {
            match step {
                Step::Add(at, added) => {
                    add(&records, &batch(at, &added)).expect("there is room");
                    model.add(at, &added, true);
                }
                Step::AddToFailingDisk(at, added, kind) => {
                    set_fault(&disk, kind);
                    let made = add(&records, &batch(at, &added)).is_ok();
                    model.add(at, &added, made);
                    disk = disk.crash();
                    records = open(&disk);
                    model.restart();
                }
                Step::AddAndGoOn(at, added, kind) => {
                    set_fault(&disk, kind);
                    let made = add(&records, &batch(at, &added)).is_ok();
                    model.add(at, &added, made);
                    disk.set_faults(|faults| *faults = Default::default());
                }
                Step::Mark => model.marks.push(records.sequence()),
                Step::Retire(at, age) => {
                    let Some(mark) = model.marks.len().checked_sub(age + 1) else { continue };
                    let settled = [(Partition(at), model.marks[mark])];
                    records.retire(&settled).expect("the disk works");
                    model.retire(at, mark);
                }
                Step::RetireOnFailingDisk(at, kind) => {
                    set_fault(&disk, kind);
                    let settled = [(Partition(at), records.sequence())];
                    let _ = records.retire(&settled);
                    model.retire(at, usize::MAX);
                    disk = disk.kill();
                    records = open(&disk);
                    model.restart();
                }
                Step::Kill => {
                    disk = disk.kill();
                    records = open(&disk);
                    model.restart();
                }
                Step::Crash => {
                    disk = disk.crash();
                    records = open(&disk);
                    model.restart();
                }
            }
            model.check(&records)?;
        }
    }

    /// Flips a bit anywhere: a record that is not found any more is in a partition that counts as having
    /// lost records, also after further starts and after the files were rewritten.
    #[test]
    fn damage_is_told_and_spoils_no_other_record(
        batches in prop::collection::vec(prop::collection::vec((0..30_u64, 1..255_u8), 1..6), 1..20),
        place in any::<prop::sample::Index>(),
        ends_noted in any::<bool>(),
        bit in 0..8_u32,
    ) {
        let disk = FaultyDisk::new(1);
        let records = open(&disk);
        let mut model = Model::default();
        let mut last_written = None;
        for (at, added) in (0..).zip(&batches) {
            let before = records.sequence();
            add(&records, &batch(at % 3, added)).expect("there is room");
            model.add(at % 3, added, true);
            if records.sequence() > before {
                last_written = Some((at % 3, added));
            }
        }
        if ends_noted {
            records.note_ends().expect("the disk works");
        } else if let Some((last, added)) = last_written {
            // A flipped bit in the last batch looks like a torn batch.
            let is_last = |number: u64| added.iter().any(|(other, _)| *other == number);
            model.known.retain(|(at, number), _| *at != last || !is_last(*number));
        }
        let names = disk.list().expect("the disk works");
        let sizes = names.iter().map(|name| disk.bytes(name).map_or(0, |bytes| bytes.len()));
        let of_file = |(name, size)| (0..size).map(move |offset| (name, offset));
        let places: Vec<_> = names.iter().zip(sizes).flat_map(of_file).collect();
        let (name, offset) = places[place.index(places.len())];
        disk.flip_bit(name, offset, bit);
        let is_manifest = name == manifest::NAME;
        let mut disk = disk;
        for start in 0..3 {
            disk = disk.kill();
            let records = open(&disk);
            let lost = records.lost();
            let mut missing_count = 0;
            for ((at, number), known) in &model.known {
                let found = events(&records, &record(*at, *number, 0)).expect("the disk works");
                // Where the newest entry is damaged, an older one of the same record counts.
                let is_whole = found == known.must;
                missing_count += usize::from(!is_whole);
                prop_assert!(is_whole || lost.contains(&Partition(*at)), "{} in {}", number, at);
            }
            prop_assert!(missing_count <= 1, "{missing_count} spoiled");
            prop_assert!(!is_manifest || missing_count == 0 && lost.len() == 8);
            if start == 1 {
                records.retire(&[(Partition(2), records.sequence())]).expect("the disk works");
                model.known.retain(|(at, _), _| *at != 2);
            }
        }
    }
}
