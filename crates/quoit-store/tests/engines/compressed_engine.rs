//! Tests of compression: its effects on values, and the values that it leaves unchanged.

use crate::support::indexes::{check_indexes, try_put_indexed};
use crate::support::{BUCKET, Name, expired, get, put, remove, try_put, value};
use parking_lot::Mutex;
use quoit_model::hash::{Identity, Partition, RingSize};
use quoit_model::key::BucketRef;
use quoit_seam::{FaultyDisk, ManualClock, ManualExecution};
use quoit_store::bitcask::{BitcaskEngine, BitcaskSettings};
use quoit_store::compressed::{CompressedEngine, CompressionChoice};
use quoit_store::engine::{
    Applied, BatchWrite, BeforeImage, Decision, Engine, Fetch, IoMode, PointAccess, RecordAt,
    RecordMeta, RecordRef, ScanAccess,
};
use quoit_store::error::StoreError;
use quoit_store::index::Tag;
use quoit_store::memory::{MemoryEngine, MemorySettings};
use std::sync::Arc;

/// Compresses everything or nothing, and records the buckets for which it was asked.
#[derive(Default)]
struct Switch {
    is_on: Mutex<bool>,
    asked: Mutex<Vec<Vec<u8>>>,
}

impl CompressionChoice for Switch {
    fn compresses(&self, bucket: BucketRef<'_>) -> bool {
        self.asked.lock().push(bucket.bucket.to_vec());
        *self.is_on.lock()
    }
}

/// An engine, and the compressing engine in front of it.
struct Both {
    engine: Arc<dyn Engine>,
    front: CompressedEngine,
    switch: Arc<Switch>,
}

impl Both {
    fn before(engine: Arc<dyn Engine>) -> Self {
        let switch = Arc::new(Switch::default());
        let choice: Arc<dyn CompressionChoice> = Arc::clone(&switch) as _;
        let both =
            Self { front: CompressedEngine::new(Arc::clone(&engine), choice), engine, switch };
        both.set(true);
        both
    }

    fn in_memory() -> Self {
        let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
        let settings = MemorySettings::default();
        Self::before(Arc::new(MemoryEngine::new(settings, RingSize::DEFAULT, clock)))
    }

    fn on_log() -> Self {
        let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
        let disk = Arc::new(FaultyDisk::new(1));
        let execution = ManualExecution::default();
        let opened = BitcaskEngine::open(disk, clock, &execution, BitcaskSettings::new(1));
        Self::before(Arc::new(opened.unwrap().0))
    }

    fn set(&self, is_on: bool) {
        *self.switch.is_on.lock() = is_on;
    }

    fn stored(&self, key: &str) -> Vec<u8> {
        value(&*self.engine, key).unwrap()
    }
}

fn text(number: usize) -> Vec<u8> {
    format!("line {number} of a text that says the same again and again\n").repeat(60).into_bytes()
}

fn fold(engine: &dyn Engine) -> Vec<(Vec<u8>, RecordMeta, Vec<u8>)> {
    let mut found = Vec::new();
    for number in 0..RingSize::DEFAULT.get() {
        let page = engine.fold(Partition(number), Identity(0), usize::MAX, false).unwrap();
        let entries = page.entries.into_iter();
        found.extend(
            entries.map(|(key, record)| (key.to_vec(), record.meta, record.value.to_vec())),
        );
    }
    found
}

#[test]
fn values_are_stored_compressed_and_read_as_they_were_given() {
    for both in [Both::in_memory(), Both::on_log()] {
        put(&both.front, "k", &text(1));
        assert!(both.stored("k").len() < text(1).len() / 4);
        assert_eq!(value(&both.front, "k").unwrap(), text(1));
        let large = text(1).repeat(100);
        put(&both.front, "large", &large);
        assert_eq!(value(&both.front, "large").unwrap(), large);
        assert!(both.stored("large").len() < large.len() / 4);
    }
}

#[test]
fn what_was_stored_before_a_switch_is_read_after_it_and_changes_with_its_next_write() {
    let both = Both::on_log();
    both.set(false);
    put(&both.front, "before", &text(1));
    assert_eq!(both.stored("before"), text(1));
    both.set(true);
    assert_eq!(value(&both.front, "before").unwrap(), text(1));
    put(&both.front, "since", &text(2));
    both.set(false);
    assert_eq!(value(&both.front, "since").unwrap(), text(2));
    assert!(both.stored("since").len() < text(2).len() / 4);
    put(&both.front, "since", &text(2));
    assert_eq!(both.stored("since"), text(2));
}

#[test]
fn copies_that_are_stored_differently_are_equal() {
    let (packed, plain) = (Both::on_log(), Both::in_memory());
    plain.set(false);
    for number in 0..20 {
        for both in [&packed, &plain] {
            put(&both.front, &format!("k{number}"), &text(number));
        }
    }
    let (one, other) = (packed.front.compared().unwrap(), plain.front.compared().unwrap());
    for number in 0..RingSize::DEFAULT.get() {
        let partition = Partition(number);
        assert_eq!(one.digests(partition, 0).unwrap(), other.digests(partition, 0).unwrap());
    }
    assert_eq!(fold(&packed.front), fold(&plain.front));
    let name = Name::new("k7");
    let tags = [Tag::of(name.at().identity)];
    let tagged = one.tagged(name.at().partition, &tags).unwrap();
    assert_eq!(tagged, other.tagged(name.at().partition, &tags).unwrap());
    assert_eq!(tagged[0].1.value, text(7));
}

#[test]
fn batches_and_transactions_compress_too() {
    let both = Both::on_log();
    let name = Name::new("k");
    let meta = RecordMeta::default();
    let value_of_k = text(1);
    let writes = [BatchWrite::Put { at: name.at(), meta, value: &value_of_k }];
    both.front.batch(&writes).unwrap();
    assert!(both.stored("k").len() < 1_000);
    let append = |transaction: &mut dyn quoit_store::engine::Transaction| {
        let stored = transaction.get(&name.at())?.unwrap();
        transaction.put(&name.at(), meta, &[&stored.value[..], b"more"].concat())
    };
    let mut append = append;
    both.front.transact(name.at().partition, IoMode::Wait, &mut append).unwrap();
    assert!(both.stored("k").len() < 1_000);
    assert_eq!(value(&both.front, "k").unwrap(), [&text(1)[..], b"more"].concat());
}

#[test]
fn pieces_are_stored_as_their_record_is() {
    let both = Both::in_memory();
    let owner = Name::new("large set");
    let encoded = BUCKET.key(b"large set").encoded();
    let piece = BucketRef::of_pieces(&encoded).key(b"page");
    let encoded_piece = piece.encoded();
    let at = RecordAt { key: piece, encoded: &encoded_piece, ..owner.at() };
    let page = text(3);
    let put = [BatchWrite::Put { at, meta: RecordMeta::PIECE, value: &page }];
    both.front.batch(&put).unwrap();
    assert_eq!(*both.switch.asked.lock(), [BUCKET.bucket.to_vec()]);
    let Fetch::Found(stored) = both.engine.get(&at, IoMode::Wait).unwrap() else { panic!() };
    assert!(stored.value.len() < 1_000);
    let Fetch::Found(shown) = both.front.get(&at, IoMode::Wait).unwrap() else { panic!() };
    assert_eq!(shown.value, page);
}

#[test]
fn small_values_and_those_that_do_not_shrink_are_left_as_they_are() {
    let both = Both::in_memory();
    put(&both.front, "small", b"small");
    assert_eq!(both.stored("small"), b"small");
    assert!(both.switch.asked.lock().is_empty(), "nobody has to be asked about a small value");
    let mut state = 7_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u8
    })
    .take(5_000)
    .collect();
    put(&both.front, "noise", &noise);
    assert_eq!(both.stored("noise"), noise);
}

#[test]
fn index_entries_of_compressed_objects_are_found_and_go_with_them() {
    let both = Both::on_log();
    for number in 0..30 {
        try_put_indexed(&both.front, &format!("k{number}"), number).unwrap();
    }
    let stored: usize = (0..30).map(|number| both.stored(&format!("k{number}")).len()).sum();
    assert!(stored < 30 * 400, "{stored}");
    check_indexes(&both.front);
    both.set(false);
    for number in 0..10 {
        try_put_indexed(&both.front, &format!("k{number}"), number + 7).unwrap();
        remove(&both.front, &format!("k{}", number + 10));
    }
    check_indexes(&both.front);
}

/// Tags of the records that a fold reports as damaged.
fn damaged_tags(engine: &dyn Engine) -> Vec<Tag> {
    let partitions = (0..RingSize::DEFAULT.get()).map(Partition);
    let page = |partition| engine.fold(partition, Identity(0), usize::MAX, false).unwrap();
    partitions.flat_map(|partition| page(partition).damaged).collect()
}

/// Stores a frame in the inner engine that can't be decompressed.
fn damage(both: &Both, key: &str) {
    put(&both.front, key, &text(1));
    let mut frame = both.stored(key);
    let end = frame.len() - 40;
    frame[end..].fill(0xFF);
    put(&*both.engine, key, &frame);
}

#[test]
fn a_damaged_frame_is_told_left_out_of_folds_and_can_be_replaced() {
    let both = Both::on_log();
    put(&both.front, "good", &text(2));
    damage(&both, "k");
    let told = |outcome: Result<Option<Vec<u8>>, StoreError>| match outcome {
        Err(StoreError::Corrupt { path, reason, .. }) => {
            assert!(path == "the value of k" && reason.contains("damaged"), "{path}: {reason}");
        }
        other => panic!("{other:?}"),
    };
    told(get(&both.front, "k"));
    let name = Name::new("k");
    told(both.front.show(&name.at(), IoMode::Wait, &mut |_| panic!("shown")).map(|_| None));
    let mut change = |_: Option<&RecordRef<'_>>, _: &mut Vec<u8>| panic!("shown");
    told(both.front.update(&name.at(), BeforeImage::Read, IoMode::Wait, &mut change).map(|_| None));
    let mut body = |transaction: &mut dyn quoit_store::engine::Transaction| {
        transaction.get(&name.at()).map(|_| ())
    };
    told(both.front.transact(name.at().partition, IoMode::Wait, &mut body).map(|_| None));
    assert_eq!(fold(&both.front).len(), 1);
    assert_eq!(damaged_tags(&both.front), [Tag::of(name.at().identity)]);
    let mut change = |_: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
        out.extend_from_slice(&text(3));
        Decision::Put(RecordMeta::default())
    };
    both.front.update(&name.at(), BeforeImage::Skip, IoMode::Wait, &mut change).unwrap();
    assert_eq!(value(&both.front, "k").unwrap(), text(3));
}

#[test]
fn a_change_that_wants_only_the_front_has_nothing_decompressed() {
    for both in [Both::on_log(), Both::in_memory()] {
        // Any attempt to decompress this frame would fail.
        damage(&both, "k");
        let mut front = Vec::new();
        let mut change = |stored: Option<&RecordRef<'_>>, out: &mut Vec<u8>| {
            let stored = stored.unwrap();
            assert!(!stored.is_whole);
            front = stored.value.to_vec();
            out.extend_from_slice(b"new");
            Decision::Put(RecordMeta::default())
        };
        let name = Name::new("k");
        let applied = both.front.update(&name.at(), BeforeImage::Front, IoMode::Wait, &mut change);
        assert!(matches!(applied.unwrap(), Applied::Written(_)));
        assert!(text(1).starts_with(&front) && front.len() >= 192, "{}", front.len());
        assert_eq!(value(&both.front, "k").unwrap(), b"new");
    }
}

#[test]
fn a_full_engine_refuses_by_what_it_would_store() {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    let settings = MemorySettings { partition_bytes_max: Some(2_000), ..MemorySettings::default() };
    let both = Both::before(Arc::new(MemoryEngine::new(settings, RingSize::DEFAULT, clock)));
    put(&both.front, "k", &text(1));
    assert_eq!(value(&both.front, "k").unwrap(), text(1));
    both.set(false);
    let refused = try_put(&both.front, "k", &text(1), RecordMeta::default());
    assert!(matches!(refused, Err(StoreError::TooLarge { .. })), "{refused:?}");
}

#[test]
fn an_expired_overwrite_leaves_a_tombstone_that_the_engine_behind_finds_in_the_frame() {
    let clock = Arc::new(ManualClock::at(1_700_000_000_000_000));
    let settings = MemorySettings::default();
    let engine = MemoryEngine::new(settings, RingSize::DEFAULT, Arc::clone(&clock) as _);
    let both = Both::before(Arc::new(engine));
    // Each write reclaims some memory of expired records.
    let write = || {
        put(&both.front, "other", b"value");
        remove(&both.front, "other");
    };
    expired::an_expired_overwrite_leaves_a_tombstone(&both.front, &clock, write);
}
