//! Conversions from each engine to each other engine, with interruptions.

use crate::support;
use crate::support::indexes::{check_indexes, try_put_indexed};
use crate::support::ordered::open_ordered;
use crate::support::{BUCKET, Name, check_sums, put, try_put};
use bytes::Bytes;
use quoit_model::hash::{Identity, KeyHash, Partition, PlacementHash, RingSize};
use quoit_model::key::BucketRef;
use quoit_seam::{ManualClock, ManualExecution, NextStep, RealDisk};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings, SNAPSHOT_WORKER};
use quoit_store::convert::{
    Conversion, ConvertError, CopySettings, StartedConversion, started_conversion,
};
use quoit_store::engine::{
    BatchWrite, Engine, Fetch, IoMode, KeyRange, Record, RecordAt, RecordMeta,
};
use quoit_store::error::StoreError;
use quoit_store::ordered::{LsmSettings, OrderedSettings};
use quoit_store::{OpenedStore, StoreIdentity, engine_of};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

const NOW_SECS: u64 = 1_700_000_000;

/// First byte of a record that has pages.
const PAGED: u8 = 0x70;

/// A sequence of engines in which each ordered pair of different engines follows each other once.
const WAY: [&str; 13] = [
    "bitcask",
    "leveldb",
    "bitcask",
    "leveled",
    "bitcask",
    "innostore",
    "leveldb",
    "leveled",
    "leveldb",
    "innostore",
    "leveled",
    "innostore",
    "bitcask",
];

struct Opened {
    engine: Arc<dyn Engine>,
    identity: Arc<StoreIdentity>,
    execution: ManualExecution,
}

impl Opened {
    /// The highest reserved and the highest exported counter.
    fn counters(&self) -> (u64, u64) {
        (self.identity.reserved_counter(), self.identity.exported_counter())
    }

    /// Records both counters.
    fn count(&self, reserved: u64, given_away: u64) {
        self.identity.reserve_counter(reserved).unwrap();
        self.identity.note_exported(given_away).unwrap();
    }
}

fn try_open(engine: &str, path: &Path) -> Result<Opened, StoreError> {
    let clock = Arc::new(ManualClock::at(NOW_SECS * 1_000_000));
    let execution = ManualExecution::default();
    let settings = OrderedSettings::new(5);
    let of_trees = LsmSettings { cache_bytes: 1 << 20, ..LsmSettings::default() };
    let opened: OpenedStore = match engine {
        "bitcask" => {
            let disk = Arc::new(RealDisk::open(path)?);
            let settings =
                BitcaskSettings { max_file_size_bytes: 20_000, ..BitcaskSettings::new(5) };
            BitcaskEngine::open(disk, clock, &execution, settings)?.into()
        }
        _ => open_ordered(engine, path, clock, &execution, settings, of_trees)?.into(),
    };
    let OpenedStore { engine, identity, .. } = opened;
    Ok(Opened { engine, identity, execution })
}

fn open(engine: &str, base: &Path) -> Opened {
    try_open(engine, &base.join(engine)).unwrap()
}

fn close(opened: Opened) {
    opened.engine.close().unwrap();
}

fn piece_of(owner: &str, number: u32, run: impl FnOnce(&RecordAt<'_>)) {
    let name = Name::new(owner);
    let number = number.to_be_bytes();
    let key = BucketRef::of_pieces(name.at().encoded).key(&number);
    let encoded = key.encoded();
    let identity = KeyHash::of_piece(&encoded, PlacementHash(0)).identity;
    run(&RecordAt { key, encoded: &encoded, identity, partition: name.at().partition });
}

fn page(number: u32) -> Vec<u8> {
    number.to_be_bytes().repeat(200)
}

fn put_pages(engine: &dyn Engine, owner: &str, count: u32) {
    put(engine, owner, &[&[PAGED][..], owner.as_bytes()].concat());
    for number in 0..count {
        piece_of(owner, number, |at| {
            let value = page(number);
            let write = BatchWrite::Put { at: *at, meta: RecordMeta::PIECE, value: &value };
            engine.batch(&[write]).unwrap();
        });
    }
}

/// Writes records of all kinds.
fn fill(engine: &dyn Engine) {
    for number in 0..400_u64 {
        let meta = RecordMeta {
            digest: number,
            n_val_class: (number % 3 + 1) as u8,
            tombstone: number.is_multiple_of(7),
            expires_at_secs: if number.is_multiple_of(11) { NOW_SECS as u32 + 90_000 } else { 0 },
            indexed: false,
        };
        let value = vec![number as u8; (number % 50 * 20) as usize];
        try_put(engine, &format!("k{number}"), &value, meta).unwrap();
    }
    for number in 0..60 {
        try_put_indexed(engine, &format!("indexed{number}"), number).unwrap();
    }
    let large = vec![7; 3 << 20];
    put(engine, "large", &large);
    put_pages(engine, "set", 700);
    put_pages(engine, "empty set", 0);
    // An expired record isn't copied.
    let expired = RecordMeta { expires_at_secs: NOW_SECS as u32 - 1, ..RecordMeta::default() };
    try_put(engine, "expired", b"v", expired).unwrap();
}

type Everything = BTreeMap<Bytes, Record>;

fn everything(engine: &dyn Engine) -> Everything {
    let mut found = Everything::new();
    for number in 0..RingSize::DEFAULT.get() {
        let page = engine.fold(Partition(number), Identity(0), usize::MAX, false).unwrap();
        found.extend(page.entries);
    }
    found
}

fn check_pages(engine: &dyn Engine) {
    let name = Name::new("set");
    let bucket = BucketRef::of_pieces(name.at().encoded);
    let listed = engine.list_keys(KeyRange::Bucket(bucket), None, 10_000).unwrap();
    assert_eq!(listed.entries.len(), 700);
    for number in 0..700 {
        piece_of("set", number, |at| {
            let Fetch::Found(found) = engine.get(at, IoMode::Wait).unwrap() else {
                panic!("piece {number} is gone");
            };
            assert_eq!((found.meta, &found.value[..]), (RecordMeta::PIECE, &page(number)[..]));
        });
    }
}

fn started(from: &str, to: &str) -> StartedConversion {
    StartedConversion {
        from: from.to_owned(),
        to: to.to_owned(),
        old_name: from.to_owned(),
        new_name: to.to_owned(),
        is_complete: false,
    }
}

static CLOCK: ManualClock = ManualClock::at(NOW_SECS * 1_000_000);

static NOTES: CopySettings<'static> =
    CopySettings { every_bytes: 100_000, clock: &CLOCK, accepts_damage: false };

/// Runs the converter. `is_killed` gets the number of pages copied and says if the run ends there. Returns
/// false if it did.
fn run(
    base: &Path,
    from: &str,
    to: &str,
    notes: &CopySettings<'_>,
    is_killed: impl Fn(usize) -> bool,
) -> Result<bool, ConvertError> {
    let ring_size = RingSize::DEFAULT;
    let old = open(from, base);
    let mut conversion = match Conversion::resume(base, ring_size)? {
        Some(resumed) => resumed,
        None => Conversion::begin(base, ring_size, started(from, to))?,
    };
    let new = try_open(to, &conversion.new_path())?;
    let mut page_count = 0;
    let copied = catch_unwind(AssertUnwindSafe(|| {
        conversion.copy(&*old.engine, &*new.engine, notes, &mut |_| {
            page_count += 1;
            if is_killed(page_count) {
                std::panic::resume_unwind(Box::new("killed"));
            }
        })
    }));
    match copied {
        Err(_) => return Ok(false),
        Ok(copied) => copied?,
    }
    close(new);
    close(old);
    conversion.complete()?;
    conversion.switch()?;
    Ok(true)
}

#[test]
fn everything_moves_from_each_engine_to_each_other_one() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let opened = open(WAY[0], base);
    fill(&*opened.engine);
    let expected = everything(&*opened.engine);
    opened.count(1_000, 70);
    let (store_id, mut incarnation) = (opened.identity.store_id(), opened.identity.incarnation());
    close(opened);
    for (number, step) in WAY.windows(2).enumerate() {
        let [from, to] = step else { unreachable!() };
        let counters = (1_001 + number as u64, 71 + number as u64);
        // Three runs are killed, each one later than the last.
        for kill_at in [1, 12, 20] {
            assert!(!run(base, from, to, &NOTES, |count| count == kill_at).unwrap());
            assert_eq!(started_conversion(base).unwrap(), Some(started(from, to)));
        }
        // The old engine's counters rise after the new directory was created with the earlier ones.
        let opened = open(from, base);
        opened.count(counters.0, counters.1);
        close(opened);
        assert!(run(base, from, to, &NOTES, |_| false).unwrap());
        assert_eq!(started_conversion(base).unwrap(), None);
        assert!(!base.join(from).exists() && !base.join("converting").exists());
        assert_eq!(engine_of(&RealDisk::open(base.join(to)).unwrap()).unwrap().unwrap(), *to);
        let moved = open(to, base);
        assert_eq!(everything(&*moved.engine), expected, "{from} to {to}");
        check_sums(&*moved.engine);
        // After a kill, bitcask rebuilds its secondary indexes in the background.
        while moved.execution.step(SNAPSHOT_WORKER) == Some(NextStep::Again) {}
        check_indexes(&*moved.engine);
        check_pages(&*moved.engine);
        // No dot is used twice: the counters continue, in this incarnation or in an unused one.
        assert_eq!((moved.identity.store_id(), moved.counters()), (store_id, counters));
        assert!(moved.identity.incarnation() >= incarnation);
        incarnation = moved.identity.incarnation();
        put(&*moved.engine, "after", b"a write");
        assert_eq!(support::value(&*moved.engine, "after").unwrap(), b"a write");
        support::remove(&*moved.engine, "after");
        close(moved);
    }
}

#[test]
fn a_conversion_that_is_given_up_leaves_the_old_data_as_it_was() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let opened = open("bitcask", base);
    fill(&*opened.engine);
    let expected = everything(&*opened.engine);
    close(opened);
    assert!(!run(base, "bitcask", "innostore", &NOTES, |count| count == 30).unwrap());
    Conversion::resume(base, RingSize::DEFAULT).unwrap().unwrap().abandon().unwrap();
    assert_eq!(started_conversion(base).unwrap(), None);
    assert!(!base.join("converting").exists() && !base.join("innostore").exists());
    let opened = open("bitcask", base);
    assert_eq!(everything(&*opened.engine), expected);
    close(opened);
    // The next conversion starts from scratch.
    assert!(run(base, "bitcask", "leveled", &NOTES, |_| false).unwrap());
    assert_eq!(everything(&*open("leveled", base).engine), expected);
}

#[test]
fn data_in_the_place_of_the_new_data_stops_a_conversion_before_it_begins() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    close(open("innostore", base));
    close(open("bitcask", base));
    let refused = run(base, "bitcask", "innostore", &NOTES, |_| false).unwrap_err();
    assert!(matches!(refused, ConvertError::TargetExists { .. }), "{refused}");
    assert!(refused.to_string().contains("move it away"), "{refused}");
    assert_eq!(started_conversion(base).unwrap(), None);
}

#[test]
fn damaged_records_stop_a_conversion_until_they_are_given_up() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let opened = open("bitcask", base);
    for number in 0..50 {
        put(&*opened.engine, &format!("k{number}"), &[number; 300]);
    }
    let incarnation = opened.identity.incarnation();
    let whole = everything(&*opened.engine);
    close(opened);
    let segment = base.join("bitcask/0000001.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    let place = bytes.windows(300).position(|window| window == [9; 300]).unwrap();
    bytes[place + 100] ^= 1;
    std::fs::write(&segment, bytes).unwrap();

    let refused = run(base, "bitcask", "leveldb", &NOTES, |_| false).unwrap_err();
    assert!(matches!(refused, ConvertError::Damaged { count: 1, .. }), "{refused}");
    let partition = Name::new("k9").at().partition.0;
    let text = refused.to_string();
    assert!(text.contains(&format!("(partitions {partition})")), "{text}");
    assert!(text.contains("--accept-damage"), "{text}");
    assert!(!started_conversion(base).unwrap().unwrap().is_complete, "the old data still counts");

    let accepting = CopySettings { accepts_damage: true, ..NOTES };
    assert!(run(base, "bitcask", "leveldb", &accepting, |_| false).unwrap());
    let moved = open("leveldb", base);
    let found = everything(&*moved.engine);
    assert_eq!(found.len(), 49);
    assert!(found.iter().all(|(name, record)| whole[name] == *record));
    // The store may have assigned dots that only the damaged record had; they must not be assigned again.
    assert!(moved.identity.incarnation() > incarnation);
}

#[test]
fn a_damaged_list_of_keys_costs_pages_and_nothing_else_if_damage_is_accepted() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let opened = open("bitcask", base);
    put_pages(&*opened.engine, "set", 100);
    for number in 0..50 {
        put(&*opened.engine, &format!("k{number}"), &[number; 300]);
    }
    let expected = everything(&*opened.engine);
    close(opened);
    // A page of the set is damaged, too, so that the key file can't be rebuilt from the records.
    for (name, part) in [("0000002.log", 2), ("0000002.keys", 2)] {
        let path = base.join("bitcask").join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        let place = bytes.len() / part;
        bytes[place] ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    let refused = run(base, "bitcask", "leveldb", &NOTES, |_| false).unwrap_err();
    assert!(matches!(refused, ConvertError::Damaged { .. }), "{refused}");
    let accepting = CopySettings { accepts_damage: true, ..NOTES };
    assert!(run(base, "bitcask", "leveldb", &accepting, |_| false).unwrap());
    assert_eq!(everything(&*open("leveldb", base).engine), expected);
}

#[test]
fn a_record_that_the_new_engine_can_not_store_is_named() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let opened = open("bitcask", base);
    // In the names of an ordered engine each zero byte takes two bytes.
    let long = "\0".repeat(40_000);
    put(&*opened.engine, &long, b"v");
    put(&*opened.engine, "short", b"v");
    close(opened);
    let refused = run(base, "bitcask", "leveled", &NOTES, |_| false).unwrap_err();
    let ConvertError::Refused { record, reason } = &refused else { panic!("{refused}") };
    assert!(record.starts_with("default/bucket/\\x00\\x00"), "{}", &record[..40]);
    assert!(matches!(reason, StoreError::TooLarge { .. }), "{reason}");
    assert_eq!(BUCKET.bucket, b"bucket");
    let _ = try_open("bitcask", &base.join("bitcask")).unwrap();
}
