//! Tests of conversions: a kill between any two steps of the switch, page sizes, records that expire
//! meanwhile, what the enclosing store of several engines learns, and files that don't belong to a
//! conversion.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::switch::meta_of;
use super::*;
use crate::bitcask::{BitcaskEngine, BitcaskSettings};
use crate::engine::{BatchWrite, Engine, Maintenance, RecordMeta};
use crate::engine_of;
use crate::identity;
use crate::ordered::{OrderedEngine, OrderedSettings, TreeSettings};
use crate::record::RecordAt;
use crate::store_file::Meta;
use quoit_model::hash::{KeyHash, Partition, PlacementRule, RingSize};
use quoit_model::key::BucketRef;
use quoit_model::store_opening::StoreId;
use quoit_seam::{Disk, ManualClock, ManualExecution, RealDisk};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

const NOW_SECS: u64 = 1_700_000_000;
const HOUR_US: u64 = 3_600_000_000;

/// A conversion that has begun, from bitcask to innostore, and both engines.
struct Begun {
    conversion: Conversion,
    old: BitcaskEngine,
    new: OrderedEngine,
    clock: Arc<ManualClock>,
}

fn open_old(base: &Path, name: &str, clock: &Arc<ManualClock>) -> BitcaskEngine {
    let disk = Arc::new(RealDisk::open(base.join(name)).unwrap());
    let execution = ManualExecution::default();
    BitcaskEngine::open(disk, clock.clone(), &execution, BitcaskSettings::new(1)).unwrap().0
}

fn try_begin(base: &Path, old_name: &str, new_name: &str) -> Result<Conversion, ConvertError> {
    let started = StartedConversion {
        from: "bitcask".into(),
        to: "innostore".into(),
        old_name: old_name.into(),
        new_name: new_name.into(),
        is_complete: false,
    };
    Conversion::begin(base, RingSize::DEFAULT, started)
}

fn begun(base: &Path, old_name: &str, new_name: &str) -> Begun {
    let clock = Arc::new(ManualClock::at(NOW_SECS * 1_000_000));
    let old = open_old(base, old_name, &clock);
    let conversion = try_begin(base, old_name, new_name).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(conversion.new_path()).unwrap());
    let (settings, of_tree) = (OrderedSettings::new(1), TreeSettings::default());
    let execution = ManualExecution::default();
    let new = OrderedEngine::open_innostore(&disk, clock.clone(), &execution, settings, of_tree);
    Begun { conversion, old, new: new.unwrap().0, clock }
}

impl Begun {
    fn copy(
        &mut self,
        accepts_damage: bool,
        observe: &mut dyn FnMut(&Progress),
    ) -> Result<(), ConvertError> {
        let notes = CopySettings { every_bytes: 1, clock: &*self.clock, accepts_damage };
        self.conversion.copy(&self.old, &self.new, &notes, observe)
    }

    fn complete(mut self) {
        self.new.close().unwrap();
        self.old.close().unwrap();
        self.conversion.complete().unwrap();
    }
}

fn made(base: &Path, old_name: &str, new_name: &str) {
    let mut begun = begun(base, old_name, new_name);
    begun.copy(false, &mut |_| {}).unwrap();
    begun.complete();
}

const BUCKET: BucketRef<'static> = BucketRef { bucket_type: b"default", bucket: b"bucket" };

fn partition_of(key: &str) -> Partition {
    let encoded = BUCKET.key(key.as_bytes()).encoded();
    let hash = KeyHash::of(&encoded, BUCKET, PlacementRule::BucketAndKey);
    RingSize::DEFAULT.partition(hash.placement)
}

fn put(engine: &dyn Engine, key: &str, value: &[u8], expires_at_secs: u32) {
    let encoded = BUCKET.key(key.as_bytes()).encoded();
    let at = RecordAt::of(BUCKET.key(key.as_bytes()), &encoded, partition_of(key));
    let meta = RecordMeta { expires_at_secs, ..RecordMeta::default() };
    engine.batch(&[BatchWrite::Put { at, meta, value }]).unwrap();
}

/// Writes `count` records that belong to one partition.
fn put_many(engine: &dyn Engine, partition: u16, count: usize, value: &[u8]) {
    let keys = (0..).map(|number| format!("k{number}"));
    let there = keys.filter(|key| partition_of(key) == Partition(partition));
    there.take(count).for_each(|key| put(engine, &key, value, 0));
}

#[test]
fn a_switch_that_is_killed_between_any_two_steps_is_finished() {
    for (old_name, new_name) in [("bitcask", "innostore"), ("fast", "fast")] {
        let mut step_count = usize::MAX;
        let mut killed_after = 0;
        while killed_after < step_count {
            let base = tempfile::tempdir().unwrap();
            let base = base.path();
            made(base, old_name, new_name);
            let mut done = 0;
            // The first steps run one by one, as if each process were killed after its step. The last
            // process runs the rest.
            while done < killed_after {
                let resumed = Conversion::resume(base, RingSize::DEFAULT).unwrap();
                let Some(resumed) = resumed else { break };
                assert!(resumed.started().is_complete);
                resumed.step().unwrap();
                done += 1;
            }
            if let Some(resumed) = Conversion::resume(base, RingSize::DEFAULT).unwrap() {
                resumed.switch().unwrap();
            } else {
                step_count = done;
            }
            assert_eq!(started_conversion(base).unwrap(), None);
            let disk = RealDisk::open(base.join(new_name)).unwrap();
            assert_eq!(engine_of(&disk).unwrap().as_deref(), Some("innostore"));
            assert_eq!(base.join(old_name).exists(), old_name == new_name);
            assert!(!base.join("converting/old").exists() && !base.join("converting/new").exists());
            killed_after += 1;
        }
        assert!(step_count >= 3, "{step_count}");
    }
}

#[test]
fn a_new_store_takes_over_whose_it_is_and_nothing_about_the_old_files() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let old = open_old(base, "bitcask", &Arc::new(ManualClock::at(NOW_SECS * 1_000_000)));
    let mut of_old = meta_of(&base.join("bitcask")).unwrap().1.unwrap();
    let carried = Meta {
        clean: true,
        store_id: of_old.meta().store_id,
        incarnation: 3,
        reserved_counter: 40,
        exported_counter: 30,
        has_lost: true,
        ..Meta::default()
    };
    let of_files = Meta {
        last_created_segment: 7,
        retired_sequence: 100,
        opened_sequence: 90,
        closed_segments: 5,
        known_damage: 4,
        retiring: vec![2],
        ..carried.clone()
    };
    of_old.write(of_files).unwrap();
    let conversion = try_begin(base, "bitcask", "innostore").unwrap();
    assert_eq!(*meta_of(&conversion.new_path()).unwrap().1.unwrap().meta(), carried);
    drop(old);
}

#[test]
fn the_new_data_can_not_be_given_up() {
    let base = tempfile::tempdir().unwrap();
    made(base.path(), "bitcask", "innostore");
    assert!(matches!(resumed(base.path()).abandon(), Err(ConvertError::TooLate)));
    assert!(started_conversion(base.path()).unwrap().is_some_and(|started| started.is_complete));
}

fn resumed(base: &Path) -> Conversion {
    Conversion::resume(base, RingSize::DEFAULT).unwrap().unwrap()
}

#[test]
fn what_is_not_of_a_conversion_stops_it_and_is_never_removed() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    drop(open_old(base, "log", &Arc::new(ManualClock::at(NOW_SECS * 1_000_000))));
    // An engine of the store may be named like the directory of conversions.
    let theirs = base.join("converting/0000001.log");
    let put_theirs = || {
        std::fs::create_dir_all(base.join("converting")).unwrap();
        std::fs::write(&theirs, b"theirs").unwrap();
    };
    put_theirs();
    let refused = try_begin(base, "log", "log").unwrap_err();
    assert!(matches!(refused, ConvertError::WorkExists { .. }), "{refused}");
    assert!(refused.to_string().contains("converting/0000001.log"), "{refused}");
    assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
    assert_eq!(started_conversion(base).unwrap(), None);
    std::fs::remove_dir_all(base.join("converting")).unwrap();

    // A foreign file that appears later isn't removed either.
    drop(begun(base, "log", "log"));
    put_theirs();
    resumed(base).abandon().unwrap();
    assert_eq!(std::fs::read_dir(base.join("converting")).unwrap().count(), 1);
    std::fs::remove_file(&theirs).unwrap();
    made(base, "log", "log");
    put_theirs();
    resumed(base).switch().unwrap();
    assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
    assert_eq!(std::fs::read_dir(base.join("converting")).unwrap().count(), 1);
    assert_eq!(started_conversion(base).unwrap(), None);
}

#[test]
fn what_a_crash_has_left_of_the_conversion_before_is_no_hindrance() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    // The crash came after CONVERSION was removed and before the directories were removed.
    for left in ["old", "new"] {
        std::fs::create_dir_all(base.join("converting").join(left)).unwrap();
        std::fs::write(base.join("converting").join(left).join("0000001.log"), b"old").unwrap();
    }
    made(base, "bitcask", "innostore");
    resumed(base).switch().unwrap();
    assert!(!base.join("converting").exists() && !base.join("bitcask").exists());
    let disk = RealDisk::open(base.join("innostore")).unwrap();
    assert_eq!(engine_of(&disk).unwrap().as_deref(), Some("innostore"));
}

#[test]
fn a_store_that_has_become_another_one_since_the_conversion_began_is_not_gone_on_with() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let Begun { mut conversion, old, new, clock } = begun(base, "bitcask", "innostore");
    drop(new);
    std::fs::write(conversion.new_path().join("STORE"), [0; 8_192]).unwrap();
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::open(conversion.new_path()).unwrap());
    let (settings, of_tree) = (OrderedSettings::new(2), TreeSettings::default());
    let execution = ManualExecution::default();
    let new = OrderedEngine::open_innostore(&disk, clock.clone(), &execution, settings, of_tree);
    let new = new.unwrap().0;
    assert_eq!((old.identity().store_id(), new.identity().store_id()), (StoreId(1), StoreId(2)));
    put(&old, "key", b"value", 0);
    let notes = CopySettings { every_bytes: 1, clock: &*clock, accepts_damage: false };
    let observe = &mut |_: &Progress| panic!("something was copied");
    let refused = conversion.copy(&old, &new, &notes, observe).unwrap_err();
    assert!(matches!(refused, ConvertError::OtherStore { .. }), "{refused}");
    assert!(refused.to_string().contains("--abandon"), "{refused}");
    resumed(base).abandon().unwrap();
    assert_eq!(started_conversion(base).unwrap(), None);
}

#[test]
fn large_records_are_read_a_few_at_a_time_whatever_came_before() {
    const MIB: u64 = 1 << 20;
    let base = tempfile::tempdir().unwrap();
    let mut begun = begun(base.path(), "bitcask", "innostore");
    put_many(&begun.old, 0, 10, &vec![7; MIB as usize]);
    put_many(&begun.old, 1, 600, b"small");
    put_many(&begun.old, 2, 10, &vec![7; MIB as usize]);
    let mut pages = Vec::new();
    let mut before = (0, 0);
    let observe = &mut |progress: &Progress| {
        let page = (progress.record_count - before.0, progress.byte_count - before.1);
        before = (progress.record_count, progress.byte_count);
        pages.push((progress.partition, page));
    };
    begun.copy(false, observe).unwrap();
    let largest = pages.iter().map(|(_, (_, bytes))| *bytes).max();
    assert!(largest.unwrap() <= 4 * MIB, "{pages:?}");
    let counts = |of| pages.iter().filter(move |page| page.0 == of).map(|(_, page)| page.0);
    for large in [0, 2] {
        assert_eq!(counts(large).collect::<Vec<_>>()[..4], [1, 2, 3, 3]);
    }
    // The page size soon grows for small records.
    assert_eq!(counts(1).max(), Some(256));
    assert!(counts(1).count() <= 11, "{pages:?}");
}

#[test]
fn what_expires_while_the_rest_is_copied_is_not_taken_for_damage() {
    let base = tempfile::tempdir().unwrap();
    let mut begun = begun(base.path(), "bitcask", "innostore");
    for number in 0..200 {
        put(&begun.old, &format!("short{number}"), b"v", NOW_SECS as u32 + 3 * 3_600);
        put(&begun.old, &format!("long{number}"), b"v", NOW_SECS as u32 + 9 * 3_600);
    }
    let clock = Arc::clone(&begun.clock);
    let mut page_count = 0;
    let observe = &mut |_: &Progress| {
        page_count += 1;
        if page_count == 50 {
            clock.advance_us(4 * HOUR_US);
        }
    };
    begun.copy(false, observe).unwrap();
    assert!(!begun.conversion.lacks_records());
    assert!((200..400).contains(&begun.conversion.record_count()), "not all had expired");
}

/// Damages a value of a closed bitcask engine.
fn damage_value(directory: &Path, value: &[u8]) {
    let segment = directory.join("0000001.log");
    let mut bytes = std::fs::read(&segment).unwrap();
    let place = bytes.windows(value.len()).position(|window| window == value).unwrap();
    bytes[place + value.len() / 3] ^= 1;
    std::fs::write(&segment, bytes).unwrap();
}

#[test]
fn what_the_first_part_could_not_read_is_remembered_by_the_next() {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let old = open_old(base, "bitcask", &Arc::new(ManualClock::at(NOW_SECS * 1_000_000)));
    (0..20).for_each(|number| put(&old, &format!("k{number}"), &[number; 300], 0));
    old.close().unwrap();
    drop(old);
    damage_value(&base.join("bitcask"), &[9; 300]);
    let mut begun = begun(base, "bitcask", "innostore");
    // The process is killed after copying and before comparing.
    let killed = catch_unwind(AssertUnwindSafe(|| {
        begun.copy(false, &mut |progress| {
            let is_last = progress.partition + 1 == RingSize::DEFAULT.get();
            assert!(!is_last, "killed");
        })
    }));
    assert!(killed.is_err());
    let resumed = Conversion::resume(base, RingSize::DEFAULT).unwrap().unwrap();
    assert!(resumed.lacks_records());
    // Reported at the end, whatever a comparison of the engines then says.
    begun.conversion = resumed;
    assert!(matches!(begun.copy(false, &mut |_| {}), Err(ConvertError::Damaged { .. })));
    begun.copy(true, &mut |_| {}).unwrap();
    assert!(begun.conversion.lacks_records());
}

/// Incarnation of a store of several engines that is opened again after one of them was converted.
fn incarnation_after(damaged: bool) -> u64 {
    let base = tempfile::tempdir().unwrap();
    let base = base.path();
    let of_all = RealDisk::open(base).unwrap();
    let mut meta = identity::open(&of_all, 9).unwrap().meta;
    meta.write(Meta { clean: true, ..meta.meta().clone() }).unwrap();
    let old = open_old(base, "fast", &Arc::new(ManualClock::at(NOW_SECS * 1_000_000)));
    (0..20).for_each(|number| put(&old, &format!("k{number}"), &[number; 300], 0));
    old.close().unwrap();
    drop(old);
    if damaged {
        damage_value(&base.join("fast"), &[9; 300]);
    }
    let mut begun = begun(base, "fast", "fast");
    begun.copy(true, &mut |_| {}).unwrap();
    assert_eq!(begun.conversion.lacks_records(), damaged);
    begun.complete();
    // As in another process, which hasn't seen which records are missing.
    let resumed = resumed(base);
    assert_eq!(resumed.lacks_records(), damaged);
    resumed.switch().unwrap();
    let reopened = identity::open(&of_all, 10).unwrap();
    assert_eq!((reopened.meta.meta().store_id, reopened.created), (StoreId(9), false));
    reopened.meta.meta().incarnation
}

#[test]
fn a_store_of_several_engines_begins_a_new_incarnation_if_one_of_them_lacks_records() {
    assert_eq!(incarnation_after(true), 2);
    assert_eq!(incarnation_after(false), 1);
}
